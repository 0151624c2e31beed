//! Streams held open at one event a second each: how many, and what each takes.

use std::io;

use ridgeline_clock::Nanos;
use ridgeline_perf::payload;
use ridgeline_perf::versus::{Arm, Sample};
use serde_json::Value;

use crate::sections::turns::{self, Tally, percent, words};
use crate::{Ceiling, Context, Measured, Row, Section, Unit};

/// From one event of a stream to its next, unless runs are to be shorter.
const GAP: Nanos = Nanos::from_secs(1);
/// Events that come later than a gap after the one before by more than this part of a gap are late.
const LATE_PART: u64 = 20;
/// The bare client has one ring: what its table holds is what it can be asked for.
const BARE_MAX: u32 = 10_000;
/// Streams that one second brings, or more, where they are opened as fast as it goes.
const OPENED_PER_S: u32 = 5_000;

/// More and more streams, until something stops them.
///
/// # Errors
/// When a program can't be started or ends without a reason that is known.
pub(crate) fn run(context: &Context, told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let counts: &[u32] = if context.quick {
        &[1_000, 5_000]
    } else {
        &[1_000, 5_000, 10_000, 25_000, 50_000]
    };
    climb(context, counts, told)
}

fn climb(context: &Context, counts: &[u32], told: &mut dyn FnMut(Row)) -> io::Result<()> {
    let mut resident: Vec<(u32, u64)> = Vec::new();
    for (index, &count) in counts.iter().enumerate() {
        let plan = Plan::of(context, count);
        let held = hold(context, plan)?;
        let is_last = index + 1 == counts.len();
        told(plan.row(&held, is_last));
        let Held::All { own, .. } = &held else {
            break;
        };
        let largest = own.samples.iter().map(|sample| sample.resident_bytes_max);
        resident.extend(largest.max().map(|bytes| (count, bytes)));
    }
    told(each(&resident));
    Ok(())
}

/// What became of so many streams.
enum Held {
    All {
        own: Tally,
        /// The bare client with as many.
        bare: Option<Tally>,
    },
    /// Why not.
    Stopped(String),
}

fn hold(context: &Context, plan: Plan) -> io::Result<Held> {
    let served = turns::serve(context, &plan.server())?;
    let bare = if plan.count <= BARE_MAX {
        let mut tally = Tally::default();
        let arm = turns::bare_client(context, &served, &plan.bare());
        turns::run_once(context, Some(&served), &arm, &mut tally)?;
        Some(tally)
    } else {
        None
    };
    let mut own = Tally::default();
    let arm: Arm = turns::bench(context, &served, true, &plan.bench());
    if let Err(error) = turns::run_once(context, Some(&served), &arm, &mut own) {
        return stopped_by(&error.to_string()).map_or(Err(error), |why| Ok(Held::Stopped(why)));
    }
    Ok(match plan.late(&own) {
        Some(why) => Held::Stopped(why),
        None => Held::All { own, bare },
    })
}

/// What runs have in common.
#[derive(Clone, Copy, Debug)]
struct Plan {
    count: u32,
    /// Content events of a stream.
    events: u32,
    /// From one to the next.
    gap: Nanos,
}

impl Plan {
    /// Streams that last until all are open, and some seconds more.
    fn of(context: &Context, count: u32) -> Self {
        let held = if context.quick { 3 } else { 5 };
        Self {
            count,
            events: held + count / OPENED_PER_S,
            gap: context.run_length.map_or(GAP, |run| run.min(GAP)),
        }
    }

    fn server(self) -> Vec<String> {
        let connections = (self.count + self.count / 16 + 64).to_string();
        let (events, gap) = (self.events.to_string(), (self.gap.0 / 1_000).to_string());
        words(&[
            "--mode",
            "timed",
            "--itl-us",
            &gap,
            "--events",
            &events,
            "--connections-max",
            &connections,
        ])
    }

    fn bare(self) -> Vec<String> {
        let count = self.count.to_string();
        words(&[
            "--mode",
            "stream",
            "--connections",
            &count,
            "--requests",
            &count,
        ])
    }

    fn bench(self) -> Vec<String> {
        let count = self.count.to_string();
        words(&[
            "--prompt",
            payload::PROMPT,
            "--concurrency",
            &count,
            "--request-count",
            &count,
            "--drain-timeout",
            "120s",
        ])
    }

    /// How long a stream takes: one gap between any two of its writes.
    fn stream(self) -> Nanos {
        let writes = u64::from(self.events) + payload::EVENTS_AROUND;
        self.gap * (writes - 1)
    }

    /// Why the run does not show that all streams were open at once and served in time, if so.
    fn late(self, own: &Tally) -> Option<String> {
        let opening = own.elapsed - self.stream();
        if opening >= self.stream() {
            return Some(format!(
                "lag: the first streams were over before the last was open, {opening} later"
            ));
        }
        let Some(gap) = own.samples.first().and_then(gap_p99) else {
            return Some("lag: how far apart the events came is not known".to_owned());
        };
        (gap > self.gap + self.gap / LATE_PART).then(|| {
            format!(
                "lag: one event of a hundred came {gap} after the one before instead of {}; the \
                 client's core was {} busy, the server's {}",
                self.gap,
                percent(own.client_busy()),
                percent(own.server_busy())
            )
        })
    }
}

/// The 99th percentile of the gaps between content events.
fn gap_p99(sample: &Sample) -> Option<Nanos> {
    let report = sample.report.as_ref()?;
    report
        .pointer("/icl_ns/p99")
        .and_then(Value::as_u64)
        .map(Nanos)
}

/// What ran out, by the words that the program ended with; none when it is not that.
fn stopped_by(error: &str) -> Option<String> {
    let known = [
        ("local ports", "ports"),
        ("descriptors", "descriptors"),
        ("of memory", "memory"),
        ("requests failed", "failures"),
    ];
    let (_, what) = known.iter().find(|(part, _)| error.contains(part))?;
    let words = error.rsplit("error: ").next().unwrap_or(error);
    Some(format!("{what}: {words}"))
}

impl Plan {
    fn row(self, held: &Held, is_last: bool) -> Row {
        let count = self.count;
        let name = format!("{count} open streams, an event of each every {}", self.gap);
        let row = Row::new(Section::Streams, name, Unit::Streams).at("streams", f64::from(count));
        let (own, bare) = match held {
            Held::Stopped(why) => return row.limited_by(format!("not held: {why}")),
            Held::All { own, bare } => (own, bare),
        };
        let (client, server) = (percent(own.client_busy()), percent(own.server_busy()));
        let words = if is_last {
            "nothing that was reached: no more were tried"
        } else {
            "nothing yet"
        };
        row.measured(Measured {
            achieved: f64::from(count),
            cpu_ns: Some(own.cpu_ns_per_request()),
            ceiling: bare.as_ref().map(|bare| Ceiling {
                name: "bare client".to_owned(),
                value: f64::from(count),
                cpu_ns: Some(bare.cpu_ns_per_request()),
            }),
        })
        .limited_by(format!(
            "{words}; the client's core {client} busy, the server's {server}"
        ))
    }
}

/// What one more stream takes, from the fewest to the most that were held.
#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
fn each(resident: &[(u32, u64)]) -> Row {
    let row = Row::new(
        Section::Streams,
        "resident memory of an open stream",
        Unit::BytesEach,
    );
    let (Some(&(few, small)), Some(&(many, large))) = (resident.first(), resident.last()) else {
        return row.limited_by("not measured: no streams were held");
    };
    if few == many {
        return row.limited_by(format!("not measured: nothing but {few} streams was held"));
    }
    let each = large.saturating_sub(small) as f64 / f64::from(many - few);
    row.at("streams", f64::from(many))
        .measured(Measured {
            achieved: each,
            cpu_ns: None,
            ceiling: None,
        })
        .limited_by(format!(
            "what is allocated for a request in flight and its connection: {many} streams against {few}"
        ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own(elapsed: Nanos, gap: Nanos) -> Tally {
        Tally {
            requests: 1_000,
            elapsed,
            samples: vec![Sample {
                report: Some(json!({ "icl_ns": { "p99": gap.0 } })),
                ..Sample::default()
            }],
            ..Tally::default()
        }
    }

    const PLAN: Plan = Plan {
        count: 1_000,
        events: 4,
        gap: GAP,
    };

    #[test]
    fn streams_are_held_when_all_are_open_at_once_and_in_time() {
        let seconds = Nanos::from_secs;
        assert_eq!(PLAN.stream(), seconds(7));
        assert_eq!(PLAN.late(&own(seconds(9), seconds(1))), None);
        let late = PLAN.late(&own(seconds(9), Nanos::from_millis(1_100)));
        assert!(late.unwrap().starts_with("lag: one event of a hundred"));
        let slow = PLAN.late(&own(seconds(14), seconds(1)));
        assert!(slow.unwrap().contains("before the last was open"));
    }

    #[test]
    fn what_ran_out_is_named() {
        let error = "\"ridgeline\": exit status: 2: error: 50000 requests in flight need as many local \
                     ports, and there are 28232";
        let ports = stopped_by(error).unwrap();
        assert!(
            ports.starts_with("ports: 50000 requests in flight"),
            "{ports}"
        );
        for (error, what) in [
            ("error: each shard needs 9 descriptors", "descriptors"),
            ("error: the run needs 9 GB of memory", "memory"),
            ("ridgeline: 3 requests failed", "failures"),
        ] {
            assert!(stopped_by(error).unwrap().starts_with(what));
        }
        assert_eq!(stopped_by("no such file"), None);
    }

    #[test]
    fn a_stream_takes_what_more_of_them_take_more() {
        let row = each(&[
            (1_000, 50_000_000),
            (5_000, 60_000_000),
            (11_000, 80_000_000),
        ]);
        assert_eq!(row.measured.unwrap().achieved, 3_000.0);
        assert!(each(&[]).measured.is_none());
        assert!(each(&[(1_000, 50)]).limited_by.contains("nothing but 1000"));
    }

    #[test]
    fn rows_say_what_was_held_and_what_stopped_it() {
        let bare = Some(Tally::default());
        let held = Held::All {
            own: own(Nanos(1), GAP),
            bare,
        };
        assert_eq!(PLAN.row(&held, false).ratio(), Some(1.0));
        assert!(
            PLAN.row(&held, true)
                .limited_by
                .contains("no more were tried")
        );
        let row = PLAN.row(&Held::Stopped("ports: few".to_owned()), false);
        assert!(row.measured.is_none());
        assert_eq!(row.limited_by, "not held: ports: few");
    }
}
