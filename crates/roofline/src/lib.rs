//! Component rooflines: what the client of this machine can do, each figure beside the physical limit
//! measured in the same run.
//!
//! What this is: [`sections`] measure one component each and tell [`Row`]s; a [`Run`] has them do it one
//! after another; a [`Roofline`] is what was found, for programs (`roofline.json`), for a terminal
//! ([`table`]) and as a page with pictures ([`page`]). A [`Profile`] keeps the ceilings for later:
//! [`headroom`] says how much of them a run used, and [`plan`] how many cores and hosts a load needs.
//! What is measured without sockets stands in [`passes`], over the responses of [`streams`]: the benches
//! measure the same.
//!
//! What this is not: a judge of a commit (that is the gate of `cargo xtask perf-gate`), or of a
//! server (that is `ridgeline bench`).
//!
//! ```
//! use ridgeline_roofline::{Ceiling, Measured, Row, Section, Unit};
//! let row = Row::new(Section::Scanner, "1 token an event", Unit::BytesPerS)
//!     .at("tokens_per_event", 1.0)
//!     .measured(Measured {
//!         achieved: 5e9,
//!         cpu_ns: Some(20.0),
//!         ceiling: Some(Ceiling { name: "memchr pass".into(), value: 20e9, cpu_ns: Some(5.0) }),
//!     })
//!     .limited_by("the core: the scan is one thread's work");
//! assert_eq!(row.ratio(), Some(0.25));
//! assert_eq!(row.cpu_ratio(), Some(4.0));
//! ```
#![forbid(unsafe_code)]

mod context;
mod document;
mod headline;
pub mod headroom;
mod interleave;
mod page;
pub mod passes;
pub mod pipe;
pub mod plan;
mod plot;
mod profile;
pub mod promise;
mod row;
mod run;
#[cfg(test)]
mod samples;
pub mod sections;
pub mod streams;
pub mod table;
mod words;

pub use crate::context::Context;
pub use crate::document::{Cores, DocumentError, Origin, PAGE, ROOFLINE, Roofline, SCHEMA};
pub use crate::headline::{EVENTS_PER_WRITE, Headline, Peak, SAFE_SHARE};
pub use crate::page::page;
pub use crate::profile::{Profile, host, profiles};
pub use crate::row::{Ceiling, Measured, Row, Unit};
pub use crate::run::{Found, Interrupt, Run, SectionRun, Told};
pub use crate::sections::Section;
