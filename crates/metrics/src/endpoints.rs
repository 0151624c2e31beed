use serde::{Deserialize, Serialize};

use crate::collector::Counts;
use crate::{Distribution, Fate, Finished, Tally};

/// What one of several endpoints did to the requests of the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerEndpoint {
    /// Its requests that are over.
    pub counts: Counts,
    /// Its failures by kind.
    pub errors: Tally,
    /// Latency of its successes.
    pub latency: Distribution,
    /// TTFT of those that were streamed.
    pub ttft: Distribution,
}

impl PerEndpoint {
    pub(crate) fn finished(&mut self, finished: &Finished<'_>) {
        let counts = &mut self.counts;
        counts.issued += 1;
        counts.retried += u64::from(finished.retries);
        match finished.fate {
            Fate::Ok => {
                counts.completed += 1;
                let timeline = &finished.timeline;
                let ttft = timeline.ttft().filter(|_| finished.streamed);
                let latency = timeline.latency(finished.streamed);
                latency
                    .into_iter()
                    .for_each(|span| self.latency.record(span));
                ttft.into_iter().for_each(|span| self.ttft.record(span));
            }
            Fate::Failed(kind) => {
                counts.failed += 1;
                self.errors.add(kind);
            }
            Fate::Cancelled => counts.cancelled += 1,
            Fate::GivenUp => {
                counts.cancelled += 1;
                counts.given_up += 1;
            }
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.latency.bytes() + self.ttft.bytes()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.errors.merge(&other.errors);
        self.latency.merge(&other.latency);
        self.ttft.merge(&other.ttft);
    }
}
