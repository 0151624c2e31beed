use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use rtrb::{Consumer, RingBuffer};

use super::assembler::Assembler;
use super::piece::Piece;
use super::recorder::Counts;
use super::{Header, Recorder};

/// Bytes collected before they go to the file.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest that a line stays in the buffer: what a kill may cost.
const FLUSH_EVERY: Nanos = Nanos::from_millis(500);
/// How long the thread rests when the rings are empty.
const REST: Duration = Duration::from_millis(5);
/// Pieces taken from one ring before the next one has its turn.
const BATCH: usize = 4_096;

/// A truth file that is being set up: it has its header, and a recorder for each shard.
#[derive(Debug)]
pub(crate) struct TruthFile {
    writing: Writing,
}

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TruthCounts {
    /// Requests that have a line.
    pub(crate) lines: u64,
    /// Requests that have none: a ring was full, or the file could not be written.
    pub(crate) dropped: u64,
    /// Requests that were in flight at the end. They have no line.
    pub(crate) unfinished: u64,
}

impl TruthFile {
    /// Makes the file, over what was there, and writes its header.
    ///
    /// # Errors
    /// When it can't be made or written, or another server writes it.
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut output = Output::create(path)?;
        output.buffer.extend_from_slice(header.line().as_bytes());
        output.buffer.push(b'\n');
        output.flush()?;
        Ok(Self {
            writing: Writing {
                output,
                start: header.start,
                sources: Vec::new(),
                counts: TruthCounts::default(),
                failed: false,
            },
        })
    }

    /// The recorder of the next shard, with room for `pieces` that the writer has not taken yet, about
    /// one per write and three per request. `places`: about how many requests it has at a time.
    pub(crate) fn recorder(&mut self, pieces: usize, places: usize) -> Recorder {
        let (producer, ring) = RingBuffer::new(pieces);
        let (recorder, counts) = Recorder::new(producer, places);
        let shard = self.writing.sources.len();
        self.writing.sources.push(Source {
            ring,
            assembler: Assembler::new(shard, self.writing.start),
            counts,
        });
        recorder
    }

    /// Writes on a thread of its own until every recorder is gone; off `cores`, where there are others.
    /// That the file can't be written any more is told once, by `tell`, and the server goes on.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub(crate) fn write(
        self,
        cores: Vec<usize>,
        tell: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<JoinHandle<TruthCounts>> {
        thread::Builder::new()
            .name("mock-server-truth".to_owned())
            .spawn(move || {
                keep_off(&cores);
                self.writing.run(tell)
            })
    }

    /// What the thread does from time to time.
    #[cfg(test)]
    pub(super) fn take_and_flush(&mut self) {
        self.take_and_flush_telling(|_| ());
    }

    #[cfg(test)]
    pub(super) fn take_and_flush_telling(&mut self, mut tell: impl FnMut(&str)) {
        while self.writing.take(&mut tell) > 0 {}
        self.writing.flush(&mut tell);
    }

    /// Writes to another file from here on.
    #[cfg(test)]
    pub(super) fn redirect(&mut self, path: &Path) {
        self.writing.output = Output::create(path).unwrap();
    }
}

/// Keeps the calling thread off these cores, if there are others. That it fails is no reason not to
/// write.
fn keep_off(cores: &[usize]) {
    let Ok(mut set) = rustix::thread::sched_getaffinity(None) else {
        return;
    };
    let known = cores
        .iter()
        .filter(|&&core| core < rustix::thread::CpuSet::MAX_CPU);
    known.for_each(|&core| set.unset(core));
    if set.count() > 0 {
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// What comes from one shard.
#[derive(Debug)]
struct Source {
    ring: Consumer<Piece>,
    assembler: Assembler,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Writing {
    output: Output,
    start: Nanos,
    sources: Vec<Source>,
    counts: TruthCounts,
    /// A failure of the file was told.
    failed: bool,
}

impl Writing {
    fn run(mut self, mut tell: impl FnMut(&str)) -> TruthCounts {
        let mut flushed = MonotonicClock.now();
        loop {
            // Read before the rings: what was pushed before a recorder went is seen below.
            let last = self.sources.iter().all(|source| source.ring.is_abandoned());
            let taken = self.take(&mut tell);
            let now = MonotonicClock.now();
            if now - flushed > FLUSH_EVERY {
                flushed = now;
                self.flush(&mut tell);
            }
            if taken == 0 {
                if last {
                    break;
                }
                thread::park_timeout(REST);
            }
        }
        self.finish(&mut tell)
    }

    fn take(&mut self, tell: &mut impl FnMut(&str)) -> usize {
        let mut taken = 0;
        for place in 0..self.sources.len() {
            let source = &mut self.sources[place];
            let waiting = source.ring.slots().min(BATCH);
            let Ok(pieces) = source.ring.read_chunk(waiting) else {
                continue;
            };
            for piece in pieces {
                let line = source.assembler.take(&piece, &mut self.output.buffer);
                self.output.pending += u64::from(line);
            }
            taken += waiting;
            if self.output.buffer.len() >= BUFFER_BYTES {
                self.flush(tell);
            }
        }
        taken
    }

    fn flush(&mut self, tell: &mut impl FnMut(&str)) {
        let pending = self.output.pending;
        match self.output.flush() {
            Ok(()) => self.counts.lines += pending,
            Err(error) => {
                self.counts.dropped += pending;
                if !std::mem::replace(&mut self.failed, true) {
                    let path = self.output.path.display();
                    tell(&format!(
                        "truth: cannot write {path}: {error}; the server goes on"
                    ));
                }
            }
        }
    }

    fn finish(mut self, tell: &mut impl FnMut(&str)) -> TruthCounts {
        self.flush(tell);
        let mut begun = 0;
        for source in &self.sources {
            begun += source.counts.begun.load(Ordering::Relaxed);
            self.counts.dropped += source.counts.dropped.load(Ordering::Relaxed);
        }
        let counts = &mut self.counts;
        counts.unfinished = begun.saturating_sub(counts.lines + counts.dropped);
        let end = format!(
            "{{\"end\":{{\"lines\":{},\"dropped\":{},\"unfinished\":{}}}}}\n",
            counts.lines, counts.dropped, counts.unfinished
        );
        self.output.buffer.extend_from_slice(end.as_bytes());
        self.flush(tell);
        self.counts
    }
}

/// The file and what is still to be written to it.
#[derive(Debug)]
struct Output {
    file: File,
    path: PathBuf,
    /// Bytes written, all of them whole lines.
    length: u64,
    buffer: Vec<u8>,
    /// Requests whose lines are in the buffer.
    pending: u64,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let data = file.metadata()?;
        if data.is_file() {
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(io::Error::other("another server is writing it"));
            }
            file.set_len(0)?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            length: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES + 4_096),
            pending: 0,
        })
    }

    /// Writes the buffer. What fails is dropped as a whole, so that the file ends with a whole line and
    /// goes on when there is room again.
    fn flush(&mut self) -> io::Result<()> {
        self.pending = 0;
        let result = self.file.write_all(&self.buffer);
        match &result {
            Ok(()) => self.length += self.buffer.len() as u64,
            Err(_) => {
                // A device or a pipe has no length to go back to.
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(4 * BUFFER_BYTES);
        result
    }
}
