//! A second handshake is short.

use ridgeline_tls::{Client, ClientOptions};

use crate::foreign::{Foreign, Own, VERSIONS, Versions, server_config, shake};
use crate::identities::{Authority, params};

/// Connects `count` times, one after another, and says something each time. Which were resumed.
fn resumed(client: &Client, authority: &Authority, versions: Versions, count: usize) -> Vec<bool> {
    let config = server_config(&authority.issue(&params(&["localhost"])), versions);
    let once = |_| {
        let mut server = Foreign::serving(&config);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        own.session.write(b"question", &mut own.out).unwrap();
        server.hear(&own.sends());
        assert_eq!(server.heard, b"question");
        server.say(b"answer");
        own.hear(&server.sends()).unwrap();
        assert_eq!(own.heard, b"answer");
        let handshake = server.connection.handshake_kind();
        let theirs = handshake == Some(rustls::HandshakeKind::Resumed);
        assert_eq!(theirs, own.session.is_resumed());
        theirs
    };
    (0..count).map(once).collect()
}

#[test]
fn the_second_handshake_is_resumed_in_both_versions() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let client = authority.client("localhost");
        let resumed = resumed(&client, &authority, versions, 4);
        assert_eq!(resumed, [false, true, true, true]);
    }
}

#[test]
fn without_room_for_tickets_nothing_is_resumed() {
    let authority = Authority::new("Test CA");
    for versions in VERSIONS {
        let options = ClientOptions {
            tickets_max: 0,
            ..authority.options()
        };
        let client = Client::new("localhost", options).unwrap();
        assert_eq!(resumed(&client, &authority, versions, 2), [false, false]);
    }
}

#[test]
fn many_connections_at_once_are_resumed_by_one_store() {
    let authority = Authority::new("Test CA");
    let client = authority.client("localhost");
    // Each leaves two tickets, and takes one.
    let first = resumed(&client, &authority, VERSIONS[0], 1);
    assert_eq!(first, [false]);
    let config = server_config(&authority.issue(&params(&["localhost"])), VERSIONS[0]);
    let connect = || {
        let mut server = Foreign::serving(&config);
        let mut own = Own::new(client.session().unwrap());
        shake(&mut own, &mut server);
        own.session.is_resumed()
    };
    // Another server knows nothing of those tickets: the handshakes are long, and succeed.
    let kinds: Vec<bool> = (0..40).map(|_| connect()).collect();
    assert!(!kinds[0] && kinds[39], "{kinds:?}");
    let mut together: Vec<(Own, Foreign)> = (0..20)
        .map(|_| {
            (
                Own::new(client.session().unwrap()),
                Foreign::serving(&config),
            )
        })
        .collect();
    for (own, server) in &mut together {
        shake(own, server);
    }
    assert!(together.iter().all(|(own, _)| own.session.is_resumed()));
}
