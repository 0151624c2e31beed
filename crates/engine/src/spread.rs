use std::ops::Range;
use std::sync::Arc;

use ridgeline_tls::Client;

use crate::idle::IdleLimit;
use crate::list::List;
use crate::plan::Target;
use crate::streams::Speech;

/// Several endpoints that do the same, and which of them gets a request.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The addresses of each: places in [`crate::Target::peers`]. At least one endpoint, and at least one
    /// address of each.
    pub endpoints: Vec<Range<usize>>,
    /// What connections to each are secured by; `None`: they are in the clear.
    pub tls: Vec<Option<Arc<Client>>>,
    /// How requests are dealt out.
    pub balance: Balance,
}

/// How requests are dealt out to several endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// In turn by the request's place in the global order, each endpoint as often as its weight says:
    /// whatever shard sends it, and however long the others take. All weights 1: round robin.
    InTurn(Vec<u32>),
    /// To the one that has the fewest requests of the shard in flight; in turn among those.
    LeastInFlight,
    /// To the one that a hash of the request's session names; in turn where it has none.
    BySession,
}

/// The sum of weights at the most: that many places has the order in which endpoints take turns.
pub const WEIGHTS_MAX: u32 = 10_000;

/// The order in which endpoints of these weights take turns: any stretch of it has each about as often as its
/// weight says (smooth weighted round robin, as nginx's).
fn turns(weights: &[u32]) -> Vec<u16> {
    let total: i64 = weights.iter().copied().map(i64::from).sum();
    let mut credits = vec![0_i64; weights.len()];
    let mut turns = Vec::new();
    for _ in 0..total.min(i64::from(WEIGHTS_MAX)) {
        for (credit, &weight) in credits.iter_mut().zip(weights) {
            *credit += i64::from(weight);
        }
        // The first of the richest.
        let richest = (0..credits.len()).rev().max_by_key(|&place| credits[place]);
        let place = richest.unwrap_or(0);
        credits[place] -= total;
        turns.push(u16::try_from(place).unwrap_or(0));
    }
    turns
}

/// What a shard knows of its endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// By the request's index; empty: the least busy one.
    turns: Vec<u16>,
    by_session: bool,
    each: Vec<Endpoint>,
}

/// One endpoint, as a shard knows it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) peers: Range<usize>,
    /// Connections that carry nothing, last used first: the warmest is taken.
    pub(crate) idle: List,
    pub(crate) idle_limit: IdleLimit,
    /// Connections that carry requests and have room for more, last used first.
    pub(crate) roomy: List,
    /// Connections that may take many streams, and have not said how many.
    pub(crate) unsettled: u32,
    /// Requests that were left waiting for those.
    pub(crate) passed: u32,
    pub(crate) speech: Speech,
    /// Connections that were set up.
    pub(crate) opened: u64,
    pub(crate) in_flight: u32,
}

impl Endpoints {
    /// Those of `target`, where each may have so many connections.
    pub(crate) fn new(target: &Target, connections: u32) -> Self {
        let spread = target.spread.as_ref();
        let one = 0..target.peers.len();
        let one = std::slice::from_ref(&one);
        let ranges = spread.map_or(one, |spread| spread.endpoints.as_slice());
        let each = ranges.iter().zip(0..).map(|(peers, number)| Endpoint {
            peers: peers.clone(),
            idle: List::new(connections),
            idle_limit: IdleLimit::default(),
            // Nothing has room where nothing is shared.
            roomy: List::new(target.http2.map_or(0, |_| connections)),
            unsettled: 0,
            passed: 0,
            speech: Speech::new(target.http2.as_ref(), target.tls_of(number).is_some()),
            opened: 0,
            in_flight: 0,
        });
        let balance = spread.map(|spread| &spread.balance);
        Self {
            turns: match balance {
                None => vec![0],
                Some(Balance::InTurn(weights)) => turns(weights),
                Some(Balance::LeastInFlight) => Vec::new(),
                Some(Balance::BySession) => turns(&vec![1; ranges.len()]),
            },
            by_session: matches!(balance, Some(Balance::BySession)),
            each: each.collect(),
        }
    }

    /// The endpoint that request `index` goes to, which belongs to this session.
    pub(crate) fn of(&self, index: u64, session: Option<u64>) -> u16 {
        let number = session.filter(|_| self.by_session).unwrap_or(index);
        let turn = |count: usize| usize::try_from(number % count as u64).unwrap_or(0);
        if !self.turns.is_empty() {
            return self.turns[turn(self.turns.len())];
        }
        let count = self.each.len();
        let first = turn(count);
        let places = (0..count).map(|place| (first + place) % count);
        let least = places.min_by_key(|&place| self.each[place].in_flight);
        u16::try_from(least.unwrap_or(0)).unwrap_or(0)
    }

    pub(crate) fn get(&self, endpoint: u16) -> &Endpoint {
        &self.each[usize::from(endpoint)]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.each.iter_mut()
    }

    pub(crate) fn get_mut(&mut self, endpoint: u16) -> &mut Endpoint {
        &mut self.each[usize::from(endpoint)]
    }

    /// Of each endpoint, the connection that rests longest.
    pub(crate) fn resting_longest(&self) -> impl Iterator<Item = (u32, IdleLimit)> {
        let longest = |endpoint: &Endpoint| Some((endpoint.idle.last()?, endpoint.idle_limit));
        self.each.iter().filter_map(longest)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ridgeline_net::Peer;

    use super::*;

    fn target(spread: Option<Spread>, peers: usize) -> Target {
        Target {
            peers: vec![Peer::Unix(Path::new("/s").into()); peers],
            sources: Vec::new(),
            tls: None,
            spread,
            http2: None,
        }
    }

    #[test]
    fn endpoints_take_turns_by_their_weights() {
        assert_eq!(turns(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(turns(&[1]), [0]);
        assert_eq!(turns(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns(&[0, 2]), [1, 1]);
    }

    #[test]
    fn the_least_busy_endpoint_is_the_next_one() {
        let spread = Spread {
            endpoints: vec![0..1, 1..2, 2..4],
            tls: vec![None; 3],
            balance: Balance::LeastInFlight,
        };
        let mut endpoints = Endpoints::new(&target(Some(spread), 4), 8);
        assert_eq!(
            [0, 1, 2, 3].map(|index| endpoints.of(index, None)),
            [0, 1, 2, 0]
        );
        endpoints.get_mut(1).in_flight = 1;
        assert_eq!(
            [0, 1, 2, 3].map(|index| endpoints.of(index, None)),
            [0, 2, 2, 0]
        );
        assert_eq!(Endpoints::new(&target(None, 4), 8).each[0].peers, 0..4);
    }

    #[test]
    fn a_session_stays_where_it_is() {
        let spread = Spread {
            endpoints: vec![0..1, 1..2, 2..3],
            tls: vec![None; 3],
            balance: Balance::BySession,
        };
        let endpoints = Endpoints::new(&target(Some(spread), 3), 8);
        for session in 0..30 {
            let of = |index| endpoints.of(index, Some(session));
            assert!((0..5).all(|index| of(index) == of(0)), "{session}");
        }
        let used = |place| (0..30).any(|session| endpoints.of(0, Some(session)) == place);
        assert!((0..3).all(used));
        assert_eq!([0, 1, 2].map(|index| endpoints.of(index, None)), [0, 1, 2]);
    }
}
