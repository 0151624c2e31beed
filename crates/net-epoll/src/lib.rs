//! The fallback driver: readiness instead of completions, where io_uring is not allowed (seccomp
//! profiles of containers, `io_uring_disabled`).
//!
//! What this is: [`EpollDriver`], a [`Driver`](ridgeline_net::Driver) on mio. Sockets are
//! non-blocking and watched edge-triggered; one read buffer serves all of them and is lent to the
//! sink; queued sends of a connection go out together with `writev`.
//!
//! What this is not: as cheap as the ring (each read and write is a system call), or as exact.
//! Two differences show in a report; times do not differ, as reads carry the kernel's receive stamps where they
//! are asked for ([`EpollConfig::rx_timestamps`]):
//!
//! - a wait ends at its deadline to the accuracy of the kernel's timers: `epoll_wait` for the whole
//!   milliseconds, `ppoll` on the epoll descriptor for the rest, with the thread's timer slack set
//!   to 1 ns (the usual 50 us would be added to every deadline). What remains is the wake-up itself;
//! - connections from a given source address are bound before the destination is known to the
//!   kernel, so a source address serves one range of ports (28,232 as Linux is delivered), not one
//!   for each destination.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
//! use ridgeline_net_epoll::{EpollConfig, EpollDriver};
//!
//! /// Sends "ping" to itself.
//! #[derive(Default)]
//! struct Pinger(Vec<u8>);
//! impl Sink for Pinger {
//!     fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
//!         Some(Token { index: 1, generation: 0 })
//!     }
//!     fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
//!         commands.send(token, b"ping".to_vec(), bytes::Bytes::new());
//!     }
//!     fn submitted(&mut self, _: Token, _: Nanos) {}
//!     fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
//!     fn received(&mut self, _: &mut Commands, _: Token, bytes: &[u8], _: Arrival) {
//!         self.0.extend_from_slice(bytes);
//!     }
//!     fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
//!     fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
//! }
//!
//! let mut driver = EpollDriver::new(EpollConfig::default())?;
//! let here = driver.listen(&Peer::Tcp(([127, 0, 0, 1], 0).into()))?;
//! driver.commands().open(Token { index: 0, generation: 0 }, here, None);
//! let mut sink = Pinger::default();
//! while sink.0 != b"ping" {
//!     driver.turn(Nanos::MAX, &mut sink)?;
//! }
//! # Ok::<(), ridgeline_net::DriverError>(())
//! ```
#![forbid(unsafe_code)]

mod connection;
mod driver;
mod socket;
mod stamps;
mod wait;

pub use driver::{EpollConfig, EpollDriver};
pub use wait::EpollWaker;
