use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Closed, Token};

/// Not an entry of the file table.
pub(crate) const NO_FILE: u32 = u32::MAX;

/// What a completion belongs to, as the ring's 64 bits of user data: generation (32), index (28),
/// operation (4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) op: Op,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Slots, and so connections, are below this.
pub(crate) const INDEX_MAX: u32 = 1 << 28;

/// An operation of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Receive,
    Send,
    Socket,
    Bind,
    Connect,
    Shutdown,
    Close,
    /// `index` is the listener.
    Accept,
    Wake,
    /// An option, a cancellation, the closing of a refused connection: only failures complete, and
    /// they matter to nobody.
    Silent,
}

impl Tag {
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index) << 4 | u64::from(self.op as u8)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    pub(crate) fn unpack(data: u64) -> Self {
        let op = match data & 0xf {
            0 => Op::Receive,
            1 => Op::Send,
            2 => Op::Socket,
            3 => Op::Bind,
            4 => Op::Connect,
            5 => Op::Shutdown,
            6 => Op::Close,
            7 => Op::Accept,
            8 => Op::Wake,
            _ => Op::Silent,
        };
        Self {
            op,
            index: data as u32 >> 4,
            generation: (data >> 32) as u32,
        }
    }
}

/// Where a slot's connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    /// The socket is being made, bound, connected.
    Opening,
    Open,
    /// A send failed: what can still be received is delivered, then it closes.
    Draining,
    /// Operations are cancelled and the socket is closed; waits for the last completion.
    Closing,
}

/// The multishot receive of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    Off,
    Armed,
    /// In the queue of receives to arm again.
    Queued,
}

/// The send at the front of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// There is none, or the connection is not up.
    Idle,
    /// To be handed over at the next enter.
    Ready,
    /// The kernel has it.
    InFlight,
}

/// One send.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
    /// Ordered after the sending side was closed: given back when its turn comes.
    pub(crate) dropped: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    /// Its entry in the file table, or [`NO_FILE`].
    pub(crate) file: u32,
    /// Operations whose last completion is not reaped.
    pub(crate) in_flight: u32,
    pub(crate) phase: Phase,
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    /// The owner wants nothing to be read for now.
    pub(crate) paused: bool,
    /// Whether receives carry kernel stamps.
    pub(crate) stamped: bool,
    /// The owner asked for this end.
    pub(crate) close: Option<Close>,
    /// Why it is gone, once that is known.
    pub(crate) cause: Option<Closed>,
    /// The peer has sent FIN.
    pub(crate) ended: bool,
    /// A shutdown is in flight. The kernel does it on a thread of its own, which looks the file up
    /// only then: until it is done the file's place in the table must not be another's.
    pub(crate) shutting: bool,
    /// Bytes of `front` that are sent.
    pub(crate) offset: usize,
    pub(crate) front: Option<Message>,
    pub(crate) queue: VecDeque<Message>,
    /// No byte of the next read came before this: the last stamp, or when the connection was begun.
    pub(crate) floor: Nanos,
    /// When the last send was handed over.
    pub(crate) submitted: Nanos,
}

impl Slot {
    pub(crate) fn free() -> Self {
        Self {
            generation: 0,
            file: NO_FILE,
            in_flight: 0,
            phase: Phase::Free,
            receiving: Receiving::Off,
            sending: Sending::Idle,
            paused: false,
            stamped: false,
            close: None,
            cause: None,
            ended: false,
            shutting: false,
            offset: 0,
            front: None,
            queue: VecDeque::new(),
            floor: Nanos::ZERO,
            submitted: Nanos::ZERO,
        }
    }

    /// Takes a free slot into use.
    pub(crate) fn start(&mut self, generation: u32, phase: Phase, file: u32, stamped: bool) {
        assert_eq!(self.phase, Phase::Free, "a slot is used once at a time");
        debug_assert!(self.in_flight == 0 && self.front.is_none() && self.queue.is_empty());
        let queue = mem::take(&mut self.queue);
        *self = Self {
            generation,
            phase,
            file,
            stamped,
            queue,
            ..Self::free()
        };
    }

    pub(crate) fn token(&self, index: u32) -> Token {
        Token {
            index,
            generation: self.generation,
        }
    }

    /// Whether received bytes are the owner's to see.
    #[inline]
    pub(crate) fn delivers(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Draining)
            && matches!(self.close, None | Some(Close::Half))
    }

    /// Whether the connection still carries bytes.
    #[inline]
    pub(crate) fn carries(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Draining)
    }

    /// Queues a send behind the others.
    #[inline]
    pub(crate) fn enqueue(&mut self, message: Message) {
        if self.front.is_none() {
            self.front = Some(message);
            self.offset = 0;
        } else {
            self.queue.push_back(message);
        }
    }

    /// Removes the front send, and moves the next one there.
    #[inline]
    pub(crate) fn take_front(&mut self) -> Option<Message> {
        self.sending = Sending::Idle;
        self.offset = 0;
        let front = self.front.take();
        if !self.queue.is_empty() {
            self.front = self.queue.pop_front();
        }
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_the_ring() {
        let ops = [
            Op::Receive,
            Op::Send,
            Op::Socket,
            Op::Bind,
            Op::Connect,
            Op::Shutdown,
            Op::Close,
            Op::Accept,
            Op::Wake,
            Op::Silent,
        ];
        for op in ops {
            for (index, generation) in [(0, 0), (INDEX_MAX - 1, u32::MAX), (77, 1 << 31)] {
                let tag = Tag {
                    op,
                    index,
                    generation,
                };
                assert_eq!(Tag::unpack(tag.pack()), tag);
            }
        }
    }

    #[test]
    fn sends_leave_in_the_order_they_came() {
        let mut slot = Slot::free();
        for byte in 0..4 {
            slot.enqueue(Message {
                head: vec![byte],
                body: Bytes::new(),
                dropped: false,
            });
        }
        for byte in 0..4 {
            assert_eq!(slot.take_front().map(|send| send.head), Some(vec![byte]));
        }
        assert!(slot.take_front().is_none());
    }
}
