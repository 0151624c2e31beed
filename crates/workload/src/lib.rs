//! What a request says.
//!
//! What this is: a run asks the samples of a [`Dataset`] in an [`Order`], and [`request::body`]
//! makes each one the JSON body of a request. Everything here is a function of its inputs and of
//! the run's seed: the same on every shard, process and machine.
//!
//! What this is not: the HTTP head (`wire`), the time at which a request starts (`schedule`), or a
//! download of data sets or tokenizers. Nothing here touches a network.
//!
//! ```
//! use ridgeline_workload::{BodyOptions, Order, OutputLength, Sample, request};
//!
//! let samples = [Sample::prompt("What is a load test?"), Sample::prompt("And a benchmark?")];
//! let options = BodyOptions {
//!     model: "mock".to_owned(),
//!     streaming: true,
//!     output: Some(OutputLength::AtMost(64)),
//!     ..BodyOptions::default()
//! };
//! let sample = Order::Sequential.sample_of(3, 2);
//! let body = request::body(&samples[sample as usize], &options)?;
//! assert!(body.starts_with(br#"{"model":"mock","messages":[{"role":"user","content":"And a "#));
//! # Ok::<(), ridgeline_workload::WorkloadError>(())
//! ```

#![forbid(unsafe_code)]

pub mod request;

mod draw;
mod error;
mod lines;
mod load;
mod order;
mod pieces;
mod read;
mod sample;
mod sharegpt;
mod synthetic;
mod table;
mod tokenizer;
mod words;

pub use error::WorkloadError;
pub use load::{Format, LoadOptions, Source, load};
pub use order::Order;
pub use request::{BodyOptions, Endpoint, Sampling};
pub use sample::{Dataset, Fields, Input, OutputLength, Sample};
pub use synthetic::{Generator, LENGTH_MAX, Length, Synthetic};
pub use tokenizer::{BUILTIN_NAMES, Builtin, Tokenizer};
