//! A server fed by hand: no driver, no network, a clock that is a number.

use bytes::Bytes;
use clap::Parser;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_mock_server::{MockServerArgs, Server, ServerConfig};
use ridgeline_net::{Close, Closed, Command, Commands, Sink, Token};

pub(crate) struct Fed {
    pub(crate) server: Server,
    pub(crate) now: Nanos,
    pub(crate) commands: Commands,
    /// What was sent, with its time, oldest first.
    pub(crate) sent: Vec<(Nanos, Token, Vec<u8>)>,
    /// How connections were closed, by the server.
    pub(crate) closes: Vec<(Nanos, Token, Close)>,
    /// The peer reads nothing: sends are not finished.
    pub(crate) stuck: bool,
    pub(crate) unfinished: Vec<(Token, Vec<u8>, Bytes)>,
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    args: MockServerArgs,
}

const EPOCH: Nanos = Nanos::from_secs(1_700_000_000);

impl Fed {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self::of(Server::new(config, EPOCH))
    }

    /// A server that has flags, which it can be asked for.
    pub(crate) fn with_flags(flags: &[&str]) -> Self {
        let args = Flags::parse_from([&["mock-server"], flags].concat()).args;
        Self::of(Server::with_flags(&args, EPOCH).unwrap())
    }

    fn of(server: Server) -> Self {
        Self {
            server,
            now: Nanos::ZERO,
            commands: Commands::default(),
            sent: Vec::new(),
            closes: Vec::new(),
            stuck: false,
            unfinished: Vec::new(),
        }
    }

    pub(crate) fn accept(&mut self) -> Token {
        self.server
            .accepted(&mut self.commands, 0, self.now)
            .unwrap()
    }

    /// Lends `bytes` as one read, and carries out what the server orders.
    pub(crate) fn feed(&mut self, token: Token, bytes: &[u8]) {
        let arrival = Arrival::reaped(self.now);
        self.server
            .received(&mut self.commands, token, bytes, arrival);
        self.settle();
    }

    pub(crate) fn fin(&mut self, token: Token) {
        self.server
            .ended(&mut self.commands, token, Arrival::reaped(self.now));
        self.settle();
    }

    pub(crate) fn reset(&mut self, token: Token) {
        self.server
            .closed(&mut self.commands, token, Closed::PeerReset, self.now);
        self.settle();
    }

    /// Lets time pass until `until`, stopping wherever the server asked for.
    pub(crate) fn run(&mut self, until: Nanos) {
        loop {
            // What a peer's reading lets go on may be due sooner.
            let next = loop {
                let next = self.server.step(self.now, &mut self.commands);
                if self.commands.is_empty() {
                    break next;
                }
                self.settle();
            };
            if next > until {
                break;
            }
            assert!(
                next > self.now,
                "a deadline that was met is not asked for again"
            );
            self.now = next;
        }
        self.now = until;
    }

    /// The peer reads everything that was held up.
    pub(crate) fn unstick(&mut self) {
        self.stuck = false;
        for (token, head, body) in std::mem::take(&mut self.unfinished) {
            self.finish(token, head, &body);
        }
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        while !self.commands.is_empty() {
            let orders: Vec<_> = self.commands.drain().collect();
            for order in orders {
                match order {
                    Command::Open { .. } => panic!("a server opens nothing"),
                    Command::Read { .. } => panic!("a server reads what comes"),
                    Command::Send { token, head, body } if self.stuck => {
                        self.unfinished.push((token, head, body));
                    }
                    Command::Send { token, head, body } => self.finish(token, head, &body),
                    Command::Close { token, how } => {
                        self.closes.push((self.now, token, how));
                        if how != Close::Half {
                            self.server
                                .closed(&mut self.commands, token, Closed::Local, self.now);
                        }
                    }
                }
            }
        }
    }

    fn finish(&mut self, token: Token, head: Vec<u8>, body: &[u8]) {
        self.sent.push((self.now, token, [&head, body].concat()));
        self.server.submitted(token, self.now);
        self.server.sent(&mut self.commands, token, head, self.now);
    }

    /// Everything sent on `token`, taken out.
    pub(crate) fn take(&mut self, token: Token) -> Vec<u8> {
        let mut all = Vec::new();
        self.sent.retain(|(_, to, bytes)| {
            if *to == token {
                all.extend_from_slice(bytes);
            }
            *to != token
        });
        all
    }
}

/// One response, read by the simplest means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// Every `data` of the body.
    pub(crate) fn events(&self) -> Vec<&str> {
        let events = self.body.split_terminator("\n\n");
        events
            .map(|event| event.strip_prefix("data: ").unwrap())
            .collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The text of a chat answer, streamed or not.
    pub(crate) fn text(&self) -> String {
        if !self.head.contains("text/event-stream") {
            return self.json()["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned();
        }
        let mut text = String::new();
        let events = self.events();
        let (done, events) = events.split_last().unwrap();
        assert_eq!(*done, "[DONE]");
        for event in events {
            let event: serde_json::Value = serde_json::from_str(event).unwrap();
            text += event["choices"][0]["delta"]["content"]
                .as_str()
                .unwrap_or_default();
        }
        text
    }
}

/// Cuts what came into responses; all of them must be complete.
pub(crate) fn responses(bytes: &[u8]) -> Vec<Response> {
    let mut rest = std::str::from_utf8(bytes).unwrap();
    let mut responses = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = String::new();
        if status == 100 {
            rest = after;
        } else if let Some(length) = length {
            let (data, after) = after.split_at(length.parse().unwrap());
            body.push_str(data);
            rest = after;
        } else if head.contains("transfer-encoding: chunked") {
            rest = chunks(after, &mut body);
        } else {
            body.push_str(after);
            rest = "";
        }
        responses.push(Response {
            status,
            head: head.to_owned(),
            body,
        });
    }
    responses
}

fn chunks<'a>(mut rest: &'a str, body: &mut String) -> &'a str {
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let (data, after) = after.split_at(usize::from_str_radix(size, 16).unwrap());
        body.push_str(data);
        rest = after.strip_prefix("\r\n").unwrap();
        if data.is_empty() {
            return rest;
        }
    }
}

/// A GET.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

/// A POST with a body.
pub(crate) fn post(path: &str, fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
        .into_bytes()
}

/// A chat request with these fields beside the messages.
pub(crate) fn chat(fields: &str) -> Vec<u8> {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"say a word"}}]{fields}}}"#);
    post("/v1/chat/completions", "", &body)
}
