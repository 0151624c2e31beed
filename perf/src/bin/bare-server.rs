//! The least server: answers every request with the same bytes, prepared at start.

use std::process::ExitCode;

use clap::Parser as _;
use ridgeline_perf::ceiling::ServerArgs;
use ridgeline_perf::program;

fn main() -> ExitCode {
    program::end(ServerArgs::parse().run().map(|()| ExitCode::SUCCESS))
}
