//! Connections that carry many exchanges at a time: HTTP/2.

mod hear;
mod room;
mod send;

use ridgeline_http2::{Abort, Connection, Counters, Limits, StreamId};
use ridgeline_wire::carry::Carry;

/// How often a request is sent again that servers did not begin with. More than a server that goes away
/// needs; one that refuses everything is found out.
const UNPROCESSED_MAX: u32 = 8;

/// Bytes that came and wait until something was sent: a connection with more is not read from until then.
const HELD_BYTES_MAX: usize = 256 << 10;

/// That connections speak HTTP/2, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Streams at a time on each connection, and windows.
    pub limits: Limits,
    /// Whether it must be: in the clear by prior knowledge, and behind TLS a server that chooses another protocol
    /// fails. If not, HTTP/1.1 is spoken in the clear, and behind TLS what the server chooses.
    pub required: bool,
}

/// What HTTP/2 connections counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Counts {
    /// Connections that spoke it.
    pub connections: u64,
    /// Streams begun.
    pub streams: u64,
    /// Streams that the server did not begin with, and that were sent again.
    pub unprocessed: u64,
    /// How often the rest of a request had to wait for a window of the server.
    pub send_stalls: u64,
    /// How often the server had to wait for a window of ours.
    pub receive_stalls: u64,
}

impl Http2Counts {
    /// Adds what was counted elsewhere.
    pub const fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.streams += other.streams;
        self.unprocessed += other.unprocessed;
        self.send_stalls += other.send_stalls;
        self.receive_stalls += other.receive_stalls;
    }

    const fn of(counters: Counters) -> Self {
        Self {
            connections: 1,
            streams: counters.streams,
            unprocessed: counters.unprocessed,
            send_stalls: counters.send_stalls,
            receive_stalls: counters.receive_stalls,
        }
    }
}

/// What a shard knows of an endpoint and HTTP/2.
#[derive(Debug)]
pub(crate) struct Speech {
    /// Whether the endpoint speaks it, once that is known; known from the start where nothing is chosen.
    pub(crate) spoken: Option<bool>,
    /// Streams that a connection carries, as far as servers have said.
    each: u32,
}

impl Speech {
    pub(crate) fn new(http2: Option<&Http2>, is_secure: bool) -> Self {
        Self {
            spoken: match http2 {
                None => Some(false),
                Some(http2) if http2.required => Some(true),
                // The server chooses.
                Some(_) => (!is_secure).then_some(false),
            },
            each: http2.map_or(1, |http2| http2.limits.streams_max.max(1)),
        }
    }
}

/// The streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    h2: Connection,
    /// By [`StreamId::place`].
    places: Vec<Place>,
    /// Places that the read at hand has something for.
    touched: Vec<u32>,
    /// Requests that go with the next send.
    made: Vec<Sent>,
    /// Requests of the send that is under way.
    under_way: Vec<Sent>,
    /// Whether the kernel was given it.
    is_submitted: bool,
    /// The session of the latest request.
    session: Option<u64>,
    /// Sends that the driver has. One at a time, so that no more waits in it than that: but TLS may have
    /// something to say besides.
    sends: u32,
    /// Nothing is read before something was sent.
    is_paused: bool,
}

/// A request in a send: a slot has another one when its answer was quicker.
#[derive(Clone, Copy, Debug)]
struct Sent {
    slot: u32,
    index: u64,
}

/// One stream's place.
#[derive(Debug)]
struct Place {
    slot: Option<u32>,
    number: u32,
    /// The start of an event that a frame cut.
    carry: Carry,
    is_touched: bool,
    /// Content events of the read at hand.
    count: u32,
    fate: Option<Fate>,
}

/// How a stream ended.
#[derive(Debug)]
enum Fate {
    Done {
        reusable: bool,
    },
    Aborted(Abort),
    /// The plan cancels it.
    GivenUp,
}

impl Streams {
    fn new(limits: &Limits, carry_inline_bytes: usize) -> Self {
        let place = || Place {
            slot: None,
            number: 0,
            carry: Carry::new(carry_inline_bytes),
            is_touched: false,
            count: 0,
            fate: None,
        };
        let count = limits.streams_max.max(1) as usize;
        Self {
            h2: Connection::new(limits),
            places: std::iter::repeat_with(place).take(count).collect(),
            touched: Vec::new(),
            made: Vec::new(),
            under_way: Vec::new(),
            is_submitted: false,
            session: None,
            sends: 0,
            is_paused: false,
        }
    }

    /// A slot that it carries, while it carries any.
    pub(crate) fn any_slot(&self) -> Option<u32> {
        self.places.iter().find_map(|place| place.slot)
    }

    /// Lets go of a slot that it carries.
    pub(crate) fn take_any(&mut self) -> Option<u32> {
        self.places.iter_mut().find_map(|place| place.slot.take())
    }

    /// Something else than output of the streams was handed to the driver.
    pub(crate) fn also_sends(&mut self) {
        self.sends += 1;
    }

    /// Resets the stream of a place.
    fn cancel(&mut self, place: u32) {
        let number = self.places[place as usize].number;
        self.h2.cancel(StreamId { place, number });
    }

    fn touch(&mut self, place: u32) {
        let is_touched = &mut self.places[place as usize].is_touched;
        if !std::mem::replace(is_touched, true) {
            self.touched.push(place);
        }
    }
}
