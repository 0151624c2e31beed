//! Messages between two threads through a single-producer single-consumer ring, as records go from a
//! shard to the thread that writes them; and the same bytes copied by one thread.

use std::hint;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, thread_cpu_time};
use ridgeline_perf::machine;
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes that the ring holds: within a core's own cache.
const RING_BYTES: usize = 256 << 10;
/// Tries before a thread lets others run: the other side may not be on a core at all.
const SPINS: u32 = 1 << 12;

/// What messages of one size are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Messages {
    /// Bytes of a message; a multiple of 8, at most a quarter of the ring.
    pub bytes: usize,
    /// How many.
    pub count: u64,
}

impl Messages {
    fn words(self) -> usize {
        (self.bytes / WORD).max(1)
    }
}

const WORD: usize = size_of::<u64>();

/// What it took to get messages across.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Crossing {
    /// From the first send to the last receipt.
    pub wall: Nanos,
    /// CPU time of both threads, waiting included.
    pub cpu: Nanos,
}

/// Sends messages from one thread to another, each on a core of its own where `cores` names two.
/// Each is copied in, copied out and known by its number.
///
/// # Errors
/// When a core can't be had, or a message does not come as it was sent.
pub fn cross(messages: Messages, cores: [usize; 2]) -> io::Result<Crossing> {
    let (producer, consumer) = RingBuffer::new(RING_BYTES / WORD);
    let ready = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| -> io::Result<(Nanos, Nanos)> {
            let pinned = machine::pin(cores[0]);
            wait_until(|| ready.load(Ordering::Acquire).then_some(()));
            pinned?;
            let (start, cpu) = (MonotonicClock.now(), thread_cpu_time());
            send(producer, messages);
            Ok((start, thread_cpu_time() - cpu))
        });
        let receiver = scope.spawn(|| -> io::Result<(Nanos, Nanos)> {
            let pinned = machine::pin(cores[1]);
            ready.store(true, Ordering::Release);
            pinned?;
            let cpu = thread_cpu_time();
            receive(consumer, messages)?;
            Ok((MonotonicClock.now(), thread_cpu_time() - cpu))
        });
        let fault = |_| io::Error::other("a thread of the ring failed");
        let (start, sending) = sender.join().map_err(fault)??;
        let (end, receiving) = receiver.join().map_err(fault)??;
        Ok(Crossing {
            wall: end - start,
            cpu: sending + receiving,
        })
    })
}

fn send(mut producer: Producer<u64>, messages: Messages) {
    let mut message = vec![0; messages.words()];
    for number in 0..messages.count {
        message[0] = number;
        // A receiver that is gone leaves room for nothing: its thread says why.
        wait_until(|| {
            let sent = producer.push_entire_slice(&message).is_ok();
            (sent || producer.is_abandoned()).then_some(())
        });
    }
}

fn receive(mut consumer: Consumer<u64>, messages: Messages) -> io::Result<()> {
    let mut message = vec![0; messages.words()];
    for number in 0..messages.count {
        let came = wait_until(|| {
            if consumer.pop_entire_slice(&mut message).is_ok() {
                return Some(true);
            }
            // What was sent before the sender went is still to be taken.
            consumer
                .is_abandoned()
                .then(|| consumer.pop_entire_slice(&mut message).is_ok())
        });
        if !came || message[0] != number {
            return Err(io::Error::other(format!("message {number} did not come")));
        }
    }
    Ok(())
}

fn wait_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..SPINS {
            if let Some(found) = look() {
                return found;
            }
            hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// The ring with both ends on the calling thread: the cost of its own steps.
#[derive(Debug)]
pub struct Alone {
    producer: Producer<u64>,
    consumer: Consumer<u64>,
    message: Vec<u64>,
    out: Vec<u64>,
}

impl Alone {
    /// For messages of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let (producer, consumer) = RingBuffer::new(RING_BYTES / WORD);
        let words = Messages { bytes, count: 0 }.words();
        Self {
            producer,
            consumer,
            message: vec![0; words],
            out: vec![0; words],
        }
    }

    /// Sends and receives `count` messages, one after the other. Returns those that came as sent.
    pub fn pass(&mut self, count: u64) -> u64 {
        (0..count)
            .filter(|&number| {
                self.message[0] = number;
                self.producer.push_entire_slice(&self.message).is_ok()
                    && self.consumer.pop_entire_slice(&mut self.out).is_ok()
                    && self.out[0] == number
            })
            .count() as u64
    }
}

/// The least that a message costs: its bytes are copied once, to the next place in memory as large
/// as the ring.
#[derive(Debug)]
pub struct Copying {
    memory: Vec<u64>,
    message: Vec<u64>,
    at: usize,
}

impl Copying {
    /// For messages of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            memory: vec![0; RING_BYTES / WORD],
            message: vec![0; Messages { bytes, count: 0 }.words()],
            at: 0,
        }
    }

    /// Copies `count` messages.
    pub fn pass(&mut self, count: u64) {
        let words = self.message.len();
        for number in 0..count {
            if self.at + words > self.memory.len() {
                self.at = 0;
            }
            self.message[0] = number;
            self.memory[self.at..self.at + words].copy_from_slice(&self.message);
            hint::black_box(&self.memory[self.at]);
            self.at += words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_once_and_as_it_was_sent() {
        let cores: Vec<usize> = core_affinity::get_core_ids()
            .unwrap()
            .iter()
            .map(|core| core.id)
            .collect();
        let pair = [cores[0], *cores.last().unwrap()];
        for bytes in [8, 32, 8 << 10, 64 << 10] {
            let messages = Messages { bytes, count: 500 };
            let crossing = cross(messages, pair).unwrap();
            assert!(crossing.wall > Nanos::ZERO && crossing.cpu > Nanos::ZERO);
            assert_eq!(Alone::new(bytes).pass(500), 500);
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error_and_no_hang() {
        let messages = Messages {
            bytes: 32,
            count: 9,
        };
        assert!(cross(messages, [usize::MAX, 0]).is_err());
        assert!(cross(messages, [0, usize::MAX]).is_err());
    }

    #[test]
    fn copies_stay_in_their_memory() {
        let mut copying = Copying::new(RING_BYTES / 3);
        copying.pass(10);
        assert!(copying.memory.contains(&9));
    }
}
