//! Streams in memory, read on the engine's path: HTTP chunks, event lines, chunk understanding.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_roofline::passes::reading::{Parsing, Reader};
use ridgeline_roofline::streams::{Kind, Reads, Stream};

use crate::support::CpuTime;

/// Name, stream, reads, parsing.
const CASES: [(&str, Kind, Reads, Parsing); 7] = [
    ("one_token", Kind::OneToken, Reads::Buffers, Parsing::Fast),
    (
        "four_tokens",
        Kind::FourTokens,
        Reads::Buffers,
        Parsing::Fast,
    ),
    ("tool_calls", Kind::ToolCalls, Reads::Buffers, Parsing::Fast),
    ("crlf", Kind::CrLf, Reads::Buffers, Parsing::Fast),
    ("segments", Kind::OneToken, Reads::Segments, Parsing::Fast),
    ("event_a_read", Kind::OneToken, Reads::Events, Parsing::Fast),
    ("full_parser", Kind::OneToken, Reads::Buffers, Parsing::Full),
];

fn main() {
    let mut criterion = support::criterion();
    scanner(&mut criterion);
    criterion.final_summary();
}

fn scanner(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("scanner");
    for (name, kind, reads, parsing) in CASES {
        let stream = Stream::new(kind, 1_000, 1);
        let parts = stream.reads(reads);
        let mut reader = Reader::new(parsing);
        assert_eq!(reader.read(&parts), stream.content_events);
        group.throughput(Throughput::BytesDecimal(stream.bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| reader.read(black_box(&parts)));
        });
    }
    group.finish();
}
