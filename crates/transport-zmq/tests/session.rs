//! The protocol without IO: bytes cut anywhere mean the same, and no bytes do harm.

use proptest::prelude::*;
use ridgeline_transport::Flow;
use ridgeline_transport_zmq::Kind;
use ridgeline_transport_zmq::zmtp::{Events, Fault, Met, Rules, Security, Session, command, frame};

const MESSAGE_BYTES_MAX: usize = 70_000;

/// Everything that a session told, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    lines: Vec<Line>,
    /// Messages until it holds.
    room: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Met(Vec<u8>, Vec<u8>, bool),
    Message(Vec<u8>),
    Answer(Vec<u8>),
}

impl Events for Told {
    fn met(&mut self, met: &Met<'_>) {
        let (kind, identity) = (met.socket_type.to_vec(), met.identity.to_vec());
        self.lines
            .push(Line::Met(kind, identity, met.answers_pings));
    }

    fn message(&mut self, message: &[u8]) -> Flow {
        self.lines.push(Line::Message(message.to_vec()));
        let Some(room) = &mut self.room else {
            return Flow::More;
        };
        *room -= 1;
        if *room == 0 { Flow::Hold } else { Flow::More }
    }

    fn answer(&mut self, bytes: &[u8]) {
        self.lines.push(Line::Answer(bytes.to_vec()));
    }
}

fn session(kind: Kind) -> Session {
    Session::new(Rules {
        kind,
        identity: b"me".to_vec(),
        message_bytes_max: MESSAGE_BYTES_MAX,
        security: Security::Null,
    })
}

/// What a peer of this type sends first.
fn handshake(socket_type: &str, identity: &[u8], minor: u8) -> Vec<u8> {
    let mut bytes = session(Kind::Push).greeting().to_vec();
    bytes[11] = minor;
    let mut properties = Vec::new();
    command::put_property(&mut properties, "socket-type", socket_type.as_bytes());
    command::put_property(&mut properties, "Identity", identity);
    command::put_property(&mut properties, "X-Other", b"ignored");
    frame::put(
        &mut bytes,
        frame::COMMAND,
        &command::body("READY", &properties),
    );
    bytes
}

/// A whole conversation: handshake, messages of all header sizes, commands between them.
fn conversation() -> Vec<u8> {
    let mut bytes = handshake("DEALER", b"worker 3", 1);
    frame::put(&mut bytes, 0, b"");
    frame::put(&mut bytes, 0, b"one");
    frame::put(&mut bytes, frame::COMMAND, b"\x04PING\0\x05ctx");
    frame::put(&mut bytes, 0, &[7; 255]);
    frame::put(&mut bytes, 0, &[8; 256]);
    frame::put(&mut bytes, frame::MORE, b"");
    frame::put(&mut bytes, 0, b"behind an empty frame");
    frame::put(&mut bytes, frame::COMMAND, b"\x09SUBSCRIBEx");
    frame::put(&mut bytes, frame::COMMAND, b"\x04PONG");
    frame::put(&mut bytes, 0, &[9; 1_000]);
    bytes
}

fn whole() -> Told {
    let mut told = Told::default();
    let mut session = session(Kind::Router);
    let flow = session.receive(&conversation(), Flow::More, &mut told);
    assert_eq!(flow, Ok(Flow::More));
    assert_eq!(session.kept_bytes(), 0);
    assert!(session.delimits());
    told
}

#[test]
fn a_conversation_is_told() {
    let told = whole();
    let messages: Vec<usize> = told
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Message(message) => Some(message.len()),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [0, 3, 255, 256, 21, 1_000]);
    assert_eq!(
        told.lines[1],
        Line::Met(b"DEALER".to_vec(), b"worker 3".to_vec(), true)
    );
    let pong = b"\x04\x08\x04PONGctx".to_vec();
    assert!(told.lines.contains(&Line::Answer(pong)));
    let Line::Answer(ready) = &told.lines[0] else {
        panic!("{:?}", told.lines[0]);
    };
    assert_eq!(
        ready,
        b"\x04\x2b\x05READY\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\x02me"
    );
}

#[test]
fn a_conversation_cut_in_two_anywhere_is_the_same() {
    let (bytes, expected) = (conversation(), whole());
    for cut in 0..=bytes.len() {
        let (mut session, mut told) = (session(Kind::Router), Told::default());
        session
            .receive(&bytes[..cut], Flow::More, &mut told)
            .unwrap();
        session
            .receive(&bytes[cut..], Flow::More, &mut told)
            .unwrap();
        assert!(told == expected, "cut at {cut}");
        assert_eq!(session.kept_bytes(), 0);
    }
}

#[test]
fn a_conversation_byte_by_byte_is_the_same() {
    let (mut session, mut told) = (session(Kind::Router), Told::default());
    for byte in conversation() {
        session.receive(&[byte], Flow::More, &mut told).unwrap();
    }
    assert_eq!(told, whole());
}

/// Held after each message, at every cut, with bytes coming while it is held.
#[test]
fn a_conversation_held_and_resumed_is_the_same() {
    let (bytes, expected) = (conversation(), whole());
    for cut in 0..=bytes.len() {
        let mut session = session(Kind::Router);
        let mut told = Told {
            room: Some(1),
            ..Told::default()
        };
        let mut flow = Flow::More;
        for part in [&bytes[..cut], &bytes[cut..]] {
            flow = session.receive(part, flow, &mut told).unwrap();
        }
        while flow == Flow::Hold {
            told.room = Some(1);
            flow = session.resume(&mut told).unwrap();
        }
        assert!(told.lines == expected.lines, "cut at {cut}");
        assert_eq!(session.kept_bytes(), 0);
    }
}

/// What a session of this kind finds wrong with these bytes.
fn fault(kind: Kind, bytes: &[u8]) -> Fault {
    let result = session(kind).receive(bytes, Flow::More, &mut Told::default());
    result.expect_err("these bytes are not allowed")
}

/// A handshake and one frame.
fn after(socket_type: &str, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = handshake(socket_type, b"", 1);
    frame::put(&mut bytes, flags, body);
    bytes
}

#[test]
fn kinds_and_mechanisms_that_do_not_fit_are_named() {
    let kind = |theirs: &str, ours| Fault::Kind {
        theirs: theirs.to_owned(),
        ours,
    };
    let mut curve = session(Kind::Pull).greeting();
    curve[12..17].copy_from_slice(b"CURVE");
    let mechanism = Fault::Mechanism {
        theirs: "CURVE".to_owned(),
        ours: "NULL",
    };
    let push = handshake("PUSH", b"", 1);
    let cases: [(Kind, &[u8], Fault); 4] = [
        (Kind::Pull, &curve, mechanism),
        (Kind::Pull, &handshake("SUB", b"", 1), kind("SUB", "PULL")),
        (Kind::Push, &push, kind("PUSH", "PUSH")),
        (
            Kind::Dealer,
            &handshake("REP", b"", 1),
            kind("REP", "DEALER"),
        ),
    ];
    for (kind, bytes, expected) in cases {
        assert_eq!(fault(kind, bytes), expected);
        assert!(expected.cause().to_string().starts_with("refused: "));
    }
    let mut refusing = session(Kind::Pull).greeting().to_vec();
    frame::put(
        &mut refusing,
        frame::COMMAND,
        &command::error_body("go away"),
    );
    assert_eq!(
        fault(Kind::Pull, &refusing).cause().to_string(),
        "refused: it said: go away"
    );
}

#[test]
fn what_is_not_allowed_is_named() {
    let too_long = Fault::TooLong {
        bytes: MESSAGE_BYTES_MAX as u64 + 1,
        bytes_max: MESSAGE_BYTES_MAX,
    };
    let mut early = session(Kind::Pull).greeting().to_vec();
    frame::put(&mut early, 0, b"hello");
    let mut second = handshake("PUSH", b"", 1);
    second.extend_from_slice(&handshake("PUSH", b"", 1)[64..]);
    let mut long_command = session(Kind::Pull).greeting().to_vec();
    frame::put(&mut long_command, frame::COMMAND, &[0; 20_000]);
    let long = after("PUSH", 0, &vec![0; MESSAGE_BYTES_MAX + 1]);
    let old = b"\xFF\0\0\0\0\0\0\0\0\x7F\x01".to_vec();
    let cases: [(Kind, Vec<u8>, Fault); 10] = [
        (Kind::Pull, b"GET /".to_vec(), Fault::NotZmtp),
        (Kind::Pull, old, Fault::Version(1)),
        (Kind::Pull, early, Fault::Handshake("a message")),
        (Kind::Pull, second, Fault::Handshake("a second READY")),
        (Kind::Pull, long_command, Fault::CommandTooLong(20_000)),
        (Kind::Pull, long, too_long),
        (Kind::Pull, after("PUSH", frame::MORE, b""), Fault::Parts),
        (
            Kind::Router,
            after("DEALER", frame::MORE, b"x"),
            Fault::Parts,
        ),
        (Kind::Push, after("PULL", 0, b"x"), Fault::OneWay),
        (Kind::Pull, after("PUSH", 8, b"x"), Fault::Flags(8)),
    ];
    for (kind, bytes, expected) in cases {
        assert_eq!(fault(kind, &bytes), expected);
        assert!(!expected.cause().to_string().is_empty());
    }
}

/// The length of a message is judged before any of it is kept.
#[test]
fn a_header_alone_is_refused() {
    let (mut session, mut told) = (session(Kind::Pull), Told::default());
    session
        .receive(&handshake("PUSH", b"", 0), Flow::More, &mut told)
        .unwrap();
    let huge = b"\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
    for byte in &huge[..8] {
        session.receive(&[*byte], Flow::More, &mut told).unwrap();
    }
    let fault = session.receive(&huge[8..], Flow::More, &mut told);
    assert!(matches!(
        fault,
        Err(Fault::TooLong {
            bytes: u64::MAX,
            ..
        })
    ));
    assert!(session.kept_bytes() <= 9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A conversation with a few bytes changed, cut into pieces of any size: an error or not, never a
    /// panic, the same however it is cut, and never more kept than one message.
    #[test]
    fn changed_bytes_do_no_harm(
        changes in prop::collection::vec((0..1_700_usize, any::<u8>()), 0..6),
        cuts in prop::collection::vec(1..400_usize, 1..40),
        kind in prop::sample::select(vec![Kind::Push, Kind::Pull, Kind::Router, Kind::Dealer]),
    ) {
        let mut bytes = conversation();
        for (place, byte) in changes {
            if let Some(place) = bytes.get_mut(place) {
                *place = byte;
            }
        }
        let (mut one, mut other) = (Told::default(), Told::default());
        let at_once = session(kind).receive(&bytes, Flow::More, &mut one);
        let mut session = session(kind);
        let mut rest = &bytes[..];
        let mut result = Ok(Flow::More);
        for cut in cuts.iter().cycle() {
            let (part, after) = rest.split_at((*cut).min(rest.len()));
            rest = after;
            result = session.receive(part, Flow::More, &mut other);
            prop_assert!(session.kept_bytes() <= MESSAGE_BYTES_MAX + 9);
            if result.is_err() || rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(result.is_err(), at_once.is_err());
        prop_assert_eq!(one.lines, other.lines);
    }

    /// Bytes of nothing at all.
    #[test]
    fn noise_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..3_000), greeted in any::<bool>()) {
        let mut all = if greeted { handshake("PUSH", b"", 1) } else { Vec::new() };
        all.extend_from_slice(&bytes);
        let mut session = session(Kind::Pull);
        let mut told = Told::default();
        for part in all.chunks(97) {
            if session.receive(part, Flow::More, &mut told).is_err() {
                break;
            }
        }
    }
}
