//! `ridgeline worker`: a process that drives load for somebody else.

mod job;
mod listen;

use std::path::PathBuf;

use clap::Args;
use ridgeline_transport_zmq::Address;

use crate::complaint::Complaint;
use crate::serve::{self, ServeArgs};

/// The flags of a worker: of one for coordinators, or of one for any program.
#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    serve: ServeArgs,
    /// Cores to pin shards to, as 2,4-7; those of a service keep its sockets' threads, too; none: no pinning
    /// [default: as a coordinator says, else none]
    #[arg(long, help_heading = "Client", value_name = "LIST|none")]
    cores: Option<String>,
    /// Say only what goes wrong
    #[arg(long, short = 'q')]
    quiet: bool,
}

/// The flags of a worker for coordinators.
#[derive(Args, Debug)]
struct ListenArgs {
    /// Where a coordinator (`ridgeline bench --workers`) finds it: tcp://HOST:PORT or ipc://PATH; port 0: any
    /// that is free
    #[arg(
        long,
        value_name = "ADDRESS",
        help_heading = "Coordinators",
        conflicts_with = "ServeArgs"
    )]
    listen: Option<Address>,
    /// File of the token that a coordinator must have; it encrypts tcp:// links, and without one only this machine
    /// can connect [default: RIDGELINE_TOKEN, if set; else none]
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Coordinators",
        requires = "listen"
    )]
    token_file: Option<PathBuf>,
    /// End after one run
    #[arg(long, help_heading = "Coordinators", requires = "listen")]
    once: bool,
    /// Folder in which the records of runs are kept, each in one of its own, unless they are gathered
    #[arg(
        long,
        short = 'o',
        value_name = "DIR",
        default_value = "results",
        help_heading = "Coordinators"
    )]
    output_dir: PathBuf,
}

/// Serves until it is told to end. The exit code.
pub(crate) fn command(args: &WorkerArgs) -> Result<u8, Complaint> {
    match &args.listen.listen {
        Some(address) => listen::listen(args, address),
        None => serve::command(&args.serve, args.cores.as_deref(), args.quiet),
    }
}
