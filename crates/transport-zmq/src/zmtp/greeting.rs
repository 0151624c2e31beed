//! The first 64 bytes: signature, version, mechanism.

use super::Fault;

/// Its length, filler included.
pub const GREETING_BYTES: usize = 64;

/// What the first 64 bytes of either side say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The version's second number: 0 or 1 today.
    pub minor: u8,
    /// The security mechanism, upper case.
    pub mechanism: String,
    /// Which side has the server's role in a mechanism that has one.
    pub as_server: bool,
}

impl Greeting {
    /// As bytes, with version 3.1 if `minor` is 1.
    #[must_use]
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[0] = 0xFF;
        bytes[9] = 0x7F;
        bytes[10] = 3;
        bytes[11] = self.minor;
        let name = self.mechanism.as_bytes();
        let count = name.len().min(20);
        bytes[12..12 + count].copy_from_slice(&name[..count]);
        bytes[32] = u8::from(self.as_server);
        bytes
    }

    /// Reads it from the front of `bytes`; `None` where more of them are needed. What is wrong is said
    /// as soon as it is seen: a peer that speaks another protocol may never send 64 bytes.
    ///
    /// # Errors
    /// [`Fault::NotZmtp`], [`Fault::Version`], or [`Fault::Greeting`].
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        if bytes.first().is_some_and(|first| *first != 0xFF)
            || bytes.get(9).is_some_and(|tenth| *tenth != 0x7F)
        {
            return Err(Fault::NotZmtp);
        }
        if let Some(&major) = bytes.get(10)
            && major < 3
        {
            // 0 and 1 are revisions of 2.0; what came before has no number here.
            return Err(Fault::Version(major));
        }
        let Some(bytes) = bytes.get(..GREETING_BYTES) else {
            return Ok(None);
        };
        let name = &bytes[12..32];
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len());
        let is_plain = name[..end].iter().all(u8::is_ascii_graphic);
        if !is_plain || name[end..].iter().any(|byte| *byte != 0) || bytes[32] > 1 {
            return Err(Fault::Greeting);
        }
        // A later major version must accept ours, and speaks 3 with us then.
        let minor = if bytes[10] == 3 { bytes[11] } else { 1 };
        Ok(Some(Self {
            minor,
            mechanism: String::from_utf8_lossy(&name[..end]).into_owned(),
            as_server: bytes[32] == 1,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null(minor: u8) -> Greeting {
        Greeting {
            minor,
            mechanism: "NULL".to_owned(),
            as_server: false,
        }
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        for greeting in [null(0), null(1)] {
            let bytes = greeting.encode();
            assert_eq!(
                &bytes[..16],
                b"\xFF\0\0\0\0\0\0\0\0\x7F\x03"
                    .iter()
                    .chain(&[greeting.minor])
                    .chain(b"NULL")
                    .copied()
                    .collect::<Vec<u8>>()
            );
            for cut in 0..GREETING_BYTES {
                assert_eq!(Greeting::parse(&bytes[..cut]), Ok(None), "{cut}");
            }
            assert_eq!(Greeting::parse(&bytes), Ok(Some(greeting)));
        }
    }

    #[test]
    fn other_protocols_are_named_at_once() {
        assert_eq!(Greeting::parse(b"GET / HTTP/1.1\r\n"), Err(Fault::NotZmtp));
        // ZMTP 1.0 begins with a length.
        assert_eq!(Greeting::parse(&[1, 0]), Err(Fault::NotZmtp));
        let two = b"\xFF\0\0\0\0\0\0\0\x01\x7F\x01\x08";
        assert_eq!(Greeting::parse(two), Err(Fault::Version(1)));
        let mut odd = null(1).encode();
        odd[20] = b'x';
        assert_eq!(Greeting::parse(&odd), Err(Fault::Greeting));
    }
}
