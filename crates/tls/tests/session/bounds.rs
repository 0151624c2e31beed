//! A peer that never comes to an end of what it begins takes no memory beyond the bound.

use ridgeline_tls::{HELD_BYTES_MAX, Session};

use crate::foreign::{Foreign, Own, VERSIONS, shake};
use crate::identities::Authority;

/// Records of `kind` that say the start of one message of `length` bytes, and then ever more of it.
fn endless(session: Session, kind: u8, first: &[u8]) -> (usize, Option<String>) {
    let mut own = Own::new(session);
    let mut record = vec![kind, 3, 3, 0x10, 0x00];
    record.extend_from_slice(first);
    record.resize(5 + 0x1000, 0);
    let mut most = 0;
    for _ in 0..64 {
        let read = own.hear(&record);
        most = most.max(own.session.held_bytes());
        if let Err(error) = read {
            assert_eq!(
                own.session.held_bytes(),
                0,
                "a failed session keeps nothing"
            );
            return (most, Some(error.message));
        }
        record[5..].fill(0);
    }
    (most, None)
}

#[test]
fn a_handshake_without_end_is_given_up_within_the_bound() {
    let authority = Authority::new("Test CA");
    let (client, server) = (authority.client("localhost"), authority.server());
    for length in [[0, 0xff, 0xff], [1, 0, 0], [0xff, 0xff, 0xff]] {
        // ServerHello and Certificate; ClientHello.
        for (session, message) in [
            (client.session(), 2),
            (client.session(), 11),
            (server.session(), 1),
        ] {
            let first = [message, length[0], length[1], length[2]];
            let (most, error) = endless(session.unwrap(), 22, &first);
            assert!(error.is_some(), "{length:?} of {message} is taken for ever");
            assert!(most <= 2 * HELD_BYTES_MAX, "{most}");
        }
    }
}

#[test]
fn a_record_that_is_not_whole_is_held_and_no_more() {
    let authority = Authority::new("Test CA");
    let client = authority.client("localhost");
    let mut server = Foreign::server(&authority, VERSIONS[0]);
    let mut own = Own::new(client.session().unwrap());
    shake(&mut own, &mut server);
    let large = vec![7; 16_384];
    server.say(&large);
    let bytes = server.sends();
    for part in bytes[..bytes.len() - 1].chunks(1_000) {
        own.hear(part).unwrap();
        assert!(own.session.held_bytes() <= 2 * (16_384 + 256));
    }
    assert!(own.heard.is_empty());
    own.hear(&bytes[bytes.len() - 1..]).unwrap();
    assert_eq!(own.heard, large);
    assert_eq!(own.session.held_bytes(), 0, "a large buffer is not kept");
    // A record beyond the limit is not waited for.
    let error = own.hear(&[0x17, 3, 3, 0xff, 0xff]).unwrap_err();
    assert!(!error.message.is_empty());
}
