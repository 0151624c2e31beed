//! How connections end, and what they speak inside.

use ridgeline_tls::{Client, ClientOptions, TlsErrorKind};

use crate::foreign::{Foreign, Own, VERSIONS, shake};
use crate::identities::Authority;

#[test]
fn an_end_that_was_said_differs_from_a_connection_that_was_cut() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let client = authority.client("localhost");
        let mut server = Foreign::server(&authority, versions);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        server.say(b"half an ans");
        own.hear(&server.sends()).unwrap();
        assert!(!own.session.is_ended(), "a FIN now would be a cut");
        server.connection.send_close_notify();
        let mut last = server.sends();
        // What follows the end says nothing, whatever it is.
        last.extend_from_slice(&[0xff; 300]);
        own.hear(&last).unwrap();
        assert!(own.session.is_ended());
        assert_eq!(own.heard, b"half an ans");
        assert_eq!(own.session.held_bytes(), 0);
    }
}

#[test]
fn closing_is_said_once_and_only_where_it_can_be() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let client = authority.client("localhost");
        let mut early = Own::new(client.session().unwrap());
        early.out.clear();
        early.session.close(&mut early.out);
        assert!(early.out.is_empty(), "nobody can read it yet");
        assert!(early.session.write(b"x", &mut early.out).is_err());
        assert!(early.out.is_empty());

        let mut server = Foreign::server(&authority, versions);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        own.session.write(b"bye", &mut own.out).unwrap();
        own.session.close(&mut own.out);
        let mut bytes = &own.sends()[..];
        server.connection.read_tls(&mut bytes).unwrap();
        let state = server.connection.process_new_packets().unwrap();
        assert!(state.peer_has_closed());
        own.session.close(&mut own.out);
        assert!(own.out.is_empty());
    }
}

#[test]
fn an_alert_ends_it_in_words() {
    let authority = Authority::new("Test CA");
    let client = authority.client("localhost");
    let mut server = Foreign::server(&authority, VERSIONS[0]);
    let mut own = Own::new(client.session().unwrap());
    shake(&mut own, &mut server);
    // What is not a record makes the server complain.
    let mut wrong = &[
        0x17, 3, 3, 0, 20, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ][..];
    server.connection.read_tls(&mut wrong).unwrap();
    server.connection.process_new_packets().unwrap_err();
    let alert = server.sends();
    let error = own.hear(&alert).unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Alert);
    assert!(error.message.contains("BadRecordMac"), "{error}");
    // And again: it does not recover.
    assert_eq!(own.hear(b"more").unwrap_err(), error);
    assert_eq!(own.session.write(b"x", &mut own.out), Err(error));
}

#[test]
fn protocols_are_offered_as_they_are_given() {
    let authority = Authority::new("Test CA");
    let offered = |protocols: &[&[u8]]| ClientOptions {
        protocols: protocols.iter().map(|p| p.to_vec()).collect(),
        ..authority.options()
    };
    let identity = authority
        .issue(&crate::identities::params(&["localhost"]))
        .identity();
    let server = ridgeline_tls::Server::new(
        identity,
        ridgeline_tls::ServerOptions {
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            ..ridgeline_tls::ServerOptions::new(crate::identities::now)
        },
    )
    .unwrap();
    for (protocols, agreed) in [
        (&[&b"http/1.1"[..]][..], Some(&b"http/1.1"[..])),
        (&[b"http/1.1", b"h2"], Some(b"h2")),
        (&[], None),
    ] {
        let client = Client::new("localhost", offered(protocols)).unwrap();
        let (mut ours, mut theirs) = (
            Own::new(client.session().unwrap()),
            Own::new(server.session().unwrap()),
        );
        for _ in 0..4 {
            theirs.hear(&ours.sends()).unwrap();
            ours.hear(&theirs.sends()).unwrap();
        }
        assert!(ours.session.is_ready() && theirs.session.is_ready());
        assert_eq!(ours.session.protocol(), agreed);
    }
    let client = Client::new("localhost", offered(&[b"mqtt"])).unwrap();
    let (mut ours, mut theirs) = (
        Own::new(client.session().unwrap()),
        Own::new(server.session().unwrap()),
    );
    theirs.hear(&ours.sends()).unwrap_err();
    let error = ours.hear(&theirs.sends()).unwrap_err();
    assert!(error.message.contains("none of the protocols"), "{error}");
}
