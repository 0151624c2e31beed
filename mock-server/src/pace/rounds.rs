//! When the writes of one answer are due.

use std::num::NonZeroU32;

use ridgeline_clock::Nanos;

use super::replica::{Pace, Started};

/// The rounds of an answer, in each of which every choice gets some tokens, and which of them leave
/// together.
///
/// A round's time is worked out from the one before it: at once where it depends on nothing else,
/// else not before that one's time, so that it takes the load of that moment.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    pace: Pace,
    /// When the round that was counted last is due, or the first one, as long as none was.
    due: Nanos,
    /// Tokens of the longest choice that no counted round brings.
    left: u32,
    /// Tokens of each counted round that was not taken yet.
    counted: Vec<u32>,
    /// Whether the first round was counted.
    began: bool,
}

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is due at this time.
    Due(Nanos),
    /// Its time is not known before this one.
    Ask(Nanos),
}

impl Rounds {
    /// The rounds that bring `tokens` tokens to the longest choice. Even none take a round.
    pub(crate) fn new(started: Started, tokens: u32) -> Self {
        Self {
            pace: started.pace,
            due: started.first,
            left: tokens,
            counted: Vec::new(),
            began: false,
        }
    }

    /// When the next `most` rounds (fewer, if the answer ends; `None`: all) can leave together: at
    /// the time of the last. `running` sequences run at `now`.
    pub(crate) fn next(&mut self, most: Option<NonZeroU32>, now: Nanos, running: u32) -> Next {
        let most = most.map_or(usize::MAX, |most| most.get() as usize);
        while self.counted.len() < most && !(self.began && self.left == 0) {
            if self.began {
                if self.due > now && self.pace.feels_load() {
                    return Next::Ask(self.due);
                }
                self.due += self.pace.gap(running);
            }
            self.began = true;
            let tokens = self.pace.tokens().min(self.left);
            self.left -= tokens;
            self.counted.push(tokens);
        }
        Next::Due(self.due)
    }

    /// The same for an answer that is not streamed: nobody asks what its rounds bring.
    pub(crate) fn end(&mut self, now: Nanos, running: u32) -> Next {
        loop {
            match self.next(NonZeroU32::new(1), now, running) {
                Next::Due(_) if self.left > 0 => self.counted.clear(),
                next => return next,
            }
        }
    }

    /// The next round's time and tokens, whenever that is: as if `running` sequences ran all along.
    pub(crate) fn next_at_once(&mut self, running: u32) -> (Nanos, u32) {
        self.next(NonZeroU32::new(1), Nanos::MAX, running);
        let tokens = self.counted.pop().unwrap_or(0);
        (self.due, tokens)
    }

    /// When an answer that is not streamed is due, likewise.
    pub(crate) fn end_at_once(&mut self, running: u32) -> Nanos {
        self.end(Nanos::MAX, running);
        self.due
    }

    /// Takes the rounds of the write that [`Rounds::next`] told of: the tokens of each.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, u32> {
        self.counted.drain(..)
    }

    /// When the round that was counted last is due.
    pub(crate) fn last_due(&self) -> Nanos {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::replica::{Admission, Replica, Ticket, Want};
    use crate::pace::{Latency, Law, PaceConfig, Prefill, TokensPerEvent};
    use proptest::prelude::*;
    use ridgeline_net::Token;

    const MS: Nanos = Nanos::from_millis(1);

    fn rounds(config: &PaceConfig, tokens: u32) -> Rounds {
        let want = Want {
            prompt_tokens: 1,
            output_tokens: tokens,
            sequences: 1,
            blocks: &[],
            seed: None,
        };
        let token = Token {
            index: 0,
            generation: 0,
        };
        let ticket = Ticket { token, serial: 0 };
        match Replica::new(config, 0).arrive(ticket, &want, MS) {
            Admission::Run(started) => Rounds::new(started, tokens),
            other => panic!("{other:?}"),
        }
    }

    fn loaded() -> PaceConfig {
        PaceConfig {
            factor_under_load: 3.0,
            sequences_max: NonZeroU32::new(5),
            ..PaceConfig::default()
        }
    }

    fn most(rounds: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(rounds)
    }

    #[test]
    fn a_write_leaves_when_its_last_round_is_due() {
        let mut rounds = rounds(&PaceConfig::default(), 7);
        // 21 ms, and then one every 5 ms.
        for (due, tokens) in [(31, 3), (46, 3), (51, 1)] {
            assert_eq!(rounds.next(most(3), Nanos::ZERO, 1), Next::Due(MS * due));
            // Asking again changes nothing.
            assert_eq!(rounds.next(most(3), MS * due, 1), Next::Due(MS * due));
            assert_eq!(rounds.take().sum::<u32>(), tokens);
        }
        assert_eq!(rounds.last_due(), MS * 51);
    }

    #[test]
    fn under_load_a_round_is_timed_when_the_one_before_it_is_due() {
        let mut rounds = rounds(&loaded(), 3);
        assert_eq!(rounds.next(most(2), MS, 1), Next::Ask(MS * 21));
        assert_eq!(rounds.next(most(2), MS * 20, 5), Next::Ask(MS * 21));
        // Two run: factor 1.5.
        assert_eq!(
            rounds.next(most(2), MS * 21, 2),
            Next::Due(Nanos::from_micros(28_500))
        );
        assert_eq!(rounds.take().count(), 2);
        // The turn comes late: the time counts from the one before all the same.
        assert_eq!(
            rounds.next(most(2), MS * 30, 5),
            Next::Due(Nanos::from_micros(43_500))
        );
    }

    #[test]
    fn a_whole_answer_is_due_with_its_last_round() {
        let mut alone = rounds(&PaceConfig::default(), 1_000);
        assert_eq!(alone.end(Nanos::ZERO, 1), Next::Due(MS * (21 + 999 * 5)));
        let mut loaded = rounds(&loaded(), 3);
        for (now, running, next) in [
            (1, 1, Next::Ask(MS * 21)),
            (21, 1, Next::Ask(MS * 26)),
            (26, 5, Next::Due(MS * 41)),
            (41, 1, Next::Due(MS * 41)),
        ] {
            assert_eq!(loaded.end(MS * now, running), next);
        }
    }

    #[test]
    fn nothing_takes_a_round_too() {
        let mut rounds = rounds(&PaceConfig::default(), 0);
        assert_eq!(rounds.next(None, Nanos::ZERO, 1), Next::Due(MS * 21));
        assert_eq!(rounds.take().collect::<Vec<_>>(), [0]);
    }

    proptest! {
        #[test]
        fn however_rounds_are_packed_they_bring_the_same_at_the_same_times(
            tokens in 0_u32..200,
            packed in 1_u32..12,
            seed in any::<u64>(),
            loaded in any::<bool>(),
        ) {
            let config = PaceConfig {
                prefill: Prefill::Whole(Latency::new(Law::Gamma, MS * 20, MS * 9).unwrap()),
                gap: Latency::new(Law::Lognormal, MS * 5, MS * 5).unwrap(),
                tokens_per_event: TokensPerEvent::new(Law::Normal, 2.5, 0.5).unwrap(),
                seed,
                factor_under_load: if loaded { 2.0 } else { 1.0 },
                sequences_max: NonZeroU32::new(3),
                ..PaceConfig::default()
            };
            let walk = |most: Option<NonZeroU32>| {
                let (mut rounds, mut now) = (rounds(&config, tokens), Nanos::ZERO);
                let (mut writes, mut said) = (Vec::new(), 0);
                while said < tokens || writes.is_empty() {
                    match rounds.next(most, now, 2) {
                        Next::Ask(at) => {
                            prop_assert!(at > now);
                            now = at;
                        }
                        Next::Due(at) => {
                            now = now.max(at);
                            let taken: Vec<u32> = rounds.take().collect();
                            said += taken.iter().sum::<u32>();
                            writes.push((at, taken));
                        }
                    }
                }
                Ok(writes)
            };
            let ones = walk(NonZeroU32::new(1))?;
            prop_assert!(ones.iter().all(|(_, taken)| taken.len() == 1));
            let packs: Vec<_> = ones
                .chunks(packed as usize)
                .map(|chunk| {
                    let taken: Vec<u32> = chunk.iter().map(|(_, taken)| taken[0]).collect();
                    (chunk[chunk.len() - 1].0, taken)
                })
                .collect();
            prop_assert_eq!(walk(NonZeroU32::new(packed))?, packs);
            let mut at_once = rounds(&config, tokens);
            for (due, taken) in &ones {
                prop_assert_eq!(at_once.next_at_once(2), (*due, taken[0]));
            }
            let end_at_once = rounds(&config, tokens).end_at_once(2);
            prop_assert_eq!(end_at_once, ones[ones.len() - 1].0);
            let all: Vec<u32> = ones.iter().map(|(_, taken)| taken[0]).collect();
            let last = ones[ones.len() - 1].0;
            prop_assert_eq!(walk(None)?, [(last, all)]);
            let (mut whole, mut now) = (rounds(&config, tokens), Nanos::ZERO);
            let end = loop {
                match whole.end(now, 2) {
                    Next::Ask(at) => now = at,
                    Next::Due(at) => break at,
                }
            };
            prop_assert_eq!(end, last);
        }
    }
}
