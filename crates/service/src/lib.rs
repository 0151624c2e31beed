//! The engine as a service: programs in any language send queries, and get first tokens and results.
//!
//! What this is: the [`protocol`] (MessagePack, described byte by byte there), [`Service`], which
//! joins two ends of any transport with the feeds of the engine's shards, and the bounds of all that
//! ([`Limits`]).
//!
//! What this is not: a command line, a socket or a shard. It knows of no HTTP but the heads of requests.
//!
//! Every query that is taken has exactly one result; everything else is answered with an error. What
//! can't be taken yet is not read, so that the client's own queue fills and stops it.
//!
//! ```
//! use ridgeline_service::protocol::{Batch, BodyFrame, Inward, QueryFrame, read_inward};
//!
//! let mut batch = Batch::default();
//! batch.push(&QueryFrame {
//!     id: 7,
//!     due_ns: 0,
//!     endpoint: None,
//!     stream: true,
//!     text: false,
//!     body: BodyFrame::Whole(b"{}"),
//! });
//! let message = batch.into_message();
//! let Ok(Inward::Queries(mut queries)) = read_inward(&message) else { panic!("a batch") };
//! assert_eq!(queries.next().unwrap()?.id, 7);
//! # Ok::<(), ridgeline_service::protocol::Trouble>(())
//! ```
#![forbid(unsafe_code)]

mod bodies;
mod heads;
mod intake;
mod limits;
mod outbox;
pub mod protocol;
mod serve;
mod shared;
mod templates;
#[cfg(test)]
mod tests;

pub use heads::{HeadOptions, Origin};
pub use limits::Limits;
pub use serve::{Options, Served, Service, Stop};

/// What keeps a service from being one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Its requests can't begin as they are to.
    #[error(transparent)]
    Head(#[from] ridgeline_wire::http1::TemplateError),
    /// One of its ends can't be had, or can't go on.
    #[error(transparent)]
    Transport(#[from] ridgeline_transport::TransportError),
    /// Its shards can't go on.
    #[error(transparent)]
    Engine(#[from] ridgeline_engine::EngineError),
    /// A thread could not be started.
    #[error("cannot start a thread of the service: {0}")]
    Thread(std::io::Error),
    /// A thread ended by a fault of the program.
    #[error("a thread of the service stopped by an internal fault; please report it")]
    Panicked,
}
