//! Requests that are not streamed: the client against the bare one, over loopback.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ridgeline_clock::Nanos;
use ridgeline_perf::child::Served;
use ridgeline_perf::payload;

use crate::sections::turns::{self, Tally, words};
use crate::{Context, Row, Section, Unit};

/// What most points have.
const TYPICAL: Point = Point {
    connections: 64,
    prompt_bytes: 128,
    answer_bytes: 256,
};
/// A read that holds more is several reads of the bare server's small buffers.
const SMALL_BYTES: usize = 2048;

/// One row's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    connections: u32,
    /// Of the prompt's text; head and JSON around it are some 350 more.
    prompt_bytes: usize,
    /// Of the answer's text; head and JSON around it are some 350 more.
    answer_bytes: usize,
}

/// Along one axis after the other.
fn points(quick: bool) -> Vec<Point> {
    let (connections, prompts, answers): (&[u32], &[usize], &[usize]) = if quick {
        (&[1, 64, 1024], &[32, 32 << 10], &[4 << 10])
    } else {
        (
            &[1, 16, 64, 256, 1024],
            &[32, 1 << 10, 8 << 10, 32 << 10, 128 << 10],
            &[256, 4 << 10, 64 << 10],
        )
    };
    let by_connections = connections.iter().map(|&connections| Point {
        connections,
        ..TYPICAL
    });
    let by_prompt = prompts.iter().map(|&prompt_bytes| Point {
        prompt_bytes,
        ..TYPICAL
    });
    let by_answer = answers.iter().map(|&answer_bytes| Point {
        answer_bytes,
        ..TYPICAL
    });
    let all = by_connections.chain(by_prompt).chain(by_answer);
    let mut distinct: Vec<Point> = Vec::new();
    for point in all {
        if !distinct.contains(&point) {
            distinct.push(point);
        }
    }
    distinct
}

/// Requests a second over connections, prompt sizes and answer sizes.
///
/// # Errors
/// When a program can't be started, fails or takes too long.
pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    for point in points(context.quick) {
        told(measure(context, point)?);
    }
    Ok(())
}

fn measure(context: &Context, point: Point) -> io::Result<Row> {
    let folder = tempfile::tempdir()?;
    let served = serve(context, point, folder.path())?;
    let asked = Asked::write(&served, point, folder.path())?;
    let requests = warm_up(context, &served, &asked, point)?;
    let bare = turns::bare_client(context, &served, &asked.bare(&["--requests", &requests]));
    let own = turns::bench(
        context,
        &served,
        false,
        &asked.bench(&["--request-count", &requests]),
    );
    let turns = turns::in_turns(context, Some(&served), &bare, &own)?;
    let Point {
        connections,
        prompt_bytes,
        answer_bytes,
    } = point;
    let plural = if connections == 1 { "" } else { "s" };
    let name = format!(
        "{connections} connection{plural}, {} prompt, {} answer",
        turns::bytes(prompt_bytes),
        turns::bytes(answer_bytes)
    );
    Ok(Row::new(Section::Client, name, Unit::RequestsPerS)
        .at("connections", f64::from(connections))
        .at("prompt_bytes", axis(prompt_bytes))
        .at("answer_bytes", axis(answer_bytes))
        .measured(turns.measured("bare client", 1.0))
        .limited_by(turns::limited_by(context, &turns.own)))
}

#[expect(clippy::cast_precision_loss, reason = "a length far below 2^53")]
fn axis(bytes: usize) -> f64 {
    bytes as f64
}

fn serve(context: &Context, point: Point, folder: &Path) -> io::Result<Served> {
    let answer = folder.join("answer");
    let text = text(point.answer_bytes);
    fs::write(&answer, payload::completion_saying(&text))?;
    let mut flags = words(&["--mode", "request", "--answer"]);
    flags.push(answer.display().to_string());
    if point.prompt_bytes > SMALL_BYTES {
        flags.extend(words(&["--buffer-bytes", "16384"]));
    }
    turns::serve(context, &flags)
}

/// What both clients send: the same bytes, as flags of either.
struct Asked {
    bare: Vec<String>,
    bench: Vec<String>,
}

impl Asked {
    /// A prompt may be longer than a flag can be: both read it from a file.
    fn write(served: &Served, point: Point, folder: &Path) -> io::Result<Self> {
        let address: SocketAddr = served.address().parse().map_err(io::Error::other)?;
        let prompt = text(point.prompt_bytes);
        let request = folder.join("request");
        fs::write(&request, payload::request_asking(address, false, &prompt))?;
        let file = folder.join("bench.yaml");
        fs::write(&file, format!("prompt: \"{prompt}\"\n"))?;
        let connections = point.connections.to_string();
        let mut bare = words(&["--connections", &connections, "--request-file"]);
        bare.push(request.display().to_string());
        if point.answer_bytes > SMALL_BYTES {
            bare.extend(words(&["--buffers", "128", "--buffer-bytes", "65536"]));
        }
        let mut bench = words(&["--concurrency", &connections, "--config"]);
        bench.push(file.display().to_string());
        Ok(Self { bare, bench })
    }

    fn bare(&self, more: &[&str]) -> Vec<String> {
        [self.bare.clone(), words(more)].concat()
    }

    fn bench(&self, more: &[&str]) -> Vec<String> {
        [self.bench.clone(), words(more)].concat()
    }
}

/// A short run of the bare client, which is also the measure of how many requests fill a run.
fn warm_up(context: &Context, served: &Served, asked: &Asked, point: Point) -> io::Result<String> {
    let short = turns::seconds(Nanos(context.run().0 / 5));
    let arm = turns::bare_client(context, served, &asked.bare(&["--seconds", &short]));
    let mut tally = Tally::default();
    turns::run_once(context, Some(served), &arm, &mut tally)?;
    let least = u64::from(point.connections);
    Ok(turns::filling(&tally, context.run(), least).to_string())
}

/// So many bytes of text that JSON and YAML leave as it is.
fn text(bytes: usize) -> String {
    let words = "the sea keeps its own time and tells ";
    words.chars().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_measured_once() {
        assert_eq!(points(false).len(), 5 + 5 + 2);
        assert_eq!(points(true).len(), 3 + 2 + 1);
        assert!(points(true).contains(&TYPICAL) && points(false).contains(&TYPICAL));
    }

    #[test]
    fn a_text_has_the_length_that_was_asked_for() {
        for bytes in [0, 1, 32, 131_072] {
            assert_eq!(text(bytes).len(), bytes);
        }
        assert!(!text(1000).contains(['"', '\\', '\n']));
    }
}
