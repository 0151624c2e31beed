use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::TruthError;
use crate::records::{JSONL, LineError, Lines};

/// What the join needs of a record. Times are ns after the run's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// `ok`, `cancelled`, or the kind of the error.
    pub(super) outcome: String,
    pub(super) measured: bool,
    pub(super) retries: u32,
    pub(super) submitted_ns: Option<u64>,
    pub(super) first_token_ns: Option<u64>,
    pub(super) last_token_ns: Option<u64>,
    pub(super) done_ns: Option<u64>,
    pub(super) content_events: u64,
    pub(super) event_ns: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    request_id: Cow<'a, str>,
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    error: Option<ErrorMember>,
    retries: u32,
    submitted_ns: Option<u64>,
    first_token_ns: Option<u64>,
    last_token_ns: Option<u64>,
    done_ns: Option<u64>,
    content_events: u64,
    event_ns: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct ErrorMember {
    kind: String,
}

/// The records of a folder, by the name of their request. A last line that is cut is none.
pub(super) fn read(folder: &Path) -> Result<HashMap<String, Record>, TruthError> {
    let path = folder.join(JSONL);
    let unread = |source| TruthError::Read {
        path: path.clone(),
        source,
    };
    let wrong = |line, problem| TruthError::Line {
        path: path.clone(),
        line,
        problem,
    };
    let nothing = || TruthError::NoRecords {
        path: folder.to_owned(),
    };
    let mut lines = Lines::open(folder).map_err(unread)?.ok_or_else(nothing)?;
    let mut records = HashMap::new();
    loop {
        let named = match lines.next::<Line<'_>>() {
            Ok(None) => break,
            Ok(Some(line)) => (line.request_id.clone().into_owned(), Record::of(line)),
            Err(LineError::Read(source)) => return Err(unread(source)),
            Err(LineError::Form { number, error }) => return Err(wrong(number, error.to_string())),
        };
        if records.insert(named.0, named.1).is_some() {
            let problem = "its request_id has a record already".to_owned();
            return Err(wrong(lines.number(), problem));
        }
    }
    if records.is_empty() {
        return Err(nothing());
    }
    Ok(records)
}

impl Record {
    fn of(line: Line<'_>) -> Self {
        Self {
            outcome: match line.error {
                Some(error) => error.kind,
                None => line.outcome.into_owned(),
            },
            measured: line.phase == "measured",
            retries: line.retries,
            submitted_ns: line.submitted_ns,
            first_token_ns: line.first_token_ns,
            last_token_ns: line.last_token_ns,
            done_ns: line.done_ns,
            content_events: line.content_events,
            event_ns: line.event_ns,
        }
    }
}
