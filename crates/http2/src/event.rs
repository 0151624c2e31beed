use ridgeline_wire::http1::Part;
use thiserror::Error;

use crate::answer::Abort;

/// Names a stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// Which of the connection's places it has, below [`crate::Limits::streams_max`]: used again when it is over.
    pub place: u32,
    /// Its number in the protocol, never used again.
    pub number: u32,
}

/// What a connection tells, in the order in which it came on each stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The next part of a response. After [`Part::End`] nothing is told of the stream.
    Part {
        /// Whose.
        stream: StreamId,
        /// The part; data is lent until the next call.
        part: Part<'a>,
    },
    /// A stream ended otherwise. Nothing more is told of it.
    Aborted {
        /// Which.
        stream: StreamId,
        /// Why.
        abort: Abort,
    },
}

/// Why a request can't be sent here and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// As many streams are open as the server allows, or [`crate::Limits::streams_max`].
    #[error("the connection has as many streams as it may have")]
    Full,
    /// Never again on this connection: an end goes away, the connection is gone, or its numbers are used up.
    #[error("the connection takes no more requests")]
    Closing,
}

/// What a connection counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Streams begun.
    pub streams: u64,
    /// Streams that the server did not begin with: refused, or above the last of its GOAWAY.
    pub unprocessed: u64,
    /// How often the rest of a request's body had to wait for a window of the server.
    pub send_stalls: u64,
    /// How often the server used up one of our windows, and had to wait.
    pub receive_stalls: u64,
}
