//! `cargo xtask perf-gate`: does a change make anything slower?
//!
//! Two revisions are built and measured side by side, base, head and base again, on one core, by CPU
//! time (perf/METHOD.md, *The gate*). A figure fails when its slowdown is certain, above a floor and comes
//! again; when the base differs from itself, nothing is said of it. Instructions are counted where valgrind
//! is there.

mod bench;
mod build;
mod counts;
mod ends;
mod page;
mod plant;
mod revision;
mod self_test;
mod statistics;
mod subject;
mod verdict;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ridgeline_clock::Nanos;
use ridgeline_perf::machine::Environment;
use rustix::thread::{CpuSet, sched_getaffinity};

use bench::{Bench, Pace};
use build::{Order, Programs, Workshop};
use counts::Count;
use ends::End;
use page::Document;
use revision::Revision;
use subject::Subject;
use verdict::{Outcome, Rules};

/// Compares the CPU time and the instructions of two revisions.
///
/// Exit codes: 0 nothing is slower; 5 something is; 4 the machine was too noisy to tell; 2 wrong usage; 1
/// something could not be built or run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask perf-gate", bin_name = "cargo xtask perf-gate")]
struct Args {
    /// The revision to compare with; where the change left the main branch unless given.
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// The revision to judge; the work tree as it is unless given.
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// Rounds of three runs in an attempt; 9, with --quick 5, for the self-test 7.
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: Option<u32>,
    /// How often a figure is measured before it is given up as undecided.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100))]
    attempts: u32,
    /// A slowdown up to this is let pass.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    floor: f64,
    /// How far the base may seem to be from itself.
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0)]
    quiet: f64,
    /// Only these bench programs, with commas between.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    benches: Vec<String>,
    /// A few minutes: fewer rounds, and nothing end to end.
    #[arg(long)]
    quick: bool,
    /// Where `perf-gate.json` and `perf-gate.md` go; `target/perf-gate/result` unless given.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The core that is measured on; the last one that is allowed unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Find slowdowns of 15 % that are planted in the scanner and in the engine, and none in a revision
    /// compared with itself.
    #[arg(long, conflicts_with_all = ["base", "benches", "quick"])]
    self_test: bool,
    /// How often the self-test is made, with the same programs.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "self_test",
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

/// Runs the command; tells its exit code.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let program = "perf-gate".to_owned();
    let args = match Args::try_parse_from([&program].into_iter().chain(arguments)) {
        Ok(args) => args,
        Err(error) => {
            // Nobody is there to read what can't be printed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match gate(&args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("perf-gate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn gate(args: &Args) -> io::Result<u8> {
    let workshop = Workshop::open(revision::root()?)?;
    let root = &workshop.root;
    let head = match &args.head {
        Some(name) => Revision::commit(root, name)?,
        None => Revision::WorkingTree,
    };
    let cores = Cores::choose(args.core)?;
    if args.self_test {
        return self_test::run(args, &workshop, &head, cores);
    }
    let base = match &args.base {
        Some(name) => Revision::commit(root, name)?,
        None => Revision::default_base(root, &head)?,
    };
    let document = compare(args, &workshop, (&base, &head), cores)?;
    let folder = args
        .output_dir
        .clone()
        .unwrap_or_else(|| workshop.folder.join("result"));
    publish(&document, &folder)?;
    println!("{document}");
    Ok(document.outcome.exit_code())
}

fn compare(
    args: &Args,
    workshop: &Workshop,
    (base, head): (&Revision, &Revision),
    cores: Cores,
) -> io::Result<Document> {
    let order = Order {
        benches: args.benches.clone(),
        ends: !args.quick,
        plant: None,
    };
    let [base_programs, head_programs] = [base, head].map(|revision| {
        eprintln!("building {}", revision.label());
        workshop.build(revision, &order)
    });
    let (base_programs, head_programs) = (base_programs?, head_programs?);
    let rules = args.rules(if args.quick { 5 } else { 9 });
    let stage = Stage::new()?;
    let mut notes = Vec::new();
    let mut times = Vec::new();
    let mut subjects = benches(
        &stage,
        [&base_programs, &head_programs],
        cores,
        PACE,
        &mut notes,
    )?;
    if args.quick {
        notes.push("end to end: left out by --quick".to_owned());
    } else {
        subjects.extend(ends(
            &stage,
            [&base_programs, &head_programs],
            cores,
            &mut notes,
        )?);
    }
    for subject in &subjects {
        eprintln!("measuring {}", subject.name());
        times.extend(verdict::settle(subject.as_ref(), &rules, &mut |line| {
            eprintln!("{line}")
        })?);
    }
    let instructions =
        counts::compare([&base_programs, &head_programs], cores.measured, &mut notes)?;
    let verdicts = times.iter().map(|line| line.verdict);
    let verdicts = verdicts.chain(instructions.iter().map(|count: &Count| count.verdict));
    Ok(Document {
        schema: page::SCHEMA,
        base: base.label(),
        head: head.label(),
        outcome: Outcome::of(verdicts),
        environment: Environment::read(),
        rules,
        times,
        instructions,
        notes,
    })
}

/// A benchmark in one run.
const PACE: Pace = Pace {
    warm_up: Nanos::from_millis(50),
    measurement: Nanos::from_millis(400),
};

impl Args {
    fn rules(&self, rounds: u32) -> Rules {
        Rules {
            rounds: self.rounds.unwrap_or(rounds),
            attempts_max: self.attempts,
            floor: self.floor / 100.0,
            quiet: self.quiet / 100.0,
        }
    }
}

/// The bench programs that both sides have.
fn benches(
    stage: &Stage,
    [base, head]: [&Programs; 2],
    cores: Cores,
    pace: Pace,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Box<dyn Subject>>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    let names: BTreeSet<&String> = base.benches.keys().chain(head.benches.keys()).collect();
    for name in names.into_iter().filter(|&name| name != build::COUNTS) {
        let (Some(of_base), Some(of_head)) = (base.benches.get(name), head.benches.get(name))
        else {
            let side = if base.benches.contains_key(name) {
                "base"
            } else {
                "head"
            };
            notes.push(format!(
                "benches/{name}: only in {side}, nothing to compare"
            ));
            continue;
        };
        subjects.push(Box::new(Bench {
            name: name.clone(),
            programs: stage.place(name, [of_base, of_head])?,
            chosen: BTreeSet::new(),
            pace,
            plant_percent: None,
            core: cores.measured,
        }));
    }
    Ok(subjects)
}

/// The end-to-end runs, each with its server.
fn ends(
    stage: &Stage,
    [base, head]: [&Programs; 2],
    cores: Cores,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Box<dyn Subject>>> {
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    let (Some(of_base), Some(of_head), Some(server)) =
        (&base.ridgeline, &head.ridgeline, &base.bare_server)
    else {
        notes.push("end to end: a side has no program for it".to_owned());
        return Ok(subjects);
    };
    let programs = stage.place("ridgeline", [of_base, of_head])?;
    for load in ends::LOADS {
        let cores = (cores.other, cores.measured);
        subjects.push(Box::new(End::new(load, programs.clone(), server, cores)?));
    }
    Ok(subjects)
}

/// Where programs lie while they run: each arm's under a path of the same length, since the length moves
/// the stack of a process and that can move its speed.
#[derive(Debug)]
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("perf-gate-").tempdir()?;
        Ok(Self { folder })
    }

    /// A program of base and head, and that of the base once more: in the order of the arms.
    fn place(&self, name: &str, [base, head]: [&PathBuf; 2]) -> io::Result<[PathBuf; 3]> {
        let place = |arm: &str, program: &Path| {
            let folder = self.folder.path().join(arm);
            fs::create_dir_all(&folder)?;
            let path = folder.join(name);
            fs::copy(program, &path)?;
            Ok::<_, io::Error>(path)
        };
        Ok([place("a", base)?, place("b", head)?, place("c", base)?])
    }
}

/// Where programs run.
#[derive(Clone, Copy, Debug)]
struct Cores {
    /// What is measured.
    measured: usize,
    /// The servers; the same where there is one core only.
    other: usize,
}

impl Cores {
    /// The last allowed core: interrupts tend to go to the first.
    fn choose(measured: Option<usize>) -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&core| allowed.is_set(core))
            .collect();
        let last = allowed.last().copied().unwrap_or(0);
        let measured = measured.unwrap_or(last);
        if !allowed.contains(&measured) {
            return Err(io::Error::other(format!("core {measured} is not allowed")));
        }
        let other = allowed.into_iter().find(|&core| core != measured);
        Ok(Self {
            measured,
            other: other.unwrap_or(measured),
        })
    }
}

/// Writes the result, and shows it where a workflow's run collects summaries.
fn publish(document: &Document, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let page = document.markdown();
    fs::write(
        folder.join("perf-gate.json"),
        serde_json::to_string_pretty(document)?,
    )?;
    fs::write(folder.join("perf-gate.md"), &page)?;
    if let Some(summary) = env::var_os("GITHUB_STEP_SUMMARY") {
        let mut file = OpenOptions::new().create(true).append(true).open(summary)?;
        file.write_all(page.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(["perf-gate"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn flags_become_rules() {
        let rules = args("--floor 7.5 --attempts 2").unwrap().rules(9);
        assert_eq!((rules.rounds, rules.attempts_max), (9, 2));
        assert!((rules.floor - 0.075).abs() < 1e-12 && (rules.quiet - 0.03).abs() < 1e-12);
        assert_eq!(args("--rounds 12").unwrap().rules(9).rounds, 12);
        assert_eq!(
            args("--benches scanner,engine").unwrap().benches,
            ["scanner", "engine"]
        );
        for wrong in [
            "--rounds 2",
            "--attempts 1",
            "--repeat 10",
            "--self-test --base main",
            "extra",
        ] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
        assert_eq!(args("--self-test --repeat 10").unwrap().repeat, 10);
    }

    #[test]
    fn programs_of_all_arms_have_paths_of_one_length() {
        let stage = Stage::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (short, long) = (folder.path().join("s"), folder.path().join("longer"));
        fs::write(&short, "base").unwrap();
        fs::write(&long, "head").unwrap();
        let placed = stage.place("scanner", [&short, &long]).unwrap();
        let read = placed
            .each_ref()
            .map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(read, ["base", "head", "base"]);
        let length = |path: &PathBuf| path.as_os_str().len();
        assert!(placed.iter().all(|path| length(path) == length(&placed[0])));
    }

    #[test]
    fn the_measured_core_is_one_that_is_allowed() {
        let cores = Cores::choose(None).unwrap();
        assert_eq!(
            Cores::choose(Some(cores.measured)).unwrap().measured,
            cores.measured
        );
        let refused = Cores::choose(Some(100_000)).unwrap_err();
        assert!(refused.to_string().contains("100000"), "{refused}");
    }
}
