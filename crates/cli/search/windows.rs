//! What a search is told of a run: made from its report and its records.

use ridgeline_clock::Nanos;
use ridgeline_metrics::verdict::{Code, LimitedBy, Status};
use ridgeline_metrics::{Metric, Slo};
use ridgeline_report::Report;
use ridgeline_report::records::RequestTimes;
use ridgeline_search::{Arrival, ClosedWindow, Finished, OpenWindow, Outcome, Tally};

use super::figures::float;

/// What a closed loop of `level` showed.
pub(crate) fn closed(report: &Report, times: &[RequestTimes], level: u32) -> Outcome<ClosedWindow> {
    if let Some(unsound) = unsound(report) {
        return unsound;
    }
    let finished = times.iter().filter(|times| times.succeeded);
    let finished = finished.filter_map(|times| {
        Some(Finished {
            submitted_s: times.timeline.submitted?.as_secs_f64(),
            done_s: times.timeline.done?.as_secs_f64(),
        })
    });
    let last_issue = times.iter().map(|times| times.timeline.started).max();
    let shown = ClosedWindow::new(
        level,
        report.load.effective_concurrency,
        last_issue.unwrap_or(Nanos::ZERO).as_secs_f64(),
        &finished.collect::<Vec<Finished>>(),
    );
    shown.map_or_else(|| too_few(report), Outcome::Sound)
}

/// What an open loop showed of these service levels.
pub(crate) fn open(report: &Report, times: &[RequestTimes], slos: &[Slo]) -> Outcome<OpenWindow> {
    if let Some(unsound) = unsound(report) {
        return unsound;
    }
    let streamed = report.target.streaming;
    let arrivals: Vec<Arrival> = times
        .iter()
        .map(|times| arrival(times, slos, streamed))
        .collect();
    OpenWindow::new(&arrivals).map_or_else(|| too_few(report), Outcome::Sound)
}

/// What requests showed that were sent one at a time.
#[derive(Debug)]
pub(crate) struct Alone {
    /// The mean response time of the successes.
    pub(crate) response_s: Option<f64>,
    /// For each service level, what missed it.
    tallies: Vec<Vec<Tally>>,
}

impl Alone {
    /// The service level that more of them miss than may, for certain.
    pub(crate) fn missed(&self, slos: &[Slo], allowed: &[f64]) -> Option<Slo> {
        let shares = self.tallies.iter().map(|tallies| Tally::share(tallies));
        let mut judged = shares.zip(allowed).zip(slos);
        let missed =
            judged.find(|((share, allowed), _)| share.is_some_and(|share| share.low > **allowed));
        missed.map(|(_, slo)| *slo)
    }
}

/// What a closed loop of one showed of these service levels.
pub(crate) fn alone(report: &Report, times: &[RequestTimes], slos: &[Slo]) -> Alone {
    let streamed = report.target.streaming;
    let arrivals: Vec<Arrival> = times
        .iter()
        .map(|times| arrival(times, slos, streamed))
        .collect();
    let responses: Vec<f64> = arrivals.iter().filter_map(|one| one.response_s).collect();
    let count = float(responses.len() as u64);
    let of = |slo: usize| arrivals.iter().map(|one| one.judged[slo]).collect();
    Alone {
        response_s: (count > 0.0).then(|| responses.iter().sum::<f64>() / count),
        tallies: (0..slos.len()).map(of).collect(),
    }
}

fn too_few<W>(report: &Report) -> Outcome<W> {
    Outcome::Unsound(format!(
        "{} requests succeeded, too few to tell anything",
        report.load.completed
    ))
}

/// Why a run is no bound: it was ended early, it does not show what was asked for, or the client was busy.
fn unsound<W>(report: &Report) -> Option<Outcome<W>> {
    if report.interrupted {
        return Some(Outcome::Aborted);
    }
    let verdict = &report.verdict;
    let is_busy = verdict.limited_by == LimitedBy::Client
        && verdict
            .reasons
            .iter()
            .any(|reason| reason.code == Code::Busy);
    let says = |reason: &&ridgeline_metrics::verdict::Reason| {
        reason.status == Status::Invalid || is_busy && reason.code == Code::Busy
    };
    let reason = verdict.reasons.iter().find(says);
    (verdict.status == Status::Invalid || is_busy).then(|| {
        let why = reason.map_or("the run is invalid", |reason| reason.message.as_str());
        Outcome::Unsound(why.to_owned())
    })
}

fn arrival(times: &RequestTimes, slos: &[Slo], streamed: bool) -> Arrival {
    let timeline = &times.timeline;
    let done = timeline.done.filter(|_| times.succeeded);
    let response = done.zip(timeline.submitted);
    Arrival {
        scheduled_s: timeline.scheduled.as_secs_f64(),
        // Given up, it was in flight to the end.
        ended_s: timeline.done.map_or(f64::INFINITY, Nanos::as_secs_f64),
        response_s: response.map(|(done, submitted)| (done - submitted).as_secs_f64()),
        judged: slos
            .iter()
            .map(|slo| judged(times, slo, streamed))
            .collect(),
    }
}

/// How a request fares with a service level. A failure misses it, as it does in goodput.
fn judged(times: &RequestTimes, slo: &Slo, streamed: bool) -> Tally {
    let timeline = &times.timeline;
    if !times.succeeded {
        return Tally::one(true);
    }
    let span = match slo.metric {
        Metric::Ttft => timeline.ttft(),
        Metric::TtftFromSchedule => timeline.ttft_from_schedule(),
        Metric::Ttfo => timeline.ttfo(),
        Metric::LatencyFromSchedule => timeline.latency_from_schedule(streamed),
        Metric::Itl => return gaps(times, slo.limit, tokens_per_event(times)),
        Metric::Icl => return gaps(times, slo.limit, 1.0),
        Metric::Tpot => {
            let tokens = times.output_tokens.unwrap_or(times.content_events);
            // An answer that is too short to have one meets it.
            let tpot_ns = timeline.tpot(tokens, None);
            return Tally::one(tpot_ns.is_some_and(|ns| ns > float(slo.limit.0)));
        }
        _ => timeline.latency(streamed),
    };
    Tally::one(span.is_none_or(|span| span > slo.limit))
}

/// How many tokens an event brings in the mean of an answer; 1 where nobody counted them.
fn tokens_per_event(times: &RequestTimes) -> f64 {
    let (tokens, events) = (times.output_tokens.unwrap_or(0), times.content_events);
    if tokens == 0 || events == 0 {
        return 1.0;
    }
    f64::from(tokens) / f64::from(events)
}

/// The gaps between content events, each spread over so many tokens.
fn gaps(times: &RequestTimes, limit: Nanos, tokens_per_event: f64) -> Tally {
    let misses = |pair: &&[Nanos]| {
        let gap = pair[1] - pair[0];
        float(gap.0) > float(limit.0) * tokens_per_event
    };
    let pairs = times.events_at.windows(2);
    Tally {
        missed: pairs.clone().filter(misses).count() as u64,
        judged: pairs.count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use ridgeline_metrics::Timeline;

    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn times() -> RequestTimes {
        RequestTimes {
            timeline: Timeline {
                scheduled: MS,
                started: MS * 2,
                submitted: Some(MS * 2),
                first_token: Some(MS * 22),
                first_output: Some(MS * 22),
                last_token: Some(MS * 52),
                done: Some(MS * 53),
                ..Timeline::default()
            },
            succeeded: true,
            content_events: 4,
            output_tokens: Some(8),
            events_at: vec![MS * 22, MS * 27, MS * 32, MS * 52],
        }
    }

    #[test]
    fn each_metric_is_judged_by_its_own_definition() {
        let judged = |slo: &str| judged(&times(), &slo.parse().unwrap(), true);
        for (slo, missed, all) in [
            ("ttft:p90=20ms", 0, 1),
            ("ttft:p90=19ms", 1, 1),
            ("ttft_from_schedule:p90=20ms", 1, 1),
            ("ttfo:p90=19ms", 1, 1),
            ("latency:p90=50ms", 0, 1),
            ("latency_from_schedule:p90=50ms", 1, 1),
            // 30 ms for the seven tokens after the first.
            ("tpot:p90=5ms", 0, 1),
            ("tpot:p90=4ms", 1, 1),
            // Gaps of 5, 5 and 20 ms, two tokens an event.
            ("icl:p90=5ms", 1, 3),
            ("itl:p90=3ms", 1, 3),
            ("itl:p90=2ms", 3, 3),
        ] {
            assert_eq!(
                judged(slo),
                Tally {
                    missed,
                    judged: all
                },
                "{slo}"
            );
        }
        let failed = RequestTimes {
            succeeded: false,
            ..times()
        };
        let slo = "icl:p90=1s".parse().unwrap();
        assert_eq!(super::judged(&failed, &slo, true), Tally::one(true));
    }

    #[test]
    fn who_was_given_up_stays_in_flight() {
        let mut given_up = times();
        given_up.succeeded = false;
        given_up.timeline.done = None;
        let arrival = arrival(&given_up, &[], true);
        assert_eq!((arrival.ended_s, arrival.response_s), (f64::INFINITY, None));
    }
}
