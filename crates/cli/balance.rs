//! Several endpoints: how they are written, and how requests are dealt out to them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_engine::{self as engine, WEIGHTS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::complaint::Complaint;

/// How requests are dealt out: `round-robin`, `least-in-flight`, `session`, or `weights=3,1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Balance {
    RoundRobin,
    LeastInFlight,
    Session,
    Weights(Vec<u32>),
}

/// More endpoints are no load balancing any more.
const ENDPOINTS_MAX: usize = 1_024;

impl Balance {
    /// For so many endpoints.
    pub(crate) fn engine(&self, endpoints: usize) -> Result<engine::Balance, Complaint> {
        if endpoints > ENDPOINTS_MAX {
            return Err(Complaint::new(format!(
                "--url: {endpoints} endpoints are more than {ENDPOINTS_MAX}"
            )));
        }
        let weights = match self {
            Self::LeastInFlight => return Ok(engine::Balance::LeastInFlight),
            Self::Session => return Ok(engine::Balance::BySession),
            Self::RoundRobin => return Ok(engine::Balance::InTurn(vec![1; endpoints])),
            Self::Weights(weights) => weights,
        };
        let wrong = |why: String| Err(Complaint::new(format!("--balance {self}: {why}")));
        let sum: u64 = weights.iter().copied().map(u64::from).sum();
        if weights.len() != endpoints {
            return wrong(format!(
                "there are {} weights, and {endpoints} endpoints: name one for each --url, in their order",
                weights.len()
            ));
        }
        if sum == 0 || sum > u64::from(WEIGHTS_MAX) {
            return wrong(format!(
                "the weights add up to {sum}: it must be 1 to {WEIGHTS_MAX}"
            ));
        }
        Ok(engine::Balance::InTurn(weights.clone()))
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "round-robin" => Ok(Self::RoundRobin),
            "least-in-flight" => Ok(Self::LeastInFlight),
            "session" => Ok(Self::Session),
            other => {
                let weights = other.strip_prefix("weights=").and_then(|list| {
                    let weights = list.split(',').map(|weight| weight.trim().parse());
                    weights.collect::<Result<Vec<u32>, _>>().ok()
                });
                weights.map(Self::Weights).ok_or_else(|| {
                    format!(
                        "`{other}` is not one of round-robin, least-in-flight, session, weights=3,1"
                    )
                })
            }
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundRobin => f.write_str("round-robin"),
            Self::LeastInFlight => f.write_str("least-in-flight"),
            Self::Session => f.write_str("session"),
            Self::Weights(weights) => {
                let weights: Vec<String> = weights.iter().map(u32::to_string).collect();
                write!(f, "weights={}", weights.join(","))
            }
        }
    }
}

impl Serialize for Balance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Balance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Balance {
    fn schema_name() -> Cow<'static, str> {
        "Balance".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "round-robin, least-in-flight, session, or weights=3,1: one for each url, in their order."
        })
    }
}

/// URLs in a file: one, or a list.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum Urls {
    /// One endpoint.
    One(String),
    /// Several that do the same.
    Several(Vec<String>),
}

impl Urls {
    /// One is written as itself.
    pub(crate) fn write<S: Serializer>(urls: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        match urls {
            [url] => Self::One(url.clone()),
            urls => Self::Several(urls.to_vec()),
        }
        .serialize(serializer)
    }

    pub(crate) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
        Ok(match Self::deserialize(d)? {
            Self::One(url) => vec![url],
            Self::Several(urls) => urls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_is_written_as_it_is_read() {
        for text in ["round-robin", "least-in-flight", "session", "weights=3,1"] {
            assert_eq!(text.parse::<Balance>().unwrap().to_string(), text);
        }
        for wrong in ["", "sessions", "weights", "weights=", "weights=a"] {
            assert!(wrong.parse::<Balance>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_endpoint_has_a_weight() {
        let weights = Balance::Weights(vec![3, 1]);
        assert_eq!(
            weights.engine(2).unwrap(),
            engine::Balance::InTurn(vec![3, 1])
        );
        for (weights, part) in [
            (vec![1], "name one for each --url"),
            (vec![0, 0], "add up to 0"),
            (vec![WEIGHTS_MAX, 1], "add up to 10001"),
        ] {
            let error = Balance::Weights(weights).engine(2).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn one_url_or_several() {
        let urls = |yaml: &str| crate::file::parse(yaml).unwrap().url;
        assert_eq!(urls("url: http://a"), ["http://a"]);
        assert_eq!(urls("url: [http://a, http://b]"), ["http://a", "http://b"]);
        let config = crate::file::parse("url: [http://a, http://b]\nbalance: weights=2,1").unwrap();
        let written = crate::file::text(&config).unwrap();
        assert_eq!(crate::file::parse(&written).unwrap(), config, "{written}");
        let one = crate::file::text(&crate::file::parse("url: http://a").unwrap()).unwrap();
        assert!(one.contains("url: http://a"), "{one}");
    }
}
