//! Where results go.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ridgeline_clock::{Clock, MonotonicClock, Nanos, realtime_bracket};

use crate::complaint::Complaint;

/// The files of a result. Those of an earlier run in the same folder are removed, so that no file
/// is taken for a part of another run.
const FILES: [&str; 6] = [
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

/// Makes the folder for the results: the one asked for, else a new one named by time and model.
pub(crate) fn make(asked: Option<&Path>, model: &str) -> Result<Folder, Complaint> {
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
            new(base, model).map_err(|error| cannot("make a folder in", base, error))?
        }
    };
    let cannot = |what, error| cannot(what, &folder, error);
    let taken = take(&folder)?;
    for file in FILES {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("replace the results in", error));
            }
            _ => {}
        }
    }
    let config = folder.join("config.yaml");
    fs::write(&config, "").map_err(|error| cannot("write into", error))?;
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

/// `20260730-074206`: UTC. Howard Hinnant's `civil_from_days`, for days since 1970.
fn stamp(wall: Nanos) -> String {
    let seconds = wall.0 / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        for (seconds, text) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_785_397_326, "20260730-074206"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(stamp(Nanos::from_secs(seconds)), text);
        }
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
        make(Some(folder.path()), "m").unwrap();
        assert!(!folder.path().join("report.json").exists());
        assert!(folder.path().join("notes.txt").exists());
        let error = make(Some(&folder.path().join("notes.txt")), "m")
            .unwrap_err()
            .to_string();
        assert!(error.contains("--output-dir"), "{error}");
    }

    #[test]
    fn a_folder_has_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = make(Some(folder.path()), "m").unwrap();
        fs::write(folder.path().join("records.jsonl"), "being written").unwrap();
        let error = make(Some(folder.path()), "m").unwrap_err().to_string();
        assert!(error.contains("another run is writing"), "{error}");
        assert!(folder.path().join("records.jsonl").exists());
        drop(first);
        make(Some(folder.path()), "m").unwrap();
    }

    #[test]
    fn runs_that_start_together_have_folders_of_their_own() {
        let base = tempfile::tempdir().unwrap();
        let folders: std::collections::BTreeSet<PathBuf> =
            (0..9).map(|_| new(base.path(), "m").unwrap()).collect();
        assert_eq!(folders.len(), 9);
    }
}
