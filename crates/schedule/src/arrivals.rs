use ridgeline_clock::Nanos;

use crate::random::{Gamma, Source};
use crate::{Pattern, ScheduleError, ScheduleSpec, Stage};

/// One request's due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which request: 0, 1, 2 … over all stages and shards.
    pub index: u64,
    /// When, from the start of the run.
    pub at: Nanos,
    /// Which stage made it, from 0.
    pub stage: u32,
}

/// The global schedule, in the order of time. Without end unless every stage has a duration.
///
/// Times never drift. With equal gaps an arrival's time is computed from its number in the stage;
/// with random gaps the part of a nanosecond that is cut off is carried to the next arrival.
#[derive(Clone, Debug)]
pub struct Arrivals {
    stages: Vec<Stage>,
    seed: u64,
    /// The stage being walked: an index into `stages`, or its length at the end.
    stage: usize,
    /// When that stage began, from the start of the run.
    began: Nanos,
    gaps: Gaps,
    index: u64,
}

/// The state of one stage.
#[derive(Clone, Debug)]
enum Gaps {
    Equal {
        count: u64,
        rate_per_s: f64,
    },
    Random {
        source: Source,
        gamma: Option<Gamma>,
        gap_ns: f64,
        at_ns: u64,
        carry_ns: f64,
    },
}

impl Arrivals {
    /// The schedule from its beginning.
    ///
    /// # Errors
    /// When `spec` has no stages or one that can't be scheduled; the message says which and why.
    pub fn new(spec: &ScheduleSpec) -> Result<Self, ScheduleError> {
        spec.check()?;
        Ok(Self {
            gaps: Gaps::new(&spec.stages[0], spec.seed, 0),
            stages: spec.stages.clone(),
            seed: spec.seed,
            stage: 0,
            began: Nanos::ZERO,
            index: 0,
        })
    }

    fn advance(&mut self, ended: Nanos) {
        self.began += ended;
        self.stage += 1;
        if let Some(stage) = self.stages.get(self.stage) {
            self.gaps = Gaps::new(stage, self.seed, self.stage as u64);
        }
    }
}

impl Iterator for Arrivals {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        loop {
            let stage = self.stages.get(self.stage)?;
            let offset = self.gaps.next_ns();
            match stage.duration {
                Some(duration) if offset >= duration.0 => self.advance(duration),
                // The end of what a clock can show, 584 years on.
                _ if self.began + Nanos(offset) == Nanos::MAX => return None,
                _ => {
                    let index = self.index;
                    self.index += 1;
                    let stage = u32::try_from(self.stage).expect("checked when it was made");
                    return Some(Due {
                        index,
                        at: self.began + Nanos(offset),
                        stage,
                    });
                }
            }
        }
    }

    /// Skips in one step where the gaps are equal: a shard of many walks as fast as a lone one.
    fn nth(&mut self, n: usize) -> Option<Due> {
        let skipped = self
            .stages
            .get(self.stage)
            .is_some_and(|stage| self.gaps.skip(n as u64, stage.duration));
        if skipped {
            self.index += n as u64;
        } else {
            for _ in 0..n {
                self.next()?;
            }
        }
        self.next()
    }
}

impl Gaps {
    fn new(stage: &Stage, seed: u64, stream: u64) -> Self {
        let rate_per_s = stage.rate_per_s;
        let gamma = match stage.pattern {
            Pattern::Constant => {
                return Self::Equal {
                    count: 0,
                    rate_per_s,
                };
            }
            Pattern::Poisson => None,
            Pattern::Gamma { shape } => Some(Gamma::new(shape)),
        };
        let source = Source::new(seed, stream);
        Self::Random {
            source,
            gamma,
            gap_ns: 1e9 / rate_per_s,
            at_ns: 0,
            carry_ns: 0.0,
        }
    }

    /// The next arrival, ns from the start of the stage.
    fn next_ns(&mut self) -> u64 {
        match self {
            Self::Equal { count, rate_per_s } => {
                let at_ns = equal_ns(*count, *rate_per_s);
                *count += 1;
                at_ns
            }
            Self::Random {
                source,
                gamma,
                gap_ns,
                at_ns,
                carry_ns,
            } => {
                let gap = match gamma {
                    None => source.exponential(),
                    Some(gamma) => source.gamma(gamma),
                };
                let exact_ns = gap * *gap_ns + *carry_ns;
                let whole_ns = floor(exact_ns);
                *carry_ns = exact_ns - whole_ns as f64;
                *at_ns = at_ns.saturating_add(whole_ns);
                *at_ns
            }
        }
    }

    /// Leaves out `n` arrivals at once, if all of them and the next are sure to lie in the stage.
    fn skip(&mut self, n: u64, duration: Option<Nanos>) -> bool {
        let Self::Equal { count, rate_per_s } = self else {
            return false;
        };
        let inside = duration.is_none_or(|end| equal_ns(*count + n, *rate_per_s) < end.0);
        if inside {
            *count += n;
        }
        inside
    }
}

/// Arrival `count` of equal gaps. Rounded once, so that arrival `i` of a whole rate is exact
/// every second.
fn equal_ns(count: u64, rate_per_s: f64) -> u64 {
    floor(count as f64 * 1e9 / rate_per_s)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative; beyond u64 it saturates, which ends the schedule"
)]
fn floor(ns: f64) -> u64 {
    ns as u64
}
