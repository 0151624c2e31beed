//! Instructions that the pure crates and the engine on the virtual network take for fixed work: the same
//! on a busy machine as on a quiet one, counted by valgrind's callgrind.
//!
//! `cargo bench --bench instructions` prints `instructions/NAME COUNT` for each; names after it choose.
//! Without valgrind one line says that nothing was counted. `cargo test --benches` runs every work once,
//! uncounted. Each work is checked, and warmed up by one uncounted pass.
#![expect(clippy::print_stdout, reason = "its lines of output")]

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use ridgeline_clock::Nanos;
use ridgeline_metrics::Distribution;
use ridgeline_perf::payload;
use ridgeline_roofline::passes::reading::{Parsing, Reader};
use ridgeline_roofline::passes::simulated::{Answer, Engine};
use ridgeline_roofline::streams::{Kind, Reads, Stream};
use ridgeline_schedule::{Arrivals, Pattern, ScheduleSpec, Stage};
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::http1::{Part, ResponseDecoder};
use ridgeline_wire::sse::Scanner;

/// Every piece of work that is counted, by its name.
const WORKS: [(&str, fn()); 9] = [
    ("http1_response", http1_response),
    ("http1_chunks", http1_chunks),
    ("sse", sse),
    ("openai_fast_path", openai_fast_path),
    ("openai_full_parser", openai_full_parser),
    ("schedule_poisson", schedule_poisson),
    ("metrics_record", metrics_record),
    ("engine_requests", engine_requests),
    ("engine_coalesced", engine_coalesced),
];

/// Asks this program to do one work under valgrind.
const COUNT: &str = "--count";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, name] = &arguments[..]
        && flag == COUNT
    {
        let work = WORKS.iter().find(|(known, _)| known == name);
        work.ok_or_else(|| format!("no work is called {name}"))?.1();
        return Ok(());
    }
    // Cargo says `--bench` when it is to be measured.
    if !arguments.iter().any(|argument| argument == "--bench") {
        WORKS.iter().for_each(|(_, work)| work());
        println!("{} works done, none counted", WORKS.len());
        return Ok(());
    }
    let chosen: Vec<&String> = arguments
        .iter()
        .filter(|name| !name.starts_with('-'))
        .collect();
    count_all(|name| chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str())))
}

fn count_all(is_chosen: impl Fn(&str) -> bool) -> Result<(), Box<dyn Error>> {
    let valgrind = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !valgrind.is_ok_and(|status| status.success()) {
        println!("instructions: skipped, valgrind is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    for (name, _) in WORKS.iter().filter(|(name, _)| is_chosen(name)) {
        println!("instructions/{name} {}", count(name, folder.path())?);
    }
    Ok(())
}

/// Instructions of one work, by a process of its own under callgrind.
fn count(name: &str, folder: &Path) -> Result<u64, Box<dyn Error>> {
    let out = folder.join(name);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_pass*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe()?)
        .args([COUNT, name])
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed under valgrind: {said}").into());
    }
    let text = fs::read_to_string(&out)?;
    let total = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("summary:")
                .or_else(|| line.strip_prefix("totals:"))
        })
        .and_then(|total| total.trim().parse().ok());
    match total {
        Some(total @ 1..) => Ok(total),
        _ => Err(format!("callgrind counted nothing of {name}").into()),
    }
}

/// What callgrind counts: everything inside, and nothing else of the process.
#[inline(never)]
fn counted_pass<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Does the work once to touch every buffer, then once to be counted; both must answer alike.
fn twice(answer: u64, mut work: impl FnMut() -> u64) {
    assert_eq!(work(), answer);
    assert_eq!(counted_pass(work), answer);
}

fn http1_response() {
    let response = payload::completion();
    let (mut http, mut carry, mut pool) = connection();
    twice(100, || {
        let whole = || body_bytes(&mut http, &mut carry, &mut pool, &[&response]) > 0;
        std::iter::repeat_with(whole)
            .take(100)
            .filter(|&is| is)
            .count() as u64
    });
}

fn http1_chunks() {
    let stream = Stream::new(Kind::OneToken, 1_000, 1);
    let reads = stream.reads(Reads::Buffers);
    let (mut http, mut carry, mut pool) = connection();
    let bytes = body_bytes(&mut http, &mut carry, &mut pool, &reads);
    assert!(bytes > 200 * stream.events && bytes < stream.bytes.len() as u64);
    twice(bytes, || {
        body_bytes(&mut http, &mut carry, &mut pool, black_box(&reads))
    });
}

fn connection() -> (ResponseDecoder, Carry, CarryPool) {
    let http = ResponseDecoder::new(256 << 10);
    (http, Carry::new(512), CarryPool::new(1 << 20))
}

fn body_bytes(
    http: &mut ResponseDecoder,
    carry: &mut Carry,
    pool: &mut CarryPool,
    reads: &[&[u8]],
) -> u64 {
    http.start();
    let mut bytes = 0;
    for mut input in reads.iter().copied() {
        while let Ok(Some(part)) = http.next(&mut input, carry, pool) {
            match part {
                Part::Head(_) => {}
                Part::Data(data) => bytes += data.len() as u64,
                Part::End => return bytes,
            }
        }
    }
    0
}

fn sse() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" sea\"}}]}\n\n";
    let (stream, mut scanner) = (event.repeat(1_000), Scanner::new(1 << 20));
    let (_, mut carry, mut pool) = connection();
    twice(1_000, || {
        scanner.reset();
        let (mut input, mut events) = (black_box(stream.as_bytes()), 0);
        while let Ok(Some(_)) = scanner.next(&mut input, &mut carry, &mut pool) {
            events += 1;
        }
        events
    });
}

fn openai_fast_path() {
    read_stream(Parsing::Fast);
}

fn openai_full_parser() {
    read_stream(Parsing::Full);
}

fn read_stream(parsing: Parsing) {
    let stream = Stream::new(Kind::OneToken, 1_000, 1);
    let (reads, mut reader) = (stream.reads(Reads::Buffers), Reader::new(parsing));
    twice(stream.content_events, || reader.read(black_box(&reads)));
}

fn schedule_poisson() {
    let spec = ScheduleSpec {
        stages: vec![Stage {
            rate_per_s: 10_000.0,
            pattern: Pattern::Poisson,
            duration: None,
        }],
        seed: 1,
    };
    let walk = || {
        let arrivals = Arrivals::new(black_box(&spec)).expect("the schedule holds");
        arrivals.take(1_000).last().map_or(0, |due| due.at.0)
    };
    let last = walk();
    assert!(
        (70_000_000..140_000_000).contains(&last),
        "a thousand at ten thousand a second"
    );
    twice(last, walk);
}

fn metrics_record() {
    let spans: Vec<Nanos> = (0..1_000)
        .map(|n| Nanos::from_micros(50 + n * n * 7_919 % 50_000))
        .collect();
    let mut distribution = Distribution::new();
    twice(1_000, || {
        let before = distribution.count();
        black_box(&spans)
            .iter()
            .for_each(|&span| distribution.record(span));
        distribution.count() - before
    });
}

fn engine_requests() {
    run_engine(&Answer::plain(), 1_000);
}

fn engine_coalesced() {
    run_engine(&Answer::stream(1_000), 20);
}

/// The engine has been warmed up when it is made.
fn run_engine(answer: &Answer, requests: u64) {
    let mut engine = Engine::new(answer, requests);
    counted_pass(|| engine.run());
    engine.check();
}
