//! A strict reader of JSON bytes (RFC 8259): one pass, no copy, no allocation.
//!
//! It accepts exactly what `serde_json` accepts when it builds a `serde_json::Value`: UTF-8, no raw
//! control characters in strings, whole surrogate pairs, numbers that fit a double, at most
//! [`DEPTH_MAX`] containers inside one another.

use super::text::{Text, string_end};

/// Containers that may lie inside one another; one more is an error. The bound of `serde_json`.
pub const DEPTH_MAX: u32 = 127;

/// Why bytes are not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    /// What was found or missed.
    pub what: &'static str,
    /// The byte, counted from 0, at which it was noticed.
    pub at: usize,
}

/// A position in a JSON document.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the cursor stands.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// The bytes from `start` to the cursor.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// The next byte that is not white space, without taking it; 0 at the end. A NUL is nowhere
    /// valid outside a string, so the two need no telling apart here.
    #[inline]
    pub(super) fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(&byte) => return byte,
                None => return 0,
            }
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        self.peek();
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(self.fault("something follows the value"))
    }

    /// A string, of which [`Cursor::peek`] has seen the opening quote.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'a>, JsonError> {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        match string_end(rest) {
            Ok(end) => {
                self.at += end.len + 2;
                Ok(Text::new(
                    rest.get(..end.len).unwrap_or_default(),
                    end.escaped,
                ))
            }
            Err((what, at)) => Err(JsonError {
                what,
                at: self.at + 1 + at,
            }),
        }
    }

    /// A string, or any other value as `None`.
    #[inline]
    pub(super) fn string_or_other(&mut self, depth: u32) -> Result<Option<Text<'a>>, JsonError> {
        if self.peek() == b'"' {
            return self.string().map(Some);
        }
        self.skip(depth).map(|()| None)
    }

    /// The members of an object, inside `depth` other containers. `member` must take the value.
    /// False, and the value is passed over, when it is not an object.
    #[inline]
    pub(super) fn object<F>(&mut self, depth: u32, mut member: F) -> Result<bool, JsonError>
    where
        F: FnMut(&mut Self, Text<'a>) -> Result<(), JsonError>,
    {
        if self.peek() != b'{' {
            return self.skip(depth).map(|()| false);
        }
        self.enter(depth)?;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(true);
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            match self.peek() {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.fault("expected a comma or the end of an object")),
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// The elements of an array, inside `depth` other containers. `element` must take the value.
    /// False, and the value is passed over, when it is not an array.
    #[inline]
    pub(super) fn array<F>(&mut self, depth: u32, mut element: F) -> Result<bool, JsonError>
    where
        F: FnMut(&mut Self) -> Result<(), JsonError>,
    {
        if self.peek() != b'[' {
            return self.skip(depth).map(|()| false);
        }
        self.enter(depth)?;
        if self.peek() == b']' {
            self.at += 1;
            return Ok(true);
        }
        loop {
            element(self)?;
            match self.peek() {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(self.fault("expected a comma or the end of an array")),
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// The digits of a whole number without a sign that fits 32 bits; any other value is `None`.
    pub(super) fn count(&mut self, depth: u32) -> Result<Option<u32>, JsonError> {
        Ok(self
            .whole(depth)?
            .and_then(|whole| u32::try_from(whole).ok()))
    }

    /// The same for 64 bits.
    pub(super) fn whole(&mut self, depth: u32) -> Result<Option<u64>, JsonError> {
        self.peek();
        let start = self.at;
        self.skip(depth)?;
        let mut whole = 0_u64;
        for &byte in self.since(start) {
            let digit = byte.wrapping_sub(b'0');
            let next = whole
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit)));
            let (0..=9, Some(next)) = (digit, next) else {
                return Ok(None);
            };
            whole = next;
        }
        Ok(Some(whole))
    }

    /// Passes over one value of any kind that lies inside `depth` containers.
    ///
    /// Not recursive: the kinds of the open containers are bits (1 for an object).
    pub(super) fn skip(&mut self, depth: u32) -> Result<(), JsonError> {
        let mut open = 0_u32;
        let mut kinds = 0_u128;
        loop {
            match self.peek() {
                b'"' => drop(self.string()?),
                b'{' => {
                    self.enter(depth + open)?;
                    if self.peek() != b'}' {
                        self.key()?;
                        (open, kinds) = (open + 1, kinds << 1 | 1);
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.enter(depth + open)?;
                    if self.peek() != b']' {
                        (open, kinds) = (open + 1, kinds << 1);
                        continue;
                    }
                    self.at += 1;
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return Err(self.fault("expected a value")),
            }
            loop {
                if open == 0 {
                    return Ok(());
                }
                match (self.peek(), kinds & 1) {
                    (b',', kind) => {
                        self.at += 1;
                        if kind == 1 {
                            self.key()?;
                        }
                        break;
                    }
                    (b'}', 1) | (b']', 0) => {
                        self.at += 1;
                        (open, kinds) = (open - 1, kinds >> 1);
                    }
                    _ => return Err(self.fault("expected a comma or the end of a container")),
                }
            }
        }
    }

    /// An error at the cursor.
    #[cold]
    pub(super) fn fault(&self, what: &'static str) -> JsonError {
        let what = if self.at >= self.bytes.len() {
            "the JSON ends too early"
        } else {
            what
        };
        JsonError { what, at: self.at }
    }

    /// Takes the bracket that opens a container inside `depth` others.
    #[inline]
    fn enter(&mut self, depth: u32) -> Result<(), JsonError> {
        if depth >= DEPTH_MAX {
            return Err(self.fault("more than 127 containers inside one another"));
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn key(&mut self) -> Result<Text<'a>, JsonError> {
        if self.peek() != b'"' {
            return Err(self.fault("expected a key"));
        }
        let key = self.string()?;
        if self.peek() != b':' {
            return Err(self.fault("expected a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    #[inline]
    fn word(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        if !self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            return Err(self.fault("expected true, false or null"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if self.byte() == b'-' {
            self.at += 1;
        }
        // A zero stands alone: a digit after it is found to be neither comma nor end.
        if self.byte() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        let mut exponent_digits = 0;
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.at += 1;
            }
            exponent_digits = self.digits()?;
        }
        // Below 200 digits and an exponent of two digits nothing reaches 1e308. The few numbers
        // that may are asked of serde_json, so that both draw the line at the same place.
        if exponent_digits > 2 || self.at - start > 200 {
            let number = self.since(start);
            if serde_json::from_slice::<f64>(number).is_err() {
                return Err(JsonError {
                    what: "a number is out of range",
                    at: start,
                });
            }
        }
        Ok(())
    }

    /// One or more digits; how many.
    #[inline]
    fn digits(&mut self) -> Result<usize, JsonError> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.fault("a number misses a digit"));
        }
        Ok(self.at - start)
    }

    #[inline]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(bytes: &[u8]) -> bool {
        let mut cursor = Cursor::new(bytes);
        cursor.skip(0).and_then(|()| cursor.end()).is_ok()
    }

    const TEXTS: &[&str] = &[
        "",
        " ",
        "{}",
        "[]",
        " [ ] ",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{,}",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\" : [ { } , null ] }",
        "nul",
        "null",
        "nullx",
        "true false",
        "tru",
        "True",
        "0",
        "-0",
        "-",
        "01",
        "1.",
        ".5",
        "1.5",
        "1e5",
        "1e",
        "1e+",
        "1E-07",
        "-01",
        "1.0e400",
        "0e400",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "2e308",
        "1e-999999999999",
        "1e99999999999",
        "0e99999999999",
        "+1",
        "NaN",
        "Infinity",
        "\"a\"",
        "\"",
        "\"\\\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\x\"",
        "\"\t\"",
        "\"\u{7f}\"",
        "\"é中😀\"",
        "\u{feff}{}",
        "{}\u{0}",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "]",
        "[}",
        "{]",
        "[\"a\":1]",
        "{\"a\":1",
        "[[",
        "{\"a\\ud800\":1}",
        "\u{b}1",
        "// c\n1",
        "'a'",
        "[1]]",
        "\"\\/\\b\\f\\n\\r\\t\\\\\"",
        "\"\\U0041\"",
        "1\n",
        "\r\n\t 1",
        "\u{a0}1",
        "--1",
        "1-",
        "1e5.5",
    ];

    #[test]
    fn accepts_and_rejects_what_serde_json_does() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        let long = "1".repeat(310);
        let cases: Vec<Vec<u8>> = TEXTS
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .chain(
                [nested(126), nested(127), nested(128), nested(129), long].map(String::into_bytes),
            )
            .chain(["{\"k\":".repeat(127) + "1" + &"}".repeat(127)].map(String::into_bytes))
            .chain(["{\"k\":".repeat(128) + "1" + &"}".repeat(128)].map(String::into_bytes))
            .chain(["[[{\"a\":".repeat(42) + "[]" + &"}]]".repeat(42)].map(String::into_bytes))
            .chain([
                b"\"\xff\"".to_vec(),
                b"\"\xc3\"".to_vec(),
                b"\"\xc3\\n\xa9\"".to_vec(),
            ])
            .chain([
                b"\"\xed\xa0\x80\"".to_vec(),
                b"\"a\0b\"".to_vec(),
                b"\"\x1f\"".to_vec(),
            ])
            .collect();
        for case in cases {
            let want = serde_json::from_slice::<serde_json::Value>(&case).is_ok();
            assert_eq!(valid(&case), want, "{:?}", String::from_utf8_lossy(&case));
        }
    }

    #[test]
    fn an_error_says_what_and_where() {
        let mut cursor = Cursor::new(b"{\"a\": \"b\x01\"}");
        let error = cursor.skip(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a control character in a string at byte 8"
        );
        let error = Cursor::new(b"{\"a\":[1").skip(0).unwrap_err();
        assert_eq!(
            error,
            JsonError {
                what: "the JSON ends too early",
                at: 7
            }
        );
    }

    #[test]
    fn whole_numbers_are_digits_alone() {
        for (text, want) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-0", None),
            ("1.0", None),
            ("1e2", None),
            ("null", None),
            ("\"1\"", None),
            ("[1]", None),
        ] {
            assert_eq!(Cursor::new(text.as_bytes()).whole(0), Ok(want), "{text}");
        }
        assert_eq!(Cursor::new(b"4294967296").count(0), Ok(None));
    }
}
