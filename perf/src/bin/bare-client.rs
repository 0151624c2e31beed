//! The least client: sends the same request over and over and counts the bytes of the answers.

use std::process::ExitCode;

use clap::Parser as _;
use ridgeline_perf::ceiling::ClientArgs;
use ridgeline_perf::program;

fn main() -> ExitCode {
    program::end(ClientArgs::parse().run().map(|()| ExitCode::SUCCESS))
}
