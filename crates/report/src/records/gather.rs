use std::collections::BTreeMap;
use std::path::Path;

use ridgeline_wire::exchange::ErrorKind;

use super::writer::{BUFFER_BYTES, Output};
use super::{JSONL, RecordsError, Written};

/// What a worker says of the records in its own folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// What the worker is called.
    pub worker: String,
    /// See [`Written::records`].
    pub records: u64,
    /// See [`Written::spooled`].
    pub spooled: u64,
    /// See [`Written::unconverted`].
    pub unconverted: u64,
    /// See [`Written::lost`].
    pub lost: u64,
    /// See [`Written::uncounted`].
    pub uncounted: u64,
    /// What went wrong, if anything.
    pub error: Option<String>,
    /// The first message of each kind of error; of kinds that this version does not know, nothing is kept.
    pub error_examples: BTreeMap<String, String>,
}

impl Written {
    /// Adds what a worker says of its records, wherever they are.
    pub fn add(&mut self, other: &Elsewhere) {
        self.records += other.records;
        self.spooled += other.spooled;
        self.unconverted += other.unconverted;
        self.lost += other.lost;
        self.uncounted += other.uncounted;
        if let Some(why) = &other.error {
            self.fail(&other.worker, why);
        }
        for (kind, message) in &other.error_examples {
            if let Ok(kind) = kind.parse::<ErrorKind>() {
                self.error_examples
                    .entry(kind)
                    .or_insert_with(|| message.clone());
            }
        }
    }

    fn fail(&mut self, worker: &str, why: &str) {
        self.error.get_or_insert_with(|| RecordsError::Worker {
            worker: worker.to_owned(),
            why: why.to_owned(),
        });
    }
}

/// The one `records.jsonl` of several workers, made of the lines that they send, one worker's after the
/// other's. It consists of whole lines at any time.
#[derive(Debug)]
pub struct Gathering {
    lines: Output,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    /// Lines of the worker whose turn it is, and how many of those are in the file or on the way.
    here: u64,
    written: Written,
}

impl Gathering {
    /// Makes the file in `folder`; what is there is gone then.
    ///
    /// # Errors
    /// When it can't be made, or another run writes it.
    pub fn start(folder: &Path) -> Result<Self, RecordsError> {
        Ok(Self {
            lines: Output::create(folder.join(JSONL))?,
            rest: Vec::new(),
            here: 0,
            written: Written::default(),
        })
    }

    /// The next bytes of the worker whose turn it is.
    pub fn append(&mut self, bytes: &[u8]) {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n');
        let (lines, rest) = bytes.split_at(whole.map_or(0, |end| end + 1));
        if !lines.is_empty() {
            self.lines.buffer.append(&mut self.rest);
            self.lines.buffer.extend_from_slice(lines);
            let count = lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
            self.lines.pending += count;
            self.here += count;
        }
        self.rest.extend_from_slice(rest);
        if self.lines.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// No more comes of the worker that says `told` of its records; `missing`: why that is not all.
    pub fn end_worker(&mut self, told: &Elsewhere, missing: Option<&str>) {
        // A line that was cut is none.
        self.rest.clear();
        self.flush();
        let here = std::mem::take(&mut self.here);
        self.written.add(&Elsewhere {
            // Those that are here were counted when they were written.
            records: 0,
            lost: told.lost + told.records.saturating_sub(here),
            ..told.clone()
        });
        if let Some(why) = missing {
            self.written.fail(&told.worker, why);
        }
    }

    /// What was written, when all workers have had their turn.
    #[must_use]
    pub fn finish(mut self) -> Written {
        self.flush();
        self.written
    }

    fn flush(&mut self) {
        let pending = self.lines.pending;
        match self.lines.flush() {
            Ok(()) => self.written.records += pending,
            Err(error) => {
                self.written.lost += pending;
                self.written.error.get_or_insert(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn told(worker: &str, records: u64) -> Elsewhere {
        Elsewhere {
            worker: worker.to_owned(),
            records,
            uncounted: 1,
            error_examples: BTreeMap::from([
                ("timeout".to_owned(), format!("by {worker}")),
                ("unheard-of".to_owned(), "m".to_owned()),
            ]),
            ..Elsewhere::default()
        }
    }

    #[test]
    fn lines_of_several_workers_become_one_file_however_they_are_cut() {
        let text = b"{\"a\":1}\n{}\n{\"b\":2}\n";
        for size in 1..=text.len() {
            let folder = tempfile::tempdir().unwrap();
            let mut gathering = Gathering::start(folder.path()).unwrap();
            text.chunks(size).for_each(|part| gathering.append(part));
            gathering.end_worker(&told("a", 3), None);
            gathering.append(b"{}\n{\"cu");
            gathering.end_worker(&told("b", 4), Some("the link was cut"));
            let written = gathering.finish();
            assert_eq!(
                (written.records, written.lost, written.uncounted),
                (4, 3, 2)
            );
            assert_eq!(written.error_examples[&ErrorKind::Timeout], "by a");
            assert_eq!(written.error_examples.len(), 1);
            let error = written.error.unwrap().to_string();
            assert_eq!(
                error,
                "the records of worker b are not whole: the link was cut"
            );
            let found = fs::read(folder.path().join(JSONL)).unwrap();
            assert_eq!(found, [text, &b"{}\n"[..]].concat());
        }
    }

    #[test]
    fn a_full_disk_is_told_and_what_was_lost_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/dev/full", folder.path().join(JSONL)).unwrap();
        let mut gathering = Gathering::start(folder.path()).unwrap();
        gathering.append(b"{}\n{}\n");
        gathering.end_worker(&told("a", 2), None);
        let written = gathering.finish();
        assert_eq!((written.records, written.lost), (0, 2));
        assert!(
            written
                .error
                .unwrap()
                .to_string()
                .starts_with("cannot write")
        );
    }
}
