//! `ridgeline report`: what a result folder says.

use std::path::Path;

use ridgeline_report::{REPORT, console, read_json, records};

use crate::complaint::Complaint;
use crate::terminal;

/// Saves the records of a run that was killed, and prints the report if there is one.
pub(crate) fn command(folder: &Path) -> Result<u8, Complaint> {
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
    if !folder.join(REPORT).exists() {
        let jsonl = folder.join(records::JSONL);
        let why = if jsonl.exists() {
            format!(
                "the run was killed before its end; its records are in {}",
                jsonl.display()
            )
        } else {
            "is it a folder that `ridgeline bench` wrote?".to_owned()
        };
        return Err(Complaint::new(format!(
            "{} has no {REPORT}: {why}",
            folder.display()
        )));
    }
    let mut report = read_json(folder)?;
    report.folder = Some(folder.to_owned());
    terminal::print(&console::render(
        &report,
        terminal::width(),
        terminal::has_colour(),
    ))?;
    Ok(0)
}
