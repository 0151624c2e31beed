//! Instruction counts: the same for the same program, so that a percent is a percent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;

use ridgeline_clock::Nanos;
use ridgeline_perf::child;
use serde::Serialize;

use super::build::{COUNTS, Programs};
use super::verdict::Verdict;

/// More instructions by this much are said.
const WARNING: f64 = 1.02;
/// More by this much fail.
const REGRESSION: f64 = 1.05;

/// The longest that all counts may take, and a little more for those who see to it.
const LIMIT_S: &str = "900";
const LIMIT: Nanos = Nanos::from_secs(930);

/// Instructions by what was done.
type Counts = BTreeMap<String, u64>;

/// The instructions of one piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) base: Option<u64>,
    pub(crate) head: Option<u64>,
    pub(crate) verdict: Verdict,
}

impl Count {
    /// Of both sides, as far as they have it.
    pub(crate) fn of(name: &str, base: Option<u64>, head: Option<u64>) -> Self {
        let verdict = match (base, head) {
            (None, _) => Verdict::HeadOnly,
            (_, None) => Verdict::BaseOnly,
            (Some(base), Some(head)) => match ratio(base, head) {
                ratio if ratio > REGRESSION => Verdict::Regression,
                ratio if ratio > WARNING => Verdict::Warning,
                ratio if ratio < 2.0 - REGRESSION => Verdict::Faster,
                _ => Verdict::Pass,
            },
        };
        Self {
            name: name.to_owned(),
            base,
            head,
            verdict,
        }
    }

    /// Head over base.
    pub(crate) fn ratio(&self) -> Option<f64> {
        Some(ratio(self.base?, self.head?))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn ratio(base: u64, head: u64) -> f64 {
    head as f64 / base.max(1) as f64
}

/// Counts the instructions of both sides, where there is something to count and something to count with.
pub(crate) fn compare(
    [base, head]: [&Programs; 2],
    core: usize,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Count>> {
    let (base, head) = (base.benches.get(COUNTS), head.benches.get(COUNTS));
    let (Some(base), Some(head)) = (base, head) else {
        notes.push(format!(
            "instructions: not counted, a side has no benches/{COUNTS}"
        ));
        return Ok(Vec::new());
    };
    let (Some(base), Some(head)) = (count(base, core)?, count(head, core)?) else {
        notes.push("instructions: not counted, valgrind is not here".to_owned());
        return Ok(Vec::new());
    };
    let names: BTreeSet<&String> = base.keys().chain(head.keys()).collect();
    let of = |name: &String| Count::of(name, base.get(name).copied(), head.get(name).copied());
    Ok(names.into_iter().map(of).collect())
}

/// What the bench program of counts says, which asks callgrind. `None` where that is not installed. Under
/// valgrind a program may hang and not heed being asked to end.
fn count(program: &Path, core: usize) -> io::Result<Option<Counts>> {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", LIMIT_S])
        .arg(program)
        .arg("--bench");
    let said = child::run(&mut command, core, LIMIT)?.expect_success(COUNTS, None)?;
    read(&said.stdout).map_err(io::Error::other)
}

/// Lines of `NAME COUNT`, or one that says that all is skipped.
fn read(said: &str) -> Result<Option<Counts>, String> {
    if said.contains(": skipped, ") {
        return Ok(None);
    }
    let mut counts = Counts::new();
    for line in said.lines() {
        let count = line
            .split_once(' ')
            .map(|(name, count)| (name, count.parse()));
        match count {
            Some((name, Ok(count))) => _ = counts.insert(name.to_owned(), count),
            _ => return Err(format!("{COUNTS}: {line:?} is no count")),
        }
    }
    Ok(Some(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_line_by_line() {
        let said = "instructions/sse 321339\ninstructions/engine_requests 12\n";
        let counts = [
            ("instructions/engine_requests", 12),
            ("instructions/sse", 321_339),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(read(said), Ok(Some(counts.into())));
        let skipped = "instructions: skipped, valgrind is not installed\n";
        assert_eq!(read(skipped), Ok(None));
        for broken in ["instructions/sse", "instructions/sse many", "a 1\n\n"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn counts_have_two_thresholds() {
        use Verdict::{BaseOnly, Faster, HeadOnly, Pass, Regression, Warning};
        for (base, head, verdict) in [
            (Some(10_000), Some(10_200), Pass),
            (Some(10_000), Some(10_201), Warning),
            (Some(10_000), Some(10_500), Warning),
            (Some(10_000), Some(10_501), Regression),
            (Some(10_000), Some(9_600), Pass),
            (Some(10_000), Some(9_000), Faster),
            (None, Some(5), HeadOnly),
            (Some(5), None, BaseOnly),
        ] {
            assert_eq!(
                Count::of("x", base, head).verdict,
                verdict,
                "{base:?} {head:?}"
            );
        }
        assert_eq!(Count::of("x", None, Some(5)).ratio(), None);
    }
}
