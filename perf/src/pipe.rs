//! A pipe of messages between two processes: the flags of its ends, what the receiving end says, and both
//! ends run and accounted for.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use clap::{Args, ValueEnum};
use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::child::{self, Finished};

/// Whether the ends of a pipe on libzmq are built in (feature `libzmq`).
pub const HAS_LIBZMQ: bool = cfg!(feature = "libzmq");

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// Listens, receives, and says how long that took.
    Pull,
    /// Connects and sends.
    Push,
}

/// The flags of one end. Both must be given the same sizes.
#[derive(Args, Clone, Debug)]
pub struct PipeArgs {
    /// Which end
    #[arg(value_enum)]
    pub end: End,
    /// Where: ipc://PATH or tcp://HOST:PORT
    pub address: String,
    /// The length of a message
    #[arg(long, default_value_t = 128)]
    pub message_bytes: usize,
    /// A message is made of so many records of the same length, one after another
    #[arg(long, default_value_t = 1)]
    pub records: usize,
    /// How many messages
    #[arg(long)]
    pub messages: u64,
}

impl PipeArgs {
    /// The length of a record.
    ///
    /// # Errors
    /// When a message is not made of whole records.
    pub fn record_bytes(&self) -> Result<usize, Box<dyn Error>> {
        let whole = self.records > 0 && self.message_bytes.is_multiple_of(self.records);
        if !whole || self.messages == 0 {
            return Err(
                "--message-bytes must be a multiple of --records, and --messages above 0".into(),
            );
        }
        Ok(self.message_bytes / self.records)
    }
}

/// What came through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossed {
    /// Messages.
    pub messages: u64,
    /// Records in them.
    pub records: u64,
    /// From the first message to the last.
    pub elapsed_ns: u64,
}

/// Counts what comes, and looks at each record.
#[derive(Debug)]
pub struct Count {
    record_bytes: usize,
    crossed: Crossed,
    started: Nanos,
    /// Of the first byte of every record: that they are looked at must not be left out.
    pub sum: u64,
}

impl Count {
    /// Nothing has come yet.
    #[must_use]
    pub const fn new(record_bytes: usize) -> Self {
        let crossed = Crossed {
            messages: 0,
            records: 0,
            elapsed_ns: 0,
        };
        Self {
            record_bytes,
            crossed,
            started: Nanos::ZERO,
            sum: 0,
        }
    }

    /// How many messages came.
    #[must_use]
    #[inline]
    pub const fn messages(&self) -> u64 {
        self.crossed.messages
    }

    /// A message came; `now` is asked for the time of the first.
    #[inline]
    pub fn add(&mut self, message: &[u8], now: impl FnOnce() -> Nanos) {
        if self.crossed.messages == 0 {
            self.started = now();
        }
        self.crossed.messages += 1;
        for record in message.chunks(self.record_bytes.max(1)) {
            self.crossed.records += 1;
            self.sum += u64::from(record[0]);
        }
    }

    /// What came by now.
    #[must_use]
    pub fn crossed(&self, now: Nanos) -> Crossed {
        Crossed {
            elapsed_ns: (now - self.started).0,
            ..self.crossed
        }
    }
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A socket in the file system.
    Ipc,
    /// Loopback.
    Tcp,
}

/// What goes through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The length of a message.
    pub message_bytes: usize,
    /// Records in it.
    pub records: usize,
    /// How many messages.
    pub messages: u64,
}

/// A program that is either end of a pipe.
#[derive(Clone, Debug)]
pub struct Piping {
    /// What it is called.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// What comes before the flags of an end.
    pub words: Vec<OsString>,
}

/// What it took to get messages from one process to another.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// What came, and how long that took.
    pub crossed: Crossed,
    /// CPU time of both processes, start-up included.
    pub cpu: Nanos,
    /// From start to end of the receiving process.
    pub wall: Nanos,
    /// The larger of the two resident sets.
    pub resident_bytes_max: u64,
}

impl Piping {
    /// Runs both ends, the receiving one on the first core.
    ///
    /// # Errors
    /// When an end can't be started, fails or takes longer than `limit`.
    pub fn cross(
        &self,
        scheme: Scheme,
        sizes: Sizes,
        cores: [usize; 2],
        limit: Nanos,
    ) -> io::Result<Crossing> {
        let folder = tempfile::tempdir()?;
        let address = address(scheme, folder.path())?;
        let mut pull = self.end("pull", &address, sizes);
        let mut push = self.end("push", &address, sizes);
        let (receiver, sender) = thread::scope(|scope| {
            let receiver = scope.spawn(|| child::run(&mut pull, cores[0], limit));
            let sender = child::run(&mut push, cores[1], limit);
            (receiver.join(), sender)
        });
        let receiver =
            receiver.map_err(|_| io::Error::other("the thread of a pipe panicked"))??;
        let Finished {
            ended,
            wall,
            stdout,
            ..
        } = receiver.expect_success(self.name, None)?;
        let sender = sender?.expect_success(self.name, None)?.ended;
        Ok(Crossing {
            crossed: serde_json::from_str(&stdout).map_err(io::Error::other)?,
            cpu: Nanos(ended.cpu.total_ns() + sender.cpu.total_ns()),
            wall,
            resident_bytes_max: ended.resident_bytes_max.max(sender.resident_bytes_max),
        })
    }

    fn end(&self, end: &str, address: &str, sizes: Sizes) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.words).args([end, address]);
        command
            .arg("--message-bytes")
            .arg(sizes.message_bytes.to_string());
        command.arg("--records").arg(sizes.records.to_string());
        command.arg("--messages").arg(sizes.messages.to_string());
        command
    }
}

fn address(scheme: Scheme, folder: &Path) -> io::Result<String> {
    match scheme {
        Scheme::Ipc => Ok(format!("ipc://{}", folder.join("pipe").display())),
        // A port that was free a moment ago.
        Scheme::Tcp => {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            Ok(format!("tcp://{free}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_from_the_first_message_on() {
        let mut count = Count::new(10);
        count.add(&[1; 30], || Nanos(500));
        count.add(&[2; 30], || panic!("only the first is timed"));
        assert_eq!((count.messages(), count.sum), (2, 9));
        let crossed = count.crossed(Nanos(900));
        assert_eq!((crossed.records, crossed.elapsed_ns), (6, 400));
    }
}
