//! Where results go.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ridgeline_clock::{Clock, MonotonicClock, Nanos, realtime_bracket};
use ridgeline_report::console::text;

use crate::complaint::Complaint;

/// The files of a run's result. Those of an earlier run in the same folder are removed, so that no file
/// is taken for a part of another run.
pub(crate) const RUN: &[&str] = &[
    "report.json",
    "truth.json",
    "records.jsonl",
    "records.jsonl.tmp",
    "records.spool",
    "config.yaml",
];

/// A folder that this run alone writes to, until it is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Holds the lock. None where the file system has no locks.
    _taken: Option<File>,
}

/// Makes the folder for the results: the one asked for, else a new one named by time and `name`. Of
/// `files`, which the result consists of, none is there but the last, and that is empty.
pub(crate) fn make(asked: Option<&Path>, name: &str, files: &[&str]) -> Result<Folder, Complaint> {
    let cannot = |what: &str, folder: &Path, error: io::Error| {
        Complaint::new(format!(
            "cannot {what} {}: {error}; choose another folder with --output-dir",
            folder.display()
        ))
    };
    let folder = match asked {
        Some(folder) => {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| cannot("make the folder", folder, error))?;
            folder.to_owned()
        }
        None => {
            let base = Path::new("results");
            new(base, name).map_err(|error| cannot("make a folder in", base, error))?
        }
    };
    let cannot = |what, error| cannot(what, &folder, error);
    let taken = take(&folder)?;
    for file in files {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("replace the results in", error));
            }
            _ => {}
        }
    }
    // A run whose result can't be kept is not begun.
    if let Some(last) = files.last() {
        fs::write(folder.join(last), "").map_err(|error| cannot("write into", error))?;
    }
    Ok(Folder {
        path: folder,
        _taken: taken,
    })
}

/// Takes the folder for this process: two runs at once would mix their files.
fn take(folder: &Path) -> Result<Option<File>, Complaint> {
    let Ok(opened) = File::open(folder) else {
        return Ok(None);
    };
    match opened.try_lock() {
        Ok(()) => Ok(Some(opened)),
        Err(TryLockError::WouldBlock) => Err(Complaint::new(format!(
            "another run is writing its results to {}: wait for its end, or choose another folder \
             with --output-dir",
            folder.display()
        ))),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// `results/20260730-074206-model`, with a number when there is one already.
fn new(base: &Path, model: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(base)?;
    let name = format!("{}-{}", stamp(wall_clock()), plain(model));
    let mut folder = base.join(&name);
    let mut number = 2_u32;
    loop {
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                folder = base.join(format!("{name}-{number}"));
                number += 1;
            }
            made => return made.map(|()| folder),
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn wall_clock() -> Nanos {
    MonotonicClock.now() + realtime_bracket().offset
}

/// What of a model's name can stand in the name of a folder.
fn plain(model: &str) -> String {
    let last = model
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or("model");
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = last
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(60)
        .collect();
    name.trim_start_matches('.').to_owned()
}

/// `20260730-074206`: UTC.
fn stamp(wall: Nanos) -> String {
    text::utc(wall.0).replace(['-', ':'], "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        assert_eq!(stamp(Nanos::from_secs(1_785_397_326)), "20260730-074206");
    }

    #[test]
    fn models_become_names_of_folders() {
        for (model, name) in [
            ("mock", "mock"),
            ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
            ("a b:c", "a_b_c"),
            ("../..", ""),
            ("/", "model"),
        ] {
            assert_eq!(plain(model), name, "{model}");
        }
    }

    #[test]
    fn earlier_results_are_replaced_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("report.json"), "old").unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        make(Some(folder.path()), "m", RUN).unwrap();
        assert!(!folder.path().join("report.json").exists());
        assert!(folder.path().join("notes.txt").exists());
        let error = make(Some(&folder.path().join("notes.txt")), "m", RUN)
            .unwrap_err()
            .to_string();
        assert!(error.contains("--output-dir"), "{error}");
    }

    #[test]
    fn a_folder_has_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = make(Some(folder.path()), "m", RUN).unwrap();
        fs::write(folder.path().join("records.jsonl"), "being written").unwrap();
        let error = make(Some(folder.path()), "m", RUN).unwrap_err().to_string();
        assert!(error.contains("another run is writing"), "{error}");
        assert!(folder.path().join("records.jsonl").exists());
        drop(first);
        make(Some(folder.path()), "m", RUN).unwrap();
    }

    #[test]
    fn runs_that_start_together_have_folders_of_their_own() {
        let base = tempfile::tempdir().unwrap();
        let folders: std::collections::BTreeSet<PathBuf> =
            (0..9).map(|_| new(base.path(), "m").unwrap()).collect();
        assert_eq!(folders.len(), 9);
    }
}
