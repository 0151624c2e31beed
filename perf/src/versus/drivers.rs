//! Ridgeline's drivers, all in turns, each over the bare program: one table.
//!
//! A round runs bare, driver 1, driver 2, ..., and then all of them in the opposite order, against one server: what drifts
//! falls on all alike, as in A B B A.

use std::ffi::OsString;
use std::fmt;
use std::io;

use serde::Serialize;

use crate::child::{Listens, Served};
use crate::machine::Environment;
use crate::versus::arm::{Arm, Sample, Side as _};
use crate::versus::figure::{Measure, median};
use crate::versus::{Options, Preset, preset};

/// A load that every driver is put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    Request,
    Coalesced,
    Paced,
    Lag,
}

/// The order in which loads are run.
const LOADS: [Load; 4] = [Load::Request, Load::Coalesced, Load::Paced, Load::Lag];

impl Load {
    const fn preset(self) -> Preset {
        match self {
            Self::Request => Preset::Request,
            Self::Coalesced => Preset::Coalesced,
            Self::Paced => Preset::Paced,
            Self::Lag => Preset::Lag,
        }
    }

    /// Half of what a pair of arms runs, where no number is asked for: there are five.
    fn options(self, options: &Options) -> Options {
        let half = self.preset().requests(options) / 2;
        Options {
            requests: options.requests.or(Some(half)),
            ..options.clone()
        }
    }

    const fn measures(self) -> &'static [Measure] {
        match self {
            Self::Request => &[Measure::CpuNsPerRequest, Measure::RequestsPerS],
            Self::Coalesced | Self::Paced => &[Measure::CpuNsPerEvent, Measure::EventsPerS],
            Self::Lag => &[
                Measure::CpuNsPerRequest,
                Measure::LagP50Ns,
                Measure::LagP99Ns,
            ],
        }
    }
}

/// Rounds, where none are asked for: each is 10 runs of each load.
const ROUNDS: u32 = 3;

/// The table, and every sample it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The name of this comparison among the presets.
    pub preset: &'static str,
    /// Where.
    pub environment: Environment,
    /// How many rounds.
    pub rounds: u32,
    /// Content events of each stream.
    pub events_per_request: u64,
    /// Requests a second of the load `lag`.
    pub rate_per_s: f64,
    /// Line by line.
    pub lines: Vec<Line>,
}

/// One measure of one arm under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    load: Load,
    measure: Measure,
    /// `bare`, or the driver.
    arm: String,
    /// The median over all runs.
    median: f64,
    /// Over the median of the bare program.
    ratio: f64,
    /// The least and the most of the runs.
    range: [f64; 2],
    /// What `ridgeline` thinks of these runs, each once.
    verdicts: Vec<String>,
}

/// Makes the table for these drivers, as `ridgeline bench --driver` names them. `told` is called after every run.
///
/// # Errors
/// When a program is missing, was built without a driver, fails, takes too long, or prints what can't be read.
pub fn run(
    drivers: &[String],
    options: &Options,
    mut told: impl FnMut(&str, &Sample),
) -> io::Result<Table> {
    let environment = Environment::read();
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let rate = rate(options)?;
    let options = Options {
        rate: Some(rate),
        ..options.clone()
    };
    let mut lines = Vec::new();
    for load in LOADS {
        let options = load.options(&options);
        let served = serve(load.preset(), &options)?;
        let arms = arms(load.preset(), drivers, &options, served.address())?;
        let mut samples = vec![Vec::new(); arms.len()];
        for _ in 0..rounds {
            for place in (0..arms.len()).chain((0..arms.len()).rev()) {
                let (name, arm) = &arms[place];
                let sample = arm.sample(&options)?;
                told(&format!("{load:?}, {name}"), &sample);
                samples[place].push(sample);
            }
        }
        let names: Vec<&str> = arms.iter().map(|(name, _)| name.as_str()).collect();
        for &measure in load.measures() {
            lines.extend(compare(load, measure, &names, &samples, options.events));
        }
    }
    Ok(Table {
        preset: "drivers",
        environment,
        rounds,
        events_per_request: options.events,
        rate_per_s: rate,
        lines,
    })
}

/// A sixteenth of what the bare client does: the dearest driver is to keep up with it, though each request wakes it.
fn rate(options: &Options) -> io::Result<f64> {
    if let Some(rate) = options.rate {
        return Ok(rate);
    }
    let served = serve(Preset::Request, options)?;
    Ok((preset::ceiling(options, served.address())? / 16.0).round())
}

fn serve(preset: Preset, options: &Options) -> io::Result<Served> {
    let mut server = options.programs.command("bare-server");
    server.arg("--attached").args(preset.server(options));
    Served::start(&mut server, options.server_core, Listens::Says)
}

/// The bare program first, then the drivers.
fn arms(
    preset: Preset,
    drivers: &[String],
    options: &Options,
    address: &str,
) -> io::Result<Vec<(String, Arm)>> {
    let [bare, _] = preset.arms(options, address)?;
    let mut arms = vec![("bare".to_owned(), bare)];
    for driver in drivers {
        let [_, mut arm] = preset.arms(options, address)?;
        arm.args
            .extend([OsString::from("--driver"), OsString::from(driver)]);
        arms.push((driver.clone(), arm));
    }
    Ok(arms)
}

fn compare(
    load: Load,
    measure: Measure,
    names: &[&str],
    samples: &[Vec<Sample>],
    events: u64,
) -> Vec<Line> {
    let values: Vec<Vec<f64>> = samples
        .iter()
        .map(|samples| samples.iter().map(|s| measure.of(s, events)).collect())
        .collect();
    let bare = median(values.first().cloned().unwrap_or_default());
    let lines = names.iter().zip(&values).zip(samples);
    lines
        .map(|((name, values), samples)| {
            let mut verdicts: Vec<String> =
                samples.iter().filter_map(|s| s.verdict.clone()).collect();
            verdicts.sort_unstable();
            verdicts.dedup();
            let median = median(values.clone());
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Line {
                load,
                measure,
                arm: (*name).to_owned(),
                median,
                ratio: median / bare,
                range: [least, most],
                verdicts,
            }
        })
        .collect()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds, each in one order and back; streams of {} events; lag at {} requests a second",
            self.rounds, self.events_per_request, self.rate_per_s
        )?;
        writeln!(f, "{}", self.environment)?;
        writeln!(
            f,
            "{:<11}{:<20}{:<10}{:>14}{:>10}   runs from, to",
            "load", "", "arm", "median", "/ bare"
        )?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: serde_json::Result<serde_json::Value>| {
            let value = value.map_err(|_| fmt::Error)?;
            value.as_str().map(str::to_owned).ok_or(fmt::Error)
        };
        let load = word(serde_json::to_value(self.load))?;
        let measure = word(serde_json::to_value(self.measure))?;
        let Self {
            arm,
            median,
            ratio,
            range: [least, most],
            ..
        } = self;
        write!(
            f,
            "{load:<11}{measure:<20}{arm:<10}{median:>14.1}{ratio:>10.3}   {least:.1} {most:.1}"
        )?;
        if !self.verdicts.is_empty() {
            write!(f, "   {}", self.verdicts.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_asked_for_the_same() {
        let options = Options {
            rate: Some(1000.0),
            ..Options::sample()
        };
        let drivers = ["uring", "epoll"].map(str::to_owned);
        for load in LOADS {
            let arms = arms(load.preset(), &drivers, &options, "127.0.0.1:9").expect("arms");
            let names: Vec<&str> = arms.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["bare", "uring", "epoll"]);
            let [uring, epoll] = [1, 2].map(|place| arms[place].1.args.clone());
            let (last, rest) = uring.split_last().expect("flags");
            assert_eq!(last, "uring");
            assert_eq!(rest, &epoll[..epoll.len() - 1]);
        }
    }

    #[test]
    fn what_is_asked_for_is_run_and_else_half_of_a_pairs() {
        let options = Options::sample();
        assert_eq!(Load::Paced.options(&options).requests, Some(1_250));
        let options = Options {
            requests: Some(7),
            ..options
        };
        assert_eq!(Load::Paced.options(&options).requests, Some(7));
    }

    #[test]
    fn a_line_is_over_the_bare_program() {
        let sample = |cpu_ns| Sample {
            requests: 10,
            cpu_ns,
            elapsed_ns: 1_000_000_000,
            ..Sample::default()
        };
        let samples = [
            vec![sample(100), sample(300), sample(200)],
            vec![sample(300), sample(300), sample(900)],
        ];
        let measure = Measure::CpuNsPerRequest;
        let lines = compare(Load::Request, measure, &["bare", "epoll"], &samples, 0);
        assert_eq!((lines[1].median, lines[1].ratio), (30.0, 1.5));
        assert_eq!(lines[1].range, [30.0, 90.0]);
        let text = lines[1].to_string();
        assert!(
            text.starts_with("request    cpu_ns_per_request  epoll "),
            "{text}"
        );
    }
}
