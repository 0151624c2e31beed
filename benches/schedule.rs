//! When requests start: a thousand arrivals of each process, and a shard's share of them.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_clock::Nanos;
use ridgeline_schedule::{Arrivals, Pattern, ScheduleSpec, Share, Stage};

use crate::support::CpuTime;

const ARRIVALS: usize = 1_000;

fn main() {
    let mut criterion = support::criterion();
    schedule(&mut criterion);
    criterion.final_summary();
}

fn schedule(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("schedule");
    group.throughput(Throughput::Elements(ARRIVALS as u64));
    for (name, pattern) in [
        ("constant", Pattern::Constant),
        ("poisson", Pattern::Poisson),
        ("gamma", Pattern::Gamma { shape: 0.5 }),
    ] {
        let spec = spec(pattern);
        let last = walk(&spec);
        // Ten thousand a second: a thousand take about 0.1 s.
        assert!(
            last > Nanos::from_millis(70) && last < Nanos::from_millis(140),
            "{last}"
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| walk(black_box(&spec)));
        });
    }
    let spec = spec(Pattern::Poisson);
    assert_eq!(share(&spec), walk(&spec));
    group.bench_function("share_of_4", |bencher| {
        bencher.iter(|| share(black_box(&spec)));
    });
    group.finish();
}

fn spec(pattern: Pattern) -> ScheduleSpec {
    ScheduleSpec {
        stages: vec![Stage {
            rate_per_s: 10_000.0,
            pattern,
            duration: None,
        }],
        seed: 1,
    }
}

/// When the last of the arrivals is due.
fn walk(spec: &ScheduleSpec) -> Nanos {
    let arrivals = Arrivals::new(spec).expect("the schedule holds");
    arrivals
        .take(ARRIVALS)
        .last()
        .map_or(Nanos::ZERO, |due| due.at)
}

/// The same by the last of four shards, whose quarter ends with the last arrival.
fn share(spec: &ScheduleSpec) -> Nanos {
    let arrivals = Arrivals::new(spec).expect("the schedule holds");
    let share = Share::new(arrivals, 3, 4);
    share
        .take(ARRIVALS / 4)
        .last()
        .map_or(Nanos::ZERO, |due| due.at)
}
