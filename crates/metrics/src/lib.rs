//! Timestamps to numbers: what a request's times mean, pooled over a run, and whether to trust them.
//!
//! What this is: the [`Timeline`] of a request with every formula and its source; the [`Collector`]
//! of a shard, which pools finished requests into [`Distribution`]s and merges with those of other
//! shards; SLOs and goodput ([`Slo`], [`Goodput`]); and the verdict ([`verdict::judge`]), which says
//! from the [`verdict::Evidence`] whether the numbers are the server's or the client's.
//!
//! What this is not: a clock (every time is an argument), a network, a file format or a table. It
//! keeps no request: exact percentiles come from records ([`Convention::of_sorted`]).
//!
//! Only requests scheduled in the measured phase count, and only successes enter the summaries;
//! failures are in the errors and are misses of goodput. What judges the client itself (schedule lag,
//! waits) is taken of all of them.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_metrics::{Collector, Fate, Finished, GapLog, GapPool, Metric, Phase, Stopped};
//! use ridgeline_metrics::Timeline;
//!
//! let (mut collector, mut pool) = (Collector::new(&["ttft:p90=30ms".parse()?]), GapPool::new(8));
//! collector.begin(Nanos::ZERO, 1);
//! collector.issued(Phase::Measured);
//! let mut log = GapLog::new();
//! log.begin(&mut pool, Phase::Measured);
//! for ms in [20, 25, 30] {
//!     collector.content(&mut log, &mut pool, Nanos::from_millis(ms), 1);
//! }
//! let timeline = Timeline {
//!     submitted: Some(Nanos::ZERO),
//!     first_token: Some(Nanos::from_millis(20)),
//!     last_token: Some(Nanos::from_millis(30)),
//!     done: Some(Nanos::from_millis(31)),
//!     ..Timeline::default()
//! };
//! let finished = Finished {
//!     timeline,
//!     content_events: log.events(),
//!     events_in_window: log.events(),
//!     ..Finished::new(Phase::Measured, Fate::Ok, true)
//! };
//! collector.finished(&finished, &mut log, &mut pool);
//! collector.stop(Nanos::from_millis(40), Stopped::Duration);
//!
//! let itl = collector.distribution(Metric::Itl).summary().expect("two gaps");
//! assert_eq!((itl.count, itl.min, itl.max), (2, 5_000_000, 5_000_000));
//! assert_eq!(collector.throughput().expect("40 ms").requests_per_s, 25.0);
//! assert!(!collector.goodput().expect("an SLO").failed());
//! assert!(collector.conserved(0));
//! # Ok::<(), ridgeline_metrics::SloError>(())
//! ```
#![forbid(unsafe_code)]

mod collector;
mod concurrency;
mod distribution;
mod endpoints;
mod finished;
mod gaps;
mod goodput;
mod metric;
mod ns;
mod outputs;
mod percentile;
mod slo;
mod stages;
mod tally;
mod throughput;
mod timeline;
mod trend;
pub mod verdict;

pub use collector::{Arrived, Collector, Counts, Tokens, TokensBySource};
pub use distribution::{Distribution, SPAN_MAX, Summary};
pub use endpoints::PerEndpoint;
pub use finished::{Fate, Finished, Phase, TokenSource};
pub use gaps::{GapLog, GapPool};
pub use goodput::{Attainment, Goodput};
pub use metric::Metric;
pub use outputs::{Recount, Uncounted};
pub use percentile::{Convention, Percentile, PercentileError};
pub use slo::{Slo, SloError};
pub use stages::StageTotals;
pub use tally::Tally;
pub use throughput::{Stopped, Throughput, Volume};
pub use timeline::Timeline;
pub use trend::{Growth, Trend};
