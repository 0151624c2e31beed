//! The engine on the virtual network at full speed: requests, and coalesced events.

mod support;

use criterion::{BatchSize, Criterion, SamplingMode, Throughput};
use ridgeline_roofline::passes::simulated::{Answer, Counting, Engine};

use crate::support::CpuTime;

const REQUESTS: u64 = 4_000;
const STREAMS: u64 = 200;
const CONTENT_EVENTS: u64 = 1_000;

fn main() {
    let mut criterion = support::criterion();
    engine(&mut criterion);
    criterion.final_summary();
}

fn engine(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("engine");
    group.sampling_mode(SamplingMode::Flat);
    for (name, answer, requests) in [
        ("requests", Answer::plain(), REQUESTS),
        ("coalesced", Answer::stream(CONTENT_EVENTS), STREAMS),
    ] {
        let mut once = Engine::new(&answer, requests);
        once.run();
        once.check();
        group.throughput(Throughput::Elements(requests * answer.content_events()));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || Engine::new(&answer, requests),
                |mut engine| {
                    engine.run();
                    engine
                },
                BatchSize::PerIteration,
            );
        });
    }

    // What of the above is the network's.
    let answer = Answer::plain();
    assert_eq!(Counting::new(&answer, REQUESTS).run(), REQUESTS);
    group.throughput(Throughput::Elements(REQUESTS));
    group.bench_function("network_alone", |bencher| {
        bencher.iter_batched(
            || Counting::new(&answer, REQUESTS),
            |mut client| {
                client.run();
                client
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}
