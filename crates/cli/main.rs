//! The command line: flags and files to a plan, and what a run found to a person. Glue only.
#![forbid(unsafe_code)]

mod backend;
mod balance;
mod bench;
mod bounds;
mod compare;
mod complaint;
mod config;
mod count;
mod endpoint;
mod explain;
mod feed;
mod file;
mod files;
mod fleet;
mod folder;
mod headroom;
mod http;
mod json;
mod machine;
mod measuring;
mod network;
mod part;
mod patience;
mod pipe;
mod placement;
mod probe;
mod progress;
mod prompts;
mod report;
mod roofline;
mod room;
mod scale;
mod search;
mod secrets;
mod secure;
mod serve;
mod setup;
mod shape;
mod share;
mod signals;
mod span;
mod stage;
mod terminal;
mod topology;
mod url;
mod worker;

use std::process::ExitCode;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use ridgeline_metrics::verdict::Ending;
use ridgeline_mock_server::MockServerArgs;
use ridgeline_perf::ceiling::Ceiling;

use crate::bench::BenchArgs;
use crate::compare::CompareArgs;
use crate::complaint::Complaint;
use crate::feed::FeedArgs;
use crate::files::ConfigCommand;
use crate::pipe::RidgelinePipeArgs;
use crate::probe::ProbeArgs;
use crate::report::ReportArgs;
use crate::roofline::RooflineArgs;
use crate::worker::WorkerArgs;

/// Measures LLM inference endpoints, and proves that the numbers are the endpoint's
#[derive(Debug, Parser)]
#[command(
    name = "ridgeline",
    version,
    infer_subcommands = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const BENCH_AFTER: &str = "\
Exit codes: 0 valid or degraded, 2 usage or configuration, 3 the verdict is invalid, 4 every request \
failed or the error rate is over its limit, 5 an SLO was missed, 130 interrupted. A series has the first of \
130, 4, 3 and 5 that any of its runs has; --find 3 when it found a lower bound alone, or no knee, and 5 \
when no rate meets the SLOs.

To try it without a server: ridgeline bench --mock";

const WORKER_AFTER: &str = "\
With --listen the first line of its output is `listening on ADDRESS`. A signal ends a run that goes on in order, and its \
coordinator is told; a second one ends it at once.

With --requests it is `listening on REQUESTS, answering on RESPONSES`. Memory is bounded: by --queue and the bodies that \
those queries have (--bodies-bytes-max), and by what the queries in flight take as they do in a run. When that is full nothing \
is read, and the client's PUSH blocks at its high-water mark. When results are not read, requests are not sent.

Exit codes: 0 it ended in order, 2 usage, or its sockets can't be had.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a load and report what was measured
    #[command(after_help = BENCH_AFTER)]
    Bench(Box<BenchArgs>),
    /// Send one request and explain everything that comes back
    Probe(Box<ProbeArgs>),
    /// Print the report of a result folder again; after a kill, save its records first
    Report(ReportArgs),
    /// Compare result folders: what changed, and whether that is certain
    #[command(after_help = "Exit codes: 0 no regression, 2 usage, 5 a regression.")]
    Compare(CompareArgs),
    /// Measure what this machine's client can do, each component beside its physical limit
    #[command(
        after_help = "Exit codes: 0 measured (each row says what was not), 2 usage, 5 a promise is not kept (--check), 130 interrupted."
    )]
    Roofline(RooflineArgs),
    /// Drive load for a `ridgeline bench --workers`, or for a program in any language
    ///
    /// With --listen: a coordinator connects, hands over its share of a run, gets its numbers, and may connect
    /// again. Without a coordinator nothing is sent; one that dies is noticed, and what it asked for is ended.
    ///
    /// With --requests, --responses and --url: queries come in over ZeroMQ, and results go out. Messages are
    /// MessagePack, and described byte by byte in crates/service/PROTOCOL.md. It ends when a client says `end`,
    /// or at SIGINT or SIGTERM: what was taken is done first.
    #[command(after_help = WORKER_AFTER)]
    Worker(Box<WorkerArgs>),
    /// Send a worker the same query over and over, as fast as it takes them
    ///
    /// Prints the results that were ok and the time it took, as a line of JSON. `versus service` measures
    /// workers with it.
    #[command(hide = true)]
    Feed(FeedArgs),
    /// Runs as files: write an example, check one, print the schema
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run the mock server alone: an OpenAI-compatible endpoint with known times
    MockServer(Box<MockServerArgs>),
    /// Run a bare program, which a roofline measures the client against
    ///
    /// Each does one thing of what the client does, and nothing else: what it reaches is what this
    /// machine allows. `ridgeline roofline` runs them; perf/METHOD.md says how they are compared.
    #[command(subcommand, hide = true)]
    Ceiling(Box<Ceiling>),
    /// Run one end of a pipe of messages, which a roofline times
    #[command(hide = true)]
    Pipe(RidgelinePipeArgs),
}

/// The command, with those below it, whose values may begin with a minus.
fn valued(command: clap::Command) -> clap::Command {
    let valued_arg = |arg: Arg| match arg.get_action() {
        ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command.mut_args(valued_arg).mut_subcommands(valued)
}

/// The command line, on which `-1` is a number and no flag: it is answered as the value that it is.
fn parse() -> Cli {
    let matches = valued(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn main() -> ExitCode {
    let done = match parse().command {
        Command::Bench(args) => bench::command(&args),
        Command::Probe(args) => probe::command(&args),
        Command::Report(args) => report::command(&args),
        Command::Compare(args) => compare::command(&args),
        Command::Roofline(args) => roofline::command(&args),
        Command::Feed(args) => feed::command(&args),
        Command::Config(command) => files::command(&command),
        Command::Worker(args) => worker::command(&args),
        Command::MockServer(args) => ridgeline_mock_server::command(&args).map_err(Complaint::from),
        Command::Pipe(args) => pipe::command(&args),
        Command::Ceiling(ceiling) => ceiling
            .run()
            .map(|()| 0)
            .map_err(|error| Complaint::new(error.to_string())),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(complaint) => {
            terminal::note(&format!("error: {complaint}"));
            ExitCode::from(Ending::USAGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_contradict_nothing() {
        Cli::command().debug_assert();
    }
}
