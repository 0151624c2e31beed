use std::fmt;
use std::str::FromStr;

use ridgeline_clock::{DurationError, Nanos, parse_duration};
use serde::{Deserialize, Serialize};

use crate::{Metric, Percentile, PercentileError};

/// A limit on a metric, `ttft:p90=500ms` or `ttft=500ms`.
///
/// With a percentile the run as a whole passes or fails. Every SLO also judges single requests, for
/// goodput: a request is good when it succeeded and is within the limit of each metric. Where a metric
/// has several SLOs, the one without a percentile is the limit of a request, else that of the highest
/// percentile: `ttft:p50=200ms` allows half of the requests to be slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slo {
    /// What is limited; one of [`Metric::JUDGED`]. For a single request ITL and ICL are its means.
    pub metric: Metric,
    /// Which percentile of the run; `None` when only single requests are judged.
    pub percentile: Option<Percentile>,
    /// The longest span that meets it.
    pub limit: Nanos,
}

/// A text that is no SLO.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SloError {
    /// It has no `=`.
    #[error(
        "`{0}` is not an SLO; write one like `ttft:p90=500ms`, or `ttft=500ms` for goodput alone"
    )]
    Form(String),
    /// The metric is unknown.
    #[error(
        "`{name}` is not a metric; did you mean `{nearest}`? Known are {}",
        names()
    )]
    Metric {
        /// What was written.
        name: String,
        /// The nearest known name.
        nearest: &'static str,
    },
    /// The percentile is none.
    #[error(transparent)]
    Percentile(#[from] PercentileError),
    /// The limit is no duration.
    #[error(transparent)]
    Limit(#[from] DurationError),
}

impl Slo {
    /// Reads several, with commas or white space between them.
    ///
    /// # Errors
    /// At the first that is none.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, SloError> {
        text.split(|c: char| c == ',' || c.is_whitespace())
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect()
    }
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let form = || SloError::Form(text.chars().take(60).collect());
        let (left, limit) = text.split_once('=').ok_or_else(form)?;
        let (name, percentile) = match left.split_once(':') {
            Some((name, percentile)) => (name, Some(percentile.trim().parse()?)),
            None => (left, None),
        };
        Ok(Self {
            metric: metric(name.trim())?,
            percentile,
            limit: parse_duration(limit)?,
        })
    }
}

fn metric(name: &str) -> Result<Metric, SloError> {
    let known = Metric::JUDGED.map(|metric| (metric.name(), metric));
    let mut all = known.iter().chain(&Metric::PEER_NAMES);
    if let Some((_, metric)) = all.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(*metric);
    }
    let name: String = name.chars().take(40).collect();
    let lower = name.to_ascii_lowercase();
    let nearest = Metric::JUDGED
        .map(Metric::name)
        .into_iter()
        .min_by_key(|known| strsim::damerau_levenshtein(&lower, known))
        .expect("there are metrics");
    Err(SloError::Metric { name, nearest })
}

fn names() -> String {
    Metric::JUDGED.map(Metric::name).join(", ")
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.metric)?;
        if let Some(percentile) = self.percentile {
            write!(f, ":{percentile}")?;
        }
        let ns = self.limit.0;
        let (count, unit) = match ns {
            0 => (0, "ns"),
            _ if ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000_000, "s"),
            _ if ns.is_multiple_of(1_000_000) => (ns / 1_000_000, "ms"),
            _ if ns.is_multiple_of(1_000) => (ns / 1_000, "us"),
            _ => (ns, "ns"),
        };
        write!(f, "={count}{unit}")
    }
}

impl TryFrom<String> for Slo {
    type Error = SloError;

    fn try_from(text: String) -> Result<Self, SloError> {
        text.parse()
    }
}

impl From<Slo> for String {
    fn from(slo: Slo) -> Self {
        slo.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written_back() {
        for (text, metric, percentile, ms) in [
            ("ttft:p90=500ms", Metric::Ttft, Some(Percentile::P90), 500),
            ("itl:p99=50ms", Metric::Itl, Some(Percentile::P99), 50),
            (
                "latency:p95=2s",
                Metric::Latency,
                Some(Percentile::P95),
                2_000,
            ),
            (
                "latency_from_schedule:p99.9=2s",
                Metric::LatencyFromSchedule,
                Some(Percentile::P99_9),
                2_000,
            ),
            ("tpot=30ms", Metric::Tpot, None, 30),
        ] {
            let slo: Slo = text.parse().unwrap();
            assert_eq!(
                slo,
                Slo {
                    metric,
                    percentile,
                    limit: Nanos::from_millis(ms)
                }
            );
            assert_eq!(slo.to_string(), text);
        }
        assert_eq!(
            "ttft=1.5us".parse::<Slo>().unwrap().to_string(),
            "ttft=1500ns"
        );
    }

    #[test]
    fn names_of_peers_are_known() {
        let metric = |text: &str| text.parse::<Slo>().unwrap().metric;
        assert_eq!(metric("time_to_first_token:p99=1s"), Metric::Ttft);
        assert_eq!(metric("e2el=1s"), Metric::Latency);
        assert_eq!(metric("TTFT = 1s"), Metric::Ttft);
    }

    #[test]
    fn several_are_read_from_one_text() {
        let all = Slo::parse_all("ttft:p90=500ms, itl:p99=50ms tpot=1ms").unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(Slo::parse_all(" ").unwrap(), []);
        assert!(Slo::parse_all("ttft=1s,x=2s").is_err());
    }

    #[test]
    fn mistakes_are_answered_with_the_nearest_name() {
        let error = |text: &str| text.parse::<Slo>().unwrap_err().to_string();
        assert_eq!(
            error("tfft:p90=500ms"),
            "`tfft` is not a metric; did you mean `ttft`? Known are latency, \
             latency_from_schedule, ttft, ttft_from_schedule, ttfo, tpot, itl, icl"
        );
        assert!(error("latncy=1s").contains("did you mean `latency`"));
        assert!(error("connect=1s").contains("is not a metric"));
        assert!(error("ttft:90=500ms").contains("`90` is not a percentile"));
        assert!(error("ttft:p90=500").contains("lacks a unit"));
        assert!(error("ttft").contains("is not an SLO"));
    }
}
