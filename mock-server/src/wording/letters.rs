//! How the inside of a JSON string is spelled (RFC 8259, 7).

use super::json;

/// Which characters are escaped that need not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letters {
    /// None: text goes out as UTF-8.
    Plain,
    /// All but ASCII, beyond U+FFFF as a pair of surrogates; `/` too, and every third ASCII
    /// letter: a reader that looks for text without decoding it finds nothing.
    Escaped,
}

impl Letters {
    /// Appends `text` as the inside of a JSON string.
    #[inline]
    pub(super) fn put(self, out: &mut Vec<u8>, text: &str) {
        match self {
            Self::Plain => json::escaped(out, text),
            Self::Escaped => escaped(out, text),
        }
    }
}

fn escaped(out: &mut Vec<u8>, text: &str) {
    for letter in text.chars() {
        match letter {
            '/' => out.extend_from_slice(b"\\/"),
            '\x08' => out.extend_from_slice(b"\\b"),
            '\x0c' => out.extend_from_slice(b"\\f"),
            '"' | '\\' | '\n' | '\r' | '\t' => {
                json::escaped(out, letter.encode_utf8(&mut [0; 4]));
            }
            ' '..='~' if !(letter as u32).is_multiple_of(3) => {
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => {
                for half in letter.encode_utf16(&mut [0; 2]) {
                    unit(out, *half);
                }
            }
        }
    }
}

/// One UTF-16 unit, `\u00e9`.
fn unit(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    for place in [12, 8, 4, 0] {
        out.push(b"0123456789abcdef"[usize::from(unit >> place & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spelled(letters: Letters, text: &str) -> String {
        let mut out = vec![b'"'];
        letters.put(&mut out, text);
        out.push(b'"');
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_form_of_escape_is_used() {
        assert_eq!(
            spelled(Letters::Escaped, "a/b \"\\\n\r\t\x08\x0c\x01é😀"),
            r#""a\/b \"\\\n\r\t\b\f\u0001\u00e9\ud83d\ude00""#
        );
        assert_eq!(spelled(Letters::Escaped, "cat"), r#""\u0063at""#);
    }

    proptest! {
        #[test]
        fn a_reader_gets_the_same_text(text in any::<String>()) {
            for letters in [Letters::Plain, Letters::Escaped] {
                let read: String = serde_json::from_str(&spelled(letters, &text)).unwrap();
                prop_assert_eq!(&read, &text);
            }
        }
    }
}
