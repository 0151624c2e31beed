//! One end of a pipe of messages on libzmq: what our own ZeroMQ is compared with.

use std::process::ExitCode;

use clap::Parser as _;
use ridgeline_perf::libzmq::LibzmqPipeArgs;
use ridgeline_perf::program;

fn main() -> ExitCode {
    program::end(LibzmqPipeArgs::parse().run().map(|()| ExitCode::SUCCESS))
}
