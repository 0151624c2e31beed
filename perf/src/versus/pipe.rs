//! Messages between two processes, each on a core of its own: libzmq against ridgeline.

use std::io;

use crate::pipe::{Piping, Scheme, Sizes};
use crate::versus::Options;
use crate::versus::arm::{Sample, Side};
use crate::versus::preset;

/// Both ends of one library.
#[derive(Debug)]
pub(crate) struct Pipe {
    piping: Piping,
    sizes: Sizes,
}

/// libzmq, and ridgeline.
pub(crate) fn sides(
    options: &Options,
    message_bytes: usize,
    messages: u64,
) -> io::Result<[Pipe; 2]> {
    let sizes = Sizes {
        message_bytes,
        records: 1,
        messages,
    };
    let (program, words) = options.programs.words("libzmq-pipe");
    let libzmq = Piping {
        name: "libzmq",
        program,
        words,
    };
    let ridgeline = Piping {
        name: "ridgeline",
        program: preset::built(&options.ridgeline)?,
        words: vec!["pipe".into()],
    };
    Ok([libzmq, ridgeline].map(|piping| Pipe { piping, sizes }))
}

impl Side for Pipe {
    fn name(&self) -> &'static str {
        self.piping.name
    }

    /// CPU time is that of both processes.
    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let cores = [options.server_core, options.client_core];
        let crossing = self
            .piping
            .cross(Scheme::Ipc, self.sizes, cores, options.limit)?;
        Ok(Sample {
            requests: crossing.crossed.messages,
            elapsed_ns: crossing.crossed.elapsed_ns,
            wall_ns: crossing.wall.0,
            cpu_ns: crossing.cpu.0,
            resident_bytes_max: crossing.resident_bytes_max,
            ..Sample::default()
        })
    }
}
