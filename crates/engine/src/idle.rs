//! Connections that carry nothing: how long the endpoint leaves them open, and what is done about it.

use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Commands};

use crate::shard::Shard;

/// A close after a shorter rest is none of idleness: the endpoint had enough of the connection, or ends.
const REST_MIN: Nanos = Nanos::from_millis(500);
/// Of two closes that teach something, the times may differ by this part of the shorter one.
const LIKENESS: u64 = 8;
/// A connection is retired before its time is over by this part of it, at most by [`MARGIN_MAX`]: a request
/// that is on its way when the endpoint's time is over comes too late.
const MARGIN: u64 = 5;
const MARGIN_MAX: Nanos = Nanos::from_secs(1);

/// For how long a connection may rest until it is no longer used, as far as the endpoint has let it be known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleLimit {
    limit: Nanos,
    /// How long the connection had rested that the endpoint closed last.
    seen: Nanos,
}

impl Default for IdleLimit {
    fn default() -> Self {
        Self {
            limit: Nanos::MAX,
            seen: Nanos::ZERO,
        }
    }
}

impl IdleLimit {
    /// When a connection that rests since `since` is retired.
    pub(crate) fn end(&self, since: Nanos) -> Nanos {
        Nanos(since.0.saturating_add(self.limit.0))
    }

    /// The endpoint says that it keeps idle connections for so long.
    pub(crate) fn told(&mut self, seconds: u32) {
        self.learn(Nanos::from_secs(u64::from(seconds)));
    }

    /// The endpoint closed a connection that had rested for so long. Two that agree are believed.
    pub(crate) fn closed_after(&mut self, rest: Nanos) {
        if rest < REST_MIN {
            return;
        }
        let seen = std::mem::replace(&mut self.seen, rest);
        let (shorter, longer) = (seen.min(rest), seen.max(rest));
        if longer - shorter <= Nanos(shorter.0 / LIKENESS) {
            self.learn(shorter);
        }
    }

    fn learn(&mut self, kept: Nanos) {
        let limit = kept - Nanos(kept.0 / MARGIN).min(MARGIN_MAX);
        self.limit = self.limit.min(limit);
    }
}

impl Shard {
    /// Marks a connection that carries nothing as ready for the next request.
    pub(crate) fn rest(&mut self, connection_index: u32, now: Nanos) {
        let connection = &mut self.connections[connection_index as usize];
        connection.state = crate::connection::State::Idle;
        connection.slot = None;
        connection.idle_since = now;
        let endpoint = connection.endpoint;
        self.endpoints
            .get_mut(endpoint)
            .idle
            .push_front(connection_index);
    }

    /// When the next connection is retired, and which one.
    fn retires_next(&self) -> Option<(Nanos, u32)> {
        let resting = self.endpoints.resting_longest().map(|(index, limit)| {
            let since = self.connections[index as usize].idle_since;
            (limit.end(since), index)
        });
        resting.min()
    }

    /// When the next connection is retired.
    pub(crate) fn retires_at(&self) -> Nanos {
        self.retires_next().map_or(Nanos::MAX, |(end, _)| end)
    }

    /// The connection that rests longest.
    pub(crate) fn rests_longest(&self) -> Option<u32> {
        let resting = self.endpoints.resting_longest().map(|(index, _)| index);
        resting.min_by_key(|&index| self.connections[index as usize].idle_since)
    }

    /// Ends connections that the endpoint is about to close.
    pub(crate) fn retire(&mut self, now: Nanos, commands: &mut Commands) {
        while let Some((end, index)) = self.retires_next()
            && end <= now
        {
            self.close(index, Close::Fin, commands);
        }
    }

    /// The endpoint ended a connection that carried nothing.
    pub(crate) fn idle_ended(&mut self, index: u32, at: Nanos) {
        let connection = &self.connections[index as usize];
        let rest = at - connection.idle_since;
        self.endpoints
            .get_mut(connection.endpoint)
            .idle_limit
            .closed_after(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = Nanos::from_secs(1);

    fn seen(rests_ms: &[u64]) -> Nanos {
        let mut limit = IdleLimit::default();
        for &rest in rests_ms {
            limit.closed_after(Nanos::from_millis(rest));
        }
        limit.end(Nanos::ZERO)
    }

    #[test]
    fn what_is_told_counts_less_a_margin() {
        let mut limit = IdleLimit::default();
        assert_eq!(limit.end(S), Nanos::MAX);
        limit.told(75);
        assert_eq!(limit.end(S), S * 75);
        limit.told(5);
        assert_eq!(limit.end(S), S * 5);
        limit.told(60);
        assert_eq!(limit.end(S), S * 5, "the shortest counts");
        limit.told(1);
        assert_eq!(limit.end(Nanos::ZERO), Nanos::from_millis(800));
    }

    #[test]
    fn closes_teach_when_two_of_them_agree() {
        assert_eq!(seen(&[5_000]), Nanos::MAX);
        assert_eq!(seen(&[5_000, 5_020]), S * 4);
        assert_eq!(seen(&[9_000, 5_000, 5_600]), S * 4);
        assert_eq!(seen(&[9_000, 5_000, 2_000]), Nanos::MAX);
        // At once after their answers: idleness has nothing to do with it.
        assert_eq!(seen(&[0, 0, 1, 1, 400, 400]), Nanos::MAX);
    }
}
