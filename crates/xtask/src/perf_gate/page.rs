//! The result: as a document, as a table for a terminal, and as Markdown for a pull request.

use std::fmt::{self, Write as _};

use ridgeline_perf::machine::Environment;
use serde::Serialize;

use super::counts::Count;
use super::statistics::Interval;
use super::verdict::{Line, Outcome, Rules, Verdict};

/// `perf-gate.json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    /// `ridgeline.perf-gate/1`.
    pub(crate) schema: &'static str,
    /// The revision that is compared with.
    pub(crate) base: String,
    /// The revision that is judged.
    pub(crate) head: String,
    pub(crate) outcome: Outcome,
    pub(crate) environment: Environment,
    pub(crate) rules: Rules,
    /// CPU time, measured.
    pub(crate) times: Vec<Line>,
    /// Instructions, counted.
    pub(crate) instructions: Vec<Count>,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
}

/// The name and version of the document's form.
pub(crate) const SCHEMA: &str = "ridgeline.perf-gate/1";

impl Document {
    /// For a pull request: the outcome, what is not plainly fine, and all the rest folded away.
    pub(crate) fn markdown(&self) -> String {
        let mut page = String::new();
        let (base, head) = (&self.base, &self.head);
        // Writing to a string does not fail.
        let _ = writeln!(page, "## Performance gate: {}\n", self.outcome);
        let _ = writeln!(page, "`{head}` against `{base}`; {}\n", self.summary());
        let (times, rest): (Vec<&Line>, Vec<&Line>) =
            self.times.iter().partition(|line| line.verdict.is_news());
        let (counts, other_counts): (Vec<&Count>, Vec<&Count>) = self
            .instructions
            .iter()
            .partition(|count| count.verdict.is_news());
        page.push_str(&times_in_markdown(&times));
        page.push_str(&counts_in_markdown(&counts));
        if !rest.is_empty() || !other_counts.is_empty() {
            page.push_str("<details><summary>Within the limits</summary>\n\n");
            page.push_str(&times_in_markdown(&rest));
            page.push_str(&counts_in_markdown(&other_counts));
            page.push_str("</details>\n\n");
        }
        for note in &self.notes {
            let _ = writeln!(page, "- {note}");
        }
        let _ = writeln!(page, "\n{}", self.conditions());
        page
    }

    fn summary(&self) -> String {
        let verdicts = || {
            let times = self.times.iter().map(|line| line.verdict);
            times.chain(self.instructions.iter().map(|count| count.verdict))
        };
        let count = |verdict| verdicts().filter(|&other| other == verdict).count();
        let mut summary = format!("{} figures", verdicts().count());
        for (verdict, text) in [
            (Verdict::Regression, "slower"),
            (Verdict::Warning, "a little slower"),
            (Verdict::Faster, "faster"),
            (Verdict::Inconclusive, "undecided"),
            (Verdict::HeadOnly, "new"),
            (Verdict::BaseOnly, "gone"),
        ] {
            if count(verdict) > 0 {
                let _ = write!(summary, ", {} {text}", count(verdict));
            }
        }
        summary
    }

    fn conditions(&self) -> String {
        let Rules {
            rounds,
            floor,
            quiet,
            ..
        } = self.rules;
        let Environment {
            processor,
            cores,
            kernel,
            load_average,
            ..
        } = &self.environment;
        format!(
            "CPU time, {rounds} rounds; slower: the 95 % interval above +{:.0} %, twice; \
             undecided: base against itself beyond {:.0} %. {processor}, {cores} cores, \
             Linux {kernel}, load {load_average}",
            floor * 100.0,
            quiet * 100.0
        )
    }
}

impl Verdict {
    /// Whether a reader should look at it.
    fn is_news(self) -> bool {
        self != Self::Pass
    }
}

fn times_in_markdown(lines: &[&Line]) -> String {
    let mut table = String::new();
    if lines.is_empty() {
        return table;
    }
    table.push_str("| CPU time | base | head | head / base | base / base | |\n");
    table.push_str("|---|--:|--:|--:|--:|---|\n");
    for line in lines {
        let [base, head, change, again] = line.cells();
        let Line { name, verdict, .. } = line;
        let _ = writeln!(
            table,
            "| `{name}` | {base} | {head} | {change} | {again} | {verdict} |"
        );
    }
    table.push('\n');
    table
}

fn counts_in_markdown(counts: &[&Count]) -> String {
    let mut table = String::new();
    if counts.is_empty() {
        return table;
    }
    table.push_str("| Instructions | base | head | head / base | |\n|---|--:|--:|--:|---|\n");
    for count in counts {
        let [base, head, ratio] = count.cells();
        let Count { name, verdict, .. } = count;
        let _ = writeln!(
            table,
            "| `{name}` | {base} | {head} | {ratio} | {verdict} |"
        );
    }
    table.push('\n');
    table
}

impl Line {
    /// Base, head, their relation and the base's to itself, as they are printed.
    fn cells(&self) -> [String; 4] {
        let Some(measured) = &self.measured else {
            return Default::default();
        };
        [
            time(measured.base_ns),
            time(measured.head_ns),
            relation(measured.change),
            relation(measured.again),
        ]
    }
}

impl Count {
    /// Base, head and their relation, as they are printed.
    fn cells(&self) -> [String; 3] {
        let number = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
        let ratio = self
            .ratio()
            .map_or_else(String::new, |ratio| format!("{ratio:.4}"));
        [number(self.base), number(self.head), ratio]
    }
}

/// Four significant digits and a unit.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        _ => 1,
    };
    format!("{value:.decimals$} {unit}")
}

fn relation(Interval { median, low, high }: Interval) -> String {
    format!("{median:.3} ({low:.3} to {high:.3})")
}

/// The table of a terminal.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.times.iter().map(|line| line.name.len());
        let names = names.chain(self.instructions.iter().map(|count| count.name.len()));
        let width = names.max().unwrap_or(0).max(12);
        writeln!(
            f,
            "{:<width$}  {:>9}  {:>9}  {:<22}  {:<22}",
            "CPU time", "base", "head", "head / base", "base / base"
        )?;
        for line in &self.times {
            let [base, head, change, again] = line.cells();
            let Line { name, verdict, .. } = line;
            writeln!(
                f,
                "{name:<width$}  {base:>9}  {head:>9}  {change:<22}  {again:<22}  {verdict}"
            )?;
        }
        if !self.instructions.is_empty() {
            writeln!(
                f,
                "\n{:<width$}  {:>14}  {:>14}  head / base",
                "instructions", "base", "head"
            )?;
        }
        for count in &self.instructions {
            let [base, head, ratio] = count.cells();
            let Count { name, verdict, .. } = count;
            writeln!(
                f,
                "{name:<width$}  {base:>14}  {head:>14}  {ratio:<11}  {verdict}"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        writeln!(f, "\n{}", self.conditions())?;
        let (base, head, outcome) = (&self.base, &self.head, self.outcome);
        write!(f, "{outcome}: {head} against {base}; {}", self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::super::subject::Round;
    use super::super::verdict::Measured;
    use super::*;

    fn line(name: &str, verdict: Verdict, ratio: f64) -> Line {
        let interval = |median: f64| Interval {
            median,
            low: median - 0.01,
            high: median + 0.01,
        };
        Line {
            name: name.to_owned(),
            verdict,
            measured: Some(Measured {
                base_ns: 1234.5,
                head_ns: 1234.5 * ratio,
                change: interval(ratio),
                again: interval(1.0),
                rounds: vec![Round {
                    base_ns: 1234.5,
                    head_ns: 1234.5 * ratio,
                    ratio,
                    again_ratio: 1.0,
                }],
            }),
            attempts: 2,
        }
    }

    fn document() -> Document {
        Document {
            schema: SCHEMA,
            base: "0123456789ab".to_owned(),
            head: "working-tree".to_owned(),
            outcome: Outcome::Regression,
            environment: Environment {
                processor: "Some Processor".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
                congestion_control: "cubic".to_owned(),
                load_average: "0.10".to_owned(),
            },
            rules: Rules {
                rounds: 7,
                attempts_max: 3,
                floor: 0.05,
                quiet: 0.03,
            },
            times: vec![
                line("engine/request", Verdict::Pass, 1.002),
                Line {
                    measured: None,
                    ..line("records/new", Verdict::HeadOnly, 1.0)
                },
                line("scanner/text", Verdict::Regression, 1.153),
            ],
            instructions: vec![
                Count::of("http1/head", Some(1000), Some(1001)),
                Count::of("openai/chunk", Some(1000), Some(1030)),
            ],
            notes: vec!["end-to-end: left out".to_owned()],
        }
    }

    #[test]
    fn a_pull_request_shows_what_is_news_and_folds_the_rest() {
        let golden = "\
## Performance gate: REGRESSION

`working-tree` against `0123456789ab`; 5 figures, 1 slower, 1 a little slower, 1 new

| CPU time | base | head | head / base | base / base | |
|---|--:|--:|--:|--:|---|
| `records/new` |  |  |  |  | only in head |
| `scanner/text` | 1.234 us | 1.423 us | 1.153 (1.143 to 1.163) | 1.000 (0.990 to 1.010) | REGRESSION |

| Instructions | base | head | head / base | |
|---|--:|--:|--:|---|
| `openai/chunk` | 1000 | 1030 | 1.0300 | warning |

<details><summary>Within the limits</summary>

| CPU time | base | head | head / base | base / base | |
|---|--:|--:|--:|--:|---|
| `engine/request` | 1.234 us | 1.237 us | 1.002 (0.992 to 1.012) | 1.000 (0.990 to 1.010) | pass |

| Instructions | base | head | head / base | |
|---|--:|--:|--:|---|
| `http1/head` | 1000 | 1001 | 1.0010 | pass |

</details>

- end-to-end: left out

CPU time, 7 rounds; slower: the 95 % interval above +5 %, twice; undecided: base against itself beyond 3 %. \
Some Processor, 2 cores, Linux 6.1, load 0.10
";
        assert_eq!(document().markdown(), golden);
    }

    #[test]
    fn a_terminal_gets_a_table_and_the_outcome_last() {
        let text = document().to_string();
        let lines: Vec<&str> = text.lines().collect();
        let row = lines.iter().find(|line| line.starts_with("scanner/text"));
        assert_eq!(
            *row.unwrap(),
            "scanner/text     1.234 us   1.423 us  1.153 (1.143 to 1.163)  1.000 (0.990 to 1.010)  REGRESSION"
        );
        assert!(
            text.contains("openai/chunk              1000            1030  1.0300       warning")
        );
        assert!(
            lines
                .last()
                .unwrap()
                .starts_with("REGRESSION: working-tree against 0123456789ab"),
            "{text}"
        );
    }

    #[test]
    fn the_document_is_json_with_a_schema() {
        let json = serde_json::to_value(document()).unwrap();
        assert_eq!(json["schema"], "ridgeline.perf-gate/1");
        assert_eq!(json["outcome"], "regression");
        assert_eq!(json["times"][2]["verdict"], "regression");
        assert_eq!(json["times"][2]["measured"]["rounds"][0]["ratio"], 1.153);
        assert_eq!(json["instructions"][1]["verdict"], "warning");
    }

    #[test]
    fn times_have_four_digits_and_a_unit() {
        for (ns, text) in [
            (0.1234, "0.123 ns"),
            (24.567, "24.57 ns"),
            (999.94, "999.9 ns"),
            (1_500.0, "1.500 us"),
            (25_000_000.0, "25.00 ms"),
            (3e9, "3.000 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
