//! Whatever comes, nothing panics and nothing false is heard.

use crate::foreign::{Foreign, Own, VERSIONS, shake};
use crate::identities::Authority;
use crate::splits::Draw;

const ROUNDS: u64 = 400;

/// Bytes that begin like records.
fn like_records(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=draw.below(4) {
        let kind = [20, 21, 22, 23, 24, 0x80, b'H'][draw.below(7)];
        let length = draw.below(300);
        let said = if draw.below(4) == 0 {
            draw.below(20_000)
        } else {
            length
        };
        let said = u16::try_from(said).unwrap().to_be_bytes();
        bytes.extend_from_slice(&[
            kind,
            3,
            u8::try_from(draw.below(5)).unwrap(),
            said[0],
            said[1],
        ]);
        bytes.extend_from_slice(&draw.bytes(length));
    }
    bytes
}

#[test]
fn bytes_of_any_kind_end_in_an_error_or_in_nothing() {
    let authority = Authority::new("Test CA");
    let (client, server) = (authority.client("localhost"), authority.server());
    for seed in 1..=ROUNDS {
        let mut draw = Draw(seed);
        for session in [client.session(), server.session()] {
            let mut own = Own::new(session.unwrap());
            for _ in 0..8 {
                let bytes = if draw.below(2) == 0 {
                    like_records(&mut draw)
                } else {
                    let length = draw.below(200);
                    draw.bytes(length)
                };
                if own.hear(&bytes).is_err() {
                    break;
                }
            }
            assert!(
                own.heard.is_empty() && !own.session.is_ready(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_handshake_that_was_altered_is_never_believed() {
    let authority = Authority::new("Test CA");
    for seed in 1..=ROUNDS {
        let mut draw = Draw(seed);
        let client = authority.client("localhost");
        let mut server = Foreign::server(&authority, VERSIONS[draw.below(2)]);
        let mut own = Own::new(client.session().unwrap());
        server.hear(&own.sends());
        let mut flight = server.sends();
        match draw.below(3) {
            0 => {
                let at = draw.below(flight.len());
                flight[at] ^= 1 << draw.below(8);
            }
            1 => {
                let at = draw.below(flight.len());
                let more = draw.bytes(3);
                flight.splice(at..at, more);
            }
            _ => {
                let at = draw.below(flight.len());
                flight.remove(at);
            }
        }
        let _ = own.hear(&flight);
        // Without the server's true end of the handshake nobody is ready; TLS 1.2 has another flight.
        let excused = own.session.is_ready();
        assert!(!excused, "seed {seed}");
        assert!(own.heard.is_empty());
    }
}

/// Whether the byte at `at` is one of the version in the header of a record.
fn is_version(mut records: &[u8], mut at: usize) -> bool {
    loop {
        let length = 5 + usize::from(u16::from_be_bytes([records[3], records[4]]));
        if at < length {
            return at == 1 || at == 2;
        }
        at -= length;
        records = &records[length..];
    }
}

#[test]
fn an_answer_that_was_altered_is_heard_up_to_there_at_the_most() {
    let authority = Authority::new("Test CA");
    let answer: Vec<u8> = (0..=255).cycle().take(3_000).collect();
    for seed in 1..=ROUNDS {
        let mut draw = Draw(seed);
        let client = authority.client("localhost");
        let mut server = Foreign::server(&authority, VERSIONS[draw.below(2)]);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        for part in answer.chunks(500) {
            server.say(part);
        }
        let mut bytes = server.sends();
        let at = draw.below(bytes.len());
        let is_version = is_version(&bytes, at);
        bytes[at] ^= 1 << draw.below(8);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(1 + draw.below(rest.len()));
            if own.hear(now).is_err() {
                break;
            }
            rest = later;
        }
        assert!(answer.starts_with(&own.heard), "seed {seed}");
        // What a record says of the version is nothing that anybody goes by.
        assert!(own.heard.len() < answer.len() || is_version, "seed {seed}");
    }
}
