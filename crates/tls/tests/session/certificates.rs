//! Each thing that can be wrong with a certificate, in words.

use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use ridgeline_tls::{
    Client, ClientOptions, Identity, Server, ServerOptions, SetupError, TlsError, TlsErrorKind,
    Trust,
};

use crate::foreign::Own;
use crate::identities::{Authority, Issued, authority, key, now, params};

/// What a client of `name` finds wrong with a server that is `issued`.
fn meet(client: &Client, issued: &Issued) -> Result<(), TlsError> {
    let server = Server::new(issued.identity(), ServerOptions::new(now)).unwrap();
    converse(client, &server).0
}

/// How the client, and how the server ended.
fn converse(client: &Client, server: &Server) -> (Result<(), TlsError>, Result<(), TlsError>) {
    let mut ours = Own::new(client.session().unwrap());
    let mut theirs = Own::new(server.session().unwrap());
    let (mut client, mut server) = (Ok(()), Ok(()));
    for _ in 0..4 {
        server = server.and_then(|()| theirs.hear(&ours.sends()));
        client = client.and_then(|()| ours.hear(&theirs.sends()));
    }
    if client.is_ok() && server.is_ok() {
        assert!(ours.session.is_ready() && theirs.session.is_ready());
    }
    (client, server)
}

fn refused(client: &Client, issued: &Issued, parts: &[&str]) {
    let error = meet(client, issued).unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Certificate, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn what_is_sound_is_taken() {
    let root = Authority::new("Root CA");
    let client = root.client("localhost");
    assert_eq!(meet(&client, &root.issue(&params(&["localhost"]))), Ok(()));
    assert_eq!(
        meet(
            &root.client("a.b.example"),
            &root.issue(&params(&["*.b.example"]))
        ),
        Ok(())
    );
    assert_eq!(
        meet(
            &root.client("127.0.0.1"),
            &root.issue(&params(&["127.0.0.1"]))
        ),
        Ok(())
    );
    assert_eq!(
        meet(&root.client("::1"), &root.issue(&params(&["::1"]))),
        Ok(())
    );
    let between = root.below("Intermediate CA");
    let mut issued = between.issue(&params(&["localhost"]));
    issued.chain.push_str(&between.pem);
    assert_eq!(meet(&client, &issued), Ok(()));
}

#[test]
fn times_that_are_over_or_to_come_are_told_with_their_day() {
    let root = Authority::new("Root CA");
    let client = root.client("localhost");
    let mut expired = params(&["localhost"]);
    expired.not_after = date_time_ymd(2029, 12, 27);
    refused(
        &client,
        &root.issue(&expired),
        &[
            "certificate of localhost expired on 2029-12-27, 5 days ago",
            "renew it",
        ],
    );
    let mut early = params(&["localhost"]);
    early.not_before = date_time_ymd(2031, 2, 3);
    refused(
        &client,
        &root.issue(&early),
        &[
            "not valid before 2031-02-03",
            "this machine has 2030-01-01",
            "clock",
        ],
    );
}

#[test]
fn a_wrong_name_is_told_beside_those_that_were_presented() {
    let root = Authority::new("Root CA");
    let issued = root.issue(&params(&["api.example", "10.1.2.3"]));
    for name in ["localhost", "127.0.0.1"] {
        refused(
            &root.client(name),
            &issued,
            &[
                &format!("certificate of {name} is for `api.example`, `10.1.2.3`"),
                "subjectAltName",
            ],
        );
    }
    refused(
        &root.client("localhost"),
        &root.issue(&params(&[])),
        &["for no name at all"],
    );
}

#[test]
fn an_unknown_issuer_is_told_by_its_name() {
    let (known, other) = (Authority::new("Known CA"), Authority::new("Other CA"));
    let client = known.client("localhost");
    refused(
        &client,
        &other.issue(&params(&["localhost"])),
        &[
            "leads to `Other CA`",
            "no certificate in between",
            "--ca-file",
            "--insecure",
        ],
    );
    let between = other.below("Middle CA");
    let mut issued = between.issue(&params(&["localhost"]));
    issued.chain.push_str(&between.pem);
    refused(
        &client,
        &issued,
        &["leads to `Other CA`, over one certificate in between"],
    );
    // The one in between was not sent.
    let between = known.below("Middle CA");
    let issued = between.issue(&params(&["localhost"]));
    refused(
        &client,
        &issued,
        &["leads to `Middle CA`, and the server sent no certificate"],
    );
}

#[test]
fn a_root_that_was_made_again_under_its_name_is_told_as_such() {
    let (old, new) = (Authority::new("Our CA"), Authority::new("Our CA"));
    let issued = new.issue(&params(&["localhost"]));
    refused(
        &old.client("localhost"),
        &issued,
        &["--ca-file", "older one of the same name"],
    );
}

#[test]
fn certificates_of_odd_kinds_are_told_as_such() {
    let root = Authority::new("Root CA");
    let client = root.client("localhost");
    let own = key();
    let itself = Issued {
        chain: params(&["localhost"]).self_signed(&own).unwrap().pem(),
        key: own.serialize_pem(),
    };
    refused(&client, &itself, &["signed by itself", "--ca-file"]);
    // And by --ca-file it is trusted.
    let trusting = Client::new(
        "localhost",
        ClientOptions {
            trust: Trust::Only(itself.chain.clone().into_bytes()),
            ..ClientOptions::new(now)
        },
    );
    assert_eq!(meet(&trusting.unwrap(), &itself), Ok(()));

    let own = key();
    let mut params_of_ca = authority("localhost");
    params_of_ca.subject_alt_names = params(&["localhost"]).subject_alt_names;
    let ca = Issued {
        chain: params_of_ca.self_signed(&own).unwrap().pem(),
        key: own.serialize_pem(),
    };
    refused(&client, &ca, &["that of an authority", "--insecure"]);

    let mut for_clients = params(&["localhost"]);
    for_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    refused(
        &client,
        &root.issue(&for_clients),
        &["not for servers", "serverAuth"],
    );
}

#[test]
fn without_a_check_all_of_them_are_taken() {
    let root = Authority::new("Root CA");
    let options = ClientOptions {
        trust: Trust::Anyone,
        ..ClientOptions::new(now)
    };
    let client = Client::new("localhost", options).unwrap();
    assert!(!client.is_checked() && root.client("localhost").is_checked());
    let mut expired = params(&["elsewhere"]);
    expired.not_after = date_time_ymd(2021, 1, 1);
    assert_eq!(meet(&client, &root.issue(&expired)), Ok(()));
}

#[test]
fn clients_are_known_by_their_certificate_where_a_server_asks() {
    let (root, other) = (Authority::new("Root CA"), Authority::new("Other CA"));
    let identity = root.issue(&params(&["localhost"])).identity();
    let options = ServerOptions {
        clients: Some(root.pem.clone().into_bytes()),
        ..ServerOptions::new(now)
    };
    let server = Server::new(identity, options).unwrap();
    let client = |identity: Option<Identity>| {
        let options = ClientOptions {
            identity,
            ..root.options()
        };
        Client::new("localhost", options).unwrap()
    };
    let issued = root.issue(&params(&["a client"])).identity();
    assert_eq!(converse(&client(Some(issued)), &server), (Ok(()), Ok(())));

    let (ours, theirs) = converse(&client(None), &server);
    let error = ours.unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Alert);
    assert!(
        error
            .message
            .contains("pass --client-cert and --client-key"),
        "{error}"
    );
    assert!(theirs.is_err());

    let stranger = other.issue(&params(&["a stranger"])).identity();
    let (ours, theirs) = converse(&client(Some(stranger)), &server);
    let error = ours.unwrap_err();
    assert!(error.message.contains("check --client-cert"), "{error}");
    let error = theirs.unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Certificate);
    assert!(
        error.message.contains("the client's certificate"),
        "{error}"
    );
}

#[test]
fn what_is_not_tls_is_told_as_such() {
    let root = Authority::new("Root CA");
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let mut own = Own::new(root.client("localhost").session().unwrap());
        let error = own.hear(answer.as_bytes()).unwrap_err();
        assert_eq!(error.kind, TlsErrorKind::NotTls, "{error}");
        assert!(error.message.contains("http://"), "{error}");
    }
    let mut own = Own::new(root.server().session().unwrap());
    let error = own.hear(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::NotTls, "{error}");
}

#[test]
fn what_cannot_be_used_is_told_before_any_connection() {
    let root = Authority::new("Root CA");
    let trusting = |pem: &str| {
        let options = ClientOptions {
            trust: Trust::Only(pem.as_bytes().to_vec()),
            ..ClientOptions::new(now)
        };
        Client::new("localhost", options).map(drop)
    };
    assert_eq!(trusting("nothing"), Err(SetupError::NoCertificate));
    let cut = root.pem.replace("-----END", "-----");
    assert!(matches!(trusting(&cut), Err(SetupError::Pem(_))));
    let damaged = root.pem.replace("MII", "MIX").replace("MIH", "MIX");
    assert!(trusting(&damaged).is_err());
    let (one, two) = (root.issue(&params(&["a"])), root.issue(&params(&["b"])));
    assert!(matches!(
        Identity::from_pem(one.chain.as_bytes(), b"nothing"),
        Err(SetupError::NoKey)
    ));
    let crossed = Identity::from_pem(one.chain.as_bytes(), two.key.as_bytes()).unwrap();
    let made = Server::new(crossed, ServerOptions::new(now)).map(drop);
    assert!(matches!(made, Err(SetupError::Identity(_))), "{made:?}");
    let name = Client::new("not a name", root.options()).map(drop);
    assert!(matches!(name, Err(SetupError::Name(_))));
}
