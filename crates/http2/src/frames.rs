//! The heads of frames as they pass by, to see what h2 does not tell. RFC 9113 sections 4.1 and 6.

/// Bytes of a frame's head.
const HEAD_BYTES: usize = 9;
/// What a client says before its first frame.
const PREFACE_BYTES: u32 = 24;

/// A kind of frame, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Settings,
    GoAway,
    WindowUpdate,
    Other,
}

impl Kind {
    const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Data,
            4 => Self::Settings,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            _ => Self::Other,
        }
    }

    /// Whether the first four bytes behind the head are wanted, too.
    const fn has_word(self) -> bool {
        matches!(self, Self::GoAway | Self::WindowUpdate)
    }
}

/// What is told of a frame: once its head is known, and the word behind it where one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// 0: the connection.
    pub(crate) stream: u32,
    /// Bytes behind the head, padding included: what counts for flow control.
    pub(crate) len: u32,
    /// The first 31 bits behind the head, reserved bit aside: a last stream, an increment.
    pub(crate) word: u32,
}

/// Finds the heads of frames in bytes that come in pieces of any size. It judges nothing: h2 does.
#[derive(Clone, Debug)]
pub(crate) struct FrameScanner {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the frame still to come.
    left: u32,
    seen: Seen,
    word_bytes: u8,
}

impl FrameScanner {
    /// For what a server sends.
    pub(crate) const fn of_server() -> Self {
        Self {
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            left: 0,
            seen: Seen {
                kind: Kind::Other,
                flags: 0,
                stream: 0,
                len: 0,
                word: 0,
            },
            word_bytes: 0,
        }
    }

    /// For what a client sends: its preface is passed over like a frame.
    pub(crate) const fn of_client() -> Self {
        Self {
            head_bytes: HEAD_BYTES,
            left: PREFACE_BYTES,
            ..Self::of_server()
        }
    }

    /// Reads on, and tells what was seen.
    pub(crate) fn read(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Seen)) {
        while !bytes.is_empty() {
            bytes = if self.head_bytes < HEAD_BYTES {
                self.read_head(bytes, &mut tell)
            } else {
                self.read_payload(bytes, &mut tell)
            };
            if self.head_bytes == HEAD_BYTES && self.left == 0 {
                self.head_bytes = 0;
            }
        }
    }

    fn read_head<'a>(&mut self, bytes: &'a [u8], tell: &mut impl FnMut(Seen)) -> &'a [u8] {
        let wanted = (HEAD_BYTES - self.head_bytes).min(bytes.len());
        let (part, rest) = bytes.split_at(wanted);
        self.head[self.head_bytes..self.head_bytes + wanted].copy_from_slice(part);
        self.head_bytes += wanted;
        if self.head_bytes == HEAD_BYTES {
            let [a, b, c, kind, flags, stream @ ..] = self.head;
            self.left = u32::from_be_bytes([0, a, b, c]);
            self.word_bytes = 0;
            self.seen = Seen {
                kind: Kind::of(kind),
                flags,
                stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
                len: self.left,
                word: 0,
            };
            if !self.seen.kind.has_word() {
                tell(self.seen);
            }
        }
        rest
    }

    fn read_payload<'a>(&mut self, bytes: &'a [u8], tell: &mut impl FnMut(Seen)) -> &'a [u8] {
        let len = (self.left as usize).min(bytes.len());
        let (part, rest) = bytes.split_at(len);
        if self.seen.kind.has_word() {
            for &byte in part {
                if self.word_bytes == 4 {
                    break;
                }
                self.seen.word = self.seen.word << 8 | u32::from(byte);
                self.word_bytes += 1;
                if self.word_bytes == 4 {
                    self.seen.word &= u32::MAX >> 1;
                    tell(self.seen);
                }
            }
        }
        self.left = self
            .left
            .saturating_sub(u32::try_from(len).unwrap_or(u32::MAX));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn frames_are_seen_however_they_are_cut() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 1, 0, b""));
        bytes.extend(frame(0, 1, 5, b"abc"));
        bytes.extend(frame(8, 0, 1 << 31 | 7, &[0x80, 0, 1, 2]));
        bytes.extend(frame(7, 0, 0, &[0, 0, 0, 9, 0, 0, 0, 0, b'x']));
        bytes.extend(frame(1, 4, 9, b"head"));
        let seen = |kind, flags, stream, len, word| Seen {
            kind,
            flags,
            stream,
            len,
            word,
        };
        let expected = [
            seen(Kind::Settings, 1, 0, 0, 0),
            seen(Kind::Data, 1, 5, 3, 0),
            seen(Kind::WindowUpdate, 0, 7, 4, 0x102),
            seen(Kind::GoAway, 0, 0, 9, 9),
            seen(Kind::Other, 4, 9, 4, 0),
        ];
        for size in 1..=bytes.len() {
            let mut scanner = FrameScanner::of_client();
            let mut told = Vec::new();
            for part in bytes.chunks(size) {
                scanner.read(part, |seen| told.push(seen));
            }
            assert_eq!(told, expected, "in pieces of {size}");
        }
    }
}
