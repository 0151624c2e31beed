//! Ends within one process: a bounded ring of bytes in each direction.

mod bell;
mod link;

use std::sync::Arc;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::Wake;

use self::bell::Bell;
use self::link::{Link, direction};
use crate::{
    Cause, Flow, Left, Limits, PeerId, Queued, Receiver, Refused, To, Transport, TransportError,
    Turn,
};

/// What is delivered of one peer before the others have their turn.
const SHARE_BYTES: usize = 256 << 10;

/// An end whose peers are ends of other threads of this process, or of the same one.
///
/// Ends are made and linked first, and then given to their threads. An end that is dropped leaves all
/// its peers; what it sent before is still delivered. Waiting turns sleep on the machine's clock.
#[derive(Debug)]
pub struct InProcess {
    limits: Limits,
    bell: Arc<Bell>,
    places: Vec<Place>,
    /// The peer that `To::Any` looks at first.
    next_to: usize,
    /// The peer whose messages are delivered first.
    next_from: usize,
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    link: Option<Link>,
}

impl Place {
    fn leave(&mut self) {
        if let Some(link) = self.link.take() {
            let bell = link.out.bell();
            // First gone, then told.
            drop(link);
            bell.ring();
            self.generation += 1;
        }
    }
}

impl InProcess {
    /// An end without peers. Of the limits those of time do not apply: a peer of the same process is
    /// there or dropped.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            bell: Arc::default(),
            places: Vec::new(),
            next_to: 0,
            next_from: 0,
        }
    }

    /// Two ends that are each other's only peer.
    #[must_use]
    pub fn pair(limits: Limits) -> (Self, Self) {
        let (mut one, mut other) = (Self::new(limits), Self::new(limits));
        one.link(&mut other, "in-process", "in-process");
        (one, other)
    }

    /// Makes two ends each other's peers. `name` is what this end is called at the other, and
    /// `other_name` what the other is called here. The queue of each direction is bounded by its
    /// sender's limits. Returns the peers' names, the other's first, or nothing where one of the ends has
    /// as many peers as it may.
    pub fn link(
        &mut self,
        other: &mut Self,
        name: &str,
        other_name: &str,
    ) -> Option<(PeerId, PeerId)> {
        let (at, other_at) = (self.vacancy()?, other.vacancy()?);
        let (out, other_into) = direction(&self.limits, &self.bell, &other.bell);
        let (other_out, into) = direction(&other.limits, &other.bell, &self.bell);
        let there = self.settle(at, Link::new(out, into, other_name.to_owned()));
        let here = other.settle(other_at, Link::new(other_out, other_into, name.to_owned()));
        Some((there, here))
    }

    fn vacancy(&self) -> Option<usize> {
        let free = self.places.iter().position(|place| place.link.is_none());
        let at = free.unwrap_or(self.places.len());
        (at < self.limits.peers_max as usize).then_some(at)
    }

    fn settle(&mut self, at: usize, link: Link) -> PeerId {
        if at == self.places.len() {
            self.places.push(Place::default());
        }
        self.places[at].link = Some(link);
        self.id(at)
    }

    fn id(&self, at: usize) -> PeerId {
        PeerId {
            index: u32::try_from(at).unwrap_or(u32::MAX),
            generation: self.places[at].generation,
        }
    }

    fn get(&self, peer: PeerId) -> Option<&Link> {
        let place = self.places.get(peer.index as usize)?;
        let link = place.link.as_ref()?;
        (place.generation == peer.generation && !link.parting).then_some(link)
    }

    fn put(&mut self, at: usize, message: &[u8]) -> Result<(), Refused> {
        let link = self.places[at].link.as_mut().filter(|link| !link.parting);
        let Some(link) = link.filter(|link| !link.out.is_abandoned()) else {
            return Err(Refused::Gone);
        };
        let result = link.out.put(message);
        link.was_full |= result.is_err();
        result
    }

    fn send_any(&mut self, message: &[u8]) -> Result<(), Refused> {
        let mut refused = Refused::NoPeer;
        let count = self.places.len();
        for step in 0..count {
            let at = (self.next_to + step) % count;
            match self.put(at, message) {
                Ok(()) => {
                    self.next_to = at + 1;
                    return Ok(());
                }
                Err(Refused::Full) => refused = Refused::Full,
                Err(_) => {}
            }
        }
        Err(refused)
    }

    fn is_ready(&self, held: bool) -> bool {
        let mut links = self.places.iter().filter_map(|place| place.link.as_ref());
        links.any(|link| link.is_ready(held))
    }

    /// Delivers and tells what there is, each peer in turn.
    fn pass<R: Receiver>(&mut self, receiver: &mut R, turn: &mut Turn) {
        let count = self.places.len();
        let mut flow = receiver.flow();
        for step in 0..count {
            let at = (self.next_from + step) % count;
            self.pass_peer(at, receiver, &mut flow, turn);
        }
        self.next_from = (self.next_from + 1) % count.max(1);
    }

    fn pass_peer<R: Receiver>(
        &mut self,
        at: usize,
        receiver: &mut R,
        flow: &mut Flow,
        turn: &mut Turn,
    ) {
        let peer = self.id(at);
        let place = &mut self.places[at];
        let Some(link) = &mut place.link else { return };
        if !link.is_told {
            link.is_told = true;
            turn.events += 1;
            receiver.joined(peer, &link.who);
        }
        if *flow == Flow::More && !link.parting {
            let messages;
            (messages, *flow) = link.into.deliver(peer, SHARE_BYTES, receiver);
            turn.messages += messages;
        }
        if link.was_full && link.out.has_room_again() {
            link.was_full = false;
        }
        if let Some(cause) = link.over() {
            let unsent = match cause {
                Cause::Local => Queued::default(),
                _ => link.out.queued(),
            };
            place.leave();
            turn.events += 1;
            receiver.left(peer, &Left { cause, unsent });
        }
    }
}

impl Transport for InProcess {
    type Waker = InProcessWaker;

    #[inline]
    fn send(&mut self, to: To, message: &[u8]) -> Result<(), Refused> {
        let bytes_max = self.limits.message_bytes_max.min(u32::MAX as usize);
        if message.len() > bytes_max {
            return Err(Refused::TooLong {
                bytes: message.len(),
                bytes_max,
            });
        }
        match to {
            To::Any => self.send_any(message),
            To::Peer(peer) if self.get(peer).is_some() => self.put(peer.index as usize, message),
            To::Peer(_) => Err(Refused::Gone),
        }
    }

    fn turn<R: Receiver>(
        &mut self,
        deadline: Nanos,
        receiver: &mut R,
    ) -> Result<Turn, TransportError> {
        let mut turn = Turn::default();
        let held = receiver.flow() == Flow::Hold;
        if !self.is_ready(held) {
            turn.waited = self.bell.wait(deadline, || self.is_ready(held));
        }
        self.pass(receiver, &mut turn);
        turn.woken = self.bell.was_woken();
        turn.now = MonotonicClock.now();
        Ok(turn)
    }

    fn part(&mut self, peer: PeerId) {
        let place = self.places.get_mut(peer.index as usize);
        if let Some(place) = place.filter(|place| place.generation == peer.generation)
            && let Some(link) = &mut place.link
        {
            link.parting = true;
        }
    }

    fn queued(&self, peer: PeerId) -> Queued {
        self.get(peer)
            .map_or_else(Queued::default, |link| link.out.queued())
    }

    fn queued_all(&self) -> Queued {
        let links = self.places.iter().filter_map(|place| place.link.as_ref());
        links.map(|link| link.out.queued()).fold(
            Queued::default(),
            |sum, Queued { messages, bytes }| Queued {
                messages: sum.messages + messages,
                bytes: sum.bytes + bytes,
            },
        )
    }

    fn waker(&self) -> InProcessWaker {
        InProcessWaker(Arc::clone(&self.bell))
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        for place in &mut self.places {
            place.leave();
        }
    }
}

/// Wakes an [`InProcess`] end.
#[derive(Clone, Debug)]
pub struct InProcessWaker(Arc<Bell>);

impl Wake for InProcessWaker {
    fn wake(&self) {
        self.0.wake();
    }
}
