use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};

use super::bell::Bell;
use crate::{Cause, Flow, Limits, PeerId, Queued, Receiver, Refused};

/// Before each message: its length, little-endian.
pub(super) const PREFIX_BYTES: usize = 4;

/// What is read before room is given back to the sender, so that it does not wait for all of it.
const READ_BYTES: usize = 64 << 10;

/// What both sides of one direction know. The ring tells of bytes; these are counted beside it.
#[derive(Debug, Default)]
struct Shared {
    /// Messages put in, by the sender alone.
    put: AtomicU64,
    /// Messages taken out, by the receiver alone.
    taken: AtomicU64,
    /// The sender was refused, and waits for room.
    starving: AtomicBool,
}

impl Shared {
    fn waiting(&self) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        self.put.load(Ordering::Acquire).saturating_sub(taken)
    }
}

/// The sending half of a link.
#[derive(Debug)]
pub(super) struct Out {
    ring: Producer<u8>,
    shared: Arc<Shared>,
    messages_max: u64,
    there: Arc<Bell>,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct In {
    ring: Consumer<u8>,
    shared: Arc<Shared>,
    messages_max: u64,
    there: Arc<Bell>,
    /// Where a message is joined that lies across the ring's end.
    joined: Vec<u8>,
}

/// One direction: from the end whose limits these are, to the other.
pub(super) fn direction(limits: &Limits, from: &Arc<Bell>, to: &Arc<Bell>) -> (Out, In) {
    let (producer, consumer) = RingBuffer::new(limits.queue_bytes(PREFIX_BYTES));
    let shared = Arc::new(Shared::default());
    let messages_max = limits.queued_messages_max.max(1);
    let out = Out {
        ring: producer,
        shared: Arc::clone(&shared),
        messages_max,
        there: Arc::clone(to),
    };
    let into = In {
        ring: consumer,
        shared,
        messages_max,
        there: Arc::clone(from),
        joined: Vec::new(),
    };
    (out, into)
}

impl Out {
    /// What the other end sleeps on.
    pub(super) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.there)
    }

    /// Whether the other end has been dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Whether the other end has made room since a message was refused.
    pub(super) fn has_room_again(&self) -> bool {
        !self.shared.starving.load(Ordering::Acquire)
    }

    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        self.ring.slots() >= bytes && self.shared.waiting() < self.messages_max
    }

    #[inline]
    pub(super) fn put(&mut self, message: &[u8]) -> Result<(), Refused> {
        let bytes = PREFIX_BYTES + message.len();
        if !self.has_room(bytes) {
            // Said before the second look: room made after that look is told.
            self.shared.starving.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !self.has_room(bytes) {
                return Err(Refused::Full);
            }
            self.shared.starving.store(false, Ordering::Relaxed);
        }
        let length = u32::try_from(message.len()).map_err(|_| Refused::Full)?;
        // There is room for both, and nobody else writes.
        let prefix = self.ring.push_entire_slice(&length.to_le_bytes());
        let pushed = prefix.and_then(|()| self.ring.push_entire_slice(message));
        debug_assert!(pushed.is_ok(), "room was looked for");
        let put = self.shared.put.load(Ordering::Relaxed);
        self.shared.put.store(put + 1, Ordering::Release);
        self.there.ring();
        Ok(())
    }

    pub(super) fn queued(&self) -> Queued {
        let free = self.ring.slots();
        Queued {
            messages: self.shared.waiting(),
            bytes: (self.ring.buffer().capacity() - free) as u64,
        }
    }
}

impl In {
    /// Whether there is something to read.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ring.slots() > 0
    }

    /// Whether the other end has been dropped, and everything it sent was read.
    pub(super) fn is_over(&self) -> bool {
        // In this order: what it sent before it went is seen after it is seen to be gone.
        self.ring.is_abandoned() && self.ring.slots() == 0
    }

    /// Delivers up to `bytes_max` bytes of messages, or until the receiver holds. Returns how many
    /// messages.
    pub(super) fn deliver<R: Receiver>(
        &mut self,
        peer: PeerId,
        bytes_max: usize,
        receiver: &mut R,
    ) -> (u64, Flow) {
        let (mut total, mut read) = (0, 0);
        while read < bytes_max {
            let (messages, bytes, flow) = self.deliver_some(peer, receiver);
            if messages == 0 {
                break;
            }
            total += messages;
            read += bytes;
            self.taken(messages);
            if flow == Flow::Hold {
                return (total, flow);
            }
        }
        (total, Flow::More)
    }

    #[inline]
    fn deliver_some<R: Receiver>(&mut self, peer: PeerId, receiver: &mut R) -> (u64, usize, Flow) {
        let (mut messages, mut read, mut flow) = (0, 0, Flow::More);
        let slots = self.ring.slots();
        let Ok(chunk) = self.ring.read_chunk(slots) else {
            return (messages, read, flow);
        };
        let (first, second) = chunk.as_slices();
        while read < READ_BYTES && flow == Flow::More {
            let Some(prefix) = part(first, second, read, PREFIX_BYTES, &mut self.joined) else {
                break;
            };
            let length = prefix
                .iter()
                .rev()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            let start = read + PREFIX_BYTES;
            // The sender may be between the two.
            let Some(message) = part(first, second, start, length, &mut self.joined) else {
                break;
            };
            flow = receiver.message(peer, message);
            messages += 1;
            read = start + length;
        }
        chunk.commit(read);
        (messages, read, flow)
    }

    /// Tells the sender of room, if it waits for it: not for each message, but when half is free.
    fn taken(&mut self, messages: u64) {
        let taken = self.shared.taken.load(Ordering::Relaxed);
        self.shared.taken.store(taken + messages, Ordering::Release);
        fence(Ordering::SeqCst);
        if !self.shared.starving.load(Ordering::Relaxed) {
            return;
        }
        let half = self.ring.buffer().capacity() / 2;
        if self.ring.slots() <= half && self.shared.waiting() <= self.messages_max / 2 {
            self.shared.starving.store(false, Ordering::Release);
            self.there.ring();
        }
    }
}

/// `count` bytes from `start` of two slices that follow one another, joined if they must be.
#[inline]
fn part<'a>(
    first: &'a [u8],
    second: &'a [u8],
    start: usize,
    count: usize,
    joined: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let end = start + count;
    if end <= first.len() {
        return Some(&first[start..end]);
    }
    if let Some(start) = start.checked_sub(first.len()) {
        return second.get(start..end - first.len());
    }
    let rest = second.get(..end - first.len())?;
    joined.clear();
    joined.extend_from_slice(&first[start..]);
    joined.extend_from_slice(rest);
    Some(joined)
}

/// One peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) out: Out,
    pub(super) into: In,
    pub(super) who: String,
    pub(super) is_told: bool,
    /// A message was refused, and nothing was told since.
    pub(super) was_full: bool,
    pub(super) parting: bool,
}

impl Link {
    pub(super) fn new(out: Out, into: In, who: String) -> Self {
        Self {
            out,
            into,
            who,
            is_told: false,
            was_full: false,
            parting: false,
        }
    }

    /// Why it is over, if it is.
    pub(super) fn over(&self) -> Option<Cause> {
        if self.parting {
            // What is in the ring is read by the other side even when this one is gone.
            return Some(Cause::Local);
        }
        self.into.is_over().then_some(Cause::Closed)
    }

    /// Whether a turn has something to do here. `held`: the receiver takes nothing.
    pub(super) fn is_ready(&self, held: bool) -> bool {
        !self.is_told
            || (!held && self.into.is_ready())
            || (self.was_full && self.out.has_room_again())
            || self.over().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_on_either_side_and_across() {
        let (first, second) = ([0, 1, 2], [3, 4]);
        let mut joined = Vec::new();
        for start in 0..=5 {
            for count in 0..=6 {
                let expected: Option<Vec<u8>> = (start + count <= 5).then(|| {
                    (start..start + count)
                        .map(|byte| u8::try_from(byte).unwrap())
                        .collect()
                });
                let found = part(&first, &second, start, count, &mut joined).map(<[u8]>::to_vec);
                assert_eq!(found, expected, "{count} from {start}");
            }
        }
    }
}
