use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use ridgeline_net::{Commands, Token};
use ridgeline_transport::Queued;

use crate::zmtp::frame;

/// Messages are gathered in pieces of this size: one send of the driver for many small messages.
const CHUNK_BYTES: usize = 64 << 10;

/// Sends that the driver has at once: one that the kernel works on, and the next.
const SENDS_MAX: usize = 2;

/// Pieces kept for use again.
const SPARE_MAX: usize = 32;

/// Pieces that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn take(&mut self) -> Vec<u8> {
        self.0
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES))
    }

    fn give(&mut self, mut chunk: Vec<u8>) {
        if self.0.len() < SPARE_MAX && (CHUNK_BYTES..2 * CHUNK_BYTES).contains(&chunk.capacity()) {
            chunk.clear();
            self.0.push(chunk);
        }
    }
}

/// What an outbox needs to hand something over.
#[derive(Debug)]
pub(crate) struct Way<'a> {
    pub(crate) commands: &'a mut Commands,
    pub(crate) token: Token,
    pub(crate) spare: &'a mut Spare,
}

/// One send of the driver.
#[derive(Debug)]
struct Load {
    head: Vec<u8>,
    body: Bytes,
    /// The messages that end in it, and its bytes.
    count: Queued,
}

/// What waits to be sent on one connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Being filled.
    chunk: Vec<u8>,
    chunk_messages: u64,
    /// Full.
    waiting: VecDeque<Load>,
    /// The driver has them.
    under_way: VecDeque<Queued>,
    queued: Queued,
}

impl Outbox {
    /// Everything that is not handed over yet.
    pub(crate) const fn queued(&self) -> Queued {
        self.queued
    }

    /// Queues one message as a frame.
    #[inline]
    pub(crate) fn put(&mut self, flags: u8, message: &[u8], way: &mut Way<'_>) {
        let (header, count) = frame::header(flags, message.len());
        let bytes = count + message.len();
        if self.chunk.len() + bytes <= CHUNK_BYTES {
            self.open_chunk(way);
            self.chunk.extend_from_slice(&header[..count]);
            self.chunk.extend_from_slice(message);
        } else {
            self.put_split(&header[..count], way);
            self.put_split(message, way);
        }
        self.count(1, bytes);
        if self.chunk.len() == CHUNK_BYTES {
            self.close_chunk(way, Bytes::new());
        }
    }

    /// Queues one message as a frame without copying it.
    pub(crate) fn put_shared(&mut self, flags: u8, message: Bytes, way: &mut Way<'_>) {
        let (header, count) = frame::header(flags, message.len());
        if self.chunk.is_empty() {
            // Not a whole piece for a few bytes.
            self.chunk = header[..count].to_vec();
        } else {
            self.put_split(&header[..count], way);
        }
        self.count(1, count + message.len());
        self.close_chunk(way, message);
    }

    /// Queues one message whose frame is made already.
    pub(crate) fn put_frame(&mut self, frame: &[u8], way: &mut Way<'_>) {
        self.put_split(frame, way);
        self.count(1, frame.len());
    }

    /// Queues bytes that are no message: of the protocol's own.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8], way: &mut Way<'_>) {
        self.put_split(bytes, way);
        self.queued.bytes += bytes.len() as u64;
    }

    fn count(&mut self, messages: u64, bytes: usize) {
        self.chunk_messages += messages;
        self.queued.messages += messages;
        self.queued.bytes += bytes as u64;
    }

    #[inline]
    fn open_chunk(&mut self, way: &mut Way<'_>) {
        if self.chunk.capacity() == 0 {
            self.chunk = way.spare.take();
        }
    }

    fn put_split(&mut self, mut bytes: &[u8], way: &mut Way<'_>) {
        while !bytes.is_empty() {
            if self.chunk.len() >= CHUNK_BYTES {
                self.close_chunk(way, Bytes::new());
            }
            self.open_chunk(way);
            let room = CHUNK_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
        }
    }

    fn close_chunk(&mut self, way: &mut Way<'_>, body: Bytes) {
        let head = mem::take(&mut self.chunk);
        let count = Queued {
            messages: mem::take(&mut self.chunk_messages),
            bytes: (head.len() + body.len()) as u64,
        };
        self.waiting.push_back(Load { head, body, count });
        self.advance(way);
    }

    fn advance(&mut self, way: &mut Way<'_>) {
        while self.under_way.len() < SENDS_MAX
            && let Some(load) = self.waiting.pop_front()
        {
            self.under_way.push_back(load.count);
            way.commands.send(way.token, load.head, load.body);
        }
    }

    /// Hands over what there is, full or not, unless the driver is still busy with what it has: then
    /// more may gather.
    #[inline]
    pub(crate) fn flush(&mut self, way: &mut Way<'_>) {
        if self.under_way.is_empty() && !self.chunk.is_empty() {
            self.close_chunk(way, Bytes::new());
        }
    }

    /// Hands over everything at once: the last of this connection.
    pub(crate) fn flush_all(&mut self, way: &mut Way<'_>) {
        if !self.chunk.is_empty() {
            self.close_chunk(way, Bytes::new());
        }
        while let Some(load) = self.waiting.pop_front() {
            self.under_way.push_back(load.count);
            way.commands.send(way.token, load.head, load.body);
        }
    }

    /// The driver gives a send back. Returns what it was.
    pub(crate) fn sent(&mut self, head: Vec<u8>, way: &mut Way<'_>) -> Queued {
        let sent = self.under_way.pop_front().unwrap_or_default();
        self.queued.messages = self.queued.messages.saturating_sub(sent.messages);
        self.queued.bytes = self.queued.bytes.saturating_sub(sent.bytes);
        way.spare.give(head);
        self.advance(way);
        self.flush(way);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ridgeline_net::Command;

    /// Plays a driver that takes sends in order.
    fn drain(commands: &mut Commands, out: &mut Vec<u8>) -> Vec<Vec<u8>> {
        commands
            .drain()
            .filter_map(|command| match command {
                Command::Send { head, body, .. } => {
                    out.extend_from_slice(&head);
                    out.extend_from_slice(&body);
                    Some(head)
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn messages_of_all_sizes_become_one_stream_and_are_counted() {
        let token = Token {
            index: 0,
            generation: 0,
        };
        let (mut commands, mut spare) = (Commands::default(), Spare::default());
        let mut outbox = Outbox::default();
        let (mut expected, mut stream) = (Vec::new(), Vec::new());
        for number in 0..400_usize {
            let bytes = [0, 5, 300, CHUNK_BYTES - 9, CHUNK_BYTES, 150_000][number % 6];
            let message = vec![u8::try_from(number % 251).unwrap(); bytes];
            frame::put(&mut expected, 0, &message);
            let mut way = Way {
                commands: &mut commands,
                token,
                spare: &mut spare,
            };
            if number % 7 == 0 {
                outbox.put_shared(0, Bytes::from(message), &mut way);
            } else {
                outbox.put(0, &message, &mut way);
            }
        }
        assert_eq!(
            outbox.queued(),
            Queued {
                messages: 400,
                bytes: expected.len() as u64
            }
        );
        let mut messages = 0;
        while outbox.queued().bytes > 0 {
            let heads = drain(&mut commands, &mut stream);
            assert!(heads.len() <= SENDS_MAX);
            let mut way = Way {
                commands: &mut commands,
                token,
                spare: &mut spare,
            };
            if heads.is_empty() {
                outbox.flush(&mut way);
            }
            for head in heads {
                messages += outbox.sent(head, &mut way).messages;
            }
        }
        assert_eq!(messages, 400);
        assert!(stream == expected, "the stream differs");
        assert_eq!(outbox.queued(), Queued::default());
    }
}
