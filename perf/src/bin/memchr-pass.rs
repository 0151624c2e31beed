//! The least scanner: how fast a stream in memory is searched, beside how fast it is copied.
#![expect(clippy::print_stdout, reason = "its lines of output")]

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use ridgeline_clock::Nanos;
use ridgeline_perf::pass::{Kind, measure, stream_of};
use ridgeline_perf::{machine, program};

/// Passes over a chat stream in memory; one line of JSON per kind of pass.
#[derive(Debug, Parser)]
struct Args {
    /// About how long the stream is; below the cache's size the passes run in cache.
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    bytes: u32,
    /// Time for each kind.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Keep to this core.
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> ExitCode {
    program::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    args.core.map_or(Ok(()), machine::pin)?;
    let (stream, events) = stream_of(args.bytes as usize);
    for kind in Kind::ALL {
        let speed = measure(kind, &stream, events, Nanos::from_secs_f64(args.seconds));
        println!("{}", serde_json::to_string(&speed)?);
    }
    Ok(ExitCode::SUCCESS)
}
