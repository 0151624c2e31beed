//! A server of fixed capacity under a rate, below it and above. Below, nothing waits for long. Above, every
//! request is still sent at its time, latency and TTFT grow as a queue's do, and the server is named.

use ridgeline_clock::Nanos;
use ridgeline_engine::{Limits, Load, Record};
use ridgeline_metrics::verdict::{
    self, Evidence, LimitedBy, ShardLoad, Status, VerdictLimits, judge,
};
use ridgeline_metrics::{Arrived, Metric, Phase};
use ridgeline_report::LittlesLaw;
use ridgeline_schedule::{Pattern, ScheduleSpec, Stage};

use crate::world::{Endpoint, MS, Outcome, plan, run};

/// Answers at a time, of 20 ms to the first token and 5 tokens in all: 200 a second.
const PLACES: usize = 8;
const CAPACITY_PER_S: f64 = 200.0;
const REQUESTS: u64 = 2_000;
/// The virtual network's, one way.
const WAY: Nanos = Nanos::from_micros(10);

fn endpoint() -> Endpoint {
    let mut endpoint = Endpoint::new(MS * 20, MS * 5, 5);
    endpoint.places = vec![Nanos::ZERO; PLACES];
    endpoint
}

fn at(pattern: Pattern, times_capacity: f64) -> Outcome {
    let stage = Stage {
        rate_per_s: CAPACITY_PER_S * times_capacity,
        pattern,
        duration: None,
    };
    let load = Load::Open {
        schedule: ScheduleSpec {
            stages: vec![stage],
            seed: 11,
        },
        concurrency_cap: None,
    };
    let mut plan = plan(load, REQUESTS);
    plan.limits = Limits {
        slots: 4096,
        ..Limits::default()
    };
    let mut out = run(plan, endpoint());
    out.records.sort_by_key(|record| record.timeline.submitted);
    out
}

/// When a queue of so many places with one service time serves each arrival: request n begins when it is
/// there, and the one that many places before it is over.
fn begins(arrivals: &[Nanos], service: Nanos) -> Vec<Nanos> {
    let mut begins: Vec<Nanos> = Vec::new();
    for (n, &arrival) in arrivals.iter().enumerate() {
        let earlier = n
            .checked_sub(PLACES)
            .map(|earlier| begins[earlier] + service);
        begins.push(arrival.max(earlier.unwrap_or_default()));
    }
    begins
}

/// What the queue says of a run; checks on the way that the client measured every request of it to the
/// nanosecond.
struct Queue {
    arrivals: Vec<Nanos>,
    waits: Vec<Nanos>,
}

impl Queue {
    fn of(out: &Outcome) -> Self {
        assert_eq!(out.records.len() as u64, REQUESTS);
        let submitted = |record: &Record| record.timeline.submitted.unwrap();
        let arrivals: Vec<Nanos> = out.records.iter().map(|r| submitted(r) + WAY).collect();
        let service = endpoint().service();
        let begins = begins(&arrivals, service);
        for (record, &begin) in out.records.iter().zip(&begins) {
            let timeline = &record.timeline;
            assert_eq!(timeline.first_token, Some(begin + MS * 20 + WAY));
            assert_eq!(timeline.last_token, Some(begin + service + WAY));
        }
        let waits = begins.iter().zip(&arrivals).map(|(&b, &a)| b - a).collect();
        Self { arrivals, waits }
    }

    /// Waits at one place that is as fast as all together (Lindley's recursion). Those at several are never
    /// longer, and shorter by less than what the others are still busy with: (c - 1) / c of an answer.
    fn is_as_one_fast_place(&self) {
        let (service, places) = (endpoint().service(), PLACES as u64);
        let mut fast = Nanos::ZERO;
        let mut before = self.arrivals[0];
        for (&arrival, &wait) in self.arrivals.iter().zip(&self.waits) {
            if arrival > before {
                fast = fast + service / places - (arrival - before);
            }
            before = arrival;
            let less = service / places * (places - 1);
            assert!(fast - less <= wait && wait <= fast, "{wait} {fast}");
        }
    }

    /// N / (X R), N as long as requests were sent, X and R until the last answer.
    fn little(&self) -> f64 {
        let (first, last) = (self.arrivals[0], self.arrivals[self.arrivals.len() - 1]);
        let service = endpoint().service();
        let spans = self.arrivals.iter().zip(&self.waits);
        let ends: Vec<(Nanos, Nanos)> = spans.map(|(&a, &wait)| (a, a + wait + service)).collect();
        let until = |time: Nanos| {
            let spans = ends.iter().map(|&(begin, end)| end.min(time) - begin);
            spans.map(Nanos::as_secs_f64).sum::<f64>() / (time - first).as_secs_f64()
        };
        let end = ends.iter().map(|&(_, end)| end).max().unwrap();
        until(last) / until(end)
    }
}

/// What the verdict is made from, of an engine that had time to spare.
fn judged(out: &Outcome) -> (Status, LimitedBy) {
    let limits = VerdictLimits::default();
    let (result, load) = (&out.result, verdict::Load::Timed { cap: None });
    let known = Evidence::new(&result.collector, load, true, &limits);
    let evidence = Evidence {
        arrived: Arrived {
            scheduled: known.counts.issued + result.never_sent,
            submitted: result.submitted_in_window,
            never_sent: result.never_sent,
        },
        shards: vec![ShardLoad {
            core: None,
            busy_fraction: 0.1,
            longest_stall: Nanos::ZERO,
            stall_cause: None,
        }],
        ..known
    };
    let verdict = judge(&evidence, &limits);
    (verdict.status, verdict.limited_by)
}

/// N / (X R).
fn little(out: &Outcome) -> f64 {
    let collector = &out.result.collector;
    let rate = collector.throughput().unwrap().requests_per_s;
    let latency = out.summary(Metric::Latency).unwrap().mean;
    let law = LittlesLaw::of(collector.effective_concurrency(), rate, latency);
    law.unwrap().ratio
}

fn mean(spans: &[Nanos]) -> f64 {
    spans.iter().map(|span| span.as_secs_f64()).sum::<f64>() / spans.len() as f64
}

/// No hidden cap: whatever the server does, requests start when they are due.
fn is_sent_on_time(out: &Outcome) {
    for record in &out.records {
        let timeline = &record.timeline;
        assert_eq!(timeline.started, timeline.scheduled);
        // A new connection takes a round trip.
        let late = timeline.submitted.unwrap() - timeline.scheduled;
        assert!(late <= WAY * 4, "{late}");
    }
    assert_eq!(out.result.submitted_in_window, REQUESTS);
    assert_eq!(out.result.never_sent, 0);
}

/// What the client says of Little's law is what the queue says, but for the network's ways, which only the
/// client's latencies hold.
fn obeys_littles_law(out: &Outcome, queue: &Queue) {
    let (said, expected) = (little(out), queue.little());
    let ways = (WAY * 4).as_secs_f64() / endpoint().service().as_secs_f64();
    assert!((said - expected).abs() <= ways, "{said} {expected}");
}

#[test]
fn a_stage_beyond_the_capacity_is_named_and_its_neighbour_is_not() {
    let stage = |times: f64| Stage {
        rate_per_s: CAPACITY_PER_S * times,
        pattern: Pattern::Constant,
        duration: Some(Nanos::from_secs(4)),
    };
    let load = Load::Open {
        schedule: ScheduleSpec {
            stages: vec![stage(0.5), stage(1.5)],
            seed: 11,
        },
        concurrency_cap: None,
    };
    let mut plan = plan(load, REQUESTS);
    plan.limits = Limits {
        slots: 4096,
        ..Limits::default()
    };
    let out = run(plan, endpoint());
    let limits = VerdictLimits::default();
    let collector = &out.result.collector;
    let load = verdict::Load::Timed { cap: None };
    let whole = Evidence::new(collector, load, true, &limits);
    let stages = collector.stages();
    let found: Vec<(u64, Status, LimitedBy)> = stages
        .iter()
        .map(|stage| {
            let verdict = judge(&Evidence::of_stage(stage, &whole, &limits), &limits);
            (stage.counts().issued, verdict.status, verdict.limited_by)
        })
        .collect();
    assert_eq!(
        found,
        [
            (400, Status::Valid, LimitedBy::Load),
            (1_200, Status::Valid, LimitedBy::Server)
        ]
    );
    assert_eq!(collector.counts(Phase::Measured).issued, 1_600);
}

#[test]
fn below_its_capacity_a_server_is_no_limit() {
    for times in [0.5, 0.9] {
        for pattern in [Pattern::Constant, Pattern::Poisson] {
            let out = at(pattern, times);
            is_sent_on_time(&out);
            let queue = Queue::of(&out);
            queue.is_as_one_fast_place();
            // Equal gaps and equal times: nobody waits. Random gaps: some do.
            let waited = queue.waits.iter().any(|&wait| wait > Nanos::ZERO);
            assert_eq!(waited, pattern == Pattern::Poisson);
            assert_eq!(judged(&out), (Status::Valid, LimitedBy::Load), "{times}");
            obeys_littles_law(&out, &queue);
        }
    }
}

#[test]
fn above_its_capacity_the_queue_grows_and_the_server_is_named() {
    for pattern in [Pattern::Constant, Pattern::Poisson] {
        for times in [1.1, 1.5, 2.0] {
            let out = at(pattern, times);
            is_sent_on_time(&out);
            let queue = Queue::of(&out);
            queue.is_as_one_fast_place();
            if pattern == Pattern::Constant {
                // Of n requests that come in n / (times C) and are served in n / C the last one waits for
                // the difference, but for the answer it waits for.
                let grown = REQUESTS as f64 / CAPACITY_PER_S * (1.0 - 1.0 / times);
                let last = queue.waits[queue.waits.len() - 1].as_secs_f64();
                let answer = endpoint().service().as_secs_f64();
                assert!((last - grown).abs() <= answer, "{times}: {last} {grown}");
            }
            let verdict = (Status::Valid, LimitedBy::Server);
            assert_eq!(judged(&out), verdict, "{pattern:?} {times}");
            obeys_littles_law(&out, &queue);
            // What is measured from the submission holds the queue, as what is from the schedule does.
            let of = |metric| out.summary(metric).unwrap();
            assert!(of(Metric::Ttft).mean > mean(&queue.waits) * 1e9);
            let apart = of(Metric::TtftFromSchedule).mean - of(Metric::Ttft).mean;
            assert!(apart.abs() <= (WAY * 4).0 as f64);
        }
    }
}

#[test]
fn handing_over_is_told_of_every_answered_request() {
    let out = at(Pattern::Constant, 0.5);
    let send = out.summary(Metric::Send).unwrap();
    assert_eq!(send.count, REQUESTS);
    // The virtual network takes bytes at once.
    assert!(send.max < WAY.0, "{send:?}");
}
