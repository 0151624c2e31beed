//! Streams: the client against the bare counter of events, over loopback.

use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::child::Served;
use ridgeline_perf::payload;

use crate::sections::turns::{self, Tally, words};
use crate::{Context, EVENTS_PER_WRITE, Row, Section, Unit};

const CONNECTIONS: u32 = 64;
/// Content events of a stream.
const EVENTS: u32 = 1000;
/// Events of one write; none: all of them.
const PER_WRITE: [Option<u32>; 4] = [Some(1), Some(4), Some(16), None];

/// Events a second, by how many of them the server writes at once.
///
/// # Errors
/// When a program can't be started, fails or takes too long.
pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    for per_write in PER_WRITE {
        told(measure(context, per_write)?);
    }
    Ok(())
}

fn measure(context: &Context, per_write: Option<u32>) -> io::Result<Row> {
    let served = turns::serve(context, &server(per_write))?;
    let streams = warm_up(context, &served)?;
    let connections = CONNECTIONS.to_string();
    let bare = bare(&["--requests", &streams]);
    let bare = turns::bare_client(context, &served, &bare);
    let own = words(&[
        "--prompt",
        payload::PROMPT,
        "--concurrency",
        &connections,
        "--request-count",
        &streams,
    ]);
    let own = turns::bench(context, &served, true, &own);
    let turns = turns::in_turns(context, Some(&served), &bare, &own)?;
    let name = match per_write {
        Some(1) => "paced: 1 event a write".to_owned(),
        Some(several) => format!("{several} events a write"),
        None => "coalesced: all events in one write".to_owned(),
    };
    Ok(Row::new(Section::Sse, name, Unit::EventsPerS)
        .at(EVENTS_PER_WRITE, f64::from(per_write.unwrap_or(EVENTS)))
        .at("connections", f64::from(CONNECTIONS))
        .measured(turns.measured("bare counter", f64::from(EVENTS)))
        .limited_by(turns::limited_by(context, &turns.own)))
}

fn server(per_write: Option<u32>) -> Vec<String> {
    let events = EVENTS.to_string();
    match per_write {
        None => words(&["--mode", "coalesced", "--events", &events]),
        Some(several) => {
            let several = several.to_string();
            words(&[
                "--mode",
                "paced",
                "--events",
                &events,
                "--events-per-write",
                &several,
            ])
        }
    }
}

fn bare(more: &[&str]) -> Vec<String> {
    let connections = CONNECTIONS.to_string();
    let fixed = words(&["--mode", "stream", "--connections", &connections]);
    [fixed, words(more)].concat()
}

/// A short run of the bare counter, which is also the measure of how many streams fill a run.
fn warm_up(context: &Context, served: &Served) -> io::Result<String> {
    let short = turns::seconds(Nanos(context.run().0 / 5));
    let arm = turns::bare_client(context, served, &bare(&["--seconds", &short]));
    let mut tally = Tally::default();
    turns::run_once(context, Some(served), &arm, &mut tally)?;
    Ok(turns::filling(&tally, context.run(), u64::from(CONNECTIONS)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_writes_as_many_events_as_the_row_says() {
        assert_eq!(
            server(Some(4)).join(" "),
            "--mode paced --events 1000 --events-per-write 4"
        );
        assert_eq!(server(None).join(" "), "--mode coalesced --events 1000");
    }
}
