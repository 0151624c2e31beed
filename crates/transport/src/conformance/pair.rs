use ridgeline_clock::Nanos;

use super::{Lab, Log, pattern};
use crate::{Limits, PeerId, Refused, To, Transport, Turn};

/// How long anything may take before the property fails: far more than it takes.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// How long one waits when neither end had anything to do.
const REST: Nanos = Nanos::from_micros(200);

/// Two ends and what they saw.
#[derive(Debug)]
pub struct Pair<'a, L: Lab> {
    /// Where they are.
    pub lab: &'a mut L,
    /// The first end; in one-way kinds the sender.
    pub near: L::End,
    /// What it saw.
    pub near_log: Log,
    /// The second end. `None` once it is dropped.
    pub far: Option<L::End>,
    /// What it saw.
    pub far_log: Log,
}

impl<'a, L: Lab> Pair<'a, L> {
    /// Two ends that know each other.
    pub fn new(lab: &'a mut L, limits: Limits) -> Self {
        let (near, far) = lab.pair(limits);
        let mut pair = Self {
            lab,
            near,
            near_log: Log::default(),
            far: Some(far),
            far_log: Log::default(),
        };
        pair.until("meeting", |near, far| {
            near.peer().is_some() && far.peer().is_some()
        });
        pair
    }

    /// The far end as the near one names it.
    ///
    /// # Panics
    /// When it is not there.
    pub fn there(&self) -> PeerId {
        self.near_log.peer().expect("the other end is there")
    }

    /// Message `number` with this length goes to the far end.
    ///
    /// # Errors
    /// Those of [`Transport::send`].
    pub fn send(&mut self, number: u64, bytes: usize) -> Result<(), Refused> {
        self.near.send(To::Any, &pattern(number, bytes))
    }

    /// The same, turning both ends as long as the queue is full.
    ///
    /// # Panics
    /// When it is refused for another reason, or stays full.
    pub fn send_patiently(&mut self, number: u64, bytes: usize) {
        let end = self.lab.now() + PATIENCE;
        loop {
            match self.send(number, bytes) {
                Ok(()) => return,
                Err(Refused::Full) => assert!(self.lab.now() < end, "full for {PATIENCE}"),
                Err(refused) => panic!("refused: {refused}"),
            }
            self.turn();
        }
    }

    /// One turn of the near end.
    ///
    /// # Panics
    /// When it can't go on.
    pub fn turn_near(&mut self, deadline: Nanos) -> Turn {
        self.near
            .turn(deadline, &mut self.near_log)
            .expect("the near end's turn")
    }

    /// One turn of the far end, if it is still there.
    ///
    /// # Panics
    /// When it can't go on.
    pub fn turn_far(&mut self, deadline: Nanos) -> Turn {
        self.far.as_mut().map_or_else(Turn::default, |far| {
            far.turn(deadline, &mut self.far_log)
                .expect("the far end's turn")
        })
    }

    /// A turn of each without waiting; when neither had anything to do, time passes.
    pub fn turn(&mut self) {
        let near = self.turn_near(Nanos::ZERO);
        let far = self.turn_far(Nanos::ZERO);
        if near.messages + far.messages + u64::from(near.events + far.events) == 0 {
            let rest = self.lab.now() + REST;
            self.turn_near(rest);
        }
    }

    /// Turns until it is so.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Log, &Log) -> bool) {
        let end = self.lab.now() + PATIENCE;
        while !done(&self.near_log, &self.far_log) {
            assert!(self.lab.now() < end, "still no {what} after {PATIENCE}");
            self.turn();
        }
    }

    /// Turns some more, for what must not come.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.turn();
        }
    }

    /// Turns until `count` messages are at the far end, and checks that they are numbers 0 to `count`
    /// of the lengths that `bytes` tells.
    ///
    /// # Panics
    /// When they are others.
    pub fn arrived(&mut self, count: u64, bytes: impl Fn(u64) -> usize) {
        self.until("arrival", |_, far| far.messages().len() as u64 >= count);
        self.settle();
        let messages = self.far_log.messages();
        assert_eq!(messages.len() as u64, count, "messages that arrived");
        for (number, message) in (0..).zip(messages) {
            let expected = pattern(number, bytes(number));
            assert!(message == expected, "message {number} is another");
        }
    }

    /// Sends messages of this length, without a turn of the far end, until the queue is full. Returns
    /// how many were taken.
    ///
    /// # Panics
    /// When it never is: nothing bounds it.
    pub fn fill(&mut self, first: u64, bytes: usize) -> u64 {
        /// More than any transport and kernel between two ends keeps.
        const BYTES_MAX: u64 = 256 << 20;
        let mut number = first;
        let mut turns_left = 50;
        loop {
            match self.send(number, bytes) {
                Ok(()) => number += 1,
                Err(Refused::Full) if turns_left == 0 => return number - first,
                Err(Refused::Full) => {
                    // What can leave, leaves.
                    turns_left -= 1;
                    let soon = self.lab.now() + REST;
                    self.turn_near(soon);
                }
                Err(refused) => panic!("refused: {refused}"),
            }
            let total = (number - first) * (bytes as u64 + 1);
            assert!(total < BYTES_MAX, "{total} bytes taken, and no end");
        }
    }
}
