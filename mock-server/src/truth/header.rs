use ridgeline_clock::{Bracket, Nanos, Timebase};
use serde::Serialize;

use super::SCHEMA;

/// The columns of `writes`.
const WRITE_COLUMNS: [&str; 5] = [
    "submitted_ns",
    "due_ns",
    "bytes",
    "tokens",
    "content_events",
];

/// What the first line says.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// What drives the sockets.
    pub(crate) driver: &'static str,
    /// Whether requests are stamped by the kernel.
    pub(crate) rx_timestamps: bool,
    pub(crate) timebase: Timebase,
    /// The server's start.
    pub(crate) start: Nanos,
    /// What the wall clock was then.
    pub(crate) realtime: Bracket,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    server: Program,
    clock: Clock<'a>,
    driver: &'static str,
    rx_timestamps: bool,
    write_columns: [&'static str; 5],
}

#[derive(Serialize)]
struct Program {
    version: &'static str,
}

#[derive(Serialize)]
struct Clock<'a> {
    name: &'static str,
    boot_id: Option<&'a str>,
    time_namespace: Option<&'a str>,
    start_monotonic_ns: u64,
    start_realtime_ns: u64,
    realtime_error_ns: u64,
}

impl Header {
    /// The line, without its end.
    pub(super) fn line(&self) -> String {
        let line = Line {
            schema: SCHEMA,
            server: Program {
                version: env!("CARGO_PKG_VERSION"),
            },
            clock: Clock {
                name: "CLOCK_MONOTONIC",
                boot_id: self.timebase.boot_id.as_deref(),
                time_namespace: self.timebase.time_namespace.as_deref(),
                start_monotonic_ns: self.start.0,
                start_realtime_ns: (self.start + self.realtime.offset).0,
                realtime_error_ns: self.realtime.error.0,
            },
            driver: self.driver,
            rx_timestamps: self.rx_timestamps,
            write_columns: WRITE_COLUMNS,
        };
        serde_json::to_string(&line).expect("texts and numbers have a JSON form")
    }
}
