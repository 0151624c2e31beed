//! Reading streams in memory: the engine's path and the full parser, beside a pass that only looks for
//! line feeds and one that copies.

use std::hint::black_box;
use std::io;

use ridgeline_clock::Nanos;

use crate::interleave::{Cost, interleaved, on_client_core, repeating};
use crate::passes::reading::{Parsing, Reader};
use crate::streams::{Kind, Reads, Stream};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// Content events of a stream: some 250 KiB, which fit a core's own cache as a received buffer does.
const CONTENT_EVENTS: u64 = 1_000;

/// The costs of one byte, all found in turns.
struct Costs {
    fast: Cost,
    full: Cost,
    lines: Cost,
    copy: Cost,
}

pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    for kind in Kind::ALL {
        let stream = Stream::new(kind, CONTENT_EVENTS, 1);
        for reads in Reads::ALL {
            let costs = on_client_core(context, || measure(context.quick, &stream, reads))?;
            tell(&stream, reads, &costs, told);
        }
    }
    Ok(())
}

fn measure(quick: bool, stream: &Stream, reads: Reads) -> io::Result<Costs> {
    let (rounds, span) = if quick {
        (3, Nanos::from_millis(6))
    } else {
        (7, Nanos::from_millis(15))
    };
    let parts = stream.reads(reads);
    let bytes = size(stream.bytes.len());
    let reading = |parsing| {
        let (mut reader, parts) = (Reader::new(parsing), &parts);
        repeating(bytes, span, move || {
            let found = reader.read(black_box(parts));
            assert_eq!(found, stream.content_events);
        })
    };
    let there = memchr::memchr_iter(b'\n', &stream.bytes).count();
    let lines = || {
        // Read by read, as the reader has to.
        let found = |part: &&[u8]| memchr::memchr_iter(b'\n', black_box(part)).count();
        assert_eq!(parts.iter().map(found).sum::<usize>(), there);
    };
    let mut copy = vec![0; stream.bytes.len()];
    let copying = || {
        let mut at = 0;
        for part in black_box(&parts) {
            copy[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        assert_eq!(black_box(&copy).last(), stream.bytes.last());
    };
    let [fast, full, lines, copy] = interleaved(
        rounds,
        [
            &mut reading(Parsing::Fast),
            &mut reading(Parsing::Full),
            &mut repeating(bytes, span, lines),
            &mut repeating(bytes, span, copying),
        ],
    )?;
    Ok(Costs {
        fast,
        full,
        lines,
        copy,
    })
}

fn tell(stream: &Stream, reads: Reads, costs: &Costs, told: &mut dyn FnMut(Row)) {
    let event_bytes = size(stream.bytes.len()) / count(stream.events);
    let read_bytes = size(stream.bytes.len()) / size(stream.reads(reads).len());
    let place = format!("{}, {}", stream.kind.name(), reads.name());
    let mut tell = |what: &str, unit: Unit, own: Cost, limit: &str| {
        // Of an event where events are counted.
        let items = if unit == Unit::EventsPerS {
            event_bytes
        } else {
            1.0
        };
        told(
            Row::new(Section::Scanner, format!("{what}: {place}"), unit)
                .at("bytes_per_read", read_bytes)
                .at("bytes_per_event", event_bytes)
                .measured(beside(own.times(items), costs.lines.times(items)))
                .limited_by(limit),
        );
    };
    let fast_limit = fast_limit(costs);
    let full_limit = "one core: every byte of every event's JSON is looked at";
    let (fast, full) = ("engine", "full");
    tell(fast, Unit::BytesPerS, costs.fast, &fast_limit);
    tell(fast, Unit::EventsPerS, costs.fast, &fast_limit);
    tell(full, Unit::BytesPerS, costs.full, full_limit);
    if reads == Reads::Buffers {
        let limit = "memory: what a client that does not read in place pays beside its parser";
        tell("copy", Unit::BytesPerS, costs.copy, limit);
    }
}

fn beside(own: Cost, lines: Cost) -> Measured {
    Measured {
        achieved: own.per_cpu_s(),
        cpu_ns: Some(own.cpu_ns),
        ceiling: Some(Ceiling {
            name: "memchr pass for line feeds".to_owned(),
            value: lines.per_cpu_s(),
            cpu_ns: Some(lines.cpu_ns),
        }),
    }
}

fn fast_limit(costs: &Costs) -> String {
    let times = costs.full.cpu_ns / costs.fast.cpu_ns;
    if times < 1.5 {
        "one core: what varies is not the text, so every event takes the full parser".to_owned()
    } else {
        format!("one core, {times:.1} times the full parser: two comparisons and a search an event")
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn count(events: u64) -> f64 {
    events as f64
}
