use std::error::Error;
use std::fmt;

use crate::Nanos;

/// Reads a span as people write it: `500ms`, `2s`, `750us`, `1.5s`, `1m30s`.
///
/// Units are `ns`, `us` (or `µs`), `ms`, `s`, `m`, `h`, and each number needs one: peers disagree on
/// what a bare number means. Digits beyond the nanosecond are cut off.
///
/// # Errors
/// When the text is no span, or one that does not fit [`Nanos`].
pub fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    let error = |cause| DurationError {
        text: text.chars().take(40).collect(),
        cause,
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(error(Cause::NoNumber));
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number;
        (number, rest) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let unit;
        (unit, rest) = split(rest, |c| !c.is_ascii_digit() && c != '.');
        let unit_ns = unit_ns(unit.trim()).map_err(error)?;
        total += span_ns(number, unit_ns).ok_or_else(|| error(Cause::NoNumber))?;
        if total >= u128::from(Nanos::MAX.0) {
            return Err(error(Cause::TooLong));
        }
    }
    Ok(Nanos(u64::try_from(total).unwrap_or(u64::MAX)))
}

fn split(text: &str, first: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !first(c)).unwrap_or(text.len()))
}

fn unit_ns(unit: &str) -> Result<u128, Cause> {
    Ok(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(Cause::NoUnit),
        _ => return Err(Cause::UnknownUnit),
    })
}

/// `number` units, exact; `None` when it is not a number of at most 18 digits a side.
fn span_ns(number: &str, unit_ns: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| -> Option<u128> {
        match text.len() {
            0 => Some(0),
            1..=18 => text.parse().ok(),
            _ => None,
        }
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len().min(18)).ok()?);
    Some(digits(whole)? * unit_ns + digits(fraction)? * unit_ns / scale)
}

/// A text that is no span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    NoNumber,
    NoUnit,
    UnknownUnit,
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, cause } = self;
        match cause {
            Cause::NoNumber => write!(f, "`{text}` is not a duration; write one like `500ms`"),
            Cause::NoUnit => write!(f, "`{text}` lacks a unit; write `{text}ms` or `{text}s`"),
            Cause::UnknownUnit => {
                write!(f, "`{text}` has an unknown unit; use ns, us, ms, s, m or h")
            }
            Cause::TooLong => write!(f, "`{text}` is too long a duration (at most 584 years)"),
        }
    }
}

impl Error for DurationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_exactly() {
        for (text, ns) in [
            ("500ms", 500_000_000),
            ("2s", 2_000_000_000),
            ("750us", 750_000),
            ("750µs", 750_000),
            ("1m", 60_000_000_000),
            ("1h", 3_600_000_000_000),
            ("17ns", 17),
            ("0s", 0),
            ("1.5s", 1_500_000_000),
            (".25ms", 250_000),
            ("0.1s", 100_000_000),
            ("1.9ns", 1),
            ("1m30s", 90_000_000_000),
            (" 5 ms ", 5_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_with_the_remedy() {
        for (text, message) in [
            ("", "`` is not a duration; write one like `500ms`"),
            ("ms", "`ms` is not a duration; write one like `500ms`"),
            (".s", "`.s` is not a duration; write one like `500ms`"),
            (
                "-1s",
                "`-1s` has an unknown unit; use ns, us, ms, s, m or h",
            ),
            (
                "1.2.3s",
                "`1.2.3s` is not a duration; write one like `500ms`",
            ),
            ("500", "`500` lacks a unit; write `500ms` or `500s`"),
            (
                "5sec",
                "`5sec` has an unknown unit; use ns, us, ms, s, m or h",
            ),
            (
                "9999999h",
                "`9999999h` is too long a duration (at most 584 years)",
            ),
            (
                "1e3s",
                "`1e3s` has an unknown unit; use ns, us, ms, s, m or h",
            ),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), message);
        }
        assert!(parse_duration(&"9".repeat(100_000)).is_err());
        assert!(parse_duration(&"1s".repeat(100_000)).is_ok());
    }
}
