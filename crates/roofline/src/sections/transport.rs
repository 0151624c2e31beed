//! Messages between threads: the in-process ring, beside one copy of the same bytes.

use std::io;

use ridgeline_clock::Nanos;

use crate::interleave::{Cost, Spent, interleaved, on_client_core, timed};
use crate::passes::ring::{Copying, Messages, cross};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// Sizes of a message.
const SIZES: [usize; 6] = [32, 128, 512, 2 << 10, 8 << 10, 32 << 10];
const SIZES_QUICK: [usize; 3] = [32, 2 << 10, 32 << 10];

/// Records travel in batches.
const RECORD_BYTES: usize = 128;
const BATCH_RECORDS: usize = 64;

pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let sizes = if context.quick {
        &SIZES_QUICK[..]
    } else {
        &SIZES[..]
    };
    for &bytes in sizes {
        let costs = on_client_core(context, || measure(context, bytes, 1.0))?;
        let name = format!("ring between two threads, {}", size(bytes));
        told(
            row(name, Unit::MessagesPerS, bytes)
                .measured(beside(costs))
                .limited_by(words(context, costs)),
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "a small constant")]
    let batch = BATCH_RECORDS as f64;
    let bytes = RECORD_BYTES * BATCH_RECORDS;
    let costs = on_client_core(context, || measure(context, bytes, batch))?;
    let name = format!("ring between two threads, records of {RECORD_BYTES} B by {BATCH_RECORDS}");
    told(
        row(name, Unit::RecordsPerS, bytes)
            .measured(beside(costs))
            .limited_by(words(context, costs)),
    );
    for peer in ["ipc between processes", "tcp between machines"] {
        let name = format!("ZeroMQ, {peer}");
        told(
            Row::new(Section::Transport, name, Unit::MessagesPerS)
                .limited_by("not measured: ZeroMQ is not built in"),
        );
    }
    Ok(())
}

/// The costs of one of the `items` in a message: across the ring, and copied once.
fn measure(context: &Context, bytes: usize, items: f64) -> io::Result<[Cost; 2]> {
    let (rounds, span) = if context.quick {
        (3, Nanos::from_millis(25))
    } else {
        (7, Nanos::from_millis(80))
    };
    let cores = [context.server_core, context.client_core];
    const TRIAL: u64 = 4_096;
    let trial = cross(
        Messages {
            bytes,
            count: TRIAL,
        },
        cores,
    )?;
    let count = (span.0 * TRIAL / trial.wall.0.max(1)).max(TRIAL);
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    let items = items * count as f64;
    let mut crossing = || {
        let crossing = cross(Messages { bytes, count }, cores)?;
        Ok(Spent {
            items,
            wall: crossing.wall,
            cpu: crossing.cpu,
        })
    };
    let mut copy = Copying::new(bytes);
    let mut copying = || Ok(timed(items, || copy.pass(count)));
    interleaved(rounds, [&mut crossing, &mut copying])
}

fn row(name: String, unit: Unit, bytes: usize) -> Row {
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
    let bytes = bytes as f64;
    Row::new(Section::Transport, name, unit).at("message_bytes", bytes)
}

fn beside([crossing, copying]: [Cost; 2]) -> Measured {
    Measured {
        achieved: crossing.per_s(),
        cpu_ns: Some(crossing.cpu_ns),
        ceiling: Some(Ceiling {
            name: "one copy by one thread".to_owned(),
            value: copying.per_s(),
            cpu_ns: Some(copying.cpu_ns),
        }),
    }
}

fn words(context: &Context, [crossing, _]: [Cost; 2]) -> String {
    if context.server_core == context.client_core {
        return "both threads share the one core".to_owned();
    }
    format!(
        "cache lines between two cores; both threads wait by spinning ({:.1} cores busy)",
        crossing.cpu_ns / crossing.wall_ns
    )
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 10 {
        format!("{bytes} B")
    } else {
        format!("{} KiB", bytes >> 10)
    }
}
