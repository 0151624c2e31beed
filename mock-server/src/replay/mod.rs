//! Answers given again as a run recorded them: replay mode.
//!
//! A [`Replay`] is the measured records of a `records.jsonl`, read once and shared by all shards. The
//! k-th generating request of shard `s` of `S` (bodies that are refused are not counted) is answered as
//! record `s + k S` was; after the last of those the first follows again. A shard beyond the last record
//! repeats record `s` modulo their number.
//!
//! - Times count from the request's arrival, or from its turn where `--max-num-seqs` makes it wait, and
//!   each is absolute: the first token at `first_token_ns - submitted_ns`; further content events at
//!   `event_ns` where that was saved, else evenly up to `last_token_ns`; a whole answer at `done_ns -
//!   submitted_ns`. The head of a stream leaves at once, its end with the last token.
//! - An answer has `output_tokens` tokens (`content_events`, where the server told none) of plain text,
//!   whatever maximum, tools, reasoning or stop strings its request asks for; each choice has as many.
//!   Events bring several where tokens are more, as evenly as whole numbers allow; more than 256 of one
//!   event are cut into several events of the same time. Where tokens are fewer than events, events
//!   without a token are left out, never the first or the last.
//! - Only measured records with a first token or an end count, and errors. A cancelled one is an answer of
//!   what had come. An error is the fault below, after the `n` content events that had come; what goes
//!   wrong does at the time of the end. A request's own `X-Mock-Fault` goes before it, `--fault` rules
//!   after it.
//!
//! | error | fault |
//! | --- | --- |
//! | `http_status` | `status-NNN`; `status-500` where the record has no status from 300 to 599 |
//! | `timeout`, `connect_timeout`, `first_token_timeout`, `event_timeout` | `stall-after-event:at=n` for a stream with events, `stall-after-head` with a byte, else `stall-before-head` |
//! | `connect`, `tls`, `certificate`, `dns`, `send`, `reset` | `reset-before-head`, at once |
//! | `truncated`, `tls_truncated` | `fin-mid-chunk:at=n` |
//! | `in_band` | `error-event:at=n` |
//! | `http_protocol` | `chunk-size-garbled:at=n` with events, else `not-http` |
//! | `sse_protocol` | `html` |
//! | `json` | `json-invalid:at=n` |
//! | `empty` | `zero-tokens` |
//! | `oversize` | `event-oversize:at=n` |
//!
//! A whole answer has one event: its `n` is 0.

mod args;
mod mishap;
mod read;
mod recording;

use std::sync::Arc;

use ridgeline_clock::Nanos;

pub use args::ReplayArgs;
pub use read::ReplayError;
pub(crate) use recording::Recording;

use mishap::Mishap;

/// The answers of a run, to be given again.
///
/// It takes 8 bytes for each content event whose time was saved, and about 64 for each record.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// INVARIANT: not empty.
    records: Box<[Record]>,
    /// Of all records with saved times, one after the other: of each content event, ns after the request
    /// was submitted. INVARIANT: ascending within a record.
    offsets_ns: Box<[u64]>,
}

/// One answer. Times count from its request's submission.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    first: Nanos,
    last: Nanos,
    end: Nanos,
    /// Content events, at least 1.
    events: u32,
    tokens: u32,
    /// Where in `offsets_ns` its events begin; `None`: they are evenly spread.
    offsets_at: Option<usize>,
    /// It ended at its request's maximum.
    is_length: bool,
    mishap: Option<Mishap>,
}

/// Goes through the records of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Replayer {
    replay: Arc<Replay>,
    first: usize,
    step: usize,
    next: usize,
}

impl Replayer {
    /// For shard `shard` of `shards`.
    pub(crate) fn new(replay: &Arc<Replay>, shard: usize, shards: usize) -> Self {
        let first = shard % replay.records.len();
        // A shard that has no record of its own keeps to that one.
        let step = if shard == first {
            shards.max(1)
        } else {
            replay.records.len()
        };
        Self {
            replay: Arc::clone(replay),
            first,
            step,
            next: first,
        }
    }

    /// What the next request is answered with.
    pub(crate) fn next(&mut self) -> Recording {
        let recording = Recording::new(Arc::clone(&self.replay), self.next);
        self.next += self.step;
        if self.next >= self.replay.records.len() {
            self.next = self.first;
        }
        recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_records_out_and_begin_again() {
        let record = Record {
            first: Nanos(1),
            last: Nanos(1),
            end: Nanos(1),
            events: 1,
            tokens: 1,
            offsets_at: None,
            is_length: false,
            mishap: None,
        };
        let replay = Arc::new(Replay {
            records: (0..5).map(|tokens| Record { tokens, ..record }).collect(),
            offsets_ns: Box::default(),
        });
        for (shard, shards, expected) in [
            (0, 1, [0, 1, 2, 3, 4, 0, 1]),
            (0, 2, [0, 2, 4, 0, 2, 4, 0]),
            (1, 2, [1, 3, 1, 3, 1, 3, 1]),
            (4, 5, [4; 7]),
            (6, 8, [1; 7]),
        ] {
            let mut replayer = Replayer::new(&replay, shard, shards);
            let tokens: Vec<_> = (0..7).map(|_| replayer.next().record().tokens).collect();
            assert_eq!(tokens, expected, "shard {shard} of {shards}");
        }
    }
}
