//! Messages of records between two threads through the in-process transport, as processes of one machine
//! exchange them through sockets.

use std::io;
use std::thread;

use ridgeline_clock::{Nanos, thread_cpu_time};
use ridgeline_perf::machine;
use ridgeline_transport::{InProcess, Limits};

use super::ring::Crossing;
use crate::pipe::{Load, PipeError, pull, push};

/// What may wait: within a core's own cache.
const QUEUED_BYTES: usize = 256 << 10;

/// Sends messages of records from one thread to another, each on a core of its own where `cores` names
/// two. Each record is copied into its message, and looked at.
///
/// # Errors
/// When a core can't be had, or an end leaves early.
pub fn cross(
    messages: u64,
    records: usize,
    record_bytes: usize,
    cores: [usize; 2],
) -> io::Result<Crossing> {
    let load = Load {
        messages,
        records,
        record_bytes,
    };
    let limits = Limits {
        queued_bytes_max: QUEUED_BYTES,
        message_bytes_max: QUEUED_BYTES / 4,
        ..Limits::data()
    };
    let failed = |error: PipeError| io::Error::other(error.to_string());
    let (mut near, mut far) = InProcess::pair(limits);
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            machine::pin(cores[0])?;
            let cpu = thread_cpu_time();
            push(&mut near, load).map_err(failed)?;
            Ok::<Nanos, io::Error>(thread_cpu_time() - cpu)
        });
        let receiver = scope.spawn(move || {
            machine::pin(cores[1])?;
            let cpu = thread_cpu_time();
            let crossed = pull(&mut far, load).map_err(failed)?;
            Ok::<_, io::Error>((crossed, thread_cpu_time() - cpu))
        });
        let panicked = |_| io::Error::other("an end of the in-process transport panicked");
        let (crossed, received) = receiver.join().map_err(panicked)??;
        let sent = sender.join().map_err(panicked)??;
        Ok(Crossing {
            wall: Nanos(crossed.elapsed_ns),
            cpu: sent + received,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_cross() {
        let core = core_affinity::get_core_ids().expect("cores are known")[0].id;
        let crossing = cross(500, 8, 32, [core, core]).expect("they cross");
        assert!(crossing.wall > Nanos::ZERO && crossing.cpu > Nanos::ZERO);
    }
}
