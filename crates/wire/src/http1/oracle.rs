//! RFC 9112 on a whole buffer, written for clearness: what the decoders' tests compare with.

/// Why there is nothing yet, or never.
pub(super) enum Stop {
    More,
    Malformed,
    Oversize,
}

const TOKEN_MARKS: &[u8] = b"!#$%&'*+-.^_`|~";

pub(super) fn is_name(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || TOKEN_MARKS.contains(byte))
}

pub(super) fn is_text(bytes: &[u8]) -> bool {
    !bytes
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

pub(super) fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The next line with its end removed, and its length; or why there is none yet.
/// `check` says whether a line may begin with its argument, or be it if its end has begun.
pub(super) fn line(
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

pub(super) fn may_be_field(line: &[u8], ended: bool) -> bool {
    let colon = line.iter().position(|&byte| byte == b':');
    match colon {
        Some(colon) => colon > 0 && is_name(&line[..colon]) && is_text(&line[colon..]),
        None => is_name(line) && (line.is_empty() || !ended),
    }
}

/// The fields of a block with folds undone, and its length.
pub(super) fn fields(
    bytes: &[u8],
    room: usize,
    folds: bool,
) -> Result<(Vec<(String, String)>, usize), Stop> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        if folds
            && let Some(last) = fields.last_mut()
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

pub(super) fn all<'a>(
    fields: &'a [(String, String)],
    name: &'a str,
) -> impl Iterator<Item = &'a str> {
    fields
        .iter()
        .filter(move |field| field.0 == name)
        .map(|field| field.1.as_str())
}

pub(super) fn list(fields: &[(String, String)], name: &str) -> Vec<String> {
    all(fields, name)
        .flat_map(|value| value.split(','))
        .map(|member| member.trim_matches([' ', '\t']).to_lowercase())
        .filter(|member| !member.is_empty())
        .collect()
}

pub(super) fn content_length(fields: &[(String, String)]) -> Result<Option<u64>, Stop> {
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

pub(super) fn chunks(
    bytes: &[u8],
    body: &mut Vec<u8>,
    trailer_bytes_max: usize,
) -> Result<usize, Stop> {
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
            return fields(&bytes[at..], trailer_bytes_max, true).map(|(_, len)| at + len);
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
