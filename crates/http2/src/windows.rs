//! Whether the server had to wait for our windows. RFC 9113 sections 5.2 and 6.9.
//!
//! What it may still send it knows later than we do: an update is on its way while bytes come that were
//! sent before it. But a server that waits has sent exactly what it was allowed by then. So a stall is
//! counted where the bytes received reach one of the latest limits that were given.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::frames::{Kind, Seen};

/// A connection's window before any update. SETTINGS don't change it.
const CONNECTION_WINDOW_BYTES: u64 = 65_535;
/// The flag of a stream's last frame.
const END_STREAM: u8 = 1;
/// Limits that are remembered: h2 gives a new one when a third of the window is used, so that at most
/// three are on their way.
const LIMITS: usize = 4;

/// The windows of one connection that the server sends into.
#[derive(Debug)]
pub(crate) struct Windows {
    stream_bytes: u64,
    connection: Window,
    /// By stream number.
    streams: HashMap<u32, Window, BuildHasherDefault<Spread>>,
    stalls: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    received: u64,
    /// The latest limits, the last of them first.
    limits: [u64; LIMITS],
}

impl Window {
    const fn new(bytes: u64) -> Self {
        let mut limits = [0; LIMITS];
        limits[0] = bytes;
        Self {
            received: 0,
            limits,
        }
    }

    fn grant(&mut self, bytes: u32) {
        // What was given before anything was asked for is known before anything is answered.
        if self.received > 0 {
            self.limits.copy_within(..LIMITS - 1, 1);
        }
        self.limits[0] += u64::from(bytes);
    }

    /// Whether the sender of these bytes had to wait after them.
    fn receive(&mut self, bytes: u32) -> bool {
        self.received += u64::from(bytes);
        bytes > 0 && self.limits.contains(&self.received)
    }
}

impl Windows {
    /// Each stream begins with `stream_bytes`; `streams_max` of them are open at most.
    pub(crate) fn new(stream_bytes: u32, streams_max: u32) -> Self {
        Self {
            stream_bytes: stream_bytes.into(),
            connection: Window::new(CONNECTION_WINDOW_BYTES),
            streams: HashMap::with_capacity_and_hasher(
                streams_max as usize,
                BuildHasherDefault::default(),
            ),
            stalls: 0,
        }
    }

    /// A stream begins.
    pub(crate) fn open(&mut self, number: u32) {
        self.streams.insert(number, Window::new(self.stream_bytes));
    }

    /// A stream is over.
    pub(crate) fn close(&mut self, number: u32) {
        self.streams.remove(&number);
    }

    /// A frame that we send.
    pub(crate) fn sent(&mut self, seen: Seen) {
        match (seen.kind, seen.stream) {
            (Kind::WindowUpdate, 0) => self.connection.grant(seen.word),
            (Kind::WindowUpdate, number) => {
                if let Some(window) = self.streams.get_mut(&number) {
                    window.grant(seen.word);
                }
            }
            _ => {}
        }
    }

    /// A frame that the server sent.
    pub(crate) fn received(&mut self, seen: Seen) {
        if seen.kind != Kind::Data {
            return;
        }
        // Nothing waits behind the last frame of a stream, as far as that stream goes.
        let is_last = seen.flags & END_STREAM != 0;
        let others = self.streams.len() > 1;
        let connection = self.connection.receive(seen.len) && (others || !is_last);
        let stream = self
            .streams
            .get_mut(&seen.stream)
            .is_some_and(|window| window.receive(seen.len) && !is_last);
        self.stalls += u64::from(connection) + u64::from(stream);
    }

    /// How often a window was used up.
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls
    }
}

/// Spreads stream numbers, which we choose ourselves: no peer can make them collide.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 over the golden ratio.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: Kind, stream: u32, len: u32, word: u32) -> Seen {
        Seen {
            kind,
            flags: 0,
            stream,
            len,
            word,
        }
    }

    #[test]
    fn a_stall_is_where_a_limit_was_reached_and_nowhere_else() {
        let mut windows = Windows::new(100, 2);
        windows.open(1);
        windows.received(seen(Kind::Data, 1, 99, 0));
        assert_eq!(windows.stalls(), 0);
        // Two updates were on their way when the server stopped at its first limit, and at its second.
        windows.sent(seen(Kind::WindowUpdate, 1, 4, 50));
        windows.sent(seen(Kind::WindowUpdate, 1, 4, 50));
        windows.received(seen(Kind::Data, 1, 1, 0));
        assert_eq!(windows.stalls(), 1);
        windows.received(seen(Kind::Data, 1, 20, 0));
        windows.received(seen(Kind::Data, 1, 30, 0));
        assert_eq!(windows.stalls(), 2);
        windows.received(seen(Kind::Data, 1, 0, 0));
        windows.received(seen(Kind::Data, 1, 49, 0));
        let last = Seen {
            flags: END_STREAM,
            ..seen(Kind::Data, 1, 1, 0)
        };
        windows.received(last);
        assert_eq!(windows.stalls(), 2);
    }

    #[test]
    fn a_limit_that_was_raised_before_anything_came_is_none() {
        let mut windows = Windows::new(1 << 20, 1);
        windows.open(1);
        windows.sent(seen(Kind::WindowUpdate, 0, 4, 1 << 20));
        windows.received(seen(Kind::Data, 1, 65_535, 0));
        assert_eq!(windows.stalls(), 0);
    }

    #[test]
    fn the_connections_window_counts_for_all_streams() {
        let mut windows = Windows::new(1 << 20, 2);
        windows.open(1);
        windows.open(3);
        windows.received(seen(Kind::Data, 1, 65_000, 0));
        windows.received(seen(Kind::Data, 3, 535, 0));
        assert_eq!(windows.stalls(), 1);
        windows.sent(seen(Kind::WindowUpdate, 0, 4, 1000));
        windows.close(1);
        windows.received(seen(Kind::Data, 1, 1000, 0));
        assert_eq!(windows.stalls(), 2);
    }
}
