//! Scale-out over machines: a coordinator, three workers and a server, each in a network namespace with a
//! name, a boot and a clock of its own; cables that are pulled, and a way that takes long.
//!
//! Skipped, and said so, without root or `ip`. Every wait has a limit, and so has every load: some
//! hundred requests, all of them between namespaces that lead nowhere else.
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod network;
mod program;
mod relay;
mod runs;
mod world;
