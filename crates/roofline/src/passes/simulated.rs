//! The engine without a kernel: one shard against an endpoint that answers at once, on the virtual
//! network at full speed; and on the same network a client that only counts bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock, Nanos, SimClock};
use ridgeline_engine::{
    Connections, Control, Limits, Load, Plan, Requests, Shard, Target, Waits, drive, id_prefix,
    window,
};
use ridgeline_metrics::Phase;
use ridgeline_net::sim::{Actions, Shape, SimConfig, SimDriver, SimNet, SimPeer};
use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
use ridgeline_perf::payload;
use ridgeline_schedule::StopRule;
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::Order;

use crate::streams::{Kind, Stream};

/// Requests in flight.
pub const CONCURRENCY: u32 = 64;
/// Requests before those that are measured: every buffer is touched once.
const WARMUP_REQUESTS: u64 = 4 * CONCURRENCY as u64;

/// What the endpoint answers every request with.
#[derive(Clone, Debug)]
pub struct Answer {
    bytes: Bytes,
    content_events: u64,
    streamed: bool,
}

impl Answer {
    /// One `chat.completion` of some 400 bytes.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            bytes: payload::completion().into(),
            content_events: 1,
            streamed: false,
        }
    }

    /// A stream of `content_events` content events, a token each, in reads of up to 64 KiB.
    #[must_use]
    pub fn stream(content_events: u64) -> Self {
        let stream = Stream::new(Kind::OneToken, content_events, 1);
        Self {
            bytes: stream.bytes.into(),
            content_events,
            streamed: true,
        }
    }

    /// Its length, head included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its events that generate something; 1 of a plain answer.
    #[must_use]
    pub fn content_events(&self) -> u64 {
        self.content_events
    }
}

/// Answers whatever comes in one segment, which is a request.
#[derive(Debug)]
struct Endpoint(Bytes);

impl SimPeer for Endpoint {
    fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
        actions.send_shared(self.0.clone());
    }
}

fn address() -> Peer {
    Peer::Tcp(SocketAddr::from(([10, 0, 0, 1], 8000)))
}

/// A network with the endpoint on it. Time 0 is no time to start: stamps of 0 would look like none.
fn network(answer: &Answer) -> SimNet {
    let net = SimNet::new(SimConfig {
        shape: Shape {
            segment_bytes_max: 64 << 10,
            ..Shape::default()
        },
        ..SimConfig::default()
    });
    net.listen(&address(), Endpoint(answer.bytes.clone()))
        .expect("an empty network has the address free");
    net.clock().advance_to(Nanos::from_millis(1));
    net
}

/// One shard on the virtual network, warmed up.
#[derive(Debug)]
pub struct Engine {
    driver: SimDriver,
    shard: Shard,
    clock: SimClock,
    requests: u64,
    content_events: u64,
}

impl Engine {
    /// A shard that is to get `requests` of these answers.
    ///
    /// # Panics
    /// Never: the plan is a constant that holds.
    #[must_use]
    pub fn new(answer: &Answer, requests: u64) -> Self {
        let plan = Arc::new(plan(answer, requests));
        let control = Arc::new(Control::new(1));
        let sent = Arc::new(all_requests(&plan));
        let net = network(answer);
        let mut driver = net.driver(plan.limits.connections(CONCURRENCY));
        let mut shard =
            Shard::new(0, plan.clone(), sent, control, None).expect("a closed loop can be walked");
        let clock = net.clock();
        shard
            .begin_warmup(clock.now())
            .expect("a closed loop can be walked");
        drive(&mut driver, &mut shard, &clock).expect("the endpoint answers");
        let span = window(&plan).expect("a closed loop has a window");
        shard
            .begin_measured(clock.now(), span)
            .expect("a closed loop can be walked");
        Self {
            driver,
            shard,
            clock,
            requests,
            content_events: requests * answer.content_events,
        }
    }

    /// The measured pass: every request is sent, and its answer understood and counted.
    ///
    /// # Panics
    /// Never: the network has the endpoint.
    pub fn run(&mut self) {
        drive(&mut self.driver, &mut self.shard, &self.clock).expect("the endpoint answers");
    }

    /// Checks what was counted against what was asked for.
    ///
    /// # Panics
    /// When not every request succeeded with all of its events.
    pub fn check(self) {
        let result = self.shard.into_result();
        let counts = result.collector.counts(Phase::Measured);
        assert_eq!(
            (counts.issued, counts.completed, counts.failed),
            (self.requests, self.requests, 0)
        );
        assert_eq!(result.collector.content_events(), self.content_events);
    }
}

/// A closed loop of `requests`, as `bench` plans it.
fn plan(answer: &Answer, requests: u64) -> Plan {
    Plan {
        target: Target {
            peers: vec![address()],
            sources: Vec::new(),
            tls: None,
            spread: None,
            http2: None,
        },
        endpoint: EndpointType::Chat,
        streaming: answer.streamed,
        load: Load::Closed {
            concurrency: CONCURRENCY,
        },
        stop: StopRule {
            requests_max: Some(requests),
            duration: None,
        },
        first_index: 0,
        warmup_requests: WARMUP_REQUESTS,
        timeout: Nanos::from_secs(600),
        waits: Waits::default(),
        connections: Connections::Reuse,
        drain_timeout: Nanos::from_secs(30),
        order: Order::Sequential,
        slos: Vec::new(),
        save_text: false,
        count_later: false,
        save_events: false,
        rx_timestamps: true,
        shards: 1,
        own_shards: 0..1,
        cores: None,
        run_id: 1,
        limits: Limits {
            slots: CONCURRENCY,
            ..Limits::default()
        },
    }
}

fn all_requests(plan: &Plan) -> Requests {
    let template = RequestTemplate::new(&RequestOptions {
        method: Method::Post,
        target: "/v1/chat/completions",
        host: "10.0.0.1:8000",
        accept: "text/event-stream",
        api_key: None,
        id_prefix: &id_prefix(plan.run_id),
        headers: &[],
    })
    .expect("the options are constants that hold");
    let body = Bytes::from(body(plan.streaming));
    Requests::new(template, vec![body], plan.limits.send_inline_bytes)
}

/// The body that [`payload::request`] has.
fn body(stream: bool) -> Vec<u8> {
    let request = payload::request(SocketAddr::from(([10, 0, 0, 1], 8000)), stream);
    let head = memchr::memmem::find(&request, b"\r\n\r\n").map_or(0, |end| end + 4);
    request[head..].to_vec()
}

/// The same traffic on the same network for a client that knows how long an answer is: it sends the
/// bytes of a request and counts what comes back.
#[derive(Debug)]
pub struct Counting {
    driver: SimDriver,
    sink: Counter,
}

impl Counting {
    /// A client that is to get `requests` of these answers.
    ///
    /// # Panics
    /// Never: the network has the endpoint.
    #[must_use]
    pub fn new(answer: &Answer, requests: u64) -> Self {
        let net = network(answer);
        let mut driver = net.driver(CONCURRENCY);
        let request = payload::request(SocketAddr::from(([10, 0, 0, 1], 8000)), answer.streamed);
        for index in 0..CONCURRENCY {
            let token = Token {
                index,
                generation: 0,
            };
            driver.commands().open(token, address(), None);
        }
        let mut client = Self {
            driver,
            sink: Counter {
                heads: vec![request; CONCURRENCY as usize],
                received: vec![0; CONCURRENCY as usize],
                answer_bytes: answer.bytes(),
                to_issue: WARMUP_REQUESTS,
                in_flight: 0,
                answered: 0,
            },
        };
        client.turn_until_answered();
        client.sink.to_issue = requests;
        client.sink.answered = 0;
        client
    }

    /// The measured pass. Returns the answers that came whole.
    pub fn run(&mut self) -> u64 {
        for index in 0..CONCURRENCY {
            let token = Token {
                index,
                generation: 0,
            };
            self.sink.issue(self.driver.commands(), token);
        }
        self.turn_until_answered();
        self.sink.answered
    }

    fn turn_until_answered(&mut self) {
        while self.sink.to_issue > 0 || self.sink.in_flight > 0 {
            self.driver
                .turn(Nanos::MAX, &mut self.sink)
                .expect("the endpoint answers");
        }
    }
}

#[derive(Debug)]
struct Counter {
    heads: Vec<Vec<u8>>,
    received: Vec<usize>,
    answer_bytes: usize,
    to_issue: u64,
    in_flight: u64,
    answered: u64,
}

impl Counter {
    fn issue(&mut self, commands: &mut Commands, token: Token) {
        if self.to_issue > 0 {
            self.to_issue -= 1;
            self.in_flight += 1;
            let head = std::mem::take(&mut self.heads[token.index as usize]);
            commands.send(token, head, Bytes::new());
        }
    }
}

impl Sink for Counter {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        None
    }

    fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
        self.issue(commands, token);
    }

    fn submitted(&mut self, _: Token, _: Nanos) {}

    fn sent(&mut self, _: &mut Commands, token: Token, head: Vec<u8>, _: Nanos) {
        self.heads[token.index as usize] = head;
    }

    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
        let received = &mut self.received[token.index as usize];
        *received += bytes.len();
        if *received == self.answer_bytes {
            *received = 0;
            self.in_flight -= 1;
            self.answered += 1;
            self.issue(commands, token);
        }
    }

    fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}

    fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_and_counted() {
        for answer in [Answer::plain(), Answer::stream(700)] {
            let mut engine = Engine::new(&answer, 300);
            engine.run();
            engine.check();
            assert_eq!(Counting::new(&answer, 300).run(), 300);
        }
    }
}
