//! CURVE: who has the token gets in and reads everything, and nobody else does either.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use ridgeline_clock::Nanos;
use ridgeline_net::sim::{SimConfig, SimNet};
use ridgeline_transport::conformance::Log;
use ridgeline_transport::{Flow, Limits, Transport};
use ridgeline_transport_zmq::zmtp::{Events, Fault, Met, Rules, Security, Session, frame};
use ridgeline_transport_zmq::{Address, Keys, Kind, Zmq};

static OURS: LazyLock<Keys> =
    LazyLock::new(|| Keys::from_token("a token for tests alone").unwrap());
static OTHER: LazyLock<Keys> =
    LazyLock::new(|| Keys::from_token("another token, not ours").unwrap());

#[derive(Debug, Default)]
struct Told {
    met: Vec<u8>,
    messages: Vec<Vec<u8>>,
    answers: Vec<u8>,
}

impl Events for Told {
    fn met(&mut self, met: &Met<'_>) {
        self.met = met.identity.to_vec();
    }

    fn message(&mut self, message: &[u8]) -> Flow {
        self.messages.push(message.to_vec());
        Flow::More
    }

    fn answer(&mut self, bytes: &[u8]) {
        self.answers.extend_from_slice(bytes);
    }
}

fn session(kind: Kind, security: Security) -> Session {
    Session::new(Rules {
        kind,
        identity: kind.name().as_bytes().to_vec(),
        message_bytes_max: 1_000,
        security,
    })
}

fn curve(keys: &Keys, listened: bool) -> Security {
    Security::Curve {
        keys: Arc::new(keys.clone()),
        listened,
    }
}

/// Both sides, and what they were told.
struct Talk {
    sessions: [Session; 2],
    told: [Told; 2],
}

impl Talk {
    fn new(router: Security, dealer: Security) -> Self {
        Self {
            sessions: [session(Kind::Router, router), session(Kind::Dealer, dealer)],
            told: Default::default(),
        }
    }

    /// Feeds one side in pieces of this size.
    fn feed(&mut self, side: usize, bytes: &[u8], piece: usize) -> Result<(), Fault> {
        for part in bytes.chunks(piece) {
            self.sessions[side].receive(part, Flow::More, &mut self.told[side])?;
        }
        Ok(())
    }

    /// Both greet, and answer each other until there is nothing more to say.
    fn handshake(&mut self, piece: usize) -> Result<(), Fault> {
        let greetings = [1, 0].map(|side: usize| self.sessions[side].greeting());
        for (side, greeting) in greetings.iter().enumerate() {
            self.feed(side, greeting, piece)?;
        }
        while !self.told.iter().all(|told| told.answers.is_empty()) {
            for side in [0, 1] {
                let bytes = std::mem::take(&mut self.told[1 - side].answers);
                self.feed(side, &bytes, piece)?;
            }
        }
        Ok(())
    }

    fn sealed(&mut self, side: usize, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.sessions[side].seal(0, message, &mut bytes);
        bytes
    }
}

fn met(piece: usize) -> Talk {
    let mut talk = Talk::new(curve(&OURS, true), curve(&OURS, false));
    talk.handshake(piece).unwrap();
    talk
}

#[test]
fn both_sides_meet_and_read_each_other_however_bytes_are_cut() {
    for piece in [1, 7, 64, 10_000] {
        let mut talk = met(piece);
        assert!(talk.sessions.iter().all(Session::is_up));
        assert_eq!(talk.told[0].met, b"DEALER");
        assert_eq!(talk.told[1].met, b"ROUTER");
        for side in [0, 1] {
            for message in [&b""[..], b"hello", &[9; 1_000]] {
                let bytes = talk.sealed(side, message);
                assert!(message.is_empty() || !bytes.windows(message.len()).any(|w| w == message));
                talk.feed(1 - side, &bytes, piece).unwrap();
                assert_eq!(talk.told[1 - side].messages.last().unwrap(), message);
            }
        }
        // A ping is sealed, and so is its answer.
        let mut ping = Vec::new();
        talk.sessions[0].seal(frame::COMMAND, b"\x04PING\0\x05abc", &mut ping);
        talk.feed(1, &ping, piece).unwrap();
        let pong = std::mem::take(&mut talk.told[1].answers);
        assert!(pong.starts_with(&[0]) && pong.len() > 40, "{pong:?}");
        talk.feed(0, &pong, piece).unwrap();
    }
}

#[test]
fn another_token_or_none_does_not_get_in() {
    let secured = |keys: &Keys, listened| curve(keys, listened);
    let mechanism = |theirs: &str, ours| Fault::Mechanism {
        theirs: theirs.to_owned(),
        ours,
    };
    for (router, dealer, fault) in [
        (secured(&OURS, true), secured(&OTHER, false), Fault::Secret),
        (
            secured(&OURS, true),
            Security::Null,
            mechanism("NULL", "CURVE"),
        ),
        (
            Security::Null,
            secured(&OURS, false),
            mechanism("CURVE", "NULL"),
        ),
    ] {
        let mut talk = Talk::new(router, dealer);
        assert_eq!(talk.handshake(500), Err(fault));
        assert!(!talk.sessions.iter().any(Session::is_up));
        assert!(talk.told.iter().all(|told| told.met.is_empty()));
    }
}

#[test]
fn what_was_changed_or_played_again_is_refused() {
    let mut talk = met(1_000);
    let bytes = talk.sealed(1, b"pay 1");
    talk.feed(0, &bytes, 1_000).unwrap();
    assert_eq!(talk.feed(0, &bytes, 1_000), Err(Fault::Secret));
    for place in 2..bytes.len() {
        let mut talk = met(1_000);
        let mut bytes = talk.sealed(1, b"pay 1");
        bytes[place] ^= 1;
        assert!(talk.feed(0, &bytes, 1_000).is_err(), "byte {place}");
        assert!(talk.told[0].messages.is_empty());
    }
    // In the clear.
    let mut talk = met(1_000);
    let mut clear = Vec::new();
    frame::put(&mut clear, 0, b"pay 1");
    assert!(talk.feed(0, &clear, 1_000).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Bytes of the handshake changed on their way: an end, or a handshake as before, never a panic.
    #[test]
    fn changed_handshakes_do_no_harm(side in 0..2_usize, step in 0..3_usize, place in 0..300_usize, mask in 1..=255_u8) {
        let mut talk = Talk::new(curve(&OURS, true), curve(&OURS, false));
        let mut waiting = [1, 0].map(|other: usize| talk.sessions[other].greeting().to_vec());
        for round in 0..4 {
            for to in [0, 1] {
                let mut bytes = std::mem::take(&mut waiting[to]);
                if (round, to) == (step, side) && let Some(byte) = bytes.get_mut(place) {
                    *byte ^= mask;
                }
                if talk.feed(to, &bytes, 1_000).is_err() {
                    return Ok(());
                }
                waiting[1 - to].append(&mut talk.told[to].answers);
            }
        }
    }
}

/// Ends with tokens, over a network.
#[test]
fn ends_with_the_same_token_meet_and_others_are_told() {
    let net = SimNet::new(SimConfig::default());
    let end = |kind, keys: Option<&Keys>| {
        let end = Zmq::new(net.driver(64), net.clock(), kind, Limits::control());
        match keys {
            Some(keys) => end.secured(keys.clone()),
            None => end,
        }
    };
    let mut router = end(Kind::Router, Some(&OURS));
    // With a token other machines may connect.
    let any: Address = "tcp://0.0.0.0:7000".parse().unwrap();
    router.bind(&any).unwrap();
    let mut dealers = [Some(&*OURS), Some(&*OTHER), None].map(|keys| end(Kind::Dealer, keys));
    for dealer in &mut dealers {
        dealer.connect(&any).unwrap();
    }
    let (mut at_router, mut at_dealers) = (Log::default(), [(); 3].map(|()| Log::default()));
    for _ in 0..400 {
        router.turn(Nanos::ZERO, &mut at_router).unwrap();
        for (dealer, log) in dealers.iter_mut().zip(&mut at_dealers) {
            dealer.turn(Nanos::ZERO, log).unwrap();
        }
        let step = ridgeline_clock::Clock::now(&net.clock()) + Nanos::from_millis(1);
        net.advance(step);
    }
    let here = at_dealers.each_ref().map(|log| log.peer().is_some());
    assert_eq!(here, [true, false, false]);
    assert_eq!(at_router.joined().len(), 1);
    let said = |log: &Log| log.unmet()[0].1.to_string();
    assert_eq!(
        said(&at_dealers[2]),
        "refused: it asks for mechanism CURVE, this end for NULL"
    );
    assert!(
        said(&at_dealers[1]).starts_with("refused: "),
        "{}",
        said(&at_dealers[1])
    );
    let refused = at_router.unmet().iter().map(|(_, cause)| cause.to_string());
    let refused: Vec<String> = refused.collect();
    assert!(
        refused.contains(&"refused: it does not have this end's token".to_owned()),
        "{refused:?}"
    );
}
