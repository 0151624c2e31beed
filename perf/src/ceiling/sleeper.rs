#![expect(clippy::print_stdout, reason = "its one line of output")]

use std::error::Error;

use clap::Parser;
use ridgeline_clock::Nanos;

use crate::machine;
use crate::sleeper::{self, Rhythm};

/// Waits in an io_uring for absolute deadlines at a constant rate and prints how late it was.
#[derive(Debug, Parser)]
pub struct SleeperArgs {
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

impl SleeperArgs {
    /// Runs it and prints its line of JSON.
    ///
    /// # Errors
    /// When the rate or the time is out of range, or the ring fails.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        if !(self.rate > 0.0 && self.rate <= 1e7 && self.seconds >= 0.0 && self.seconds <= 3600.0) {
            return Err("--rate must be above 0 and at most 1e7, --seconds at most 3600".into());
        }
        self.core.map_or(Ok(()), machine::pin)?;
        let met = sleeper::sleep_through(Rhythm {
            rate: self.rate,
            span: Nanos::from_secs_f64(self.seconds),
            slack: Nanos(self.slack_ns),
            spin: Nanos::from_micros(self.spin_us),
        })?;
        println!("{}", serde_json::to_string(&met)?);
        Ok(())
    }
}
