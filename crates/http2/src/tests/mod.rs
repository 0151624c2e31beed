//! A connection against h2's own server, both in memory.

mod ends;
mod foreign;
mod hostile;
mod splits;
mod streams;
mod windows;

use std::collections::BTreeMap;

use bytes::Bytes;
use ridgeline_wire::http1::{ContentKind, Method, Part, RequestOptions};

use crate::{AbortKind, Connection, Event, HeadTemplate, Limits, StreamId};
use foreign::Server;

/// A template of requests that need nothing special.
pub(crate) fn template() -> HeadTemplate {
    let options = RequestOptions {
        method: Method::Post,
        target: "/v1/completions",
        host: "127.0.0.1:8000",
        accept: "*/*",
        api_key: Some("sk-secret"),
        id_prefix: "rl-",
        headers: &[],
    };
    HeadTemplate::new(&options, false).unwrap()
}

/// What was told of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) head: Option<(u16, ContentKind)>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_whole: bool,
    pub(crate) abort: Option<(AbortKind, String)>,
}

/// What was told, by the numbers of streams.
pub(crate) type Log = BTreeMap<u32, Told>;

/// Takes out what a connection has to tell, and checks that it makes sense.
pub(crate) fn listen(client: &mut Connection, log: &mut Log) {
    while let Some(event) = client.next() {
        let (Event::Part { stream, .. } | Event::Aborted { stream, .. }) = &event;
        let told = log.entry(stream.number).or_default();
        assert!(
            !told.is_whole && told.abort.is_none(),
            "told of a stream that is over: {event:?}"
        );
        match event {
            Event::Part { part, .. } => match part {
                Part::Head(head) => {
                    let before = told.head.replace((head.status, head.content));
                    assert_eq!(before, None, "two heads");
                }
                Part::Data(data) => {
                    assert!(told.head.is_some() && !data.is_empty());
                    told.body.extend_from_slice(data);
                }
                Part::End => {
                    assert!(told.head.is_some());
                    told.is_whole = true;
                }
            },
            Event::Aborted { abort, .. } => {
                told.abort = Some((abort.kind, abort.message.into_owned()));
            }
        }
    }
}

/// A client, a server, and what they say.
pub(crate) struct Talk {
    pub(crate) client: Connection,
    pub(crate) server: Server,
    pub(crate) log: Log,
    /// Everything that the server said.
    pub(crate) heard: Vec<u8>,
}

impl Talk {
    /// Both have said what they want.
    pub(crate) fn new(limits: &Limits, builder: &h2::server::Builder) -> Self {
        let mut client = Connection::new(limits);
        let mut preface = Vec::new();
        assert!(client.take_output(&mut preface));
        let mut talk = Self {
            client,
            server: Server::new(builder, &preface),
            log: Log::new(),
            heard: Vec::new(),
        };
        talk.run();
        talk
    }

    /// With what is usual.
    pub(crate) fn usual() -> Self {
        Self::new(&Limits::default(), &h2::server::Builder::new())
    }

    /// Until neither has anything to say.
    pub(crate) fn run(&mut self) {
        loop {
            listen(&mut self.client, &mut self.log);
            let mut there = Vec::new();
            let has_said = self.client.take_output(&mut there);
            let back = self.server.hear(&there);
            self.heard.extend_from_slice(&back);
            self.client.received(&back);
            if !has_said && back.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn ask(&mut self, body: &'static str) -> StreamId {
        let head = template().head(7, body.len() as u64);
        let body = Bytes::from_static(body.as_bytes());
        self.client.request(head, body).unwrap()
    }

    pub(crate) fn told(&self, stream: StreamId) -> &Told {
        &self.log[&stream.number]
    }

    /// Why a stream was aborted.
    pub(crate) fn abort(&self, stream: StreamId) -> (AbortKind, &str) {
        let (kind, message) = self.told(stream).abort.as_ref().unwrap();
        (*kind, message)
    }
}
