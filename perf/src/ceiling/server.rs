#![expect(clippy::print_stdout, reason = "its first line says where it listens")]

use std::error::Error;
use std::io::stdin;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

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
    /// Events of one write, for `paced` and `timed`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    events_per_write: u32,
    /// Time from one write to the next, for `timed`.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    itl_us: u64,
    /// Answer with the bytes of this file, head and body, instead of some made here. Paced and timed
    /// answers are cut at their HTTP chunks.
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The most connections at a time. As many rings are used as these take: the kernel limits the
    /// table of each to RLIMIT_NOFILE.
    #[arg(long, default_value_t = Sizes::default().connections, value_parser = clap::value_parser!(u32).range(1..))]
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
    /// A stream, one write per `--events-per-write`, as fast as they are taken.
    Paced,
    /// A stream, one write per `--events-per-write`, `--itl-us` apart.
    Timed,
}

impl ServerArgs {
    /// Says where it listens, and serves.
    ///
    /// # Errors
    /// When the port can't be had, the answer can't be read, or the ring fails.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        self.core.map_or(Ok(()), machine::pin)?;
        let mut servers = self.listen(machine::raise_files_max())?;
        println!("listening on http://{}", servers[0].address());
        let attached = self.attached;
        let serve = move |server: Server| {
            let input = stdin();
            server.serve(attached.then(|| input.as_fd()))
        };
        if servers.len() > 1 {
            let (ended, end) = mpsc::channel();
            for server in servers {
                let ended = ended.clone();
                // Nobody listens any more when another ring has ended, and with it the process.
                thread::spawn(move || ended.send(serve(server)));
            }
            end.recv()??;
        } else if let Some(server) = servers.pop() {
            serve(server)?;
        }
        Ok(())
    }

    /// One listener for each ring that the connections take, where a ring's table holds `files_max`.
    fn listen(&self, files_max: u32) -> Result<Vec<Server>, Box<dyn Error>> {
        let (rings, connections) = shares(self.connections_max, files_max);
        let sizes = Sizes {
            connections,
            buffers: self.buffers,
            buffer_bytes: self.buffer_bytes,
        };
        let answer = self.answer()?;
        let mut servers: Vec<Server> = Vec::new();
        for _ in 0..rings {
            // Any port, where that was asked for, is chosen by the first.
            let port = servers
                .first()
                .map_or(self.port, |first| first.address().port());
            let others = rings > 1;
            servers.push(Server::listen(port, answer.clone(), sizes, others)?);
        }
        Ok(servers)
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
            Mode::Paced => Answer::paced(self.writes(cut(recorded)?)),
            Mode::Timed => {
                Answer::timed(self.writes(cut(recorded)?), Nanos::from_micros(self.itl_us))
            }
        })
    }

    fn writes(&self, segments: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        match usize::try_from(self.events_per_write) {
            Ok(1) => segments,
            events => payload::together(&segments, events.unwrap_or(usize::MAX)),
        }
    }
}

/// How many rings `connections` take, and how many each is to have room for. The kernel deals
/// connections out by a hash of their addresses: none has more than six standard deviations of the
/// binomial distribution above the mean.
fn shares(connections: u32, files_max: u32) -> (u32, u32) {
    let room = |rings: u32| match connections.div_ceil(rings) {
        all if rings == 1 => all,
        mean => (mean + 6 * (mean.isqrt() + 1)).min(connections),
    };
    let rings = (1..=connections).find(|&rings| room(rings) <= files_max);
    let rings = rings.unwrap_or(connections);
    (rings, room(rings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_as_many_rings_as_have_room_for_them() {
        assert_eq!(shares(4_096, 20_000), (1, 4_096));
        assert_eq!(shares(20_000, 20_000), (1, 20_000));
        assert_eq!(shares(39_000, 20_000), (3, 13_690));
        assert_eq!(shares(50_000, 20_000), (3, 17_447));
        assert_eq!(shares(1, 20_000), (1, 1));
    }
}
