//! A run of several workers: processes that are started here, or that wait on other machines.

mod brief;
mod children;
mod coordinate;
mod link;
mod names;
mod outcome;
mod token;
mod workers;

pub(crate) use coordinate::drive;
pub(crate) use link::{Router, number, refuse_open, router};
pub(crate) use token::token;
pub(crate) use workers::Workers;

use crate::headroom;

/// This program, as the ends of a run name it to one another.
pub(crate) fn revision() -> String {
    let program = headroom::program();
    match program.revision {
        Some(revision) => format!("{} ({revision})", program.version),
        None => program.version,
    }
}

/// This host's name; empty where it tells none.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| String::new(), |name| name.trim().to_owned())
}
