use ridgeline_clock::Nanos;
use ridgeline_net::Peer;
use ridgeline_transport::Limits;

use crate::Address;

/// An address that this end connects to, again and again.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: Address,
    pub(super) peer: Peer,
    pub(super) state: State,
    /// How often in a row it was tried in vain.
    failures: u32,
    /// That nobody answers was told.
    pub(super) is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Tried again then.
    Idle(Nanos),
    /// A connection is up or on its way.
    Busy,
    /// This end let the peer go: never tried again.
    Over,
}

impl Link {
    pub(super) fn new(address: Address, peer: Peer) -> Self {
        Self {
            address,
            peer,
            state: State::Idle(Nanos::ZERO),
            failures: 0,
            is_told: false,
        }
    }

    /// It came up.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.is_told = false;
    }

    /// Its connection is gone: when to try again.
    pub(super) fn wait(&mut self, limits: &Limits, now: Nanos) -> Nanos {
        let factor = 1_u64 << self.failures.min(20);
        let span = Nanos(limits.reconnect_min.0.saturating_mul(factor));
        let at = now + span.min(limits.reconnect_max);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Idle(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_most_and_starts_anew() {
        let limits = Limits {
            reconnect_min: Nanos(10),
            reconnect_max: Nanos(65),
            ..Limits::data()
        };
        let address: Address = "tcp://127.0.0.1:1".parse().unwrap();
        let peer = address.resolve().unwrap();
        let mut link = Link::new(address, peer);
        let waits: Vec<u64> = (0..6)
            .map(|_| link.wait(&limits, Nanos(1_000)).0 - 1_000)
            .collect();
        assert_eq!(waits, [10, 20, 40, 65, 65, 65]);
        link.succeeded();
        assert_eq!(link.wait(&limits, Nanos::ZERO), Nanos(10));
    }
}
