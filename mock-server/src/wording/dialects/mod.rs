//! The dialects, as constants.
//!
//! To add one: a constant in one of these files, which names only what differs from another
//! dialect; and a line in [`Dialect`](super::Dialect) that points at it. The tests then say it in
//! every endpoint, streamed and not, and read it back.

pub(super) mod framings;
pub(super) mod objects;
pub(super) mod servers;
pub(super) mod streams;
