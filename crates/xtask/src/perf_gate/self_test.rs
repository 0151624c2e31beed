//! The gate's own test: it must find what was planted, and nothing where nothing was.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use ridgeline_clock::{Clock as _, MonotonicClock, Nanos};

use super::bench::{Bench, Pace};
use super::build::{Order, Programs, Workshop};
use super::plant::Plant;
use super::revision::Revision;
use super::statistics::quantile;
use super::subject;
use super::verdict::{self, Line, Measured, Outcome, Rules};
use super::{Args, Cores, Stage};

/// The bench programs that are run: those of what is slowed down.
const BENCHES: [&str; 2] = ["scanner", "engine"];

/// A planted slowdown is to be about 15 %: less might be missed with reason, more would be no test.
const PLANTED: std::ops::RangeInclusive<f64> = 1.12..=1.20;

/// What it is made to be.
const AIM: f64 = 0.15;

/// Measurements that decide how large a plant is made.
const TRIES: u32 = 5;

/// A benchmark in one run: two of them, often.
const PACE: Pace = Pace {
    warm_up: Nanos::from_millis(50),
    measurement: Nanos::from_millis(300),
};

/// Rounds of an attempt.
const ROUNDS: u32 = 7;

/// What is compared with the plain build, and what must come of it.
const CASES: [Option<Plant>; 3] = [None, Some(Plant::Scanner), Some(Plant::Engine)];

/// One comparison of the self-test.
#[derive(Debug)]
struct Trial {
    plant: Option<Plant>,
    outcome: Outcome,
    /// Head over base where the slowdown is planted; of the worst figure where none is.
    ratio: f64,
    /// What is wrong about it.
    fault: Option<String>,
    took: Nanos,
}

/// Builds the revision plainly and with each plant, and judges them. The exit code: 0 when every verdict
/// was the right one, else 5.
pub(super) fn run(
    args: &Args,
    workshop: &Workshop,
    revision: &Revision,
    cores: Cores,
) -> io::Result<u8> {
    let build = |plant: Option<Plant>| {
        let name = plant.map_or_else(String::new, |plant| format!(", slower {plant}"));
        eprintln!("building {}{name}", revision.label());
        let order = Order {
            benches: BENCHES.map(str::to_owned).into(),
            ends: false,
            plant,
        };
        workshop.build(revision, &order)
    };
    let rules = args.rules(ROUNDS);
    let plain = build(None)?;
    let mut cases = Vec::new();
    for plant in CASES {
        let programs = match plant {
            Some(_) => build(plant)?,
            None => plain.clone(),
        };
        let (stage, mut benches) = subjects(&plain, &programs, cores)?;
        for bench in &mut benches {
            if let Some(plant) = plant
                && bench.chosen.contains(plant.figure())
            {
                size(bench, plant, &rules)?;
            }
        }
        cases.push((plant, (stage, benches)));
    }
    let mut passed = 0;
    let mut ratios = CASES.map(|_| Vec::new());
    for repetition in 1..=args.repeat {
        let mut right = true;
        for ((plant, (_stage, benches)), ratios) in cases.iter().zip(&mut ratios) {
            let trial = Trial::make(*plant, benches, &rules)?;
            println!("{repetition:>3}  {trial}");
            right &= trial.fault.is_none();
            ratios.push(trial.ratio);
        }
        passed += u32::from(right);
    }
    let wrong: Vec<String> = CASES
        .into_iter()
        .zip(ratios)
        .filter_map(|(plant, ratios)| wrong_plant(plant?, ratios))
        .collect();
    wrong.iter().for_each(|line| println!("{line}"));
    println!("self-test: {passed} of {} passed", args.repeat);
    Ok(if passed == args.repeat && wrong.is_empty() {
        0
    } else {
        5
    })
}

/// What is wrong about a plant by all of its trials together: a single one is off by a few percent, and what the
/// gate makes of a plant proves something only if that was as large as it was meant to be.
fn wrong_plant(plant: Plant, ratios: Vec<f64>) -> Option<String> {
    let ratio = quantile(ratios, 0.5);
    let (low, high) = (PLANTED.start(), PLANTED.end());
    (!PLANTED.contains(&ratio))
        .then(|| format!("slower {plant}: the plant is wrong: {ratio:.3}, not {low} to {high}"))
}

/// The benches of a case, and where their programs lie.
fn subjects(plain: &Programs, other: &Programs, cores: Cores) -> io::Result<(Stage, Vec<Bench>)> {
    let stage = Stage::new()?;
    let mut benches = Vec::new();
    for (name, plant) in BENCHES.into_iter().zip([Plant::Scanner, Plant::Engine]) {
        let (Some(base), Some(head)) = (plain.benches.get(name), other.benches.get(name)) else {
            return Err(io::Error::other(format!("benches/{name} is not there")));
        };
        benches.push(Bench {
            name: name.to_owned(),
            programs: stage.place(name, [base, head])?,
            chosen: BTreeSet::from([plant.figure().to_owned()]),
            pace: PACE,
            plant_percent: None,
            core: cores.measured,
        });
    }
    Ok((stage, benches))
}

/// Makes the plant of a bench as large as it is meant to be: the machine, and what else the code does, decide what it
/// costs. Whether it is shows in every trial. What was measured while the base differed from itself does not count.
fn size(bench: &mut Bench, plant: Plant, rules: &Rules) -> io::Result<()> {
    let mut percent = plant.percent();
    let mut tries = Vec::new();
    for _ in 0..TRIES * rules.attempts_max {
        bench.plant_percent = Some(percent);
        let mut measured = subject::measure(bench, rules.rounds, &BTreeSet::new())?;
        let rounds = measured.of_both.remove(plant.figure()).unwrap_or_default();
        let Some(measured) = Measured::of(rounds).filter(|it| it.again.is_near_one(rules.quiet))
        else {
            continue;
        };
        let ratio = measured.change.median;
        println!("     slower {plant}: with {percent} % of its work again {ratio:.3}");
        tries.push((percent, ratio));
        percent = sized(&tries);
        if tries.len() == TRIES as usize {
            break;
        }
    }
    println!("     slower {plant}: {percent} % it is");
    bench.plant_percent = Some(percent);
    Ok(())
}

/// The percentage of work for the slowdown that is meant, if that grows in proportion: by least squares from what
/// some percentages were measured to do, as each of them may be off. At most thrice what was tried.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number, or 0 for none"
)]
fn sized(tries: &[(u32, f64)]) -> u32 {
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        let each = tries.iter();
        each.map(|&(percent, ratio)| of(f64::from(percent), ratio - 1.0))
            .sum()
    };
    let largest = tries.iter().map(|&(percent, _)| percent).max();
    let most = f64::from(largest.unwrap_or(1).saturating_mul(3));
    let slope = sum(|percent, slowdown| percent * slowdown) / sum(|percent, _| percent * percent);
    // A slope of nothing, or less, tells only that it is too small.
    (AIM / slope.max(0.0)).min(most).round().max(1.0) as u32
}

impl Trial {
    fn make(plant: Option<Plant>, benches: &[Bench], rules: &Rules) -> io::Result<Self> {
        let start = MonotonicClock.now();
        let mut lines = Vec::new();
        for bench in benches {
            lines.extend(verdict::settle(bench, rules, &mut |line| {
                eprintln!("     {line}")
            })?);
        }
        Ok(Self::judge(plant, &lines, MonotonicClock.now() - start))
    }

    /// Whether the gate said of these figures what is true of them.
    fn judge(plant: Option<Plant>, lines: &[Line], took: Nanos) -> Self {
        let outcome = Outcome::of(lines.iter().map(|line| line.verdict));
        let ratio = |line: &Line| {
            line.measured
                .as_ref()
                .map(|measured| measured.change.median)
        };
        let (ratio, fault) = match plant {
            None => {
                let worst = lines.iter().filter_map(ratio).fold(0.0, f64::max);
                let fault = format!("a revision against itself is a {outcome}");
                (worst, (outcome != Outcome::Pass).then_some(fault))
            }
            Some(plant) => {
                let line = lines.iter().find(|line| line.name == plant.figure());
                let ratio = line.and_then(ratio).unwrap_or(f64::NAN);
                let found = line.is_some_and(|line| line.verdict == verdict::Verdict::Regression);
                let fault = (!found).then(|| "the plant was not found".to_owned());
                (ratio, fault)
            }
        };
        Self {
            plant,
            outcome,
            ratio,
            fault,
            took,
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = self.plant.map_or_else(
            || "against itself".to_owned(),
            |plant| format!("slower {plant}"),
        );
        let Self {
            outcome,
            ratio,
            took,
            ..
        } = self;
        let right = self.fault.as_deref().unwrap_or("right");
        let outcome = outcome.to_string();
        write!(
            f,
            "{case:<15} {ratio:.3}  {outcome:<12}  {:>5.1} s  {right}",
            took.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Interval;
    use super::super::verdict::Verdict;
    use super::*;

    fn line(name: &str, verdict: Verdict, ratio: f64) -> Line {
        let point = |median| Interval {
            median,
            low: median,
            high: median,
        };
        Line {
            name: name.to_owned(),
            verdict,
            measured: Some(Measured {
                base_ns: 1.0,
                head_ns: ratio,
                change: point(ratio),
                again: point(1.0),
                rounds: Vec::new(),
            }),
            attempts: 1,
        }
    }

    #[test]
    fn a_plant_is_sized_by_all_that_was_measured() {
        for (tries, percent) in [
            (&[(16, 1.15)][..], 16),
            (&[(16, 1.10)], 24),
            (&[(400, 1.30)], 200),
            (&[(400, 1.10), (600, 1.15)], 600),
            // One that is off does not decide.
            (&[(600, 1.16), (600, 1.14), (600, 1.12)], 643),
            // Too small to show.
            (&[(16, 1.0)], 48),
            (&[(16, 0.97)], 48),
            (&[(16, f64::NAN)], 48),
            (&[(1, 9.0)], 1),
        ] {
            assert_eq!(sized(tries), percent, "{tries:?}");
        }
    }

    #[test]
    fn a_plant_is_judged_by_all_of_its_trials() {
        for (ratios, right) in [
            (vec![1.15], true),
            (vec![1.21, 1.15, 1.16], true),
            (vec![1.11, 1.11, 1.15], false),
            (vec![1.25], false),
            (vec![f64::NAN], false),
        ] {
            let wrong = wrong_plant(Plant::Engine, ratios.clone());
            assert_eq!(wrong.is_none(), right, "{ratios:?}");
        }
    }

    #[test]
    fn only_the_right_verdict_is_right() {
        use Verdict::{Inconclusive, Pass, Regression};
        let scanner = Some(Plant::Scanner);
        for (plant, of_scanner, of_engine, right) in [
            (None, (Pass, 1.01), (Pass, 0.99), true),
            (None, (Regression, 1.10), (Pass, 1.0), false),
            (None, (Inconclusive, 1.0), (Pass, 1.0), false),
            (scanner, (Regression, 1.15), (Pass, 1.0), true),
            (scanner, (Regression, 1.15), (Regression, 1.06), true),
            (scanner, (Pass, 1.15), (Regression, 1.15), false),
            (scanner, (Inconclusive, 1.15), (Pass, 1.0), false),
            (Some(Plant::Engine), (Pass, 1.0), (Regression, 1.15), true),
        ] {
            let lines = [
                line(Plant::Scanner.figure(), of_scanner.0, of_scanner.1),
                line(Plant::Engine.figure(), of_engine.0, of_engine.1),
            ];
            let trial = Trial::judge(plant, &lines, Nanos::ZERO);
            assert_eq!(trial.fault.is_none(), right, "{trial}");
        }
        let missing = Trial::judge(scanner, &[], Nanos::ZERO);
        assert!(
            missing.to_string().contains("the plant was not found"),
            "{missing}"
        );
    }
}
