#![expect(clippy::print_stdout, reason = "its first line says where it listens")]

use std::error::Error;
use std::io::stdin;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use ridgeline_clock::Nanos;

use crate::server::{Answer, Server, Sizes};
use crate::{machine, payload};

/// An OpenAI-shaped server over a bare io_uring: the server that a client is least limited by.
#[derive(Debug, Parser)]
pub struct ServerArgs {
    /// How every request is answered, whatever it asks.
    #[arg(long, value_enum, default_value_t = Mode::Request)]
    mode: Mode,
    /// Content events of a stream.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    events: u64,
    /// Time from one event to the next, for `timed`.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    itl_us: u64,
    /// Answer with the bytes of this file, head and body, instead of some made here. Paced and timed
    /// answers are cut at their HTTP chunks.
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The most connections at a time.
    #[arg(long, default_value_t = Sizes::default().connections)]
    connections_max: u32,
    /// Receive buffers, a power of two.
    #[arg(long, default_value_t = Sizes::default().buffers)]
    buffers: u16,
    /// The size of each.
    #[arg(long, default_value_t = Sizes::default().buffer_bytes)]
    buffer_bytes: u32,
    /// Keep to this core.
    #[arg(long)]
    core: Option<usize>,
    /// End when standard input does, that is with the program that started this one.
    #[arg(long)]
    attached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One small JSON body.
    Request,
    /// A stream in one write.
    Coalesced,
    /// A stream, one write per event, as fast as they are taken.
    Paced,
    /// A stream, one write per event, `--itl-us` apart.
    Timed,
}

impl ServerArgs {
    /// Says where it listens, and serves.
    ///
    /// # Errors
    /// When the port can't be had, the answer can't be read, or the ring fails.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        self.core.map_or(Ok(()), machine::pin)?;
        let sizes = Sizes {
            connections: self.connections_max,
            buffers: self.buffers,
            buffer_bytes: self.buffer_bytes,
        };
        let server = Server::listen(self.port, self.answer()?, sizes)?;
        println!("listening on http://{}", server.address());
        let input = stdin();
        server.serve(self.attached.then(|| input.as_fd()))?;
        Ok(())
    }

    fn answer(&self) -> Result<Answer, Box<dyn Error>> {
        let recorded = match &self.answer {
            Some(path) => Some(payload::answer_of_file(path)?),
            None => None,
        };
        let cut = |recorded: Option<Vec<u8>>| match recorded {
            Some(bytes) => {
                payload::chunks_of(&bytes).ok_or("the answer does not come in HTTP chunks")
            }
            None => Ok(payload::stream(self.events)),
        };
        Ok(match self.mode {
            Mode::Request => Answer::whole(recorded.unwrap_or_else(payload::completion)),
            Mode::Coalesced => {
                Answer::whole(recorded.unwrap_or_else(|| payload::stream(self.events).concat()))
            }
            Mode::Paced => Answer::paced(cut(recorded)?),
            Mode::Timed => Answer::timed(cut(recorded)?, Nanos::from_micros(self.itl_us)),
        })
    }
}
