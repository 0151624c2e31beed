//! What a server says went wrong, in words short enough for a report.

use super::json::{Cursor, Failed};
use super::text::{KEY_BYTES_MAX, Text};

/// Characters of a server's own words that a message keeps.
const CHARS_MAX: usize = 200;

/// The message in an error object or body, shortened: `error.message`, or `error` where it is a
/// string, or `message`, or `detail`. `None` when `json` is not an object, or has none of them.
#[must_use]
pub fn error_message(json: &[u8]) -> Option<String> {
    let mut cursor = Cursor::new(json);
    let (mut error, mut message, mut detail) = (None, None, None);
    let is_object = cursor.object(0, |cursor, key| {
        match key.as_key(&mut [0; KEY_BYTES_MAX]) {
            b"error" => error = message_of(cursor)?,
            b"message" => message = cursor.string_or_other(1)?,
            b"detail" => detail = cursor.string_or_other(1)?,
            _ => cursor.skip(1)?,
        }
        Ok(())
    });
    is_object.ok()?;
    let found = [error, message, detail]
        .into_iter()
        .flatten()
        .find(|text| !text.is_empty())?;
    Some(shorten(&found.decode()))
}

/// A string, or the `message` of an object.
fn message_of<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Text<'a>>, Failed> {
    if cursor.peek() == b'"' {
        return cursor.string().map(Some);
    }
    let mut message = None;
    cursor.object(1, |cursor, key| {
        if key.as_key(&mut [0; KEY_BYTES_MAX]) == b"message" {
            message = cursor.string_or_other(2)?;
            return Ok(());
        }
        cursor.skip(2)
    })?;
    Ok(message)
}

/// The start of bytes of any kind as one line of text.
#[must_use]
pub fn excerpt(bytes: &[u8]) -> String {
    // A character takes at most four bytes, and white space goes.
    let start = &bytes[..bytes.len().min(8 * CHARS_MAX)];
    shorten(&String::from_utf8_lossy(start))
}

/// One line, at most [`CHARS_MAX`] characters, without control characters.
fn shorten(text: &str) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        let gap = if line.is_empty() { "" } else { " " };
        for character in gap.chars().chain(word.chars()) {
            if count == CHARS_MAX {
                line.push_str("...");
                return line;
            }
            line.push(character);
            count += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_found_where_servers_put_it() {
        for (json, want) in [
            (
                r#"{"error":{"message":"quota exceeded","type":"x"}}"#,
                Some("quota exceeded"),
            ),
            (r#"{"error":"overloaded"}"#, Some("overloaded")),
            (
                r#"{"object":"error","message":"too\nlong","code":400}"#,
                Some("too long"),
            ),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"error":{"code":5},"message":"outer"}"#, Some("outer")),
            (r#"{"error":{}}"#, None),
            ("[]", None),
            ("<html>", None),
        ] {
            assert_eq!(error_message(json.as_bytes()).as_deref(), want, "{json}");
        }
    }

    #[test]
    fn long_and_odd_bytes_become_one_short_line() {
        assert_eq!(
            excerpt(b"<html>\r\n\t<body>\0 hi\xff"),
            "<html> <body> hi\u{fffd}"
        );
        let long = excerpt("é".repeat(5_000).as_bytes());
        assert_eq!(long, "é".repeat(200) + "...");
    }
}
