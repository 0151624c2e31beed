//! Records for tests.

use ridgeline_clock::Nanos;
use ridgeline_engine::{Details, Outcome, Record};
use ridgeline_metrics::{Phase, Timeline, TokenSource, Uncounted};
use ridgeline_wire::exchange::{ErrorKind, Saved};
use ridgeline_wire::openai::Usage;

use super::line::Origin;

/// The start of the run.
pub(super) const START: Nanos = Nanos(1_000_000);

/// Where its lines come from.
pub(super) const ORIGIN: Origin = Origin {
    start: START,
    worker: 5,
};

/// Text that a careless writer trips over.
pub(super) const HOSTILE: &str =
    "quote \" backslash \\ feed \n return \r nul \0 bell \u{7} \u{2028} é 漢 🦀 </script> {\"a\":[";

pub(super) fn success(index: u64) -> Record {
    let at = |ns: u64| Some(START + Nanos(ns));
    Record {
        index,
        sample: 3,
        phase: Phase::Measured,
        shard: 1,
        outcome: Outcome::Ok,
        http_status: Some(200),
        finish_reason: None,
        timeline: Timeline {
            scheduled: START + Nanos(100),
            started: START + Nanos(110),
            connect: None,
            tls: None,
            submitted: at(120),
            first_byte: at(150),
            first_token: at(160),
            first_output: at(160),
            last_token: at(190),
            done: at(200),
        },
        connected: None,
        secured: None,
        usage: Usage {
            input_tokens: Some(128),
            output_tokens: Some(5),
            ..Usage::default()
        },
        token_source: TokenSource::Usage,
        input_counted: None,
        content_events: 5,
        retries: 0,
        harness_delay_max: Nanos(11),
        stamp_width_max: Nanos(13),
        run_id: 42,
        details: None,
    }
}

pub(super) fn hostile(index: u64) -> Record {
    let timeline = Timeline {
        connect: Some(Nanos(5)),
        tls: Some(Nanos(3)),
        submitted: None,
        ..success(index).timeline
    };
    Record {
        phase: Phase::Warmup,
        outcome: Outcome::Error(ErrorKind::HttpStatus),
        http_status: Some(503),
        timeline,
        connected: Some(START + Nanos(115)),
        secured: Some(START + Nanos(118)),
        usage: Usage {
            input_tokens: Some(u32::MAX),
            reasoning_tokens: Some(0),
            ..Usage::default()
        },
        token_source: TokenSource::Events,
        input_counted: Some(7),
        retries: 1,
        details: Some(Box::new(Details {
            message: Some(HOSTILE.into()),
            saved: Some(Box::new(Saved {
                text: HOSTILE.to_owned(),
                reasoning: HOSTILE.to_owned(),
                ..Saved::default()
            })),
            uncounted: Some(Uncounted {
                streamed: true,
                events_in_window: 3,
                done_in_window: false,
                slos_met: true,
            }),
            events_at: Some(vec![START + Nanos(160), START + Nanos(190)]),
        })),
        ..success(index)
    }
}

pub(super) fn cancelled(index: u64) -> Record {
    Record {
        outcome: Outcome::Cancelled,
        http_status: None,
        timeline: Timeline {
            scheduled: START,
            started: START,
            ..Timeline::default()
        },
        token_source: TokenSource::None,
        details: Some(Box::new(Details {
            message: None,
            saved: Some(Box::default()),
            uncounted: None,
            events_at: Some(Vec::new()),
        })),
        ..success(index)
    }
}

/// One of each, in turn.
pub(super) fn any(index: u64) -> Record {
    match index % 3 {
        0 => success(index),
        1 => hostile(index),
        _ => cancelled(index),
    }
}
