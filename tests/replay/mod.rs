//! The black-box cases in `tests/cases`: scripts of what a server sends, and what the record of
//! each request must then say.
//!
//! [`cases`] reads them; [`Case::scripts`] are plain operations that any test can play: straight
//! into the decoders, over the virtual network, or over a socket. [`Record`] is what a test saw,
//! and [`Case::complaints`] compares.
#![allow(
    dead_code,
    reason = "several tests include this module, and none uses all of it"
)]

mod compile;
mod expect;
mod json;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use compile::Op;
pub(crate) use expect::Record;
pub(crate) use json::Json;

/// One case, ready to play.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name of its file, and of the model that the client asks for.
    pub(crate) name: String,
    /// The endpoint is chat; else completions.
    pub(crate) chat: bool,
    /// The client asks for an event stream.
    pub(crate) streaming: bool,
    /// Requests, one after another.
    pub(crate) requests: usize,
    /// The client's deadline for each.
    pub(crate) timeout_ms: u64,
    /// What the server plays: to the first request, the second, ...; the last script repeats.
    pub(crate) scripts: Vec<Vec<Op>>,
    /// Connections that the server must have seen.
    pub(crate) connections: Option<usize>,
    expect: Vec<Json>,
    expect_ms: Json,
}

/// All cases, in order of their names.
pub(crate) fn cases() -> Vec<Case> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder of the cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    assert!(paths.len() >= 79, "cases are missing");
    paths.iter().map(|path| read(path)).collect()
}

/// The folder of the cases, from any package of the workspace.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|ancestor| ancestor.join("tests/cases"))
        .find(|path| path.is_dir())
        .expect("tests/cases above the package")
}

fn read(path: &Path) -> Case {
    let text = fs::read_to_string(path).expect("a case is readable");
    let json: Json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let case = parse(&json);
    assert_eq!(
        path.file_stem().and_then(|stem| stem.to_str()),
        Some(case.name.as_str())
    );
    case
}

/// A case from its JSON. Panics when it does not follow the format: that is a broken test.
pub(crate) fn parse(json: &Json) -> Case {
    let name = json["name"].str().to_owned();
    let chat = match json["endpoint_type"].str() {
        "chat" => true,
        "completions" => false,
        other => panic!("{name}: endpoint_type {other}"),
    };
    let scripts = match json.get("scripts") {
        Some(scripts) => scripts.list(),
        None => std::slice::from_ref(&json["script"]),
    };
    let expect = match &json["expect"] {
        Json::List(list) => list.clone(),
        one => vec![one.clone()],
    };
    let requests = json.get("requests").map_or(1, Json::usize);
    assert_eq!(
        expect.len(),
        requests,
        "{name}: one expectation for each request"
    );
    Case {
        scripts: scripts
            .iter()
            .map(|script| compile::compile(script, &name, chat))
            .collect(),
        chat,
        streaming: json["streaming"] == Json::Bool(true),
        requests,
        timeout_ms: json.get("timeout_s").map_or(3, Json::usize) as u64 * 1_000,
        connections: json
            .get("expect_wire")
            .and_then(|w| w.get("connections"))
            .map(Json::usize),
        expect,
        expect_ms: json.get("expect_ms").cloned().unwrap_or(Json::Null),
        name,
    }
}

impl Case {
    /// What is wrong with the records of the requests, in words.
    pub(crate) fn complaints(&self, records: &[Record]) -> Vec<String> {
        let mut complaints = self.misfits(records);
        complaints.extend(self.spans(records));
        complaints
    }

    /// What is wrong with them apart from how long things took.
    pub(crate) fn misfits(&self, records: &[Record]) -> Vec<String> {
        let mut complaints = Vec::new();
        if records.len() != self.expect.len() {
            complaints.push(format!(
                "expected {} records, got {}",
                self.expect.len(),
                records.len()
            ));
        }
        for (number, (expect, record)) in self.expect.iter().zip(records).enumerate() {
            let mut found = expect::compare(expect, record);
            found.extend(record.contradictions());
            complaints.extend(found.iter().map(|c| format!("request {}: {c}", number + 1)));
        }
        complaints
    }

    /// Spans of time that are too short or too long.
    pub(crate) fn spans(&self, records: &[Record]) -> Vec<String> {
        let first = records.first();
        first.map_or_else(Vec::new, |record| {
            expect::compare_spans(&self.expect_ms, record)
        })
    }
}
