//! The Driver seam: the byte streams of one core, as completions.
//!
//! What this is: the trait [`Driver`] that every backend implements, the trait [`Sink`] that the
//! layer above implements, the queue between them ([`Commands`]), a virtual network
//! ([`sim`]) that runs the real engine faster than real time from a seed, and the
//! [`mod@conformance`] suite that every driver must pass.
//!
//! What this is not: HTTP, TLS, or messages between processes (that is a Transport). A driver
//! *lends* received bytes for the length of one callback and *owns* what it sends until it says
//! [`Sink::sent`].
//!
//! The order of one turn, the same for every driver:
//!
//! 1. commands queued since the last turn are applied (sockets opened, sends queued, closes);
//! 2. the clock is read once, and each send that is about to be handed over is told
//!    [`Sink::submitted`] with that reading;
//! 3. the kernel is entered, until a completion or the deadline;
//! 4. the clock is read once more (the time of reaping), and every completion becomes one callback.
//!
//! [`raise_descriptor_limit`] is what every program with many sockets does first.
//!
//! Callbacks get the [`Commands`] queue, never the driver: nothing re-enters it.
//!
//! ```
//! use ridgeline_net::sim::{SimConfig, SimNet};
//! use ridgeline_net::{Arrival, Closed, Commands, Driver, Peer, Sink, Token};
//! use ridgeline_clock::Nanos;
//!
//! /// Remembers why its connection ended.
//! #[derive(Default)]
//! struct Client(Option<Closed>);
//! impl Sink for Client {
//!     fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> { None }
//!     fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}
//!     fn submitted(&mut self, _: Token, _: Nanos) {}
//!     fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
//!     fn received(&mut self, _: &mut Commands, _: Token, _: &[u8], _: Arrival) {}
//!     fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
//!     fn closed(&mut self, _: &mut Commands, _: Token, cause: Closed, _: Nanos) {
//!         self.0 = Some(cause);
//!     }
//! }
//!
//! // Any driver will do; nobody listens on this network.
//! let mut driver = SimNet::new(SimConfig::default()).driver(1);
//! let peer = Peer::Tcp(([10, 0, 0, 1], 80).into());
//! driver.commands().open(Token { index: 0, generation: 0 }, peer, None);
//! let mut client = Client::default();
//! while client.0.is_none() {
//!     driver.turn(Nanos::MAX, &mut client)?;
//! }
//! assert_eq!(client.0, Some(Closed::Refused));
//! # Ok::<(), ridgeline_net::DriverError>(())
//! ```
#![forbid(unsafe_code)]

mod cause;
pub mod conformance;
mod descriptors;
mod driver;
pub mod sim;

pub use descriptors::raise_descriptor_limit;
pub use driver::{
    Close, Closed, Command, Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn, Wake,
};
pub use ridgeline_clock::Arrival;
