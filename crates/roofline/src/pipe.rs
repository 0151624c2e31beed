//! The ends of a pipe of messages over any transport, to be timed: what `ridgeline pipe` runs.

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_perf::pipe::{Count, Crossed};
use ridgeline_transport::{
    Cause, Flow, Left, PeerId, Receiver, Refused, To, Transport, TransportError,
};

/// What keeps a pipe from ending well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipeError {
    /// The transport can't go on.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The other end went away before everything had come.
    #[error("the other end left: {0}")]
    Left(String),
    /// A message was refused.
    #[error("a message was refused: {0}")]
    Refused(#[from] Refused),
}

/// The messages of a pipe.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many.
    pub messages: u64,
    /// Records in each, one after another.
    pub records: usize,
    /// The length of each record.
    pub record_bytes: usize,
}

/// Sends all of them, record by record into each message, to whoever joins first; returns when that peer
/// has left.
///
/// # Errors
/// [`PipeError`].
pub fn push<T: Transport>(end: &mut T, load: Load) -> Result<(), PipeError> {
    let mut there = Presence::default();
    while !there.is_here {
        end.turn(Nanos::MAX, &mut there)?;
    }
    let record = vec![7; load.record_bytes];
    let mut message = Vec::with_capacity(load.record_bytes * load.records);
    for _ in 0..load.messages {
        message.clear();
        for _ in 0..load.records {
            message.extend_from_slice(&record);
        }
        while let Err(refused) = end.send(To::Any, &message) {
            if refused != Refused::Full {
                return Err(there.left.map_or_else(|| refused.into(), PipeError::Left));
            }
            end.turn(Nanos::MAX, &mut there)?;
        }
    }
    while there.is_here {
        end.turn(Nanos::MAX, &mut there)?;
    }
    Ok(())
}

/// Receives as many messages.
///
/// # Errors
/// [`PipeError`].
pub fn pull<T: Transport>(end: &mut T, load: Load) -> Result<Crossed, PipeError> {
    let mut counting = Counting {
        count: Count::new(load.record_bytes),
        there: Presence::default(),
    };
    while counting.count.messages() < load.messages {
        end.turn(Nanos::MAX, &mut counting)?;
        if let Some(left) = counting.there.left.take()
            && counting.count.messages() < load.messages
        {
            return Err(PipeError::Left(left));
        }
    }
    let crossed = counting.count.crossed(MonotonicClock.now());
    std::hint::black_box(counting.count.sum);
    Ok(crossed)
}

#[derive(Debug, Default)]
struct Presence {
    is_here: bool,
    left: Option<String>,
}

impl Receiver for Presence {
    fn joined(&mut self, _: PeerId, _: &str) {
        self.is_here = true;
    }

    fn message(&mut self, _: PeerId, _: &[u8]) -> Flow {
        Flow::More
    }

    fn left(&mut self, _: PeerId, left: &Left) {
        self.is_here = false;
        self.left = Some(match left.cause {
            Cause::Closed | Cause::Local => "it is done".to_owned(),
            _ => left.to_string(),
        });
    }
}

struct Counting {
    count: Count,
    there: Presence,
}

impl Receiver for Counting {
    fn joined(&mut self, peer: PeerId, who: &str) {
        self.there.joined(peer, who);
    }

    #[inline]
    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        self.count.add(message, || MonotonicClock.now());
        Flow::More
    }

    fn left(&mut self, peer: PeerId, left: &Left) {
        self.there.left(peer, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ridgeline_transport::{InProcess, Limits};

    #[test]
    fn everything_comes_through() {
        let load = Load {
            messages: 1_000,
            records: 4,
            record_bytes: 32,
        };
        let (mut near, mut far) = InProcess::pair(Limits::data());
        let crossed = std::thread::scope(|scope| {
            let sender = scope.spawn(move || push(&mut near, load));
            let crossed = pull(&mut far, load);
            drop(far);
            sender.join().expect("it does not panic").expect("it sends");
            crossed
        });
        let crossed = crossed.expect("it receives");
        assert_eq!((crossed.messages, crossed.records), (1_000, 4_000));
    }

    #[test]
    fn an_end_that_leaves_early_is_told() {
        let load = Load {
            messages: 2,
            records: 1,
            record_bytes: 8,
        };
        let (mut near, mut far) = InProcess::pair(Limits::data());
        near.send(To::Any, &[0; 8]).expect("there is room");
        drop(near);
        let error = pull(&mut far, load).expect_err("one is missing");
        assert!(error.to_string().starts_with("the other end left"));
    }
}
