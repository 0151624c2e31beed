//! A script's steps to operations.

use super::Json;

/// One thing that the server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// One write, then a pause of `gap_ms`.
    Send {
        /// What is written.
        bytes: Vec<u8>,
        /// The pause after it.
        gap_ms: u64,
    },
    /// A pause.
    Sleep {
        /// Its length.
        ms: u64,
    },
    /// The connection ends: by FIN, or else by RST.
    Close {
        /// By FIN.
        fin: bool,
    },
    /// The next request is read on this connection.
    WaitRequest,
}

/// The pause after each write, so that each one is a read of its own.
const GAP_MS: u64 = 1;

/// The names of the steps. Those that may stand beside another one come last.
const STEPS: &[&str] = &[
    "delta",
    "token",
    "send",
    "send_b64",
    "split",
    "sleep_ms",
    "close",
    "wait_request",
    "headers",
    "sse_headers",
    "reply",
    "chunk",
    "chunk_b64",
    "chunk_style",
    "end",
    "pack",
    "one_chunk",
    "eol",
    "role",
    "tokens",
    "event",
    "data",
    "comment",
    "done",
    "finish",
    "usage",
];

/// What the steps so far have set.
#[derive(Clone)]
struct Context<'a> {
    model: &'a str,
    chat: bool,
    chunked: bool,
    eol: String,
    style: Json,
}

pub(super) fn compile(script: &Json, model: &str, chat: bool) -> Vec<Op> {
    let eol = "\n".to_owned();
    let mut context = Context {
        model,
        chat,
        chunked: false,
        eol,
        style: Json::object([]),
    };
    steps(script, &mut context)
}

fn steps(script: &Json, context: &mut Context<'_>) -> Vec<Op> {
    let script = script.list();
    let each = |(at, one): (usize, &Json)| step(one, &script[at + 1..], context);
    script.iter().enumerate().flat_map(each).collect()
}

fn name_of(step: &Json) -> &'static str {
    let name = STEPS.iter().find(|name| step.get(name).is_some());
    name.unwrap_or_else(|| panic!("no known step in {step}"))
}

/// A text value: a string, `{"repeat": text, "times": N}`, or a list of these.
pub(super) fn text_of(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        Json::List(parts) => parts.iter().map(text_of).collect(),
        _ => text_of(&value["repeat"]).repeat(value["times"].usize()),
    }
}

fn send(bytes: impl Into<Vec<u8>>) -> Vec<Op> {
    vec![Op::Send {
        bytes: bytes.into(),
        gap_ms: GAP_MS,
    }]
}

/// The bytes of operations that only send.
fn only_bytes(ops: Vec<Op>) -> Vec<u8> {
    let bytes = |op| match op {
        Op::Send { bytes, .. } => bytes,
        other => panic!("{other:?} does not send"),
    };
    ops.into_iter().flat_map(bytes).collect()
}

fn step(step: &Json, rest: &[Json], context: &mut Context<'_>) -> Vec<Op> {
    let name = name_of(step);
    let value = &step[name];
    match name {
        "send" => send(text_of(value)),
        "send_b64" => send(base64(value.str())),
        "sleep_ms" => vec![Op::Sleep {
            ms: value.usize() as u64,
        }],
        "wait_request" => vec![Op::WaitRequest],
        "close" => vec![Op::Close {
            fin: value.str() == "fin",
        }],
        "split" => split(value, context),
        "headers" | "sse_headers" | "reply" => send(head(name, step, rest, context)),
        "chunk" => send(context.chunk(text_of(value).into_bytes())),
        "chunk_b64" => send(context.chunk(base64(value.str()))),
        "chunk_style" => {
            context.style = value.clone();
            vec![]
        }
        "eol" => {
            context.eol = value.str().to_owned();
            vec![]
        }
        "end" if !context.chunked => vec![],
        "end" => {
            let trailers = match value {
                Json::List(lines) => lines.iter().map(|l| format!("{}\r\n", l.str())).collect(),
                _ => String::new(),
            };
            send(format!("0\r\n{trailers}\r\n"))
        }
        "pack" => send(only_bytes(steps(value, context))),
        "one_chunk" => {
            let bytes = only_bytes(steps(value, &mut context.raw()));
            send(context.chunk(bytes))
        }
        _ => events(name, step, context)
            .into_iter()
            .flat_map(send)
            .collect(),
    }
}

fn split(value: &Json, context: &mut Context<'_>) -> Vec<Op> {
    let whole = match (value.get("steps"), value.get("b64")) {
        (Some(script), _) => only_bytes(steps(script, context)),
        (None, Some(text)) => base64(text.str()),
        (None, None) => text_of(&value["text"]).into_bytes(),
    };
    let gap_ms = value.get("gap_ms").map_or(GAP_MS, |gap| gap.usize() as u64);
    let pieces = whole.chunks(value["every"].usize());
    pieces
        .map(|bytes| Op::Send {
            bytes: bytes.to_vec(),
            gap_ms,
        })
        .collect()
}

/// A response head; with `reply`, the whole response.
fn head(name: &str, step: &Json, rest: &[Json], context: &mut Context<'_>) -> Vec<u8> {
    let text = |key: &str| step.get(key).map(|value| value.str().to_owned());
    let (mut status, mut kind, mut framing) = (step[name].clone(), text("type"), text("framing"));
    let mut body = Vec::new();
    let length = match name {
        "reply" => {
            body = match step.get("json") {
                Some(json) => json.to_string().into_bytes(),
                None => step
                    .get("body")
                    .map(text_of)
                    .unwrap_or_default()
                    .into_bytes(),
            };
            kind = kind.or_else(|| step.get("json").map(|_| "application/json".to_owned()));
            body.len()
        }
        "sse_headers" => {
            kind = Some("text/event-stream; charset=utf-8".to_owned());
            framing = Some(match &step[name] {
                Json::Text(framing) => framing.clone(),
                _ => "chunked".to_owned(),
            });
            status = Json::text("200 OK");
            rest_length(rest, context)
        }
        _ => rest_length(rest, context),
    };
    let version = text("version").unwrap_or_else(|| "HTTP/1.1".to_owned());
    let mut lines = vec![format!("{version} {}", status.str())];
    lines.extend(kind.map(|kind| format!("Content-Type: {kind}")));
    let extra = step.get("length_extra").map_or(0, Json::usize);
    let framing = framing.unwrap_or_else(|| "length".to_owned());
    match framing.as_str() {
        "chunked" => lines.push("Transfer-Encoding: chunked".to_owned()),
        "length" => lines.push(format!("Content-Length: {}", length + extra)),
        "close" => lines.push("Connection: close".to_owned()),
        "none" => {}
        other => panic!("framing {other}"),
    }
    lines.extend(
        step.get("add")
            .into_iter()
            .flat_map(Json::list)
            .map(text_of),
    );
    context.chunked = framing == "chunked";
    let mut bytes = lines.join("\r\n").into_bytes();
    bytes.extend_from_slice(b"\r\n\r\n");
    if !body.is_empty() {
        bytes.extend(context.chunk(body));
    }
    if name == "reply" && context.chunked {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}

/// Bytes that the steps up to the next response head would send.
fn rest_length(rest: &[Json], context: &Context<'_>) -> usize {
    let mut context = context.raw();
    let ends = |step: &&Json| {
        !matches!(
            name_of(step),
            "headers" | "sse_headers" | "reply" | "wait_request"
        )
    };
    let sent = |op| {
        if let Op::Send { bytes, .. } = op {
            bytes.len()
        } else {
            0
        }
    };
    let body = rest.iter().take_while(ends);
    body.flat_map(|one| step(one, &[], &mut context))
        .map(sent)
        .sum()
}

/// The steps that are server-sent events, or comments.
fn events(name: &str, step: &Json, context: &Context<'_>) -> Vec<Vec<u8>> {
    let value = &step[name];
    let text = |text: &str| match context.chat {
        true => Json::object([("delta", Json::object([("content", Json::text(text))]))]),
        false => Json::object([("text", Json::text(text))]),
    };
    let choice = |body| context.choice(body, step, step.get("finish").unwrap_or(&Json::Null));
    match name {
        "role" => {
            let role = [
                ("role", Json::text("assistant")),
                ("content", Json::text("")),
            ];
            let chat = Json::object([("delta", Json::object(role))]);
            vec![context.choice(
                if context.chat { chat } else { text("") },
                step,
                &Json::Null,
            )]
        }
        "token" => vec![choice(text(&text_of(value)))],
        "tokens" => {
            let texts = match value {
                Json::List(texts) => texts.iter().map(text_of).collect(),
                _ => vec![text_of(&value["each"]); value["times"].usize()],
            };
            texts
                .iter()
                .map(|t| context.choice(text(t), &Json::object([]), &Json::Null))
                .collect()
        }
        "delta" => vec![choice(Json::object([("delta", value.clone())]))],
        "finish" if context.chat => vec![choice(Json::object([("delta", Json::object([]))]))],
        "finish" => vec![choice(text(""))],
        "usage" => {
            let mut object = context.base();
            object.set("choices", Json::List(vec![]));
            object.set("usage", usage(value));
            vec![context.object(object, step)]
        }
        "event" => vec![context.event(&value.to_string(), step.get("name").map(Json::str))],
        "data" => vec![context.event(&text_of(value), None)],
        "comment" => {
            let eol = &context.eol;
            vec![context.chunk(format!(":{}{eol}{eol}", text_of(value)).into_bytes())]
        }
        "done" => vec![context.event("[DONE]", None)],
        other => panic!("step {other}"),
    }
}

fn usage(value: &Json) -> Json {
    let Json::List(counts) = value else {
        return value.clone();
    };
    let (prompt, completion) = (counts[0].usize(), counts[1].usize());
    Json::object([
        ("prompt_tokens", Json::number(prompt)),
        ("completion_tokens", Json::number(completion)),
        ("total_tokens", Json::number(prompt + completion)),
    ])
}

impl Context<'_> {
    /// The same without chunks.
    fn raw(&self) -> Self {
        Self {
            chunked: false,
            ..self.clone()
        }
    }

    /// One HTTP chunk, when the body is chunked.
    fn chunk(&self, payload: Vec<u8>) -> Vec<u8> {
        if !self.chunked {
            return payload;
        }
        let mut size = format!("{:x}", payload.len());
        if self.style.get("upper") == Some(&Json::Bool(true)) {
            size = size.to_uppercase();
        }
        let pad = self.style.get("pad").map_or(0, Json::usize);
        let ext = self.style.get("ext").map_or("", Json::str);
        [
            format!("{size:0>pad$}{ext}\r\n").as_bytes(),
            &payload,
            b"\r\n",
        ]
        .concat()
    }

    fn event(&self, data: &str, name: Option<&str>) -> Vec<u8> {
        let eol = &self.eol;
        let name = name
            .map(|name| format!("event: {name}{eol}"))
            .unwrap_or_default();
        self.chunk(format!("{name}data: {data}{eol}{eol}").into_bytes())
    }

    fn base(&self) -> Json {
        let kind = if self.chat {
            "chat.completion.chunk"
        } else {
            "text_completion"
        };
        Json::object([
            ("id", Json::text("resp-1")),
            ("object", Json::text(kind)),
            ("created", Json::number(1_700_000_000)),
            ("model", Json::text(self.model)),
        ])
    }

    /// An event with one choice; `index`, `usage` and `top` stand beside it in the step.
    fn choice(&self, body: Json, step: &Json, finish: &Json) -> Vec<u8> {
        let index = step
            .get("index")
            .cloned()
            .unwrap_or_else(|| Json::number(0));
        let mut choice = Json::object([("index", index)]);
        for (key, value) in body.members() {
            choice.set(key, value.clone());
        }
        choice.set("logprobs", Json::Null);
        choice.set("finish_reason", finish.clone());
        let mut object = self.base();
        object.set("choices", Json::List(vec![choice]));
        if let Some(value) = step.get("usage") {
            object.set("usage", usage(value));
        }
        self.object(object, step)
    }

    fn object(&self, mut object: Json, step: &Json) -> Vec<u8> {
        for (key, value) in step.get("top").map(Json::members).unwrap_or_default() {
            object.set(key, value.clone());
        }
        self.event(&object.to_string(), None)
    }
}

/// Decodes base64 with padding.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit of base64"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect();
    let group = |four: &[u8]| {
        let bits = four
            .iter()
            .fold(0, |bits, &digit| bits << 6 | u32::from(digit));
        let bytes = (bits << (6 * (4 - four.len()))).to_be_bytes();
        bytes[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
