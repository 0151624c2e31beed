//! What a machine's client can do, kept from one run for the next: the machine profile.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ridgeline_report::console::text::utc;
use ridgeline_report::{Environment, Program, ReportError};
use serde::{Deserialize, Serialize};

use crate::document::{read_document, write_document};
use crate::{DocumentError, Headline, Roofline};

/// Name and version of the format of a profile.
const SCHEMA: &str = "ridgeline.profile/1";

/// A profile older than this is named as old: kernels are updated in place, neighbours change.
const OLD_NS: u64 = 30 * 86_400 * 1_000_000_000;

/// How many files of the folder are looked at.
const FILES_MAX: usize = 1_000;

/// The most that one core of a machine was seen to do as a client, and where that is from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Profile {
    schema: String,
    /// The program that was measured.
    pub ridgeline: Program,
    /// Whether it was built with all optimisation.
    pub optimised: bool,
    /// The machine's name.
    pub host: String,
    /// The machine.
    pub environment: Environment,
    /// When it was measured last: wall-clock ns since 1970.
    pub measured_unix_ns: u64,
    /// Whether any of it is from a quick run.
    pub quick: bool,
    /// The ceilings.
    pub ceilings: Headline,
}

impl Profile {
    /// Of a roofline; none when it measured nothing that a profile keeps.
    #[must_use]
    pub fn of(roofline: &Roofline) -> Option<Self> {
        (!roofline.headline.is_empty()).then(|| Self {
            schema: SCHEMA.to_owned(),
            ridgeline: roofline.ridgeline.clone(),
            optimised: roofline.optimised,
            host: roofline.host.clone(),
            environment: roofline.environment.clone(),
            measured_unix_ns: roofline.started_unix_ns,
            quick: roofline.quick,
            ceilings: roofline.headline.clone(),
        })
    }

    /// Saves it under its machine and revision. What a run of some sections did not measure stays from
    /// an earlier profile of the same machine, kernel and revision.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let path = folder.join(self.file_name());
        fs::create_dir_all(folder).map_err(|source| ReportError::Write {
            path: folder.to_owned(),
            source,
        })?;
        let whole = match Self::read(&path) {
            Ok(earlier) if earlier.environment.kernel == self.environment.kernel => {
                self.over(&earlier)
            }
            _ => self.clone(),
        };
        write_document(&path, &whole)?;
        Ok(path)
    }

    /// With what it lacks taken from `earlier`.
    fn over(&self, earlier: &Self) -> Self {
        let (new, old) = (self.ceilings.clone(), earlier.ceilings.clone());
        let ceilings = Headline {
            requests: new.requests.or(old.requests),
            coalesced: new.coalesced.or(old.coalesced),
            paced: new.paced.or(old.paced),
            streams: new.streams.or(old.streams),
            stream_bytes: new.stream_bytes.or(old.stream_bytes),
            timely: new.timely.or(old.timely),
        };
        Self {
            quick: self.quick || (earlier.quick && ceilings != self.ceilings),
            ceilings,
            ..self.clone()
        }
    }

    /// `HOST-REVISION.json`; a debug build has a file of its own.
    fn file_name(&self) -> String {
        let revision = self.ridgeline.revision.as_deref();
        let build = if self.optimised { "" } else { "-debug" };
        format!(
            "{}{}{build}.json",
            prefix(&self.host),
            plain(revision.unwrap_or(&self.ridgeline.version))
        )
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// When there is none at `path`, or it is of another version.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        read_document(path, SCHEMA)
    }

    /// The profile of `host` for `program`; else the newest that an equally optimised program of another
    /// revision left. Files that can't be read are passed over: they are as good as none.
    #[must_use]
    pub fn find(folder: &Path, host: &str, program: &Program, optimised: bool) -> Option<Self> {
        let start = prefix(host);
        let files = fs::read_dir(folder).ok()?.take(FILES_MAX).flatten();
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with(&start))
            .filter_map(|file| Self::read(&file.path()).ok())
            .filter(|profile| profile.host == host && profile.optimised == optimised)
            .max_by_key(|profile| (profile.ridgeline == *program, profile.measured_unix_ns))
    }

    /// How it was measured (`on Linux 6.1`), as far as that makes it another machine's or another
    /// program's than `program` on a kernel of release `kernel` at `now_unix_ns`.
    #[must_use]
    pub fn reservations(
        &self,
        program: &Program,
        kernel: Option<&str>,
        now_unix_ns: u64,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let name = |program: &Program| {
            let revision = program.revision.as_deref();
            revision.unwrap_or(&program.version).to_owned()
        };
        if self.ridgeline != *program {
            found.push(format!("at revision {}", name(&self.ridgeline)));
        }
        let own = self.environment.kernel.as_deref();
        if own != kernel {
            found.push(format!("on Linux {}", own.unwrap_or("unknown")));
        }
        if now_unix_ns.saturating_sub(self.measured_unix_ns) > OLD_NS {
            let date = utc(self.measured_unix_ns);
            let date = date.split(' ').next().unwrap_or_default();
            found.push(format!("on {date}"));
        }
        if self.quick {
            found.push("by a quick run".to_owned());
        }
        found
    }
}

/// Where profiles are kept: `RIDGELINE_PROFILES`, or `ridgeline/profiles` under `XDG_CACHE_HOME` or
/// `~/.cache`. `variable` looks up the environment; none when it names no place.
#[must_use]
pub fn profiles(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("RIDGELINE_PROFILES") {
        return Some(folder.into());
    }
    // A relative one is to be ignored, by the specification of the variable.
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|folder| folder.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
    Some(cache.join("ridgeline").join("profiles"))
}

/// The name of this machine.
#[must_use]
pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown" } else { name }.to_owned()
}

fn prefix(host: &str) -> String {
    format!("{}-", plain(host))
}

/// What of it can stand in the name of a file.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let kept: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(80)
        .collect();
    kept.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn profile() -> Profile {
        Profile::of(&samples::roofline()).unwrap()
    }

    fn program(revision: &str) -> Program {
        Program {
            version: "0.1.0".to_owned(),
            revision: Some(revision.to_owned()),
        }
    }

    #[test]
    fn it_is_kept_by_host_and_revision_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/on/demand");
        let own = profile();
        assert_eq!(
            Profile::find(&folder, "testhost", &own.ridgeline, true),
            None
        );
        let path = own.save(&folder).unwrap();
        assert_eq!(path.file_name().unwrap(), "testhost-0123456789ab.json");
        let newer = Profile {
            ridgeline: program("ffff"),
            measured_unix_ns: own.measured_unix_ns + 1,
            ..own.clone()
        };
        newer.save(&folder).unwrap();
        let debug = Profile {
            optimised: false,
            measured_unix_ns: own.measured_unix_ns + 2,
            ..own.clone()
        };
        debug.save(&folder).unwrap();
        fs::write(folder.join("testhost-broken.json"), "{").unwrap();
        let find = |host, revision| Profile::find(&folder, host, &program(revision), true);
        assert_eq!(find("testhost", "0123456789ab"), Some(own));
        // None of that revision: the newest.
        assert_eq!(find("testhost", "cccc"), Some(newer));
        assert_eq!(find("test", "0123456789ab"), None);
    }

    #[test]
    fn a_run_of_some_sections_keeps_the_figures_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let whole = profile();
        whole.save(folder.path()).unwrap();
        let mut part = profile();
        part.ceilings = Headline {
            requests: whole.ceilings.paced.clone(),
            ..Headline::default()
        };
        part.quick = true;
        let path = part.save(folder.path()).unwrap();
        let kept = Profile::read(&path).unwrap();
        assert_eq!(kept.ceilings.requests, whole.ceilings.paced);
        assert_eq!(kept.ceilings.coalesced, whole.ceilings.coalesced);
        assert!(kept.quick);
        // Another kernel is another machine.
        part.environment.kernel = Some("7.0".to_owned());
        let path = part.save(folder.path()).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), part);
    }

    #[test]
    fn what_it_is_not_of_is_named() {
        let own = profile();
        let at = own.measured_unix_ns;
        let said = |program: &Program, kernel, now| own.reservations(program, kernel, now);
        assert!(said(&own.ridgeline, Some("6.18.44"), at).is_empty());
        assert_eq!(
            said(&program("ffff"), Some("7.0"), at + OLD_NS + 1),
            [
                "at revision 0123456789ab",
                "on Linux 6.18.44",
                "on 2026-11-30"
            ]
        );
        let quick = Profile {
            quick: true,
            ..own.clone()
        };
        assert_eq!(
            quick.reservations(&own.ridgeline, Some("6.18.44"), at),
            ["by a quick run"]
        );
    }

    #[test]
    fn the_environment_says_where_profiles_are() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            profiles(move |name| {
                let found = set.iter().find(|(set, _)| set == name);
                found.map(|(_, value)| value.into())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(with(&[]), None);
        assert_eq!(
            with(&[("HOME", "/h")]),
            path("/h/.cache/ridgeline/profiles")
        );
        let cache = [("HOME", "/h"), ("XDG_CACHE_HOME", "/c")];
        assert_eq!(with(&cache), path("/c/ridgeline/profiles"));
        let relative = [("HOME", "/h"), ("XDG_CACHE_HOME", "c")];
        assert_eq!(with(&relative), path("/h/.cache/ridgeline/profiles"));
        let own = [("HOME", "/h"), ("RIDGELINE_PROFILES", "/p")];
        assert_eq!(with(&own), path("/p"));
    }

    #[test]
    fn names_of_hosts_become_names_of_files() {
        assert_eq!(plain("../a b-c"), "_a_b_c");
        assert!(!host().is_empty());
    }
}
