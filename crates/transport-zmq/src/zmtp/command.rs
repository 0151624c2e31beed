//! Commands: a name and what belongs to it.

use super::{Fault, frame};

/// The longest command that is read. The handshake's are the longest: properties of a peer.
pub const COMMAND_BYTES_MAX: u64 = 16 << 10;

/// The longest context of a ping.
pub const CONTEXT_BYTES_MAX: usize = 16;

/// A command that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The handshake is done: the peer's properties, see [`Properties`].
    Ready(&'a [u8]),
    /// The peer refuses, and says why.
    Error(&'a [u8]),
    /// Asks for a [`Command::Pong`] with the same context.
    Ping {
        /// How long the peer keeps the connection without a word of this side, in tenths of a second.
        ttl_ds: u16,
        /// Comes back with the answer.
        context: &'a [u8],
    },
    /// The answer to a ping.
    Pong,
    /// Any other. Subscriptions are among them: they mean nothing to the kinds of ends here.
    Other {
        /// Its name.
        name: &'a [u8],
        /// What follows the name.
        data: &'a [u8],
    },
}

impl<'a> Command<'a> {
    /// Reads the body of a command frame.
    ///
    /// # Errors
    /// [`Fault::Command`] where it is no command.
    pub fn parse(body: &'a [u8]) -> Result<Self, Fault> {
        let (name, data) = split(body, 1).ok_or(Fault::Command)?;
        if name.is_empty() {
            return Err(Fault::Command);
        }
        Ok(match name {
            b"READY" => Self::Ready(data),
            b"ERROR" => Self::Error(split(data, 1).ok_or(Fault::Command)?.0),
            b"PING" => {
                let (ttl, context) = data.split_at_checked(2).ok_or(Fault::Command)?;
                let context = &context[..context.len().min(CONTEXT_BYTES_MAX)];
                Self::Ping {
                    ttl_ds: u16::from_be_bytes([ttl[0], ttl[1]]),
                    context,
                }
            }
            b"PONG" => Self::Pong,
            _ => Self::Other { name, data },
        })
    }
}

/// A length of `width` bytes, big-endian, that many bytes, and the rest.
fn split(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length
        .iter()
        .fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The properties in a handshake: names and values, in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a>(pub &'a [u8]);

impl<'a> Iterator for Properties<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = split(self.0, 1)
            .filter(|(name, _)| !name.is_empty())
            .and_then(|(name, rest)| Some((name, split(rest, 4)?)));
        match item {
            Some((name, (value, rest))) => {
                self.0 = rest;
                Some(Ok((name, value)))
            }
            None => {
                self.0 = &[];
                Some(Err(Fault::Properties))
            }
        }
    }
}

/// Appends one property.
pub fn put_property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(value);
}

/// The body of a command: its name with its length, and its data.
#[must_use]
pub fn body(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(1 + name.len() + data.len());
    body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    body
}

/// The body of the command that refuses a peer. The reason is cut to what its length can say.
#[must_use]
pub fn error_body(reason: &str) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.len().min(frame::SHORT_BYTES_MAX)];
    let mut data = vec![u8::try_from(reason.len()).unwrap_or(u8::MAX)];
    data.extend_from_slice(reason);
    body("ERROR", &data)
}

/// The body of a ping.
#[must_use]
pub fn ping_body(ttl_ds: u16) -> Vec<u8> {
    body("PING", &ttl_ds.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        let ready = body("READY", b"rest");
        assert_eq!(Command::parse(&ready), Ok(Command::Ready(b"rest")));
        let error = error_body("no");
        assert_eq!(Command::parse(&error), Ok(Command::Error(b"no")));
        let ping = ping_body(300);
        let expected = Command::Ping {
            ttl_ds: 300,
            context: b"",
        };
        assert_eq!(Command::parse(&ping), Ok(expected));
        assert_eq!(Command::parse(b"\x04PONGabc"), Ok(Command::Pong));
        let other = Command::Other {
            name: b"SUBSCRIBE",
            data: b"x",
        };
        assert_eq!(Command::parse(b"\x09SUBSCRIBEx"), Ok(other));
        for broken in [
            &b""[..],
            b"\0",
            b"\x05REA",
            b"\x04PING\0",
            b"\x05ERROR",
            b"\x05ERROR\x05no",
        ] {
            assert_eq!(Command::parse(broken), Err(Fault::Command), "{broken:?}");
        }
        assert!(error_body(&"x".repeat(1_000)).len() < 300);
    }

    #[test]
    fn properties_are_read_to_their_end_or_not_at_all() {
        let mut bytes = Vec::new();
        put_property(&mut bytes, "Socket-Type", b"PUSH");
        put_property(&mut bytes, "Identity", b"");
        let read: Result<Vec<_>, Fault> = Properties(&bytes).collect();
        assert_eq!(
            read,
            Ok(vec![
                (&b"Socket-Type"[..], &b"PUSH"[..]),
                (b"Identity", b"")
            ])
        );
        for cut in 1..bytes.len() {
            let whole = cut == 20;
            let read: Result<Vec<_>, Fault> = Properties(&bytes[..cut]).collect();
            assert_eq!(read.is_ok(), whole, "{cut}");
        }
    }
}
