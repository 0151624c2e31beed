//! The least scheduler: how late this machine meets deadlines when nothing else is to be done.

use std::process::ExitCode;

use clap::Parser as _;
use ridgeline_perf::ceiling::SleeperArgs;
use ridgeline_perf::program;

fn main() -> ExitCode {
    program::end(SleeperArgs::parse().run().map(|()| ExitCode::SUCCESS))
}
