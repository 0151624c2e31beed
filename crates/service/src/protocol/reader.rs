use rmp::Marker;
use rmp::decode;

use crate::protocol::{Code, Trouble};

/// Takes a message apart. Everything that it lends is a part of the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// A message that is not what it should be.
pub(crate) fn malformed(what: &str, expected: &str) -> Trouble {
    Trouble::new(
        Code::Malformed,
        format!("{what} is not {expected}, or the message is cut off"),
    )
}

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The type of the next value.
    pub(crate) fn marker(&self) -> Option<Marker> {
        self.rest.first().map(|&byte| Marker::from_u8(byte))
    }

    pub(crate) fn uint(&mut self, what: &str) -> Result<u64, Trouble> {
        decode::read_int(&mut self.rest).map_err(|_| malformed(what, "an unsigned integer"))
    }

    /// Any integer of MessagePack's.
    pub(crate) fn integer(&mut self, what: &str) -> Result<i128, Trouble> {
        decode::read_int(&mut self.rest).map_err(|_| malformed(what, "an integer"))
    }

    pub(crate) fn boolean(&mut self, what: &str) -> Result<bool, Trouble> {
        decode::read_bool(&mut self.rest).map_err(|_| malformed(what, "true or false"))
    }

    /// The length of an array, whose elements follow.
    pub(crate) fn array(&mut self, what: &str) -> Result<u32, Trouble> {
        decode::read_array_len(&mut self.rest).map_err(|_| malformed(what, "an array"))
    }

    /// An array of exactly so many elements.
    pub(crate) fn array_of(&mut self, count: u32, what: &str) -> Result<(), Trouble> {
        if self.array(what)? == count {
            return Ok(());
        }
        let text = format!("{what} has not exactly {count} elements");
        Err(Trouble::new(Code::Malformed, text))
    }

    /// Text.
    pub(crate) fn text(&mut self, what: &str) -> Result<&'a str, Trouble> {
        let not_text = || malformed(what, "text in UTF-8");
        let length = decode::read_str_len(&mut self.rest).map_err(|_| not_text())?;
        let bytes = self.take(length).ok_or_else(not_text)?;
        str::from_utf8(bytes).map_err(|_| not_text())
    }

    /// A byte string, or text taken for one.
    pub(crate) fn bytes(&mut self, what: &str) -> Result<&'a [u8], Trouble> {
        let not_bytes = || malformed(what, "a byte string");
        let length = match self.marker() {
            Some(Marker::Bin8 | Marker::Bin16 | Marker::Bin32) => {
                decode::read_bin_len(&mut self.rest).map_err(|_| not_bytes())?
            }
            _ => decode::read_str_len(&mut self.rest).map_err(|_| not_bytes())?,
        };
        self.take(length).ok_or_else(not_bytes)
    }

    /// Nothing, if that is next.
    pub(crate) fn nil(&mut self) -> bool {
        let is_nil = self.marker() == Some(Marker::Null);
        if is_nil {
            self.rest = &self.rest[1..];
        }
        is_nil
    }

    /// Nothing, or what `read` reads.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        if self.nil() {
            return Ok(None);
        }
        read(self).map(Some)
    }

    fn take(&mut self, length: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(taken)
    }
}
