//! Passes over a stream in memory: the speed of searching and of copying.

use std::hint::black_box;

use memchr::memmem::Finder;
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use serde::Serialize;

use crate::payload::{self, EVENT};

/// One kind of pass over a stream in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Copies it: what a client pays that does not scan in place.
    Memcpy,
    /// Counts the line ends, without their places: the least that reads every byte.
    CountLines,
    /// Finds the place of every line end.
    FindLines,
    /// Finds the place of every `data: `.
    FindEvents,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Memcpy,
        Self::CountLines,
        Self::FindLines,
        Self::FindEvents,
    ];
}

/// The speed of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Which pass.
    pub kind: Kind,
    /// Bytes of the stream.
    pub stream_bytes: usize,
    /// Events in the stream.
    pub stream_events: u64,
    /// Passes made.
    pub passes: u64,
    /// The time of the fastest pass.
    pub fastest_ns: u64,
    /// 10^9 bytes per second, by the fastest pass.
    pub gigabytes_per_s: f64,
    /// Events per second, by the fastest pass.
    pub events_per_s: f64,
}

/// A chat stream of about `bytes` bytes, and its number of events.
#[must_use]
pub fn stream_of(bytes: usize) -> (Vec<u8>, u64) {
    let one = payload::stream(1000).concat();
    let count = bytes.div_ceil(one.len()).max(1);
    (
        one.repeat(count),
        count as u64 * (1000 + payload::EVENTS_AROUND),
    )
}

/// Passes over `stream` again and again for `span`, at least 3 times.
///
/// # Panics
/// When a pass finds another number of events or lines than there are: its speed means nothing.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "rates of counts far below 2^53")]
pub fn measure(kind: Kind, stream: &[u8], events: u64, span: Nanos) -> Speed {
    let lines = memchr::memchr_iter(b'\n', stream).count() as u64;
    let mut copy = vec![0; stream.len()];
    let find = Finder::new(EVENT);
    let (start, mut passes, mut fastest) = (MonotonicClock.now(), 0, Nanos::MAX);
    while passes < 3 || MonotonicClock.now() - start < span {
        let from = MonotonicClock.now();
        let (found, there) = pass(kind, black_box(stream), &mut copy, &find, (lines, events));
        fastest = fastest.min(MonotonicClock.now() - from);
        assert_eq!(found, there, "{kind:?}");
        passes += 1;
    }
    let seconds = fastest.max(Nanos(1)).as_secs_f64();
    Speed {
        kind,
        stream_bytes: stream.len(),
        stream_events: events,
        passes,
        fastest_ns: fastest.0,
        gigabytes_per_s: stream.len() as f64 / seconds / 1e9,
        events_per_s: events as f64 / seconds,
    }
}

/// One pass: what it found, and what there is.
fn pass(
    kind: Kind,
    stream: &[u8],
    copy: &mut [u8],
    find: &Finder<'_>,
    (lines, events): (u64, u64),
) -> (u64, u64) {
    // A place has to be used, or counting would do.
    let places = |places: &mut dyn Iterator<Item = usize>| {
        let (count, sum) = places.fold((0, 0_usize), |(n, s), at| (n + 1, s.wrapping_add(at)));
        black_box(sum);
        count
    };
    match kind {
        Kind::Memcpy => {
            copy.copy_from_slice(stream);
            (u64::from(black_box(&*copy).last() == stream.last()), 1)
        }
        Kind::CountLines => (memchr::memchr_iter(b'\n', stream).count() as u64, lines),
        Kind::FindLines => {
            let mut from = memchr::memchr_iter(b'\n', stream);
            (places(&mut from), lines)
        }
        Kind::FindEvents => (places(&mut find.find_iter(stream)), events),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_finds_what_is_there() {
        let (stream, events) = stream_of(300_000);
        assert!(stream.len() >= 300_000 && events == 2 * 1004);
        for kind in Kind::ALL {
            let speed = measure(kind, &stream, events, Nanos::ZERO);
            assert_eq!(speed.passes, 3);
            assert!(speed.gigabytes_per_s > 0.0 && speed.events_per_s > 0.0);
        }
    }
}
