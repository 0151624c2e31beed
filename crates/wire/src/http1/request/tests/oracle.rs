//! Requests, by RFC 9112 3 and 6.3.

use super::{BODY_BYTES_MAX, End, HEAD_BYTES_MAX, Request, Seen, closed};
use crate::http1::oracle::{Stop, all, chunks, content_length, fields, is_name, is_text};
use crate::http1::oracle::{line, list, text};

/// What an oracle stops with: bytes are missing, or the status to answer.
struct Halt(Option<u16>);

fn halt(stop: &Stop, oversize: u16) -> Halt {
    match stop {
        Stop::More => Halt(None),
        Stop::Malformed => Halt(Some(400)),
        Stop::Oversize => Halt(Some(oversize)),
    }
}

fn may_be_request_line(line: &[u8], ended: bool) -> bool {
    let method = line.split(|&byte| byte == b' ').next().unwrap_or(line);
    let method_ended = method.len() < line.len();
    let method_fits = is_name(method) && method.len() <= 32 && !(method_ended && method.is_empty());
    line.is_empty() || method_fits && is_text(line) && (method_ended || !ended)
}

fn refuse<T>(status: u16) -> Result<T, Halt> {
    Err(Halt(Some(status)))
}

/// Method, target, and whether the version is 1.0.
fn request_line(line: &str) -> Result<(String, String, bool), Halt> {
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
        return refuse(400);
    };
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse(400);
    }
    let digits: Vec<char> = version
        .strip_prefix("HTTP/")
        .unwrap_or("")
        .chars()
        .collect();
    match digits[..] {
        ['1', '.', '0'..='9'] => {}
        ['0'..='9', '.', '0'..='9'] => return refuse(505),
        _ => return refuse(400),
    }
    Ok((method.to_owned(), target.to_owned(), digits[2] == '0'))
}

/// `None`: chunked.
fn body_length(fields: &[(String, String)], http10: bool) -> Result<Option<u64>, Halt> {
    let coded = all(fields, "transfer-encoding").next().is_some();
    let codings = list(fields, "transfer-encoding");
    let lengths = all(fields, "content-length").count();
    let length = match (coded, content_length(fields)) {
        (true, _) if codings != ["chunked"] => {
            return refuse(if codings.last().is_some_and(|last| last == "chunked") {
                501
            } else {
                400
            });
        }
        (true, _) if http10 || lengths > 0 => return refuse(400),
        (true, _) => None,
        (false, Err(_)) => return refuse(400),
        (false, Ok(length)) if length.unwrap_or(0) > BODY_BYTES_MAX => return refuse(413),
        (false, Ok(length)) => Some(length.unwrap_or(0)),
    };
    Ok(length)
}

/// The next request by RFC 9112, and where it ends. `begun` is set when more than blank lines
/// were there.
fn request(bytes: &[u8], requests: &mut Vec<Request>, begun: &mut bool) -> Result<usize, Halt> {
    let mut at = 0;
    let mut blank = 0;
    let start = loop {
        *begun = at < bytes.len();
        let (line, len) = line(&bytes[at..], HEAD_BYTES_MAX - at, may_be_request_line)
            .map_err(|stop| halt(&stop, 414))?;
        at += len;
        if !line.is_empty() {
            break text(line);
        }
        blank += 1;
        if blank == 5 {
            return refuse(400);
        }
    };
    let (method, target, http10) = request_line(&start)?;
    let (fields, len) =
        fields(&bytes[at..], HEAD_BYTES_MAX - at, false).map_err(|stop| halt(&stop, 431))?;
    at += len;
    let hosts = all(&fields, "host").count();
    if hosts > 1 || hosts == 0 && !http10 {
        return refuse(400);
    }
    let expectations: Vec<&str> = all(&fields, "expect").collect();
    let expects = match expectations[..] {
        [] => false,
        [only] if only.eq_ignore_ascii_case("100-continue") => true,
        _ => return refuse(417),
    };
    let length = body_length(&fields, http10)?;
    let connection = list(&fields, "connection");
    let has = |option: &str| connection.iter().any(|other| other == option);
    requests.push(Request {
        method,
        target,
        content_length: length,
        keep_alive: !has("close") && (!http10 || has("keep-alive")),
        http10,
        expect_continue: expects && !http10 && length != Some(0),
        fields,
        ..Request::default()
    });
    let request = requests.last_mut().unwrap();
    let rest = &bytes[at..];
    if let Some(length) = length {
        let length = usize::try_from(length).unwrap();
        request
            .body
            .extend_from_slice(&rest[..length.min(rest.len())]);
        if rest.len() < length {
            return Err(Halt(None));
        }
        at += length;
    } else {
        let end = chunks(rest, &mut request.body, HEAD_BYTES_MAX);
        if request.body.len() as u64 > BODY_BYTES_MAX {
            return refuse(413);
        }
        at += end.map_err(|stop| halt(&stop, 431))?;
    }
    request.complete = true;
    Ok(at)
}

pub(super) fn decode(bytes: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let (mut at, mut begun) = (0, false);
    seen.end = loop {
        match request(&bytes[at..], &mut seen.requests, &mut begun) {
            Ok(len) => at += len,
            Err(Halt(Some(status))) => break End::Refused(status),
            Err(Halt(None)) => break if begun { End::More } else { End::Idle },
        }
        if seen.requests.last().is_some_and(closed) {
            break End::Closed(bytes.len() - at);
        }
    };
    seen
}
