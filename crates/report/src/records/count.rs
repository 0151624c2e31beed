//! Output tokens that the server did not count, counted from the saved text when the run is over.
//!
//! What is counted of an answer: its text, its reasoning and the arguments of its tool calls, each by
//! itself. What the model generates around them (names of tools, marks of where reasoning ends and a
//! call begins, the end of the answer) is in no record.
//!
//! A line that waits to be counted ends with a member `uncounted`. It is replaced by
//! `counted_output_tokens`, `token_source` becomes `tokenizer`, and the rest of the file is copied
//! byte by byte into a new one that takes the old one's place when it is whole.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use ridgeline_clock::Nanos;
use ridgeline_metrics::{Fate, Finished, Phase, Recount, Timeline, TokenSource, Uncounted};
use serde::Deserialize;

use super::recover::{BLOCK_BYTES, lock};
use super::{JSONL, RecordsError, SPOOL, line};

/// The new file while it is being written.
pub(super) const UNFINISHED: &str = "records.jsonl.tmp";

/// What a count came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Answers counted, failed ones among them.
    pub answers: u64,
    /// Answers that the tokenizer refused: they go by their events.
    pub refused: u64,
    /// Why, the first time.
    pub refusal: Option<String>,
}

/// Counts the answers in `records.jsonl` that wait for it, into the file and, of those that
/// succeeded, into `recount`. `tokens` counts one text; `give_up` is asked before each answer.
///
/// The file is read line by line: the longest one is what it takes of memory.
///
/// # Errors
/// When `give_up` says yes, when a file can't be read or written, or when some records are still in
/// the spool. The file stays as it is then, and what `recount` has is of no use.
pub fn count(
    folder: &Path,
    recount: &mut Recount,
    tokens: &mut dyn FnMut(&str) -> Result<u32, String>,
    give_up: &dyn Fn() -> bool,
) -> Result<Counted, RecordsError> {
    let (path, unfinished) = (folder.join(JSONL), folder.join(UNFINISHED));
    if folder.join(SPOOL).exists() {
        // It says where in the file its records belong: no line may grow.
        return Err(RecordsError::Unconverted);
    }
    let old = File::open(&path).map_err(RecordsError::file("open", &path))?;
    lock(&old, &path)?;
    let new = File::create(&unfinished).map_err(RecordsError::file("create", &unfinished))?;
    let mut pass = Pass {
        recount,
        tokens,
        counted: Counted::default(),
    };
    let copied = pass
        .copy(&old, &new, &path, &unfinished, give_up)
        .and_then(|()| {
            fs::rename(&unfinished, &path).map_err(RecordsError::file("replace", &path))
        });
    match copied {
        Ok(()) => Ok(pass.counted),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

struct Pass<'a> {
    recount: &'a mut Recount,
    tokens: &'a mut dyn FnMut(&str) -> Result<u32, String>,
    counted: Counted,
}

impl Pass<'_> {
    fn copy(
        &mut self,
        old: &File,
        new: &File,
        path: &Path,
        unfinished: &Path,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), RecordsError> {
        let mut lines = BufReader::with_capacity(BLOCK_BYTES, old);
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, new);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line);
            if read.map_err(RecordsError::file("read", path))? == 0 {
                let flushed = out.flush();
                return flushed.map_err(RecordsError::file("write", unfinished));
            }
            let written = match Waiting::of(&line) {
                Some(_) if give_up() => return Err(RecordsError::GivenUp),
                Some(waiting) => self.answer(&waiting, &mut out),
                None => out.write_all(&line),
            };
            written.map_err(RecordsError::file("write", unfinished))?;
        }
    }

    /// Counts one answer and writes its line.
    fn answer(&mut self, waiting: &Waiting<'_>, out: &mut impl Write) -> io::Result<()> {
        let answer = &waiting.answer;
        let found = match answer.tokens(self.tokens) {
            Ok(found) => Some(found),
            Err(why) => {
                self.counted.refused += 1;
                self.counted.refusal.get_or_insert(why);
                None
            }
        };
        self.counted.answers += u64::from(found.is_some());
        if answer.outcome == "ok" {
            self.recount.add(&answer.finished(found), &answer.uncounted);
        }
        let source = match found {
            Some(_) => TokenSource::Tokenizer,
            None => answer.source(),
        };
        out.write_all(waiting.before)?;
        out.write_all(line::token_source(source).as_bytes())?;
        out.write_all(waiting.between)?;
        if let Some(found) = found {
            write!(out, ",\"counted_output_tokens\":{found}")?;
        }
        out.write_all(b"}\n")
    }
}

/// A line that waits to be counted.
struct Waiting<'a> {
    answer: Answer<'a>,
    /// The bytes up to `token_source`, and from behind it up to `uncounted`.
    before: &'a [u8],
    between: &'a [u8],
}

impl<'a> Waiting<'a> {
    /// `None` when nothing is to be counted, or the line is none that this version writes.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        // Ends with the object of `uncounted`: no other line does.
        if !bytes.ends_with(b"}}\n") {
            return None;
        }
        let text = str::from_utf8(bytes).ok()?;
        let (rest, _) = text.rsplit_once(line::UNCOUNTED)?;
        let answer: Answer<'_> = serde_json::from_str(text).ok()?;
        let (before, between) = rest.split_once(line::token_source(answer.source()))?;
        Some(Self {
            answer,
            before: before.as_bytes(),
            between: between.as_bytes(),
        })
    }
}

/// What the count needs of a record.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    content_events: u32,
    token_source: Option<TokenSource>,
    first_token_ns: Option<u64>,
    last_token_ns: Option<u64>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<Call>>,
    uncounted: Uncounted,
}

#[derive(Deserialize)]
struct Call {
    arguments: String,
}

impl Answer<'_> {
    fn source(&self) -> TokenSource {
        self.token_source.unwrap_or(TokenSource::None)
    }

    fn tokens(&self, count: &mut dyn FnMut(&str) -> Result<u32, String>) -> Result<u32, String> {
        let calls = self.tool_calls.iter().flatten();
        let parts = [&*self.text, self.reasoning.as_deref().unwrap_or_default()]
            .into_iter()
            .chain(calls.map(|call| call.arguments.as_str()));
        let mut sum = 0_u32;
        for part in parts.filter(|part| !part.is_empty()) {
            sum = sum.saturating_add(count(part)?);
        }
        Ok(sum)
    }

    fn finished(&self, tokens: Option<u32>) -> Finished<'static> {
        Finished {
            timeline: Timeline {
                first_token: self.first_token_ns.map(Nanos),
                last_token: self.last_token_ns.map(Nanos),
                ..Timeline::default()
            },
            output_tokens: tokens,
            token_source: TokenSource::Tokenizer,
            content_events: self.content_events,
            ..Finished::new(Phase::Measured, Fate::Ok, self.uncounted.streamed)
        }
    }
}

#[cfg(test)]
mod tests;
