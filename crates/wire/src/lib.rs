//! Bytes to meaning and back, without sockets and clocks.
//!
//! What this is: HTTP/1.1 ([`http1`]) and server-sent events ([`sse`]) as state machines that are
//! fed reads of any size and lend what they find, and the memory for what a read cuts ([`carry`]).
//!
//! What this is not: a client. It opens nothing, waits for nothing and takes no time; stamps are
//! arguments. It never panics on a peer's bytes, and every buffer has a bound.
//!
//! ```
//! use ridgeline_wire::carry::{Carry, CarryPool};
//! use ridgeline_wire::sse::Scanner;
//! let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(1 << 20));
//! let mut scanner = Scanner::new(1 << 20);
//! let mut seen = Vec::new();
//! for mut read in [&b": ping\n\ndata: one\n\nda"[..], &b"ta: two\n\n"[..]] {
//!     while let Some(event) = scanner.next(&mut read, &mut carry, &mut pool)? {
//!         seen.push(event.data.to_vec());
//!     }
//! }
//! assert_eq!(seen, [b"one", b"two"]);
//! # Ok::<(), ridgeline_wire::sse::SseError>(())
//! ```
#![forbid(unsafe_code)]

pub mod carry;
pub mod exchange;
pub mod http1;
pub mod openai;
pub mod sse;

mod digits;
#[cfg(test)]
mod mutate;
mod pace;
