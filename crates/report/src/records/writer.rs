use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::{Control, Outcome, Record};
use ridgeline_metrics::Phase;
use ridgeline_wire::exchange::ErrorKind;
use rtrb::Consumer;

use super::entry::Entry;
use super::line::Origin;
use super::recover::{convert, lock};
use super::spool::Head;
use super::{JSONL, RecordsError, SPOOL, line, spool};

/// Bytes collected before they go to the file.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// The longest that a record stays in the buffer: what a kill may cost.
const FLUSH_EVERY: Nanos = Nanos::from_millis(500);
/// How long the thread rests when the queues are empty.
const REST: Duration = Duration::from_millis(5);
/// Records taken from one queue before the next one has its turn.
const BATCH: usize = 1024;
/// Characters kept of the example of an error.
const EXAMPLE_CHARS_MAX: usize = 400;

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// Lines in `records.jsonl`.
    pub records: u64,
    /// How many of them went through the spool, because the thread could not keep up with lines.
    pub spooled: u64,
    /// Records still in the spool, because lines could not be made of them; [`super::recover`] can.
    pub unconverted: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Records taken whose output tokens are to be counted: see [`super::count`].
    pub uncounted: u64,
    /// Why not: the first thing that went wrong.
    pub error: Option<RecordsError>,
    /// The first message of each kind of error in the measured phase.
    pub error_examples: BTreeMap<ErrorKind, String>,
}

/// The thread that writes records while a run goes on.
#[derive(Debug)]
pub struct RecordWriter {
    thread: Option<JoinHandle<Written>>,
    over: Arc<AtomicBool>,
}

impl RecordWriter {
    /// Starts it; what an earlier run left in the two files is gone then. `queues`: one per shard;
    /// `control` tells the run's start.
    ///
    /// # Errors
    /// When the file can't be made in `folder` or another run writes it, or the thread can't be
    /// started.
    pub fn start(
        folder: &Path,
        queues: Vec<Consumer<Record>>,
        control: Arc<Control>,
    ) -> Result<Self, RecordsError> {
        let writing = Writing::new(folder, queues, control)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || writing.run(&seen))
            .map_err(RecordsError::Thread)?;
        Ok(Self {
            thread: Some(thread),
            over,
        })
    }

    /// The run is over: writes what is left and says what was written.
    #[must_use]
    pub fn finish(mut self) -> Written {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Written> {
        let thread = self.thread.take()?;
        self.over.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join().unwrap_or_else(|_| Written {
            error: Some(RecordsError::Thread(io::Error::other(
                "it stopped by an internal fault; please report it",
            ))),
            ..Written::default()
        }))
    }
}

/// A run that failed leaves what it wrote whole, too.
impl Drop for RecordWriter {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Writing {
    lines: Output,
    spool: Option<Output>,
    /// The spool could not be made: no use trying again.
    spool_refused: bool,
    folder: PathBuf,
    queues: Vec<Consumer<Record>>,
    control: Arc<Control>,
    written: Written,
}

impl Writing {
    fn new(
        folder: &Path,
        queues: Vec<Consumer<Record>>,
        control: Arc<Control>,
    ) -> Result<Self, RecordsError> {
        let lines = Output::create(folder.join(JSONL))?;
        // A spool of an earlier run would be taken for this run's.
        let spool = folder.join(SPOOL);
        match std::fs::remove_file(&spool) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RecordsError::file("remove", spool)(error));
            }
            _ => {}
        }
        Ok(Self {
            lines,
            spool: None,
            spool_refused: false,
            folder: folder.to_owned(),
            queues,
            control,
            written: Written::default(),
        })
    }

    fn run(mut self, over: &AtomicBool) -> Written {
        let mut flushed = MonotonicClock.now();
        loop {
            // Read before the queues: what was pushed before the run's end is seen below.
            let last = over.load(Ordering::Acquire);
            let taken = self.take_batches();
            let now = MonotonicClock.now();
            if now - flushed > FLUSH_EVERY {
                flushed = now;
                self.flush();
            }
            if taken == 0 {
                if last {
                    break;
                }
                thread::park_timeout(REST);
            }
        }
        self.flush();
        self.convert_spool();
        self.written
    }

    fn take_batches(&mut self) -> usize {
        let mut taken = 0;
        for k in 0..self.queues.len() {
            let queue = &self.queues[k];
            let waiting = queue.slots();
            if waiting * 2 > queue.buffer().capacity() {
                self.open_spool();
            }
            for _ in 0..waiting.min(BATCH) {
                let Ok(record) = self.queues[k].pop() else {
                    break;
                };
                self.write(&record);
                taken += 1;
            }
        }
        taken
    }

    fn open_spool(&mut self) {
        if self.spool.is_some() || self.spool_refused {
            return;
        }
        // The lines end here: what comes after them is in the spool.
        self.flush();
        match Output::create(self.folder.join(SPOOL)) {
            Ok(mut spool) => {
                let head = Head {
                    origin: self.origin(),
                    lines_bytes: self.lines.length,
                };
                spool.buffer.extend_from_slice(&head.to_bytes());
                self.spool = Some(spool);
                self.flush();
            }
            // Lines take longer, and say the same.
            Err(error) => {
                self.spool_refused = true;
                self.written.error.get_or_insert(error);
            }
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            start: self.control.started(),
            worker: self.control.worker(),
        }
    }

    fn write(&mut self, record: &Record) {
        let entry = Entry::of(record);
        self.written.uncounted += u64::from(entry.uncounted.is_some());
        if let (Outcome::Error(kind), Phase::Measured) = (entry.outcome, entry.phase) {
            self.written.error_examples.entry(kind).or_insert_with(|| {
                let message = entry.message.unwrap_or_else(|| kind.as_str());
                message.chars().take(EXAMPLE_CHARS_MAX).collect()
            });
        }
        let output = match &mut self.spool {
            Some(output) => {
                if let Err(bytes) = spool::write(&mut output.buffer, &entry) {
                    self.written.lost += 1;
                    let error = RecordsError::Oversize { bytes };
                    self.written.error.get_or_insert(error);
                    return;
                }
                output
            }
            None => {
                let origin = self.origin();
                line::write(&mut self.lines.buffer, &entry, origin);
                &mut self.lines
            }
        };
        output.pending += 1;
        if output.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let written = &mut self.written;
        let lines = (&mut self.lines, &mut written.records);
        let spool = self
            .spool
            .as_mut()
            .map(|spool| (spool, &mut written.spooled));
        for (output, count) in [Some(lines), spool].into_iter().flatten() {
            let pending = output.pending;
            match output.flush() {
                Ok(()) => *count += pending,
                Err(error) => {
                    written.lost += pending;
                    written.error.get_or_insert(error);
                }
            }
        }
    }

    fn convert_spool(&mut self) {
        if self.spool.take().is_none() {
            return;
        }
        match convert(&mut self.lines.file, &self.folder) {
            Ok(recovered) => {
                self.written.records += recovered.converted;
                self.written.lost += recovered.cut;
            }
            Err(error) => {
                self.written.unconverted = std::mem::take(&mut self.written.spooled);
                self.written.error.get_or_insert(error);
            }
        }
    }
}

/// A file and what is still to be written to it.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) file: File,
    path: PathBuf,
    /// Bytes written, all of them whole records.
    pub(super) length: u64,
    pub(super) buffer: Vec<u8>,
    /// Records in the buffer.
    pub(super) pending: u64,
}

impl Output {
    pub(super) fn create(path: PathBuf) -> Result<Self, RecordsError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options
            .open(&path)
            .map_err(RecordsError::file("create", &path))?;
        lock(&file, &path)?;
        if file.metadata().is_ok_and(|data| data.len() > 0) {
            file.set_len(0)
                .map_err(RecordsError::file("empty", &path))?;
        }
        Ok(Self {
            file,
            path,
            length: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            pending: 0,
        })
    }

    /// Writes the buffer. What fails is dropped as a whole, so that the file ends with a whole
    /// record and goes on when there is room again.
    pub(super) fn flush(&mut self) -> Result<(), RecordsError> {
        self.pending = 0;
        let result = self.file.write_all(&self.buffer);
        match &result {
            Ok(()) => self.length += self.buffer.len() as u64,
            Err(_) => {
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(4 * BUFFER_BYTES);
        result.map_err(RecordsError::file("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rtrb::{Producer, RingBuffer};
    use serde_json::Value;

    use super::super::{recover, samples};
    use super::*;

    fn control() -> Arc<Control> {
        let control = Control::new(1);
        control.start(samples::START);
        Arc::new(control)
    }

    fn queue(capacity: usize, records: std::ops::Range<u64>) -> Consumer<Record> {
        let (mut producer, consumer) = RingBuffer::new(capacity);
        push(&mut producer, records);
        consumer
    }

    fn push(producer: &mut Producer<Record>, records: std::ops::Range<u64>) {
        records.for_each(|index| producer.push(samples::any(index)).unwrap());
    }

    fn indexes(folder: &Path) -> Vec<u64> {
        let text = fs::read_to_string(folder.join(JSONL)).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["index"].as_u64().unwrap()
            })
            .collect()
    }

    #[test]
    fn all_records_are_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let queues = vec![queue(10_000, 0..3_000), queue(10_000, 3_000..6_000)];
        let writer = RecordWriter::start(folder.path(), queues, control()).unwrap();
        let written = writer.finish();
        assert!(written.error.is_none());
        assert_eq!(
            (written.records, written.spooled, written.lost),
            (6_000, 0, 0)
        );
        let (first, second): (Vec<u64>, Vec<u64>) =
            indexes(folder.path()).into_iter().partition(|&i| i < 3_000);
        assert!(first.into_iter().eq(0..3_000) && second.into_iter().eq(3_000..6_000));
        assert!(!folder.path().join(SPOOL).exists());
    }

    #[test]
    fn a_full_queue_goes_through_the_spool_and_says_the_same() {
        let [direct, spooled] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let run = |folder: &Path, capacity| {
            let writer =
                RecordWriter::start(folder, vec![queue(capacity, 0..100)], control()).unwrap();
            writer.finish()
        };
        assert_eq!(run(direct.path(), 1_000).spooled, 0);
        let written = run(spooled.path(), 100);
        assert_eq!(
            (written.records, written.spooled, written.lost),
            (100, 100, 0)
        );
        let lines = |folder: &Path| fs::read_to_string(folder.join(JSONL)).unwrap();
        assert_eq!(lines(direct.path()), lines(spooled.path()));
        assert!(!spooled.path().join(SPOOL).exists());
    }

    /// A run that fell behind after its first lines.
    fn fall_behind(folder: &Path) -> Writing {
        let (mut producer, consumer) = RingBuffer::new(10);
        let mut writing = Writing::new(folder, vec![consumer], control()).unwrap();
        for records in [0..3, 3..11, 11..13] {
            push(&mut producer, records);
            writing.take_batches();
        }
        writing.flush();
        writing
    }

    #[test]
    fn order_is_kept_when_the_writer_falls_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut writing = fall_behind(folder.path());
        assert_eq!(indexes(folder.path()), [0, 1, 2], "lines end at the spool");
        writing.convert_spool();
        assert_eq!((writing.written.records, writing.written.spooled), (13, 10));
        assert!(indexes(folder.path()).into_iter().eq(0..13));
    }

    #[test]
    fn a_killed_run_is_recovered_from_any_cut_of_its_spool() {
        let folder = tempfile::tempdir().unwrap();
        drop(fall_behind(folder.path()));
        let (jsonl, path) = (folder.path().join(JSONL), folder.path().join(SPOOL));
        let (lines, spool) = (fs::read(&jsonl).unwrap(), fs::read(&path).unwrap());
        for end in 0..=spool.len() {
            // Converting had begun when it was killed once more.
            fs::write(&jsonl, [&lines, &lines[..lines.len() / 2]].concat()).unwrap();
            fs::write(&path, &spool[..end]).unwrap();
            let recovered = recover(folder.path()).unwrap();
            let found = indexes(folder.path());
            if end >= spool::HEAD_BYTES {
                let whole = 3 + usize::try_from(recovered.converted).unwrap();
                assert!(found.iter().copied().eq(0..whole as u64), "cut at {end}");
            }
            assert!(recovered.cut <= 2);
            if end == spool.len() {
                assert_eq!((recovered.converted, recovered.cut), (10, 0));
            }
            assert_eq!(recover(folder.path()).unwrap(), Default::default());
        }
    }

    #[test]
    fn an_unfinished_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(recover(folder.path()).unwrap(), Default::default());
        let writer = RecordWriter::start(folder.path(), vec![queue(100, 0..3)], control()).unwrap();
        assert_eq!(writer.finish().records, 3);
        let path = folder.path().join(JSONL);
        let lines = fs::read(&path).unwrap();
        let second_end = lines.iter().position(|&b| b == b'\n').unwrap() + 1;
        for end in second_end..lines.len() {
            fs::write(&path, &lines[..end]).unwrap();
            let cut = recover(folder.path()).unwrap().cut;
            assert_eq!(cut, u64::from(lines[end - 1] != b'\n'), "cut at {end}");
            assert!(!indexes(folder.path()).is_empty());
        }
        fs::write(&path, "no line at all").unwrap();
        assert_eq!(recover(folder.path()).unwrap().cut, 1);
        assert!(indexes(folder.path()).is_empty());
    }

    #[test]
    fn a_full_disk_is_told_once_and_what_was_lost_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/dev/full", folder.path().join(JSONL)).unwrap();
        let writer =
            RecordWriter::start(folder.path(), vec![queue(100, 0..30)], control()).unwrap();
        let written = writer.finish();
        assert_eq!((written.records, written.lost), (0, 30));
        let error = written.error.unwrap().to_string();
        assert!(error.starts_with("cannot write") && error.contains(JSONL));
    }

    #[test]
    fn a_spool_of_which_no_lines_can_be_made_stays() {
        let folder = tempfile::tempdir().unwrap();
        let jsonl = folder.path().join(JSONL);
        symlink("/dev/full", &jsonl).unwrap();
        let writer = RecordWriter::start(folder.path(), vec![queue(30, 0..30)], control()).unwrap();
        let written = writer.finish();
        assert_eq!(
            (written.records, written.unconverted, written.lost),
            (0, 30, 0)
        );
        assert!(written.error.is_some());
        fs::remove_file(&jsonl).unwrap();
        assert_eq!(recover(folder.path()).unwrap().converted, 30);
        assert!(indexes(folder.path()).into_iter().eq(0..30));
    }

    #[test]
    fn a_file_that_is_no_spool_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SPOOL);
        fs::write(&path, "something else, long enough for a head").unwrap();
        let error = recover(folder.path()).unwrap_err();
        assert!(matches!(error, RecordsError::NotASpool { .. }), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn a_run_that_goes_on_is_not_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let writing = Writing::new(folder.path(), Vec::new(), control()).unwrap();
        let error = recover(folder.path()).unwrap_err();
        assert!(matches!(error, RecordsError::Busy { .. }), "{error}");
        assert!(Writing::new(folder.path(), Vec::new(), control()).is_err());
        drop(writing);
        recover(folder.path()).unwrap();
    }

    #[test]
    fn each_kind_of_error_keeps_its_first_message() {
        let folder = tempfile::tempdir().unwrap();
        let (mut producer, consumer) = RingBuffer::new(100);
        for index in 0..4 {
            let mut record = samples::hostile(index);
            record.phase = Phase::Measured;
            let message = format!("number {index}");
            record.details.as_mut().unwrap().message = Some(message.into());
            producer.push(record).unwrap();
        }
        let writer = RecordWriter::start(folder.path(), vec![consumer], control()).unwrap();
        let examples = writer.finish().error_examples;
        assert_eq!(examples[&ErrorKind::HttpStatus], "number 0");
        assert_eq!(examples.len(), 1);
    }

    #[test]
    fn a_writer_that_is_dropped_leaves_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let writer = RecordWriter::start(folder.path(), vec![queue(9, 0..9)], control()).unwrap();
        drop(writer);
        assert_eq!(indexes(folder.path()).len(), 9);
    }
}
