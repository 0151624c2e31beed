//! The sockets of one core on monoio, for comparison with the default driver.
//!
//! What this is: [`MonoioDriver`], a [`Driver`](ridgeline_net::Driver) that owns a monoio runtime. A turn is three short
//! visits to it: one that applies orders, one that ends when a task has left something, one that tells it.
//! Tasks that are woken in one visit run at the beginning of the next, so that a turn that waits enters the kernel once.
//!
//! What this is not: the fastest way to drive io_uring. monoio knows no multishot operations and no provided buffers:
//! each read is an operation of its own, into a buffer that its connection holds all the while. What else differs from
//! the ring stands in [`ridgeline_net_tasks`]. Two things are not as monoio has them:
//!
//! - deadlines: its timers round up to milliseconds. A `timerfd` that a task polls is exact, at the cost of
//!   a system call for each deadline that is nearer than the one before;
//! - wake-ups: those of monoio (its feature `sync`) take a queue of wakers and an eventfd; a pair of sockets does.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
//! use ridgeline_net_monoio::{MonoioDriver, TasksConfig};
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
//! let mut driver = match MonoioDriver::new(TasksConfig::default()) {
//!     Ok(driver) => driver,
//!     Err(missing) => {
//!         println!("skipped: {missing}");
//!         return Ok(());
//!     }
//! };
//! let here = driver.listen(&Peer::Tcp(([127, 0, 0, 1], 0).into()))?;
//! driver.commands().open(Token { index: 0, generation: 0 }, here, None);
//! let mut sink = Pinger::default();
//! while sink.0 != b"ping" {
//!     driver.turn(Nanos::MAX, &mut sink)?;
//! }
//! # Ok::<(), ridgeline_net::DriverError>(())
//! ```
#![forbid(unsafe_code)]

mod driver;
mod socket;
mod timer;

pub use driver::MonoioDriver;
pub use ridgeline_net_tasks::{TasksConfig, TasksWaker};
