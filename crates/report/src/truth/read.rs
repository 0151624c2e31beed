use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{SCHEMA, TruthError};

/// The first line of a truth file.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// The program that wrote it.
    pub server: Server,
    /// What its times count from.
    pub clock: ServerClock,
    /// What drove its sockets.
    pub driver: String,
    /// Whether arrivals are the kernel's stamps.
    pub rx_timestamps: bool,
    write_columns: Vec<String>,
}

/// The program that wrote a truth file.
#[derive(Clone, Debug, Deserialize)]
pub struct Server {
    /// Its version.
    pub version: String,
}

/// What the times of a truth file count from.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerClock {
    name: String,
    /// See [`ridgeline_clock::Timebase`].
    pub boot_id: Option<String>,
    /// See [`ridgeline_clock::Timebase`].
    pub time_namespace: Option<String>,
    /// The server's start on `CLOCK_MONOTONIC`.
    pub start_monotonic_ns: u64,
    /// The server's start, ns since 1970.
    pub start_realtime_ns: u64,
    /// The largest error of that.
    pub realtime_error_ns: u64,
}

/// One request as the server saw it. Times are ns after the server's start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TrueRequest<'a> {
    /// Its `X-Request-Id`.
    #[serde(borrow)]
    pub request_id: Option<Cow<'a, str>>,
    /// When its last byte arrived.
    pub arrival_ns: u64,
    /// When the server took that byte from the kernel.
    pub reaped_ns: u64,
    /// When it left the queue.
    pub started_ns: Option<u64>,
    /// Of the answer.
    pub status: Option<u16>,
    /// The fault that was injected.
    pub fault: Option<Cow<'a, str>>,
    /// Tokens of all writes.
    pub output_tokens: u64,
    /// How the answer ended.
    pub ended: Ended,
    /// What was handed over, in order.
    pub writes: Vec<Write>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All of it was handed over.
    Complete,
    /// The peer went away before.
    Peer,
    /// A fault ended the connection.
    Closed,
    /// A fault reset the connection.
    Reset,
    /// The server ended before.
    Stopped,
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(u64, Option<u64>, u64, u64, u64)")]
pub struct Write {
    /// Just before the system call.
    pub submitted_ns: u64,
    /// When it should have been.
    pub due_ns: Option<u64>,
    /// Its length.
    pub bytes: u64,
    /// Tokens in it.
    pub tokens: u64,
    /// Content events that end in it.
    pub content_events: u64,
}

/// The order of a [`Write`] in the file.
const WRITE_COLUMNS: [&str; 5] = [
    "submitted_ns",
    "due_ns",
    "bytes",
    "tokens",
    "content_events",
];

impl From<(u64, Option<u64>, u64, u64, u64)> for Write {
    fn from(row: (u64, Option<u64>, u64, u64, u64)) -> Self {
        let (submitted_ns, due_ns, bytes, tokens, content_events) = row;
        Self {
            submitted_ns,
            due_ns,
            bytes,
            tokens,
            content_events,
        }
    }
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct End {
    /// Requests that have a line.
    pub lines: u64,
    /// Requests that have none.
    pub dropped: u64,
    /// Requests that were in flight.
    pub unfinished: u64,
}

#[derive(Deserialize)]
struct EndLine {
    end: End,
}

/// Reads a truth file line by line.
#[derive(Debug)]
pub struct TruthReader {
    path: PathBuf,
    input: BufReader<File>,
    header: Header,
    line: Vec<u8>,
    /// Lines read.
    number: u64,
    requests: u64,
    end: Option<End>,
    cut: bool,
}

impl TruthReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// When it can't be read, or is no truth file of this version.
    pub fn open(path: &Path) -> Result<Self, TruthError> {
        let read = |source| TruthError::Read {
            path: path.to_owned(),
            source,
        };
        let mut input = BufReader::with_capacity(256 << 10, File::open(path).map_err(read)?);
        let mut line = Vec::new();
        // A file of something else may have no line end at all.
        let most = 64 << 10;
        std::io::Read::take(&mut input, most)
            .read_until(b'\n', &mut line)
            .map_err(read)?;
        let header = header(&line).map_err(|problem| TruthError::NotATruth {
            path: path.to_owned(),
            problem,
        })?;
        Ok(Self {
            path: path.to_owned(),
            input,
            header,
            line,
            number: 1,
            requests: 0,
            end: None,
            cut: false,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The last line, once it was reached; `None` when the server was killed, or goes on.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the file ended in the middle of a line.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Requests read so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The next request; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file can't be read, or a line of it is wrong. A last line that is cut is none.
    pub fn next_request(&mut self) -> Result<Option<TrueRequest<'_>>, TruthError> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| TruthError::Read {
            path: self.path.clone(),
            source,
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let (path, number) = (&self.path, self.number);
        let wrong = |problem: String| TruthError::Line {
            path: path.clone(),
            line: number,
            problem,
        };
        let whole = self.line.ends_with(b"\n");
        if self.end.is_some() {
            return Err(wrong("something follows the file's end".to_owned()));
        }
        if self.line.starts_with(b"{\"end\":") {
            match serde_json::from_slice::<EndLine>(&self.line) {
                Ok(line) => self.end = Some(line.end),
                Err(_) if !whole => self.cut = true,
                Err(error) => return Err(wrong(reason(&error))),
            }
            if let Some(end) = self.end
                && end.lines != self.requests
            {
                let problem = format!(
                    "the file should have {} requests, and has {}",
                    end.lines, self.requests
                );
                return Err(wrong(problem));
            }
            // What follows the end would be wrong: that is seen by reading on.
            return self.next_request();
        }
        match serde_json::from_slice::<TrueRequest<'_>>(&self.line) {
            Ok(request) => {
                check(&request).map_err(wrong)?;
                self.requests += 1;
                Ok(Some(request))
            }
            Err(_) if !whole => {
                self.cut = true;
                Ok(None)
            }
            Err(error) => Err(wrong(reason(&error))),
        }
    }
}

fn header(line: &[u8]) -> Result<Header, String> {
    if line.is_empty() {
        return Err("it is empty".to_owned());
    }
    let origin = "a truth file is what `ridgeline mock-server --truth FILE` writes";
    let value: Value = serde_json::from_slice(line)
        .map_err(|_| format!("its first line is no JSON object; {origin}"))?;
    match value.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("its schema is `{other}`, not `{SCHEMA}`")),
        None => return Err(format!("its first line names no schema; {origin}")),
    }
    let header: Header = serde_json::from_value(value).map_err(|error| reason(&error))?;
    if header.write_columns != WRITE_COLUMNS {
        let columns = header.write_columns.join(", ");
        return Err(format!(
            "its writes have other columns than this version knows: {columns}"
        ));
    }
    if header.clock.name != "CLOCK_MONOTONIC" {
        let name = &header.clock.name;
        return Err(format!("its times are of `{name}`, not of CLOCK_MONOTONIC"));
    }
    Ok(header)
}

/// What can't be, whatever the server did.
fn check(request: &TrueRequest<'_>) -> Result<(), String> {
    if request.arrival_ns > request.reaped_ns {
        return Err("the request was reaped before it arrived".to_owned());
    }
    let mut last = request.arrival_ns;
    for write in &request.writes {
        if write.submitted_ns < last {
            return Err("a write is earlier than what came before it".to_owned());
        }
        last = write.submitted_ns;
    }
    let tokens: u64 = request.writes.iter().map(|write| write.tokens).sum();
    if tokens != request.output_tokens {
        return Err(format!(
            "its writes have {tokens} tokens, and it says {}",
            request.output_tokens
        ));
    }
    Ok(())
}

/// Without the place: a line is named by its number in the file.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}
