//! Being on time: the highest constant rate that the client keeps up with, and how late it is below
//! that, beside a program that does nothing but wait.

use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::child::Served;
use ridgeline_perf::payload;
use ridgeline_perf::versus::{Arm, Sample};

use crate::sections::turns::{self, Tally, Turns, percent, words};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// A client keeps up with a rate when 99 of 100 requests start this soon after their time.
const LAG_P99_MAX: Nanos = Nanos::from_millis(1);
/// Connections of the closed loop that shows what the machine has at the most.
const CONNECTIONS: &str = "64";
/// The search starts this far above that.
const ABOVE: f64 = 1.2;

/// The highest rate, and the lag at fractions of it.
///
/// # Errors
/// When a program can't be started, fails or takes too long.
pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let served = turns::serve(context, &words(&["--mode", "request"]))?;
    let closed = closed_loop(context, &served)?;
    let probes = if context.quick { 5 } else { 6 };
    let highest = search(closed.requests_per_s() * ABOVE, probes, |rate| {
        let mut tally = Tally::default();
        turns::run_once(
            context,
            Some(&served),
            &bench(context, &served, rate),
            &mut tally,
        )?;
        Ok(Probe { rate, tally })
    })?;
    told(highest_row(context, &closed, highest.as_ref()));
    let Some(highest) = highest else {
        return Ok(());
    };
    let fractions: &[f64] = if context.quick {
        &[0.25, 0.5, 0.9]
    } else {
        &[0.1, 0.25, 0.5, 0.75, 0.9]
    };
    for &fraction in fractions {
        let rate = (highest.rate * fraction).max(1.0);
        let own = bench(context, &served, rate);
        let turns = turns::in_turns(context, Some(&served), &sleeper(context, rate), &own)?;
        lag_rows(&turns, fraction, rate)
            .into_iter()
            .for_each(&mut *told);
    }
    Ok(())
}

/// One try of a rate.
struct Probe {
    rate: f64,
    tally: Tally,
}

impl Probe {
    fn lag_p99(&self) -> Option<f64> {
        self.tally.mean(|sample| sample.lag_p99_ns)
    }

    #[expect(clippy::cast_precision_loss, reason = "a time far below 2^53")]
    fn keeps_up(&self) -> bool {
        self.lag_p99()
            .is_some_and(|lag| lag <= LAG_P99_MAX.0 as f64)
    }
}

/// Halves the range below `above` as often as `probes` says. The highest try that kept up.
fn search(
    above: f64,
    probes: u32,
    mut probe: impl FnMut(f64) -> io::Result<Probe>,
) -> io::Result<Option<Probe>> {
    let (mut low, mut high) = (0.0, above);
    let mut best = None;
    for _ in 0..probes {
        let tried = probe(f64::midpoint(low, high).max(1.0))?;
        if tried.keeps_up() {
            low = tried.rate;
            best = Some(tried);
        } else {
            high = tried.rate;
        }
    }
    Ok(best)
}

/// The bare client as fast as it goes.
fn closed_loop(context: &Context, served: &Served) -> io::Result<Tally> {
    let span = turns::seconds(context.run());
    let flags = words(&["--connections", CONNECTIONS, "--seconds", &span]);
    let mut tally = Tally::default();
    let arm = turns::bare_client(context, served, &flags);
    turns::run_once(context, Some(served), &arm, &mut tally)?;
    Ok(tally)
}

fn bench(context: &Context, served: &Served, rate: f64) -> Arm {
    let (rate, span) = (format!("{rate:.0}"), turns::seconds(context.run()));
    let flags = words(&[
        "--prompt",
        payload::PROMPT,
        "--arrival-pattern",
        "constant",
        "--request-rate",
        &rate,
        "--duration",
        &format!("{span}s"),
    ]);
    turns::bench(context, served, false, &flags)
}

fn sleeper(context: &Context, rate: f64) -> Arm {
    let (rate, span) = (format!("{rate:.0}"), turns::seconds(context.run()));
    let flags = words(&["--rate", &rate, "--seconds", &span]);
    Arm::bare_sleeper(&turns::programs(context), flags)
}

fn highest_row(context: &Context, closed: &Tally, highest: Option<&Probe>) -> Row {
    let name = format!("highest constant rate, p99 lag at most {LAG_P99_MAX}");
    let row = Row::new(Section::Schedule, name, Unit::RequestsPerS);
    match highest {
        None => row.limited_by(format!(
            "not found: at every rate that was tried the p99 lag was above {LAG_P99_MAX}"
        )),
        Some(probe) => row
            .measured(Measured {
                achieved: probe.rate,
                cpu_ns: Some(probe.tally.cpu_ns_per_request()),
                ceiling: Some(Ceiling {
                    name: "bare client, closed loop".to_owned(),
                    value: closed.requests_per_s(),
                    cpu_ns: Some(closed.cpu_ns_per_request()),
                }),
            })
            .limited_by(turns::limited_by(context, &probe.tally)),
    }
}

/// Median and 99th percentile of the lag.
fn lag_rows(turns: &Turns, fraction: f64, rate: f64) -> [Row; 2] {
    let row = |percentile: f64, of: fn(&Sample) -> Option<u64>| {
        let name = format!(
            "lag p{percentile:.0} at {} of the highest rate",
            percent(fraction)
        );
        let row = Row::new(Section::Schedule, name, Unit::LagNs)
            .at("rate_per_s", rate)
            .at("percentile", percentile);
        let (Some(own), Some(sleeper)) = (turns.own.mean(of), turns.ceiling.mean(of)) else {
            return row.limited_by("not measured: no request was due");
        };
        row.measured(Measured {
            achieved: own,
            cpu_ns: None,
            ceiling: Some(Ceiling {
                name: "bare sleeper".to_owned(),
                value: sleeper,
                cpu_ns: None,
            }),
        })
        .limited_by(late_by(own, sleeper, &turns.own))
    };
    [
        row(50.0, |sample| sample.lag_p50_ns),
        row(99.0, |sample| sample.lag_p99_ns),
    ]
}

/// What most of a lag is made of.
fn late_by(own: f64, sleeper: f64, tally: &Tally) -> String {
    let busy = percent(tally.client_busy());
    if own <= sleeper * 2.0 {
        format!("waking up, as the sleeper; the client's core {busy} busy")
    } else {
        format!("what else is to be done when a request is due: the client's core {busy} busy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(rate: f64, lag: Nanos) -> Probe {
        let sample = Sample {
            lag_p50_ns: Some(lag.0 / 2),
            lag_p99_ns: Some(lag.0),
            ..Sample::default()
        };
        let samples = vec![sample];
        let tally = Tally {
            samples,
            ..Tally::default()
        };
        Probe { rate, tally }
    }

    #[test]
    fn the_highest_rate_is_found_within_the_last_step() {
        for limit in [1_000.0, 37_000.0, 63_000.0] {
            let found = search(64_000.0, 6, |rate| {
                let lag = if rate <= limit {
                    LAG_P99_MAX
                } else {
                    Nanos::from_millis(9)
                };
                Ok(probe(rate, lag))
            });
            let rate = found.unwrap().unwrap().rate;
            assert!(rate <= limit && rate > limit - 1_000.0, "{rate} of {limit}");
        }
        let none = search(64_000.0, 6, |rate| Ok(probe(rate, Nanos::from_secs(1))));
        assert!(none.unwrap().is_none());
        assert!(
            !Probe {
                rate: 1.0,
                tally: Tally::default()
            }
            .keeps_up()
        );
    }

    #[test]
    fn a_lag_stands_beside_the_sleepers() {
        let turns = Turns {
            own: probe(1.0, Nanos(3_000)).tally,
            ceiling: probe(1.0, Nanos(1_000)).tally,
        };
        let rows = lag_rows(&turns, 0.25, 5_000.0);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "lag p50 at 25 % of the highest rate",
                "lag p99 at 25 % of the highest rate"
            ]
        );
        assert_eq!(rows[1].ratio(), Some(3.0));
        assert_eq!(rows[1].at["rate_per_s"], 5_000.0);
        assert!(rows[1].limited_by.starts_with("what else"));
        let none = lag_rows(&Turns::default(), 0.25, 5_000.0);
        assert!(none[0].measured.is_none() && none[0].limited_by.contains("not measured"));
    }
}
