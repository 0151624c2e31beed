/// Appends the inside of a JSON string that says `text`.
pub(super) fn escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (place, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[plain..place]);
        plain = place + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
                let digits = [digit(byte >> 4), digit(byte)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
    }
    out.extend_from_slice(&bytes[plain..]);
}

/// Appends a JSON string that says `text`.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

pub(super) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_string_reads_back(text in "[\\x00-\\x7f\"\\\\äß漢😀]{0,40}") {
            let mut out = Vec::new();
            string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
