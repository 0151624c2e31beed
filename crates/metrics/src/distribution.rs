use std::fmt;

use hdrhistogram::Histogram;
use ridgeline_clock::{Arrival, Nanos};
use serde::{Deserialize, Serialize};

use crate::{Convention, Percentile};

/// The longest span that is told apart from longer ones: 2 h 26 min. Longer ones count as this.
pub const SPAN_MAX: Nanos = Nanos((1 << 43) - 1);

/// Significant decimal digits of a percentile: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Spans, pooled: an HDR histogram beside exact extremes and moments.
///
/// All memory is taken when it is made (about 280 KiB); recording allocates nothing. Percentiles are
/// nearest-rank ([`crate::Convention::NearestRank`]) with three significant digits; count, minimum,
/// maximum, mean and standard deviation are exact. Spans are recorded as they are: latencies from
/// the schedule already hold what HDR's correction for coordinated omission would invent.
#[derive(Clone)]
pub struct Distribution {
    histogram: Histogram<u64>,
    moments: Moments,
}

/// What is kept exactly. Sums of whole numbers: merging in any order gives the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Moments {
    count: u64,
    /// INVARIANT: `sum <= count * SPAN_MAX`.
    #[serde(with = "crate::ns::wide")]
    sum: u128,
    /// INVARIANT: `squares <= count * SPAN_MAX^2 < 2^127`, for fewer than 2^41 samples.
    #[serde(with = "crate::ns::wide")]
    squares: u128,
    min: u64,
    max: u64,
    clipped: u64,
}

/// A distribution in numbers, ns. Percentiles are nearest-rank, three digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "percentiles say what they are")]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the samples themselves (numpy's default, divided by n).
    pub std: f64,
    /// The least sample, exact.
    pub min: u64,
    /// The greatest sample, exact.
    pub max: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p25: u64,
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// How percentiles are read off, to be named in reports.
    pub const CONVENTION: Convention = Convention::NearestRank;

    /// An empty distribution with all the memory it will use.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, SPAN_MAX.0, DIGITS)
            .expect("the bounds are constants that fit");
        Self {
            histogram,
            moments: Moments::EMPTY,
        }
    }

    /// Bytes of memory that one distribution takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.histogram.distinct_values() * size_of::<u64>() + size_of::<Self>()
    }

    /// Adds one span.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.record_n(span, 1);
    }

    /// Adds the same span `times` times.
    #[inline]
    pub fn record_n(&mut self, span: Nanos, times: u64) {
        if times > 0 {
            let value = span.0.min(SPAN_MAX.0);
            self.histogram.saturating_record_n(value, times);
            self.moments.record_n(value, times, span > SPAN_MAX);
        }
    }

    /// Adds the widths of a read's `events` events. The last of them ended with the segment that the stamp is
    /// of; those before it may have come earlier. A read of one event is as exact as its stamp, however
    /// long the stream was silent before.
    #[inline]
    pub(crate) fn record_width(&mut self, arrival: Arrival, events: u64) {
        self.record_n(arrival.width(), events.saturating_sub(1));
        self.record_n(Nanos::ZERO, events.min(1));
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all distributions have the same bounds");
        self.moments.merge(&other.moments);
    }

    /// How many samples there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moments.count == 0
    }

    /// How many samples were longer than [`SPAN_MAX`] and counted as that.
    #[must_use]
    pub fn clipped(&self) -> u64 {
        self.moments.clipped
    }

    /// The sum of all samples, ns.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.moments.sum
    }

    /// The mean, ns.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.moments.mean())
    }

    /// The longest span.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then_some(Nanos(self.moments.max))
    }

    /// A percentile.
    #[must_use]
    pub fn percentile(&self, percentile: Percentile) -> Option<Nanos> {
        (!self.is_empty()).then(|| Nanos(self.percentiles([percentile])[0]))
    }

    /// The median.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        self.percentile(Percentile::P50)
    }

    /// Which share of the samples, 0 to 1, is longer than `limit` (within the three digits); 0 when
    /// there are none.
    #[must_use]
    pub fn share_above(&self, limit: Nanos) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let within = self.histogram.count_between(0, limit.0.min(SPAN_MAX.0));
        (self.moments.count - within) as f64 / self.moments.count as f64
    }

    /// All of it in numbers; `None` when there are no samples.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        if self.is_empty() {
            return None;
        }
        let [p1, p5, p10, p25, p50, p75, p90, p95, p99, p99_9] =
            self.percentiles(Percentile::SUMMARY);
        let Moments {
            count, min, max, ..
        } = self.moments;
        let (mean, std) = (self.moments.mean(), self.moments.std());
        Some(Summary {
            count,
            mean,
            std,
            min,
            max,
            p1,
            p5,
            p10,
            p25,
            p50,
            p75,
            p90,
            p95,
            p99,
            p99_9,
        })
    }

    /// The percentiles `of`, which ascend, in one pass.
    fn percentiles<const N: usize>(&self, of: [Percentile; N]) -> [u64; N] {
        debug_assert!(of.is_sorted(), "one pass needs ascending percentiles");
        let Moments {
            count, min, max, ..
        } = self.moments;
        let mut values = [max; N];
        let mut wanted = of
            .iter()
            .map(|percentile| percentile.rank(count))
            .zip(&mut values);
        let mut next = wanted.next();
        let mut seen = 0;
        for bucket in self.histogram.iter_recorded() {
            seen += bucket.count_since_last_iteration();
            while let Some((rank, value)) = next.take() {
                if rank > seen {
                    next = Some((rank, value));
                    break;
                }
                // A bucket stands for its upper end, which may lie beyond the extremes.
                *value = bucket.value_iterated_to().clamp(min, max);
                next = wanted.next();
            }
        }
        values
    }
}

impl Moments {
    const EMPTY: Self = Self {
        count: 0,
        sum: 0,
        squares: 0,
        min: u64::MAX,
        max: 0,
        clipped: 0,
    };

    #[inline]
    fn record_n(&mut self, value: u64, times: u64, clipped: bool) {
        let total = u128::from(value) * u128::from(times);
        self.count += times;
        self.sum += total;
        self.squares += total * u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.clipped += if clipped { times } else { 0 };
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.clipped += other.clipped;
    }

    /// The invariants, for what comes from another process.
    fn holds(&self) -> bool {
        let (count, most) = (u128::from(self.count), u128::from(SPAN_MAX.0));
        self.count < 1 << 41 && self.sum <= count * most && self.squares <= self.sum * most
    }

    fn mean(&self) -> f64 {
        let count = u128::from(self.count.max(1));
        (self.sum / count) as f64 + (self.sum % count) as f64 / count as f64
    }

    /// Around the whole part of the mean, in whole numbers: sums of squares of large, close samples
    /// would cancel in floating point.
    fn std(&self) -> f64 {
        let count = u128::from(self.count.max(1));
        let whole = self.sum / count;
        let around = (self.squares + whole * whole * count).saturating_sub(2 * whole * self.sum);
        let fraction = (self.sum % count) as f64 / count as f64;
        (around as f64 / count as f64 - fraction * fraction)
            .max(0.0)
            .sqrt()
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution")
            .field("moments", &self.moments)
            .finish_non_exhaustive()
    }
}

/// Equal when every bucket and every exact figure is.
impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.moments == other.moments && self.histogram == other.histogram
    }
}

/// As it goes between processes: only the buckets that hold something.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sparse {
    moments: Moments,
    /// Value and count.
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buckets = self
            .histogram
            .iter_recorded()
            .map(|bucket| {
                (
                    bucket.value_iterated_to(),
                    bucket.count_since_last_iteration(),
                )
            })
            .collect();
        Sparse {
            moments: self.moments,
            buckets,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Sparse { moments, buckets } = Sparse::deserialize(deserializer)?;
        let mut this = Self::new();
        let mut count: u64 = 0;
        for (value, times) in buckets {
            this.histogram
                .saturating_record_n(value.min(SPAN_MAX.0), times);
            count = count.saturating_add(times);
        }
        if count != moments.count || !moments.holds() {
            return Err(serde::de::Error::custom(
                "the buckets and the moments disagree",
            ));
        }
        this.moments = moments;
        Ok(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(spans: &[u64]) -> Distribution {
        let mut distribution = Distribution::new();
        spans
            .iter()
            .for_each(|&span| distribution.record(Nanos(span)));
        distribution
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Distribution::new().summary(), None);
        assert_eq!(Distribution::new().percentile(Percentile::P99), None);
        assert_eq!(Distribution::new().share_above(Nanos::ZERO), 0.0);
    }

    #[test]
    fn one_sample_is_every_percentile_exactly() {
        let summary = of(&[123_456_789]).summary().unwrap();
        assert_eq!(
            (summary.p1, summary.p50, summary.p99_9),
            (123_456_789, 123_456_789, 123_456_789)
        );
        assert_eq!(
            (summary.min, summary.max, summary.count),
            (123_456_789, 123_456_789, 1)
        );
        assert_eq!((summary.mean, summary.std), (123_456_789.0, 0.0));
    }

    #[test]
    fn close_large_samples_keep_their_deviation() {
        let hour = 3_600_000_000_000;
        let summary = of(&[hour, hour + 1, hour + 2, hour + 3]).summary().unwrap();
        assert!(
            (summary.std - 1.25_f64.sqrt()).abs() < 1e-9,
            "{}",
            summary.std
        );
        assert_eq!(summary.mean, 3_600_000_000_001.5);
    }

    #[test]
    fn spans_beyond_the_range_count_as_its_end() {
        let distribution = of(&[5, u64::MAX]);
        assert_eq!(distribution.clipped(), 1);
        assert_eq!(distribution.max(), Some(SPAN_MAX));
        assert_eq!(distribution.percentile(Percentile::P99), Some(SPAN_MAX));
    }

    #[test]
    fn shares_above_a_limit_exclude_the_limit() {
        let distribution = of(&[0, 10, 10, 20]);
        assert_eq!(distribution.share_above(Nanos(10)), 0.25);
        assert_eq!(distribution.share_above(Nanos(9)), 0.75);
        assert_eq!(distribution.share_above(Nanos::MAX), 0.0);
    }

    fn spans() -> impl Strategy<Value = Vec<u64>> {
        let span = prop_oneof![Just(0), 0..3_000_u64, 0..1_000_000_000_u64, 0..1_u64 << 43];
        prop::collection::vec(span, 1..300)
    }

    proptest! {
        #[test]
        fn summaries_agree_with_sorted_samples(mut spans in spans()) {
            let summary = of(&spans).summary().unwrap();
            spans.sort_unstable();
            let n = spans.len() as f64;
            prop_assert_eq!(summary.count, spans.len() as u64);
            prop_assert_eq!(summary.min, spans[0]);
            prop_assert_eq!(summary.max, spans[spans.len() - 1]);
            let mean = spans.iter().map(|&span| span as f64).sum::<f64>() / n;
            prop_assert!((summary.mean - mean).abs() <= mean * 1e-12);
            let var = spans.iter().map(|&span| (span as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((summary.std - var.sqrt()).abs() <= var.sqrt() * 1e-9 + 1e-6);
            let found = [
                summary.p1, summary.p5, summary.p10, summary.p25, summary.p50, summary.p75,
                summary.p90, summary.p95, summary.p99, summary.p99_9,
            ];
            for (percentile, found) in Percentile::SUMMARY.into_iter().zip(found) {
                let exact = Distribution::CONVENTION.of_sorted(&spans, percentile).unwrap();
                let error = found as f64 - exact;
                prop_assert!((0.0..=exact / 1_000.0).contains(&error), "{percentile}: {error}");
            }
        }

        #[test]
        fn merging_is_recording_in_one(left in spans(), right in spans()) {
            let mut merged = of(&left);
            merged.merge(&of(&right));
            prop_assert_eq!(&merged, &of(&[left, right].concat()));
        }
    }
}
