/// A request id: 0 to [`Id::BYTES_MAX`] bytes, kept in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id {
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl Id {
    /// Enough for a UUID with some prefix. A longer `X-Request-Id` is not echoed.
    pub(crate) const BYTES_MAX: usize = 128;

    pub(crate) const EMPTY: Self = Self {
        len: 0,
        bytes: [0; Self::BYTES_MAX],
    };

    /// `None` when `bytes` are too many, or can't stand in a header field as they are.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok()?;
        let mut id = Self { len, ..Self::EMPTY };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        bytes
            .iter()
            .all(|byte| (b' '..=b'~').contains(byte))
            .then_some(id)
    }

    /// The 16 hexadecimal digits of `serial`.
    pub(crate) fn of_serial(serial: u64) -> Self {
        let mut id = Self {
            len: 16,
            ..Self::EMPTY
        };
        for (place, byte) in id.bytes.iter_mut().take(16).enumerate() {
            *byte = b"0123456789abcdef"[(serial >> (60 - 4 * place) & 15) as usize];
        }
        id
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it can be part of the `id` of an answer: nothing that JSON would escape.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_empty()
            && self
                .as_bytes()
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_bounded_and_visible() {
        assert_eq!(Id::new(b"req-1").unwrap().as_bytes(), b"req-1");
        assert!(Id::new(&[b'x'; 128]).is_some());
        assert!(Id::new(&[b'x'; 129]).is_none());
        assert!(Id::new(&[b'x'; 300]).is_none());
        assert!(Id::new(b"a\r\nb").is_none());
        assert!(Id::new(b"a b").is_some_and(|id| !id.is_plain()));
        assert!(Id::new(b"").is_some_and(|id| id.is_empty() && !id.is_plain()));
        assert_eq!(Id::of_serial(0x1_f00d).as_bytes(), b"000000000001f00d");
    }
}
