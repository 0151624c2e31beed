//! RFC 9112 on a whole buffer, written for clearness: no state, no limits but the head's.

use super::{Absent, ContentKind, End, EventStream, HEAD_BYTES_MAX, Head, Json, Other, Seen};
use crate::http1::{HttpError, HttpErrorKind};

enum Stop {
    More,
    Malformed,
    Oversize,
}

const TOKEN_MARKS: &[u8] = b"!#$%&'*+-.^_`|~";

fn is_name(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || TOKEN_MARKS.contains(byte))
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The next line with its end removed, and its length; or why there is none yet.
/// `check` says whether a line may begin with its argument, or be it if its end has begun.
fn line(
    bytes: &[u8],
    room: usize,
    check: impl Fn(&[u8], bool) -> bool,
) -> Result<(&[u8], usize), Stop> {
    let seen = &bytes[..bytes.len().min(room)];
    let end = seen.iter().position(|&byte| byte == b'\n');
    let body = &seen[..end.unwrap_or(seen.len())];
    let line = body.strip_suffix(b"\r").unwrap_or(body);
    if !check(line, end.is_some() || line.len() < body.len()) {
        return Err(Stop::Malformed);
    }
    match end {
        Some(end) => Ok((line, end + 1)),
        None if bytes.len() > room => Err(Stop::Oversize),
        None => Err(Stop::More),
    }
}

fn may_be_status_line(line: &[u8], ended: bool) -> bool {
    let fits = line.iter().zip(0..13).all(|(&byte, place)| match place {
        7 | 10 | 11 => byte.is_ascii_digit(),
        9 => byte.is_ascii_digit() && byte != b'0',
        _ => byte == b"HTTP/1._ ___ "[place],
    });
    fits && is_text(line) && (line.len() >= 12 || !ended)
}

fn may_be_field(line: &[u8], ended: bool) -> bool {
    let colon = line.iter().position(|&byte| byte == b':');
    match colon {
        Some(colon) => colon > 0 && is_name(&line[..colon]) && is_text(&line[colon..]),
        None => is_name(line) && (line.is_empty() || !ended),
    }
}

/// The fields of a block with folds undone, and its length.
fn fields(bytes: &[u8], room: usize) -> Result<(Vec<(String, String)>, usize), Stop> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        if let Some(last) = fields.last_mut()
            && let [b' ' | b'\t', ..] = rest
            && room > at
        {
            let (line, len) = line(rest, room - at, |line, _| is_text(line))?;
            last.1 = format!("{} {}", last.1, text(line))
                .trim_matches([' ', '\t'])
                .to_owned();
            at += len;
            continue;
        }
        let (line, len) = line(rest, room - at, may_be_field)?;
        // A field is known when the line after it begins.
        at += len;
        if line.is_empty() {
            return Ok((fields, at));
        }
        let line = text(line);
        let (name, value) = line.split_once(':').ok_or(Stop::Malformed)?;
        fields.push((
            name.to_lowercase(),
            value.trim_matches([' ', '\t']).to_owned(),
        ));
    }
}

fn all<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields
        .iter()
        .filter(move |field| field.0 == name)
        .map(|field| field.1.as_str())
}

fn list(fields: &[(String, String)], name: &str) -> Vec<String> {
    all(fields, name)
        .flat_map(|value| value.split(','))
        .map(|member| member.trim_matches([' ', '\t']).to_lowercase())
        .filter(|member| !member.is_empty())
        .collect()
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

fn content_length(fields: &[(String, String)]) -> Result<Option<u64>, Stop> {
    let mut lengths = all(fields, "content-length")
        .flat_map(|value| value.split(','))
        .map(|number| {
            let number = number.trim_matches([' ', '\t']);
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            if digits {
                number.parse().map_err(|_| Stop::Malformed)
            } else {
                Err(Stop::Malformed)
            }
        })
        .collect::<Result<Vec<u64>, Stop>>()?;
    lengths.dedup();
    if lengths.len() > 1 {
        Err(Stop::Malformed)
    } else {
        Ok(lengths.pop())
    }
}

fn chunks(bytes: &[u8], body: &mut Vec<u8>) -> Result<usize, Stop> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let digits = rest
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let significant = text(&rest[..digits]).trim_start_matches('0').to_owned();
        if significant.len() > 16 {
            return Err(Stop::Malformed);
        }
        let after = &rest[digits..];
        let [next, ..] = after else {
            return Err(Stop::More);
        };
        let pad = after
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        let extension = match after.get(pad) {
            Some(b';') => after[pad..]
                .iter()
                .take_while(|byte| is_text(&[**byte]))
                .count(),
            _ => 0,
        };
        let end = &after[pad + extension..];
        if digits == 0 || *next == b'\n' {
            return Err(Stop::Malformed);
        }
        match end {
            [] | [b'\r'] => return Err(Stop::More),
            [b'\r', b'\n', ..] => {}
            _ => return Err(Stop::Malformed),
        }
        at += digits + pad + extension + 2;
        let size = u64::from_str_radix(&format!("0{significant}"), 16).unwrap();
        if size == 0 {
            return fields(&bytes[at..], HEAD_BYTES_MAX).map(|(_, len)| at + len);
        }
        let len = usize::try_from(size).unwrap().min(bytes.len() - at);
        body.extend_from_slice(&bytes[at..at + len]);
        at += len;
        if (len as u64) < size {
            return Err(Stop::More);
        }
        match bytes[at..] {
            [] | [b'\r'] => return Err(Stop::More),
            [b'\r', b'\n', ..] => at += 2,
            _ => return Err(Stop::Malformed),
        }
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
        let (fields, len) = fields(&bytes[at..], HEAD_BYTES_MAX - at).map_err(|stop| {
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
            return chunks(&bytes[at..], &mut seen.body).map(|len| (at + len, persistent));
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
