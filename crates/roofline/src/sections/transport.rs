//! Messages between threads: the in-process ring and transport, beside one copy of the same bytes; and
//! between processes: ZeroMQ, beside libzmq where that is built in.

use std::ffi::OsString;
use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::pipe::{HAS_LIBZMQ, Piping, Scheme, Sizes};

use crate::interleave::{Cost, Spent, interleaved, on_client_core, timed};
use crate::passes::inside;
use crate::passes::ring::{Copying, Messages, cross};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// Sizes of a message.
const SIZES: [usize; 6] = [32, 128, 512, 2 << 10, 8 << 10, 32 << 10];
const SIZES_QUICK: [usize; 3] = [32, 2 << 10, 32 << 10];

/// Records travel in batches.
const RECORD_BYTES: usize = 128;
const BATCH_RECORDS: usize = 64;

/// Between processes a batch is worth a system call.
const MESSAGE_RECORDS: usize = 256;

/// What goes through in a trial, and the longest that one run may take.
const TRIAL_BYTES: usize = 4 << 20;
const LIMIT: Nanos = Nanos::from_secs(30);

/// Measures them all.
///
/// # Errors
/// When a core can't be had, or a program fails.
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
    told(in_process(context)?);
    for scheme in [Scheme::Ipc, Scheme::Tcp] {
        for &bytes in sizes {
            told(between_processes(context, scheme, bytes, 1)?);
        }
        let bytes = RECORD_BYTES * MESSAGE_RECORDS;
        told(between_processes(context, scheme, bytes, MESSAGE_RECORDS)?);
    }
    Ok(())
}

/// The transport's own ends, with what bounds and wakes them.
fn in_process(context: &Context) -> io::Result<Row> {
    let bytes = RECORD_BYTES * MESSAGE_RECORDS;
    let cores = [context.server_core, context.client_core];
    let (rounds, span) = lengths(context);
    let costs = on_client_core(context, || {
        let crossing =
            |messages: u64| inside::cross(messages, MESSAGE_RECORDS, RECORD_BYTES, cores);
        let trial = crossing(256)?;
        let count = (span.0 * 256 / trial.wall.0.max(1)).max(256);
        let items = items(count, MESSAGE_RECORDS);
        let mut own = || {
            crossing(count).map(|crossing| Spent {
                items,
                wall: crossing.wall,
                cpu: crossing.cpu,
            })
        };
        let mut copy = Copying::new(bytes);
        let mut copying = || Ok(timed(items, || copy.pass(count)));
        interleaved(rounds, [&mut own, &mut copying])
    })?;
    let name = format!("in-process ends, records of {RECORD_BYTES} B by {MESSAGE_RECORDS}");
    Ok(row(name, Unit::RecordsPerS, bytes)
        .at("batched", 1.0)
        .measured(beside(costs))
        .limited_by(words(context, costs)))
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn items(messages: u64, records: usize) -> f64 {
    messages as f64 * records as f64
}

fn between_processes(
    context: &Context,
    scheme: Scheme,
    bytes: usize,
    records: usize,
) -> io::Result<Row> {
    let costs = piped(context, scheme, bytes, records)?;
    let (way, is_tcp) = match scheme {
        Scheme::Ipc => ("ipc", 0.0),
        Scheme::Tcp => ("tcp over loopback", 1.0),
    };
    let (what, unit) = if records == 1 {
        (size(bytes), Unit::MessagesPerS)
    } else {
        let what = format!("records of {} B by {records}", bytes / records);
        (what, Unit::RecordsPerS)
    };
    let measured = Measured {
        achieved: costs[0].per_s(),
        cpu_ns: Some(costs[0].cpu_ns),
        ceiling: costs.get(1).map(|libzmq| Ceiling {
            name: "libzmq".to_owned(),
            value: libzmq.per_s(),
            cpu_ns: Some(libzmq.cpu_ns),
        }),
    };
    let cores = if context.server_core == context.client_core {
        "both processes share the one core"
    } else {
        "the kernel copies each byte in and out, each process on a core"
    };
    let libzmq = if HAS_LIBZMQ {
        ""
    } else {
        "; libzmq beside it was not measured: it is not built in"
    };
    Ok(row(format!("ZeroMQ over {way}, {what}"), unit, bytes)
        .at("tcp", is_tcp)
        .measured(measured)
        .limited_by(format!("{cores}{libzmq}")))
}

/// The costs of a record: of this program, and of libzmq where it is built in.
fn piped(
    context: &Context,
    scheme: Scheme,
    message_bytes: usize,
    records: usize,
) -> io::Result<Vec<Cost>> {
    let cores = [context.server_core, context.client_core];
    let piping = |name: &'static str, words: &[&str]| Piping {
        name,
        program: context.ridgeline.clone(),
        words: words.iter().map(OsString::from).collect(),
    };
    let (own, libzmq) = (
        piping("ridgeline pipe", &["pipe"]),
        piping("libzmq", &["ceiling", "libzmq-pipe"]),
    );
    let crossing = |piping: &Piping, messages: u64| {
        let sizes = Sizes {
            message_bytes,
            records,
            messages,
        };
        piping.cross(scheme, sizes, cores, LIMIT)
    };
    let trial = (TRIAL_BYTES / message_bytes.max(64)).max(64) as u64;
    let took = crossing(&own, trial)?.crossed.elapsed_ns.max(1);
    let span = Nanos(context.run().0 / 4);
    let count = (u128::from(span.0) * u128::from(trial) / u128::from(took)).max(u128::from(trial));
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let run = |piping: &Piping| {
        let crossing = crossing(piping, count)?;
        Ok(Spent {
            items: items(count, records),
            wall: Nanos(crossing.crossed.elapsed_ns),
            cpu: crossing.cpu,
        })
    };
    let (mut ours, mut theirs) = (|| run(&own), || run(&libzmq));
    if HAS_LIBZMQ {
        interleaved(1, [&mut ours, &mut theirs]).map(Vec::from)
    } else {
        interleaved(1, [&mut ours]).map(Vec::from)
    }
}

fn lengths(context: &Context) -> (u32, Nanos) {
    if context.quick {
        (3, Nanos::from_millis(25))
    } else {
        (7, Nanos::from_millis(80))
    }
}

/// The costs of one of the `items` in a message: across the ring, and copied once.
fn measure(context: &Context, bytes: usize, items: f64) -> io::Result<[Cost; 2]> {
    let (rounds, span) = lengths(context);
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
