use std::rc::Rc;
use std::sync::Arc;

use ridgeline_clock::Nanos;

use super::{Record, Replay};
use crate::answer::{Answer, Finish, Output};
use crate::fault::Fault;
use crate::pace::{Pace, Started};
use crate::refusal::Refusal;

/// One recorded answer on its way: the times and tokens of its events.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    replay: Arc<Replay>,
    index: usize,
    /// The event that it is at.
    event: u32,
    /// All of it comes as one event, at its end.
    is_whole: bool,
}

impl Recording {
    pub(super) fn new(replay: Arc<Replay>, index: usize) -> Self {
        Self {
            replay,
            index,
            event: 0,
            is_whole: false,
        }
    }

    pub(super) fn record(&self) -> &Record {
        &self.replay.records[self.index]
    }

    /// How the answer fails, if it does.
    pub(crate) fn fault(&self, stream: bool) -> Option<Fault> {
        self.record().mishap.and_then(|mishap| mishap.fault(stream))
    }

    /// From the request to the end of the answer.
    pub(crate) fn end(&self) -> Nanos {
        self.record().end
    }

    /// `asked` with the recorded tokens in each of its choices.
    ///
    /// # Errors
    /// 400 when several choices have more than `tokens_max` tokens together.
    pub(crate) fn answer(&self, asked: &Answer, tokens_max: u32) -> Result<Answer, Refusal> {
        let Record {
            tokens, is_length, ..
        } = *self.record();
        let choices = asked.choices();
        if choices > 1 && u64::from(choices) * u64::from(tokens) > u64::from(tokens_max) {
            let message = format!("All choices together have at most {tokens_max} tokens here");
            return Err(Refusal::invalid(Some("n"), message));
        }
        let finish = if is_length {
            Finish::Length
        } else {
            Finish::Stop
        };
        let outputs: Rc<[_]> = (0..choices)
            .map(|_| Output::words(0, 0, tokens, finish))
            .collect();
        Ok(Answer {
            outputs,
            ..asked.clone()
        })
    }

    /// `started` with the recorded times, of a stream or of a whole answer.
    pub(crate) fn start(mut self, started: Started, stream: bool) -> Started {
        self.is_whole = !stream;
        let first = if stream {
            self.record().first
        } else {
            self.record().end
        };
        Started {
            first: started.at + first,
            pace: Pace::Recorded(self),
            ..started
        }
    }

    /// On to the next event that brings tokens: from the time of the one before to its own.
    pub(crate) fn gap(&mut self) -> Nanos {
        let last = self.record().events - 1;
        if self.is_whole || self.event >= last {
            return Nanos::ZERO;
        }
        let before = self.offset(self.event);
        let brought = self.brought(self.event);
        self.event += 1;
        while self.event < last && self.brought(self.event) == brought {
            self.event += 1;
        }
        self.offset(self.event) - before
    }

    /// The tokens of the event that it is at.
    pub(crate) fn tokens(&self) -> u32 {
        if self.is_whole {
            return self.record().tokens;
        }
        let before = self
            .event
            .checked_sub(1)
            .map_or(0, |event| self.brought(event));
        self.brought(self.event) - before
    }

    /// Tokens up to and with event `event`.
    fn brought(&self, event: u32) -> u32 {
        let Record { events, tokens, .. } = *self.record();
        if event + 1 >= events {
            return tokens;
        }
        let part =
            |tokens: u32, at: u32, of: u32| u64::from(tokens) * u64::from(at) / u64::from(of);
        let brought = if tokens >= events {
            part(tokens, event + 1, events)
        } else {
            // One with the first, and the last with the last.
            1 + part(tokens.saturating_sub(1), event, events - 1)
        };
        u32::try_from(brought).unwrap_or(tokens)
    }

    /// The time of event `event`, from the request on.
    fn offset(&self, event: u32) -> Nanos {
        let record = self.record();
        if let Some(at) = record.offsets_at {
            return Nanos(self.replay.offsets_ns[at + event as usize]);
        }
        if event + 1 >= record.events {
            return if event == 0 {
                record.first
            } else {
                record.last
            };
        }
        let span = u128::from((record.last - record.first).0);
        let after = span * u128::from(event) / u128::from(record.events - 1);
        record.first + Nanos(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recording(events: u32, tokens: u32, offsets_ns: Option<Vec<u64>>) -> Recording {
        let record = Record {
            first: Nanos(100),
            last: Nanos(1_000),
            end: Nanos(1_200),
            events,
            tokens,
            offsets_at: offsets_ns.as_ref().map(|_| 0),
            is_length: false,
            mishap: None,
        };
        let replay = Replay {
            records: Box::new([record]),
            offsets_ns: offsets_ns.unwrap_or_default().into(),
        };
        Recording::new(Arc::new(replay), 0)
    }

    /// Times and tokens of all events.
    fn walk(mut recording: Recording) -> Vec<(u64, u32)> {
        let mut at = recording.record().first;
        let mut left = recording.record().tokens - recording.tokens();
        let mut events = vec![(at.0, recording.tokens())];
        while left > 0 {
            at += recording.gap();
            events.push((at.0, recording.tokens()));
            left -= recording.tokens();
        }
        events
    }

    #[test]
    fn events_are_where_they_were() {
        let saved = Some(vec![100, 130, 990]);
        assert_eq!(
            walk(recording(3, 3, saved.clone())),
            [(100, 1), (130, 1), (990, 1)]
        );
        assert_eq!(
            walk(recording(3, 7, saved.clone())),
            [(100, 2), (130, 2), (990, 3)]
        );
        assert_eq!(walk(recording(3, 2, saved)), [(100, 1), (990, 1)]);
    }

    #[test]
    fn unsaved_events_are_evenly_spread() {
        assert_eq!(walk(recording(1, 5, None)), [(100, 5)]);
        assert_eq!(walk(recording(1, 0, None)), [(100, 0)]);
        assert_eq!(
            walk(recording(4, 4, None)),
            [(100, 1), (400, 1), (700, 1), (1_000, 1)]
        );
    }

    proptest! {
        #[test]
        fn all_tokens_come_and_no_rounding_adds_up(events in 1_u32..300, tokens in 1_u32..900) {
            let walked = walk(recording(events, tokens, None));
            prop_assert_eq!(walked.iter().map(|(_, tokens)| tokens).sum::<u32>(), tokens);
            prop_assert!(walked.iter().all(|(_, tokens)| *tokens > 0));
            prop_assert_eq!(walked.len(), events.min(tokens) as usize);
            prop_assert_eq!(walked[0].0, 100);
            if tokens > 1 && events > 1 {
                prop_assert_eq!(walked[walked.len() - 1].0, 1_000);
            }
            if tokens >= events {
                let most = walked.iter().map(|(_, tokens)| tokens).max().unwrap();
                prop_assert!(most - walked.iter().map(|(_, tokens)| tokens).min().unwrap() <= 1);
                for (event, (at, _)) in (0_u64..).zip(&walked) {
                    let exact = 100 + 900 * event / u64::from(events - 1).max(1);
                    prop_assert_eq!(*at, exact);
                }
            }
        }
    }
}
