//! The program against endpoints that speak HTTP/2: hyper, in the clear and on tokio-rustls, which nobody here
//! wrote.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/bench.rs"]
mod bench; // a run of the program, and what it left behind
#[path = "outside/listening.rs"]
mod listening; // a server on tokio
#[path = "outside/mock.rs"]
mod mock; // the mock server as a child
#[path = "outside/own.rs"]
mod own; // certificates of our own
#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

use bench::Ran;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use listening::listen;
use mock::Mock;
use own::Own;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::version::TLS13;

const REQUESTS: u64 = 48;

/// What a server does.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// Streams at a time on a connection.
    streams_max: Option<u32>,
    /// What a client may send of a body ahead of updates.
    window_bytes: Option<u32>,
    /// After so many requests a connection goes away.
    goes_away_after: Option<u64>,
    /// Every so many requests one is reset.
    resets: Option<u64>,
    /// Every so many requests one is never answered.
    hangs: Option<u64>,
}

/// A server, for as long as the test lasts.
struct Served {
    url: String,
    connections: Arc<AtomicU64>,
}

/// The events of an answer, one a frame.
struct Events(VecDeque<&'static str>);

impl Events {
    fn new() -> Self {
        Self(VecDeque::from([
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \"}}]}\n\ndata: {\"choi",
            "ces\":[{\"index\":0,\"delta\":{\"content\":\"there\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"},\"finish_reason\":\"stop\"}]}\n\n",
            "data: [DONE]\n\n",
        ]))
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.pop_front();
        Poll::Ready(next.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    number: u64,
) -> io::Result<Response<Events>> {
    let name = request.headers().get("x-request-id").cloned();
    let _ = request.into_body().collect().await;
    let is_nth = |every: Option<u64>| every.is_some_and(|every| number % every == every - 1);
    if is_nth(manner.hangs) {
        pending::<()>().await;
    }
    if is_nth(manner.resets) || name.is_none() {
        return Err(io::Error::other("as the test wants it"));
    }
    let response = Response::builder().header("content-type", "text/event-stream");
    Ok(response.body(Events::new()).unwrap())
}

/// Serves one connection.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, manner: Manner) {
    let seen = Arc::new(AtomicU64::new(0));
    let service = service_fn(|request| answer(request, manner, seen.fetch_add(1, SeqCst)));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(manner.streams_max)
        .initial_stream_window_size(manner.window_bytes);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut goes_away = manner.goes_away_after;
    let end = poll_fn(|cx| {
        let polled = connection.as_mut().poll(cx);
        if polled.is_pending() && goes_away.is_some_and(|after| seen.load(SeqCst) >= after) {
            goes_away = None;
            connection.as_mut().graceful_shutdown();
            cx.waker().wake_by_ref();
        }
        polled
    });
    let _ = end.await;
}

/// A server on tokio, in the clear or behind TLS.
fn serve(manner: Manner, acceptor: Option<TlsAcceptor>) -> Served {
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let connections = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&connections);
    let address = listen(move |stream| {
        counted.fetch_add(1, SeqCst);
        let acceptor = acceptor.clone();
        async move {
            match acceptor {
                None => converse(stream, manner).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        converse(stream, manner).await;
                    }
                }
            }
        }
    });
    let url = format!("{scheme}://{address}");
    Served { url, connections }
}

fn bench_with(prompt: &str, url: &str, more: &[&str]) -> Ran {
    bench::bench(url, prompt, REQUESTS, more)
}

fn bench(url: &str, more: &[&str]) -> Ran {
    bench_with("Hi", url, more)
}

/// What is true of every run that went well.
fn check(ran: &Ran) {
    let (report, said) = (&ran.report, &ran.said);
    assert_eq!(ran.code, Some(0), "{said}");
    assert_eq!(report["load"]["completed"], REQUESTS, "{said}");
    assert_eq!(report["errors"], json!({}), "{said}");
    assert_eq!(ran.records.len() as u64, REQUESTS);
    for record in &ran.records {
        let time = |name: &str| record[name].as_u64().unwrap();
        assert!(time("started_ns") <= time("submitted_ns"), "{record}");
        assert!(time("submitted_ns") <= time("first_token_ns"), "{record}");
        assert_eq!(record["content_events"], 3, "{record}");
    }
}

fn counted(ran: &Ran, name: &str) -> u64 {
    ran.report["harness"]["http2"][name].as_u64().unwrap()
}

#[test]
fn by_prior_knowledge_many_requests_share_a_connection() {
    let served = serve(Manner::default(), None);
    for driver in ["auto", "epoll"] {
        let flags = ["--http", "2", "--driver", driver, "--concurrency", "8"];
        let ran = bench(&served.url, &flags);
        check(&ran);
        assert_eq!(counted(&ran, "connections"), 1, "{}", ran.said);
        assert_eq!(counted(&ran, "streams"), REQUESTS);
        assert_eq!(ran.report["connect_ns"]["count"], 1);
        assert!(
            ran.said.contains("HTTP/2 by prior knowledge"),
            "{}",
            ran.said
        );
        assert!(
            ran.said.contains("48 streams on 1 connection"),
            "{}",
            ran.said
        );
    }
}

#[test]
fn a_connection_is_filled_before_another_is_opened() {
    let few = Manner {
        streams_max: Some(3),
        ..Manner::default()
    };
    let served = serve(few, None);
    let before = served.connections.load(SeqCst);
    let ran = bench(&served.url, &["--http", "2", "--concurrency", "9"]);
    check(&ran);
    assert!(
        (3..=5).contains(&counted(&ran, "connections")),
        "{}",
        ran.said
    );
    assert!(served.connections.load(SeqCst) > before);
    // The client may ask for less than the server allows.
    let served = serve(Manner::default(), None);
    let flags = [
        "--http",
        "2",
        "--streams-per-connection",
        "1",
        "--concurrency",
        "4",
    ];
    let ran = bench(&served.url, &flags);
    check(&ran);
    assert_eq!(counted(&ran, "connections"), 4, "{}", ran.said);
}

#[test]
fn behind_tls_the_server_chooses() {
    let own = Own::named("127.0.0.1");
    let trusted = [
        "--ca-file",
        own.certificate.to_str().unwrap(),
        "--concurrency",
        "4",
    ];
    let both = serve(
        Manner::default(),
        Some(own.acceptor(&[&TLS13], &["h2", "http/1.1"])),
    );
    for version in ["2", "auto"] {
        let ran = bench(&both.url, &[&trusted[..], &["--http", version]].concat());
        check(&ran);
        assert_eq!(counted(&ran, "connections"), 1, "{}", ran.said);
        assert_eq!(ran.report["tls_ns"]["count"], 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ca.pem");
    let root = root.to_str().unwrap();
    let mock = Mock::start(&["--mode", "instant", "--tls-self-signed", root]);
    let flags = ["--ca-file", root, "--concurrency", "4", "--http", "auto"];
    let ran = bench(&mock.url, &flags);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    assert_eq!(ran.report["harness"]["http2"], Value::Null);
    assert_eq!(ran.report["load"]["completed"], REQUESTS);
    // Each slot has a connection of its own again.
    assert_eq!(ran.report["connect_ns"]["count"], 4);
    let said = mock.stop();
    assert!(said.contains("0 cut off"), "{said}");
}

#[test]
fn a_server_without_http_2_is_told_in_words() {
    let mock = Mock::start(&["--mode", "instant"]);
    let ran = bench(&mock.url, &["--http", "2"]);
    assert_eq!(ran.code, Some(4), "{}", ran.said);
    assert_eq!(ran.report["errors"], json!({"http_protocol": REQUESTS}));
    assert!(ran.said.contains("use --http 1.1"), "{}", ran.said);
    let own = Own::named("127.0.0.1");
    let mute = serve(Manner::default(), Some(own.acceptor(&[&TLS13], &[])));
    let flags = [
        "--ca-file",
        own.certificate.to_str().unwrap(),
        "--http",
        "2",
    ];
    let ran = bench(&mute.url, &flags);
    assert_eq!(ran.code, Some(4), "{}", ran.said);
    assert_eq!(ran.report["errors"], json!({"tls": REQUESTS}));
    assert!(ran.said.contains("does not choose HTTP/2"), "{}", ran.said);
}

#[test]
fn what_a_server_that_goes_away_did_not_begin_with_is_sent_again() {
    let leaving = Manner {
        goes_away_after: Some(5),
        ..Manner::default()
    };
    let served = serve(leaving, None);
    let ran = bench(&served.url, &["--http", "2", "--concurrency", "6"]);
    check(&ran);
    let connections = counted(&ran, "connections");
    assert!((4..=REQUESTS).contains(&connections), "{}", ran.said);
}

#[test]
fn a_stream_that_is_reset_fails_alone() {
    let moody = Manner {
        resets: Some(6),
        ..Manner::default()
    };
    let served = serve(moody, None);
    let flags = [
        "--http",
        "2",
        "--concurrency",
        "4",
        "--max-error-rate",
        "0.5",
    ];
    let ran = bench(&served.url, &flags);
    assert_eq!(
        ran.report["errors"],
        json!({"reset": REQUESTS / 6}),
        "{}",
        ran.said
    );
    assert_eq!(counted(&ran, "connections"), 1, "{}", ran.said);
    assert!(
        ran.said.contains("the server reset the stream"),
        "{}",
        ran.said
    );
}

#[test]
fn a_timeout_ends_a_stream_and_not_its_connection() {
    let slow = Manner {
        hangs: Some(12),
        ..Manner::default()
    };
    let served = serve(slow, None);
    let flags = ["--http", "2", "--concurrency", "4", "--timeout", "1s"];
    let ran = bench(
        &served.url,
        &[&flags[..], &["--max-error-rate", "0.5"]].concat(),
    );
    assert_eq!(
        ran.report["errors"],
        json!({"timeout": REQUESTS / 12}),
        "{}",
        ran.said
    );
    assert_eq!(counted(&ran, "connections"), 1, "{}", ran.said);
}

#[test]
fn waits_for_a_window_of_the_server_are_counted() {
    let narrow = Manner {
        window_bytes: Some(1 << 10),
        ..Manner::default()
    };
    let served = serve(narrow, None);
    let long = "many words ".repeat(4_000);
    let flags = ["--http", "2", "--concurrency", "4"];
    let ran = bench_with(&long, &served.url, &flags);
    check(&ran);
    assert!(counted(&ran, "send_stalls") >= REQUESTS, "{}", ran.said);
    assert_eq!(counted(&ran, "receive_stalls"), 0);
    assert!(ran.said.contains("waits for a window"), "{}", ran.said);
    // Answers that are larger than our windows.
    let served = serve(Manner::default(), None);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    fs::write(path, "limits: {http2-stream-window-bytes: 1024}\n").unwrap();
    check(&bench(&served.url, &["--config", path, "--http", "2"]));
}
