//! The program against endpoints behind TLS: its own mock server, and hyper on tokio-rustls, which nobody
//! here wrote.
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

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use bench::Ran;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use listening::listen;
use mock::Mock;
use own::{Own, params};
use rcgen::date_time_ymd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{SupportedProtocolVersion, version};

const REQUESTS: u64 = 24;

/// A mock server that is this.
fn mock_of(own: &Own) -> Mock {
    let (certificate, key) = (own.certificate.to_str(), own.key.to_str());
    Mock::start(&[
        "--mode",
        "instant",
        "--tls-cert",
        certificate.unwrap(),
        "--tls-key",
        key.unwrap(),
    ])
}

fn bench(url: &str, more: &[&str]) -> Ran {
    bench_with("Hi", url, more)
}

/// The same with another prompt.
fn bench_with(prompt: &str, url: &str, more: &[&str]) -> Ran {
    let usual = ["--concurrency", "4", "--timeout", "20s"];
    bench::bench(url, prompt, REQUESTS, &[&usual, more].concat())
}

/// What is true of every run that went well.
fn check(ran: &Ran) {
    let (report, said) = (&ran.report, &ran.said);
    assert_eq!(ran.code, Some(0), "{said}");
    assert_eq!(report["load"]["completed"], REQUESTS, "{said}");
    assert_eq!(report["errors"], serde_json::json!({}), "{said}");
    assert_ne!(report["verdict"]["status"], "invalid", "{said}");
    assert!(
        report["target"]["url"]
            .as_str()
            .unwrap()
            .starts_with("https://")
    );
    // Each slot keeps its connection, and each connection has one handshake.
    assert_eq!(report["connect_ns"]["count"], 4);
    assert_eq!(report["tls_ns"]["count"], 4);
    assert!(report["tls_ns"]["min"].as_u64().unwrap() > 0);
    let secured = ran.records.iter().filter(|r| r.get("secured_ns").is_some());
    assert_eq!(secured.clone().count(), 4);
    for record in secured {
        let time = |name: &str| record[name].as_u64().unwrap();
        assert!(time("connected_ns") < time("secured_ns"), "{record}");
        assert!(time("secured_ns") <= time("submitted_ns"), "{record}");
    }
}

#[test]
fn the_mock_server_is_measured_through_tls() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ca.pem");
    let root = root.to_str().unwrap();
    let mock = Mock::start(&["--mode", "instant", "--tls-self-signed", root]);
    assert!(mock.url.starts_with("https://127.0.0.1:"), "{}", mock.url);
    for driver in ["auto", "epoll"] {
        let ran = bench(&mock.url, &["--ca-file", root, "--driver", driver]);
        check(&ran);
        assert_eq!(ran.report["target"]["certificate_checked"], true);
        assert!(ran.said.contains("TLS handshake"), "{}", ran.said);
        assert!(!ran.said.contains("NOT checked"), "{}", ran.said);
    }
    let ran = bench(&mock.url, &["--insecure"]);
    check(&ran);
    assert_eq!(ran.report["target"]["certificate_checked"], false);
    // Before the run, and in its report.
    assert_eq!(ran.said.matches("NOT checked").count(), 2, "{}", ran.said);
    // Whole answers, prompts larger than a record, events one by one.
    let long = "many words ".repeat(4_000);
    let ran = bench_with(&long, &mock.url, &["--ca-file", root, "--no-streaming"]);
    check(&ran);
    let said = mock.stop();
    assert!(said.contains("0 cut off"), "{said}");
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_before_the_run() {
    let other = Own::named("api.example");
    let mut expired = params("127.0.0.1");
    expired.not_after = date_time_ymd(2021, 3, 4);
    let expired = Own::new(&expired);
    let sound = Own::named("127.0.0.1");
    let file = |own: &Own| own.certificate.to_str().unwrap().to_owned();
    for (own, trusted, parts) in [
        (&other, &other, ["is for `api.example`", "127.0.0.1"]),
        (&expired, &expired, ["expired on 2021-03-04", "renew it"]),
        (&sound, &other, ["signed by itself", "--ca-file"]),
    ] {
        let server = mock_of(own);
        let ran = bench(&server.url, &["--ca-file", &file(trusted)]);
        assert_eq!(ran.code, Some(2), "{}", ran.said);
        for part in parts {
            assert!(ran.said.contains(part), "{part}: {}", ran.said);
        }
        assert!(ran.records.is_empty());
    }
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    thread::spawn(move || {
        // As most servers do when they are spoken to in TLS at a port without.
        for stream in plain.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 4096]);
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let ran = bench(&format!("https://{address}"), &["--insecure"]);
    assert_eq!(ran.code, Some(2), "{}", ran.said);
    assert!(ran.said.contains("not TLS"), "{}", ran.said);
    let ran = bench(&format!("http://{address}"), &["--insecure"]);
    assert!(
        ran.said.contains("write the URL as https://"),
        "{}",
        ran.said
    );
}

#[test]
fn a_client_shows_its_certificate_to_a_server_that_asks() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ca.pem");
    let root = root.to_str().unwrap();
    let client = Own::named("a client");
    let (certificate, key) = (client.certificate.to_str(), client.key.to_str());
    let (certificate, key) = (certificate.unwrap(), key.unwrap());
    let mock = Mock::start(&[
        "--mode",
        "instant",
        "--tls-self-signed",
        root,
        "--tls-client-ca",
        certificate,
    ]);
    let trusting = ["--ca-file", root];
    let known = ["--client-cert", certificate, "--client-key", key];
    check(&bench(&mock.url, &[&trusting[..], &known].concat()));
    // TLS 1.3 tells only after the handshake: the run begins, and fails.
    let ran = bench(&mock.url, &trusting);
    assert_eq!(ran.code, Some(4), "{}", ran.said);
    assert_eq!(ran.report["errors"], serde_json::json!({"tls": REQUESTS}));
    assert!(ran.said.contains("pass --client-cert"), "{}", ran.said);
}

#[test]
fn a_probe_says_how_it_is_secured() {
    let own = Own::named("127.0.0.1");
    let mock = mock_of(&own);
    let root = own.certificate.to_str().unwrap();
    let probe = [
        "probe", "--url", &mock.url, "--model", "mock", "--prompt", "Hi",
    ];
    let exit = program::run(&[&probe[..], &["--ca-file", root]].concat());
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    let expected = "protocol http/1.1, certificate checked";
    assert!(exit.said.contains("secured by TLS 1.3"), "{}", exit.said);
    assert!(exit.said.contains(expected), "{}", exit.said);
}

/// What a foreign server does with each connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Answers, by hyper.
    Hyper,
    /// Answers half, and ends the connection without a word.
    Cut,
}

const EVENTS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"there\"},\"finish_reason\":\"stop\"}]}\n\n\
    data: [DONE]\n\n";

/// A server on tokio and rustls. Its URL.
fn serve(own: &Own, versions: &[&'static SupportedProtocolVersion], manner: Manner) -> String {
    let acceptor = own.acceptor(versions, &[]);
    let address = listen(move |stream| converse(acceptor.clone(), stream, manner));
    format!("https://{address}")
}

async fn converse(acceptor: TlsAcceptor, stream: tokio::net::TcpStream, manner: Manner) {
    // Connections that only look whether somebody is there end in the middle of something.
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    match manner {
        Manner::Hyper => {
            let connection = hyper::server::conn::http1::Builder::new();
            let answer = service_fn(|_: Request<hyper::body::Incoming>| async {
                let response = Response::builder().header("content-type", "text/event-stream");
                Ok::<_, Infallible>(response.body(Full::new(Bytes::from(EVENTS))).unwrap())
            });
            let _ = connection
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        }
        Manner::Cut => {
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                let half = format!("{head}{}", &EVENTS[..EVENTS.len() / 2]);
                let _ = stream.write_all(half.as_bytes()).await;
                let _ = stream.flush().await;
            }
            // FIN comes from the socket below, without close_notify.
            let (socket, _) = stream.get_mut();
            let _ = socket.shutdown().await;
        }
    }
}

#[test]
fn hyper_is_measured_through_both_versions() {
    let own = Own::named("127.0.0.1");
    let root = own.certificate.to_str().unwrap();
    for version in [&version::TLS13, &version::TLS12] {
        let url = serve(&own, &[version], Manner::Hyper);
        let ran = bench(&url, &["--ca-file", root, "--save-text"]);
        check(&ran);
        assert!(
            ran.records
                .iter()
                .all(|record| record["text"] == "Hi there")
        );
    }
}

#[test]
fn a_server_that_ends_without_a_word_is_an_error_of_its_own() {
    let own = Own::named("127.0.0.1");
    let root = own.certificate.to_str().unwrap();
    let url = serve(&own, &[&version::TLS13], Manner::Cut);
    let ran = bench(&url, &["--ca-file", root]);
    assert_eq!(ran.code, Some(4), "{}", ran.said);
    let expected = serde_json::json!({"tls_truncated": REQUESTS});
    assert_eq!(ran.report["errors"], expected, "{}", ran.said);
    assert!(ran.said.contains("close_notify"), "{}", ran.said);
    // What came is kept.
    assert!(
        ran.records
            .iter()
            .all(|record| record["content_events"] == 1)
    );
}

/// Paths in messages are those that were given.
#[test]
fn files_that_cannot_be_read_are_told_by_their_flag() {
    let missing = Path::new("no").join("such.pem");
    let ran = bench(
        "https://127.0.0.1:9",
        &["--ca-file", missing.to_str().unwrap()],
    );
    assert_eq!(ran.code, Some(2), "{}", ran.said);
    assert!(
        ran.said.contains("--ca-file no/such.pem: cannot read it"),
        "{}",
        ran.said
    );
}
