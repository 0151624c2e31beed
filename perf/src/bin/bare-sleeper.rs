//! The least scheduler: how late this machine meets deadlines when nothing else is to be done.
#![expect(clippy::print_stdout, reason = "its one line of output")]

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use ridgeline_clock::Nanos;
use ridgeline_perf::sleeper::{self, Rhythm};
use ridgeline_perf::{machine, program};

/// Waits in an io_uring for absolute deadlines at a constant rate and prints how late it was.
#[derive(Debug, Parser)]
struct Args {
    /// Deadlines per second.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// For how long.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Timer slack: how late the kernel may end a wait so as to batch it (a thread's default is
    /// 50000).
    #[arg(long, default_value_t = 1)]
    slack_ns: u64,
    /// How long before a deadline to stop sleeping and read the clock in a loop.
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
    /// Keep to this core.
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> ExitCode {
    program::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if !(args.rate > 0.0 && args.rate <= 1e7 && args.seconds >= 0.0 && args.seconds <= 3600.0) {
        return Err("--rate must be above 0 and at most 1e7, --seconds at most 3600".into());
    }
    args.core.map_or(Ok(()), machine::pin)?;
    let met = sleeper::sleep_through(Rhythm {
        rate: args.rate,
        span: Nanos::from_secs_f64(args.seconds),
        slack: Nanos(args.slack_ns),
        spin: Nanos::from_micros(args.spin_us),
    })?;
    println!("{}", serde_json::to_string(&met)?);
    Ok(ExitCode::SUCCESS)
}
