use std::borrow::Cow;

use ridgeline_clock::Nanos;
use ridgeline_metrics::{Phase, Timeline, TokenSource, Uncounted};
use ridgeline_wire::exchange::{ErrorKind, Saved};
use ridgeline_wire::openai::{FinishReason, Usage};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Complete, and it generated something.
    Ok,
    /// Failed, of the given kind.
    Error(ErrorKind),
    /// Still in flight when the drain deadline or the user ended the run.
    Cancelled,
}

/// One finished request. Fixed size; what varies (`details`) is there only where it was asked
/// for or something failed.
#[derive(Debug)]
pub struct Record {
    /// Position in the global schedule, warm-up first.
    pub index: u64,
    /// The sample of the data set that was sent.
    pub sample: u32,
    /// Warm-up or measured.
    pub phase: Phase,
    /// The shard that sent it.
    pub shard: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The status of the response, if one came.
    pub http_status: Option<u16>,
    /// The last one that was not null.
    pub finish_reason: Option<FinishReason>,
    /// Its times, on the machine's monotonic clock.
    pub timeline: Timeline,
    /// When the connection was up, if a new one was needed.
    pub connected: Option<Nanos>,
    /// When that connection's TLS handshake was over, if it has TLS.
    pub secured: Option<Nanos>,
    /// Tokens as the server counted them.
    pub usage: Usage,
    /// Where the output token count of the summaries comes from.
    pub token_source: TokenSource,
    /// Tokens of the input as a tokenizer counts them, where the server did not. Not of warm-up.
    pub input_counted: Option<u32>,
    /// Events (or whole answers) with text, reasoning or a tool call.
    pub content_events: u32,
    /// Attempts beyond the first.
    pub retries: u32,
    /// The longest that bytes of this answer lay in the machine before they were read.
    pub harness_delay_max: Nanos,
    /// The widest uncertainty of the arrival of an event of this answer: of those that came in one
    /// read, all but the last may have come earlier than their stamp.
    pub stamp_width_max: Nanos,
    /// The name of the request on the wire (see `requests::RequestId`).
    pub run_id: u32,
    /// What varies in size.
    pub details: Option<Box<Details>>,
}

/// The parts of a record that vary in size.
#[derive(Debug, Default)]
pub struct Details {
    /// Of a failed request: what happened, in words.
    pub message: Option<Cow<'static, str>>,
    /// Under `--save-text`.
    pub saved: Option<Box<Saved>>,
    /// Where the output tokens are to be counted after the run, from what was saved.
    pub uncounted: Option<Uncounted>,
    /// Under `--save-events`: arrival of each content event.
    pub events_at: Option<Vec<Nanos>>,
}
