//! What an event means: the full parser, and the comparison that makes it needless.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_perf::payload;
use ridgeline_roofline::streams::{Kind, Reads, Stream};
use ridgeline_wire::openai::{Chunk, EndpointType, Slot, Template};

use crate::support::CpuTime;

fn main() {
    let mut criterion = support::criterion();
    openai(&mut criterion);
    criterion.final_summary();
}

fn openai(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("openai");
    for (name, kind) in [("chunk", Kind::OneToken), ("tool_call", Kind::ToolCalls)] {
        let event = event(kind, 9);
        let data = data(&event);
        let chunk = Chunk::parse(EndpointType::Chat, data).expect("an event is JSON");
        assert!(chunk.has_text() || chunk.has_tool_call());
        group.throughput(Throughput::BytesDecimal(data.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| Chunk::parse(EndpointType::Chat, black_box(data)));
        });
    }

    let completion = payload::completion();
    let body = &completion[completion.len() - body_bytes(&completion)..];
    let chunk = Chunk::parse(EndpointType::Chat, body).expect("a completion is JSON");
    assert!(chunk.has_text() && chunk.usage().is_some());
    group.throughput(Throughput::BytesDecimal(body.len() as u64));
    group.bench_function("completion", |bencher| {
        bencher.iter(|| Chunk::parse(EndpointType::Chat, black_box(body)));
    });

    let (first, second) = (event(Kind::OneToken, 9), event(Kind::OneToken, 10));
    let template = learned(&first);
    let found = template
        .matches(&second)
        .expect("they differ in their text");
    assert_eq!((found.bytes, found.slot), (second.len(), Slot::Text));
    group.throughput(Throughput::BytesDecimal(second.len() as u64));
    group.bench_function("fast_path", |bencher| {
        bencher.iter(|| template.matches(black_box(&second)));
    });
    group.finish();
}

/// Event `number` of a stream, without its HTTP chunk.
fn event(kind: Kind, number: usize) -> Vec<u8> {
    let stream = Stream::new(kind, 20, 1);
    let chunk = stream.reads(Reads::Events)[number];
    let start = chunk
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    chunk[start..chunk.len() - 2].to_vec()
}

fn data(event: &[u8]) -> &[u8] {
    event
        .strip_prefix(b"data: ")
        .expect("an event has data")
        .trim_ascii_end()
}

fn learned(event: &[u8]) -> Template {
    let mut template = Template::new(512);
    let data = data(event);
    let chunk = Chunk::parse(EndpointType::Chat, data).expect("an event is JSON");
    let (slot, text) = chunk.sole_string().expect("an event has a text");
    template.learn(event, data, text, slot);
    template
}

fn body_bytes(response: &[u8]) -> usize {
    let mut fours = response.windows(4);
    let head = fours
        .position(|four| four == b"\r\n\r\n")
        .map_or(0, |at| at + 4);
    response.len() - head
}
