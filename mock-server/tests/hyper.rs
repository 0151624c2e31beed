//! The program's answers as an HTTP client reads them that nobody here wrote: hyper.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use ridgeline_mock_server::{Mode, Placement, Running, ServerConfig, start, text};
use serde_json::{Value, json};
use tokio::net::TcpStream;

fn serve(config: ServerConfig) -> Running {
    let listen = ([127, 0, 0, 1], 0).into();
    start(config, Placement::at(listen)).unwrap()
}

/// One connection, on which requests follow one another.
struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Client {
    async fn connect(server: &Running) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            host: server.address().to_string(),
        }
    }

    async fn ask(&mut self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, String) {
        self.sender.ready().await.unwrap();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn post(&mut self, path: &str, body: &Value) -> String {
        let (status, answer) = self.ask(Method::POST, path, body.to_string().into()).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    async fn whole(&mut self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.post(path, body).await).unwrap()
    }

    /// The events of a stream, `[DONE]` left out.
    async fn events(&mut self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = json!(true);
        let answer = self.post(path, &body).await;
        let data = answer
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

fn joined(events: &[Value], pointer: &str) -> String {
    let texts = events
        .iter()
        .filter_map(|event| event.pointer(pointer)?.as_str());
    texts.collect()
}

async fn everything(client: &mut Client) {
    let chat =
        json!({"messages": [{"role": "user", "content": "A quiet river"}], "max_tokens": 40});
    let whole = client.whole("/v1/chat/completions", &chat).await;
    assert_eq!(whole["choices"][0]["message"]["content"], text(40));
    assert_eq!(whole["usage"]["prompt_tokens"], 3);
    let events = client.events("/v1/chat/completions", &chat).await;
    assert_eq!(joined(&events, "/choices/0/delta/content"), text(40));

    let prompt = json!({"prompt": "A quiet river", "max_tokens": 40});
    let whole = client.whole("/v1/completions", &prompt).await;
    assert_eq!(whole["choices"][0]["text"], text(40));
    let events = client.events("/v1/completions", &prompt).await;
    assert_eq!(joined(&events, "/choices/0/text"), text(40));

    let input = json!({"input": "A quiet river", "max_output_tokens": 40});
    let whole = client.whole("/v1/responses", &input).await;
    assert_eq!(whole["output"][0]["content"][0]["text"], text(40));
    let events = client.events("/v1/responses", &input).await;
    let deltas: Vec<_> = events
        .into_iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .collect();
    assert_eq!(joined(&deltas, "/delta"), text(40));

    let embeddings = json!({"input": ["one", "two"], "dimensions": 16});
    let answer = client.whole("/v1/embeddings", &embeddings).await;
    assert_eq!(answer["data"][1]["embedding"].as_array().unwrap().len(), 16);
    assert_eq!(answer["usage"]["total_tokens"], 2);

    let (status, models) = client.ask(Method::GET, "/v1/models", Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    assert!(models.contains("mock"));
    let (status, _) = client
        .ask(Method::POST, "/v1/completions", b"{".to_vec())
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[test]
fn hyper_reads_every_answer_of_both_modes_on_one_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let instant = Mode::Instant {
        events_per_write: None,
    };
    for mode in [instant, ServerConfig::default().mode] {
        let server = serve(ServerConfig {
            mode,
            ..ServerConfig::default()
        });
        runtime.block_on(async {
            everything(&mut Client::connect(&server).await).await;
        });
        server.stop().unwrap();
    }
}
