use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::TruthError;
use crate::records::JSONL;

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
    let read = |source| TruthError::Read {
        path: path.clone(),
        source,
    };
    let nothing = || TruthError::NoRecords {
        path: folder.to_owned(),
    };
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(nothing()),
        opened => opened.map_err(read)?,
    };
    let mut input = BufReader::with_capacity(256 << 10, file);
    let (mut bytes, mut number) = (Vec::new(), 0);
    let mut records = HashMap::new();
    loop {
        bytes.clear();
        if input.read_until(b'\n', &mut bytes).map_err(read)? == 0 {
            break;
        }
        number += 1;
        let wrong = |problem: String| TruthError::Line {
            path: path.clone(),
            line: number,
            problem,
        };
        let line: Line<'_> = match serde_json::from_slice(&bytes) {
            Ok(line) => line,
            Err(_) if !bytes.ends_with(b"\n") => break,
            Err(error) => return Err(wrong(error.to_string())),
        };
        let name = line.request_id.clone().into_owned();
        if records.insert(name, Record::of(line)).is_some() {
            return Err(wrong("its request_id has a record already".to_owned()));
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
