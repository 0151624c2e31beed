use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::Timeline;

/// Which part of the run a request belongs to, by its scheduled time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before measuring: in no summary.
    Warmup,
    /// Scheduled in the measured window.
    Measured,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The response was complete and sound.
    Ok,
    /// It failed; the name of the error's kind.
    Failed(&'static str),
    /// The client gave it up: the drain deadline or an interrupt.
    Cancelled,
    /// The client gave it up on purpose, as its plan says.
    GivenUp,
}

/// Where a count of output tokens comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenSource {
    /// The server's `usage`.
    Usage,
    /// A tokenizer, over the saved text.
    Tokenizer,
    /// The number of content events: exact only if each carries one token.
    Events,
    /// Nowhere.
    None,
}

/// All that is known of a request at its end.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// Its times.
    pub timeline: Timeline,
    /// Its phase.
    pub phase: Phase,
    /// How it ended.
    pub fate: Fate,
    /// Whether a stream was asked for.
    pub streamed: bool,
    /// The last non-null finish reason.
    pub finish_reason: Option<&'a str>,
    /// Prompt tokens by usage.
    pub input_tokens: Option<u32>,
    /// Prompt tokens by a tokenizer; they count where the server told none.
    pub input_counted: Option<u32>,
    /// Generated tokens by usage or tokenizer; `None` leaves it to the events of a stream.
    pub output_tokens: Option<u32>,
    /// Where `output_tokens` comes from.
    pub token_source: TokenSource,
    /// Whether a tokenizer will count the output tokens after the run. Until then the request goes
    /// by its events; see [`crate::Collector::recount`].
    pub count_later: bool,
    /// Events with non-empty text, reasoning or tool-call delta; 1 for a plain answer with any.
    pub content_events: u32,
    /// Tokens of the first such event, where known: see [`crate::GapLog::first_event_tokens`].
    pub first_event_tokens: Option<u32>,
    /// Content events that came before issuing ended: those count for the throughput.
    pub events_in_window: u32,
    /// Response bytes, heads and framing included.
    pub received_bytes: u64,
    /// How long it waited, due, for a free connection.
    pub pool_wait: Nanos,
    /// How long it waited, due, under a rate's concurrency cap.
    pub cap_wait: Nanos,
    /// How long handing it to the kernel took; `None` where that was not told. See
    /// [`crate::Metric::Send`].
    pub send: Option<Nanos>,
    /// How often it was sent again (a reused idle connection that the server had closed).
    pub retries: u32,
    /// The endpoint that it went to, where there are several.
    pub endpoint: u16,
}

impl Finished<'_> {
    /// A request of which nothing more is known.
    #[must_use]
    pub fn new(phase: Phase, fate: Fate, streamed: bool) -> Self {
        Self {
            timeline: Timeline::default(),
            phase,
            fate,
            streamed,
            finish_reason: None,
            input_tokens: None,
            input_counted: None,
            output_tokens: None,
            token_source: TokenSource::None,
            count_later: false,
            content_events: 0,
            first_event_tokens: None,
            events_in_window: 0,
            received_bytes: 0,
            pool_wait: Nanos::ZERO,
            cap_wait: Nanos::ZERO,
            send: None,
            retries: 0,
            endpoint: 0,
        }
    }

    /// The output tokens and their source: the given count first, else the content events of a
    /// stream. A plain answer without usage has no count.
    #[must_use]
    pub fn output(&self) -> (Option<u32>, TokenSource) {
        match self.output_tokens {
            Some(tokens) => (Some(tokens), self.token_source),
            None if self.streamed => (Some(self.content_events), TokenSource::Events),
            None => (None, TokenSource::None),
        }
    }

    /// TPOT as [`Timeline::tpot`] has it, of a streamed request.
    #[must_use]
    pub fn tpot(&self) -> Option<f64> {
        let (tokens, source) = self.output();
        // Counted by events, the first event is one of them, whatever it carried; a tokenizer sees
        // the whole text and not where its first event ended.
        let first = self
            .first_event_tokens
            .filter(|_| source == TokenSource::Usage);
        self.timeline.tpot(tokens.filter(|_| self.streamed)?, first)
    }
}
