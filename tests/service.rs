//! The engine as a service, as a whole program: `ridgeline worker` between a client of the protocol and
//! the mock server.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_service::protocol::{
    Batch, BodyFrame, Outward, Piece, QueryFrame, Times, Totals, Value, end_message, read_outward,
    template_message,
};
use ridgeline_transport::{Flow, Left, Limits, PeerId, Receiver, Refused, To, Transport};
use ridgeline_transport_zmq::{Address, Kind, Zmq};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use mock::Mock;

/// Nothing here takes longer unless it hangs.
const DEADLINE: Nanos = Nanos::from_secs(60);

/// A worker on sockets of its own folder. Killed when dropped.
struct Worker {
    child: Child,
    out: BufReader<ChildStdout>,
    err: ChildStderr,
    folder: tempfile::TempDir,
}

impl Worker {
    fn start(url: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = |name| address(&folder, name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_ridgeline"))
            .args(["worker", "--url", url])
            .args(["--requests", &address("in"), "--responses", &address("out")])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let err = child.stderr.take().unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on ipc://"), "{line}");
        Self {
            child,
            out,
            err,
            folder,
        }
    }

    fn client(&self) -> Client {
        Client {
            requests: connect(Kind::Push, &address(&self.folder, "in")),
            responses: connect(Kind::Pull, &address(&self.folder, "out")),
            got: Got::default(),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end in good order. What it said.
    fn end(mut self) -> String {
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        self.err.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Already over, when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(folder: &tempfile::TempDir, name: &str) -> String {
    format!("ipc://{}", folder.path().join(name).display())
}

type End = Zmq<EpollDriver, MonotonicClock>;

fn connect(kind: Kind, address: &str) -> End {
    let driver = EpollDriver::new(EpollConfig::default()).unwrap();
    let limits = Limits {
        message_bytes_max: 64 << 20,
        queued_messages_max: 4,
        queued_bytes_max: 64 << 10,
        ..Limits::data()
    };
    let mut end = Zmq::new(driver, MonotonicClock, kind, limits);
    end.connect(&address.parse::<Address>().unwrap()).unwrap();
    end
}

/// One program that drives a worker.
struct Client {
    requests: End,
    responses: End,
    got: Got,
}

#[derive(Debug, Default)]
struct Got {
    notices: Vec<u64>,
    results: HashMap<u64, Seen>,
    repeated: u64,
    errors: Vec<(String, Option<u64>, String)>,
    ended: Option<Totals>,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    outcome: String,
    times: Times,
    status: Option<u16>,
    content_events: u32,
    output_tokens: Option<u32>,
    finish_reason: Option<String>,
    text: Option<String>,
    message: Option<String>,
}

impl Receiver for Got {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        match read_outward(message).unwrap() {
            Outward::Notices(notices) => self.notices.extend(notices.iter().map(|n| n.id)),
            Outward::Results(results) => {
                for result in results {
                    let seen = Seen {
                        outcome: result.outcome.to_owned(),
                        times: result.times,
                        status: result.http_status,
                        content_events: result.content_events,
                        output_tokens: result.usage.output_tokens,
                        finish_reason: result.finish_reason.map(str::to_owned),
                        text: result.text.map(str::to_owned),
                        message: result.message.map(str::to_owned),
                    };
                    self.repeated += u64::from(self.results.insert(result.id, seen).is_some());
                }
            }
            Outward::Error { code, text, id } => {
                self.errors.push((code.to_owned(), id, text.to_owned()));
            }
            Outward::Ended(totals) => self.ended = Some(totals),
        }
        Flow::More
    }

    fn left(&mut self, _: PeerId, _: &Left) {}
}

/// Listens to nothing.
struct Deaf;

impl Receiver for Deaf {
    fn joined(&mut self, _: PeerId, _: &str) {}
    fn message(&mut self, _: PeerId, _: &[u8]) -> Flow {
        Flow::More
    }
    fn left(&mut self, _: PeerId, _: &Left) {}
}

impl Client {
    /// Sends a message if there is room for it.
    fn try_send(&mut self, message: &[u8]) -> bool {
        let sent = self.requests.send(To::Any, message);
        assert!(
            matches!(sent, Ok(()) | Err(Refused::Full | Refused::NoPeer)),
            "{sent:?}"
        );
        let soon = MonotonicClock.now() + Nanos::from_millis(5);
        self.requests.turn(soon, &mut Deaf).unwrap();
        sent.is_ok()
    }

    fn send(&mut self, message: &[u8]) {
        let deadline = MonotonicClock.now() + DEADLINE;
        while !self.try_send(message) {
            assert!(MonotonicClock.now() < deadline, "the worker reads nothing");
        }
        while self.requests.queued_all().messages > 0 {
            self.requests.turn(deadline, &mut Deaf).unwrap();
            assert!(MonotonicClock.now() < deadline, "the worker reads nothing");
        }
    }

    fn send_queries(&mut self, queries: &[QueryFrame<'_>]) {
        self.send(&batch(queries));
    }

    fn until(&mut self, what: &str, done: impl Fn(&Got) -> bool) {
        let deadline = MonotonicClock.now() + DEADLINE;
        while !done(&self.got) {
            self.responses.turn(deadline, &mut self.got).unwrap();
            let now = MonotonicClock.now();
            assert!(now < deadline, "{what} does not come: {:?}", self.got);
        }
    }

    fn results(&mut self, count: usize) {
        self.until("the last result", |got| got.results.len() >= count);
    }
}

fn batch(queries: &[QueryFrame<'_>]) -> Vec<u8> {
    let mut batch = Batch::default();
    queries.iter().for_each(|query| batch.push(query));
    batch.into_message()
}

fn body(stream: bool, tokens: u32) -> Vec<u8> {
    let mut body = json!({
        "model": "mock",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": tokens,
        "stream": stream,
    });
    if stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    serde_json::to_vec(&body).unwrap()
}

fn query(id: u64, body: &[u8]) -> QueryFrame<'_> {
    QueryFrame {
        id,
        due_ns: 0,
        endpoint: None,
        stream: true,
        text: false,
        body: BodyFrame::Whole(body),
    }
}

#[test]
fn results_agree_with_the_mock_servers_truth() {
    let keep = tempfile::tempdir().unwrap();
    let truth = keep.path().join("truth.jsonl");
    let flags = ["--truth", truth.to_str().unwrap()];
    let times = [
        "--time-to-first-token",
        "2ms",
        "--inter-token-latency",
        "1ms",
    ];
    let server = Mock::start(&[&flags[..], &times].concat());
    let worker = Worker::start(&server.url, &["--concurrency", "8"]);
    let mut client = worker.client();
    let (streamed, plain) = (body(true, 5), body(false, 3));
    let mut queries: Vec<_> = (0..40).map(|id| query(id, &streamed)).collect();
    for query in &mut queries[30..] {
        query.stream = false;
        query.text = true;
        query.body = BodyFrame::Whole(&plain);
    }
    client.send_queries(&queries);
    client.results(40);
    client.send(&end_message());
    client.until("the end", |got| got.ended.is_some());
    let ended = client.got.ended.unwrap();
    assert_eq!((ended.queries, ended.ok, ended.errors), (40, 40, 0));
    assert!(
        worker
            .end()
            .contains("40 queries: 40 ok, 0 failed, 0 cancelled; 0 errors told")
    );
    let mut notices = client.got.notices.clone();
    notices.sort_unstable();
    assert_eq!(notices, (0..30).collect::<Vec<_>>());
    assert_eq!(client.got.repeated, 0);
    server.stop();

    join(&client.got, &truth);
}

/// Every result agrees with what the server says that it did: the first 30 are streams.
#[test]
fn queries_are_dealt_out_to_several_endpoints() {
    let server = || Mock::start(&["--mode", "instant"]);
    let (first, second) = (server(), server());
    let flags = ["--url", &second.url, "--balance", "weights=3,1"];
    let worker = Worker::start(&first.url, &flags);
    let mut client = worker.client();
    let body = body(true, 2);
    let queries: Vec<_> = (0..40).map(|id| query(id, &body)).collect();
    client.send_queries(&queries);
    client.results(40);
    client.send(&end_message());
    client.until("the end", |got| got.ended.is_some());
    assert_eq!(client.got.ended.unwrap().ok, 40);
    worker.end();
    for (server, served) in [
        (first, "served 30 requests"),
        (second, "served 10 requests"),
    ] {
        let said = server.stop();
        assert!(said.contains(served), "{said}");
    }
}

fn join(got: &Got, truth: &Path) {
    let text = fs::read_to_string(truth).unwrap();
    let mut lines = text
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
    let header = lines.next().unwrap();
    let start = header["clock"]["start_monotonic_ns"].as_u64().unwrap();
    let mut joined = 0;
    for line in lines.filter(|line| line["request_id"].is_string()) {
        let name = line["request_id"].as_str().unwrap();
        let (_, digits) = name.rsplit_once('-').unwrap();
        let id = u64::from_str_radix(digits, 16).unwrap();
        let seen = &got.results[&id];
        let at = |ns: &serde_json::Value| Nanos(start + ns.as_u64().unwrap());
        let first_content = line["writes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|w| w[4] != 0)
            .unwrap();
        let times = &seen.times;
        assert!(
            times.submitted.unwrap() <= at(&line["reaped_ns"]),
            "{line} {seen:?}"
        );
        assert!(
            times.first_token.unwrap() >= at(&first_content[0]),
            "{line} {seen:?}"
        );
        assert!(times.scheduled <= times.started && Some(times.started) <= times.submitted);
        assert!(times.first_byte <= times.first_token && times.last_token <= times.done);
        assert_eq!(
            seen.output_tokens.map(u64::from),
            line["output_tokens"].as_u64()
        );
        assert_eq!((&*seen.outcome, seen.status), ("ok", Some(200)));
        assert_eq!(seen.finish_reason.as_deref(), Some("length"));
        let events = if id < 30 { 5 } else { 1 };
        assert_eq!(seen.content_events, events);
        assert_eq!(seen.text.is_some(), id >= 30);
        joined += 1;
    }
    assert_eq!(joined, 40);
}

/// Eight mistakes, and among them four queries that are in order: 1 is due `soon`, 2 is late, 6 is made from a
/// template, and 7 goes where nobody is.
fn send_nonsense(client: &mut Client, soon: Nanos) {
    let pieces: [Piece<'_>; 3] = [
        Piece::Bytes(b"{\"model\":\"mock\",\"messages\":[{\"role\":\"user\",\"content\":\""),
        Piece::Hole(0),
        Piece::Bytes(b"\"}],\"stream\":true}"),
    ];
    client.send(&template_message(7, &pieces));
    let whole = body(true, 2);
    let said = [Value::Text("say \"one\"\nand two")];
    let wall_clock = 1_700_000_000_000_000_000;
    client.send(b"no MessagePack");
    client.send(b"\x92\x03\xa3end");
    client.send(&vec![0; (16 << 20) + 1]);
    let mut cut = batch(&[query(1, &whole), query(2, &whole)]);
    cut.truncate(cut.len() - 1);
    client.send(&cut);
    // Out of order: the second is due before the first, and late.
    client.send_queries(&[
        QueryFrame {
            due_ns: soon.0,
            ..query(1, &whole)
        },
        QueryFrame {
            due_ns: 1,
            ..query(2, &whole)
        },
        query(1, &whole),
        QueryFrame {
            body: BodyFrame::filled(8, &said),
            ..query(3, &whole)
        },
        QueryFrame {
            endpoint: Some("nowhere"),
            ..query(4, &whole)
        },
        QueryFrame {
            due_ns: wall_clock,
            ..query(5, &whole)
        },
        QueryFrame {
            body: BodyFrame::filled(7, &said),
            text: true,
            ..query(6, &whole)
        },
        QueryFrame {
            endpoint: Some("/no/such/path"),
            ..query(7, &whole)
        },
    ]);
}

#[test]
fn whatever_is_wrong_has_an_error_of_its_own_and_the_rest_goes_on() {
    let server = Mock::start(&["--mode", "echo"]);
    let mut worker = Worker::start(&server.url, &["--driver", "epoll"]);
    let mut client = worker.client();
    // Later than all that follows is sent, on a machine that does much else.
    let soon = MonotonicClock.now() + Nanos::from_millis(500);
    send_nonsense(&mut client, soon);
    client.results(4);
    client.until("the last error", |got| got.errors.len() >= 8);
    let errors: Vec<_> = client
        .got
        .errors
        .iter()
        .map(|(code, id, _)| (&**code, *id))
        .collect();
    assert_eq!(
        errors,
        [
            ("malformed", None),
            ("version", None),
            ("oversized", None),
            ("malformed", None),
            ("template", Some(3)),
            ("endpoint", Some(4)),
            ("due", Some(5)),
            ("duplicate", Some(1)),
        ]
    );
    let seen = &client.got.results;
    assert_eq!(seen[&1].times.scheduled, soon);
    assert!(seen[&1].times.started >= soon);
    assert_eq!(seen[&2].times.scheduled, Nanos(1));
    assert!(seen[&2].times.started < seen[&1].times.started);
    assert_eq!(seen[&6].text.as_deref(), Some("say \"one\"\nand two"));
    assert_eq!(seen[&7].outcome, "http_status");
    assert_eq!(seen[&7].status, Some(404));
    assert!(seen[&7].message.is_some());
    assert!(worker.is_running());
    worker.signal(Signal::INT);
    assert!(
        worker
            .end()
            .contains("4 queries: 3 ok, 1 failed, 0 cancelled; 8 errors told")
    );
}

#[test]
fn a_signal_drains_and_what_takes_longer_is_cancelled() {
    let server = Mock::start(&[
        "--time-to-first-token",
        "300ms",
        "--inter-token-latency",
        "1ms",
    ]);
    let whole = body(true, 2);
    let queries: Vec<_> = (0..20).map(|id| query(id, &whole)).collect();
    // Five rounds of four.
    let worker = Worker::start(&server.url, &["--concurrency", "4"]);
    let mut client = worker.client();
    client.send_queries(&queries);
    client.until("a first token", |got| !got.notices.is_empty());
    worker.signal(Signal::TERM);
    client.until("the end", |got| got.ended.is_some());
    assert!(client.got.results.values().all(|seen| seen.outcome == "ok"));
    assert_eq!(client.got.results.len(), 20);
    worker.end();

    let worker = Worker::start(
        &server.url,
        &["--concurrency", "4", "--drain-timeout", "0s"],
    );
    let mut client = worker.client();
    client.send_queries(&queries);
    client.until("a first token", |got| !got.notices.is_empty());
    worker.signal(Signal::TERM);
    client.until("the end", |got| got.ended.is_some());
    assert_eq!(client.got.results.len(), 20);
    let totals = client.got.ended.unwrap();
    assert!(totals.cancelled >= 12, "{totals:?}");
    assert_eq!(totals.ok + totals.cancelled, 20);
    worker.end();
}

#[test]
fn a_worker_whose_client_is_gone_waits_for_nobody() {
    let server = Mock::start(&["--mode", "instant"]);
    let worker = Worker::start(&server.url, &[]);
    let whole = body(true, 2);
    let mut client = worker.client();
    client.send_queries(&[query(1, &whole)]);
    client.results(1);
    drop(client);
    worker.signal(Signal::TERM);
    let said = worker.end();
    assert!(said.contains("1 queries: 1 ok"), "{said}");
    // It did not wait for somebody to hear that it ended, and nothing else was lost.
    assert!(!said.contains("reached nobody"), "{said}");
}

#[test]
fn a_client_that_goes_away_takes_only_itself() {
    let server = Mock::start(&["--mode", "instant"]);
    let mut worker = Worker::start(&server.url, &[]);
    let whole = body(true, 2);
    let first: Vec<_> = (0..500).map(|id| query(id, &whole)).collect();
    let mut client = worker.client();
    client.send_queries(&first);
    client.until("a result", |got| !got.results.is_empty());
    drop(client);
    let second: Vec<_> = (1_000..1_500).map(|id| query(id, &whole)).collect();
    let mut client = worker.client();
    client.send_queries(&second);
    client.until("the last result", |got| {
        got.results.keys().filter(|&&id| id >= 1_000).count() == 500
    });
    assert!(client.got.errors.is_empty() && worker.is_running());
    worker.signal(Signal::TERM);
    client.until("the end", |got| got.ended.is_some());
    assert_eq!(client.got.ended.unwrap().queries, 1_000);
    worker.end();
}

#[test]
fn a_client_that_does_not_read_is_stopped_and_loses_nothing() {
    let server = Mock::start(&["--mode", "instant"]);
    let worker = Worker::start(&server.url, &["--concurrency", "8", "--queue", "1000"]);
    let mut client = worker.client();
    // Results carry long texts: what is on its way is soon as much as sockets hold.
    let whole = body(false, 400);
    let mut sent = 0_u64;
    let mut stuck_since = MonotonicClock.now();
    // It is stopped when nothing could be sent for a while.
    while MonotonicClock.now() - stuck_since < Nanos::from_secs(2) {
        let queries: Vec<_> = (sent..sent + 100)
            .map(|id| QueryFrame {
                stream: false,
                text: true,
                ..query(id, &whole)
            })
            .collect();
        if client.try_send(&batch(&queries)) {
            sent += 100;
            stuck_since = MonotonicClock.now();
        }
        assert!(sent < 2_000_000, "nothing stops it");
    }
    let mut deadline = MonotonicClock.now() + DEADLINE;
    let mut count = 0;
    while client.got.results.len() < usize::try_from(sent).unwrap() {
        client.requests.turn(Nanos::ZERO, &mut Deaf).unwrap();
        let soon = MonotonicClock.now() + Nanos::from_millis(5);
        client.responses.turn(soon, &mut client.got).unwrap();
        if client.got.results.len() > count {
            count = client.got.results.len();
            deadline = MonotonicClock.now() + DEADLINE;
        }
        assert!(MonotonicClock.now() < deadline, "{count} of {sent} results");
    }
    assert_eq!(client.got.repeated, 0);
    assert!(client.got.results.values().all(|seen| seen.outcome == "ok"));
    client.send(&end_message());
    client.until("the end", |got| got.ended.is_some());
    worker.end();
}
