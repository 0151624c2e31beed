//! The ring between threads, with both ends on one: the cost of its own steps and copies.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_roofline::passes::ring::Alone;

use crate::support::CpuTime;

const MESSAGES: u64 = 1_000;

fn main() {
    let mut criterion = support::criterion();
    transport(&mut criterion);
    criterion.final_summary();
}

fn transport(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("transport");
    group.throughput(Throughput::Elements(MESSAGES));
    for (name, bytes) in [("32_bytes", 32), ("2_kib", 2 << 10), ("32_kib", 32 << 10)] {
        let mut ring = Alone::new(bytes);
        assert_eq!(ring.pass(MESSAGES), MESSAGES);
        group.bench_function(name, |bencher| {
            bencher.iter(|| ring.pass(black_box(MESSAGES)));
        });
    }
    group.finish();
}
