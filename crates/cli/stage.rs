use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::ArrivalPattern;
use crate::span::Span;

/// One stage of a rate that changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Stage {
    /// Requests per second.
    pub(crate) rate: f64,
    /// How long it lasts; the last stage may go on until the run's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Span>,
    /// How its arrivals are spaced, where not as the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pattern: Option<ArrivalPattern>,
    /// The shape of gamma arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burstiness: Option<f64>,
}

/// The same as a mapping.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    rate: f64,
    duration: Option<Span>,
    pattern: Option<ArrivalPattern>,
    burstiness: Option<f64>,
}

const FORM: &str = "write a stage as rate=100,duration=30s[,pattern=constant]";

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut rate, mut duration, mut pattern, mut burstiness) = (None, None, None, None);
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` has no `=`; {FORM}"))?;
            let number = || {
                let number = value
                    .trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|number| number.is_finite());
                number.ok_or_else(|| format!("`{value}` is not a number; {FORM}"))
            };
            match key.trim() {
                "rate" => rate = Some(number()?),
                "burstiness" => burstiness = Some(number()?),
                "duration" => duration = Some(value.parse::<Span>().map_err(|e| e.to_string())?),
                "pattern" => {
                    let named = <ArrivalPattern as clap::ValueEnum>::from_str(value.trim(), false);
                    pattern = Some(named.map_err(|_| {
                        format!("`{value}` is no pattern: constant, poisson or gamma")
                    })?);
                }
                key => return Err(format!("a stage has no `{key}`; {FORM}")),
            }
        }
        let rate = rate.ok_or_else(|| format!("the rate is missing; {FORM}"))?;
        Ok(Self {
            rate,
            duration,
            pattern,
            burstiness,
        })
    }
}

/// From its text, or from a mapping.
impl<'de> Deserialize<'de> for Stage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> serde::de::Visitor<'de> for Written {
            type Value = Stage;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a stage such as {rate: 100, duration: 30s}")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Stage, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Stage, A::Error> {
                let Mapping {
                    rate,
                    duration,
                    pattern,
                    burstiness,
                } = Mapping::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Stage {
                    rate,
                    duration,
                    pattern,
                    burstiness,
                })
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Stage {
    fn schema_name() -> Cow<'static, str> {
        "Stage".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["object", "string"],
            "description": "One stage of a rate: {rate: 100, duration: 30s, pattern: constant}.",
            "properties": {
                "rate": {"type": "number"},
                "duration": {"type": ["string", "number"]},
                "pattern": {"enum": ["constant", "poisson", "gamma"]},
                "burstiness": {"type": "number"}
            },
            "required": ["rate"],
            "additionalProperties": false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_mean_the_same() {
        let flag: Stage = "rate=100, duration=30s, pattern=constant".parse().unwrap();
        let yaml: Stage =
            serde_saphyr::from_str("{rate: 100, duration: 30s, pattern: constant}").unwrap();
        let text: Stage = serde_saphyr::from_str("rate=100,duration=30,pattern=constant").unwrap();
        assert_eq!((flag, flag), (yaml, text));
        assert_eq!("rate=5".parse::<Stage>().unwrap().duration, None);
    }

    #[test]
    fn mistakes_are_answered_with_the_form() {
        for (text, part) in [
            ("", "the rate is missing"),
            ("duration=3s", "the rate is missing"),
            ("100", "has no `=`"),
            ("rate=fast", "`fast` is not a number"),
            ("rate=1,length=2", "a stage has no `length`"),
            ("rate=1,pattern=even", "`even` is no pattern"),
            ("rate=1,duration=1x", "unknown unit"),
        ] {
            let error = text.parse::<Stage>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(serde_saphyr::from_str::<Stage>("{rate: 1, length: 2}").is_err());
    }
}
