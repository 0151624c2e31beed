//! The black-box cases, played by a scripted endpoint on the virtual network to the real engine.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Outcome, Plan, Record};
use ridgeline_net::sim::{Actions, SimConfig, SimNet, SimPeer};
use ridgeline_wire::openai::EndpointType;

use crate::replay::{self, Case, Json, Op, cases};
use crate::world::{World, address, closed, plan, request_length};

/// The server of a case.
#[derive(Debug)]
struct Script {
    scripts: Vec<Vec<Op>>,
    /// Scripts begun so far.
    played: usize,
    /// What each connection still has to play after its next request.
    rest: HashMap<u32, Vec<Op>>,
    unread: HashMap<u32, Vec<u8>>,
    connections: Rc<Cell<usize>>,
}

impl Script {
    fn play(&mut self, connection: u32, actions: &mut Actions) {
        let mut ops = self.rest.remove(&connection).unwrap_or_default();
        if ops.is_empty() {
            ops = self.scripts[self.played % self.scripts.len()].clone();
            self.played += 1;
        }
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Send { bytes, gap_ms } => {
                    actions.send(bytes).wait(Nanos::from_millis(*gap_ms));
                }
                Op::Sleep { ms } => {
                    actions.wait(Nanos::from_millis(*ms));
                }
                Op::Close { fin: true } => {
                    actions.fin();
                }
                Op::Close { fin: false } => {
                    actions.rst();
                }
                Op::WaitRequest => {
                    self.rest.insert(connection, ops[at + 1..].to_vec());
                    return;
                }
            }
        }
    }
}

impl SimPeer for Script {
    fn on_accept(&mut self, connection: u32, _: &mut Actions) {
        self.connections.set(self.connections.get() + 1);
        self.rest.remove(&connection);
        self.unread.remove(&connection);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        let unread = self.unread.entry(connection).or_default();
        unread.extend_from_slice(bytes);
        if let Some(length) = request_length(unread) {
            unread.drain(..length);
            self.play(connection, actions);
        }
    }
}

fn plan_of(case: &Case) -> Plan {
    let mut plan = plan(closed(1), case.requests as u64);
    plan.endpoint = if case.chat {
        EndpointType::Chat
    } else {
        EndpointType::Completions
    };
    plan.streaming = case.streaming;
    plan.timeout = Nanos::from_millis(case.timeout_ms);
    plan.save_text = true;
    plan
}

/// Plays a case on a network; the records in the order of the requests, and the connections.
fn play(case: &Case, config: SimConfig) -> (Vec<replay::Record>, usize) {
    let connections = Rc::new(Cell::new(0));
    let script = Script {
        scripts: case.scripts.clone(),
        played: 0,
        rest: HashMap::new(),
        unread: HashMap::new(),
        connections: connections.clone(),
    };
    let net = SimNet::new(config);
    net.listen(&address(), script).unwrap();
    let out = World::new(net, plan_of(case)).run();
    (out.records.iter().map(record).collect(), connections.get())
}

#[expect(clippy::too_many_lines, reason = "one arm per field")]
fn record(record: &Record) -> replay::Record {
    let details = record.details.as_ref().unwrap();
    let saved = details.saved.as_ref().unwrap();
    let status = record.http_status.map_or(Json::Null, Json::number);
    let error = match record.outcome {
        Outcome::Ok => Json::Null,
        Outcome::Cancelled => Json::text("cancelled"),
        Outcome::Error(kind) => Json::object([
            ("kind", Json::text(kind.as_str())),
            (
                "message",
                Json::text(details.message.clone().unwrap_or_default()),
            ),
            ("http_status", status.clone()),
        ]),
    };
    let calls: Vec<Json> = saved
        .tool_calls
        .iter()
        .map(|(_, call)| {
            Json::object([
                ("id", Json::text(call.id.clone())),
                ("name", Json::text(call.name.clone())),
                ("arguments", Json::text(call.arguments.clone())),
            ])
        })
        .collect();
    let text_or_null = |text: &str| match text {
        "" => Json::Null,
        text => Json::text(text),
    };
    let count = |count: Option<u32>| count.map_or(Json::Null, Json::number);
    let usage = &record.usage;
    let outcome = match record.outcome {
        Outcome::Ok => "ok",
        _ => "error",
    };
    let reason = record.finish_reason.as_ref();
    let fields = Json::object([
        ("outcome", Json::text(outcome)),
        ("error", error),
        ("http_status", status),
        ("text", Json::text(saved.text.clone())),
        ("reasoning", text_or_null(&saved.reasoning)),
        (
            "tool_calls",
            if calls.is_empty() {
                Json::Null
            } else {
                Json::List(calls)
            },
        ),
        (
            "finish_reason",
            reason.map_or(Json::Null, |reason| Json::text(reason.as_str())),
        ),
        ("content_events", Json::number(record.content_events)),
        ("input_tokens", count(usage.input_tokens)),
        ("output_tokens", count(usage.output_tokens)),
        ("reasoning_tokens", count(usage.reasoning_tokens)),
        ("cached_tokens", count(usage.cached_tokens)),
    ]);
    let timeline = &record.timeline;
    let times = [
        timeline.first_byte,
        timeline.first_token,
        timeline.first_output,
        timeline.last_token,
        timeline.done,
    ];
    replay::Record {
        fields,
        submitted_ns: timeline.submitted.unwrap().0,
        times_ns: times.map(|time| time.map(|time| time.0)),
    }
}

/// Plays every case and says what is wrong.
fn complaints(config: SimConfig) -> Vec<String> {
    let mut found = Vec::new();
    for case in cases() {
        let (records, connections) = play(&case, config);
        for complaint in case.complaints(&records) {
            found.push(format!("{}: {complaint}", case.name));
        }
        if case.connections.is_some_and(|want| want != connections) {
            found.push(format!("{}: {connections} connections", case.name));
        }
    }
    found
}

#[test]
fn every_case_passes() {
    let found = complaints(SimConfig::default());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_case_passes_whatever_the_network_does_to_its_segments() {
    for seed in 0..4 {
        let mut config = SimConfig {
            seed,
            ..SimConfig::default()
        };
        config.shape.segment_bytes_max = 1_460;
        config.shape.split_ppm = 500_000;
        config.shape.merge_ppm = 100_000;
        config.shape.merge_within = Nanos::from_micros(200);
        let found = complaints(config);
        assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));
    }
}
