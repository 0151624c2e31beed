//! What the benches share: they measure the CPU time of their thread, because a gate that compares two
//! revisions must not see what else the machine does.

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use ridgeline_clock::{Nanos, thread_cpu_time};

use std::time::Duration;

/// CPU time of the thread that measures, user and system.
#[derive(Debug)]
pub(crate) struct CpuTime;

static NANOSECONDS: WallTime = WallTime;

impl Measurement for CpuTime {
    type Intermediate = Nanos;
    type Value = Nanos;

    fn start(&self) -> Nanos {
        thread_cpu_time()
    }

    fn end(&self, start: Nanos) -> Nanos {
        thread_cpu_time() - start
    }

    fn add(&self, one: &Nanos, other: &Nanos) -> Nanos {
        *one + *other
    }

    fn zero(&self) -> Nanos {
        Nanos::ZERO
    }

    #[expect(clippy::cast_precision_loss, reason = "spans far below 2^53 ns")]
    fn to_f64(&self, value: &Nanos) -> f64 {
        value.0 as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        NANOSECONDS.formatter()
    }
}

/// Criterion as all benches use it: short, on CPU time, changed by the command line.
pub(crate) fn criterion() -> Criterion<CpuTime> {
    Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args()
}
