//! Parsers of the kernel's files. Each takes the text of one and answers with what it understands of it;
//! what is missing, cut or strange is `None` or left out.

mod cgroup;
mod cores;
mod net;
mod thread;

pub use cgroup::{Throttling, folders, throttling};
pub use cores::{CoreTicks, cores};
pub use net::{NetCounts, net_counts};
pub use thread::{Sched, Stat, Switches, schedstat, stat, switches};
