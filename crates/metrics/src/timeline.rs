use ridgeline_clock::Nanos;

/// When the things of one request happened, on the run's clock.
///
/// The formulas below are the definitions; each names its source and where others differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When it was to start. Open loop: by the schedule, never by a completion. Closed loop: when
    /// the previous completion of the slot was reaped. Offline: the start of the run.
    pub scheduled: Nanos,
    /// The first action for it: a connect or a send.
    pub started: Nanos,
    /// The clock read just before its bytes were handed to the kernel (the first attempt's).
    pub submitted: Option<Nanos>,
    /// A *span*: how long a new connection took, when one was needed.
    pub connect: Option<Nanos>,
    /// A *span*: how long the TLS handshake of that connection took, after it was up.
    pub tls: Option<Nanos>,
    /// Arrival of the first response byte.
    pub first_byte: Option<Nanos>,
    /// Arrival of the first event with non-empty text, reasoning or tool-call delta.
    pub first_token: Option<Nanos>,
    /// The same, reasoning excluded.
    pub first_output: Option<Nanos>,
    /// Arrival of the last event with non-empty text, reasoning or tool-call delta.
    pub last_token: Option<Nanos>,
    /// The end of the response.
    pub done: Option<Nanos>,
}

impl Timeline {
    /// Latency: `last_token - submitted`; not streamed: `done - submitted`.
    ///
    /// As aiperf's `request_latency` and vllm bench's E2EL. inference-perf and guidellm end at the
    /// end of the response, which a usage chunk, `[DONE]` and the closing of the framing move. Absent
    /// for a stream without any content event.
    #[must_use]
    pub fn latency(&self, streamed: bool) -> Option<Nanos> {
        Some(self.end(streamed)? - self.submitted?)
    }

    /// The same end, counted from the scheduled time: what a user who could not wait for the client
    /// would have seen. As wrk2's corrected latency; k6, oha and most others leave it out
    /// (coordinated omission).
    #[must_use]
    pub fn latency_from_schedule(&self, streamed: bool) -> Option<Nanos> {
        self.submitted?;
        Some(self.end(streamed)? - self.scheduled)
    }

    /// TTFT, time to first token: `first_token - submitted`.
    ///
    /// As aiperf and inference-perf. vllm bench takes the first chunk with choices, which may carry a
    /// role and no text. Only of streamed requests.
    #[must_use]
    pub fn ttft(&self) -> Option<Nanos> {
        Some(self.first_token? - self.submitted?)
    }

    /// TTFT from the scheduled time.
    #[must_use]
    pub fn ttft_from_schedule(&self) -> Option<Nanos> {
        self.submitted?;
        Some(self.first_token? - self.scheduled)
    }

    /// TTFO, time to first output: `first_output - submitted`, reasoning excluded. As aiperf's
    /// `time_to_first_output_token`.
    #[must_use]
    pub fn ttfo(&self) -> Option<Nanos> {
        Some(self.first_output? - self.submitted?)
    }

    /// TPOT, time per output token, ns:
    /// `(last_token - first_token) / (output_tokens - first_event_tokens)`, where the tokens of the
    /// first event count as 1 when unknown.
    ///
    /// As MLPerf endpoints, which leave out the whole first chunk; with one token in the first event
    /// the same as inference-perf and vllm bench, `/ (n - 1)`. genai-bench and vllm bench take
    /// `(latency - TTFT)`; guidellm's TPOT includes the first token and divides by n; inference-perf's
    /// NTPOT is `latency / n`. Absent below 2 tokens, and when the first event held them all.
    #[must_use]
    pub fn tpot(&self, output_tokens: u32, first_event_tokens: Option<u32>) -> Option<f64> {
        if output_tokens < 2 {
            return None;
        }
        let span = self.last_token? - self.first_token?;
        let after_first = output_tokens.saturating_sub(first_event_tokens.unwrap_or(1));
        (after_first > 0).then(|| span.0 as f64 / f64::from(after_first))
    }

    /// Schedule lag: `started - scheduled`. Always the client's fault, never the server's. As
    /// inference-perf's `schedule_delay` and guidellm's `request_dispatch_delay`.
    #[must_use]
    pub fn schedule_lag(&self) -> Nanos {
        self.started - self.scheduled
    }

    fn end(&self, streamed: bool) -> Option<Nanos> {
        if streamed { self.last_token } else { self.done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Timeline = Timeline {
        scheduled: Nanos(100),
        started: Nanos(130),
        submitted: Some(Nanos(150)),
        connect: Some(Nanos(15)),
        tls: None,
        first_byte: Some(Nanos(900)),
        first_token: Some(Nanos(1_000)),
        first_output: Some(Nanos(1_400)),
        last_token: Some(Nanos(3_000)),
        done: Some(Nanos(3_500)),
    };

    #[test]
    fn each_span_has_its_ends() {
        assert_eq!(FULL.latency(true), Some(Nanos(2_850)));
        assert_eq!(FULL.latency(false), Some(Nanos(3_350)));
        assert_eq!(FULL.latency_from_schedule(true), Some(Nanos(2_900)));
        assert_eq!(FULL.ttft(), Some(Nanos(850)));
        assert_eq!(FULL.ttft_from_schedule(), Some(Nanos(900)));
        assert_eq!(FULL.ttfo(), Some(Nanos(1_250)));
        assert_eq!(FULL.schedule_lag(), Nanos(30));
    }

    #[test]
    fn tpot_leaves_out_the_tokens_of_the_first_event() {
        assert_eq!(FULL.tpot(11, None), Some(200.0));
        assert_eq!(FULL.tpot(11, Some(1)), Some(200.0));
        assert_eq!(FULL.tpot(11, Some(3)), Some(250.0));
        assert_eq!(FULL.tpot(4, None), Some(2_000.0 / 3.0));
        assert_eq!(FULL.tpot(2, None), Some(2_000.0));
        assert_eq!(FULL.tpot(1, None), None);
        assert_eq!(FULL.tpot(0, Some(0)), None);
        assert_eq!(FULL.tpot(5, Some(5)), None, "all in the first event");
        assert_eq!(FULL.tpot(5, Some(6)), None, "a server that miscounts");
    }

    #[test]
    fn what_did_not_happen_has_no_span() {
        let waiting = Timeline {
            scheduled: Nanos(1),
            started: Nanos(2),
            ..Timeline::default()
        };
        assert_eq!(waiting.latency(true), None);
        assert_eq!(waiting.latency_from_schedule(false), None);
        assert_eq!(waiting.ttft(), None);
        assert_eq!(waiting.tpot(9, None), None);
        let no_content = Timeline {
            first_token: None,
            last_token: None,
            ..FULL
        };
        assert_eq!((no_content.latency(true), no_content.ttft()), (None, None));
        let reasoning_only = Timeline {
            first_output: None,
            ..FULL
        };
        assert_eq!(reasoning_only.ttfo(), None);
    }
}
