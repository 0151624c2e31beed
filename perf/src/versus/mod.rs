//! Two clients against one server, or two servers under one client's load, in turns: A B B A, again
//! and again.
//!
//! Servers are kept to one core and clients to another. A drift of the machine that is
//! linear over a round falls on both arms alike; the primary figure is CPU time per request or
//! event, which does not depend on who waits for whom.
//!
//! [`run`] is a whole comparison. Its parts serve other programs: a [`Served`](crate::child::Served) is a server on a core of
//! its own, an [`Arm`] a client that is run once and accounted for.

mod arm;
pub mod drivers;
mod feeding;
mod figure;
mod lateness;
mod pipe;
mod preset;
mod programs;
mod serving;
mod timing;

use std::fmt;
use std::io;
use std::path::PathBuf;

use ridgeline_clock::Nanos;
use serde::Serialize;

use crate::machine::Environment;
use crate::versus::arm::Side;
pub use crate::versus::arm::{Arm, Bench, Sample};
pub use crate::versus::figure::{Bound, Figure, Measure, Relation};
use crate::versus::figure::{Question, Round};
pub use crate::versus::preset::Preset;
pub use crate::versus::programs::Programs;
pub use crate::versus::serving::find_nginx;
pub use crate::versus::timing::{Errors, Timing};

/// How a comparison is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of four runs; the preset's own number where none is given.
    pub rounds: Option<u32>,
    /// Requests of a run; the preset's own number where none is given.
    pub requests: Option<u64>,
    /// Content events of a stream.
    pub events: u64,
    /// Connections of a client, or open streams of arm B for `memory`, `lateness` and `timing`.
    pub connections: Option<u32>,
    /// Whether both arms use kernel receive stamps.
    pub timestamps: bool,
    /// Time of a run of the presets that run by time, in seconds.
    pub seconds: u32,
    /// Requests per second for `lag`, a quarter of the measured ceiling where none is given; writes
    /// per second for `lateness` and `timing`.
    pub rate: Option<f64>,
    /// Without a rate for `timing`: the share of what ridgeline and its server do here, 0 to 1.
    pub share: f64,
    /// The ridgeline program.
    pub ridgeline: PathBuf,
    /// A Python that has mlcommons/endpoints, for `endpoints-server`.
    pub endpoints_python: Option<PathBuf>,
    /// The bare programs.
    pub programs: Programs,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the clients.
    pub client_core: usize,
    /// The longest a run may take.
    pub limit: Nanos,
}

#[cfg(test)]
impl Options {
    /// Defaults for tests of presets; the programs are not there.
    fn sample() -> Self {
        Self {
            rounds: None,
            requests: None,
            events: 1000,
            connections: None,
            timestamps: false,
            seconds: 4,
            rate: None,
            share: 0.5,
            ridgeline: std::env::current_exe().expect("a test has a program"),
            endpoints_python: None,
            programs: Programs::Folder("bin".into()),
            server_core: 3,
            client_core: 1,
            limit: Nanos::from_secs(60),
        }
    }
}

/// The result: figures, and every sample they come from.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What was compared.
    pub preset: Preset,
    /// Whether with kernel receive stamps.
    pub timestamps: bool,
    /// The names of A and B.
    pub arms: [String; 2],
    /// Where.
    pub environment: Environment,
    /// Content events of each request; 0 for requests that are not streamed.
    pub events_per_request: u64,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The samples, each round in the order A B B A.
    pub rounds: Vec<Round>,
}

/// Makes a comparison. `told` is called after every run, with its arm and its sample.
///
/// # Errors
/// When a program is missing, fails, takes too long, or prints what can't be read.
pub fn run(
    preset: Preset,
    options: &Options,
    mut told: impl FnMut(&str, &Sample),
) -> io::Result<Comparison> {
    let environment = Environment::read();
    let sides = preset.sides(options)?;
    let [a, b] = sides.both.each_ref().map(Box::as_ref);
    let mut sample = |side: &dyn Side| {
        let sample = side.sample(options)?;
        told(side.name(), &sample);
        Ok::<_, io::Error>(sample)
    };
    let mut rounds = Vec::new();
    for _ in 0..options.rounds.unwrap_or_else(|| preset.rounds()) {
        rounds.push([sample(a)?, sample(b)?, sample(b)?, sample(a)?]);
    }
    let events = if preset.streams() { options.events } else { 0 };
    let questions: Vec<Question> = preset.questions(options);
    Ok(Comparison {
        preset,
        timestamps: options.timestamps,
        arms: [a.name().to_owned(), b.name().to_owned()],
        environment,
        events_per_request: events,
        figures: questions
            .into_iter()
            .map(|q| Figure::of(q, &rounds, events))
            .collect(),
        rounds,
    })
}

impl Comparison {
    /// Whether every promise is kept.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.figures.iter().all(|figure| figure.kept)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.arms;
        let stamps = if self.timestamps {
            ", kernel stamps"
        } else {
            ""
        };
        writeln!(
            f,
            "A {a}   B {b}   {} rounds of A B B A{stamps}",
            self.rounds.len()
        )?;
        writeln!(f, "{}", self.environment)?;
        let slope = self
            .figures
            .iter()
            .any(|figure| figure.relation != Relation::Ratio);
        let related = if slope { "per one" } else { "B / A" };
        writeln!(
            f,
            "{:<24}{:>14}{:>14}{related:>10}",
            "", "median A", "median B"
        )?;
        self.figures
            .iter()
            .try_for_each(|figure| writeln!(f, "{figure}"))?;
        if let Some([sample_a, sample_b, ..]) = self.rounds.first()
            && let (Some(a), Some(b)) = (sample_a.response_bytes, sample_b.response_bytes)
        {
            writeln!(f, "bytes of an answer: {a} (A), {b} (B)")?;
        }
        let mut verdicts: Vec<&str> = self
            .rounds
            .iter()
            .flatten()
            .filter_map(|sample| sample.verdict.as_deref())
            .collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        if !verdicts.is_empty() {
            writeln!(f, "ridgeline's own verdict: {}", verdicts.join(", "))?;
        }
        Ok(())
    }
}
