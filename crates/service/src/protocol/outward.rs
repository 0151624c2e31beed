//! Messages from the worker: written by it, and read by clients in Rust.

use ridgeline_clock::Nanos;
use ridgeline_engine::{Notice, Outcome, Record};
use ridgeline_wire::openai::Usage;

use crate::protocol::reader::Reader;
use crate::protocol::writer::{List, Writer};
use crate::protocol::{Code, Trouble, VERSION};

/// A message from the worker. What it lends is part of the message.
#[derive(Clone, Debug, PartialEq)]
pub enum Outward<'a> {
    /// First tokens.
    Notices(Vec<NoticeFrame>),
    /// Results.
    Results(Vec<ResultFrame<'a>>),
    /// Something was not taken.
    Error {
        /// Why, for programs.
        code: &'a str,
        /// Why, for people.
        text: &'a str,
        /// The query that it is about.
        id: Option<u64>,
    },
    /// The last message.
    Ended(Totals),
}

/// The first token of one answer. Times are ns of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeFrame {
    /// The query.
    pub id: u64,
    /// `first_token - submitted`.
    pub ttft_ns: u64,
    /// When it was due.
    pub scheduled_ns: u64,
    /// When its bytes were handed to the kernel.
    pub submitted_ns: u64,
    /// When the first token came.
    pub first_token_ns: u64,
}

/// The times of a result, on the machine's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was due.
    pub scheduled: Nanos,
    /// The first action for it.
    pub started: Nanos,
    /// Its bytes were handed to the kernel.
    pub submitted: Option<Nanos>,
    /// A connection of its own was up.
    pub connected: Option<Nanos>,
    /// The TLS handshake of that connection was over.
    pub secured: Option<Nanos>,
    /// The first byte of the response.
    pub first_byte: Option<Nanos>,
    /// The first event with text, reasoning or a tool call.
    pub first_token: Option<Nanos>,
    /// The last such event.
    pub last_token: Option<Nanos>,
    /// The end of the response.
    pub done: Option<Nanos>,
}

/// What became of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultFrame<'a> {
    /// The query.
    pub id: u64,
    /// `ok`, `cancelled`, or a kind of failure.
    pub outcome: &'a str,
    /// The status of the response, if one came.
    pub http_status: Option<u16>,
    /// When what happened.
    pub times: Times,
    /// Events with text, reasoning or a tool call.
    pub content_events: u32,
    /// Tokens as the server counted them.
    pub usage: Usage,
    /// The last one that was not null.
    pub finish_reason: Option<&'a str>,
    /// The text, if it was asked for.
    pub text: Option<&'a str>,
    /// The reasoning, if text was asked for.
    pub reasoning: Option<&'a str>,
    /// Id, name and arguments of each tool call, if text was asked for.
    pub tool_calls: Vec<[&'a str; 3]>,
    /// Of a failure: what happened, in words.
    pub message: Option<&'a str>,
    /// How often it was sent again, since a resting connection turned out to be closed.
    pub retries: u32,
}

/// Counts of a service that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Queries that were taken.
    pub queries: u64,
    /// Those that succeeded.
    pub ok: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were not done when the service ended.
    pub cancelled: u64,
    /// Errors that were told.
    pub errors: u64,
}

impl From<&Notice> for NoticeFrame {
    fn from(notice: &Notice) -> Self {
        Self {
            id: notice.id,
            ttft_ns: (notice.first_token - notice.submitted).0,
            scheduled_ns: notice.scheduled.0,
            submitted_ns: notice.submitted.0,
            first_token_ns: notice.first_token.0,
        }
    }
}

impl<'a> From<&'a Record> for ResultFrame<'a> {
    fn from(record: &'a Record) -> Self {
        let timeline = &record.timeline;
        let details = record.details.as_deref();
        let saved = details.and_then(|details| details.saved.as_deref());
        let tool_calls = saved.into_iter().flat_map(|saved| saved.tool_calls.iter());
        Self {
            id: record.index,
            outcome: match record.outcome {
                Outcome::Ok => "ok",
                Outcome::Error(kind) => kind.as_str(),
                Outcome::Cancelled => "cancelled",
            },
            http_status: record.http_status,
            times: Times {
                scheduled: timeline.scheduled,
                started: timeline.started,
                submitted: timeline.submitted,
                connected: record.connected,
                secured: record.secured,
                first_byte: timeline.first_byte,
                first_token: timeline.first_token,
                last_token: timeline.last_token,
                done: timeline.done,
            },
            content_events: record.content_events,
            usage: record.usage,
            finish_reason: record.finish_reason.as_ref().map(|reason| reason.as_str()),
            text: saved.map(|saved| saved.text.as_str()),
            reasoning: saved
                .map(|saved| saved.reasoning.as_str())
                .filter(|reasoning| !reasoning.is_empty()),
            tool_calls: tool_calls
                .map(|(_, call)| [&*call.id, &*call.name, &*call.arguments])
                .collect(),
            message: details.and_then(|details| details.message.as_deref()),
            retries: record.retries,
        }
    }
}

/// Notices or results being written into one message. The buffer is used again for the next.
#[derive(Debug)]
pub struct Answers {
    answers: List,
}

impl Answers {
    /// No notices yet, in place of what `buffer` holds.
    #[must_use]
    pub fn notices(buffer: Vec<u8>) -> Self {
        Self {
            answers: List::new("notices", buffer),
        }
    }

    /// No results yet, in place of what `buffer` holds.
    #[must_use]
    pub fn results(buffer: Vec<u8>) -> Self {
        Self {
            answers: List::new("results", buffer),
        }
    }

    /// How many are in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.answers.count()
    }

    /// Its bytes so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.answers.writer.len()
    }

    /// Adds a first token.
    pub fn notice(&mut self, notice: &NoticeFrame) {
        let writer = self.answers.element();
        writer.array(5);
        writer.uint(notice.id);
        writer.uint(notice.ttft_ns);
        writer.uint(notice.scheduled_ns);
        writer.uint(notice.submitted_ns);
        writer.uint(notice.first_token_ns);
    }

    /// Adds a result. One of more than `bytes_max` leaves its texts out, and says so.
    pub fn result(&mut self, result: &ResultFrame<'_>, bytes_max: usize) {
        let before = self.bytes();
        write_result(self.answers.element(), result);
        let bytes = self.bytes() - before;
        if bytes <= bytes_max {
            return;
        }
        let writer = &mut self.answers.writer;
        writer.truncate(before);
        let message = format!("{bytes} bytes of result are more than a message has room for");
        let without_texts = ResultFrame {
            text: None,
            reasoning: None,
            tool_calls: Vec::new(),
            finish_reason: None,
            message: Some(&message),
            ..result.clone()
        };
        write_result(writer, &without_texts);
    }

    /// The message.
    #[must_use]
    pub fn into_message(self) -> Vec<u8> {
        self.answers.into_message()
    }
}

fn write_result(writer: &mut Writer, result: &ResultFrame<'_>) {
    writer.array(12);
    writer.uint(result.id);
    writer.text(result.outcome);
    writer.optional_uint(result.http_status);
    let times = &result.times;
    writer.array(9);
    writer.uint(times.scheduled.0);
    writer.uint(times.started.0);
    for at in [
        times.submitted,
        times.connected,
        times.secured,
        times.first_byte,
        times.first_token,
        times.last_token,
        times.done,
    ] {
        writer.optional_uint(at.map(|at| at.0));
    }
    writer.uint(result.content_events.into());
    let usage = &result.usage;
    writer.array(4);
    for count in [
        usage.input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.cached_tokens,
    ] {
        writer.optional_uint(count);
    }
    writer.optional_text(result.finish_reason);
    writer.optional_text(result.text);
    writer.optional_text(result.reasoning);
    write_calls(writer, &result.tool_calls);
    writer.optional_text(result.message);
    writer.uint(result.retries.into());
}

fn write_calls(writer: &mut Writer, calls: &[[&str; 3]]) {
    if calls.is_empty() {
        return writer.nil();
    }
    writer.array(u32::try_from(calls.len()).unwrap_or(u32::MAX));
    for call in calls {
        writer.array(3);
        call.iter().for_each(|part| writer.text(part));
    }
}

/// Something was not taken.
#[must_use]
pub fn error_message(trouble: &Trouble) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head("error", 5);
    writer.text(trouble.code.as_str());
    writer.text(&trouble.text);
    writer.optional_uint(trouble.id);
    writer.into_bytes()
}

/// The last message.
#[must_use]
pub fn ended_message(totals: &Totals) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head("ended", 3);
    writer.array(5);
    for count in [
        totals.queries,
        totals.ok,
        totals.failed,
        totals.cancelled,
        totals.errors,
    ] {
        writer.uint(count);
    }
    writer.into_bytes()
}

/// Takes a message from the worker apart.
///
/// # Errors
/// What is wrong with it.
pub fn read_outward(message: &[u8]) -> Result<Outward<'_>, Trouble> {
    let mut reader = Reader::new(message);
    let count = reader.array("the message")?;
    let version = reader.uint("the version")?;
    if version != VERSION {
        let text = format!("version {version} of the protocol, not {VERSION}");
        return Err(Trouble::new(Code::Version, text));
    }
    let outward = match (reader.text("the kind")?, count) {
        ("notices", 3) => Outward::Notices(list(&mut reader, NoticeFrame::read)?),
        ("results", 3) => Outward::Results(list(&mut reader, ResultFrame::read)?),
        ("error", 5) => Outward::Error {
            code: reader.text("the code")?,
            text: reader.text("the text")?,
            id: reader.optional(|reader| reader.uint("the id"))?,
        },
        ("ended", 3) => Outward::Ended(Totals::read(&mut reader)?),
        (kind, count) => {
            let kind: String = kind.chars().take(40).collect();
            let text = format!("`{kind}` with {count} elements is no message of a worker");
            return Err(Trouble::new(Code::Malformed, text));
        }
    };
    if !reader.is_at_end() {
        let text = "bytes follow the end of the message";
        return Err(Trouble::new(Code::Malformed, text));
    }
    Ok(outward)
}

fn list<'a, T>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Trouble>,
) -> Result<Vec<T>, Trouble> {
    let count = reader.array("a list")?;
    // Not by the count that is said: it may be any.
    (0..count).map(|_| read(reader)).collect()
}

impl NoticeFrame {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Trouble> {
        reader.array_of(5, "a notice")?;
        Ok(Self {
            id: reader.uint("its id")?,
            ttft_ns: reader.uint("its TTFT")?,
            scheduled_ns: reader.uint("a time")?,
            submitted_ns: reader.uint("a time")?,
            first_token_ns: reader.uint("a time")?,
        })
    }
}

impl<'a> ResultFrame<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Trouble> {
        reader.array_of(12, "a result")?;
        Ok(Self {
            id: reader.uint("its id")?,
            outcome: reader.text("its outcome")?,
            http_status: small(reader, "its status")?,
            times: Times::read(reader)?,
            content_events: small(reader, "its events")?.unwrap_or(0),
            usage: usage(reader)?,
            finish_reason: reader.optional(|reader| reader.text("its finish reason"))?,
            text: reader.optional(|reader| reader.text("its text"))?,
            reasoning: reader.optional(|reader| reader.text("its reasoning"))?,
            tool_calls: reader
                .optional(|reader| list(reader, call))?
                .unwrap_or_default(),
            message: reader.optional(|reader| reader.text("its message"))?,
            retries: small(reader, "its retries")?.unwrap_or(0),
        })
    }
}

fn call<'a>(reader: &mut Reader<'a>) -> Result<[&'a str; 3], Trouble> {
    reader.array_of(3, "a tool call")?;
    Ok([
        reader.text("the id of a call")?,
        reader.text("the name of a call")?,
        reader.text("the arguments of a call")?,
    ])
}

fn small<T: TryFrom<u64>>(reader: &mut Reader<'_>, what: &str) -> Result<Option<T>, Trouble> {
    let value = reader.optional(|reader| reader.uint(what))?;
    let fits = value.map(|value| T::try_from(value).map_err(|_| what));
    fits.transpose()
        .map_err(|what| Trouble::new(Code::Malformed, format!("{what} is too large")))
}

fn usage(reader: &mut Reader<'_>) -> Result<Usage, Trouble> {
    reader.array_of(4, "the usage")?;
    Ok(Usage {
        input_tokens: small(reader, "a count of tokens")?,
        output_tokens: small(reader, "a count of tokens")?,
        reasoning_tokens: small(reader, "a count of tokens")?,
        cached_tokens: small(reader, "a count of tokens")?,
    })
}

impl Times {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Trouble> {
        fn may<'a>(reader: &mut Reader<'a>) -> Result<Option<Nanos>, Trouble> {
            reader.optional(|reader| reader.uint("a time").map(Nanos))
        }
        reader.array_of(9, "its times")?;
        Ok(Self {
            scheduled: Nanos(reader.uint("a time")?),
            started: Nanos(reader.uint("a time")?),
            submitted: may(reader)?,
            connected: may(reader)?,
            secured: may(reader)?,
            first_byte: may(reader)?,
            first_token: may(reader)?,
            last_token: may(reader)?,
            done: may(reader)?,
        })
    }
}

impl Totals {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Trouble> {
        reader.array_of(5, "the totals")?;
        Ok(Self {
            queries: reader.uint("a count")?,
            ok: reader.uint("a count")?,
            failed: reader.uint("a count")?,
            cancelled: reader.uint("a count")?,
            errors: reader.uint("a count")?,
        })
    }
}
