use ridgeline_clock::Nanos;
use ridgeline_net::Token;

use super::Ending;
use crate::fault::Kind;
use crate::wording::Dialect;

/// Bytes of a request's name that one piece takes.
pub(super) const NAME_BYTES: usize = 48;

/// What a shard tells of a request, bit by bit: of one size, so that a ring holds it in place and
/// nothing is allocated. `place` is the request's among those of its shard whose line is not finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// The request is there. What the place held before is void. Its name follows.
    Begun {
        place: u32,
        number: u64,
        connection: Token,
        arrival: Nanos,
        reaped: Nanos,
    },
    /// More of the name of the request begun last.
    Name { bytes: [u8; NAME_BYTES], len: u8 },
    /// A write was handed over.
    Wrote {
        place: u32,
        at: Nanos,
        due: Nanos,
        bytes: u32,
        tokens: u32,
        content_events: u32,
    },
    /// The request is over, and so is its use of the place.
    Ended {
        place: u32,
        started: Nanos,
        status: u16,
        dialect: Dialect,
        fault: Option<Kind>,
        ending: Ending,
    },
}
