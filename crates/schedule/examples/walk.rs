//! What it costs a shard to walk the global schedule, per request of its own: nanoseconds, by
//! pattern and number of shards. Beside the microseconds that a request costs anyway.
//!
//! `cargo run --release -p ridgeline-schedule --example walk`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;

use ridgeline_clock::{Clock, MonotonicClock};
use ridgeline_schedule::{Arrivals, Pattern, ScheduleError, ScheduleSpec, Share, Stage};

/// Requests that one shard takes.
const OWN: u64 = 300_000;

fn main() -> Result<(), ScheduleError> {
    println!("pattern    shards  ns per request of a shard");
    for (name, pattern) in [
        ("constant", Pattern::Constant),
        ("poisson", Pattern::Poisson),
        ("gamma 0.5", Pattern::Gamma { shape: 0.5 }),
        ("gamma 2", Pattern::Gamma { shape: 2.0 }),
    ] {
        for shards in [1, 2, 8] {
            let spec = ScheduleSpec {
                stages: vec![Stage {
                    rate_per_s: 300_000.0,
                    pattern,
                    duration: None,
                }],
                seed: 1,
            };
            let mut tries: Vec<u64> = Vec::new();
            for _ in 0..5 {
                let share = Share::new(Arrivals::new(&spec)?, 0, shards);
                let start = MonotonicClock.now();
                let own = usize::try_from(OWN).unwrap_or(usize::MAX);
                let last = share.take(own).last();
                let spent = MonotonicClock.now() - start;
                black_box(last);
                tries.push(spent.0 / OWN);
            }
            tries.sort_unstable();
            println!("{name:<10} {shards:>6}  {}", tries[tries.len() / 2]);
        }
    }
    Ok(())
}
