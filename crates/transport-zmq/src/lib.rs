//! ZeroMQ over the Driver seam: messages on `ipc://` and `tcp://`, on any driver of one core.
//!
//! What this is: [`Zmq`], an implementation of [`ridgeline_transport::Transport`] that speaks ZMTP 3.1
//! (NULL and CURVE mechanisms) with libzmq, pyzmq, the `zeromq` crate and itself, as PUSH, PULL, ROUTER or DEALER
//! ([`Kind`]); and [`zmtp`], the protocol without IO. There is no thread and no runtime behind it: an end
//! works in its turns. Small messages are gathered in pieces of 64 KiB, one send of the driver each;
//! messages that came are lent from the driver's own buffer where they lie whole in it.
//!
//! What this is not: libzmq. One message is one frame (an empty frame before it, as REQ sends it, is
//! accepted by routers and dealers, and answered likewise; other messages of several frames are refused).
//! A message for nobody is [`Refused::NoPeer`](ridgeline_transport::Refused::NoPeer): nothing is queued
//! for peers that never came. What waits for a peer whose connection is lost is counted and told, not
//! sent to its next connection.
//!
//! An end with a token ([`Keys`]) speaks CURVE on every `tcp://` address: both sides prove that they have the
//! token, and everything is encrypted. Without one, or with another, nobody gets in. `ipc://` sockets are
//! guarded by the file system, and stay as they are. An end without a token listens on this machine only.
//!
//! Limits are [`Limits`](ridgeline_transport::Limits). `queued_messages_max` and `queued_bytes_max` are the
//! high-water marks of each peer. A receiver that holds stops the driver from reading; then what is in
//! memory here is at most twice the driver's receive buffers, and the peer's queue fills. Pings from peers
//! are answered only while reading.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_net::sim::{SimConfig, SimNet};
//! use ridgeline_transport::{Flow, Left, Limits, PeerId, Receiver, To, Transport};
//! use ridgeline_transport_zmq::{Address, Kind, Zmq};
//!
//! #[derive(Default)]
//! struct Inbox { here: u32, messages: Vec<Vec<u8>> }
//! impl Receiver for Inbox {
//!     fn joined(&mut self, _: PeerId, _: &str) { self.here += 1; }
//!     fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
//!         self.messages.push(message.to_vec());
//!         Flow::More
//!     }
//!     fn left(&mut self, _: PeerId, _: &Left) { self.here -= 1; }
//! }
//!
//! // Any driver will do.
//! let net = SimNet::new(SimConfig::default());
//! let mut pull = Zmq::new(net.driver(64), net.clock(), Kind::Pull, Limits::data());
//! let mut push = Zmq::new(net.driver(64), net.clock(), Kind::Push, Limits::data());
//! let address = pull.bind(&"tcp://127.0.0.1:0".parse::<Address>()?)?;
//! push.connect(&address)?;
//! let (mut pulled, mut pushed) = (Inbox::default(), Inbox::default());
//! while pushed.here == 0 {
//!     push.turn(Nanos::ZERO, &mut pushed)?;
//!     pull.turn(Nanos::ZERO, &mut pulled)?;
//!     net.advance(Nanos::MAX);
//! }
//! push.send(To::Any, b"hello")?;
//! while pulled.messages.is_empty() {
//!     push.turn(Nanos::ZERO, &mut pushed)?;
//!     pull.turn(Nanos::ZERO, &mut pulled)?;
//!     net.advance(Nanos::MAX);
//! }
//! assert_eq!(pulled.messages, [b"hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod end;
mod keys;
mod kind;
mod outbox;
pub mod zmtp;

pub use address::Address;
pub use end::Zmq;
pub use keys::{KeyError, Keys, Z85Keys};
pub use kind::Kind;
