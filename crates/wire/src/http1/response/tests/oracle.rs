//! Responses, by RFC 9112 6.3.

use super::{Absent, ContentKind, End, EventStream, HEAD_BYTES_MAX, Head, Json, Other, Seen};
use crate::http1::oracle::{Stop, all, chunks, content_length, fields, is_text, line, list, text};
use crate::http1::{HttpError, HttpErrorKind};

fn may_be_status_line(line: &[u8], ended: bool) -> bool {
    let fits = line.iter().zip(0..13).all(|(&byte, place)| match place {
        7 | 10 | 11 => byte.is_ascii_digit(),
        9 => byte.is_ascii_digit() && byte != b'0',
        _ => byte == b"HTTP/1._ ___ "[place],
    });
    fits && is_text(line) && (line.len() >= 12 || !ended)
}

fn content(fields: &[(String, String)]) -> ContentKind {
    let last = all(fields, "content-type")
        .last()
        .unwrap_or("")
        .to_lowercase();
    let media_type = last.split(';').next().unwrap().trim_matches([' ', '\t']);
    match media_type {
        "" => Absent,
        "text/event-stream" => EventStream,
        "application/json" => Json,
        _ if media_type.starts_with("application/")
            && media_type.ends_with("+json")
            && media_type.len() > "application/+json".len() =>
        {
            Json
        }
        _ => Other,
    }
}

fn response(
    bytes: &[u8],
    seen: &mut Seen,
    status: &mut Option<u16>,
) -> Result<(usize, bool), Stop> {
    let mut at = 0;
    loop {
        *status = None;
        let (line, len) = line(&bytes[at..], HEAD_BYTES_MAX - at, may_be_status_line)?;
        at += len;
        let code: u16 = text(&line[9..12]).parse().unwrap();
        if code >= 200 || code == 101 {
            *status = Some(code);
        }
        if code == 101 {
            return Err(Stop::Malformed);
        }
        let (fields, len) = fields(&bytes[at..], HEAD_BYTES_MAX - at, true).map_err(|stop| {
            if let Stop::Oversize = stop {
                *status = None;
            }
            stop
        })?;
        at += len;
        if code < 200 {
            continue;
        }
        let connection = list(&fields, "connection");
        let codings = list(&fields, "transfer-encoding");
        let coded = all(&fields, "transfer-encoding").next().is_some();
        let has = |option: &str| connection.iter().any(|other| other == option);
        let http10 = line[7] == b'0';
        let persistent = !has("close") && (!http10 || has("keep-alive") && !coded);
        let head = Head {
            status: code,
            content: content(&fields),
        };
        if matches!(code, 204 | 304) {
            seen.head = Some(head);
            return Ok((at, persistent));
        }
        if list(&fields, "content-encoding")
            .iter()
            .any(|coding| coding != "identity")
            || coded && codings != ["chunked"]
        {
            return Err(Stop::Malformed);
        }
        let length = if coded {
            None
        } else {
            content_length(&fields)?
        };
        seen.head = Some(head);
        if coded {
            return chunks(&bytes[at..], &mut seen.body, HEAD_BYTES_MAX)
                .map(|len| (at + len, persistent));
        }
        let rest = &bytes[at..];
        let len = length.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap());
        seen.body.extend_from_slice(&rest[..len.min(rest.len())]);
        return if len <= rest.len() {
            Ok((at + len, persistent))
        } else {
            Err(Stop::More)
        };
    }
}

pub(super) fn decode(bytes: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut status = None;
    let error = |kind| End::Error(HttpError { kind, status: None });
    seen.end = match response(bytes, &mut seen, &mut status) {
        Ok((at, reusable)) => End::Done {
            left: bytes.len() - at,
            reusable,
        },
        Err(Stop::More) => End::More,
        Err(Stop::Malformed) => error(HttpErrorKind::Malformed("")),
        Err(Stop::Oversize) => error(HttpErrorKind::Oversize),
    };
    if let End::Error(error) = &mut seen.end {
        error.status = status;
    }
    seen
}
