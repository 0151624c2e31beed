//! Criterion's programs: running one, and reading what it leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ridgeline_clock::Nanos;
use ridgeline_perf::child;
use serde::Deserialize;

use super::plant;
use super::statistics::quantile;
use super::subject::{Arm, Readings, Subject};

/// How long a benchmark is measured in one run: many turns of the scheduler, and little of a person's
/// patience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) warm_up: Nanos,
    pub(crate) measurement: Nanos,
}

/// Samples of a run: criterion's least number.
const SAMPLES: &str = "10";
/// Resamples of criterion's own statistics, which nothing here reads.
const CRITERION_RESAMPLES: &str = "1000";
/// The longest a program may take, whatever it measures.
const LIMIT: Nanos = Nanos::from_secs(600);

/// A bench program, as each arm has it.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) name: String,
    /// The program of the base, the head and the base's second run.
    pub(crate) programs: [PathBuf; 3],
    /// The benchmarks that are run; all of the program's where there are none.
    pub(crate) chosen: BTreeSet<String>,
    pub(crate) pace: Pace,
    /// How large the slowdown is that the head's program has planted.
    pub(crate) plant_percent: Option<u32>,
    pub(crate) core: usize,
}

impl Subject for Bench {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, arm: Arm, only: &BTreeSet<String>) -> io::Result<Readings> {
        let home = tempfile::Builder::new()
            .prefix("criterion-")
            .rand_bytes(8)
            .tempdir()?;
        let mut command = Command::new(&self.programs[arm as usize]);
        command
            .args(["--bench", "--noplot", "--sample-size", SAMPLES])
            .args(["--nresamples", CRITERION_RESAMPLES])
            .args(["--warm-up-time", &seconds(self.pace.warm_up)])
            .args(["--measurement-time", &seconds(self.pace.measurement)])
            .env("CRITERION_HOME", home.path());
        if let (Arm::Head, Some(percent)) = (arm, self.plant_percent) {
            command.env(plant::PERCENT, percent.to_string());
        }
        let only = if only.is_empty() { &self.chosen } else { only };
        if !only.is_empty() {
            command.arg(filter(only));
        }
        child::run(&mut command, self.core, LIMIT)?.expect_success(&self.name, None)?;
        read(home.path())
    }
}

fn seconds(span: Nanos) -> String {
    span.as_secs_f64().to_string()
}

/// A regular expression for exactly these names.
fn filter(names: &BTreeSet<String>) -> String {
    let escape = |name: &String| {
        let mut escaped = String::new();
        for character in name.chars() {
            if !character.is_alphanumeric() && !"/_-".contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        escaped
    };
    let names: Vec<String> = names.iter().map(escape).collect();
    format!("^({})$", names.join("|"))
}

/// `benchmark.json`, as far as it matters.
#[derive(Deserialize)]
struct Identity {
    full_id: String,
}

/// `sample.json`: the time of some iterations each, in the unit of the benchmark's measurement.
#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

/// Every benchmark's time of one iteration below a folder that criterion wrote.
pub(crate) fn read(home: &Path) -> io::Result<Readings> {
    let mut readings = Readings::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            if path.file_name().is_some_and(|name| name == "new") {
                let identity: Identity = json(&path.join("benchmark.json"))?;
                let sample: Sample = json(&path.join("sample.json"))?;
                readings.insert(identity.full_id, sample.ns());
            } else {
                folders.push(path);
            }
        }
    }
    Ok(readings)
}

impl Sample {
    /// The median of the times of an iteration.
    fn ns(&self) -> f64 {
        let each = self.times.iter().zip(&self.iters);
        quantile(each.map(|(time, iters)| time / iters).collect(), 0.5)
    }
}

fn json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<T> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    serde_json::from_str(&text)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(home: &Path, place: &str, id: &str, sample: &str) {
        let folder = home.join(place);
        fs::create_dir_all(&folder).unwrap();
        let identity = format!(
            r#"{{"group_id":"scanner","function_id":"text","value_str":null,"throughput":{{"Bytes":65536}},"full_id":"{id}","directory_name":"scanner/text","title":"{id}"}}"#
        );
        fs::write(folder.join("benchmark.json"), identity).unwrap();
        fs::write(folder.join("sample.json"), sample).unwrap();
        fs::write(folder.join("estimates.json"), "{}").unwrap();
    }

    #[test]
    fn samples_are_read_by_their_full_names() {
        let home = tempfile::tempdir().unwrap();
        let linear = r#"{"sampling_mode":"Linear","iters":[1.0,2.0,3.0,4.0,5.0],"times":[10.0,22.0,36.0,52.0,100.0]}"#;
        write(home.path(), "scanner/text/new", "scanner/text", linear);
        let flat = r#"{"sampling_mode":"Flat","iters":[2.0,2.0],"times":[8.0,8.0]}"#;
        write(
            home.path(),
            "engine/request/64/new",
            "engine/request/64",
            flat,
        );
        fs::create_dir_all(home.path().join("scanner/report")).unwrap();
        let readings = read(home.path()).unwrap();
        let want = [("engine/request/64", 4.0), ("scanner/text", 12.0)];
        assert_eq!(
            readings,
            want.map(|(name, ns)| (name.to_owned(), ns)).into()
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "a/new", "a", r#"{"iters":[1.0]}"#);
        let error = read(home.path()).unwrap_err();
        assert!(error.to_string().contains("sample.json"), "{error}");
        fs::remove_file(home.path().join("a/new/sample.json")).unwrap();
        assert!(read(home.path()).is_err());
    }

    #[test]
    fn a_filter_means_its_names_and_no_others() {
        let names = ["scanner/text", "http1/1.5 KiB (split)"];
        let names = names.map(str::to_owned).into();
        assert_eq!(
            filter(&names),
            r"^(http1/1\.5\ KiB\ \(split\)|scanner/text)$"
        );
    }
}
