use ridgeline_clock::Nanos;
use ridgeline_schedule::{Arrivals, Pattern, ScheduleError};

use crate::plan::{Load, Plan};

/// Beyond this many arrivals the end of the schedule is taken from its mean rate: the sum of a
/// million gaps strays from it by less than 0.1 %, and walking them costs 20 ms.
const WALKED_MAX: u64 = 1_000_000;

/// The span, from the start of the measured phase, in which submissions count for the achieved
/// rate: until the duration is over, or until the last arrival of a counted run is due.
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
    let one_rate = schedule.stages.len() == 1;
    let constant = schedule
        .stages
        .iter()
        .all(|stage| matches!(stage.pattern, Pattern::Constant));
    let last = match schedule.stages.first() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a span of under 0.1 % error is enough"
        )]
        Some(stage) if one_rate && (constant || count > WALKED_MAX) => {
            Some(Nanos::from_secs_f64((count - 1) as f64 / stage.rate_per_s))
        }
        _ => {
            let nth = usize::try_from(count - 1).unwrap_or(usize::MAX);
            Arrivals::new(schedule)?.nth(nth).map(|due| due.at)
        }
    };
    Ok(last.unwrap_or(Nanos::MAX).min(duration))
}
