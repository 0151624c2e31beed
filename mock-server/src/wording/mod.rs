//! Bytes: HTTP heads and chunks, event streams and JSON bodies.
//!
//! Everything is appended to a buffer that the caller reuses; nothing here allocates but the
//! construction of a [`Voice`].

mod dialect;
mod framing;
mod json;
mod voice;

pub use dialect::Dialect;
pub(crate) use framing::{Framing, Reply, end, event, head};
pub(crate) use voice::{Stamp, Voice};
