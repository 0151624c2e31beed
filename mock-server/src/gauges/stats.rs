//! The line of `--stats`.

use std::fmt;

use ridgeline_clock::Nanos;

use super::{Family, Snapshot};

/// What happened between two readings of the cells.
#[derive(Debug)]
pub(crate) struct Stats {
    since: Snapshot,
    span: Nanos,
    /// From the server's start to the later reading.
    age: Nanos,
}

impl Stats {
    /// Between `before` and `after`, `span` apart.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot, span: Nanos, age: Nanos) -> Self {
        Self {
            since: after.clone().since(before),
            span,
            age,
        }
    }

    fn rate(&self, family: Family) -> f64 {
        self.since.count(family) as f64 * 1e9 / self.span.0.max(1) as f64
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, age, .. } = self;
        write!(
            f,
            "{:.0} s: {:.0} requests/s, {:.0} tokens/s, {:.0} events/s, {} running, {} waiting, \
             {} connections, {} refused, {} cut off, {} faults, {} late writes",
            age.0 as f64 / 1e9,
            self.rate(Family::Requests),
            self.rate(Family::GenerationTokens),
            self.rate(Family::Events),
            since.count(Family::Running),
            since.count(Family::Waiting),
            since.count(Family::Connections),
            since.count(Family::RequestsRefused),
            since.count(Family::AnswersCut),
            since.count(Family::Faults),
            since.count(Family::LateWrites),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gauges;
    use super::*;

    #[test]
    fn a_line_is_about_what_happened_since_the_last() {
        let gauges = [Gauges::default(), Gauges::default()];
        gauges[0].set(Family::Requests, 1_000);
        let before = Snapshot::of(gauges.iter());
        gauges[0].set(Family::Requests, 1_600);
        gauges[1].set(Family::Requests, 400);
        gauges[0].add(Family::GenerationTokens, 64_000);
        gauges[0].add(Family::Events, 32_000);
        gauges[1].set(Family::Running, 16);
        gauges[1].set(Family::Connections, 20);
        gauges[1].set(Family::RequestsRefused, 3);
        gauges[1].set(Family::Faults, 4);
        gauges[1].add(Family::LateWrites, 2);
        let after = Snapshot::of(gauges.iter());
        let (span, age) = (Nanos::from_millis(2_000), Nanos::from_secs(7));
        assert_eq!(
            Stats::between(&before, &after, span, age).to_string(),
            "7 s: 500 requests/s, 32000 tokens/s, 16000 events/s, 16 running, 0 waiting, \
             20 connections, 3 refused, 0 cut off, 4 faults, 2 late writes"
        );
    }
}
