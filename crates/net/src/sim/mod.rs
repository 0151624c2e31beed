//! A virtual network: the sockets, peers and faults of a run, on a virtual clock, from one seed.
//!
//! What this is: [`SimNet`], the network, and [`SimDriver`], a [`Driver`](crate::Driver) on it.
//! The real engine runs on it unmodified, single-threaded and faster than real time, and the same
//! seed gives the same run. Peers come in two kinds, which may share one network:
//!
//! - a *scripted peer* lives inside the network ([`SimPeer`], [`SimNet::listen`]). Then an ordinary
//!   loop `deadline = shard.step(now); driver.turn(deadline, &mut shard)` is all there is: a turn
//!   moves the clock to the next thing that happens, or to the deadline, whichever is first;
//! - a *second driver* on the same network (a server written on `Driver`). [`lockstep`] turns both
//!   without waiting and moves the clock when neither had anything to do.
//!
//! How bytes travel, and what goes wrong, is a [`Shape`]; where nobody answers is a [`Fate`].
//!
//! What this is not: TCP. There are no lost packets to repair, no congestion control and no
//! acknowledgements; segments of one direction arrive in the order they were sent.
//!
//! ```
//! use bytes::Bytes;
//! use ridgeline_clock::{Arrival, Clock, Nanos};
//! use ridgeline_net::sim::{Actions, SimConfig, SimNet, SimPeer};
//! use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
//!
//! /// Answers every read with "pong", 3 ms later.
//! #[derive(Debug)]
//! struct Pong;
//! impl SimPeer for Pong {
//!     fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
//!         actions.wait(Nanos::from_millis(3)).send(b"pong");
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Client(Option<Nanos>);
//! impl Sink for Client {
//!     fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> { None }
//!     fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
//!         commands.send(token, b"ping".to_vec(), Bytes::new());
//!     }
//!     fn submitted(&mut self, _: Token, _: Nanos) {}
//!     fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
//!     fn received(&mut self, _: &mut Commands, _: Token, bytes: &[u8], arrival: Arrival) {
//!         assert_eq!(bytes, b"pong");
//!         self.0 = Some(arrival.at);
//!     }
//!     fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
//!     fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
//! }
//!
//! let net = SimNet::new(SimConfig::default());
//! let server = net.listen(&Peer::Tcp(([10, 0, 0, 1], 80).into()), Pong)?;
//! let mut driver = net.driver(1);
//! driver.commands().open(Token { index: 0, generation: 0 }, server, None);
//! let mut client = Client::default();
//! while client.0.is_none() {
//!     driver.turn(Nanos::MAX, &mut client)?;
//! }
//! // Four trips of 10 us (SYN, SYN-ACK, ping, pong), and the peer's 3 ms.
//! assert_eq!(net.clock().now(), Nanos(3_040_000));
//! # Ok::<(), ridgeline_net::DriverError>(())
//! ```

mod config;
mod driver;
mod link;
mod network;
mod script;
mod wire;

pub use config::{Fate, Shape, SimConfig};
pub use driver::{SimDriver, SimNet, SimWaker, lockstep};
pub use script::{Actions, Ended, SimPeer};
