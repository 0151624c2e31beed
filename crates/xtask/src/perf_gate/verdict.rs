//! From rounds to a judgement of each figure, and from those to one of the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use serde::Serialize;

use super::statistics::{Interval, quantile};
use super::subject::{self, Round, Rounds, Subject};

/// What makes a difference a regression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Rules {
    /// Rounds of three runs in an attempt.
    pub(crate) rounds: u32,
    /// How often a figure is measured before it is given up as undecided.
    pub(crate) attempts_max: u32,
    /// A slowdown counts from here on: 0.05 is 5 %.
    pub(crate) floor: f64,
    /// How far the base may seem to be from itself.
    pub(crate) quiet: f64,
}

/// What is known of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Not slower than the floor allows.
    Pass,
    /// Certainly faster, by more than the floor.
    Faster,
    /// Slower, but by less than what fails: of instruction counts only.
    Warning,
    /// Certainly slower, above the floor, and again when it was repeated.
    Regression,
    /// The base differed from itself by too much, each time.
    Inconclusive,
    /// There is nothing to compare it with yet.
    HeadOnly,
    /// The head has lost it.
    BaseOnly,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Faster => "faster",
            Self::Warning => "warning",
            Self::Regression => "REGRESSION",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::HeadOnly => "only in head",
            Self::BaseOnly => "only in base",
        })
    }
}

/// A figure and its judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Line {
    /// What was measured: `GROUP/NAME` of a benchmark, or of an end-to-end run.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// The measurement that decided; none where only one side has the figure.
    pub(crate) measured: Option<Measured>,
    /// How often it was measured.
    pub(crate) attempts: u32,
}

/// The figures behind a judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// CPU time of the base for one unit of work, the median of the rounds.
    pub(crate) base_ns: f64,
    /// The same of the head.
    pub(crate) head_ns: f64,
    /// Head over base.
    pub(crate) change: Interval,
    /// Base over base.
    pub(crate) again: Interval,
    /// Every round.
    pub(crate) rounds: Vec<Round>,
}

impl Measured {
    /// Of these rounds; `None` if there is none, or one without a time.
    pub(crate) fn of(rounds: Vec<Round>) -> Option<Self> {
        let all = |part: fn(&Round) -> f64| rounds.iter().map(part).collect::<Vec<f64>>();
        Some(Self {
            base_ns: quantile(all(|round| round.base_ns), 0.5),
            head_ns: quantile(all(|round| round.head_ns), 0.5),
            change: Interval::of(&all(|round| round.ratio))?,
            again: Interval::of(&all(|round| round.again_ratio))?,
            rounds,
        })
    }
}

/// What one attempt says of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Noisy,
    Slower,
    Faster,
    Same,
}

impl Sign {
    fn of(measured: &Measured, rules: &Rules) -> Self {
        let Measured { change, again, .. } = measured;
        if !again.is_near_one(rules.quiet) {
            Self::Noisy
        } else if change.low > 1.0 + rules.floor {
            Self::Slower
        } else if change.high < 1.0 - rules.floor {
            Self::Faster
        } else {
            Self::Same
        }
    }
}

/// What is known of a figure that is not decided.
#[derive(Debug, Default)]
struct Open {
    /// Whether it was slower once.
    suspected: bool,
    /// Rounds since then, each attempt of which was too noisy by itself.
    noisy: Vec<Round>,
}

impl Open {
    /// After a slowdown, which has to show again in rounds of its own.
    fn suspected() -> Self {
        Self {
            suspected: true,
            noisy: Vec::new(),
        }
    }

    /// What new rounds say, or if they are too noisy, these and the noisy ones before them: more rounds tell what few
    /// can't. `None` for a round without a time.
    fn judge(&mut self, rounds: Vec<Round>, rules: &Rules) -> Option<(Sign, Measured)> {
        self.noisy.extend(&rounds);
        let alone = Measured::of(rounds)?;
        let sign = Sign::of(&alone, rules);
        if sign != Sign::Noisy {
            return Some((sign, alone));
        }
        let all = Measured::of(self.noisy.clone())?;
        Some((Sign::of(&all, rules), all))
    }
}

/// Measures a subject until every figure of it is decided, or was measured often enough. A slowdown
/// must show twice, in rounds that have nothing in common.
pub(crate) fn settle(
    subject: &dyn Subject,
    rules: &Rules,
    told: &mut dyn FnMut(&str),
) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    for attempt in 1..=rules.attempts_max {
        let only: BTreeSet<String> = open.keys().cloned().collect();
        let Rounds {
            of_both,
            base_only,
            head_only,
        } = subject::measure(subject, rules.rounds, &only)?;
        if attempt == 1 {
            lines.extend(
                base_only
                    .into_iter()
                    .map(|name| Line::of_one(name, Verdict::BaseOnly)),
            );
            lines.extend(
                head_only
                    .into_iter()
                    .map(|name| Line::of_one(name, Verdict::HeadOnly)),
            );
        }
        for (name, rounds) in of_both {
            let mut so_far = open.remove(&name).unwrap_or_default();
            let judged = so_far.judge(rounds, rules);
            let (sign, measured) = judged.ok_or_else(|| no_number(&name))?;
            let verdict = match sign {
                Sign::Slower if so_far.suspected => Verdict::Regression,
                Sign::Faster => Verdict::Faster,
                Sign::Same => Verdict::Pass,
                sign => {
                    if attempt < rules.attempts_max {
                        told(&again(&name, sign, &measured));
                        if sign == Sign::Slower {
                            so_far = Open::suspected();
                        }
                        open.insert(name, so_far);
                        continue;
                    }
                    Verdict::Inconclusive
                }
            };
            lines.push(Line {
                name,
                verdict,
                measured: Some(measured),
                attempts: attempt,
            });
        }
        if open.is_empty() {
            break;
        }
    }
    // What a repetition did not measure any more.
    let lost = open.into_keys();
    lines.extend(lost.map(|name| Line::of_one(name, Verdict::Inconclusive)));
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(lines)
}

fn no_number(name: &str) -> io::Error {
    io::Error::other(format!("{name}: a run without a time"))
}

fn again(name: &str, sign: Sign, measured: &Measured) -> String {
    let what = match sign {
        Sign::Slower => format!("{:.3} of the base", measured.change.median),
        _ => format!(
            "base against itself {:.3} to {:.3}",
            measured.again.low, measured.again.high
        ),
    };
    format!("{name}: {what}; once more")
}

impl Line {
    fn of_one(name: String, verdict: Verdict) -> Self {
        Self {
            name,
            verdict,
            measured: None,
            attempts: 1,
        }
    }
}

/// The judgement of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Nothing became slower.
    Pass,
    /// At least one figure became slower.
    Regression,
    /// None did as far as could be decided, and not all could.
    Inconclusive,
}

impl Outcome {
    /// Of these judgements. Nothing judged is nothing decided.
    pub(crate) fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut outcome = Self::Inconclusive;
        let mut undecided = false;
        for verdict in verdicts {
            match verdict {
                Verdict::Regression => return Self::Regression,
                Verdict::Inconclusive => undecided = true,
                Verdict::Pass | Verdict::Faster | Verdict::Warning => outcome = Self::Pass,
                Verdict::HeadOnly | Verdict::BaseOnly => {}
            }
        }
        if undecided {
            Self::Inconclusive
        } else {
            outcome
        }
    }

    /// The exit code: 0, 5 for a regression as everywhere in Ridgeline, 4 for no decision.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Inconclusive => 4,
            Self::Regression => 5,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Regression => "REGRESSION",
            Self::Inconclusive => "INCONCLUSIVE",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::subject::{Arm, Readings};
    use super::*;

    const RULES: Rules = Rules {
        rounds: 5,
        attempts_max: 3,
        floor: 0.05,
        quiet: 0.03,
    };

    /// Head and second base, relative to the base, of each attempt in turn; the last goes on.
    struct Scripted {
        attempts: Vec<(f64, f64)>,
        runs: AtomicUsize,
    }

    impl Scripted {
        fn new(attempts: &[(f64, f64)]) -> Self {
            Self {
                attempts: attempts.to_vec(),
                runs: AtomicUsize::new(0),
            }
        }

        fn line(&self) -> Line {
            let mut lines = settle(self, &RULES, &mut |_| ()).unwrap();
            assert_eq!(lines.len(), 1, "{lines:?}");
            lines.remove(0)
        }
    }

    impl Subject for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn run(&self, arm: Arm, only: &BTreeSet<String>) -> io::Result<Readings> {
            assert!(only.is_empty() || only.contains("scripted/one"));
            let run = self.runs.fetch_add(1, Ordering::Relaxed);
            let attempt = run / (3 * RULES.rounds as usize);
            let (head, again) = self.attempts[attempt.min(self.attempts.len() - 1)];
            let ns = match arm {
                Arm::Base => 100.0,
                Arm::Head => 100.0 * head,
                Arm::Again => 100.0 * again,
            };
            Ok([("scripted/one".to_owned(), ns)].into())
        }
    }

    #[test]
    fn verdicts_follow_from_attempts() {
        use Verdict::{Faster, Inconclusive, Pass, Regression};
        for (attempts, verdict, count) in [
            (&[(1.0, 1.0)][..], Pass, 1),
            (&[(1.049, 1.0)], Pass, 1),
            (&[(1.15, 1.0)], Regression, 2),
            (&[(0.8, 0.99)], Faster, 1),
            // A slowdown that does not come back.
            (&[(1.15, 1.0), (1.0, 1.0)], Pass, 2),
            // Noise, then quiet.
            (&[(1.0, 1.05), (1.0, 1.01)], Pass, 2),
            (&[(1.15, 0.9), (1.15, 1.0)], Regression, 3),
            (&[(1.15, 1.0), (1.15, 1.04), (1.15, 1.0)], Regression, 3),
            // Noise without end, and what was slower only once.
            (&[(1.0, 1.04)], Inconclusive, 3),
            (&[(1.3, 0.96)], Inconclusive, 3),
            (&[(1.3, 0.96), (1.3, 0.96), (1.3, 1.0)], Inconclusive, 3),
        ] {
            let line = Scripted::new(attempts).line();
            assert_eq!(
                (line.verdict, line.attempts),
                (verdict, count),
                "{attempts:?}"
            );
            let measured = line.measured.unwrap();
            assert_eq!(measured.rounds.len() % 5, 0, "whole attempts");
            assert!((measured.base_ns - 100.0).abs() < 1e-9);
        }
    }

    #[test]
    fn rounds_that_differ_decide_by_their_interval() {
        let round = |ratio, again_ratio| Round {
            base_ns: 1.0,
            head_ns: ratio,
            ratio,
            again_ratio,
        };
        let sign = |rounds: &[(f64, f64)]| {
            let rounds = rounds.iter().map(|&(ratio, again)| round(ratio, again));
            Sign::of(&Measured::of(rounds.collect()).unwrap(), &RULES)
        };
        // Slower in the median, but not certainly.
        let wide = [1.2, 1.0, 1.15, 0.95, 1.1].map(|ratio| (ratio, 1.0));
        assert_eq!(sign(&wide), Sign::Same);
        let narrow = [1.14, 1.16, 1.15, 1.17, 1.13].map(|ratio| (ratio, 1.0));
        assert_eq!(sign(&narrow), Sign::Slower);
        let shaken = [1.14, 1.16, 1.15, 1.17, 1.13].map(|ratio| (ratio, ratio - 0.1));
        assert_eq!(sign(&shaken), Sign::Noisy);
    }

    #[test]
    fn many_noisy_rounds_tell_what_few_cannot() {
        // Base against itself: 4 % to either side now and then, 1 as a rule.
        let attempt = [1.04, 0.96, 1.0, 1.0, 1.0].map(|again_ratio| Round {
            base_ns: 1.0,
            head_ns: 1.15,
            ratio: 1.15,
            again_ratio,
        });
        let mut open = Open::default();
        let mut signs = Vec::new();
        for _ in 0..3 {
            let (sign, measured) = open.judge(attempt.to_vec(), &RULES).unwrap();
            signs.push((sign, measured.rounds.len()));
        }
        assert_eq!(signs[0], (Sign::Noisy, 5));
        assert_eq!(signs[2], (Sign::Slower, 15));
        assert!(Open::suspected().noisy.is_empty());
    }

    #[test]
    fn the_whole_is_as_bad_as_its_worst_certain_part() {
        use Verdict::{BaseOnly, Faster, HeadOnly, Inconclusive, Pass, Regression, Warning};
        for (verdicts, outcome, code) in [
            (
                &[Pass, Faster, HeadOnly, BaseOnly, Warning][..],
                Outcome::Pass,
                0,
            ),
            (&[Pass, Inconclusive, Regression], Outcome::Regression, 5),
            (&[Pass, Inconclusive, Pass], Outcome::Inconclusive, 4),
            (&[HeadOnly], Outcome::Inconclusive, 4),
            (&[], Outcome::Inconclusive, 4),
        ] {
            let whole = Outcome::of(verdicts.iter().copied());
            assert_eq!((whole, whole.exit_code()), (outcome, code), "{verdicts:?}");
        }
    }

    #[test]
    fn a_run_without_a_time_is_an_error() {
        let broken = Scripted::new(&[(f64::NAN, 1.0)]);
        let error = settle(&broken, &RULES, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("scripted/one"), "{error}");
    }
}
