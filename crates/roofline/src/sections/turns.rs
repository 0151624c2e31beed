//! The client and the bare one in turns, against one server that goes on.

use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::child::{Listens, Served};
use ridgeline_perf::versus::{Arm, Bench, Programs, Sample};

use crate::{Ceiling, Context, Measured};

/// No run is longer, whatever happens.
const RUN_MAX: Nanos = Nanos::from_secs(120);

/// What the runs of one arm did together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Requests answered in full.
    pub(crate) requests: u64,
    /// By the program's own account.
    pub(crate) elapsed: Nanos,
    /// From start to end of the processes.
    pub(crate) wall: Nanos,
    /// CPU time of the processes.
    pub(crate) cpu: Nanos,
    /// CPU time of the server meanwhile.
    pub(crate) server_cpu: Nanos,
    /// Each run.
    pub(crate) samples: Vec<Sample>,
}

impl Tally {
    fn add(&mut self, sample: Sample, server_cpu: Nanos) {
        self.requests += sample.requests;
        self.elapsed += Nanos(sample.elapsed_ns);
        self.wall += Nanos(sample.wall_ns);
        self.cpu += Nanos(sample.cpu_ns);
        self.server_cpu += server_cpu;
        self.samples.push(sample);
    }

    /// Requests a second.
    #[expect(clippy::cast_precision_loss, reason = "a count far below 2^53")]
    pub(crate) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// CPU time of a request, nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and times far below 2^53"
    )]
    pub(crate) fn cpu_ns_per_request(&self) -> f64 {
        self.cpu.0 as f64 / self.requests.max(1) as f64
    }

    /// The share of its time that the client was on its core, 0 to 1.
    pub(crate) fn client_busy(&self) -> f64 {
        share(self.cpu, self.wall)
    }

    /// The share of the client's time that the server was on its core. The client's start and end are
    /// none of it.
    pub(crate) fn server_busy(&self) -> f64 {
        let span = if self.elapsed > Nanos::ZERO {
            self.elapsed
        } else {
            self.wall
        };
        share(self.server_cpu, span)
    }

    /// The mean over the runs of what `of` finds in each; none where one has none.
    #[expect(clippy::cast_precision_loss, reason = "times far below 2^53")]
    pub(crate) fn mean(&self, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
        let found: Option<Vec<u64>> = self.samples.iter().map(of).collect();
        let found = found.filter(|found| !found.is_empty())?;
        Some(found.iter().sum::<u64>() as f64 / found.len() as f64)
    }
}

fn share(part: Nanos, whole: Nanos) -> f64 {
    (part.as_secs_f64() / whole.as_secs_f64().max(1e-9)).min(1.0)
}

/// The bare programs, as subcommands of ridgeline.
pub(crate) fn programs(context: &Context) -> Programs {
    Programs::Within(context.ridgeline.clone())
}

/// Starts the bare server with these flags on the server's core. It ends with what is returned.
pub(crate) fn serve(context: &Context, flags: &[String]) -> io::Result<Served> {
    let mut command = programs(context).command("bare-server");
    command.arg("--attached").args(flags);
    Served::start(&mut command, context.server_core, Listens::Says)
}

/// The bare client against `served`.
pub(crate) fn bare_client(context: &Context, served: &Served, flags: &[String]) -> Arm {
    let address = [served.address().to_owned()];
    Arm::bare_client(&programs(context), address.iter().chain(flags))
}

/// `ridgeline bench` against `served`, as the bare client: without records and kernel stamps.
pub(crate) fn bench(context: &Context, served: &Served, streaming: bool, flags: &[String]) -> Arm {
    let bench = Bench {
        address: served.address(),
        core: context.client_core,
        streaming,
        timestamps: false,
    };
    Arm::ridgeline(context.ridgeline.clone(), &bench, flags)
}

/// Runs an arm once on the client's core, and adds what it and the server did.
pub(crate) fn run_once(
    context: &Context,
    served: Option<&Served>,
    arm: &Arm,
    tally: &mut Tally,
) -> io::Result<()> {
    let cpu = || served.map_or(Ok(Nanos::ZERO), Served::cpu);
    let before = cpu()?;
    let sample = arm.run(context.client_core, RUN_MAX)?;
    tally.add(sample, cpu()? - before);
    Ok(())
}

/// Both in turns, the ceiling first: A B B A, or A B where it is to be quick. A drift of the machine
/// that is linear falls on both alike.
pub(crate) fn in_turns(
    context: &Context,
    served: Option<&Served>,
    ceiling: &Arm,
    own: &Arm,
) -> io::Result<Turns> {
    let mut turns = Turns::default();
    let order: &[bool] = if context.quick {
        &[true, false]
    } else {
        &[true, false, false, true]
    };
    for &is_ceiling in order {
        if is_ceiling {
            run_once(context, served, ceiling, &mut turns.ceiling)?;
        } else {
            run_once(context, served, own, &mut turns.own)?;
        }
    }
    Ok(turns)
}

/// What both arms did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) ceiling: Tally,
    pub(crate) own: Tally,
}

impl Turns {
    /// Both as a figure, where a request brings `each` of what is counted.
    pub(crate) fn measured(&self, name: &str, each: f64) -> Measured {
        Measured {
            achieved: self.own.requests_per_s() * each,
            cpu_ns: Some(self.own.cpu_ns_per_request() / each),
            ceiling: Some(Ceiling {
                name: name.to_owned(),
                value: self.ceiling.requests_per_s() * each,
                cpu_ns: Some(self.ceiling.cpu_ns_per_request() / each),
            }),
        }
    }
}

/// Requests that take about `span` at the rate of `tally`, and `least` at least.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a rate is not negative"
)]
pub(crate) fn filling(tally: &Tally, span: Nanos, least: u64) -> u64 {
    ((tally.requests_per_s() * span.as_secs_f64()).ceil() as u64).max(least)
}

/// As the value of a flag in seconds.
pub(crate) fn seconds(span: Nanos) -> String {
    format!("{:.3}", span.as_secs_f64())
}

/// From here on a core has nothing to spare: start and end of a process count as idle.
const BUSY: f64 = 0.9;

/// What kept a client that goes as fast as it can from going faster.
pub(crate) fn limited_by(context: &Context, tally: &Tally) -> String {
    let (client, server) = (tally.client_busy(), tally.server_busy());
    let (client_words, server_words) = (percent(client), percent(server));
    if context.client_core == context.server_core {
        return format!(
            "the one core of client ({client_words} of it) and server ({server_words})"
        );
    }
    match (client >= BUSY, server >= BUSY) {
        (true, false) => {
            format!("the client's core: {client_words} busy, the server's {server_words}")
        }
        (false, true) => format!(
            "the server's core: {server_words} busy, the client's {client_words}: the client could do more"
        ),
        (true, true) => {
            format!("both cores: the client's {client_words} busy, the server's {server_words}")
        }
        (false, false) => format!(
            "waiting, for the other side or for a core that others use: the client's core {client_words} \
             busy, the server's {server_words}"
        ),
    }
}

/// `97 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A length as its axis has it, bytes.
pub(crate) fn bytes(count: usize) -> String {
    match count {
        large if large >= 1024 && large.is_multiple_of(1024) => format!("{} KiB", large / 1024),
        small => format!("{small} B"),
    }
}

/// Flags as they are given to a program.
pub(crate) fn words(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|&flag| flag.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(client_busy: f64, server_busy: f64) -> Tally {
        let of = |share: f64| Nanos::from_secs_f64(share * 2.0);
        Tally {
            requests: 1000,
            elapsed: Nanos::from_secs(2),
            wall: Nanos::from_secs(2),
            cpu: of(client_busy),
            server_cpu: of(server_busy),
            samples: Vec::new(),
        }
    }

    fn context(server_core: usize) -> Context {
        Context {
            quick: true,
            ridgeline: "bin/ridgeline".into(),
            drivers: Vec::new(),
            server_core,
            client_core: 1,
            run_length: None,
        }
    }

    #[test]
    fn the_core_that_is_busy_is_the_limit() {
        let words = |client, server| limited_by(&context(0), &tally(client, server));
        assert_eq!(
            words(0.97, 0.5),
            "the client's core: 97 % busy, the server's 50 %"
        );
        assert!(words(0.5, 0.97).starts_with("the server's core: 97 % busy"));
        assert!(words(0.95, 0.97).starts_with("both cores"));
        assert!(words(0.3, 0.4).starts_with("waiting"));
        assert!(limited_by(&context(1), &tally(0.5, 0.5)).starts_with("the one core"));
    }

    #[test]
    fn a_figure_is_per_one_of_what_is_counted() {
        let turns = Turns {
            ceiling: tally(0.5, 0.5),
            own: Tally {
                requests: 500,
                ..tally(1.0, 0.5)
            },
        };
        let measured = turns.measured("bare", 10.0);
        assert_eq!(measured.achieved, 2500.0);
        assert_eq!(measured.cpu_ns, Some(400_000.0));
        let ceiling = measured.ceiling.unwrap();
        assert_eq!((ceiling.value, ceiling.cpu_ns), (5000.0, Some(100_000.0)));
    }

    #[test]
    fn a_run_is_filled_by_what_was_seen() {
        assert_eq!(filling(&tally(1.0, 1.0), Nanos::from_secs(3), 64), 1_500);
        assert_eq!(filling(&tally(1.0, 1.0), Nanos::from_millis(2), 64), 64);
        assert_eq!(filling(&Tally::default(), Nanos::from_secs(3), 7), 7);
    }

    #[test]
    fn a_mean_is_of_all_runs() {
        let mut turn = tally(0.0, 0.0);
        let lag = |sample: &Sample| sample.lag_p50_ns;
        assert_eq!(turn.mean(lag), None);
        for lag_p50_ns in [Some(10), Some(30)] {
            turn.add(
                Sample {
                    lag_p50_ns,
                    ..Sample::default()
                },
                Nanos::ZERO,
            );
        }
        assert_eq!(turn.mean(lag), Some(20.0));
        turn.add(Sample::default(), Nanos::ZERO);
        assert_eq!(turn.mean(lag), None);
    }

    #[test]
    fn lengths_are_said_in_whole_units() {
        assert_eq!(
            [32, 1024, 131_072, 1500].map(bytes),
            ["32 B", "1 KiB", "128 KiB", "1500 B"]
        );
    }
}
