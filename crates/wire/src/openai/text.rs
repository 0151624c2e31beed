//! Strings of a JSON document as they stand on the wire.

use std::str;

/// The inside of a valid JSON string: well-formed UTF-8, escapes not yet decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// INVARIANT of the caller: [`string_end`] accepted `raw` and a quote after it.
    pub(super) const fn new(raw: &'a [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The bytes between the quotes, escapes as they came.
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// No character between the quotes. An escape always decodes to something, so this is the
    /// same before and after decoding.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// Appends the decoded text.
    pub fn push_onto(self, out: &mut String) {
        if !self.escaped {
            out.push_str(utf8(self.raw));
            return;
        }
        let mut rest = self.raw;
        while let Some(backslash) = memchr::memchr(b'\\', rest) {
            out.push_str(utf8(&rest[..backslash]));
            let (character, len) = unescape(&rest[backslash..]);
            out.push(character);
            rest = &rest[(backslash + len).min(rest.len())..];
        }
        out.push_str(utf8(rest));
    }

    /// The decoded text.
    #[must_use]
    pub fn decode(self) -> String {
        let mut out = String::with_capacity(self.raw.len());
        self.push_onto(&mut out);
        out
    }

    /// A key for a comparison with known keys: decoded, or empty (no known key) when it is longer
    /// than all of them.
    #[inline]
    pub(super) fn as_key<'b>(self, room: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.escaped {
            return self.raw;
        }
        let len = self.decode_start(room);
        // A full room may hold only the start.
        if len + 4 > KEY_BYTES_MAX {
            &[]
        } else {
            &room[..len]
        }
    }

    /// Decodes the characters that fit into `room`; how many bytes they take.
    pub(super) fn decode_start(self, room: &mut [u8]) -> usize {
        let mut len = 0;
        let mut rest = self.raw;
        while let Some(&first) = rest.first() {
            let (character, taken) = match first {
                b'\\' => unescape(rest),
                _ => {
                    let bytes = rest.get(..width(first)).unwrap_or_default();
                    let character = utf8(bytes).chars().next().unwrap_or_default();
                    (character, bytes.len().max(1))
                }
            };
            let Some(place) = room.get_mut(len..len + character.len_utf8()) else {
                break;
            };
            character.encode_utf8(place);
            len += character.len_utf8();
            rest = rest.get(taken..).unwrap_or_default();
        }
        len
    }
}

/// The longest key that has a meaning here is `completion_tokens_details`.
pub(super) const KEY_BYTES_MAX: usize = 32;

/// Bytes of the character that `first` begins.
const fn width(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}

/// A string ends after `len` bytes, where its closing quote is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StringEnd {
    pub(super) len: usize,
    pub(super) escaped: bool,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// High bits over the bytes of `word` that end or break a string: a quote, a backslash, a control
/// character. Exact up to the lowest one, which is all that is used: a subtraction borrows only
/// from a byte that is itself a hit.
#[inline]
const fn stops(word: u64) -> u64 {
    // Exchanging 0x20 and 0x22 puts the quote beside the control characters.
    let low = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (low | backslash) & !word & HIGHS
}

/// The same, and bytes above 127: whatever is not plain ASCII text.
#[inline]
const fn stops_or_wide(word: u64) -> u64 {
    let low = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (low | backslash | word) & HIGHS
}

/// Finds the end of the string whose inside starts at `bytes[0]` and checks all of it. `None` when
/// it is no string: [`string_fault`] says why.
#[inline(always)]
pub(super) fn string_end(bytes: &[u8]) -> Option<StringEnd> {
    // Eight bytes at a time: text of a few ASCII characters, the common case, is one step.
    let mut len = 0;
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let hit = stops_or_wide(u64::from_le_bytes(*head));
        if hit != 0 {
            let place = hit.trailing_zeros() as usize / 8;
            len += place;
            if head[place % 8] == b'"' {
                return Some(StringEnd {
                    len,
                    escaped: false,
                });
            }
            return special_end(bytes, len);
        }
        len += 8;
        rest = tail;
    }
    special_end(bytes, len)
}

/// Bytes of a string whose inside starts at `bytes[0]`, if it is plain and of less than 8 bytes.
#[inline(always)]
pub(super) fn short_end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<8>()?;
    let hit = stops_or_wide(u64::from_le_bytes(*head));
    let place = hit.trailing_zeros() as usize / 8;
    (head.get(place) == Some(&b'"')).then_some(place)
}

/// What is wrong with a string that [`string_end`] refused, and after how many bytes.
#[cold]
pub(super) fn string_fault(bytes: &[u8]) -> (&'static str, usize) {
    checked_end(bytes, 0)
        .err()
        .unwrap_or(("a string is not valid", 0))
}

/// The same as `string_end`, from `len` plain bytes on, with escapes and characters outside ASCII.
#[inline(never)]
fn special_end(bytes: &[u8], len: usize) -> Option<StringEnd> {
    checked_end(bytes, len).ok()
}

#[inline]
fn checked_end(bytes: &[u8], mut len: usize) -> Result<StringEnd, (&'static str, usize)> {
    let (mut escaped, mut wide) = (false, false);
    loop {
        match bytes.get(len) {
            Some(b'"') => break,
            Some(b'\\') => {
                escaped = true;
                len += escape(&bytes[len..]).map_err(|what| (what, len))?;
            }
            Some(0..=0x1f) => return Err(("a control character in a string", len)),
            Some(&byte) => {
                wide |= byte >= 0x80;
                len += 1;
                // Long text with an escape here and there: on to the next stop.
                len += bytes
                    .get(len..)
                    .map_or(0, |rest| skip_words(rest, &mut wide));
            }
            None => return Err(("the JSON ends inside a string", len)),
        }
    }
    if wide && let Err(error) = str::from_utf8(&bytes[..len]) {
        return Err(("a string is not UTF-8", error.valid_up_to()));
    }
    Ok(StringEnd { len, escaped })
}

/// Bytes in whole words of eight without a stop.
#[inline]
fn skip_words(bytes: &[u8], wide: &mut bool) -> usize {
    let mut len = 0;
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*head);
        if stops(word) != 0 {
            break;
        }
        *wide |= word & HIGHS != 0;
        len += 8;
        rest = tail;
    }
    len
}

/// Checks one escape; its length.
fn escape(bytes: &[u8]) -> Result<usize, &'static str> {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => match hex(bytes) {
            None => Err("an escape misses a hexadecimal digit"),
            Some(0xdc00..=0xdfff) => Err("the second half of a surrogate pair stands alone"),
            Some(0xd800..=0xdbff) => match bytes.get(6..).and_then(hex) {
                Some(0xdc00..=0xdfff) => Ok(12),
                _ => Err("the first half of a surrogate pair stands alone"),
            },
            Some(_) => Ok(6),
        },
        Some(_) => Err("an unknown escape"),
        None => Err("the JSON ends inside a string"),
    }
}

/// The number in `\uXXXX`.
fn hex(bytes: &[u8]) -> Option<u32> {
    let (b"\\u", digits) = bytes.split_first_chunk::<2>()? else {
        return None;
    };
    digits
        .first_chunk::<4>()?
        .iter()
        .try_fold(0, |number, &digit| {
            Some(number * 16 + char::from(digit).to_digit(16)?)
        })
}

/// The character of a checked escape, and the escape's length.
fn unescape(bytes: &[u8]) -> (char, usize) {
    let character = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let first = hex(bytes).unwrap_or_default();
            if let 0xd800..=0xdbff = first {
                let second = bytes.get(6..).and_then(hex).unwrap_or_default();
                let code = 0x1_0000 + ((first & 0x3ff) << 10 | (second & 0x3ff));
                return (
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
                    12,
                );
            }
            return (
                char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
                6,
            );
        }
        Some(&byte) => char::from(byte),
        None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

/// Text that was checked before. (Checked again: this crate has no unsafe code, and only saved
/// text comes here.)
fn utf8(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(inside: &[u8]) -> Option<String> {
        let quoted = [inside, b"\"tail"].concat();
        let end = string_end(&quoted)?;
        Some(Text::new(&quoted[..end.len], end.escaped).decode())
    }

    #[test]
    fn the_lowest_stop_is_exact_at_every_place_and_for_every_byte() {
        for before in [b'a', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
            for place in 0..8 {
                for byte in 0..=255_u8 {
                    let mut bytes = [before; 8];
                    bytes[place] = byte;
                    let stop = byte < 0x20 || byte == b'"' || byte == b'\\';
                    let want = if stop { place } else { 8 };
                    let hit = stops(u64::from_le_bytes(bytes));
                    assert_eq!(hit.trailing_zeros() as usize / 8, want, "{bytes:?}");
                    let plain =
                        |&byte: &u8| (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                    let want = bytes.iter().take_while(|byte| plain(byte)).count();
                    let hit = stops_or_wide(u64::from_le_bytes(bytes));
                    assert_eq!(hit.trailing_zeros() as usize / 8, want, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn keys_with_escapes_are_decoded_and_long_ones_are_none() {
        let mut room = [0; KEY_BYTES_MAX];
        let text = |raw| Text::new(raw, true);
        assert_eq!(text(b"c\\u006fntent").as_key(&mut room), b"content");
        assert_eq!(
            text("\\n\\ud83d\\ude00é中😀".as_bytes()).as_key(&mut room),
            "\n😀é中😀".as_bytes()
        );
        assert_eq!(
            text(&[b"\\n".as_slice(), &[b'a'; 40]].concat()).as_key(&mut room),
            b""
        );
    }

    proptest! {
        #[test]
        fn strings_are_what_serde_json_reads(
            inside in proptest::collection::vec(prop_oneof![
                any::<char>().prop_map(|c| c.to_string().into_bytes()),
                "[a-z ]{1,20}".prop_map(String::into_bytes),
                any::<u8>().prop_map(|byte| vec![byte]),
                any::<u16>().prop_map(|unit| format!("\\u{unit:04X}").into_bytes()),
                any::<char>().prop_map(|c| {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().map(|u| format!("\\u{u:04x}")).collect::<String>().into_bytes()
                }),
                "\\\\[\"\\\\/bfnrtux]".prop_map(String::into_bytes),
            ], 0..12)
        ) {
            let inside = inside.concat();
            let quoted = [b"\"", inside.as_slice(), b"\""].concat();
            let want = serde_json::from_slice::<String>(&quoted).ok();
            // An unescaped quote inside ends the string early: only whole strings compare.
            let end = string_end(&quoted[1..]);
            let whole = end.is_some_and(|end| end.len == inside.len());
            prop_assert_eq!(whole, want.is_some());
            if whole {
                prop_assert_eq!(decode(&inside), want);
            }
        }
    }
}
