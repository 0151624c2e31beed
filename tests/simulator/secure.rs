use std::collections::HashMap;
use std::sync::Arc;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Balance, Outcome, Plan, Record, Spread};
use ridgeline_metrics::Metric;
use ridgeline_net::Peer as Place;
use ridgeline_net::sim::{Actions, Ended, SimConfig, SimNet, SimPeer};
use ridgeline_tls::{
    Client, ClientOptions, Identity, Scratch, Server, ServerOptions, Session, Trust,
};
use ridgeline_wire::exchange::ErrorKind;

use crate::world::{Endpoint, MS, World, closed, constant, plan, request_length, run, run_on};

/// From one end of the network to the other and back.
const ROUND_TRIP: Nanos = Nanos::from_micros(20);

pub(crate) fn wall_clock() -> Nanos {
    Nanos::from_secs(1_893_456_000)
}

/// Who the endpoint is, and a client that trusts it.
pub(crate) fn pair(name: &str) -> (Server, Arc<Client>) {
    let own = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (chain, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let server = Server::new(identity, ServerOptions::new(wall_clock)).unwrap();
    let options = ClientOptions {
        trust: Trust::Only(chain.into_bytes()),
        ..ClientOptions::new(wall_clock)
    };
    let client = Client::new("10.0.0.1", options).unwrap();
    (server, Arc::new(client))
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Whole,
    /// The connection is closed after it, so long after.
    Closed(Nanos),
    /// FIN after half of it, announced in TLS or not.
    Half {
        announced: bool,
    },
}

/// One connection of it.
#[derive(Debug)]
struct Peer {
    session: Session,
    unread: Vec<u8>,
    answers: u32,
}

/// The endpoint of the other tests, behind TLS.
#[derive(Debug)]
struct Secured {
    server: Server,
    inner: Endpoint,
    ending: Ending,
    sessions: HashMap<u32, Peer>,
    scratch: Scratch,
    /// Handshakes that were short.
    resumed: Arc<std::sync::atomic::AtomicU32>,
}

impl Secured {
    fn new(server: Server, ending: Ending) -> Self {
        Self {
            server,
            inner: Endpoint::new(MS * 5, MS, 8),
            ending,
            sessions: HashMap::new(),
            scratch: Scratch::default(),
            resumed: Arc::default(),
        }
    }

    fn answer(&self, session: &mut Session, actions: &mut Actions) {
        let mut said = |plain: &[u8], actions: &mut Actions| {
            let mut out = Vec::new();
            session.write(plain, &mut out).unwrap();
            actions.send(&out);
        };
        said(&self.inner.head, actions);
        actions.wait(self.inner.ttft);
        let half = self.inner.events.len() / 2;
        for (n, event) in self.inner.events.iter().enumerate() {
            if n > 0 {
                actions.wait(self.inner.itl);
            }
            if n == half && matches!(self.ending, Ending::Half { .. }) {
                break;
            }
            said(event, actions);
        }
        if let Ending::Half { announced } = self.ending {
            if announced {
                let mut out = Vec::new();
                session.close(&mut out);
                actions.send(&out);
            }
            actions.fin();
            return;
        }
        said(&self.inner.tail, actions);
        if let Ending::Closed(after) = self.ending {
            actions.wait(after).fin();
        }
    }
}

impl SimPeer for Secured {
    fn on_accept(&mut self, connection: u32, _: &mut Actions) {
        let session = self.server.session().unwrap();
        let peer = Peer {
            session,
            unread: Vec::new(),
            answers: 0,
        };
        self.sessions.insert(connection, peer);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        let mut peer = self.sessions.remove(&connection).unwrap();
        let session = &mut peer.session;
        let was_ready = session.is_ready();
        let mut out = Vec::new();
        // A client that does not trust says so, and then FIN.
        let heard = session.received(bytes, &mut self.scratch, &mut out);
        if heard.is_ok() {
            if !out.is_empty() {
                actions.send(&out);
            }
            if session.is_ready() && !was_ready && session.is_resumed() {
                let counted = std::sync::atomic::Ordering::Relaxed;
                self.resumed.fetch_add(1, counted);
            }
            peer.unread.extend_from_slice(self.scratch.plain());
            // One that will be closed hears nothing more.
            let hears = peer.answers == 0 || self.ending == Ending::Whole;
            if let Some(length) = request_length(&peer.unread)
                && hears
            {
                peer.unread.drain(..length);
                peer.answers += 1;
                self.answer(session, actions);
            }
        }
        self.sessions.insert(connection, peer);
    }

    fn on_end(&mut self, _: u32, _: Ended, actions: &mut Actions) {
        actions.fin();
    }
}

fn through(client: &Arc<Client>, mut plan: Plan) -> Plan {
    plan.target.tls = Some(client.clone());
    plan
}

fn kinds(records: &[Record], kind: ErrorKind) -> Vec<String> {
    let message = |record: &Record| {
        assert_eq!(record.outcome, Outcome::Error(kind), "{record:?}");
        let details = record.details.as_ref().unwrap();
        details.message.clone().unwrap().into_owned()
    };
    records.iter().map(message).collect()
}

#[test]
fn the_handshake_stands_apart_and_all_other_times_are_as_in_the_clear() {
    let (server, client) = pair("10.0.0.1");
    let endpoint = Secured::new(server, Ending::Whole);
    let out = run(through(&client, plan(closed(4), 40)), endpoint);
    assert_eq!((out.counts().completed, out.counts().failed), (40, 0));
    for record in &out.records {
        let t = &record.timeline;
        assert_eq!(
            t.first_token.unwrap() - t.submitted.unwrap(),
            MS * 5 + ROUND_TRIP
        );
        assert_eq!(t.first_byte.unwrap() - t.submitted.unwrap(), ROUND_TRIP);
        assert_eq!(t.last_token.unwrap() - t.first_token.unwrap(), MS * 7);
        assert_eq!(record.content_events, 8);
        assert_eq!(t.tls.is_some(), t.connect.is_some());
        assert_eq!(record.secured.is_some(), record.connected.is_some());
        if let (Some(connected), Some(secured)) = (record.connected, record.secured) {
            // TLS 1.3 takes one round trip, and the request goes with the client's last word.
            assert_eq!(t.connect, Some(ROUND_TRIP));
            assert_eq!(t.tls, Some(ROUND_TRIP));
            assert_eq!(secured - connected, ROUND_TRIP);
            assert!(t.submitted.unwrap() >= secured);
        }
    }
    for metric in [Metric::Connect, Metric::Tls] {
        let summary = out.summary(metric).unwrap();
        assert_eq!(summary.count, 4);
        assert!(
            summary.min >= 19_900 && summary.max <= 20_100,
            "{summary:?}"
        );
    }
}

#[test]
fn reads_that_cut_records_anywhere_change_nothing() {
    for seed in 0..8 {
        let (server, client) = pair("10.0.0.1");
        let mut config = SimConfig {
            seed,
            ..SimConfig::default()
        };
        config.shape.split_ppm = 600_000;
        config.shape.merge_ppm = 200_000;
        config.shape.segment_bytes_max = 300;
        let endpoint = Secured::new(server, Ending::Whole);
        let out = run_on(config, through(&client, plan(closed(8), 64)), endpoint);
        assert_eq!(
            (out.counts().completed, out.counts().failed),
            (64, 0),
            "seed {seed}"
        );
        for record in &out.records {
            assert_eq!(
                (record.content_events, record.usage.output_tokens),
                (8, Some(8))
            );
        }
    }
}

#[test]
fn connections_after_the_first_are_resumed() {
    let (server, client) = pair("10.0.0.1");
    let endpoint = Secured::new(server, Ending::Closed(Nanos::ZERO));
    let resumed = endpoint.resumed.clone();
    let out = run(through(&client, plan(closed(1), 10)), endpoint);
    assert_eq!((out.counts().completed, out.counts().failed), (10, 0));
    assert_eq!(out.result.connections_opened, 10);
    let counted = std::sync::atomic::Ordering::Relaxed;
    assert_eq!(resumed.load(counted), 9);
}

#[test]
fn an_idle_connection_that_was_closed_without_a_word_costs_a_retry_and_no_error() {
    // As in the clear: request and FIN cross on the way. Few servers announce such an end.
    let (server, client) = pair("10.0.0.1");
    let endpoint = Secured::new(server, Ending::Closed(MS));
    let load = constant(1.0e9 / 13_050_000.0, None);
    let out = run(through(&client, plan(load, 100)), endpoint);
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (100, 0), "{counts:?}");
    assert!(
        counts.retried > 0,
        "no request crossed a FIN: the test has lost its point"
    );
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_error_of_its_own() {
    let (server, _) = pair("10.0.0.1");
    let (_, client) = pair("10.0.0.1");
    let endpoint = Secured::new(server, Ending::Whole);
    let out = run(through(&client, plan(closed(2), 6)), endpoint);
    assert_eq!(out.records.len(), 6);
    for message in kinds(&out.records, ErrorKind::Certificate) {
        assert!(message.contains("certificate of 10.0.0.1"), "{message}");
        assert!(message.contains("--ca-file"), "{message}");
    }
    assert!(
        out.records
            .iter()
            .all(|record| record.timeline.submitted.is_none())
    );
    let (server, _) = pair("api.example");
    let endpoint = Secured::new(server, Ending::Whole);
    let options = ClientOptions {
        trust: Trust::Anyone,
        ..ClientOptions::new(wall_clock)
    };
    let anyone = Arc::new(Client::new("10.0.0.1", options).unwrap());
    let out = run(through(&anyone, plan(closed(2), 6)), endpoint);
    assert_eq!(out.counts().completed, 6);
}

/// Takes connections, and says nothing on them.
#[derive(Debug)]
struct Mute;

impl SimPeer for Mute {
    fn on_bytes(&mut self, _: u32, _: &[u8], _: &mut Actions) {}
}

#[test]
fn limits_on_parts_of_a_request_hold_behind_tls() {
    let (server, client) = pair("10.0.0.1");
    let mut plan = through(&client, plan(closed(2), 6));
    plan.waits.connect = Some(MS * 50);
    plan.waits.first_token = Some(MS * 3);
    // A handshake is a part of setting a connection up.
    let out = run(plan.clone(), Mute);
    kinds(&out.records, ErrorKind::ConnectTimeout);
    for record in &out.records {
        let t = &record.timeline;
        assert_eq!(t.done.unwrap() - t.started, MS * 50);
    }
    let out = run(plan.clone(), Secured::new(server.clone(), Ending::Whole));
    kinds(&out.records, ErrorKind::FirstTokenTimeout);
    for record in &out.records {
        let t = &record.timeline;
        assert_eq!(t.done.unwrap() - t.submitted.unwrap(), MS * 3);
    }
    plan.waits.first_token = Some(MS * 6);
    let out = run(plan, Secured::new(server, Ending::Whole));
    assert_eq!(out.counts().completed, 6);
}

#[test]
fn each_of_several_endpoints_is_secured_by_its_own_name() {
    let (server, client) = pair("10.0.1.0");
    let named = |name| Some(Arc::new(client.named(name).unwrap()));
    let places: Vec<Place> = (0..3_u8)
        .map(|n| Place::Tcp(([10, 0, 1, n], 8000).into()))
        .collect();
    let net = SimNet::new(SimConfig::default());
    let secured = || Secured::new(server.clone(), Ending::Whole);
    net.listen(&places[0], secured()).unwrap();
    net.listen(&places[1], Endpoint::new(MS * 5, MS, 8))
        .unwrap();
    net.listen(&places[2], secured()).unwrap();
    let mut plan = plan(closed(3), 30);
    plan.target.peers = places;
    plan.target.spread = Some(Spread {
        endpoints: vec![0..1, 1..2, 2..3],
        tls: vec![named("10.0.1.0"), None, named("10.0.1.2")],
        balance: Balance::InTurn(vec![1; 3]),
    });
    let out = World::new(net, plan).run();
    for record in &out.records {
        // The third one's certificate is that of the first.
        let expected = match record.index % 3 {
            2 => Outcome::Error(ErrorKind::Certificate),
            _ => Outcome::Ok,
        };
        assert_eq!(record.outcome, expected, "{}", record.index);
        assert!(record.secured.is_none() || record.index % 3 == 0);
    }
    assert!(out.records.iter().any(|record| record.secured.is_some()));
    assert_eq!((out.counts().completed, out.counts().failed), (20, 10));
}

#[test]
fn an_answer_that_was_cut_differs_from_one_that_was_ended() {
    for (announced, kind) in [
        (false, ErrorKind::TlsTruncated),
        (true, ErrorKind::Truncated),
    ] {
        let (server, client) = pair("10.0.0.1");
        let endpoint = Secured::new(server, Ending::Half { announced });
        let out = run(through(&client, plan(closed(2), 6)), endpoint);
        assert_eq!(out.records.len(), 6);
        kinds(&out.records, kind);
        assert!(out.records.iter().all(|record| record.content_events == 4));
    }
}

/// Does one thing when the client says hello.
#[derive(Debug)]
enum Odd {
    Silent,
    Plain,
    Fin,
    Reset,
}

impl SimPeer for Odd {
    fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
        match self {
            Self::Silent => actions,
            Self::Plain => actions.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
            Self::Fin => actions.fin(),
            Self::Reset => actions.rst(),
        };
    }
}

#[test]
fn a_handshake_that_fails_says_how() {
    for (odd, kind, part) in [
        (
            Odd::Silent,
            ErrorKind::ConnectTimeout,
            "the TLS handshake was not over",
        ),
        (Odd::Plain, ErrorKind::Tls, "plain HTTP"),
        (
            Odd::Fin,
            ErrorKind::Tls,
            "closed the connection during the TLS handshake",
        ),
        (
            Odd::Reset,
            ErrorKind::Tls,
            "reset the connection during the TLS handshake",
        ),
    ] {
        let (_, client) = pair("10.0.0.1");
        let mut plan = plan(closed(2), 4);
        plan.timeout = MS * 100;
        let out = run(through(&client, plan), odd);
        assert_eq!(out.records.len(), 4);
        for message in kinds(&out.records, kind) {
            assert!(message.contains(part), "{message}");
        }
        for record in &out.records {
            assert!(record.connected.is_some() && record.secured.is_none());
            assert!(record.timeline.submitted.is_none());
            if kind == ErrorKind::ConnectTimeout {
                let span = record.timeline.done.unwrap() - record.timeline.started;
                assert_eq!(span, MS * 100, "the timeout covers the handshake");
            }
        }
    }
}
