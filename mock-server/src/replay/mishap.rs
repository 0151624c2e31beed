use crate::fault::{Fault, Kind};

/// How a recorded answer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mishap {
    kind: &'static str,
    /// The response's, if it had one.
    status: Option<u16>,
    /// Content events that had come.
    events: u32,
    /// A byte of the response had come.
    has_byte: bool,
}

/// The kinds of error that records have.
const KINDS: [&str; 19] = [
    "connect",
    "connect_timeout",
    "tls",
    "dns",
    "send",
    "reset",
    "truncated",
    "timeout",
    "http_status",
    "in_band",
    "http_protocol",
    "sse_protocol",
    "json",
    "empty",
    "oversize",
    "certificate",
    "tls_truncated",
    "first_token_timeout",
    "event_timeout",
];

impl Mishap {
    /// `None`: records have no such kind of error.
    pub(super) fn new(
        kind: &str,
        status: Option<u16>,
        events: u32,
        has_byte: bool,
    ) -> Option<Self> {
        let kind = KINDS.into_iter().find(|known| *known == kind)?;
        Some(Self {
            kind,
            status,
            events,
            has_byte,
        })
    }

    /// The fault that does the same to a stream, or to a whole answer.
    pub(super) fn fault(&self, stream: bool) -> Option<Fault> {
        let at = if stream { self.events } else { 0 };
        let name = match self.kind {
            "http_status" => {
                let status = self.status.filter(|status| (300..=599).contains(status));
                format!("status-{}", status.unwrap_or(500))
            }
            "timeout" | "connect_timeout" | "first_token_timeout" | "event_timeout" => {
                match (at, self.has_byte && stream) {
                    (0, false) => "stall-before-head".to_owned(),
                    (0, true) => "stall-after-head".to_owned(),
                    _ => "stall-after-event".to_owned(),
                }
            }
            "truncated" | "tls_truncated" => "fin-mid-chunk".to_owned(),
            "in_band" => "error-event".to_owned(),
            "http_protocol" if at > 0 => "chunk-size-garbled".to_owned(),
            "http_protocol" => "not-http".to_owned(),
            "sse_protocol" => "html".to_owned(),
            "json" => "json-invalid".to_owned(),
            "empty" => "zero-tokens".to_owned(),
            "oversize" => "event-oversize".to_owned(),
            _ => "reset-before-head".to_owned(),
        };
        let (kind, _) = Kind::of(&name)?;
        Some(Fault {
            at,
            ..Fault::new(kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_fault_that_streams_and_whole_answers_can_have() {
        for kind in KINDS {
            for events in [0, 3] {
                for has_byte in [false, true] {
                    let mishap = Mishap::new(kind, None, events, has_byte).unwrap();
                    for stream in [false, true] {
                        let fault = mishap.fault(stream).unwrap();
                        assert!(fault.kind.applies(stream), "{kind} {events} {stream}");
                    }
                }
            }
        }
        assert_eq!(Mishap::new("gone", None, 0, false), None);
    }

    #[test]
    fn faults_are_those_of_the_table() {
        for (kind, status, events, has_byte, stream, whole) in [
            (
                "http_status",
                Some(429),
                0,
                true,
                "status-429",
                "status-429",
            ),
            (
                "http_status",
                Some(204),
                0,
                true,
                "status-500",
                "status-500",
            ),
            (
                "timeout",
                None,
                2,
                true,
                "stall-after-event",
                "stall-before-head",
            ),
            (
                "timeout",
                None,
                0,
                true,
                "stall-after-head",
                "stall-before-head",
            ),
            (
                "timeout",
                None,
                0,
                false,
                "stall-before-head",
                "stall-before-head",
            ),
            (
                "reset",
                None,
                0,
                false,
                "reset-before-head",
                "reset-before-head",
            ),
            ("truncated", None, 2, true, "fin-mid-chunk", "fin-mid-chunk"),
            (
                "http_protocol",
                None,
                2,
                true,
                "chunk-size-garbled",
                "not-http",
            ),
        ] {
            let mishap = Mishap::new(kind, status, events, has_byte).unwrap();
            for (is_stream, name) in [(true, stream), (false, whole)] {
                let fault = mishap.fault(is_stream).unwrap();
                assert_eq!(fault.kind.to_string(), name, "{kind}");
                assert_eq!(fault.at, if is_stream { events } else { 0 });
            }
        }
    }
}
