//! Lines of a head: status line, field lines, list values. RFC 9112 sections 4 and 5, RFC 9110
//! section 5.
//!
//! Whole lines are parsed as slices. A line that a read cuts is checked byte by byte while it is
//! collected ([`Guard`]), so that a stream that cannot be HTTP fails at its first wrong byte, and
//! is parsed once, when its end has come.

/// Why a line is wrong. The same words whether the line came in one read or in many.
pub(super) const NOT_STATUS_LINE: &str = "not an HTTP/1 status line";
pub(super) const NO_COLON: &str = "a field line without a colon";
pub(super) const BAD_NAME: &str = "a byte that no field name may have";
pub(super) const CONTROL: &str = "a control byte in a line";
pub(super) const BARE_CR: &str = "a CR without its LF";

/// RFC 9110 5.6.2, tchar.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        let mark = matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        table[byte as usize] = byte.is_ascii_alphanumeric() || mark;
        byte += 1;
    }
    table
};

#[inline]
pub(super) fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Whether a field value or a reason may have this byte: HTAB, SP, VCHAR, obs-text.
#[inline]
pub(super) fn is_text_byte(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

/// Whether all of `bytes` may stand in a field value or a reason.
///
/// Eight bytes at a time: a byte below SP borrows in `x - 0x20..`, DEL becomes zero in
/// `x ^ 0x7f..`. Borrows may run on to a neighbour, so a hit is only a reason to look byte by byte
/// (a tab is one too).
#[inline]
pub(super) fn is_text(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let suspicious = |word: u64| {
        let del = word ^ (ONES * 0x7f);
        ((word.wrapping_sub(ONES * 0x20) & !word) | (del.wrapping_sub(ONES) & !del)) & HIGHS
    };
    // The last eight bytes may overlap the ones before: no rest remains.
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().all(|&byte| is_text_byte(byte));
    };
    let mut hits = suspicious(u64::from_le_bytes(*last));
    for word in bytes.as_chunks::<8>().0 {
        hits |= suspicious(u64::from_le_bytes(*word));
    }
    hits == 0 || bytes.iter().all(|&byte| is_text_byte(byte))
}

/// The reason why `text` is not all text, by its first wrong byte.
#[cold]
pub(super) fn text_fault(text: &[u8]) -> &'static str {
    match text.iter().find(|&&byte| !is_text_byte(byte)) {
        Some(b'\r') => BARE_CR,
        _ => CONTROL,
    }
}

/// The line without its LF or CRLF. RFC 9112 2.2: a lone LF may end a line of a head.
#[inline]
pub(super) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Name and value of a field line without its line end; the value without the white space around.
///
/// # Errors
/// The reason. White space before the colon is one (RFC 9112 5.1).
#[inline]
pub(super) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let Some(colon) = line.iter().position(|&byte| !is_token_byte(byte)) else {
        return Err(NO_COLON);
    };
    match line[colon] {
        b':' if colon > 0 => {}
        b'\r' if colon > 0 => return Err(NO_COLON),
        b'\r' => return Err(BARE_CR),
        _ => return Err(BAD_NAME),
    }
    let value = trim(&line[colon + 1..]);
    if is_text(value) {
        Ok((&line[..colon], value))
    } else {
        Err(text_fault(value))
    }
}

/// Without the optional white space around it (RFC 9110 5.6.3).
#[inline]
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The members of a comma-separated list that are not empty (RFC 9110 5.6.1). No quoted strings:
/// the lists read here have none.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}

/// A decimal number; `None` when it is not all digits, or beyond 64 bits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// What a status line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatusLine {
    pub(super) status: u16,
    /// HTTP/1.0; every later minor version is read as 1.1 (RFC 9110 2.5).
    pub(super) http10: bool,
}

/// Parses a status line without its line end. The reason may be missing, and the space before it.
///
/// # Errors
/// The reason.
pub(super) fn status_line(line: &[u8]) -> Result<StatusLine, &'static str> {
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        minor,
        b' ',
        hundreds,
        tens,
        ones,
        reason @ ..,
    ] = line
    else {
        return Err(NOT_STATUS_LINE);
    };
    let digits = [minor, hundreds, tens, ones];
    if !digits.iter().all(|byte| byte.is_ascii_digit())
        || *hundreds == b'0'
        || !matches!(reason, [] | [b' ' | b'\r', ..])
    {
        return Err(NOT_STATUS_LINE);
    }
    if !is_text(reason) {
        return Err(text_fault(reason));
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    let status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
    Ok(StatusLine {
        status,
        http10: *minor == b'0',
    })
}

/// Whether a status line may begin with `start`, as far as its first 13 bytes tell.
pub(super) fn may_begin_status_line(start: &[u8]) -> bool {
    start
        .iter()
        .take(13)
        .enumerate()
        .all(|(place, &byte)| match place {
            0..=6 => byte == b"HTTP/1."[place],
            8 => byte == b' ',
            9 => matches!(byte, b'1'..=b'9'),
            12 => matches!(byte, b' ' | b'\r' | b'\n'),
            _ => byte.is_ascii_digit(),
        })
}

/// A check of field lines byte by byte, for lines that are not seen whole. It keeps no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// At the start of the block: a fold has nothing to continue.
    First,
    /// At the start of a later line: white space continues the one before (RFC 9112 5.2).
    Line,
    /// Inside the name.
    Name,
    /// After the colon, in a continuation, or in a start line.
    Value,
    /// After the CR of a line.
    Cr,
    /// After the CR of the blank line.
    BlankCr,
}

impl Guard {
    /// Reads `bytes` up to the end of the blank line, if it is in them: then returns how many
    /// bytes that took.
    ///
    /// # Errors
    /// The reason, at the first wrong byte.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        for (place, &byte) in bytes.iter().enumerate() {
            *self = match (*self, byte) {
                (Self::First | Self::Line, b'\r') => Self::BlankCr,
                (Self::First | Self::Line | Self::BlankCr, b'\n') => return Ok(Some(place + 1)),
                (Self::Line, b' ' | b'\t') => Self::Value,
                (Self::First | Self::Line | Self::Name, _) if is_token_byte(byte) => Self::Name,
                (Self::Name, b':') => Self::Value,
                (Self::Name, b'\r' | b'\n') => return Err(NO_COLON),
                (Self::First | Self::Line | Self::Name, _) => return Err(BAD_NAME),
                (Self::Value, b'\r') => Self::Cr,
                (Self::Value | Self::Cr, b'\n') => Self::Line,
                (Self::Cr | Self::BlankCr, _) => return Err(BARE_CR),
                (Self::Value, _) if is_text_byte(byte) => Self::Value,
                (Self::Value, _) => return Err(CONTROL),
            };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_control_bytes_at_every_place_and_length() {
        for len in 0..40 {
            let mut bytes = vec![b' '; len];
            for place in 0..len {
                for byte in 0..=255_u8 {
                    // The neighbours are bytes at which a borrow could stop or begin.
                    bytes.fill(if byte % 2 == 0 { b' ' } else { b'~' });
                    bytes[place] = byte;
                    let expected = byte == b'\t' || !byte.is_ascii_control();
                    assert_eq!(is_text(&bytes), expected, "{byte} at {place} of {len}");
                }
            }
            assert!(is_text(&b"\t\x80 \xff~".repeat(len)));
        }
    }

    #[test]
    fn fields_have_a_token_a_colon_and_trimmed_text() {
        for (line, expected) in [
            (&b"A:"[..], Ok((&b"A"[..], &b""[..]))),
            (b"a-b: c", Ok((b"a-b", b"c"))),
            (b"a:\t b:c \t", Ok((b"a", b"b:c"))),
            (b"a: b\tc\xff", Ok((b"a", b"b\tc\xff"))),
            (b"a", Err(NO_COLON)),
            (b":b", Err(BAD_NAME)),
            (b"a :b", Err(BAD_NAME)),
            (b"\xe9: b", Err(BAD_NAME)),
            (b"a\rb: c", Err(NO_COLON)),
            (b"a: b\rc", Err(BARE_CR)),
            (b"a: b\0c\rd", Err(CONTROL)),
        ] {
            assert_eq!(field(line), expected, "{}", line.escape_ascii());
        }
    }
}
