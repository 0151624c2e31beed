use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_clock::{DurationError, Nanos, parse_duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time as a person writes it: `500ms`, `10s`, `1m30s`, or a bare number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Nanos);

impl FromStr for Span {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let text = text.trim();
        let is_bare = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
        if is_bare && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return parse_duration(&format!("{text}s")).map(Self);
        }
        parse_duration(text).map(Self)
    }
}

/// The largest unit in which it is a whole number; read back as the same span.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.0;
        for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
            if ns.is_multiple_of(scale) {
                return write!(f, "{}{unit}", ns / scale);
            }
        }
        write!(f, "{ns}ns")
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl serde::de::Visitor<'_> for Written {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a span of time such as 500ms, 10s or 1m30s")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<Span, E> {
                Ok(Span(Nanos::from_secs(seconds)))
            }
            fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<Span, E> {
                seconds.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "description": "A span of time: 500ms, 10s, 1m30s, 750us; a bare number is seconds."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ns) in [
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("10", 10_000_000_000),
            ("0.5", 500_000_000),
            ("750us", 750_000),
            ("1m30s", 90_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().0, Nanos(ns), "{text}");
        }
        for wrong in ["", "fast", "-5s", "5 parsecs", "1e9", "."] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["500ms", "10s", "750us", "3ns", "1500ms", "0s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_file_may_give_seconds_as_a_number() {
        for (yaml, ns) in [
            ("5", 5_000_000_000),
            ("0.25", 250_000_000),
            ("2ms", 2_000_000),
        ] {
            assert_eq!(
                serde_saphyr::from_str::<Span>(yaml).unwrap().0,
                Nanos(ns),
                "{yaml}"
            );
        }
        assert!(serde_saphyr::from_str::<Span>("-1").is_err());
        assert!(serde_saphyr::from_str::<Span>("[1]").is_err());
    }
}
