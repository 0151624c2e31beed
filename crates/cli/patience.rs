//! How long parts of a request may take, which requests are given up on purpose, and what becomes of
//! connections.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ridgeline_clock::Nanos;
use ridgeline_engine::{self as engine, Cancel, Connections, Plan, Waits};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::complaint::Complaint;
use crate::config::{BenchConfig, ConnectionsKind};
use crate::shape;
use crate::share::Share;
use crate::span::Span;

/// When a request is given up: `2s`, or `16tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CancelAfter(engine::CancelAfter);

impl FromStr for CancelAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let count = ["tokens", "token", "events", "event"]
            .iter()
            .find_map(|unit| text.strip_suffix(unit));
        let Some(count) = count else {
            let span = text.parse::<Span>().map_err(|error| error.to_string())?;
            return Ok(Self(engine::CancelAfter::Span(span.0)));
        };
        match count.trim().parse() {
            Ok(0) | Err(_) => Err(format!(
                "`{text}` is no number of tokens: write it like 16tokens, from 1 on"
            )),
            Ok(count) => Ok(Self(engine::CancelAfter::Events(count))),
        }
    }
}

impl fmt::Display for CancelAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            engine::CancelAfter::Span(span) => Span(span).fmt(f),
            engine::CancelAfter::Events(count) => write!(f, "{count}tokens"),
        }
    }
}

impl Serialize for CancelAfter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CancelAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(seconds) => seconds.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for CancelAfter {
    fn schema_name() -> Cow<'static, str> {
        "CancelAfter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "description": "When a request is given up: a span (2s; a bare number is seconds), or a number \
                            of content events (16tokens)."
        })
    }
}

/// What `config` says of waiting.
pub(crate) fn waits(config: &BenchConfig) -> Result<Waits, Complaint> {
    let named = [
        ("connect-timeout", config.connect_timeout),
        ("first-token-timeout", config.first_token_timeout),
        ("event-timeout", config.event_timeout),
    ];
    for (name, span) in named {
        if span == Some(Span(Nanos::ZERO)) {
            return Err(Complaint::new(format!(
                "--{name} 0 would let no request succeed; give it a span such as 10s, or leave it out"
            )));
        }
        if span.is_some() && name != "connect-timeout" && config.streaming == Some(false) {
            return Err(Complaint::new(format!(
                "--{name} is for streamed answers, and --no-streaming asks for whole ones: --timeout is the \
                 deadline of those"
            )));
        }
    }
    let span = |of: Option<Span>| of.map(|span| span.0);
    Ok(Waits {
        connect: span(config.connect_timeout),
        first_token: span(config.first_token_timeout),
        event: span(config.event_timeout),
        cancel: cancel(config)?,
    })
}

fn cancel(config: &BenchConfig) -> Result<Option<Cancel>, Complaint> {
    let Some(share) = config.cancel_rate else {
        return match config.cancel_after {
            Some(_) => Err(Complaint::new(
                "--cancel-after says when requests are given up, and not which: add --cancel-rate, the share \
                 of them",
            )),
            None => Ok(None),
        };
    };
    if !(0.0..=1.0).contains(&share) {
        return Err(Complaint::new(format!(
            "--cancel-rate {share}: it is a share of requests, from 0 to 1"
        )));
    }
    let after = config.cancel_after.map(|after| after.0);
    Ok(Some(Cancel {
        share,
        seed: shape::seed(config),
        after: after.unwrap_or(AT_ONCE),
    }))
}

/// When requests are given up of which only the share is named.
const AT_ONCE: engine::CancelAfter = engine::CancelAfter::Span(Nanos::ZERO);

/// What `config` says of connections.
pub(crate) fn connections(config: &BenchConfig) -> Connections {
    match config.connections.unwrap_or(ConnectionsKind::Reuse) {
        ConnectionsKind::Reuse => Connections::Reuse,
        ConnectionsKind::PerRequest => Connections::PerRequest,
        ConnectionsKind::PerSession => Connections::PerSession,
    }
}

/// Writes what was decided into `config`.
pub(crate) fn note(config: &mut BenchConfig) {
    config.connections.get_or_insert(ConnectionsKind::Reuse);
    if config.cancel_rate.is_some() {
        config.cancel_after.get_or_insert(CancelAfter(AT_ONCE));
    }
}

/// In words, after those of the load: `, a connection per request, 10% cancelled after 2s`.
pub(crate) fn describe(plan: &Plan) -> String {
    let mut words = String::new();
    words.push_str(match plan.connections {
        Connections::Reuse => "",
        Connections::PerRequest => ", a connection per request",
        Connections::PerSession => ", a connection per session",
    });
    if let Some(cancel) = plan.waits.cancel {
        let (share, after) = (Share(cancel.share), CancelAfter(cancel.after));
        words.push_str(&format!(", {share} cancelled after {after}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(yaml: &str) -> Result<Waits, String> {
        let config = crate::file::parse(yaml)?;
        waits(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_for_is_waited_for() {
        let seconds = Nanos::from_secs;
        let all = "connect-timeout: 1\nfirst-token-timeout: 2s\nevent-timeout: 3s\ncancel-rate: 0.1\n\
                   cancel-after: 16tokens\nseed: 7\n";
        assert_eq!(
            asked(all),
            Ok(Waits {
                connect: Some(seconds(1)),
                first_token: Some(seconds(2)),
                event: Some(seconds(3)),
                cancel: Some(Cancel {
                    share: 0.1,
                    seed: 7,
                    after: engine::CancelAfter::Events(16),
                }),
            })
        );
        assert_eq!(asked(""), Ok(Waits::default()));
        let at_once = asked("cancel-rate: 1").unwrap().cancel.unwrap();
        assert_eq!(at_once.after, AT_ONCE);
        let config = crate::file::parse(all).unwrap();
        let written = crate::file::text(&config).unwrap();
        assert_eq!(crate::file::parse(&written).unwrap(), config, "{written}");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (yaml, part) in [
            ("cancel-after: 2s", "add --cancel-rate"),
            ("cancel-rate: 1.5", "from 0 to 1"),
            ("cancel-rate: 0.5\ncancel-after: 0tokens", "from 1 on"),
            ("cancel-rate: 0.5\ncancel-after: soon", "line 2"),
            ("connect-timeout: 0", "would let no request succeed"),
            (
                "streaming: false\nevent-timeout: 1s",
                "--event-timeout is for streamed answers",
            ),
            (
                "connections: twice",
                "not one of reuse, per-request, per-session",
            ),
        ] {
            let error = asked(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }
}
