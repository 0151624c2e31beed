use ridgeline_clock::Nanos;
use ridgeline_metrics::{Fate, Finished, Phase, Timeline, TokenSource, Uncounted};
use ridgeline_wire::exchange::Exchange;
use ridgeline_wire::openai::FinishReason;

use crate::record::{Details, Outcome, Record};
use crate::requests::Requests;
use crate::shard::Shard;
use crate::slot::{self, Slot};

/// The end of a request: into the numbers, into the records, and its slot is free.
impl Shard {
    /// A request is over: into the numbers and the records, and its slot is free.
    pub(crate) fn finish(&mut self, slot_index: u32, reaped: Nanos, cancelled: bool) {
        self.deadlines.remove(slot_index);
        self.timers.disarm_all(slot_index);
        let slot = &mut self.slots[slot_index as usize];
        let answer = slot.exchange.answer();
        let timeline = &mut slot.timeline;
        timeline.first_byte = answer.first_byte;
        timeline.first_token = answer.first_token;
        timeline.first_output = answer.first_output;
        timeline.last_token = answer.last_token;
        timeline.done = if cancelled { None } else { answer.done };
        let outcome = match &answer.failure {
            _ if cancelled => Outcome::Cancelled,
            Some(failure) => Outcome::Error(failure.kind),
            None => Outcome::Ok,
        };
        if let (Some(first), Some(last)) = (answer.first_token, answer.last_token)
            && answer.content_events > 1
        {
            let gap = (last - first) / u64::from(answer.content_events - 1);
            self.gap = Some(self.gap.map_or(gap, |mean| mean - mean / 8 + gap / 8));
        }
        let facts = slot_facts(slot, &self.requests, self.plan.count_later);
        let finished = finished(&slot.exchange, facts, outcome);
        let counts = Counts {
            source: finished.output().1,
            input: finished.input_counted,
            uncounted: self
                .collector
                .finished(&finished, &mut slot.seen.gaps, &mut self.gap_pool),
        };
        if slot.phase == Phase::Measured {
            let end = slot.timeline.done.unwrap_or(reaped);
            self.last_done = self.last_done.max(end);
            if slot.timeline.submitted.is_some() {
                self.occupy(reaped, false);
            }
        }
        if let Some(feed) = self.state.source.feed() {
            feed.release(slot_index);
        }
        self.push_record(slot_index, outcome, counts);
        let endpoint = self.slots[slot_index as usize].endpoint;
        self.endpoints.get_mut(endpoint).in_flight -= 1;
        let slot = &mut self.slots[slot_index as usize];
        slot.state = slot::State::Free;
        slot.connection = None;
        slot.free_since = reaped;
        self.free_slots.push_back(slot_index);
        self.in_flight -= 1;
    }

    /// A measured request was submitted, or is over.
    pub(crate) fn occupy(&mut self, now: Nanos, more: bool) {
        self.occupied = if more {
            self.occupied + 1
        } else {
            self.occupied - 1
        };
        self.collector.concurrency(now, self.occupied);
    }

    fn push_record(&mut self, slot_index: u32, outcome: Outcome, counts: Counts) {
        let Some(records) = &mut self.records else {
            return;
        };
        let slot = &mut self.slots[slot_index as usize];
        let answer = slot.exchange.answer();
        let message = answer
            .failure
            .as_ref()
            .map(|failure| failure.message.clone());
        let (http_status, finish_reason) = (answer.http_status, answer.finish_reason);
        let (usage, content_events) = (answer.usage, answer.content_events);
        let saved = slot.exchange.take_saved();
        let events_at = slot.seen.events_at.as_mut().map(std::mem::take);
        // Without its text there is nothing to count.
        let uncounted = counts.uncounted.filter(|_| saved.is_some());
        let varies = message.is_some() || saved.is_some() || events_at.is_some();
        let record = Record {
            index: slot.index,
            sample: slot.sample,
            phase: slot.phase,
            shard: self.k,
            outcome,
            http_status,
            finish_reason,
            timeline: slot.timeline,
            connected: slot.connected,
            secured: slot.secured,
            usage: usage.unwrap_or_default(),
            token_source: counts.source,
            input_counted: counts.input,
            content_events,
            retries: slot.retries,
            harness_delay_max: slot.seen.harness_delay_max,
            stamp_width_max: slot.seen.stamp_width_max,
            run_id: self.plan.run_id,
            details: varies.then(|| {
                Box::new(Details {
                    message,
                    saved,
                    uncounted,
                    events_at,
                })
            }),
        };
        if records.push(record).is_err() {
            self.records_dropped += 1;
        }
    }
}

/// What a record says of tokens beside the server's usage.
struct Counts {
    source: TokenSource,
    input: Option<u32>,
    uncounted: Option<Uncounted>,
}

/// What is known of a request beside the answer.
struct Facts {
    input_counted: Option<u32>,
    /// Whether what the server does not count can be counted after the run.
    can_count: bool,
    timeline: Timeline,
    phase: Phase,
    events_at_stop: Option<u32>,
    pool_wait: Nanos,
    cap_wait: Nanos,
    send: Option<Nanos>,
    retries: u32,
    given_up: bool,
    endpoint: u16,
}

fn slot_facts(slot: &Slot, requests: &Requests, can_count: bool) -> Facts {
    Facts {
        input_counted: requests.input_tokens(slot.sample),
        can_count,
        timeline: slot.timeline,
        phase: slot.phase,
        events_at_stop: slot.events_at_stop,
        pool_wait: slot.pool_wait,
        cap_wait: slot.cap_wait,
        send: slot.send,
        retries: slot.retries,
        given_up: slot.given_up,
        endpoint: slot.endpoint,
    }
}

/// What the numbers need to know of a request that is over.
fn finished(exchange: &Exchange, facts: Facts, outcome: Outcome) -> Finished<'_> {
    let answer = exchange.answer();
    let usage = answer.usage.unwrap_or_default();
    let fate = match outcome {
        Outcome::Ok => Fate::Ok,
        Outcome::Error(kind) => Fate::Failed(kind.as_str()),
        Outcome::Cancelled if facts.given_up => Fate::GivenUp,
        Outcome::Cancelled => Fate::Cancelled,
    };
    Finished {
        timeline: facts.timeline,
        finish_reason: answer.finish_reason.as_ref().map(FinishReason::as_str),
        input_tokens: usage.input_tokens,
        input_counted: facts
            .input_counted
            .filter(|_| usage.input_tokens.is_none() && facts.phase == Phase::Measured),
        output_tokens: usage.output_tokens,
        token_source: usage
            .output_tokens
            .map_or(TokenSource::None, |_| TokenSource::Usage),
        count_later: facts.can_count && usage.output_tokens.is_none() && answer.content_events > 0,
        content_events: answer.content_events,
        first_event_tokens: answer.first_event_tokens,
        events_in_window: facts.events_at_stop.unwrap_or(answer.content_events),
        received_bytes: answer.received_bytes,
        pool_wait: facts.pool_wait,
        cap_wait: facts.cap_wait,
        // A send that was dropped with its connection is told like one that was done.
        send: facts.send.filter(|_| answer.first_byte.is_some()),
        retries: facts.retries,
        endpoint: facts.endpoint,
        ..Finished::new(facts.phase, fate, answer.streamed)
    }
}
