//! Series of runs: sweeps, repetitions and searches. One set-up and one server for all of them, a folder and
//! a verdict for each, and `search.json` above.

mod advice;
mod asked;
mod document;
mod figures;
mod load;
mod runs;
mod spec;
mod table;
mod windows;
mod words;

use ridgeline_metrics::Slo;
use ridgeline_search::{
    Ending, Knee, KneeFinding, KneeOptions, MaxRate, MaxRateFinding, MaxRateOptions, Outcome,
    Repeats,
};

pub(crate) use advice::advice;
pub(crate) use asked::{check, is_asked};
pub(crate) use document::Kept;
pub(crate) use spec::{Find, Sweep, Warmup};

use asked::Asked;
use document::RepeatsDocument;
use load::{Load, largest};
use runs::{Point, Runs};

use crate::complaint::Complaint;
use crate::config::{ArrivalPattern, BenchConfig};
use crate::terminal;

/// A run that needs as much as any of the series that `config` asks for; `config` itself, if it asks for
/// none.
pub(crate) fn one_run(config: &BenchConfig) -> Result<BenchConfig, Complaint> {
    Ok(largest(config, &Asked::new(config)?))
}

/// Runs a series. The exit code.
pub(crate) fn command(config: &BenchConfig, verbose: bool) -> Result<u8, Complaint> {
    let asked = Asked::new(config)?;
    let mut runs = Runs::start(config, &asked, verbose)?;
    match &asked {
        Asked::Same => repeat(&mut runs, &[Load::Same])?,
        Asked::Sweep(sweep) => {
            let loads: Vec<Load> = match sweep {
                Sweep::Concurrency(levels) => levels.iter().copied().map(Load::Closed).collect(),
                Sweep::Rate(rates) => rates.iter().copied().map(Load::Open).collect(),
            };
            repeat(&mut runs, &loads)?;
        }
        Asked::Knee => {
            let options = KneeOptions {
                precision: asked::precision(config),
                ..knee_options(&runs)
            };
            runs.document.knee = Some(knee(&mut runs, options)?);
        }
        Asked::MaxRate => runs.document.max_rate = max_rate(&mut runs)?,
    }
    conclude(&mut runs)
}

/// What the whole series came to: printed, written, and made an exit code.
fn conclude(runs: &mut Runs) -> Result<u8, Complaint> {
    let interrupted = runs.is_interrupted();
    let document = &runs.document;
    let exit_code = match (&document.knee, &document.max_rate) {
        _ if interrupted => 130,
        (Some(found), _) => of_search(found.ending, &runs.points, 3),
        (_, Some(found)) => of_search(found.ending, &runs.points, 5),
        (None, None) => worst(&runs.points),
    };
    let advice = runs.points.iter().max_by(|a, b| {
        let of = |point: &Point| point.report.throughput.content_events_per_s;
        of(a).total_cmp(&of(b))
    });
    let advice = advice.map(|point| advice::advice(&point.report, runs.profile.as_ref()));
    let document = &mut runs.document;
    document.interrupted = interrupted;
    document.exit_code = exit_code;
    document.advice = advice.as_deref().map(|words| words.trim_end().to_owned());
    let conclusion = words::conclusion(runs);
    runs.document.conclusion = Some(conclusion.clone());
    let kept = runs.keep();
    let mut text = String::new();
    if !runs.is_quiet() {
        text.extend(table::legend(&runs.document.points));
        text.push('\n');
    }
    text.push_str(&conclusion);
    if !runs.is_quiet() {
        text.extend(advice);
    }
    text.push_str(&format!("{}\n", runs.path().display()));
    terminal::print(&text)?;
    kept?;
    Ok(exit_code)
}

/// The exit code of a sweep: the first, in the order of a run's, that any of its runs has.
fn worst(points: &[Point]) -> u8 {
    let codes = || points.iter().map(|point| point.report.exit_code);
    let order = [130, 4, 3, 5];
    let found = order.into_iter().find(|code| codes().any(|of| of == *code));
    found.unwrap_or(0)
}

/// The exit code of a search. Its runs are probes: that one misses a service level, or that the client
/// gave out beyond the answer, is what it is made of. `nothing`: when no load holds.
fn of_search(ending: Ending, points: &[Point], nothing: u8) -> u8 {
    let failed = points.iter().all(|point| point.report.load.completed == 0);
    match ending {
        Ending::Aborted => 130,
        _ if failed => 4,
        Ending::Found => 0,
        Ending::LowerBound => 3,
        Ending::Nothing => nothing,
    }
}

/// Each load, as often as was asked for, or until its figures are certain enough.
fn repeat(runs: &mut Runs, loads: &[Load]) -> Result<(), Complaint> {
    let (times, precision) = (runs.config().repeat, runs.config().precision);
    for load in loads {
        let mut repeats = Repeats::new(times.unwrap_or(1), precision);
        let mut made = 0;
        while !repeats.is_done() && !runs.is_interrupted() {
            let (point, _) = runs.run(*load, None)?;
            repeats.tell(point.figures.compared());
            made += 1;
        }
        if times.is_some() {
            runs.document.repeats.push(RepeatsDocument {
                load: load.to_string(),
                runs: made,
                has_converged: repeats.has_converged(),
                requests_per_s: repeats.estimate(0),
                latency_p50_ns: repeats.estimate(1),
                ttft_p50_ns: repeats.estimate(2),
            });
        }
    }
    Ok(())
}

fn knee_options(runs: &Runs) -> KneeOptions {
    let usual = KneeOptions::up_to(runs.level_max());
    KneeOptions {
        rounds: runs.config().rounds.unwrap_or(usual.rounds),
        ..usual
    }
}

fn knee(runs: &mut Runs, options: KneeOptions) -> Result<KneeFinding, Complaint> {
    let mut knee = Knee::new(options);
    while let Some(window) = knee.next() {
        if runs.is_interrupted() {
            knee.tell(Outcome::Aborted);
            break;
        }
        let load = Load::Closed(window.level);
        let (point, times) = runs.run(load, Some(window.requests))?;
        knee.tell(windows::closed(&point.report, &times, window.level));
    }
    Ok(knee.finding())
}

/// A rate that nothing is known of begins at half of what a closed loop gets through.
const START_SHARE: f64 = 0.5;

/// A window is long beside a response time: by this much.
const WINDOW_RESPONSES: f64 = 10.0;

/// With half a request in flight hardly any meets another: a lower rate is not served faster.
const IN_FLIGHT_MIN: f64 = 0.5;

/// Requests that are sent one at a time, to see what a request takes that meets no other.
const ALONE: u64 = 24;

/// `None` when not even one request at a time got through.
fn max_rate(runs: &mut Runs) -> Result<Option<MaxRateFinding>, Complaint> {
    let slos: Vec<Slo> = asked::judged(runs.config()).collect();
    let allowed: Vec<f64> = slos
        .iter()
        .filter_map(|slo| Some(1.0 - slo.percentile?.fraction()))
        .collect();
    let (point, times) = runs.run(Load::Closed(1), Some(ALONE))?;
    let alone = windows::alone(&point.report, &times, &slos);
    if runs.is_interrupted() {
        return Ok(Some(without_rate(Ending::Aborted, "it was ended early")));
    }
    let Some(response_s) = alone.response_s else {
        return Ok(None);
    };
    if let Some(slo) = alone.missed(&slos, &allowed) {
        let why = format!("a request that meets no other does not meet {slo} either");
        return Ok(Some(without_rate(Ending::Nothing, &why)));
    }
    let mut options = MaxRateOptions::new(1.0, allowed);
    // Half of what is asked for is the bracket's, the other half the noise's.
    options.precision = asked::precision(runs.config()) / 2.0;
    options.requests_sure = match runs.config().arrival_pattern {
        Some(ArrivalPattern::Constant) => 0,
        _ => requests_sure(options.precision),
    };
    options.window_min_s = response_s * WINDOW_RESPONSES;
    options.rate_min_per_s = IN_FLIGHT_MIN / response_s;
    options.start_per_s = match runs.config().request_rate {
        Some(rate) => rate,
        None => {
            let ladder = KneeOptions {
                level_min: 2,
                ..knee_options(runs).coarse()
            };
            let throughput = knee(runs, ladder)?.throughput_max_per_s;
            let throughput = throughput.unwrap_or(1.0 / response_s);
            (throughput * START_SHARE).max(options.rate_min_per_s)
        }
    };
    let mut search = MaxRate::new(options);
    while let Some(probe) = search.next() {
        if runs.is_interrupted() {
            search.tell(Outcome::Aborted);
            break;
        }
        let (point, times) = runs.run(Load::Open(probe.rate_per_s), Some(probe.requests))?;
        search.tell(windows::open(&point.report, &times, &slos));
    }
    Ok(Some(search.finding()))
}

/// So many random arrivals tell their rate to within `precision`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of requests, which saturates"
)]
fn requests_sure(precision: f64) -> u64 {
    precision.powi(-2).ceil() as u64
}

/// What a search found that ended before its first rate.
fn without_rate(ending: Ending, why: &str) -> MaxRateFinding {
    MaxRateFinding {
        ending,
        rate_per_s: None,
        failed_per_s: None,
        why: Some(why.to_owned()),
        probes: Vec::new(),
    }
}
