//! The chunked transfer coding. RFC 9112 section 7.1.

use super::HttpErrorKind;
use super::head::{BARE_CR, CONTROL, Guard, is_text_byte};

/// Bound on one chunk-size line, leading zeros and extensions included. A guess: real ones have
/// fewer than 100 bytes.
const SIZE_LINE_BYTES_MAX: u32 = 16 << 10;

/// One chunked body, incremental. A chunk-size line in progress is three numbers; no byte is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    state: State,
    /// The size so far, then the bytes of the chunk that are to come.
    left: u64,
    line_bytes: u32,
    trailer_bytes: usize,
    trailer_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit.
    Size,
    Digits,
    /// Optional white space after the size.
    Pad,
    /// Skipped up to its CR. Quoted strings need no care: CR and LF cannot be in one.
    Extension,
    SizeLf,
    /// INVARIANT: `left > 0`.
    Data,
    DataCr,
    DataLf,
    Trailer(Guard),
    Ended,
}

/// What came next in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Data(&'a [u8]),
    End,
    /// The input is used up.
    More,
}

impl Chunked {
    /// Before the first chunk. The trailer section is bounded by `trailer_bytes_max`.
    pub(super) fn new(trailer_bytes_max: usize) -> Self {
        Self {
            state: State::Size,
            left: 0,
            line_bytes: 0,
            trailer_bytes: 0,
            trailer_bytes_max,
        }
    }

    /// The next piece of the body. Data is lent from `input`, never empty.
    #[inline]
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, HttpErrorKind> {
        if self.state == State::Size
            && let Some((size, line_len)) = plain_size_line(input)
        {
            let rest = &input[line_len..];
            // A chunk that is whole in this read leaves the state as it is.
            if let Some((data, [b'\r', b'\n', after @ ..])) = rest.split_at_checked(size) {
                *input = after;
                return Ok(Piece::Data(data));
            }
            *input = rest;
            self.left = size as u64;
            self.state = State::Data;
        }
        if self.state == State::Data {
            return Ok(self.data(input));
        }
        self.cold(input)
    }

    /// Takes chunks that lie whole and plain at the head of `input`, as long as `take` wants their
    /// data. The state stays as it is: before the first digit of a size.
    #[inline]
    pub(super) fn take_whole<'a>(
        &self,
        input: &mut &'a [u8],
        mut take: impl FnMut(&'a [u8]) -> bool,
    ) {
        if self.state != State::Size {
            return;
        }
        while let Some((size, line_len)) = plain_size_line(input)
            && let Some((data, [b'\r', b'\n', after @ ..])) =
                input[line_len..].split_at_checked(size)
            && take(data)
        {
            *input = after;
        }
    }

    #[inline]
    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Piece<'a> {
        let len = usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
        if len == 0 {
            return Piece::More;
        }
        let (data, rest) = input.split_at(len);
        self.left -= len as u64;
        *input = rest;
        if self.left == 0 {
            if let [b'\r', b'\n', rest @ ..] = rest {
                *input = rest;
                self.state = State::Size;
            } else {
                self.state = State::DataCr;
            }
        }
        Piece::Data(data)
    }

    /// All but plain size lines and data, byte by byte.
    #[cold]
    fn cold<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, HttpErrorKind> {
        loop {
            match self.state {
                State::Data => return Ok(self.data(input)),
                State::Trailer(guard) => return self.trailer(guard, input),
                State::Ended => return Ok(Piece::End),
                _ => {}
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(Piece::More);
            };
            self.state = self.step(byte)?;
            *input = rest;
        }
    }

    fn step(&mut self, byte: u8) -> Result<State, HttpErrorKind> {
        let malformed = |reason| Err(HttpErrorKind::Malformed(reason));
        match (self.state, byte) {
            (State::DataCr, b'\r') => return Ok(State::DataLf),
            (State::DataLf, b'\n') => return Ok(State::Size),
            (State::DataCr | State::DataLf, _) => {
                return malformed("a chunk that does not end where its size says");
            }
            (State::SizeLf, b'\n') if self.left == 0 => return Ok(State::Trailer(Guard::First)),
            (State::SizeLf, b'\n') => return Ok(State::Data),
            (State::SizeLf, _) => return malformed(BARE_CR),
            _ => {}
        }
        if self.state == State::Size {
            self.left = 0;
            self.line_bytes = 0;
        }
        self.line_bytes += 1;
        if self.line_bytes > SIZE_LINE_BYTES_MAX {
            return Err(HttpErrorKind::Oversize);
        }
        match (self.state, byte) {
            (State::Size | State::Digits, _) if byte.is_ascii_hexdigit() => {
                if self.left >> 60 != 0 {
                    return malformed("a chunk size beyond 64 bits");
                }
                self.left = self.left << 4 | u64::from(hex_digit(byte));
                Ok(State::Digits)
            }
            (State::Size, _) => malformed("a chunk size that is no number"),
            (_, b'\r') => Ok(State::SizeLf),
            (State::Digits | State::Pad, b' ' | b'\t') => Ok(State::Pad),
            (State::Digits | State::Pad, b';') => Ok(State::Extension),
            (State::Digits | State::Pad, _) => malformed("a chunk size that is no number"),
            (_, _) if is_text_byte(byte) => Ok(State::Extension),
            (_, _) => malformed(CONTROL),
        }
    }

    fn trailer<'a>(
        &mut self,
        mut guard: Guard,
        input: &mut &'a [u8],
    ) -> Result<Piece<'a>, HttpErrorKind> {
        let room = self.trailer_bytes_max - self.trailer_bytes;
        let allowed = &input[..input.len().min(room)];
        match guard.read(allowed).map_err(HttpErrorKind::Malformed)? {
            Some(len) => {
                *input = &input[len..];
                self.state = State::Ended;
                Ok(Piece::End)
            }
            None if allowed.len() < input.len() => Err(HttpErrorKind::Oversize),
            None => {
                self.trailer_bytes += input.len();
                *input = &[];
                self.state = State::Trailer(guard);
                Ok(Piece::More)
            }
        }
    }
}

/// The size, and the length of its line, if that is whole, short, plain and not the last.
#[inline]
fn plain_size_line(input: &[u8]) -> Option<(usize, usize)> {
    let mut size = 0;
    for place in 0..7 {
        let byte = *input.get(place)?;
        let digit = hex_digit(byte);
        if digit < 16 {
            size = size << 4 | usize::from(digit);
        } else {
            let plain = size > 0 && byte == b'\r' && input.get(place + 1) == Some(&b'\n');
            return plain.then_some((size, place + 2));
        }
    }
    None
}

/// 0 to 15, or 255 for a byte that is no hexadecimal digit.
#[inline]
fn hex_digit(byte: u8) -> u8 {
    HEX_DIGIT[usize::from(byte)]
}

const HEX_DIGIT: [u8; 256] = {
    let mut table = [255; 256];
    let mut digit = 0_u8;
    while digit < 16 {
        table[b"0123456789abcdef"[digit as usize] as usize] = digit;
        table[b"0123456789ABCDEF"[digit as usize] as usize] = digit;
        digit += 1;
    }
    table
};
