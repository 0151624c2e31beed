//! Bytes may be cut anywhere.

use ridgeline_tls::Version;

use crate::foreign::{Foreign, Own, VERSIONS, Versions, shake};
use crate::identities::Authority;

const QUESTION: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// How what goes to the session is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Into single bytes.
    All,
    /// Once, after so many bytes of the whole conversation.
    At(usize),
}

/// A session's conversation, and what it has heard of it.
struct Talk {
    own: Own,
    heard_bytes: usize,
    cut: Cut,
}

impl Talk {
    fn hear(&mut self, bytes: &[u8]) {
        match self.cut {
            Cut::All => {
                for byte in bytes.chunks(1) {
                    self.own.hear(byte).unwrap();
                }
            }
            Cut::At(at) => {
                let at = at.saturating_sub(self.heard_bytes).min(bytes.len());
                self.own.hear(&bytes[..at]).unwrap();
                self.own.hear(&bytes[at..]).unwrap();
            }
        }
        self.heard_bytes += bytes.len();
    }
}

/// The client's side of one request and its answer. How many bytes the client has heard.
fn as_client(authority: &Authority, versions: Versions, cut: Cut) -> usize {
    let client = authority.client("localhost");
    let mut server = Foreign::server(authority, versions);
    let mut talk = Talk {
        own: Own::new(client.session().unwrap()),
        heard_bytes: 0,
        cut,
    };
    let mut asked = false;
    while talk.own.heard.len() < ANSWER.len() {
        if talk.own.session.is_ready() && !asked {
            asked = true;
            let own = &mut talk.own;
            own.session.write(QUESTION, &mut own.out).unwrap();
        }
        let answered = server.heard.len();
        server.hear(&talk.own.sends());
        if server.heard.len() > answered {
            server.say(ANSWER);
        }
        talk.hear(&server.sends());
    }
    assert_eq!(talk.own.heard, ANSWER, "{cut:?}");
    assert_eq!(server.heard, QUESTION, "{cut:?}");
    assert!(talk.own.session.held_bytes() <= 512, "{cut:?}");
    talk.heard_bytes
}

/// The server's side of the same.
fn as_server(authority: &Authority, versions: Versions, cut: Cut) -> usize {
    let server = authority.server();
    let mut client = Foreign::client(authority, versions);
    let mut talk = Talk {
        own: Own::new(server.session().unwrap()),
        heard_bytes: 0,
        cut,
    };
    client.say(QUESTION);
    while client.heard.len() < ANSWER.len() {
        let asked = talk.own.heard.len();
        talk.hear(&client.sends());
        let own = &mut talk.own;
        if own.heard.len() == QUESTION.len() && asked < QUESTION.len() {
            own.session.write(ANSWER, &mut own.out).unwrap();
        }
        client.hear(&own.sends());
    }
    assert_eq!(client.heard, ANSWER, "{cut:?}");
    assert_eq!(talk.own.heard, QUESTION, "{cut:?}");
    talk.heard_bytes
}

#[test]
fn every_single_byte_and_every_split_in_two_say_the_same_to_a_client() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let bytes = as_client(&authority, versions, Cut::All);
        assert!(bytes > 500, "a certificate alone is larger");
        for at in 0..=bytes {
            as_client(&authority, versions, Cut::At(at));
        }
    }
}

#[test]
fn every_single_byte_and_every_split_in_two_say_the_same_to_a_server() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let bytes = as_server(&authority, versions, Cut::All);
        assert!(bytes > 200);
        for at in 0..=bytes {
            as_server(&authority, versions, Cut::At(at));
        }
    }
}

/// A small generator: what is drawn must be the same in every run.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }
}

#[test]
fn whatever_is_said_in_pieces_of_any_size_is_heard_both_ways() {
    let authority = Authority::new("Test CA");
    for seed in 1..=12 {
        let mut draw = Draw(seed * 0x9e37_79b9);
        let versions = VERSIONS[draw.below(2)];
        let client = authority.client("localhost");
        let mut server = Foreign::server(&authority, versions);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        let (mut said, mut answered) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let longest = [1, 100, 20_000, 70_000][draw.below(4)];
            let length = draw.below(longest);
            let piece = draw.bytes(length);
            own.session.write(&piece, &mut own.out).unwrap();
            said.extend_from_slice(&piece);
            server.hear(&own.sends());
            if versions == VERSIONS[0] && draw.below(3) == 0 {
                // New keys: the answer to that comes with what is said next.
                server.connection.refresh_traffic_keys().unwrap();
            }
            let length = draw.below(longest);
            let piece = draw.bytes(length);
            server.say(&piece);
            answered.extend_from_slice(&piece);
            let mut bytes = &server.sends()[..];
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(1 + draw.below(bytes.len()));
                own.hear(now).unwrap();
                bytes = later;
            }
        }
        assert_eq!(server.heard.len(), said.len(), "seed {seed}");
        assert!(server.heard == said, "seed {seed}");
        assert!(own.heard == answered, "seed {seed}");
        let expected = [Version::Tls13, Version::Tls12][usize::from(versions == VERSIONS[1])];
        assert_eq!(own.session.version(), Some(expected));
    }
}
