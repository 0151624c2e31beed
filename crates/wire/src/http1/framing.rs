//! What the fields of a head say about where the body ends and what becomes of the connection.
//! RFC 9112 sections 6 and 9.

use super::head;

/// The framing fields of one head, gathered line by line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    pub(super) length: Length,
    pub(super) coding: Coding,
    /// A Content-Encoding other than identity.
    pub(super) encoded: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    /// Seconds that the server says it keeps the connection when nothing goes over it.
    pub(super) idle_s: Option<u32>,
}

/// All Content-Length values together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Length {
    #[default]
    Absent,
    Bytes(u64),
    /// Not a number, beyond 64 bits, or two that differ.
    Invalid,
}

/// All Transfer-Encoding values together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    #[default]
    Absent,
    /// A list without a member.
    Empty,
    Chunked,
    /// Any coding that is not understood, or a second one after chunked.
    Unknown {
        chunked_last: bool,
    },
}

impl Framing {
    /// Takes note of a field if it is one of framing. The lengths of these names differ, so most
    /// fields cost one comparison.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            10 if name.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            16 if name.eq_ignore_ascii_case(b"content-encoding") => self.content_encoding(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            _ => {}
        }
    }

    /// Whether the connection stays open after this message (RFC 9112 9.3). A chunked HTTP/1.0
    /// message is decoded, but its framing counts as faulty (6.1).
    pub(super) fn persistent(&self, http10: bool) -> bool {
        !self.close && (!http10 || self.keep_alive && self.coding == Coding::Absent)
    }

    fn connection(&mut self, value: &[u8]) {
        for option in head::list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// `timeout=5, max=100`, as RFC 2068 19.7.1 began it and servers write it. A timeout of 0 says nothing.
    fn keep_alive(&mut self, value: &[u8]) {
        for parameter in head::list(value) {
            let mut sides = parameter.splitn(2, |&byte| byte == b'=').map(head::trim);
            let (Some(name), Some(number)) = (sides.next(), sides.next()) else {
                continue;
            };
            if name.eq_ignore_ascii_case(b"timeout") {
                let seconds = head::decimal(number).and_then(|number| u32::try_from(number).ok());
                self.idle_s = seconds.filter(|&seconds| seconds > 0);
            }
        }
    }

    /// RFC 9112 6.3: one number, or a list of the same one.
    fn content_length(&mut self, value: &[u8]) {
        for number in value.split(|&byte| byte == b',').map(head::trim) {
            self.length = match (head::decimal(number), self.length) {
                (Some(bytes), Length::Absent) => Length::Bytes(bytes),
                (Some(bytes), Length::Bytes(before)) if bytes == before => Length::Bytes(bytes),
                _ => Length::Invalid,
            };
        }
    }

    fn content_encoding(&mut self, value: &[u8]) {
        self.encoded |= head::list(value).any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    }

    fn transfer_encoding(&mut self, value: &[u8]) {
        if self.coding == Coding::Absent {
            self.coding = Coding::Empty;
        }
        for coding in head::list(value) {
            let chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.coding = match self.coding {
                Coding::Empty if chunked => Coding::Chunked,
                _ => Coding::Unknown {
                    chunked_last: chunked,
                },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(fields: &[(&str, &str)]) -> Framing {
        let mut framing = Framing::default();
        for (name, value) in fields {
            framing.field(name.as_bytes(), value.as_bytes());
        }
        framing
    }

    #[test]
    fn content_lengths() {
        for (values, expected) in [
            (&["5"][..], Length::Bytes(5)),
            (&["0005"], Length::Bytes(5)),
            (&["5", "5"], Length::Bytes(5)),
            (&["5, 5 ,5"], Length::Bytes(5)),
            (&["18446744073709551615"], Length::Bytes(u64::MAX)),
            (&["18446744073709551616"], Length::Invalid),
            (&["5", "6"], Length::Invalid),
            (&["5, 6"], Length::Invalid),
            (&["5,"], Length::Invalid),
            (&["5", "6", "5"], Length::Invalid),
            (&["-5"], Length::Invalid),
            (&["+5"], Length::Invalid),
            (&["0x5"], Length::Invalid),
            (&["5 5"], Length::Invalid),
            (&["5;q=1"], Length::Invalid),
            (&[""], Length::Invalid),
        ] {
            let fields: Vec<_> = values
                .iter()
                .map(|value| ("Content-Length", *value))
                .collect();
            assert_eq!(framing(&fields).length, expected, "{values:?}");
        }
    }

    #[test]
    fn transfer_codings() {
        let (inner, last) = (
            Coding::Unknown {
                chunked_last: false,
            },
            Coding::Unknown { chunked_last: true },
        );
        for (values, expected) in [
            (&["chunked"][..], Coding::Chunked),
            (&["CHUNKED"], Coding::Chunked),
            (&[" , chunked,"], Coding::Chunked),
            (&["", "chunked"], Coding::Chunked),
            (&["gzip, chunked"], last),
            (&["gzip", "chunked"], last),
            (&["chunked", "chunked"], last),
            (&["chunked, gzip"], inner),
            (&["chunked;q=1"], inner),
            (&["identity"], inner),
            (&["xchunked"], inner),
            (&[""], Coding::Empty),
        ] {
            let fields: Vec<_> = values
                .iter()
                .map(|value| ("transfer-encoding", *value))
                .collect();
            assert_eq!(framing(&fields).coding, expected, "{values:?}");
        }
    }

    #[test]
    fn persistence() {
        for (value, http10, expected) in [
            ("", false, true),
            ("", true, false),
            ("close", false, false),
            ("Keep-Alive", true, true),
            ("x, Close", false, false),
            ("keep-alive, close", true, false),
            ("closed", false, true),
        ] {
            let framing = framing(&[("Connection", value)]);
            assert_eq!(framing.persistent(http10), expected, "{value} {http10}");
        }
        let chunked10 = framing(&[
            ("Connection", "keep-alive"),
            ("Transfer-Encoding", "chunked"),
        ]);
        assert!(!chunked10.persistent(true));
    }

    #[test]
    fn times_that_idle_connections_are_kept() {
        for (value, expected) in [
            ("timeout=5", Some(5)),
            ("max=100, Timeout = 15", Some(15)),
            ("timeout=5;max=1", None),
            ("timeout=0", None),
            ("timeout=4294967296", None),
            ("timeout", None),
            ("", None),
        ] {
            assert_eq!(
                framing(&[("Keep-Alive", value)]).idle_s,
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn content_codings() {
        assert!(!framing(&[("Content-Encoding", "identity")]).encoded);
        assert!(!framing(&[("Content-Encoding", "")]).encoded);
        assert!(framing(&[("content-encoding", "GZIP")]).encoded);
        assert!(framing(&[("content-encoding", "identity, br")]).encoded);
    }
}
