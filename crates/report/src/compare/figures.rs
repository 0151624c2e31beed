use ridgeline_metrics::{Metric, Summary};
use serde::Serialize;

use super::interval::{Change, Estimate, float, judge, relative};
use super::requests::Request;
use super::side::{Run, Side};
use super::{BATCHES, CONFIDENCE};

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is: `TTFT p99`.
    pub name: String,
    /// Of `base` and `new`.
    pub unit: Unit,
    /// The baseline's; of several runs their mean. `None`: it has none.
    pub base: Option<f64>,
    /// The other's.
    pub new: Option<f64>,
    /// `new / base - 1`.
    pub relative: Option<f64>,
    /// The interval of that.
    pub interval: Option<[f64; 2]>,
    /// What can be said about it.
    pub change: Change,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A rate.
    PerS,
    /// A time.
    Ns,
    /// A share, 0 to 1.
    Share,
}

/// A figure: how it is read off one run, and off its stretches where it can be.
struct Figure {
    name: String,
    unit: Unit,
    /// More is better.
    higher: bool,
    whole: OfRun<Option<f64>>,
    /// The figure of each stretch of a single run; `None`: shown, not tested.
    stretches: Option<OfRun<Vec<f64>>>,
}

type OfRun<T> = Box<dyn Fn(&Run) -> T>;

/// The rows of a comparison; nothing is judged unless `sound`.
pub(super) fn rows(base: &Side, new: &Side, threshold: f64, sound: bool) -> Vec<Row> {
    let figures = figures();
    let tested = figures.iter().filter(|figure| figure.stretches.is_some());
    let miss = (1.0 - CONFIDENCE) / float(tested.count());
    let row = |figure: &Figure| figure.row(base, new, threshold, miss, sound);
    figures.iter().filter_map(row).collect()
}

impl Figure {
    fn row(&self, base: &Side, new: &Side, threshold: f64, miss: f64, sound: bool) -> Option<Row> {
        let (a, b) = (self.estimate(base), self.estimate(new));
        if a.is_none() && b.is_none() {
            return None;
        }
        let both = a.zip(b).filter(|(a, _)| a.value > 0.0);
        let (change, interval) = both.map_or((None, None), |(a, b)| {
            let (change, interval) = relative(&a, &b, miss);
            (Some(change), interval)
        });
        let judged = change.zip(interval).filter(|_| sound);
        Some(Row {
            name: self.name.clone(),
            unit: self.unit,
            base: a.map(|a| a.value),
            new: b.map(|b| b.value),
            relative: change,
            interval,
            change: judged.map_or(Change::Untested, |(change, interval)| {
                judge(change, interval, self.higher, threshold)
            }),
        })
    }

    fn estimate(&self, side: &Side) -> Option<Estimate> {
        let wholes: Vec<f64> = side.runs.iter().filter_map(&self.whole).collect();
        let mean = wholes.iter().sum::<f64>() / float(wholes.len());
        match (&self.stretches, &side.runs[..]) {
            _ if wholes.is_empty() => None,
            (None, _) => Some(Estimate::untested(mean)),
            (Some(stretches), [run]) => Some(Estimate::of(mean, &stretches(run))),
            (Some(_), _) => Some(Estimate::of(mean, &wholes)),
        }
    }
}

fn figures() -> Vec<Figure> {
    let mut figures = vec![
        rate(
            "Requests/s",
            |run| run.report.throughput.requests_per_s,
            |_| 1,
        ),
        rate(
            "Output tokens/s",
            |run| run.report.throughput.output_tokens_per_s,
            |request| request.output_tokens,
        ),
    ];
    let percentiles = [
        (Quantile::P50, "p50"),
        (Quantile::P90, "p90"),
        (Quantile::P99, "p99"),
    ];
    for (metric, name, of) in [
        (
            Metric::Ttft,
            "TTFT",
            (|r| r.ttft_ns) as fn(&Request) -> Option<f64>,
        ),
        (Metric::Latency, "Latency", |r| Some(r.latency_ns)),
        (Metric::Tpot, "TPOT", |r| r.tpot_ns),
    ] {
        for (quantile, suffix) in percentiles {
            figures.push(Figure {
                stretches: Some(Box::new(move |run| quantile.stretches(run, of))),
                ..time(format!("{name} {suffix}"), metric, quantile)
            });
        }
    }
    for (quantile, suffix) in percentiles {
        figures.push(time(format!("ITL {suffix}"), Metric::Itl, quantile));
    }
    figures.push(Figure {
        name: "Errors".to_owned(),
        unit: Unit::Share,
        higher: false,
        whole: Box::new(|run| {
            let load = &run.report.load;
            let ended = load.completed + load.failed;
            (ended > 0).then(|| count(load.failed) / count(ended))
        }),
        stretches: None,
    });
    figures.push(Figure {
        name: "Goodput".to_owned(),
        unit: Unit::PerS,
        higher: true,
        whole: Box::new(|run| run.report.goodput.as_ref()?.requests_per_s),
        stretches: None,
    });
    figures.push(Figure {
        name: "Client CPU per request".to_owned(),
        unit: Unit::Ns,
        higher: false,
        whole: Box::new(|run| run.report.harness.cpu_ns_per_request),
        stretches: None,
    });
    figures
}

fn rate(name: &str, whole: fn(&Run) -> f64, weight: fn(&Request) -> u64) -> Figure {
    Figure {
        name: name.to_owned(),
        unit: Unit::PerS,
        higher: true,
        whole: Box::new(move |run| Some(whole(run))),
        stretches: Some(Box::new(move |run| rates(run, weight))),
    }
}

fn time(name: String, metric: Metric, quantile: Quantile) -> Figure {
    Figure {
        name,
        unit: Unit::Ns,
        higher: false,
        whole: Box::new(move |run| run.report.summary(metric).map(|s| quantile.of_summary(s))),
        stretches: None,
    }
}

/// What was done per second, in stretches of equal time from the first completion to the last submission:
/// before that the load builds up, after it runs out.
fn rates(run: &Run, weight: fn(&Request) -> u64) -> Vec<f64> {
    let requests = run.requests.as_deref().unwrap_or_default();
    let begin_ns = requests.iter().map(|request| request.done_ns).min();
    let (Some(begin_ns), Some(last)) = (begin_ns, requests.last()) else {
        return Vec::new();
    };
    let length_ns = last.submitted_ns.saturating_sub(begin_ns) / BATCHES as u64;
    if length_ns == 0 {
        return Vec::new();
    }
    let mut done = [0_u64; BATCHES];
    for request in requests {
        let place = usize::try_from((request.done_ns - begin_ns) / length_ns);
        if let Some(done) = place.ok().and_then(|place| done.get_mut(place)) {
            *done += weight(request);
        }
    }
    let seconds = count(length_ns) / 1e9;
    done.iter().map(|&done| count(done) / seconds).collect()
}

#[derive(Clone, Copy, Debug)]
enum Quantile {
    P50,
    P90,
    P99,
}

impl Quantile {
    fn of_summary(self, summary: &Summary) -> f64 {
        count(match self {
            Self::P50 => summary.p50,
            Self::P90 => summary.p90,
            Self::P99 => summary.p99,
        })
    }

    /// The fewest samples of a stretch: at least one of them lies beyond the percentile.
    fn samples_min(self) -> usize {
        match self {
            Self::P50 => 5,
            Self::P90 => 10,
            Self::P99 => 100,
        }
    }

    /// Nearest rank, as everywhere in a report.
    fn of(self, samples: &mut [f64]) -> f64 {
        let permille = match self {
            Self::P50 => 500,
            Self::P90 => 900,
            Self::P99 => 990,
        };
        let rank = (samples.len() * permille).div_ceil(1000).max(1) - 1;
        *samples.select_nth_unstable_by(rank, f64::total_cmp).1
    }

    /// The percentile of each stretch, of as many requests each; none when a stretch would hold too few.
    fn stretches(self, run: &Run, of: fn(&Request) -> Option<f64>) -> Vec<f64> {
        let requests = run.requests.as_deref().unwrap_or_default();
        let mut samples: Vec<f64> = requests.iter().filter_map(of).collect();
        let length = samples.len() / BATCHES;
        if length < self.samples_min() {
            return Vec::new();
        }
        let stretches = samples.chunks_exact_mut(length).take(BATCHES);
        stretches.map(|stretch| self.of(stretch)).collect()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and times far below 2^53"
)]
fn count(number: u64) -> f64 {
    number as f64
}
