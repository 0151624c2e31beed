//! `ridgeline report`: what a result folder says.

use std::path::{Path, PathBuf};

use clap::Args;
use ridgeline_report::{REPORT, Report, console, read_json, records, truth};

use crate::complaint::Complaint;
use crate::{search, terminal};

/// The flags of `ridgeline report`.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The folder
    folder: PathBuf,
    /// Compare with what the server did: the file that `ridgeline mock-server --truth FILE` wrote
    /// during the run
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
}

/// Saves the records of a run that was killed, and prints the report if there is one, or what a series
/// came to. With a truth file prints how well the client measured instead.
pub(crate) fn command(args: &ReportArgs) -> Result<u8, Complaint> {
    let folder = args.folder.as_path();
    recover(folder)?;
    let (width, colour) = (terminal::width(), terminal::has_colour());
    if let Some(file) = &args.truth {
        let joined = truth::join(folder, present(folder)?.as_ref(), file)?;
        // What was found is shown even if it can't be kept.
        terminal::print(&console::truth(&joined, width, colour))?;
        truth::write(&joined, folder)?;
    } else if let Some(series) = series(folder)? {
        terminal::print(&series.shown(colour))?;
    } else {
        terminal::print(&console::render(&needed(folder)?, width, colour))?;
    }
    Ok(0)
}

/// Makes the records whole.
fn recover(folder: &Path) -> Result<(), Complaint> {
    if !folder.is_dir() {
        return Err(Complaint::new(format!(
            "{} is not a folder; name one that `ridgeline bench` wrote",
            folder.display()
        )));
    }
    let recovered = records::recover(folder)?;
    if recovered.converted > 0 {
        terminal::note(&format!(
            "records.jsonl: {} records added",
            recovered.converted
        ));
    }
    if recovered.cut > 0 {
        terminal::note(&format!(
            "unfinished records at the end of a file, cut off: {}",
            recovered.cut
        ));
    }
    Ok(())
}

/// The report of the folder, if it has one: a run that was killed has none.
fn present(folder: &Path) -> Result<Option<Report>, Complaint> {
    if !folder.join(REPORT).exists() {
        return Ok(None);
    }
    Ok(Some(read_json(folder)?))
}

/// The series in the folder, if that is what it holds.
fn series(folder: &Path) -> Result<Option<search::Kept>, Complaint> {
    if folder.join(REPORT).exists() {
        return Ok(None);
    }
    search::Kept::read(folder)
}

fn needed(folder: &Path) -> Result<Report, Complaint> {
    present(folder)?.ok_or_else(|| {
        let jsonl = folder.join(records::JSONL);
        let why = if jsonl.exists() {
            format!(
                "the run was killed before its end; its records are in {}",
                jsonl.display()
            )
        } else {
            "is it a folder that `ridgeline bench` wrote?".to_owned()
        };
        Complaint::new(format!("{} has no {REPORT}: {why}", folder.display()))
    })
}
