//! The Transport seam: messages between threads, processes and machines.
//!
//! What this is: the trait [`Transport`] that every kind of end implements, the trait [`Receiver`]
//! that the layer above implements, the bounds of an end ([`Limits`]), ends within one process
//! ([`InProcess`]), and the [`mod@conformance`] suite that every transport must pass.
//!
//! What this is not: a byte stream (that is a `Driver`), a format of messages, or a broker. A message
//! is bytes; who sends what when is the business of what rides on it.
//!
//! What every transport promises:
//!
//! - messages to one peer arrive whole, once, and in the order in which they were sent, or the peer
//!   is told [`Receiver::left`], with how many of them were never handed over;
//! - every queue has a bound in messages and in bytes. A send that would pass it is
//!   [`Refused::Full`]: nothing is dropped to make room, and a peer that is slow holds up nobody
//!   else;
//! - received bytes are *lent* for the length of one callback. A receiver that has no room answers
//!   [`Flow::Hold`], and soon the sender finds its queue full;
//! - a peer that goes away, falls silent or talks nonsense is told by name, with the cause in words.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_transport::{Flow, InProcess, Left, Limits, PeerId, Receiver, To, Transport};
//!
//! #[derive(Default)]
//! struct Inbox(Vec<Vec<u8>>);
//! impl Receiver for Inbox {
//!     fn joined(&mut self, _: PeerId, _: &str) {}
//!     fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
//!         self.0.push(message.to_vec());
//!         Flow::More
//!     }
//!     fn left(&mut self, _: PeerId, _: &Left) {}
//! }
//!
//! let (mut here, mut there) = InProcess::pair(Limits::default());
//! here.send(To::Any, b"hello")?;
//! let mut inbox = Inbox::default();
//! while inbox.0.is_empty() {
//!     there.turn(Nanos::MAX, &mut inbox)?;
//! }
//! assert_eq!(inbox.0, [b"hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod conformance;
mod left;
mod limits;
mod local;
mod transport;

pub use left::{Cause, Left};
pub use limits::Limits;
pub use local::{InProcess, InProcessWaker};
pub use ridgeline_net::Wake;
pub use transport::{Flow, PeerId, Queued, Receiver, Refused, To, Transport, TransportError, Turn};
