//! Records from a shard's queue to the disk, by the writer that runs have; and a plain write of the
//! same bytes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, thread_cpu_time};
use ridgeline_engine::{Control, Outcome, Record};
use ridgeline_metrics::{Phase, Timeline, TokenSource};
use ridgeline_perf::machine;
use ridgeline_report::records::{JSONL, RecordWriter, SPOOL};
use ridgeline_wire::openai::{FinishReason, Usage};
use rtrb::{Producer, RingBuffer};

/// The form in which records are written while a run goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// JSON lines: the writer keeps up.
    Lines,
    /// The compact form, of which lines are made when the run is over: the queue was more than half
    /// full.
    Spool,
}

/// What one stretch of writing took.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stretch {
    /// From its begin to its end.
    pub wall: Nanos,
    /// CPU time of the writing thread.
    pub cpu: Nanos,
    /// Bytes that are in the file afterwards.
    pub bytes: u64,
}

/// What it took to write records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Recording {
    /// Until the queue was empty, in [`Form::Spool`]; until all lines were in their file, in
    /// [`Form::Lines`].
    pub taking: Stretch,
    /// From then until lines had been made of the spool; nothing in [`Form::Lines`].
    pub converting: Stretch,
}

/// The record of a streamed success.
#[must_use]
pub fn record(index: u64) -> Record {
    let at = |micros: u64| Some(Nanos::from_micros(1_000 + index * 7 + micros));
    Record {
        index,
        sample: 3,
        phase: Phase::Measured,
        shard: 0,
        outcome: Outcome::Ok,
        http_status: Some(200),
        finish_reason: Some(FinishReason::Stop),
        timeline: Timeline {
            scheduled: at(0).unwrap_or_default(),
            started: at(10).unwrap_or_default(),
            connect: None,
            tls: None,
            submitted: at(12),
            first_byte: at(20_150),
            first_token: at(20_160),
            first_output: at(20_160),
            last_token: at(340_190),
            done: at(340_200),
        },
        connected: None,
        secured: None,
        usage: Usage {
            input_tokens: Some(128),
            output_tokens: Some(64),
            ..Usage::default()
        },
        token_source: TokenSource::Usage,
        input_counted: None,
        content_events: 64,
        retries: 0,
        harness_delay_max: Nanos(11_000),
        stamp_width_max: Nanos(13_000),
        run_id: 42,
        details: None,
    }
}

/// A queue with `count` records in it, and room beside them so that the writer takes the form.
fn queue(count: usize, form: Form) -> (Producer<Record>, rtrb::Consumer<Record>) {
    let capacity = match form {
        Form::Lines => 2 * count,
        Form::Spool => count,
    };
    let (mut producer, consumer) = RingBuffer::new(capacity.max(1));
    for index in 0..count as u64 {
        producer
            .push(record(index))
            .expect("the queue has the room");
    }
    (producer, consumer)
}

/// Writes `count` records into `folder`, which holds none yet. `cores`: that of the writing thread,
/// and the one that the calling thread keeps afterwards; none leaves both where they are.
///
/// # Errors
/// When the files can't be written, or a core can't be had.
///
/// # Panics
/// When not every record was written in the asked form: the figure would be another one.
pub fn write(
    folder: &Path,
    count: usize,
    form: Form,
    cores: Option<[usize; 2]>,
) -> io::Result<Recording> {
    let control = Control::new(1);
    control.start(Nanos(1));
    let (producer, consumer) = queue(count, form);
    let capacity = producer.buffer().capacity();
    // A thread begins on the core of the one that starts it.
    cores.map_or(Ok(()), |[writer, _]| machine::pin(writer))?;
    let begin = Point::now()?;
    let writer =
        RecordWriter::start(folder, vec![consumer], Arc::new(control)).map_err(io::Error::other)?;
    cores.map_or(Ok(()), |[_, own]| machine::pin(own))?;
    let mut taken = None;
    if form == Form::Spool {
        while producer.slots() < capacity {
            thread::yield_now();
        }
        // What is not flushed yet is less than a buffer.
        let bytes = fs::metadata(folder.join(SPOOL)).map_or(0, |data| data.len());
        taken = Some((Point::now()?, bytes));
    }
    let written = writer.finish();
    let end = Point::now()?;
    if let Some(error) = written.error {
        return Err(io::Error::other(error));
    }
    let bytes = fs::metadata(folder.join(JSONL))?.len();
    let spooled = match form {
        Form::Lines => 0,
        Form::Spool => count as u64,
    };
    assert_eq!((written.records, written.spooled), (count as u64, spooled));
    Ok(match taken {
        None => Recording {
            taking: end.since(begin, bytes),
            converting: Stretch::default(),
        },
        Some((middle, spool_bytes)) => Recording {
            taking: middle.since(begin, spool_bytes),
            converting: end.since(middle, bytes),
        },
    })
}

/// Writes `bytes` bytes to a new file in `folder` in pieces of 256 KiB: what the disk and the kernel
/// ask of any writer.
///
/// # Errors
/// When the file can't be written.
pub fn write_plainly(folder: &Path, bytes: u64) -> io::Result<Stretch> {
    const PIECE_BYTES: usize = 256 << 10;
    let piece = vec![b'x'; PIECE_BYTES];
    let path = folder.join("plain");
    let (wall, cpu) = (MonotonicClock.now(), thread_cpu_time());
    let mut file = File::create(&path)?;
    let mut left = usize::try_from(bytes).map_err(io::Error::other)?;
    while left > 0 {
        let count = left.min(PIECE_BYTES);
        file.write_all(&piece[..count])?;
        left -= count;
    }
    let stretch = Stretch {
        wall: MonotonicClock.now() - wall,
        cpu: thread_cpu_time() - cpu,
        bytes: file.metadata()?.len(),
    };
    fs::remove_file(&path)?;
    Ok(stretch)
}

/// A moment, and what the threads beside the caller's had used by then.
#[derive(Clone, Copy)]
struct Point {
    at: Nanos,
    others_cpu: Nanos,
}

impl Point {
    fn now() -> io::Result<Self> {
        let own = thread_cpu_time();
        let all = Nanos(machine::own_cpu()?.total_ns());
        Ok(Self {
            at: MonotonicClock.now(),
            others_cpu: all - own,
        })
    }

    fn since(self, earlier: Self, bytes: u64) -> Stretch {
        Stretch {
            wall: self.at - earlier.at,
            cpu: self.others_cpu - earlier.others_cpu,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_in_the_form_that_is_asked_for() {
        for (form, converted) in [(Form::Lines, false), (Form::Spool, true)] {
            let folder = tempfile::tempdir().unwrap();
            let recording = write(folder.path(), 3_000, form, None).unwrap();
            assert!(recording.taking.wall > Nanos::ZERO);
            assert_eq!(recording.converting.bytes > 0, converted);
            let lines = fs::read_to_string(folder.path().join(JSONL)).unwrap();
            assert_eq!(lines.lines().count(), 3_000);
            assert!(!folder.path().join(SPOOL).exists());
        }
    }

    #[test]
    fn a_plain_write_writes_the_bytes_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let stretch = write_plainly(folder.path(), 600_000).unwrap();
        assert_eq!(stretch.bytes, 600_000);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
