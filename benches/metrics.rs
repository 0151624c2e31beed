//! Numbers as they come in: spans into a histogram, and shards' histograms into one.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_clock::Nanos;
use ridgeline_metrics::{Collector, Distribution};

use crate::support::CpuTime;

const SPANS: u64 = 1_000;

fn main() {
    let mut criterion = support::criterion();
    metrics(&mut criterion);
    criterion.final_summary();
}

fn metrics(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("metrics");
    // Spread over three decades, as latencies are, in no order.
    let spans: Vec<Nanos> = (0..SPANS)
        .map(|n| Nanos::from_micros(50 + n * n * 7_919 % 50_000))
        .collect();
    let mut distribution = Distribution::new();
    spans.iter().for_each(|&span| distribution.record(span));
    assert_eq!(distribution.count(), SPANS);
    assert_eq!(distribution.max(), spans.iter().max().copied());
    group.throughput(Throughput::Elements(SPANS));
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            let spans = black_box(&spans);
            spans.iter().for_each(|&span| distribution.record(span));
        });
    });

    let other = distribution.clone();
    let before = distribution.count();
    distribution.merge(&other);
    assert_eq!(distribution.count(), 2 * before);
    let (mut sum, part) = (Collector::new(&[]), Collector::new(&[]));
    group.throughput(Throughput::Elements(1));
    group.bench_function("merge", |bencher| {
        bencher.iter(|| sum.merge(black_box(&part)));
    });
    group.finish();
}
