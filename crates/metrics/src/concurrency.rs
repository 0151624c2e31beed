use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

/// Slots occupied over time, from submission to reaping.
///
/// The effective concurrency is their time-weighted mean from first reaching the target until the
/// stop rule fires: filling up and draining are not the client's doing. If the target is never
/// reached, it is the mean from the start. Where all requests are issued before the target is
/// reached (as many requests as slots), filling up goes on until the first of them is over. aiperf's sweep line averages over the whole run, and others take latency
/// sums over the duration (SGLang), which counts the drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Concurrency {
    target: u64,
    #[serde(with = "crate::ns::option")]
    started: Option<Nanos>,
    /// Whether the target was reached; `started` and `area` begin there then.
    reached: bool,
    stopped: bool,
    /// Stopped with all requests issued, but not all of them submitted.
    filling: bool,
    occupied: u64,
    #[serde(with = "crate::ns")]
    since: Nanos,
    /// Slots times ns.
    #[serde(with = "crate::ns::wide")]
    area: u128,
    #[serde(with = "crate::ns")]
    span: Nanos,
    peak: u64,
    /// Of merged shards, in millionths of a slot: whole numbers add up in any order.
    merged_target: u64,
    merged_micros: u64,
    merged_peak: u64,
}

impl Concurrency {
    pub(crate) fn begin(&mut self, now: Nanos, target: u64) {
        self.target = target;
        self.started = Some(now);
        self.since = now;
        self.occupy(now, self.occupied);
    }

    #[inline]
    pub(crate) fn occupy(&mut self, now: Nanos, occupied: u64) {
        if self.started.is_some() && (!self.stopped || self.filling) {
            self.pass(now);
            self.peak = self.peak.max(occupied);
            if !self.reached && occupied >= self.target {
                self.reached = true;
                self.filling = false;
                (self.area, self.span) = (0, Nanos::ZERO);
            }
        }
        self.filling &= occupied > self.occupied;
        self.occupied = occupied;
    }

    /// The stop rule fired; `all_issued`: because there are no more requests.
    pub(crate) fn stop(&mut self, now: Nanos, all_issued: bool) {
        if self.started.is_some() && !self.stopped {
            self.pass(now);
            self.stopped = true;
            self.filling = all_issued && !self.reached;
        }
    }

    fn pass(&mut self, now: Nanos) {
        let passed = now - self.since;
        self.area += u128::from(self.occupied) * u128::from(passed.0);
        self.span += passed;
        self.since = self.since.max(now);
    }

    /// The sum of the shards' targets.
    pub(crate) fn target(&self) -> u64 {
        self.target + self.merged_target
    }

    /// The most slots that were occupied while issuing; of several shards the sum of their peaks.
    pub(crate) fn peak(&self) -> u64 {
        self.peak + self.merged_peak
    }

    /// The sum of the shards' means.
    pub(crate) fn effective(&self) -> f64 {
        (self.micros() + self.merged_micros) as f64 / 1e6
    }

    fn micros(&self) -> u64 {
        match self.span.0 {
            0 if self.reached => self.peak.saturating_mul(1_000_000),
            0 => 0,
            span => u64::try_from(self.area * 1_000_000 / u128::from(span)).unwrap_or(u64::MAX),
        }
    }

    /// Moves its times from a clock that said `from` to one that said `to` at the same moment.
    pub(crate) fn rebase(&mut self, from: Nanos, to: Nanos) {
        self.started = self.started.map(|at| at - from + to);
        self.since = self.since - from + to;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.merged_target += other.target();
        self.merged_peak += other.peak();
        self.merged_micros += other.micros() + other.merged_micros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_and_draining_do_not_count() {
        let mut slots = Concurrency::default();
        slots.occupy(Nanos(0), 1);
        slots.begin(Nanos(1_000), 4);
        slots.occupy(Nanos(2_000), 3);
        slots.occupy(Nanos(3_000), 4);
        slots.occupy(Nanos(5_000), 2);
        slots.occupy(Nanos(6_000), 4);
        slots.stop(Nanos(7_000), true);
        slots.occupy(Nanos(9_000), 0);
        // 4 for 2000, 2 for 1000, 4 for 1000.
        assert_eq!(slots.effective(), 3.5);
        assert_eq!((slots.target(), slots.peak()), (4, 4));
    }

    #[test]
    fn a_target_never_reached_averages_from_the_start() {
        let mut slots = Concurrency::default();
        slots.begin(Nanos(0), 10);
        slots.occupy(Nanos(0), 4);
        slots.occupy(Nanos(500), 8);
        slots.stop(Nanos(1_000), false);
        assert_eq!(slots.effective(), 6.0);
    }

    #[test]
    fn issuing_all_at_once_reaches_the_target_in_no_time() {
        let mut slots = Concurrency::default();
        slots.begin(Nanos(5), 8);
        slots.occupy(Nanos(5), 8);
        slots.stop(Nanos(5), true);
        assert_eq!(slots.effective(), 8.0);
        // The drain does not change it.
        slots.occupy(Nanos(100), 0);
        assert_eq!(slots.effective(), 8.0);
    }

    #[test]
    fn requests_all_issued_before_any_is_submitted_still_fill_up() {
        let burst = |submitted: u64| {
            let mut slots = Concurrency::default();
            slots.begin(Nanos(0), 8);
            slots.stop(Nanos(1), true);
            for occupied in 1..=submitted {
                slots.occupy(Nanos(100), occupied);
            }
            slots.occupy(Nanos(1_100), submitted - 1);
            // One more comes up too late.
            slots.occupy(Nanos(1_200), submitted);
            slots.occupy(Nanos(1_300), 0);
            (slots.effective(), slots.peak())
        };
        assert_eq!(burst(8), (8.0, 8));
        // Not reached: 7 from 100 to 1,100, and none before.
        let (effective, peak) = burst(7);
        assert!((effective - 7.0 * 1_000.0 / 1_100.0).abs() < 1e-5);
        assert_eq!(peak, 7);
    }

    #[test]
    fn a_duration_that_ends_while_filling_up_ends_it() {
        let mut slots = Concurrency::default();
        slots.begin(Nanos(0), 8);
        slots.occupy(Nanos(0), 2);
        slots.stop(Nanos(1_000), false);
        slots.occupy(Nanos(1_001), 8);
        assert_eq!((slots.effective(), slots.peak()), (2.0, 2));
    }

    #[test]
    fn shards_add_up_in_any_order() {
        let shard = |occupied| {
            let mut slots = Concurrency::default();
            slots.begin(Nanos(0), 3);
            slots.occupy(Nanos(0), 3);
            slots.occupy(Nanos(500), occupied);
            slots.stop(Nanos(1_500), true);
            slots
        };
        let (a, b, c) = (shard(0), shard(1), shard(2));
        let merge = |order: [&Concurrency; 3]| {
            let mut all = Concurrency::default();
            order.iter().for_each(|shard| all.merge(shard));
            all
        };
        assert_eq!(merge([&a, &b, &c]), merge([&c, &a, &b]));
        let all = merge([&a, &b, &c]);
        assert!((all.effective() - (1.0 + 5.0 / 3.0 + 7.0 / 3.0)).abs() < 1e-5);
        assert_eq!(all.target(), 9);
    }
}
