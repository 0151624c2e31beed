//! Frames: a byte of flags, a length of one or of eight bytes, a body.

use super::Fault;

/// More frames of the same message follow.
pub const MORE: u8 = 1;
/// The length has eight bytes.
pub const LONG: u8 = 2;
/// The body is a command, not a message.
pub const COMMAND: u8 = 4;

/// The longest frame before its body.
pub const HEADER_BYTES_MAX: usize = 9;
const SHORT_HEADER_BYTES: usize = 2;
/// The longest body with a length of one byte.
pub const SHORT_BYTES_MAX: usize = 255;

/// What stands before a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`MORE`], [`LONG`] and [`COMMAND`].
    pub flags: u8,
    /// How many bytes stand before the body.
    pub header_bytes: usize,
    /// The body's length.
    pub body_bytes: u64,
}

impl Header {
    /// Reads it from the front of `bytes`; `None` where more of them are needed.
    ///
    /// # Errors
    /// [`Fault::Flags`] for flags that no version defines.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let Some(&flags) = bytes.first() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(Fault::Flags(flags));
        }
        if flags & LONG == 0 {
            return Ok(bytes.get(1).map(|length| Self {
                flags,
                header_bytes: SHORT_HEADER_BYTES,
                body_bytes: u64::from(*length),
            }));
        }
        let length = bytes.get(1..HEADER_BYTES_MAX);
        let length = length.and_then(|length| <[u8; 8]>::try_from(length).ok());
        Ok(length.map(|length| Self {
            flags,
            header_bytes: HEADER_BYTES_MAX,
            body_bytes: u64::from_be_bytes(length),
        }))
    }

    /// How many bytes must be there before [`Header::parse`] knows the whole, given these.
    #[must_use]
    pub fn needs(bytes: &[u8]) -> usize {
        match bytes.first() {
            Some(flags) if flags & LONG != 0 => HEADER_BYTES_MAX,
            _ => SHORT_HEADER_BYTES,
        }
    }

    /// Whether the body is a command.
    #[must_use]
    #[inline]
    pub const fn is_command(&self) -> bool {
        self.flags & COMMAND != 0
    }
}

/// What is written before a body of this length, and how many of the bytes count.
#[must_use]
#[inline]
pub fn header(flags: u8, body_bytes: usize) -> ([u8; HEADER_BYTES_MAX], usize) {
    let mut header = [0; HEADER_BYTES_MAX];
    if let Ok(length) = u8::try_from(body_bytes) {
        header[0] = flags;
        header[1] = length;
        return (header, SHORT_HEADER_BYTES);
    }
    header[0] = flags | LONG;
    header[1..].copy_from_slice(&(body_bytes as u64).to_be_bytes());
    (header, HEADER_BYTES_MAX)
}

/// Appends a whole frame.
pub fn put(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    let (header, count) = header(flags, body.len());
    out.extend_from_slice(&header[..count]);
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_specification() {
        let cases: [(u8, usize, &[u8]); 6] = [
            (0, 0, &[0, 0]),
            (0, 255, &[0, 255]),
            (0, 256, &[2, 0, 0, 0, 0, 0, 0, 1, 0]),
            (MORE, 3, &[1, 3]),
            (COMMAND, 5, &[4, 5]),
            (COMMAND, 70_000, &[6, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
        ];
        for (flags, bytes, expected) in cases {
            let (written, count) = header(flags, bytes);
            assert_eq!(&written[..count], expected);
            let read = Header::parse(expected).unwrap().unwrap();
            assert_eq!(read.flags & !LONG, flags);
            assert_eq!((read.header_bytes, read.body_bytes), (count, bytes as u64));
            for cut in 0..count {
                assert_eq!(Header::parse(&expected[..cut]), Ok(None));
                assert!(Header::needs(&expected[..cut]) > cut);
            }
        }
    }

    #[test]
    fn flags_that_mean_nothing_are_refused() {
        for flags in 0..=255 {
            let known = [0, 1, 2, 3, 4, 6].contains(&flags);
            assert_eq!(Header::parse(&[flags, 0]).is_ok(), known, "{flags}");
        }
    }
}
