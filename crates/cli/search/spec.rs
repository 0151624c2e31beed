//! The words of a search: what is swept, what is looked for, what is left out of a point.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// More points than these are a slip.
const POINTS_MAX: usize = 1_000;

/// Loads to be measured one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Sweep {
    /// Closed loops of so many in flight.
    Concurrency(Vec<u32>),
    /// Open loops of so many requests per second.
    Rate(Vec<f64>),
}

const FORM: &str = "write a sweep as concurrency=1,2,4, rate=10,20.5, or with a range such as \
                    concurrency=1..64*2 or rate=10..50+10";

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, list) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` has no `=`; {FORM}"))?;
        let mut values = Vec::new();
        for part in list
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            values.extend(expand(part)?);
            if values.len() > POINTS_MAX {
                return Err(format!("a sweep has at most {POINTS_MAX} points"));
            }
        }
        if values.is_empty() {
            return Err(format!("`{text}` names no load; {FORM}"));
        }
        match kind.trim() {
            "concurrency" => {
                let levels: Result<_, String> = values.into_iter().map(level).collect();
                Ok(Self::Concurrency(levels?))
            }
            "rate" | "request-rate" => match values.iter().find(|rate| **rate <= 0.0) {
                Some(rate) => Err(format!(
                    "a rate of {rate} sends nothing; it must be above 0"
                )),
                None => Ok(Self::Rate(values)),
            },
            other => Err(format!("`{other}` can't be swept; {FORM}")),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number between 1 and u32::MAX"
)]
fn level(value: f64) -> Result<u32, String> {
    if value.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&value) {
        return Ok(value as u32);
    }
    Err(format!(
        "a concurrency of {value} can't be had: it is a whole number, 1 or more"
    ))
}

/// `5`, `1..64*2` or `10..50+10`, ends included.
fn expand(part: &str) -> Result<Vec<f64>, String> {
    let Some((from, rest)) = part.split_once("..") else {
        return Ok(vec![number(part)?]);
    };
    let step = rest.find(['*', '+']);
    let Some((to, step)) = step.map(|place| rest.split_at(place)) else {
        return Err(format!("`{part}` has no step; {FORM}"));
    };
    let (mut at, to) = (number(from)?, number(to)?);
    let (grows, size) = (step.starts_with('*'), number(&step[1..])?);
    let is_forward = if grows {
        size > 1.0 && at > 0.0
    } else {
        size > 0.0
    };
    if !is_forward {
        return Err(format!("`{part}` does not go up; {FORM}"));
    }
    let mut values = Vec::new();
    // What rounding adds to the last step does not lose it.
    while at <= to * (1.0 + 1e-9) {
        values.push(at);
        if values.len() > POINTS_MAX {
            return Err(format!("a sweep has at most {POINTS_MAX} points"));
        }
        at = if grows { at * size } else { at + size };
    }
    Ok(values)
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number; {FORM}"))
}

/// The list in full.
impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: Vec<String>| values.join(",");
        match self {
            Self::Concurrency(levels) => {
                let levels = levels.iter().map(ToString::to_string);
                write!(f, "concurrency={}", list(levels.collect()))
            }
            Self::Rate(rates) => {
                let rates = rates.iter().map(ToString::to_string);
                write!(f, "rate={}", list(rates.collect()))
            }
        }
    }
}

impl TryFrom<String> for Sweep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sweep> for String {
    fn from(sweep: Sweep) -> Self {
        sweep.to_string()
    }
}

impl JsonSchema for Sweep {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Loads to measure one after the other: concurrency=1,2,4, rate=10,20, or \
                            with a range: concurrency=1..64*2, rate=10..50+10.",
            "pattern": "^(concurrency|rate|request-rate)="
        })
    }
}

/// What a search looks for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Find {
    /// The requests in flight beyond which more of them only wait
    Knee,
    /// The highest rate that meets every service level
    MaxRate,
}

/// What of a point its figures leave out.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Warmup {
    /// Its beginning, as long as it differs from the rest (MSER-5)
    Auto,
    /// Nothing but the requests of --warmup-requests
    Fixed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let levels = |text: &str| match text.parse::<Sweep>().unwrap() {
            Sweep::Concurrency(levels) => levels,
            Sweep::Rate(_) => panic!("a concurrency"),
        };
        assert_eq!(levels("concurrency=1,2,4"), [1, 2, 4]);
        assert_eq!(levels("concurrency=1..64*2"), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(levels("concurrency=1, 10..30+10"), [1, 10, 20, 30]);
        assert_eq!(
            "rate=0.1..0.3+0.1".parse::<Sweep>().unwrap().to_string(),
            "rate=0.1,0.2,0.30000000000000004"
        );
        let sweep: Sweep = serde_saphyr::from_str("rate=10,20.5").unwrap();
        assert_eq!(sweep, Sweep::Rate(vec![10.0, 20.5]));
        assert_eq!(serde_json::to_value(&sweep).unwrap(), "rate=10,20.5");
    }

    #[test]
    fn mistakes_are_answered_with_the_form() {
        for (text, part) in [
            ("", "has no `=`"),
            ("concurrency", "has no `=`"),
            ("concurrency=", "names no load"),
            ("isl=1,2", "`isl` can't be swept"),
            ("concurrency=0", "a concurrency of 0 can't be had"),
            ("concurrency=1.5", "a concurrency of 1.5 can't be had"),
            ("concurrency=1..64", "has no step"),
            ("concurrency=1..64*1", "does not go up"),
            ("concurrency=8..1*2", "names no load"),
            ("rate=0..5+0", "does not go up"),
            ("rate=0", "a rate of 0 sends nothing"),
            ("rate=fast", "`fast` is not a number"),
            ("rate=inf", "`inf` is not a number"),
            ("rate=1..1e9+1", "at most 1000 points"),
        ] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
