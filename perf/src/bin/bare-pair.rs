//! The least truth of time: kernel receive stamps beside the writer's own clock.
#![expect(clippy::print_stdout, reason = "its one line of output")]

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use ridgeline_clock::Nanos;
use ridgeline_perf::pair::{self, Exchange};
use ridgeline_perf::program;

/// One thread writes at known times over loopback TCP, another reads with kernel stamps.
#[derive(Debug, Parser)]
struct Args {
    /// Messages per second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// For how long.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..=16384))]
    message_bytes: u32,
    /// Keep the writer to this core.
    #[arg(long)]
    write_core: Option<usize>,
    /// Keep the reader to this core.
    #[arg(long)]
    read_core: Option<usize>,
}

fn main() -> ExitCode {
    program::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if !(args.rate > 0.0 && args.rate <= 1e6 && args.seconds >= 0.0 && args.seconds <= 3600.0) {
        return Err("--rate must be above 0 and at most 1e6, --seconds at most 3600".into());
    }
    let truth = pair::exchange(Exchange {
        rate: args.rate,
        span: Nanos::from_secs_f64(args.seconds),
        message_bytes: args.message_bytes as usize,
        write_core: args.write_core,
        read_core: args.read_core,
    })?;
    println!("{}", serde_json::to_string(&truth)?);
    Ok(ExitCode::SUCCESS)
}
