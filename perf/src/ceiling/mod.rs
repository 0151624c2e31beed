//! The bare programs as commands: each is a program of its own, and all of them are subcommands of
//! [`Ceiling`], so that a program that is installed alone has its ceilings with it.

mod client;
mod server;
mod sleeper;

use std::error::Error;

use clap::Subcommand;

pub use crate::ceiling::client::ClientArgs;
pub use crate::ceiling::server::ServerArgs;
pub use crate::ceiling::sleeper::SleeperArgs;

/// One of the bare programs, with its flags.
#[derive(Debug, Subcommand)]
pub enum Ceiling {
    /// Send one request over and over and count the bytes of the answers
    BareClient(ClientArgs),
    /// Answer every request with the same bytes, prepared at start
    BareServer(ServerArgs),
    /// Meet deadlines, and print how late that was
    BareSleeper(SleeperArgs),
    /// Send or receive messages with libzmq
    #[cfg(feature = "libzmq")]
    LibzmqPipe(crate::libzmq::LibzmqPipeArgs),
}

impl Ceiling {
    /// Runs it to its end.
    ///
    /// # Errors
    /// Those of the program: one line that says what is wrong.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::BareClient(args) => args.run(),
            Self::BareServer(args) => args.run(),
            Self::BareSleeper(args) => args.run(),
            #[cfg(feature = "libzmq")]
            Self::LibzmqPipe(args) => args.run(),
        }
    }
}
