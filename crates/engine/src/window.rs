use ridgeline_clock::Nanos;
use ridgeline_schedule::{Arrivals, Pattern, ScheduleError, Stage};

use crate::plan::{Load, Plan};

/// Beyond this many arrivals the end of the schedule is taken from its mean rate: the sum of a
/// million gaps strays from it by less than 0.1 %, and walking them costs 20 ms.
const WALKED_MAX: u64 = 1_000_000;

/// The span, from the start of the measured phase, in which submissions count for the achieved
/// rate: until the duration is over. A counted run's ends one mean gap after its last arrival is
/// due: a request is handed over a little after it is due, and the last one counts like the others.
///
/// # Errors
/// When the schedule can't be walked.
pub fn window(plan: &Plan) -> Result<Nanos, ScheduleError> {
    let duration = plan.stop.duration.unwrap_or(Nanos::MAX);
    let Load::Open { schedule, .. } = &plan.load else {
        return Ok(duration);
    };
    let Some(count) = plan.stop.requests_max.filter(|&count| count > 0) else {
        return Ok(duration);
    };
    let constant = schedule
        .stages
        .iter()
        .all(|stage| matches!(stage.pattern, Pattern::Constant));
    let end = match schedule.stages.as_slice() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a span of under 0.1 % error is enough"
        )]
        [stage] if constant || count > WALKED_MAX => {
            Some(Nanos::from_secs_f64(count as f64 / stage.rate_per_s))
        }
        stages => {
            let nth = usize::try_from(count - 1).unwrap_or(usize::MAX);
            let gap = |stage: &Stage| Nanos::from_secs_f64(1.0 / stage.rate_per_s);
            Arrivals::new(schedule)?
                .nth(nth)
                .map(|due| due.at + stages.get(due.stage as usize).map_or(Nanos::ZERO, gap))
        }
    };
    Ok(end.unwrap_or(Nanos::MAX).min(duration))
}
