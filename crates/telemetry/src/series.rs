use ridgeline_clock::Nanos;

use crate::proc::Sched;

/// Samples of one thread that are kept: at ten a second the first half hour whole. Then every second one
/// goes, and half as many are taken.
const SAMPLES_MAX: usize = 1 << 14;

/// What one thread had used at one moment. All but the core counts up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Nanos,
    /// `None`: the kernel keeps no account of it.
    pub(crate) sched: Option<Sched>,
    pub(crate) faults_minor: u64,
    pub(crate) faults_major: u64,
    /// The core it last ran on, and what the hypervisor took from that; `None`: not known.
    pub(crate) core: Option<usize>,
    pub(crate) stolen: Option<Nanos>,
    /// How long quotas held this process back; `None`: there is none.
    pub(crate) throttled: Option<Nanos>,
}

/// The samples of one thread, oldest first, in memory with a bound.
#[derive(Debug)]
pub(crate) struct Series {
    samples: Vec<Sample>,
    /// One of so many is kept.
    every: u32,
    skipped: u32,
}

impl Series {
    pub(crate) fn new(first: Sample) -> Self {
        Self {
            samples: vec![first],
            every: 1,
            skipped: 0,
        }
    }

    /// Keeps a sample, or leaves it out where they have become sparse.
    pub(crate) fn push(&mut self, sample: Sample) {
        self.skipped += 1;
        if self.skipped >= self.every {
            self.push_always(sample);
        }
    }

    /// Keeps a sample in any case: one at an edge.
    pub(crate) fn push_always(&mut self, sample: Sample) {
        self.skipped = 0;
        if self.samples.len() >= SAMPLES_MAX {
            let mut place = 0;
            // The first one stays.
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.samples.push(sample);
    }

    /// The last sample not after `from` and the first one not before `to`.
    pub(crate) fn around(&self, from: Nanos, to: Nanos) -> Option<(&Sample, &Sample)> {
        let before = self.samples.partition_point(|sample| sample.at <= from);
        let after = self.samples.partition_point(|sample| sample.at < to);
        Some((
            self.samples.get(before.checked_sub(1)?)?,
            self.samples.get(after)?,
        ))
    }

    pub(crate) fn first(&self) -> &Sample {
        &self.samples[0]
    }

    pub(crate) fn last(&self) -> &Sample {
        self.samples.last().unwrap_or_else(|| self.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Sample {
        Sample {
            at: Nanos::from_millis(ms),
            ..Sample::default()
        }
    }

    #[test]
    fn the_samples_around_a_span_are_found() {
        let mut series = Series::new(at(100));
        (2..=5).for_each(|n| series.push(at(n * 100)));
        let around = |from, to| {
            let ms = Nanos::from_millis;
            series
                .around(ms(from), ms(to))
                .map(|(a, b)| (a.at.0 / 1_000_000, b.at.0 / 1_000_000))
        };
        assert_eq!(around(210, 220), Some((200, 300)));
        assert_eq!(around(290, 310), Some((200, 400)));
        assert_eq!(around(200, 300), Some((200, 300)));
        assert_eq!(around(100, 500), Some((100, 500)));
        assert_eq!(around(99, 120), None, "before the first");
        assert_eq!(around(450, 501), None, "after the last");
    }

    #[test]
    fn a_long_run_keeps_its_ends_and_a_bound() {
        let mut series = Series::new(at(0));
        let many = u64::try_from(SAMPLES_MAX * 5).unwrap();
        (1..many).for_each(|n| series.push(at(n)));
        series.push_always(at(many));
        assert!(series.samples.len() <= SAMPLES_MAX && series.samples.len() > SAMPLES_MAX / 4);
        assert!(series.samples.is_sorted_by_key(|sample| sample.at));
        assert_eq!(
            (series.first().at, series.last().at),
            (at(0).at, at(many).at)
        );
    }
}
