//! The bytes that are sent: a chat request, a chat completion, a chat stream.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use memchr::memmem;

/// What marks an event in the bytes of an event stream.
pub const EVENT: &[u8] = b"data: ";

/// Events of an answer that are not content: role, finish, usage, `[DONE]`.
pub const EVENTS_AROUND: u64 = 4;

/// Leaks the bytes: the kernel may read a payload for as long as its ring lives, and a program
/// here has a handful of them.
#[must_use]
pub fn leak(bytes: impl Into<Vec<u8>>) -> &'static [u8] {
    Vec::leak(bytes.into())
}

/// The question that is asked here, and that ridgeline is told to ask.
pub const PROMPT: &str = "Say one word about the sea, please.";

/// A chat request with the fields, in the order and at the lengths that ridgeline sends: about 230
/// bytes of head and 110 to 150 of body.
#[must_use]
pub fn request(address: SocketAddr, stream: bool) -> Vec<u8> {
    request_asking(address, stream, PROMPT)
}

/// The same with another prompt, of text that JSON leaves as it is.
#[must_use]
pub fn request_asking(address: SocketAddr, stream: bool, prompt: &str) -> Vec<u8> {
    let (accept, tail) = if stream {
        (
            "text/event-stream",
            r#""stream":true,"stream_options":{"include_usage":true}"#,
        )
    } else {
        ("application/json", r#""stream":false"#)
    };
    let message = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
    let body = format!(r#"{{"model":"mock","messages":[{message}],{tail}}}"#);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\n\
         Host: {address}\r\n\
         User-Agent: ridgeline/{}\r\n\
         Accept: {accept}\r\n\
         Content-Type: application/json\r\n\
         Accept-Encoding: identity\r\n\
         X-Request-Id: 0000000000000001\r\n\
         Content-Length: {}\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    (head + &body).into_bytes()
}

/// The request of a file, sent as it is.
///
/// # Errors
/// When it can't be read or is empty.
pub fn request_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if bytes.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the request file is empty",
        ));
    }
    Ok(bytes)
}

/// The answer of a file, head and body.
///
/// # Errors
/// When it can't be read, or is not the start of an HTTP response.
pub fn answer_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if bytes.starts_with(b"HTTP/1.") {
        return Ok(bytes);
    }
    let text = format!("{} holds no HTTP response", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Cuts a stream, head and all, into one segment per HTTP chunk. The head goes with the first and
/// the last chunk, which is empty, with the one before it. `None` when it is not chunked.
#[must_use]
pub fn chunks_of(answer: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut at = memmem::find(answer, b"\r\n\r\n")? + 4;
    let mut segments: Vec<Vec<u8>> = Vec::new();
    let mut start = 0;
    loop {
        let line = at + memmem::find(&answer[at..], b"\r\n")?;
        let size = usize::from_str_radix(str::from_utf8(&answer[at..line]).ok()?, 16).ok()?;
        at = line.checked_add(size)?.checked_add(4)?;
        let segment = answer.get(start..at)?;
        if size == 0 {
            match segments.last_mut() {
                Some(last) => last.extend_from_slice(segment),
                None => segments.push(segment.to_vec()),
            }
            return (at == answer.len()).then_some(segments);
        }
        segments.push(segment.to_vec());
        start = at;
    }
}

/// A `chat.completion`, head and body.
#[must_use]
pub fn completion() -> Vec<u8> {
    completion_saying("Deep, and older than any word for it.")
}

/// The same with another text, which JSON leaves as it is.
#[must_use]
pub fn completion_saying(text: &str) -> Vec<u8> {
    let body = [
        r#"{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1700000000,"#,
        r#""model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":""#,
        text,
        r#""},"logprobs":null,"finish_reason":"stop"}],"#,
        r#""usage":{"prompt_tokens":16,"completion_tokens":9,"total_tokens":25}}"#,
    ]
    .concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// A streamed chat completion of `events` content events, one segment per event, each event in its
/// own HTTP chunk. The head goes with the role, the last chunk with `[DONE]`.
#[must_use]
pub fn stream(events: u64) -> Vec<Vec<u8>> {
    let words = ["the", "sea", "keeps", "its", "own", "time", "and", "tells"];
    let mut segments = Vec::new();
    let role = chunk(&event(r#"{"role":"assistant","content":""}"#, "null"));
    segments.push(format!("{STREAM_HEAD}{role}"));
    for word in words.iter().cycle().zip(0..events).map(|(word, _)| word) {
        let delta = format!(r#"{{"content":" {word}"}}"#);
        segments.push(chunk(&event(&delta, "null")));
    }
    segments.push(chunk(&event("{}", r#""stop""#)));
    let mut usage = format!(r#"{{{EVENT_HEAD},"choices":[],"#);
    write!(
        usage,
        r#""usage":{{"prompt_tokens":16,"completion_tokens":{events},"total_tokens":{}}}}}"#,
        events + 16
    )
    .expect("writing to a string");
    segments.push(chunk(&usage));
    segments.push(chunk("[DONE]") + "0\r\n\r\n");
    segments.into_iter().map(String::into_bytes).collect()
}

/// The segments of a stream, up to `events` of them in each write.
#[must_use]
pub fn together(segments: &[Vec<u8>], events: usize) -> Vec<Vec<u8>> {
    segments.chunks(events.max(1)).map(<[_]>::concat).collect()
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                           cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

const EVENT_HEAD: &str = concat!(
    r#""id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","#,
    r#""created":1700000000,"model":"mock""#
);

fn event(delta: &str, finish: &str) -> String {
    format!(
        r#"{{{EVENT_HEAD},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}"#
    )
}

/// One event in one HTTP chunk.
fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The body of a chunked response, byte by byte as RFC 9112 says.
    fn dechunked(mut body: &[u8]) -> String {
        let mut out = Vec::new();
        loop {
            let line = memmem::find(body, b"\r\n").unwrap();
            let size = usize::from_str_radix(str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
            let data = &body[line + 2..];
            assert_eq!(&data[size..size + 2], b"\r\n");
            if size == 0 {
                assert_eq!(data.len(), 2, "nothing after the last chunk");
                return String::from_utf8(out).unwrap();
            }
            out.extend(&data[..size]);
            body = &data[size + 2..];
        }
    }

    #[test]
    fn the_stream_is_a_chat_stream_of_the_asked_length() {
        let segments = stream(20);
        assert_eq!(segments.len() as u64, 20 + EVENTS_AROUND);
        for segment in &segments {
            assert_eq!(
                memmem::find_iter(segment, EVENT).count(),
                1,
                "one event per segment"
            );
        }
        let whole = segments.concat();
        let body = &whole[memmem::find(&whole, b"\r\n\r\n").unwrap() + 4..];
        let text = dechunked(body);
        let events: Vec<&str> = text
            .split_terminator("\n\n")
            .map(|e| e.strip_prefix("data: ").unwrap())
            .collect();
        assert_eq!(events.last(), Some(&"[DONE]"));
        let parsed: Vec<Value> = events[..events.len() - 1]
            .iter()
            .map(|e| serde_json::from_str(e).unwrap())
            .collect();
        let content = |v: &Value| v["choices"][0]["delta"]["content"].as_str().map(str::len);
        assert_eq!(parsed.iter().filter(|v| content(v) > Some(0)).count(), 20);
        assert_eq!(parsed[21]["choices"][0]["finish_reason"], "stop");
        assert_eq!(parsed[22]["usage"]["completion_tokens"], 20);
    }

    #[test]
    fn a_recorded_stream_is_cut_into_its_chunks() {
        for events in [0, 1, 30] {
            let segments = stream(events);
            assert_eq!(chunks_of(&segments.concat()), Some(segments));
        }
        let whole = stream(3).concat();
        assert_eq!(chunks_of(&whole[..whole.len() - 1]), None, "no end");
        assert_eq!(
            chunks_of(&[&whole[..], b"x"].concat()),
            None,
            "bytes after it"
        );
        assert_eq!(chunks_of(&completion()), None, "not chunked");
        let empty = b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\n";
        assert_eq!(chunks_of(empty), Some(vec![empty.to_vec()]));
        let endless = b"HTTP/1.1 200 OK\r\n\r\nffffffffffffffff\r\n";
        assert_eq!(chunks_of(endless), None);
    }

    #[test]
    fn a_write_holds_as_many_events_as_it_is_to() {
        let segments = stream(10);
        for (events, writes) in [(0, 14), (1, 14), (4, 4), (14, 1), (99, 1)] {
            let together = together(&segments, events);
            assert_eq!(together.len(), writes);
            assert_eq!(together.concat(), segments.concat());
        }
    }

    #[test]
    fn request_and_completion_say_their_length() {
        let address = "127.0.0.1:80".parse().unwrap();
        for bytes in [
            request(address, true),
            request(address, false),
            request_asking(address, false, &"x".repeat(10_000)),
            completion(),
            completion_saying(&"x".repeat(10_000)),
        ] {
            let end = memmem::find(&bytes, b"\r\n\r\n").unwrap() + 4;
            let head = str::from_utf8(&bytes[..end]).unwrap();
            let head = head.to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.trim_end().parse().unwrap();
            assert_eq!(bytes.len(), end + length);
            serde_json::from_slice::<Value>(&bytes[end..]).unwrap();
        }
    }
}
