use std::collections::{BTreeMap, HashMap};

use super::clock::{ClockKind, difference};
use super::records::Record;
use super::{
    Clock, JOINED_SCHEMA, Joined, Matching, Origin, Spread, TrueRequest, TruthError, TruthReader,
};

/// A join under way: all records are there, and the truth comes request by request.
#[derive(Debug)]
pub(super) struct Join {
    sides: HashMap<String, Side>,
    clock: Option<Clock>,
    /// Whether the run asked for streamed answers.
    streamed: bool,
    /// Ids that no record has, and the first of them.
    strangers: u64,
    stranger: Option<String>,
    without_id: u64,
}

/// A record and what the truth has of it.
#[derive(Debug)]
struct Side {
    record: Record,
    attempts: Vec<Attempt>,
}

/// One time that the server was sent the request.
#[derive(Debug)]
struct Attempt {
    arrival_ns: u64,
    fault: Option<String>,
    /// Of a request that was sent once: what there is to compare.
    found: Differences,
}

/// Client minus server, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Differences {
    ttft: Vec<i64>,
    gap: Vec<i64>,
    /// Of events that came in reads of their own.
    ttft_alone: Vec<i64>,
    gap_alone: Vec<i64>,
    latency: Vec<i64>,
    request_one_way: Vec<i64>,
    first_token_one_way: Vec<i64>,
    lateness: Vec<i64>,
    events_differ: bool,
    without_event_ns: bool,
}

impl Join {
    pub(super) fn new(
        records: HashMap<String, Record>,
        clock: Option<Clock>,
        streamed: bool,
    ) -> Self {
        let side = |record| Side {
            record,
            attempts: Vec::new(),
        };
        Self {
            sides: records
                .into_iter()
                .map(|(name, record)| (name, side(record)))
                .collect(),
            clock,
            streamed,
            strangers: 0,
            stranger: None,
            without_id: 0,
        }
    }

    /// Takes the next request of the truth file.
    pub(super) fn add(&mut self, request: &TrueRequest<'_>) {
        let Some(name) = request.request_id.as_deref() else {
            self.without_id += 1;
            return;
        };
        let Some(side) = self.sides.get_mut(name) else {
            self.strangers += 1;
            self.stranger.get_or_insert_with(|| name.to_owned());
            return;
        };
        let offset = self.clock.as_ref().map(|clock| clock.offset_ns);
        // Of a request that was sent again, or is there twice, nobody knows which times belong together.
        let found = if side.record.is_comparable() && side.attempts.is_empty() {
            Differences::between(&side.record, request, offset, self.streamed)
        } else {
            Differences::default()
        };
        side.attempts.push(Attempt {
            arrival_ns: request.arrival_ns,
            fault: request.fault.as_deref().map(str::to_owned),
            found,
        });
    }

    /// All of the truth was taken.
    pub(super) fn finish(self, truth: &TruthReader) -> Result<Joined, TruthError> {
        let mut requests = Matching {
            records: self.sides.len() as u64,
            only_in_truth: self.strangers,
            without_id: self.without_id,
            ..Matching::default()
        };
        let mut sum = Differences::default();
        let mut faults = BTreeMap::new();
        let mut some_record = None;
        for (name, mut side) in self.sides {
            if side.attempts.is_empty() {
                requests.only_in_records += 1;
                some_record = some_record.min(Some(name.clone())).or(Some(name));
                continue;
            }
            side.count(&mut requests, &mut faults);
            if let ([attempt], true) = (&mut *side.attempts, side.record.is_comparable()) {
                requests.compared += 1;
                requests.events_differ += u64::from(attempt.found.events_differ);
                requests.without_event_ns += u64::from(attempt.found.without_event_ns);
                sum.append(&mut attempt.found);
            }
        }
        if requests.matched == 0 {
            return Err(TruthError::Strangers {
                path: truth.path().to_owned(),
                lines: truth.requests(),
                record: some_record.unwrap_or_default(),
                truth: self.stranger.unwrap_or_else(|| "without an id".to_owned()),
            });
        }
        let mut joined = Joined {
            schema: JOINED_SCHEMA.to_owned(),
            truth: Origin::of(truth),
            clock: self.clock,
            requests,
            ttft_error_ns: Spread::of(&mut sum.ttft),
            gap_error_ns: Spread::of(&mut sum.gap),
            ttft_alone_error_ns: Spread::of(&mut sum.ttft_alone),
            gap_alone_error_ns: Spread::of(&mut sum.gap_alone),
            latency_error_ns: Spread::of(&mut sum.latency),
            request_one_way_ns: Spread::of(&mut sum.request_one_way),
            first_token_one_way_ns: Spread::of(&mut sum.first_token_one_way),
            write_lateness_ns: Spread::of(&mut sum.lateness),
            faults,
            notes: Vec::new(),
        };
        joined.notes = notes(&joined, truth, self.streamed);
        Ok(joined)
    }
}

impl Record {
    /// Whether its times say what one answer of the server looked like from here.
    fn is_comparable(&self) -> bool {
        self.measured && self.retries == 0 && self.outcome == "ok"
    }
}

impl Side {
    fn count(
        &mut self,
        requests: &mut Matching,
        faults: &mut BTreeMap<String, BTreeMap<String, u64>>,
    ) {
        requests.matched += 1;
        if self.attempts.len() > self.record.retries as usize + 1 {
            requests.ambiguous += 1;
        } else if self.record.retries > 0 {
            requests.sent_again += 1;
        }
        // Lines stand in the order in which answers ended.
        self.attempts.sort_by_key(|attempt| attempt.arrival_ns);
        let last = self.attempts.len() - 1;
        for (place, attempt) in self.attempts.iter().enumerate() {
            let fault = attempt.fault.as_deref().unwrap_or("none");
            let recorded = if place == last {
                &self.record.outcome
            } else {
                "sent_again"
            };
            let row = faults.entry(fault.to_owned()).or_default();
            *row.entry(recorded.to_owned()).or_default() += 1;
        }
    }
}

impl Differences {
    /// `offset`: what to add to the server's times to get the client's, where that is known.
    fn between(
        record: &Record,
        request: &TrueRequest<'_>,
        offset: Option<i64>,
        streamed: bool,
    ) -> Self {
        let mut found = Self::default();
        let writes = &request.writes;
        let with_tokens = writes.iter().filter(|write| write.tokens > 0);
        found.lateness.extend(with_tokens.filter_map(|write| {
            let due = write.due_ns?;
            Some(difference(write.submitted_ns, due))
        }));
        let Some(submitted) = record.submitted_ns else {
            return found;
        };
        let one_way = |from: i64, to: i64| to.saturating_sub(from);
        if let Some(offset) = offset {
            let arrival = signed(request.arrival_ns).saturating_add(offset);
            found.request_one_way = vec![one_way(signed(submitted), arrival)];
        }
        let mut content = writes.iter().filter(|write| write.content_events > 0);
        let Some(first) = content.next() else {
            found.events_differ = record.content_events > 0;
            return found;
        };
        let last = content.next_back().unwrap_or(first);
        if let Some(at) = record.first_token_ns {
            if streamed {
                let server = difference(first.submitted_ns, request.arrival_ns);
                found.ttft = vec![difference(at, submitted).saturating_sub(server)];
            }
            if let Some(offset) = offset {
                let write = signed(first.submitted_ns).saturating_add(offset);
                found.first_token_one_way = vec![one_way(write, signed(at))];
            }
        }
        let events: u64 = writes.iter().map(|write| write.content_events).sum();
        if events != record.content_events {
            found.events_differ = true;
            return found;
        }
        let end = if streamed {
            record.last_token_ns
        } else {
            record.done_ns
        };
        if let Some(end) = end {
            let server = difference(last.submitted_ns, request.arrival_ns);
            found.latency = vec![difference(end, submitted).saturating_sub(server)];
        }
        match &record.event_ns {
            Some(arrivals) if arrivals.len() as u64 == events => {
                found.gap = gaps(arrivals, request);
                found.alone(arrivals);
            }
            _ => found.without_event_ns = true,
        }
        found
    }

    /// Of what was found, what is of events that came in reads of their own: events of one read share an
    /// arrival.
    fn alone(&mut self, arrivals: &[u64]) {
        let is_alone = |place: usize| {
            let at = arrivals.get(place);
            let next = arrivals.get(place + 1);
            let before = place.checked_sub(1).and_then(|place| arrivals.get(place));
            at.is_some() && at != next && at != before
        };
        if is_alone(0) {
            self.ttft_alone.clone_from(&self.ttft);
        }
        let pairs = self.gap.iter().enumerate();
        let both = pairs.filter(|(place, _)| is_alone(*place) && is_alone(place + 1));
        self.gap_alone = both.map(|(_, gap)| *gap).collect();
    }

    fn append(&mut self, other: &mut Self) {
        self.ttft_alone.append(&mut other.ttft_alone);
        self.gap_alone.append(&mut other.gap_alone);
        self.ttft.append(&mut other.ttft);
        self.gap.append(&mut other.gap);
        self.latency.append(&mut other.latency);
        self.request_one_way.append(&mut other.request_one_way);
        self.first_token_one_way
            .append(&mut other.first_token_one_way);
        self.lateness.append(&mut other.lateness);
    }
}

/// The client's gap less the server's, of every two events in a row. There are as many arrivals as the
/// writes have content events.
fn gaps(arrivals: &[u64], request: &TrueRequest<'_>) -> Vec<i64> {
    let writes = request.writes.iter().flat_map(|write| {
        let events = usize::try_from(write.content_events).unwrap_or(usize::MAX);
        // Not more than there are arrivals: their number was compared.
        std::iter::repeat_n(write.submitted_ns, events)
    });
    let pairs: Vec<(u64, u64)> = arrivals.iter().copied().zip(writes).collect();
    let gap = |pair: &[(u64, u64)]| {
        let (client, server) = (
            difference(pair[1].0, pair[0].0),
            difference(pair[1].1, pair[0].1),
        );
        client.saturating_sub(server)
    };
    pairs.windows(2).map(gap).collect()
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Origin {
    fn of(truth: &TruthReader) -> Self {
        let (header, end) = (truth.header(), truth.end());
        Self {
            file: truth.path().display().to_string(),
            server_version: header.server.version.clone(),
            driver: header.driver.clone(),
            rx_timestamps: header.rx_timestamps,
            lines: truth.requests(),
            dropped: end.map(|end| end.dropped),
            unfinished: end.map(|end| end.unfinished),
        }
    }
}

/// What is missing, and why.
fn notes(joined: &Joined, truth: &TruthReader, streamed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(text);
    let requests = &joined.requests;
    match truth.end() {
        None => note(format!(
            "the truth file has no end{}: the server was killed, or goes on; what it had not written \
             yet is missing",
            if truth.is_cut() {
                ", and its last line is cut"
            } else {
                ""
            }
        )),
        Some(end) if end.dropped > 0 => note(format!(
            "{} requests have no line in the truth file: its writer did not keep up, or could not write",
            end.dropped
        )),
        Some(_) => {}
    }
    match &joined.clock {
        None => note(
            "no times one way: the folder does not tell the clock of its run (it has no report.json, \
             or one of an earlier version)"
                .to_owned(),
        ),
        Some(clock) if clock.kind == ClockKind::Realtime => note(
            "client and server do not share a boot: times one way go by their wall clocks, and are \
             wrong by as much as those differ"
                .to_owned(),
        ),
        Some(_) => {
            let negative = [joined.request_one_way_ns, joined.first_token_one_way_ns]
                .iter()
                .flatten()
                .map(|spread| spread.negative)
                .sum::<u64>();
            if negative > 0 {
                note(format!(
                    "{negative} times one way are below zero on one clock: stamps are wrong by as much"
                ));
            }
        }
    }
    if requests.sent_again > 0 {
        note(format!(
            "{} requests were sent again: their times are left out",
            requests.sent_again
        ));
    }
    if requests.ambiguous > 0 {
        note(format!(
            "{} ids have more lines in the truth file than attempts: their times are left out",
            requests.ambiguous
        ));
    }
    if requests.events_differ > 0 {
        note(format!(
            "{} answers had other numbers of content events at the client: their gaps and latency are \
             left out",
            requests.events_differ
        ));
    }
    if streamed && requests.without_event_ns > 0 {
        note(format!(
            "no gaps of {} answers: their records have no event_ns; run with --save-events",
            requests.without_event_ns
        ));
    }
    notes
}
