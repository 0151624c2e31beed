//! What a run leaves behind.
//!
//! What this is: [`records`] (one line per request, written while the run goes on).
//!
//! What this is not: a clock, a network or a terminal. It writes files and hands out text; printing
//! is the caller's.
#![forbid(unsafe_code)]

pub mod records;
