//! The sockets of one core on glommio, for comparison with the default driver.
//!
//! What this is: [`GlommioDriver`], a [`Driver`](ridgeline_net::Driver) that owns a glommio executor. A turn is one run of
//! it, which ends when a task has left something, or glommio's timer fires.
//!
//! What this is not: glommio as a program would use it that gave itself to its loop. A run begins and ends with what
//! glommio does around every wait (three rings, two timers, a look at other threads), and a turn is one. glommio
//! tries a read or a write by a system call, and waits in the ring only when that would block. What else differs from
//! the ring stands in [`ridgeline_net_tasks`].
//!
//! glommio wants 512 KiB of locked memory (`ulimit -l`), and starts one thread of its own for each driver.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
//! use ridgeline_net_glommio::{GlommioDriver, TasksConfig};
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
//! let mut driver = match GlommioDriver::new(TasksConfig::default()) {
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

pub use driver::GlommioDriver;
pub use ridgeline_net_tasks::{TasksConfig, TasksWaker};
