//! The engine without a kernel: a shard on the virtual network at full speed, beside a client on the
//! same network that only counts bytes.

use std::io;

use crate::interleave::{Cost, interleaved, on_client_core, timed};
use crate::passes::simulated::{Answer, CONCURRENCY, Counting, Engine};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// Content events of a stream that comes coalesced.
const CONTENT_EVENTS: u64 = 1_000;

pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let (rounds, scale) = if context.quick { (3, 1) } else { (7, 4) };
    let plain = (Answer::plain(), 60_000 * scale);
    let [engine, counting] = on_client_core(context, || measure(rounds, &plain.0, plain.1, 1.0))?;
    told(
        row(&plain.0, "not streamed", Unit::RequestsPerS)
            .measured(beside(engine, counting))
            .limited_by(words(engine, counting, "request")),
    );

    let stream = (Answer::stream(CONTENT_EVENTS), 1_000 * scale);
    let [engine, counting] = on_client_core(context, || {
        measure(rounds, &stream.0, stream.1, count(CONTENT_EVENTS))
    })?;
    told(
        row(
            &stream.0,
            "streamed, coalesced in 64 KiB reads",
            Unit::EventsPerS,
        )
        .measured(beside(engine, counting))
        .limited_by(words(engine, counting, "event")),
    );
    Ok(())
}

/// The costs of one of `items` things in an answer: the engine's and the counting client's.
fn measure(rounds: u32, answer: &Answer, requests: u64, items: f64) -> io::Result<[Cost; 2]> {
    let items = items * count(requests);
    let mut engine = || {
        let mut engine = Engine::new(answer, requests);
        let spent = timed(items, || engine.run());
        engine.check();
        Ok(spent)
    };
    let mut counting = || {
        let mut client = Counting::new(answer, requests);
        let mut answered = 0;
        let spent = timed(items, || answered = client.run());
        assert_eq!(answered, requests);
        Ok(spent)
    };
    interleaved(rounds, [&mut engine, &mut counting])
}

fn row(answer: &Answer, what: &str, unit: Unit) -> Row {
    let name = format!("{what}, {CONCURRENCY} in flight, no kernel");
    Row::new(Section::Engine, name, unit)
        .at("concurrency", f64::from(CONCURRENCY))
        .at("answer_bytes", count(answer.bytes() as u64))
}

fn beside(engine: Cost, counting: Cost) -> Measured {
    Measured {
        achieved: engine.per_cpu_s(),
        cpu_ns: Some(engine.cpu_ns),
        ceiling: Some(Ceiling {
            name: "a client that counts bytes, same network".to_owned(),
            value: counting.per_cpu_s(),
            cpu_ns: Some(counting.cpu_ns),
        }),
    }
}

fn words(engine: Cost, counting: Cost, item: &str) -> String {
    format!(
        "one core: of {:.0} ns per {item} the virtual network takes {:.0}",
        engine.cpu_ns, counting.cpu_ns
    )
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn count(of: u64) -> f64 {
    of as f64
}
