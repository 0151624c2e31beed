//! Answers that go wrong on purpose.

use ridgeline_clock::Nanos;

use crate::ledger::Load;

/// An answer as bytes with times, head and framing included, and how its connection ends.
#[derive(Debug)]
pub(crate) struct Script {
    /// Ascending by time. INVARIANT: not empty, unless it ends by a reset, a FIN or by hanging.
    pub(crate) writes: Vec<Write>,
    /// When what `ending` says is done: not before the last write.
    pub(crate) ends: Nanos,
    pub(crate) ending: Ending,
}

/// One send.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) at: Nanos,
    pub(crate) bytes: Vec<u8>,
    pub(crate) load: Load,
}

/// What follows the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "faults make scripts")]
pub(crate) enum Ending {
    /// The connection goes on as the request asked.
    KeepAlive,
    /// The connection is closed in good order.
    Fin,
    /// The connection is reset, once the kernel has taken all writes.
    Reset,
    /// Nothing, until the peer goes away.
    Hang,
}
