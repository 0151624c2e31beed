//! The whole service but for its threads, on a virtual network and clock: messages in, a real shard,
//! messages out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ridgeline_clock::{Clock, Nanos, SimClock};
use ridgeline_engine::{
    Bell, Connections, Control, Limits as EngineLimits, Load, Plan, Requests, Shard, Target, Waits,
    feed,
};
use ridgeline_net::sim::{Actions, SimConfig, SimDriver, SimNet, SimPeer};
use ridgeline_net::{Driver, Peer};
use ridgeline_schedule::StopRule;
use ridgeline_transport::{Flow, InProcess, Left, PeerId, Receiver, Transport};
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::Order;

use crate::heads::{HeadOptions, Heads, Origin};
use crate::intake::Intake;
use crate::outbox::{Outbox, Readers};
use crate::protocol::{
    Batch, BodyFrame, NoticeFrame, Outward, Piece, QueryFrame, Totals, Value, end_message,
    read_outward, template_message,
};
use crate::shared::Shared;
use crate::{Limits, protocol};

/// Where the network begins.
const START: Nanos = Nanos::from_millis(1);

/// Answers every request with one token after 5 ms, and remembers what it was asked.
#[derive(Debug, Default)]
struct Endpoint {
    unread: HashMap<u32, Vec<u8>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A stream of these events.
fn answer(events: &[&str]) -> Bytes {
    let mut text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    for event in events {
        let event = format!("data: {event}\n\n");
        text.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    text.push_str("0\r\n\r\n");
    Bytes::from(text)
}

impl SimPeer for Endpoint {
    fn on_accept(&mut self, connection: u32, _: &mut Actions) {
        self.unread.entry(connection).or_default().clear();
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        let unread = self.unread.entry(connection).or_default();
        unread.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(unread).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return;
        };
        let length = head.rsplit("Content-Length: ").next().unwrap();
        if body.len() < length.parse().unwrap() {
            return;
        }
        unread.clear();
        let path = head.split(' ').nth(1).unwrap();
        self.asked.lock().unwrap().push(format!("{path} {body}"));
        let said = if path.ends_with("/chat/completions") {
            r#"{"choices":[{"delta":{"content":"Hi"}}]}"#
        } else {
            r#"{"choices":[{"text":"Ho"}]}"#
        };
        let finish = r#"{"choices":[{"index":0,"delta":{},"text":"","finish_reason":"stop"}]}"#;
        actions.wait(Nanos::from_millis(5));
        actions.send_shared(answer(&[said, finish, "[DONE]"]));
    }
}

/// What a client got.
#[derive(Default)]
struct Client {
    notices: Vec<NoticeFrame>,
    /// Id, outcome, scheduled, started and text.
    results: Vec<(u64, String, Nanos, Nanos, Option<String>)>,
    errors: Vec<(String, Option<u64>)>,
    ended: Option<Totals>,
    hold: bool,
}

impl Receiver for Client {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        match read_outward(message).unwrap() {
            Outward::Notices(notices) => self.notices.extend(notices),
            Outward::Results(results) => {
                for result in results {
                    self.results.push((
                        result.id,
                        result.outcome.to_owned(),
                        result.times.scheduled,
                        result.times.started,
                        result.text.map(str::to_owned),
                    ));
                }
            }
            Outward::Error { code, id, .. } => self.errors.push((code.to_owned(), id)),
            Outward::Ended(totals) => self.ended = Some(totals),
        }
        self.flow()
    }

    fn left(&mut self, _: PeerId, _: &Left) {}

    fn flow(&self) -> Flow {
        if self.hold { Flow::Hold } else { Flow::More }
    }
}

struct World {
    net: SimNet,
    driver: SimDriver,
    shard: Shard,
    intake: Option<Intake<SimClock>>,
    outbox: Outbox,
    shared: Arc<Shared>,
    requests: [InProcess; 2],
    responses: [InProcess; 2],
    client: Client,
    asked: Arc<Mutex<Vec<String>>>,
}

fn plan(slots: u32) -> Plan {
    Plan {
        target: Target {
            peers: vec![address()],
            sources: Vec::new(),
            tls: None,
            spread: None,
            http2: None,
        },
        endpoint: EndpointType::Chat,
        streaming: true,
        load: Load::Closed { concurrency: slots },
        stop: StopRule {
            requests_max: None,
            duration: None,
        },
        first_index: 0,
        warmup_requests: 0,
        timeout: Nanos::from_secs(60),
        waits: Waits::default(),
        connections: Connections::Reuse,
        drain_timeout: Nanos::MAX,
        order: Order::Sequential,
        slos: Vec::new(),
        save_text: false,
        count_later: false,
        save_events: false,
        rx_timestamps: true,
        shards: 1,
        own_shards: 0..1,
        cores: None,
        run_id: 7,
        limits: EngineLimits::default(),
    }
}

fn address() -> Peer {
    Peer::Tcp(([10, 0, 0, 1], 8000).into())
}

impl World {
    fn new(slots: u32, limits: Limits, queues: ridgeline_transport::Limits) -> Self {
        let net = SimNet::new(SimConfig::default());
        let endpoint = Endpoint::default();
        let asked = endpoint.asked.clone();
        net.listen(&address(), endpoint).unwrap();
        net.clock().advance_to(START);
        let plan = Arc::new(plan(slots));
        let head = RequestTemplate::new(&RequestOptions {
            method: Method::Post,
            target: "/",
            host: "h",
            accept: "*/*",
            api_key: None,
            id_prefix: "",
            headers: &[],
        });
        let requests = Requests::new(head.unwrap(), vec![Bytes::new()], 0);
        let control = Arc::new(Control::new(1));
        let mut shard = Shard::new(0, plan.clone(), Arc::new(requests), control, None).unwrap();
        let told = Arc::new(Bell::default());
        let (supply, feed, outlet) = feed(limits.unanswered_max(), slots, told.clone());
        shard.begin_fed(START, feed);
        let shared = Arc::new(Shared::new(limits));
        let heads = HeadOptions {
            origins: vec![Origin {
                host: "h".into(),
                target: "/v1/chat/completions".into(),
            }],
            api_key: None,
            headers: Vec::new(),
            id_prefix: "rl-".into(),
            endpoint: EndpointType::Chat,
        };
        let heads = Heads::new(heads, limits.endpoints_max).unwrap();
        let (to, from) = InProcess::pair(ridgeline_transport::Limits {
            message_bytes_max: 20 << 20,
            ..ridgeline_transport::Limits::default()
        });
        let (out, there) = InProcess::pair(queues);
        Self {
            driver: net.driver(plan.limits.connections(slots)),
            intake: Some(Intake::new(
                net.clock(),
                shared.clone(),
                heads,
                vec![supply],
                told,
            )),
            outbox: Outbox::new(shared.clone(), vec![outlet]),
            net,
            shard,
            shared,
            requests: [to, from],
            responses: [out, there],
            client: Client::default(),
            asked,
        }
    }

    fn usual() -> Self {
        Self::new(4, Limits::default(), ridgeline_transport::Limits::default())
    }

    fn send(&mut self, message: &[u8]) {
        let [to, _] = &mut self.requests;
        to.send(ridgeline_transport::To::Any, message).unwrap();
        to.turn(Nanos::ZERO, &mut Readers::default()).unwrap();
    }

    fn send_queries(&mut self, queries: &[QueryFrame<'_>]) {
        let mut batch = Batch::default();
        queries.iter().for_each(|query| batch.push(query));
        self.send(&batch.into_message());
    }

    /// Everything has one turn.
    fn step(&mut self) {
        if let Some(intake) = &mut self.intake {
            self.requests[1].turn(Nanos::ZERO, intake).unwrap();
            if intake.has_ended() {
                self.intake = None;
            }
        }
        let now = self.net.clock().now();
        let deadline = self.shard.step(now, self.driver.commands());
        // The time of a pause: the world has more to do than the shard.
        let deadline = deadline.min(now + Nanos::from_millis(1));
        self.driver.turn(deadline, &mut self.shard).unwrap();
        self.outbox.collect();
        let [out, there] = &mut self.responses;
        self.outbox.send(out);
        out.turn(Nanos::ZERO, &mut Readers::default()).unwrap();
        there.turn(Nanos::ZERO, &mut self.client).unwrap();
    }

    fn run_until(&mut self, done: impl Fn(&Client) -> bool) {
        for _ in 0..100_000 {
            if done(&self.client) {
                return;
            }
            self.step();
        }
        panic!("it does not come to an end");
    }

    fn errors(&self) -> Vec<(&str, Option<u64>)> {
        let errors = self.client.errors.iter();
        errors.map(|(code, id)| (code.as_str(), *id)).collect()
    }
}

fn query(id: u64) -> QueryFrame<'static> {
    QueryFrame {
        id,
        due_ns: 0,
        endpoint: None,
        stream: true,
        text: false,
        body: BodyFrame::Whole(b"{}"),
    }
}

#[test]
fn each_query_is_sent_as_it_says_and_has_one_notice_and_one_result() {
    let mut world = World::usual();
    let pieces = [
        Piece::Bytes(b"{\"p\":\""),
        Piece::Hole(0),
        Piece::Bytes(b"\"}"),
    ];
    world.send(&template_message(9, &pieces));
    let values = [Value::Text("a \"b\"")];
    let later = START + Nanos::from_millis(30);
    world.send_queries(&[
        QueryFrame {
            due_ns: later.0,
            ..query(1)
        },
        QueryFrame {
            endpoint: Some("/other/completions"),
            text: true,
            body: BodyFrame::filled(9, &values),
            ..query(2)
        },
        // Due before the network began: at once, and its lag shows.
        QueryFrame {
            due_ns: 5,
            ..query(3)
        },
    ]);
    world.run_until(|client| client.results.len() == 3);
    let by_id = |id| world.client.results.iter().find(|r| r.0 == id).unwrap();
    assert_eq!((by_id(1).2, by_id(1).3), (later, later));
    assert_eq!(by_id(2).4.as_deref(), Some("Ho"));
    assert_eq!((by_id(3).2, by_id(3).4.as_deref()), (Nanos(5), None));
    assert!(by_id(3).3 >= START);
    assert!(world.client.results.iter().all(|result| result.1 == "ok"));
    let mut told: Vec<u64> = world.client.notices.iter().map(|n| n.id).collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2, 3]);
    let asked = world.asked.lock().unwrap().clone();
    let last = asked.last().unwrap();
    assert_eq!((asked.len(), &**last), (3, "/v1/chat/completions {}"));
    assert!(asked.contains(&"/other/completions {\"p\":\"a \\\"b\\\"\"}".to_owned()));
    let first = world.client.notices[0];
    assert_eq!(first.ttft_ns, first.first_token_ns - first.submitted_ns);
    world.send(&end_message());
    while !world.shard.is_done() || world.outbox.has_more() {
        world.step();
    }
    world.outbox.say_goodbye();
    world.run_until(|client| client.ended.is_some());
    let ended = world.client.ended.unwrap();
    assert_eq!((ended.queries, ended.errors), (3, 0));
}

#[test]
fn what_is_not_taken_is_answered_and_what_is_goes_on() {
    let mut world = World::usual();
    world.send(&[0xc1]);
    world.send(b"");
    world.send(b"\x92\x03\xa3end");
    world.send(b"\x92\x02\xa4ends");
    let mut long = end_message();
    long.push(0);
    world.send(&long);
    world.send(&vec![0; Limits::default().message_bytes_max + 1]);
    world.send_queries(&[
        query(1),
        query(1),
        QueryFrame {
            endpoint: Some("no path"),
            ..query(2)
        },
        QueryFrame {
            body: BodyFrame::filled(1, &[]),
            ..query(3)
        },
        QueryFrame {
            due_ns: 1_700_000_000_000_000_000,
            ..query(4)
        },
        query(5),
    ]);
    world.send_queries(&[query(5)]);
    let many: Vec<_> = (100..100 + 4_097).map(query).collect();
    world.send_queries(&many);
    world.run_until(|client| client.errors.len() == 12 && client.results.len() == 2);
    assert_eq!(
        world.errors(),
        [
            ("malformed", None),
            ("malformed", None),
            ("version", None),
            ("malformed", None),
            ("malformed", None),
            ("oversized", None),
            ("endpoint", Some(2)),
            ("template", Some(3)),
            ("due", Some(4)),
            ("duplicate", Some(1)),
            ("duplicate", Some(5)),
            ("oversized", None),
        ]
    );
    // Its first one was answered: the id is free.
    world.send_queries(&[query(5)]);
    world.run_until(|client| client.results.len() == 3);
    assert!(world.client.results.iter().all(|result| result.1 == "ok"));
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    let mut world = World::usual();
    let mut batch = Batch::default();
    (0..10).for_each(|id| batch.push(&query(id)));
    let message = batch.into_message();
    for length in 1..message.len() {
        world.send(&message[..length]);
        world.step();
    }
    world.run_until(|client| client.errors.len() == message.len() - 1);
    assert!(
        world
            .errors()
            .iter()
            .all(|error| *error == ("malformed", None))
    );
    assert!(world.client.results.is_empty());
    world.send(&message);
    world.run_until(|client| client.results.len() == 10);
}

#[test]
fn a_full_service_reads_no_more_until_results_are_out() {
    let limits = Limits {
        queries_max: 4,
        ..Limits::default()
    };
    let mut world = World::new(2, limits, ridgeline_transport::Limits::default());
    for first in 0..20 {
        let ids: Vec<_> = (first * 3..first * 3 + 3).map(query).collect();
        world.send_queries(&ids);
    }
    let mut most = 0;
    while world.client.results.len() < 60 {
        world.step();
        most = most.max(world.shared.take(|unanswered| unanswered.len()));
    }
    assert!((4..=6).contains(&most), "{most}");
    assert_eq!(world.client.results.len(), 60);
    assert!(world.client.errors.is_empty());
}

#[test]
fn a_client_that_does_not_read_stops_the_service_and_loses_nothing() {
    let queues = ridgeline_transport::Limits {
        queued_messages_max: 2,
        ..ridgeline_transport::Limits::default()
    };
    let limits = Limits {
        queries_max: 600,
        ..Limits::default()
    };
    let mut world = World::new(4, limits, queues);
    world.client.hold = true;
    for first in 0..20 {
        let ids: Vec<_> = (first * 100..first * 100 + 100).map(query).collect();
        world.send_queries(&ids);
    }
    for _ in 0..5_000 {
        world.step();
    }
    let waiting = world.shared.take(|unanswered| unanswered.len());
    assert!(waiting >= 600 && world.shared.is_full(), "{waiting}");
    assert!(world.client.results.is_empty());
    world.client.hold = false;
    world.run_until(|client| client.results.len() == 2_000);
    let mut ids: Vec<u64> = world.client.results.iter().map(|r| r.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..2_000).collect::<Vec<_>>());
    assert_eq!(world.client.notices.len(), 2_000);
}

#[test]
fn a_result_that_is_too_long_leaves_its_text_out() {
    let long = "x".repeat(1_000);
    let result = protocol::ResultFrame {
        id: 1,
        outcome: "ok",
        text: Some(&long),
        ..protocol::ResultFrame::default()
    };
    let mut answers = protocol::Answers::results(Vec::new());
    answers.result(&result, 500);
    answers.result(&result, 5_000);
    let message = answers.into_message();
    let Ok(Outward::Results(results)) = read_outward(&message) else {
        panic!("results");
    };
    assert_eq!(results[0].text, None);
    assert!(results[0].message.unwrap().contains("more than a message"));
    assert_eq!(results[1], result);
}
