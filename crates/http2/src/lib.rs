//! HTTP/2 between a driver and exchanges: one connection, many streams. RFC 9113.
//!
//! What this is: [`Connection`], a client's end, told the bytes that came and telling the parts of
//! responses (the same [`Part`](ridgeline_wire::http1::Part)s as HTTP/1.1's decoder emits), stream by stream,
//! and the bytes to send; [`HeadTemplate`], which writes the heads of requests. The `h2` crate speaks the
//! protocol, on memory, polled by hand. What a server did not begin with is told apart from what failed, and
//! so are waits for a window, on either side.
//!
//! What this is not: a client. It opens nothing, waits for nothing, and nobody runs a task: there is no
//! runtime. Unlike HTTP/1.1 it allocates for each request (h2's streams and header maps do), and copies what
//! comes twice: into memory that h2 reads, and into h2's own, from which data is lent. A DATA frame is told
//! when it is whole.
//!
//! Its owner does, each time bytes came, or a request was made or given up: tells the events of
//! [`Connection::next`] to the exchanges, by [`StreamId::place`]; then, unless a send is under way, hands what
//! [`Connection::take_output`] gives to the driver as one send, whose submission is that of all requests in it.
//! While [`Connection::held_bytes`] are many it stops reading. A stream that is given up is cancelled, and the
//! connection goes on; one that was not processed is asked again, here while there is
//! [room](Connection::room), or elsewhere.
//!
//! ```
//! use bytes::Bytes;
//! use ridgeline_http2::{Connection, Event, HeadTemplate, Limits};
//! use ridgeline_wire::http1::{Method, Part, RequestOptions};
//!
//! let template = HeadTemplate::new(&RequestOptions {
//!     method: Method::Post,
//!     target: "/v1/completions",
//!     host: "127.0.0.1:8000",
//!     accept: "text/event-stream",
//!     api_key: None,
//!     id_prefix: "",
//!     headers: &[],
//! }, false)?;
//! let mut connection = Connection::new(&Limits::default());
//! let stream = connection.request(template.head(1, 2), Bytes::from_static(b"{}"))?;
//! let mut out = Vec::new();
//! assert!(connection.take_output(&mut out) && out.starts_with(b"PRI * HTTP/2.0\r\n\r\n"));
//!
//! // Settings, nothing in them; `:status: 200` on stream 1; then `ok`, and the end of the stream.
//! connection.received(b"\0\0\0\x04\0\0\0\0\0");
//! connection.received(b"\0\0\x01\x01\x04\0\0\0\x01\x88");
//! connection.received(b"\0\0\x02\0\x01\0\0\0\x01ok");
//! let mut body = Vec::new();
//! while let Some(event) = connection.next() {
//!     match event {
//!         Event::Part { part: Part::Head(head), .. } => assert_eq!(head.status, 200),
//!         Event::Part { part: Part::Data(data), .. } => body.extend_from_slice(data),
//!         Event::Part { stream: which, part: Part::End } => assert_eq!(which, stream),
//!         Event::Aborted { abort, .. } => panic!("{}", abort.message),
//!     }
//! }
//! assert_eq!(body, b"ok");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod answer;
mod connection;
mod event;
mod frames;
mod heads;
mod limits;
mod pipe;
mod place;
mod request;
#[cfg(test)]
mod tests;
mod wakes;
mod windows;

pub use answer::{Abort, AbortKind, Ended};
pub use connection::Connection;
pub use event::{Counters, Event, Refused, StreamId};
pub use limits::Limits;
pub use request::{HeadTemplate, RequestHead};
