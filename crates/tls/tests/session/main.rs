//! Sessions against rustls's own connections, which nobody here wrote, and against one another: however
//! bytes are cut, whatever is wrong with a certificate, and whatever a peer sends.
#![expect(clippy::unwrap_used, reason = "a test")]

mod bounds;
mod certificates;
mod ends;
mod foreign;
mod hostile;
mod identities;
mod resumption;
mod splits;
