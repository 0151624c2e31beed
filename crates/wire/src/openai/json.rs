//! A strict reader of JSON bytes (RFC 8259): one pass, no copy, no allocation.
//!
//! It accepts exactly what `serde_json` accepts when it builds a `serde_json::Value`: UTF-8, no raw
//! control characters in strings, whole surrogate pairs, numbers that fit a double, at most
//! [`DEPTH_MAX`] containers inside one another.

use super::text::{Text, short_end, string_end, string_fault};

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

/// A document is not JSON. Why is kept in its [`Cursor`], so that results stay in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// A position in a JSON document.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Once it failed: what is wrong at `at`.
    what: &'static str,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            what: "",
        }
    }

    /// Why it failed.
    #[cold]
    pub(super) const fn error(&self) -> JsonError {
        JsonError {
            what: self.what,
            at: self.at,
        }
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
        match self.byte() {
            byte @ 0x21.. => byte,
            _ => self.peek_far(),
        }
    }

    #[inline(never)]
    fn peek_far(&mut self) -> u8 {
        while let b' ' | b'\n' | b'\t' | b'\r' = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Failed> {
        self.peek();
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(self.fail("something follows the value"))
    }

    /// A string, of which [`Cursor::peek`] has seen the opening quote.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'a>, Failed> {
        if let Some(text) = self.short_string() {
            self.at += text.raw().len() + 2;
            return Ok(text);
        }
        self.long_string()
    }

    /// The string whose opening quote is at the cursor, if it is plain and of less than 8 bytes.
    /// Does not take it.
    #[inline]
    fn short_string(&self) -> Option<Text<'a>> {
        let rest = self.bytes.get(self.at + 1..)?;
        Some(Text::new(rest.get(..short_end(rest)?)?, false))
    }

    #[inline(never)]
    fn long_string(&mut self) -> Result<Text<'a>, Failed> {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        let Some(end) = string_end(rest) else {
            return Err(self.fail_string());
        };
        self.at += end.len + 2;
        Ok(Text::new(
            rest.get(..end.len).unwrap_or_default(),
            end.escaped,
        ))
    }

    /// A string, or any other value as `None`.
    #[inline]
    pub(super) fn string_or_other(&mut self, depth: u32) -> Result<Option<Text<'a>>, Failed> {
        if self.peek() == b'"' {
            return self.string().map(Some);
        }
        self.skip(depth).map(|()| None)
    }

    /// The members of an object, inside `depth` other containers. `member` must take the value.
    /// False, and the value is passed over, when it is not an object.
    #[inline]
    pub(super) fn object<F>(&mut self, depth: u32, mut member: F) -> Result<bool, Failed>
    where
        F: FnMut(&mut Self, Text<'a>) -> Result<(), Failed>,
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
                _ => return Err(self.fail("expected a comma or the end of an object")),
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// The elements of an array, inside `depth` other containers. `element` must take the value.
    /// False, and the value is passed over, when it is not an array.
    #[inline]
    pub(super) fn array<F>(&mut self, depth: u32, mut element: F) -> Result<bool, Failed>
    where
        F: FnMut(&mut Self) -> Result<(), Failed>,
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
                _ => return Err(self.fail("expected a comma or the end of an array")),
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// The digits of a whole number without a sign that fits 32 bits; any other value is `None`.
    pub(super) fn count(&mut self, depth: u32) -> Result<Option<u32>, Failed> {
        Ok(self
            .whole(depth)?
            .and_then(|whole| u32::try_from(whole).ok()))
    }

    /// The same for 64 bits.
    pub(super) fn whole(&mut self, depth: u32) -> Result<Option<u64>, Failed> {
        self.peek();
        let start = self.at;
        let mut whole = Some(0_u64);
        while let digit @ b'0'..=b'9' = self.byte() {
            let tens = whole.and_then(|whole| whole.checked_mul(10));
            whole = tens.and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        // Short of 20 digits that begin with a zero only if it is alone, this was a number.
        let digits = self.since(start);
        let plain = matches!(digits, [b'1'..=b'9', ..] | [b'0']) && digits.len() <= 20;
        if plain && !matches!(self.byte(), b'.' | b'e' | b'E') {
            return Ok(whole);
        }
        self.at = start;
        self.skip(depth).map(|()| None)
    }

    /// Passes over one value of any kind that lies inside `depth` containers.
    #[inline]
    pub(super) fn skip(&mut self, depth: u32) -> Result<(), Failed> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'n' => self.word(b"null"),
            _ => self.skip_any(depth),
        }
    }

    /// Not recursive: the kinds of the open containers are bits (1 for an object).
    #[inline(never)]
    fn skip_any(&mut self, depth: u32) -> Result<(), Failed> {
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
                _ => return Err(self.fail("expected a value")),
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
                    _ => return Err(self.fail("expected a comma or the end of a container")),
                }
            }
        }
    }

    /// Fails at the cursor.
    #[cold]
    fn fail(&mut self, what: &'static str) -> Failed {
        self.what = if self.at >= self.bytes.len() {
            "the JSON ends too early"
        } else {
            what
        };
        Failed
    }

    /// Fails in the string at the cursor.
    #[cold]
    fn fail_string(&mut self) -> Failed {
        self.at += 1;
        let (what, at) = string_fault(self.bytes.get(self.at..).unwrap_or_default());
        (self.what, self.at) = (what, self.at + at);
        Failed
    }

    /// Takes the bracket that opens a container inside `depth` others.
    #[inline]
    fn enter(&mut self, depth: u32) -> Result<(), Failed> {
        if depth >= DEPTH_MAX {
            return Err(self.fail("more than 127 containers inside one another"));
        }
        self.at += 1;
        Ok(())
    }

    /// The next key and its colon.
    #[inline]
    fn key(&mut self) -> Result<Text<'a>, Failed> {
        if self.byte() == b'"'
            && let Some(key) = self.short_string()
            && self.bytes.get(self.at + key.raw().len() + 2) == Some(&b':')
        {
            self.at += key.raw().len() + 3;
            return Ok(key);
        }
        self.any_key()
    }

    #[inline(never)]
    fn any_key(&mut self) -> Result<Text<'a>, Failed> {
        if self.peek() != b'"' {
            return Err(self.fail("expected a key"));
        }
        let key = self.long_string()?;
        if self.peek() != b':' {
            return Err(self.fail("expected a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    #[inline]
    fn word(&mut self, word: &'static [u8]) -> Result<(), Failed> {
        if !self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            return Err(self.fail("expected true, false or null"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Failed> {
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
                self.at = start;
                return Err(self.fail("a number is out of range"));
            }
        }
        Ok(())
    }

    /// One or more digits; how many.
    #[inline]
    fn digits(&mut self) -> Result<usize, Failed> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.fail("a number misses a digit"));
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
        assert_eq!(cursor.skip(0), Err(Failed));
        assert_eq!(
            cursor.error().to_string(),
            "a control character in a string at byte 8"
        );
        let mut cursor = Cursor::new(b"{\"a\":[1");
        assert_eq!(cursor.skip(0), Err(Failed));
        assert_eq!(
            cursor.error(),
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
