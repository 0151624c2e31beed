//! The default driver: the sockets of one core on raw io_uring.
//!
//! What this is: [`UringDriver`], an implementation of [`ridgeline_net::Driver`]. One ring per
//! thread (SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL), sockets as direct descriptors in the ring's
//! own file table, multishot accept and receive into a ring of provided buffers, which are lent to
//! the sink and given back when it returns, and kernel receive stamps mapped to the run's clock.
//!
//! What this is not: a runtime. There are no futures and no tasks, and a completion allocates
//! nothing. Where io_uring is not allowed, [`UringDriver::probe`] says so in one line and the epoll
//! driver takes its place.
//!
//! Needs Linux 6.7 (socket options of direct descriptors); a source address needs 6.11.
//!
//! ```
//! use bytes::Bytes;
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_net::{Close, Closed, Commands, Driver, Peer, Sink, Token};
//! use ridgeline_net_uring::{UringConfig, UringDriver};
//!
//! /// Both ends of an echo in one driver: slot 0 asks, slot 1 answers.
//! #[derive(Default)]
//! struct Echo {
//!     answer: Vec<u8>,
//!     closed: bool,
//! }
//!
//! impl Sink for Echo {
//!     fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
//!         Some(Token { index: 1, generation: 0 })
//!     }
//!     fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}
//!     fn submitted(&mut self, _: Token, _: Nanos) {}
//!     fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
//!     fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
//!         if token.index == 1 {
//!             commands.send(token, bytes.to_vec(), Bytes::new());
//!         } else {
//!             self.answer.extend_from_slice(bytes);
//!             commands.close(token, Close::Fin);
//!         }
//!     }
//!     fn ended(&mut self, commands: &mut Commands, token: Token, _: Arrival) {
//!         commands.close(token, Close::Fin);
//!     }
//!     fn closed(&mut self, _: &mut Commands, token: Token, _: Closed, _: Nanos) {
//!         self.closed |= token.index == 0;
//!     }
//! }
//!
//! if let Err(missing) = UringDriver::probe() {
//!     println!("skipped: {missing}");
//!     return Ok(());
//! }
//! let mut driver = UringDriver::new(UringConfig { rx_timestamps: true, ..UringConfig::new(2) })?;
//! let here = driver.listen(&Peer::Tcp("127.0.0.1:0".parse()?))?;
//! let token = Token { index: 0, generation: 0 };
//! driver.commands().open(token, here, None);
//! driver.commands().send(token, b"hello ".to_vec(), Bytes::from_static(b"ring"));
//! let mut echo = Echo::default();
//! while !echo.closed {
//!     driver.turn(Nanos::MAX, &mut echo)?;
//! }
//! assert_eq!(echo.answer, b"hello ring");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![expect(
    unsafe_code,
    reason = "the kernel reads and writes memory by pointers; see ring.rs"
)]

mod buffers;
mod completions;
mod config;
mod driver;
mod listen;
mod message;
mod ops;
mod orders;
mod probe;
mod ring;
mod slot;
mod turn;
mod waker;

pub use config::UringConfig;
pub use driver::UringDriver;
pub use waker::UringWaker;
