//! HTTP/1.1 alone: heads and chunks of responses, heads of requests.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_perf::payload;
use ridgeline_roofline::streams::{Kind, Reads, Stream};
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::http1::{Method, Part, RequestOptions, RequestTemplate, ResponseDecoder};

use crate::support::CpuTime;

fn main() {
    let mut criterion = support::criterion();
    http1(&mut criterion);
    criterion.final_summary();
}

fn http1(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("http1");
    let mut decoding = Decoding::new();
    let answer = payload::completion();
    let body = answer.len() - head_bytes(&answer);
    assert_eq!(decoding.body_bytes(&[&answer]), body);
    group.throughput(Throughput::BytesDecimal(answer.len() as u64));
    group.bench_function("response", |bencher| {
        bencher.iter(|| decoding.body_bytes(black_box(&[&answer])));
    });

    let stream = Stream::new(Kind::OneToken, 1_000, 1);
    for (name, reads) in [("chunks", Reads::Buffers), ("chunks_cut", Reads::Segments)] {
        let parts = stream.reads(reads);
        assert_eq!(decoding.body_bytes(&parts), event_bytes(&stream));
        group.throughput(Throughput::BytesDecimal(stream.bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| decoding.body_bytes(black_box(&parts)));
        });
    }

    let template = template();
    let mut head = Vec::with_capacity(1_024);
    template.write_head(7, 130, &mut head);
    assert!(head.ends_with(b"0000000000000007\r\nContent-Length: 130\r\n\r\n"));
    group.throughput(Throughput::BytesDecimal(head.len() as u64));
    group.bench_function("request_head", |bencher| {
        bencher.iter(|| {
            template.write_head(black_box(7), black_box(130), &mut head);
            head.len()
        });
    });
    group.finish();
}

/// A decoder and its memory, used again and again.
struct Decoding {
    http: ResponseDecoder,
    carry: Carry,
    pool: CarryPool,
}

impl Decoding {
    fn new() -> Self {
        Self {
            http: ResponseDecoder::new(256 << 10),
            carry: Carry::new(512),
            pool: CarryPool::new(1 << 20),
        }
    }

    /// The bytes of a response's body, found part by part; 0 of one that is not whole.
    fn body_bytes(&mut self, reads: &[&[u8]]) -> usize {
        self.http.start();
        let mut bytes = 0;
        for mut input in reads.iter().copied() {
            loop {
                match self.http.next(&mut input, &mut self.carry, &mut self.pool) {
                    Ok(Some(Part::Head(_))) => {}
                    Ok(Some(Part::Data(data))) => bytes += data.len(),
                    Ok(Some(Part::End)) => return bytes,
                    Ok(None) => break,
                    Err(_) => return 0,
                }
            }
        }
        0
    }
}

/// The bytes of a stream's events, which are its body.
fn event_bytes(stream: &Stream) -> usize {
    let text = str::from_utf8(&stream.bytes).expect("a stream is text");
    let events = text.split("data: ").skip(1);
    let ends = events.filter_map(|event| event.find("\n\n"));
    ends.map(|end| "data: ".len() + end + "\n\n".len()).sum()
}

fn head_bytes(response: &[u8]) -> usize {
    let mut fours = response.windows(4);
    fours
        .position(|four| four == b"\r\n\r\n")
        .map_or(0, |at| at + 4)
}

fn template() -> RequestTemplate {
    RequestTemplate::new(&RequestOptions {
        method: Method::Post,
        target: "/v1/chat/completions",
        host: "127.0.0.1:8000",
        accept: "text/event-stream",
        api_key: None,
        id_prefix: "rl-00000001-",
        headers: &[],
    })
    .expect("the options hold")
}
