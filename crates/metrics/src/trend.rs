use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

/// Longer spans and later times count as this, in microseconds: some 2 h 46 min.
const MICROS_MAX: u64 = 10_000_000_000;

/// How a span of each request went with the request's time: what a straight line through them needs, in
/// microseconds. Sums of whole numbers: merging in any order gives the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trend {
    count: u64,
    #[serde(with = "crate::ns::wide")]
    times: u128,
    #[serde(with = "crate::ns::wide")]
    spans: u128,
    #[serde(with = "crate::ns::wide")]
    times_squared: u128,
    #[serde(with = "crate::ns::wide")]
    spans_squared: u128,
    #[serde(with = "crate::ns::wide")]
    products: u128,
    /// INVARIANT: 0 without requests, like `span_least`.
    time_first: u64,
    time_last: u64,
    span_least: u64,
}

/// The straight line through a [`Trend`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// The span at the first request, ns; not less than the least of all.
    pub first_ns: f64,
    /// The span at the last request, ns.
    pub last_ns: f64,
    /// The share of the spans' variance that the line explains, 0 to 1.
    pub explained: f64,
}

impl Trend {
    /// Adds a request at `time` (from the start of the measured phase) with its span.
    #[inline]
    pub fn add(&mut self, time: Nanos, span: Nanos) {
        let [time, span] = [time, span].map(|nanos| (nanos.0 / 1_000).min(MICROS_MAX));
        let first = self.count == 0;
        self.time_first = if first {
            time
        } else {
            self.time_first.min(time)
        };
        self.span_least = if first {
            span
        } else {
            self.span_least.min(span)
        };
        self.time_last = self.time_last.max(time);
        self.count += 1;
        let [time, span] = [time, span].map(u128::from);
        self.times += time;
        self.spans += span;
        self.times_squared += time * time;
        self.spans_squared += span * span;
        self.products += time * span;
    }

    /// Adds the requests of another.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count += other.count;
        self.times += other.times;
        self.spans += other.spans;
        self.times_squared += other.times_squared;
        self.spans_squared += other.spans_squared;
        self.products += other.products;
        self.time_first = self.time_first.min(other.time_first);
        self.time_last = self.time_last.max(other.time_last);
        self.span_least = self.span_least.min(other.span_least);
    }

    /// The line; `None` of fewer than three requests, or of requests at one time.
    #[must_use]
    pub fn growth(&self) -> Option<Growth> {
        let count = self.count as f64;
        let mean = |sum: u128| sum as f64 / count;
        let (time, span) = (mean(self.times), mean(self.spans));
        let time_variance = mean(self.times_squared) - time * time;
        let span_variance = mean(self.spans_squared) - span * span;
        let covariance = mean(self.products) - time * span;
        if self.count < 3 || time_variance <= 0.0 {
            return None;
        }
        let slope = covariance / time_variance;
        let at = |micros: u64| span + slope * (micros as f64 - time);
        let first = at(self.time_first).max(self.span_least as f64);
        // Spans that are all alike have no variance to explain, but for rounding.
        let explained = if span_variance > 0.0 {
            (slope * covariance / span_variance).clamp(0.0, 1.0)
        } else {
            0.0
        };
        Some(Growth {
            first_ns: first * 1e3,
            last_ns: at(self.time_last) * 1e3,
            explained,
        })
    }
}

impl Growth {
    /// How many times the first span the last one is; 1 where the first is nothing.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.first_ns > 0.0 {
            self.last_ns / self.first_ns
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spans: impl IntoIterator<Item = (u64, u64)>) -> Trend {
        let mut trend = Trend::default();
        for (time, span) in spans {
            trend.add(Nanos::from_millis(time), Nanos::from_millis(span));
        }
        trend
    }

    #[test]
    fn a_queue_that_grows_is_a_line() {
        // An answer takes 100 ms, and every second the queue grows by another 100 ms.
        let growth = of((0..=100).map(|n| (n * 100, 100 + n * 10)))
            .growth()
            .unwrap();
        assert!((growth.first_ns - 1e8).abs() < 1e3, "{growth:?}");
        assert!((growth.last_ns - 1.1e9).abs() < 1e3, "{growth:?}");
        assert!((growth.ratio() - 11.0).abs() < 1e-3 && growth.explained > 0.999);
    }

    #[test]
    fn noise_explains_nothing() {
        let noise = |n: u64| n.wrapping_mul(6_364_136_223_846_793_005) >> 57;
        let growth = of((0..1_000).map(|n| (n * 10, 100 + noise(n))))
            .growth()
            .unwrap();
        assert!(growth.explained < 0.05, "{growth:?}");
        let alike = of((0..1_000).map(|n| (n * 10, 100))).growth().unwrap();
        assert!(
            (alike.ratio() - 1.0).abs() < 1e-9 && alike.explained < 0.01,
            "{alike:?}"
        );
    }

    #[test]
    fn parts_together_are_the_whole() {
        let spans: Vec<(u64, u64)> = (0..50).map(|n| (n * 7, 20 + n * n)).collect();
        let mut merged = of(spans[..20].iter().copied());
        merged.merge(&Trend::default());
        merged.merge(&of(spans[20..].iter().copied()));
        assert_eq!(merged, of(spans.iter().copied()));
        let mut empty = Trend::default();
        empty.merge(&merged);
        assert_eq!(empty, merged);
        let read: Trend = serde_json::from_str(&serde_json::to_string(&merged).unwrap()).unwrap();
        assert_eq!(read, merged);
    }

    #[test]
    fn too_little_is_no_line() {
        assert_eq!(Trend::default().growth(), None);
        assert_eq!(of([(0, 1), (10, 2)]).growth(), None);
        assert_eq!(of([(5, 1), (5, 2), (5, 3)]).growth(), None);
        let nothing = of([(0, 0), (1, 0), (2, 0)]).growth().unwrap();
        assert_eq!(nothing.ratio(), 1.0);
    }
}
