use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ridgeline_clock::Nanos;
use serde::Deserialize;

use super::{Mishap, Record, Replay};

/// A line, bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Tokens, and content events, of one answer.
const TOKENS_MAX: u64 = 1 << 20;
/// What a replay may take, bytes.
const MEMORY_BYTES_MAX: usize = 1 << 30;

/// Why a file can't be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A line is no record.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// It has no line.
    #[error("{} is empty: it should be the records.jsonl of a run", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It has records, and none that counts.
    #[error(
        "none of the {records} records in {} can be replayed: none is measured and has a first token, an \
         end or an error",
        path.display()
    )]
    NoneUsable {
        /// The file.
        path: PathBuf,
        /// Its records.
        records: u64,
    },
}

/// A record, as far as a replay needs it. Times are ns after the run's start.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    error: Option<ErrorMember>,
    http_status: Option<u16>,
    finish_reason: Option<Cow<'a, str>>,
    content_events: u64,
    output_tokens: Option<u64>,
    submitted_ns: Option<u64>,
    first_byte_ns: Option<u64>,
    first_token_ns: Option<u64>,
    last_token_ns: Option<u64>,
    done_ns: Option<u64>,
    event_ns: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct ErrorMember {
    kind: String,
}

impl Replay {
    /// Reads a `records.jsonl`, once.
    ///
    /// # Errors
    /// [`ReplayError`]: the file can't be read, a line is no record or contradicts itself, or no record
    /// counts.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let read = |source| ReplayError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(read)?;
        let mut input = BufReader::with_capacity(256 << 10, file);
        let (mut bytes, mut number) = (Vec::new(), 0);
        let (mut records, mut offsets_ns) = (Vec::new(), Vec::new());
        loop {
            bytes.clear();
            let mut line = input.by_ref().take(LINE_BYTES_MAX);
            if line.read_until(b'\n', &mut bytes).map_err(read)? == 0 {
                break;
            }
            number += 1;
            let taken = take(&bytes, &mut records, &mut offsets_ns);
            taken.map_err(|problem| ReplayError::Line {
                path: path.to_owned(),
                line: number,
                problem,
            })?;
        }
        let path = path.to_owned();
        match (number, records.is_empty()) {
            (0, _) => Err(ReplayError::Empty { path }),
            (records, true) => Err(ReplayError::NoneUsable { path, records }),
            _ => Ok(Self {
                records: records.into(),
                offsets_ns: offsets_ns.into(),
            }),
        }
    }
}

/// Adds the record of a line, if it counts.
fn take(bytes: &[u8], records: &mut Vec<Record>, offsets_ns: &mut Vec<u64>) -> Result<(), String> {
    if bytes.len() as u64 == LINE_BYTES_MAX {
        return Err(format!("it has more than {LINE_BYTES_MAX} bytes"));
    }
    let line: Line<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let before = offsets_ns.len();
    records.extend(line.record(offsets_ns)?);
    let memory = size_of_val(&**records) + size_of_val(&**offsets_ns);
    if memory > MEMORY_BYTES_MAX {
        return Err(format!(
            "what came before it fills {MEMORY_BYTES_MAX} bytes: cut the file"
        ));
    }
    if !offsets_ns[before..].is_sorted() {
        return Err("event_ns goes back in time".to_owned());
    }
    Ok(())
}

impl Line<'_> {
    /// `None`: it does not count.
    fn record(&self, offsets_ns: &mut Vec<u64>) -> Result<Option<Record>, String> {
        match &*self.phase {
            "measured" => {}
            "warmup" => return Ok(None),
            other => return Err(format!("there is no phase {other:?}")),
        }
        if !matches!(&*self.outcome, "ok" | "cancelled" | "error") {
            return Err(format!("there is no outcome {:?}", self.outcome));
        }
        let events = tokens("content_events", self.content_events)?;
        if let Some(saved) = &self.event_ns
            && !saved.is_empty()
            && saved.len() != events as usize
        {
            let count = saved.len();
            return Err(format!(
                "event_ns has {count} times for {events} content_events"
            ));
        }
        if self.outcome == "error" {
            return self.failed(events, offsets_ns).map(Some);
        }
        let Some(end) = self.end()? else {
            return Ok(None);
        };
        let output_tokens = self.output_tokens.unwrap_or(self.content_events);
        let (first, last) = self.span(end)?;
        Ok(Some(Record {
            first,
            last,
            end,
            events: events.max(1),
            tokens: tokens("output_tokens", output_tokens)?,
            offsets_at: self.saved(first, offsets_ns)?,
            is_length: self.finish_reason.as_deref() == Some("length"),
            mishap: None,
        }))
    }

    /// An error: what had come, and one event more at the time of its end, for what goes wrong.
    fn failed(&self, events: u32, offsets_ns: &mut Vec<u64>) -> Result<Record, String> {
        let Some(error) = &self.error else {
            return Err("its outcome is an error, and it has none".to_owned());
        };
        let has_byte = self.first_byte_ns.is_some();
        let mishap = Mishap::new(&error.kind, self.http_status, events, has_byte)
            .ok_or_else(|| format!("there is no error {:?}", error.kind))?;
        // Not even submitted, it fails at once.
        let end = if self.submitted_ns.is_some() {
            self.end()?.unwrap_or_default()
        } else {
            Nanos::ZERO
        };
        let (mut first, mut last) = (end, end);
        let mut offsets_at = None;
        if events > 0 {
            (first, last) = self.span(end)?;
            let at = offsets_ns.len();
            if self.saved(first, offsets_ns)?.is_none() {
                let span = u128::from((last - first).0);
                let steps = u128::from(events - 1).max(1);
                offsets_ns.extend((0..events).map(|event| {
                    let after = span * u128::from(event) / steps;
                    first.0 + u64::try_from(after).unwrap_or(0)
                }));
            }
            offsets_ns.push(end.0);
            offsets_at = Some(at);
        }
        Ok(Record {
            first,
            last,
            end,
            events: events + 1,
            tokens: events + 1,
            offsets_at,
            is_length: false,
            mishap: Some(mishap),
        })
    }

    /// The last that is known of it.
    fn end(&self) -> Result<Option<Nanos>, String> {
        let stamps = [
            ("done_ns", self.done_ns),
            ("last_token_ns", self.last_token_ns),
            ("first_token_ns", self.first_token_ns),
            (
                "first_byte_ns",
                self.first_byte_ns.filter(|_| self.error.is_some()),
            ),
        ];
        let known = stamps.iter().find(|(_, stamp)| stamp.is_some());
        known
            .and_then(|(name, stamp)| Some(self.after(name, (*stamp)?)))
            .transpose()
    }

    /// The first and the last token.
    fn span(&self, end: Nanos) -> Result<(Nanos, Nanos), String> {
        let stamp = |name, stamp: Option<u64>| stamp.map(|at| self.after(name, at)).transpose();
        let first = stamp("first_token_ns", self.first_token_ns)?.unwrap_or(end);
        let last = stamp("last_token_ns", self.last_token_ns)?.unwrap_or(first);
        if last < first {
            return Err("last_token_ns is before first_token_ns".to_owned());
        }
        if end < last {
            return Err("done_ns is before last_token_ns".to_owned());
        }
        Ok((first, last))
    }

    /// Adds the times of its events, where they were saved. Returns where they begin.
    fn saved(&self, first: Nanos, offsets_ns: &mut Vec<u64>) -> Result<Option<usize>, String> {
        let Some(saved) = self.event_ns.as_ref().filter(|saved| !saved.is_empty()) else {
            return Ok(None);
        };
        let at = offsets_ns.len();
        for &event in saved {
            offsets_ns.push(self.after("event_ns", event)?.0);
        }
        // The first token is the first event.
        offsets_ns[at] = first.0;
        Ok(Some(at))
    }

    /// A stamp as a span from the submission on.
    fn after(&self, name: &str, stamp: u64) -> Result<Nanos, String> {
        let submitted = self
            .submitted_ns
            .ok_or_else(|| format!("it has {name} and no submitted_ns"))?;
        let after = stamp.checked_sub(submitted).map(Nanos);
        after.ok_or_else(|| format!("{name} is before submitted_ns"))
    }
}

fn tokens(name: &str, count: u64) -> Result<u32, String> {
    let fits = u32::try_from(count).ok().filter(|_| count <= TOKENS_MAX);
    fits.ok_or_else(|| format!("{name} is {count}: an answer has at most {TOKENS_MAX}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use serde_json::{Value, json};

    fn line(change: &Value) -> Value {
        let mut line = json!({
            "phase": "measured", "outcome": "ok", "error": null, "http_status": 200,
            "finish_reason": "stop", "content_events": 3, "output_tokens": 5,
            "submitted_ns": 1_000, "first_byte_ns": 1_050, "first_token_ns": 1_100,
            "last_token_ns": 1_400, "done_ns": 1_500,
        });
        for (key, value) in change.as_object().unwrap() {
            line[key] = value.clone();
        }
        line
    }

    fn read(text: &str) -> Result<Replay, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().display().to_string();
        Replay::read(file.path()).map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    fn read_lines(changes: &[Value]) -> Result<Replay, String> {
        let lines = changes.iter().map(|change| format!("{}\n", line(change)));
        read(&lines.collect::<String>())
    }

    #[test]
    fn times_count_from_the_submission() {
        let replay = read_lines(&[
            json!({}),
            json!({"phase": "warmup"}),
            json!({"event_ns": [1_100, 1_250, 1_400], "finish_reason": "length", "output_tokens": null}),
            json!({"outcome": "cancelled", "first_token_ns": null, "last_token_ns": null, "done_ns": null,
                "content_events": 0}),
        ])
        .unwrap();
        let even = Record {
            first: Nanos(100),
            last: Nanos(400),
            end: Nanos(500),
            events: 3,
            tokens: 5,
            offsets_at: None,
            is_length: false,
            mishap: None,
        };
        let saved = Record {
            tokens: 3,
            offsets_at: Some(0),
            is_length: true,
            ..even
        };
        assert_eq!(*replay.records, [even, saved]);
        assert_eq!(*replay.offsets_ns, [100, 250, 400]);
    }

    #[test]
    fn an_error_goes_wrong_after_what_had_come() {
        let error = |kind| json!({"kind": kind, "message": "x", "http_status": null});
        let replay = read_lines(&[
            json!({"outcome": "error", "error": error("truncated"), "content_events": 2}),
            json!({"outcome": "error", "error": error("connect"), "content_events": 0, "submitted_ns": null,
                "first_byte_ns": null, "first_token_ns": null, "last_token_ns": null, "done_ns": 9}),
        ])
        .unwrap();
        let [cut, refused] = &*replay.records else {
            panic!("{replay:?}");
        };
        assert_eq!((cut.events, cut.tokens, cut.end), (3, 3, Nanos(500)));
        assert_eq!(*replay.offsets_ns, [100, 400, 500]);
        let fault = |record: &Record| record.mishap.unwrap().fault(true).unwrap();
        assert_eq!(fault(cut).kind.to_string(), "fin-mid-chunk");
        assert_eq!(fault(cut).at, 2);
        assert_eq!(fault(refused).kind.to_string(), "reset-before-head");
        assert_eq!(refused.end, Nanos::ZERO);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (change, problem) in [
            (json!({"phase": "later"}), "there is no phase \"later\""),
            (json!({"outcome": "fine"}), "there is no outcome \"fine\""),
            (
                json!({"outcome": "error"}),
                "its outcome is an error, and it has none",
            ),
            (
                json!({"outcome": "error", "error": {"kind": "gone"}}),
                "there is no error \"gone\"",
            ),
            (
                json!({"submitted_ns": null}),
                "it has done_ns and no submitted_ns",
            ),
            (
                json!({"submitted_ns": 1_200}),
                "first_token_ns is before submitted_ns",
            ),
            (
                json!({"last_token_ns": 1_099}),
                "last_token_ns is before first_token_ns",
            ),
            (json!({"done_ns": 1_300}), "done_ns is before last_token_ns"),
            (
                json!({"event_ns": [1_100]}),
                "event_ns has 1 times for 3 content_events",
            ),
            (
                json!({"event_ns": [1_100, 1_300, 1_200]}),
                "event_ns goes back in time",
            ),
            (
                json!({"output_tokens": 2_000_000}),
                "output_tokens is 2000000: an answer has at most 1048576",
            ),
        ] {
            let error = read_lines(&[json!({}), change]).unwrap_err();
            assert_eq!(error, format!("FILE, line 2: {problem}"));
        }
        let error = read("{\"phase\":\"measured\"}\n").unwrap_err();
        assert!(error.starts_with("FILE, line 1: missing field"), "{error}");
        let error = read("\n").unwrap_err();
        assert!(error.starts_with("FILE, line 1: EOF"), "{error}");
    }

    #[test]
    fn a_file_without_an_answer_is_none() {
        let error = read("").unwrap_err();
        assert_eq!(
            error,
            "FILE is empty: it should be the records.jsonl of a run"
        );
        let error = read_lines(&[json!({"phase": "warmup"})]).unwrap_err();
        assert!(
            error.starts_with("none of the 1 records in FILE"),
            "{error}"
        );
        let missing = Replay::read(Path::new("no/such/file")).unwrap_err();
        assert!(matches!(missing, ReplayError::Read { .. }));
    }
}
