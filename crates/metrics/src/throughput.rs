use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::outputs::Outputs;

/// What ended issuing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// The duration was over: throughput counts up to this moment, and the drain is left out.
    Duration,
    /// All requests were issued: throughput counts up to the last `done`.
    Requests,
    /// An interrupt: counts like a duration that ended now.
    Interrupt,
}

/// The measured window: from the start of measuring to the end of issuing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    #[serde(with = "crate::ns::option")]
    pub(crate) start: Option<Nanos>,
    /// `None` while issuing goes on, and for good when requests were counted.
    #[serde(with = "crate::ns::option")]
    pub(crate) end: Option<Nanos>,
    /// The last `done` of a measured request that succeeded.
    #[serde(with = "crate::ns::option")]
    pub(crate) last_done: Option<Nanos>,
}

impl Window {
    pub(crate) fn contains(&self, at: Nanos) -> bool {
        self.end.is_none_or(|end| at <= end)
    }

    /// From the start to the end of issuing; without such an end to the last `done`.
    pub(crate) fn duration(&self) -> Option<Nanos> {
        Some(self.end.or(self.last_done)? - self.start?)
    }

    /// Moves its times from a clock that said `from` to one that said `to` at the same moment.
    pub(crate) fn rebase(&mut self, from: Nanos, to: Nanos) {
        for at in [&mut self.start, &mut self.end, &mut self.last_done] {
            *at = at.map(|at| at - from + to);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.start = earliest(self.start, other.start);
        self.end = self.end.max(other.end);
        self.last_done = self.last_done.max(other.last_done);
    }
}

fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What successes brought within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Requests whose `done` lies in the window.
    pub requests: u64,
    /// Those of them that met every SLO.
    pub good_requests: u64,
    /// Their input tokens.
    pub input_tokens: u64,
    /// Output tokens; of a request that outlasts the window, in proportion to its events.
    pub output_tokens: u64,
    /// Content events that came in the window.
    pub content_events: u64,
    /// Response bytes; of a request that outlasts the window, in proportion to its events.
    pub bytes: u64,
}

impl Volume {
    /// Adds what depends on the tokens of the answers.
    pub(crate) fn with(self, outputs: &Outputs) -> Self {
        Self {
            good_requests: outputs.good_in_window,
            output_tokens: outputs.tokens_in_window,
            ..self
        }
    }

    /// All but what depends on the tokens of the answers.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.input_tokens += other.input_tokens;
        self.content_events += other.content_events;
        self.bytes += other.bytes;
    }
}

/// Rates of successes over the window.
///
/// The numerators are whole: a completion or an event counts when its time lies between the start of
/// measuring and the end of issuing, so that neither the ramp of the drain nor its length dilutes the
/// rate. Peers divide everything by the time to the last response (vllm bench, aiperf), which
/// understates a server's rate in short runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Completed requests per second.
    pub requests_per_s: f64,
    /// Input tokens of these per second.
    pub input_tokens_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Content events per second.
    pub content_events_per_s: f64,
    /// Response bytes per second.
    pub bytes_per_s: f64,
}

impl Throughput {
    /// The rates of `volume` over `duration`; `None` when that is zero.
    #[must_use]
    pub fn new(volume: &Volume, duration: Nanos) -> Option<Self> {
        let rate = |count: u64| count as f64 / duration.as_secs_f64();
        (duration > Nanos::ZERO).then(|| Self {
            requests_per_s: rate(volume.requests),
            input_tokens_per_s: rate(volume.input_tokens),
            output_tokens_per_s: rate(volume.output_tokens),
            content_events_per_s: rate(volume.content_events),
            bytes_per_s: rate(volume.bytes),
        })
    }
}

/// The part of `total` that `part` of `whole` events stand for, to the nearest whole.
pub(crate) fn prorate(total: u64, part: u32, whole: u32) -> u64 {
    if part >= whole {
        return if whole == 0 { 0 } else { total };
    }
    let whole = u128::from(whole);
    let scaled = (u128::from(total) * u128::from(part) * 2 + whole) / (2 * whole);
    u64::try_from(scaled).unwrap_or(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_proportion() {
        assert_eq!(prorate(100, 1, 3), 33);
        assert_eq!(prorate(100, 2, 3), 67);
        assert_eq!(prorate(100, 3, 3), 100);
        assert_eq!(prorate(100, 9, 3), 100);
        assert_eq!(prorate(100, 0, 0), 0);
        assert_eq!(prorate(u64::MAX, u32::MAX, u32::MAX), u64::MAX);
    }

    #[test]
    fn a_duration_ends_the_window_and_a_request_count_does_not() {
        let mut window = Window {
            start: Some(Nanos(10)),
            end: Some(Nanos(50)),
            last_done: Some(Nanos(90)),
        };
        assert_eq!(window.duration(), Some(Nanos(40)));
        assert!(window.contains(Nanos(50)) && !window.contains(Nanos(51)));
        window.end = None;
        assert_eq!(window.duration(), Some(Nanos(80)));
        assert_eq!(Window::default().duration(), None);
    }

    #[test]
    fn no_time_has_no_rate() {
        assert_eq!(Throughput::new(&Volume::default(), Nanos::ZERO), None);
        let volume = Volume {
            requests: 30,
            ..Volume::default()
        };
        let rates = Throughput::new(&volume, Nanos::from_millis(1_500)).expect("time passed");
        assert_eq!(rates.requests_per_s, 20.0);
    }
}
