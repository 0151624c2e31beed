use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Clock, Nanos};
use ridgeline_engine::{Connections, Control, Limits, Load, Plan, Record, Requests, Shard};
use ridgeline_engine::{ShardResult, Target, Waits, drive, id_prefix, window};
use ridgeline_http2::HeadTemplate;
use ridgeline_metrics::{Counts, Metric, Phase, Summary};
use ridgeline_net::Peer;
use ridgeline_net::sim::{Actions, SimConfig, SimDriver, SimNet, SimPeer};
use ridgeline_schedule::{Pattern, ScheduleSpec, Stage, StopRule};
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::Order;
use rtrb::{Consumer, RingBuffer};

pub(crate) const MS: Nanos = Nanos::from_millis(1);

pub(crate) fn address() -> Peer {
    Peer::Tcp(SocketAddr::from(([10, 0, 0, 1], 8000)))
}

pub(crate) fn closed(concurrency: u32) -> Load {
    Load::Closed { concurrency }
}

pub(crate) fn constant(rate_per_s: f64, concurrency_cap: Option<u32>) -> Load {
    let stage = Stage {
        rate_per_s,
        pattern: Pattern::Constant,
        duration: None,
    };
    Load::Open {
        schedule: ScheduleSpec {
            stages: vec![stage],
            seed: 1,
        },
        concurrency_cap,
    }
}

/// A plan of `requests` streamed chat requests.
pub(crate) fn plan(load: Load, requests: u64) -> Plan {
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
        load,
        stop: StopRule {
            requests_max: Some(requests),
            duration: None,
        },
        first_index: 0,
        warmup_requests: 0,
        timeout: Nanos::from_secs(60),
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
        run_id: 7,
        limits: Limits {
            slots: 256,
            ..Limits::default()
        },
    }
}

/// What a run on the virtual network left behind.
pub(crate) struct Outcome {
    pub(crate) result: ShardResult,
    pub(crate) records: Vec<Record>,
    /// When the measured phase began.
    pub(crate) start: Nanos,
    pub(crate) net: SimNet,
}

impl Outcome {
    pub(crate) fn counts(&self) -> Counts {
        self.result.collector.counts(Phase::Measured)
    }

    pub(crate) fn summary(&self, metric: Metric) -> Option<Summary> {
        self.result.collector.distribution(metric).summary()
    }
}

/// One shard of a plan on a network.
pub(crate) struct World {
    pub(crate) net: SimNet,
    pub(crate) driver: SimDriver,
    pub(crate) shard: Shard,
    pub(crate) control: Arc<Control>,
    records: Consumer<Record>,
    plan: Arc<Plan>,
}

impl World {
    pub(crate) fn new(net: SimNet, plan: Plan) -> Self {
        Self::shard(net, plan, 0)
    }

    pub(crate) fn shard(net: SimNet, plan: Plan, k: u32) -> Self {
        let plan = Arc::new(plan);
        let control = Arc::new(Control::new(plan.shards));
        let options = RequestOptions {
            method: Method::Post,
            target: "/v1/chat/completions",
            host: "10.0.0.1:8000",
            accept: "text/event-stream",
            api_key: None,
            id_prefix: &id_prefix(plan.run_id),
            headers: &[],
        };
        let template = RequestTemplate::new(&options).unwrap();
        let heads = HeadTemplate::new(&options, plan.target.is_secure()).unwrap();
        let bodies = (0..4)
            .map(|n| Bytes::from(format!(r#"{{"model":"m","n":{n}}}"#)))
            .collect();
        let templates = vec![template.clone(); plan.target.endpoints()];
        let requests = Requests::new(template, bodies, plan.limits.send_inline_bytes);
        let sessions = vec![Some(0), Some(1), None, Some(0)];
        let requests = requests.with_templates(templates).with_sessions(sessions);
        let requests = requests.with_http2(vec![heads; plan.target.endpoints()]);
        let requests = Arc::new(requests);
        let (producer, records) = RingBuffer::new(1 << 16);
        let shard = Shard::new(k, plan.clone(), requests, control.clone(), Some(producer)).unwrap();
        let driver = net.driver(plan.connections_of(k));
        Self {
            net,
            driver,
            shard,
            control,
            records,
            plan,
        }
    }

    /// Runs the phases of the plan to their end.
    pub(crate) fn run(mut self) -> Outcome {
        let clock = self.net.clock();
        // Time 0 of the network is no time to start: stamps of 0 would look like none.
        clock.advance_to(MS);
        if self.plan.warmup_requests > 0 {
            self.shard.begin_warmup(clock.now()).unwrap();
            drive(&mut self.driver, &mut self.shard, &clock).unwrap();
        }
        let start = clock.now();
        self.shard
            .begin_measured(start, window(&self.plan).unwrap())
            .unwrap();
        drive(&mut self.driver, &mut self.shard, &clock).unwrap();
        self.finish(start)
    }

    pub(crate) fn finish(mut self, start: Nanos) -> Outcome {
        let mut records = Vec::new();
        while let Ok(record) = self.records.pop() {
            records.push(record);
        }
        Outcome {
            result: self.shard.into_result(),
            records,
            start,
            net: self.net,
        }
    }
}

/// Runs a plan against an endpoint on a network without faults.
pub(crate) fn run(plan: Plan, endpoint: impl SimPeer) -> Outcome {
    run_on(SimConfig::default(), plan, endpoint)
}

pub(crate) fn run_on(config: SimConfig, plan: Plan, endpoint: impl SimPeer) -> Outcome {
    let net = SimNet::new(config);
    net.listen(&address(), endpoint).unwrap();
    World::new(net, plan).run()
}

/// An endpoint that answers every request with the same stream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) ttft: Nanos,
    pub(crate) itl: Nanos,
    /// How long after an answer the connection is closed.
    pub(crate) idle_close: Option<Nanos>,
    /// When each place for an answer is free again: requests wait for one in the order they came. Without
    /// any there is room for all.
    pub(crate) places: Vec<Nanos>,
    pub(crate) head: Bytes,
    pub(crate) events: Vec<Bytes>,
    pub(crate) tail: Bytes,
    unread: HashMap<u32, Vec<u8>>,
    /// Requests seen.
    pub(crate) requests: u64,
}

fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

impl Endpoint {
    pub(crate) fn new(ttft: Nanos, itl: Nanos, tokens: u32) -> Self {
        let event = |n: u32| {
            chunk(&format!(
                r#"{{"id":"a","choices":[{{"index":0,"delta":{{"content":" word{n}"}}}}]}}"#
            ))
        };
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":{tokens}}}}}"#
        );
        let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        let tail = format!(
            "{}{}{}0\r\n\r\n",
            chunk(finish),
            chunk(&usage),
            chunk("[DONE]")
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        Self {
            ttft,
            itl,
            idle_close: None,
            places: Vec::new(),
            head: Bytes::from(head),
            events: (0..tokens).map(|n| Bytes::from(event(n))).collect(),
            tail: Bytes::from(tail),
            unread: HashMap::new(),
            requests: 0,
        }
    }

    /// How long an answer takes.
    pub(crate) fn service(&self) -> Nanos {
        self.ttft + self.itl * (self.events.len() as u64).saturating_sub(1)
    }

    /// The same with another field, `Name: value`, in the heads of its answers.
    pub(crate) fn with_field(mut self, field: &str) -> Self {
        let head = String::from_utf8(self.head.to_vec()).unwrap();
        let (lines, _) = head.split_once("\r\n\r\n").unwrap();
        self.head = Bytes::from(format!("{lines}\r\n{field}\r\n\r\n"));
        self
    }

    /// Answers, with the first event after `ttft`.
    pub(crate) fn answer(&mut self, ttft: Nanos, actions: &mut Actions) {
        let service = self.service();
        if let Some(place) = self.places.iter_mut().min() {
            let begin = actions.now().max(*place);
            *place = begin + service;
            actions.wait(begin - actions.now());
        }
        actions.send_shared(self.head.clone());
        actions.wait(ttft);
        for (n, event) in self.events.iter().enumerate() {
            if n > 0 {
                actions.wait(self.itl);
            }
            actions.send_shared(event.clone());
        }
        actions.send_shared(self.tail.clone());
        if let Some(after) = self.idle_close {
            actions.wait(after).fin();
        }
    }

    /// Takes what came on a connection. Whether that completes a request.
    pub(crate) fn takes(&mut self, connection: u32, bytes: &[u8]) -> bool {
        let unread = self.unread.entry(connection).or_default();
        unread.extend_from_slice(bytes);
        // The bodies of these tests hold no blank line.
        let Some(length) = request_length(unread) else {
            return false;
        };
        unread.drain(..length);
        self.requests += 1;
        true
    }
}

impl SimPeer for Endpoint {
    fn on_accept(&mut self, connection: u32, _: &mut Actions) {
        self.unread.entry(connection).or_default().clear();
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        if self.takes(connection, bytes) {
            self.answer(self.ttft, actions);
        }
    }
}

/// The length of the first request, when all of it is there. Allocates nothing.
pub(crate) fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let field = b"\r\ncontent-length: ";
    let at = bytes[..head]
        .windows(field.len())
        .position(|window| window.eq_ignore_ascii_case(field))?;
    let digits = bytes[at + field.len()..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (bytes.len() >= head + length).then_some(head + length)
}
