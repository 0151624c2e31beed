//! `ridgeline compare`: result folders side by side.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use ridgeline_report::compare::{Comparison, Side, render};

use crate::complaint::Complaint;
use crate::share::Share;
use crate::terminal;

/// The exit code when something became worse.
const REGRESSION: u8 = 5;

/// The flags of `ridgeline compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The result folder to compare with; several runs of the same: A1,A2,A3
    base: Folders,
    /// The result folders to compare, each by itself; several runs of the same: B1,B2,B3
    #[arg(required = true)]
    new: Vec<Folders>,
    /// The relative change below which nothing is called a regression
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    threshold: Share,
    /// Also write the comparison as JSON, one document a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Folders with commas between them.
#[derive(Clone, Debug)]
struct Folders {
    first: PathBuf,
    more: Vec<PathBuf>,
}

impl FromStr for Folders {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut folders = text.split(',').map(PathBuf::from);
        let first = folders.next().unwrap_or_default();
        let more: Vec<PathBuf> = folders.collect();
        if first.as_os_str().is_empty() || more.iter().any(|folder| folder.as_os_str().is_empty()) {
            return Err("a folder between two commas is missing");
        }
        Ok(Self { first, more })
    }
}

impl Folders {
    fn read(&self) -> Result<Side, Complaint> {
        Ok(Side::read(&self.first, &self.more)?)
    }
}

/// Prints what changed. Ends with 5 when something became worse.
pub(crate) fn command(args: &CompareArgs) -> Result<u8, Complaint> {
    let base = args.base.read()?;
    let mut regressed = false;
    let mut json = Vec::new();
    for (place, new) in args.new.iter().enumerate() {
        let comparison = Comparison::of(&base, &new.read()?, args.threshold.0);
        regressed |= comparison.is_regression();
        let gap = if place == 0 { "" } else { "\n" };
        terminal::print(&format!("{gap}{}", render(&comparison)))?;
        serde_json::to_writer(&mut json, &comparison)?;
        json.push(b'\n');
    }
    if let Some(path) = &args.json {
        fs::write(path, json)
            .map_err(|error| Complaint::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(if regressed { REGRESSION } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read() {
        let folders: Folders = "a,b".parse().unwrap();
        assert_eq!(
            (folders.first, folders.more),
            ("a".into(), vec!["b".into()])
        );
        for wrong in ["", "a,", ",a", "a,,b"] {
            assert!(wrong.parse::<Folders>().is_err(), "{wrong}");
        }
    }
}
