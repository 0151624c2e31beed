//! TLS 1.2 and 1.3 between a driver and what it carries.
//!
//! What this is: [`Session`], one end of one connection, told the bytes that came and telling what they
//! say and what to send; [`Client`] and [`Server`], which sessions are made of and which share what can
//! be shared: trust, certificates, tickets for resumption. rustls does the cryptography, with ring.
//! Whatever goes wrong becomes a [`TlsError`]: its kind, and cause and remedy in words.
//!
//! What this is not: it holds no socket and reads no clock: whoever makes a [`Client`] says how to get the
//! time. A session keeps only what a read cut: at most one record, or one message of a handshake.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_tls::{Client, ClientOptions, Identity, Scratch, Server, ServerOptions, Trust};
//!
//! let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! let identity = Identity::from_pem(
//!     own.cert.pem().as_bytes(),
//!     own.signing_key.serialize_pem().as_bytes(),
//! )?;
//! let now = || Nanos::from_secs(1_800_000_000);
//! let server = Server::new(identity, ServerOptions::new(now))?;
//! let client = Client::new("localhost", ClientOptions {
//!     trust: Trust::Only(own.cert.pem().into_bytes()),
//!     ..ClientOptions::new(now)
//! })?;
//!
//! let (mut ours, mut theirs) = (client.session()?, server.session()?);
//! let mut scratch = Scratch::default();
//! let (mut there, mut back) = (Vec::new(), Vec::new());
//! ours.begin(&mut there)?;
//! while !(ours.is_ready() && theirs.is_ready()) {
//!     theirs.received(&std::mem::take(&mut there), &mut scratch, &mut back)?;
//!     ours.received(&std::mem::take(&mut back), &mut scratch, &mut there)?;
//! }
//! ours.write(b"GET / HTTP/1.1\r\n\r\n", &mut there)?;
//! theirs.received(&there, &mut scratch, &mut back)?;
//! assert_eq!(scratch.plain(), b"GET / HTTP/1.1\r\n\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod error;
mod identity;
mod server;
mod session;
mod steps;
mod tickets;
mod verify;
mod words;

pub use client::{Client, ClientOptions, Trust, WallClock};
pub use error::{SetupError, TlsError, TlsErrorKind};
pub use identity::Identity;
pub use server::{Server, ServerOptions};
pub use session::{HELD_BYTES_MAX, SESSION_BYTES, Scratch, Session, Version};
