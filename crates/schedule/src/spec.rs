use ridgeline_clock::Nanos;

/// The highest rate of a stage. A request costs the fastest client microseconds: a higher rate is a
/// slip of the unit.
pub const RATE_PER_S_MAX: f64 = 1e9;

/// The lowest rate of a stage: one request in about twelve days.
pub const RATE_PER_S_MIN: f64 = 1e-6;

/// The least shape of a gamma process. Below it nearly all gaps are zero and one spans the run.
pub const SHAPE_MIN: f64 = 1e-3;

/// The greatest shape of a gamma process. Beyond it the gaps differ by less than 0.1 %: ask for
/// [`Pattern::Constant`].
pub const SHAPE_MAX: f64 = 1e6;

/// How arrivals are spread in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Equal gaps; the first arrival is at the start of the stage.
    Constant,
    /// Exponential gaps: independent users. The first arrival is one gap after the start.
    Poisson,
    /// Gamma-distributed gaps of the same mean; the first arrival is one gap after the start.
    ///
    /// As `--burstiness` of `vllm bench serve` and `--arrival-smoothness` of aiperf, except that
    /// the gaps are not stretched afterwards to make the last arrival fall on a round time.
    Gamma {
        /// 1 is Poisson, below it bursts, above it the gaps become even. The coefficient of
        /// variation of the gaps is `1 / sqrt(shape)`.
        shape: f64,
    },
}

/// One part of a schedule: a rate, held for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Mean arrivals per second, [`RATE_PER_S_MIN`] to [`RATE_PER_S_MAX`].
    pub rate_per_s: f64,
    /// How the arrivals are spread.
    pub pattern: Pattern,
    /// How long the stage lasts; `None`, allowed for the last stage only, means without end.
    pub duration: Option<Nanos>,
}

/// All that determines a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSpec {
    /// The stages in their order, 1 or more.
    pub stages: Vec<Stage>,
    /// The seed of random gaps. Each stage draws from its own stream of it, so that changing one
    /// stage leaves the gaps of the others as they were.
    pub seed: u64,
}

/// Why a schedule can't be made. Stages are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No stage was given.
    #[error("the schedule has no stage: give a request rate")]
    NoStages,
    /// A rate that is not a number, not positive, or beyond the limits.
    #[error(
        "stage {stage}: a rate of {rate_per_s} requests/s cannot be scheduled; \
         it must lie between {RATE_PER_S_MIN} and {RATE_PER_S_MAX:e}"
    )]
    Rate {
        /// Which stage.
        stage: u32,
        /// The rate that was asked for.
        rate_per_s: f64,
    },
    /// A gamma shape that is not a number, not positive, or beyond the limits.
    #[error(
        "stage {stage}: a gamma shape of {shape} cannot be scheduled; it must lie between \
         {SHAPE_MIN} and {SHAPE_MAX:e} (1 is Poisson; for equal gaps use the constant pattern)"
    )]
    Shape {
        /// Which stage.
        stage: u32,
        /// The shape that was asked for.
        shape: f64,
    },
    /// A stage that lasts no time.
    #[error("stage {stage}: its duration is 0; leave the stage out or give it a duration")]
    Empty {
        /// Which stage.
        stage: u32,
    },
    /// A stage without end that others follow.
    #[error("stage {stage} has no duration, so the stage after it would never begin")]
    Unreachable {
        /// Which stage.
        stage: u32,
    },
    /// More stages than can be numbered.
    #[error("{stages} stages are too many: at most {} are possible", u32::MAX)]
    TooMany {
        /// How many there were.
        stages: usize,
    },
}

impl ScheduleSpec {
    pub(crate) fn check(&self) -> Result<(), ScheduleError> {
        if self.stages.is_empty() {
            return Err(ScheduleError::NoStages);
        }
        let stages = self.stages.len();
        let last = u32::try_from(stages).map_err(|_| ScheduleError::TooMany { stages })?;
        for (number, stage) in (1..=last).zip(&self.stages) {
            stage.check(number)?;
            if stage.duration.is_none() && number != last {
                return Err(ScheduleError::Unreachable { stage: number });
            }
        }
        Ok(())
    }
}

impl Stage {
    fn check(&self, number: u32) -> Result<(), ScheduleError> {
        // Written so that NaN fails.
        if !(RATE_PER_S_MIN..=RATE_PER_S_MAX).contains(&self.rate_per_s) {
            return Err(ScheduleError::Rate {
                stage: number,
                rate_per_s: self.rate_per_s,
            });
        }
        if let Pattern::Gamma { shape } = self.pattern
            && !(SHAPE_MIN..=SHAPE_MAX).contains(&shape)
        {
            return Err(ScheduleError::Shape {
                stage: number,
                shape,
            });
        }
        if self.duration == Some(Nanos::ZERO) {
            return Err(ScheduleError::Empty { stage: number });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stages: &[Stage]) -> Result<(), ScheduleError> {
        ScheduleSpec {
            stages: stages.to_vec(),
            seed: 0,
        }
        .check()
    }

    const OPEN: Stage = Stage {
        rate_per_s: 1.0,
        pattern: Pattern::Poisson,
        duration: None,
    };

    #[test]
    fn rates_out_of_range_are_refused_with_the_range() {
        for rate_per_s in [0.0, -0.0, -3.0, f64::NAN, f64::INFINITY, 1.1e9, 1e-7] {
            let error = check(&[Stage { rate_per_s, ..OPEN }]).unwrap_err();
            assert!(
                matches!(error, ScheduleError::Rate { stage: 1, .. }),
                "{error:?}"
            );
        }
        for rate_per_s in [1e-6, 0.5, 1e9] {
            assert_eq!(check(&[Stage { rate_per_s, ..OPEN }]), Ok(()));
        }
        let error = check(&[Stage {
            rate_per_s: -3.0,
            ..OPEN
        }])
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "stage 1: a rate of -3 requests/s cannot be scheduled; \
             it must lie between 0.000001 and 1e9"
        );
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        for shape in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-4, 1e7] {
            let stage = Stage {
                pattern: Pattern::Gamma { shape },
                ..OPEN
            };
            assert!(matches!(
                check(&[stage]),
                Err(ScheduleError::Shape { stage: 1, .. })
            ));
        }
    }

    #[test]
    fn only_the_last_stage_may_be_without_end() {
        let closed = Stage {
            duration: Some(Nanos(1)),
            ..OPEN
        };
        assert_eq!(check(&[]), Err(ScheduleError::NoStages));
        assert_eq!(check(&[closed, OPEN]), Ok(()));
        assert_eq!(check(&[closed, closed]), Ok(()));
        assert_eq!(
            check(&[OPEN, closed]),
            Err(ScheduleError::Unreachable { stage: 1 })
        );
        let empty = Stage {
            duration: Some(Nanos::ZERO),
            ..OPEN
        };
        assert_eq!(
            check(&[closed, empty]),
            Err(ScheduleError::Empty { stage: 2 })
        );
    }
}
