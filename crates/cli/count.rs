//! The count of output tokens after a run whose server did not count them.

use std::path::Path;

use ridgeline_engine::{Control, RunResult};
use ridgeline_report::records::{self, Written};
use ridgeline_workload::Tokenizer;

use crate::setup::Setup;
use crate::terminal;

/// Counts from the records what waits for it, into them and into the numbers of the run. What kept it
/// from that, if anything did: everything goes by content events then.
pub(crate) fn count(
    setup: &Setup,
    run: &mut RunResult,
    written: Option<&Written>,
    control: &Control,
    folder: &Path,
) -> Option<String> {
    let tokenizer = setup
        .tokenizer
        .as_ref()
        .filter(|_| setup.plan.count_later)?;
    let waiting = written.map_or(0, |written| written.uncounted);
    let successes = run.collector.uncounted();
    if waiting == 0 && successes == 0 {
        return None;
    }
    if setup.config.quiet != Some(true) {
        let plural = if waiting == 1 { "" } else { "s" };
        terminal::note(&format!("counting the tokens of {waiting} answer{plural}"));
    }
    match pass(tokenizer, run, control, folder) {
        Ok(note) => note,
        Err(error) => Some(format!(
            "the tokenizer did not count the answers: {error}; they go by their events"
        )),
    }
}

fn pass(
    tokenizer: &Tokenizer,
    run: &mut RunResult,
    control: &Control,
    folder: &Path,
) -> Result<Option<String>, records::RecordsError> {
    let interrupted = run.interrupted;
    let give_up = || control.is_cancelled() || (control.is_stopped() && !interrupted);
    let mut tokens = |text: &str| tokenizer.count(text).map_err(|error| error.to_string());
    let mut recount = run.collector.recount();
    let counted = records::count(folder, &mut recount, &mut tokens, &give_up)?;
    let successes = run.collector.uncounted();
    let missing = successes.saturating_sub(recount.requests());
    if !run.collector.counted(&recount) {
        return Ok(Some(format!(
            "{missing} of {successes} answers are not among the records, so all of them go by their \
             events here; the records that there are have been counted"
        )));
    }
    Ok(counted.refusal.map(|why| {
        format!(
            "the tokenizer refused {} answers, which go by their events: {why}",
            counted.refused
        )
    }))
}
