//! The bare socket pair: what kernel receive stamps are worth, against the writer's own clock.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;

use ridgeline_clock::{Bracket, Clock, MonotonicClock, Nanos, realtime_bracket};
use serde::Serialize;

use crate::machine;
use crate::ring::Ring;
use crate::sleeper::{self, IDLE};
use crate::spread::Spread;
use crate::stamp::{self, Stamping};

/// What a socket pair is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Messages per second.
    pub rate: f64,
    /// For how long.
    pub span: Nanos,
    /// Bytes of a message, at least 16.
    pub message_bytes: usize,
    /// Where the writing thread is kept.
    pub write_core: Option<usize>,
    /// Where the reading thread is kept.
    pub read_core: Option<usize>,
}

/// What the kernel's stamps are worth: the truth is the writer's own clock on both sides of its
/// write. Loopback delivers inside the write, so a stamp lies between the two, or the map from the
/// wall clock is off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// Messages written.
    pub messages: u64,
    /// Reads that held exactly one message and a stamp; only they are judged.
    pub judged: u64,
    /// Stamps that lie outside their write by more than the error of the clock map.
    pub outside: u64,
    /// Kernel stamp after the writer's clock just before the write.
    pub stamp_after_write: Spread,
    /// Reader's clock, when it has the bytes, after the same.
    pub read_after_write: Spread,
    /// Two messages one after the other, both ways together by the kernel's stamps: what a TTFT is too long
    /// by.
    pub two_ways: Spread,
    /// The same by the reader's clock.
    pub two_ways_read: Spread,
    /// How far the gap between two messages is from that between their writes, by the kernel's stamps: the
    /// size of the difference.
    pub gap_error: Spread,
    /// The same by the reader's clock.
    pub gap_error_read: Spread,
    /// How long a write took.
    pub write: Spread,
    /// The largest error of the map from wall clock to monotonic clock.
    pub map_error_ns: u64,
}

/// One read: bytes, stamp (wall clock), the reader's clock.
struct Seen {
    bytes: usize,
    stamp: Option<Nanos>,
    read_at: Nanos,
}

/// Writes messages at a constant rate over loopback TCP on one thread and reads them, stamped by
/// the kernel, on another.
///
/// # Errors
/// When a socket or a core can't be had.
pub fn exchange(plan: Exchange) -> io::Result<Truth> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    writer.set_nodelay(true)?;
    let (reader, _) = listener.accept()?;
    stamp::enable(reader.as_fd())?;
    let _stamping = Stamping::start()?;
    let before = realtime_bracket();
    let (writes, reads) = thread::scope(|scope| {
        let reading = scope.spawn(move || read_all(&reader, plan));
        let writes = write_all(&mut writer, plan);
        // The end of the stream is what the reader waits for, after a failed write too.
        drop(writer);
        let reads = reading
            .join()
            .map_err(|_| io::Error::other("the reader panicked"))?;
        Ok::<_, io::Error>((writes?, reads?))
    })?;
    Ok(judge(
        plan.message_bytes,
        &writes,
        &reads,
        [before, realtime_bracket()],
    ))
}

/// The clock before and after each write.
fn write_all(writer: &mut TcpStream, plan: Exchange) -> io::Result<Vec<(Nanos, Nanos)>> {
    plan.write_core.map_or(Ok(()), machine::pin)?;
    machine::set_timer_slack(Nanos(1))?;
    let mut ring = Ring::new(IDLE)?;
    let mut queues = ring.start()?;
    let mut message = vec![0; plan.message_bytes.max(16)];
    let count = sleeper::due_before(plan.rate, plan.span);
    let mut writes = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    let start = MonotonicClock.now() + Nanos::from_millis(1);
    for index in 0..count {
        let due = start + sleeper::due_at(plan.rate, index);
        while sleeper::wait(&mut queues, due, Nanos::ZERO)? < due {}
        let before = MonotonicClock.now();
        message[..8].copy_from_slice(&before.0.to_ne_bytes());
        message[8..16].copy_from_slice(&index.to_ne_bytes());
        writer.write_all(&message)?;
        writes.push((before, MonotonicClock.now()));
    }
    Ok(writes)
}

fn read_all(reader: &TcpStream, plan: Exchange) -> io::Result<Vec<Seen>> {
    plan.read_core.map_or(Ok(()), machine::pin)?;
    let mut piece = vec![0; 65536];
    let mut seen = Vec::new();
    loop {
        let (bytes, stamp) = stamp::receive(reader.as_fd(), &mut piece)?;
        if bytes == 0 {
            return Ok(seen);
        }
        seen.push(Seen {
            bytes,
            stamp,
            read_at: MonotonicClock.now(),
        });
    }
}

fn judge(
    message_bytes: usize,
    writes: &[(Nanos, Nanos)],
    reads: &[Seen],
    brackets: [Bracket; 2],
) -> Truth {
    let signed = |later: Nanos, earlier: Nanos| {
        i64::try_from(i128::from(later.0) - i128::from(earlier.0)).unwrap_or(i64::MAX)
    };
    let [first, last] = brackets;
    // A clock that is slewed drifts between the brackets; the whole drift counts as error.
    let drift = first.offset.max(last.offset) - first.offset.min(last.offset);
    let error = first.error.max(last.error) + drift;
    let bytes = message_bytes.max(16);
    let (mut at, mut outside) = (0, 0);
    let (mut stamps, mut read_times, mut indices) = (Vec::new(), Vec::new(), Vec::new());
    for read in reads {
        let (index, whole) = (at / bytes, at % bytes == 0 && read.bytes == bytes);
        at += read.bytes;
        let (Some(wall), Some(&(before, after)), true) = (read.stamp, writes.get(index), whole)
        else {
            continue;
        };
        let stamp = wall - first.offset;
        stamps.push(signed(stamp, before));
        read_times.push(signed(read.read_at, before));
        indices.push(index);
        outside += u64::from(stamp + error < before || stamp > after + error);
    }
    Truth {
        messages: writes.len() as u64,
        judged: stamps.len() as u64,
        outside,
        two_ways: two_ways(&stamps),
        two_ways_read: two_ways(&read_times),
        gap_error: gap_error(&indices, &stamps),
        gap_error_read: gap_error(&indices, &read_times),
        stamp_after_write: Spread::of(stamps),
        read_after_write: Spread::of(read_times),
        write: Spread::of(
            writes
                .iter()
                .map(|(before, after)| signed(*after, *before))
                .collect(),
        ),
        map_error_ns: error.0,
    }
}

fn two_ways(ways: &[i64]) -> Spread {
    let (pairs, _) = ways.as_chunks::<2>();
    Spread::of(pairs.iter().map(|[there, back]| there + back).collect())
}

/// Of messages that came one after the other, and whose ways are both known.
fn gap_error(indices: &[usize], ways: &[i64]) -> Spread {
    let messages: Vec<_> = indices.iter().zip(ways).collect();
    let gaps = messages.windows(2).filter_map(|two| match two {
        [(before, way), (after, next)] => (**after == **before + 1).then(|| (**next - **way).abs()),
        _ => None,
    });
    Spread::of(gaps.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(offset: u64) -> Bracket {
        Bracket {
            at: Nanos(0),
            offset: Nanos(offset),
            error: Nanos(5),
        }
    }

    #[test]
    fn a_stamp_is_judged_against_its_own_write() {
        let writes = [(100, 110), (200, 210), (300, 310), (400, 410)]
            .map(|(before, after)| (Nanos(before), Nanos(after)));
        let read = |bytes, stamp, read_at| Seen {
            bytes,
            stamp: Some(Nanos(stamp)),
            read_at: Nanos(read_at),
        };
        // The second and third messages came in one read; the last stamp is far too late.
        let reads = [
            read(16, 1_104, 120),
            read(32, 1_305, 320),
            read(16, 1_450, 460),
        ];
        let truth = judge(16, &writes, &reads, [bracket(1_000), bracket(1_000)]);
        assert_eq!((truth.messages, truth.judged, truth.outside), (4, 2, 1));
        assert_eq!(
            (
                truth.stamp_after_write.min_ns,
                truth.stamp_after_write.max_ns
            ),
            (4, 50)
        );
        assert_eq!(truth.read_after_write.max_ns, 60);
        assert_eq!((truth.two_ways.count, truth.two_ways.max_ns), (1, 54));
        assert_eq!(truth.two_ways_read.max_ns, 80);
        // The two that are judged are not neighbours.
        assert_eq!(truth.gap_error.count, 0);
        let slewed = judge(16, &writes, &reads, [bracket(1_000), bracket(1_040)]);
        assert_eq!((slewed.outside, slewed.map_error_ns), (0, 45));
    }

    #[test]
    fn the_error_of_a_gap_is_the_difference_of_two_ways() {
        let spread = gap_error(&[0, 1, 2, 5, 6], &[10, 14, 8, 100, 90]);
        assert_eq!((spread.count, spread.min_ns, spread.max_ns), (3, 4, 10));
        assert_eq!(gap_error(&[], &[]).count, 0);
    }

    #[test]
    fn every_message_is_read_and_stamped() {
        let plan = Exchange {
            // Only a message that is read by itself is judged: gaps that outlast most preemptions.
            rate: 200.0,
            span: Nanos::from_millis(500),
            message_bytes: 200,
            write_core: None,
            read_core: None,
        };
        let truth = exchange(plan).unwrap();
        assert_eq!(truth.messages, 100);
        assert!(truth.judged > 0 && truth.judged <= 100);
        assert!(truth.stamp_after_write.min_ns >= -i64::try_from(truth.map_error_ns).unwrap());
    }
}
