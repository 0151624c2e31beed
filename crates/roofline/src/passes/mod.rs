//! The work that is measured: one pass of one component over a fixed load, beside the least pass that
//! does the same. The sections measure these, and so do the benches of `benches/`.
//!
//! Every pass checks its answer: what finds less than there is has no speed.

pub mod inside;
pub mod reading;
pub mod recording;
pub mod ring;
pub mod simulated;
