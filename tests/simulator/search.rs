use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ridgeline_clock::Nanos;
use ridgeline_engine::Record;
use ridgeline_net::sim::{Actions, SimConfig, SimPeer};
use ridgeline_schedule::{Gamma, Source};
use ridgeline_search::{
    Arrival, ClosedWindow, Ending, Finished, Knee, KneeOptions, MaxRate, MaxRateOptions,
    OpenWindow, Outcome, Tally,
};

use crate::world::{self, Endpoint, MS, closed, constant, plan, run_on};

const TOKENS: u32 = 4;
const ITL: Nanos = Nanos::from_millis(10);
const TTFT: Nanos = Nanos::from_millis(70);
/// Of a request that does not wait: 100 ms.
const SERVICE_S: f64 = 0.1;

/// An endpoint with so many places: who finds none free waits in a queue.
#[derive(Debug)]
struct Queue {
    endpoint: Endpoint,
    free: BinaryHeap<Reverse<Nanos>>,
    times: Source,
    spread: Gamma,
}

impl Queue {
    /// First tokens take [`TTFT`] in the mean, with a tenth of deviation.
    fn new(places: usize, seed: u64) -> Self {
        Self {
            endpoint: Endpoint::new(TTFT, ITL, TOKENS),
            free: vec![Reverse(Nanos::ZERO); places].into(),
            times: Source::new(seed, 0),
            spread: Gamma::new(100.0),
        }
    }
}

impl SimPeer for Queue {
    fn on_accept(&mut self, connection: u32, actions: &mut Actions) {
        self.endpoint.on_accept(connection, actions);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        if !self.endpoint.takes(connection, bytes) {
            return;
        }
        let Reverse(free) = self.free.pop().unwrap();
        let wait = free.max(actions.now()) - actions.now();
        let drawn = TTFT.as_secs_f64() * self.times.gamma(&self.spread);
        let ttft = wait + Nanos::from_secs_f64(drawn);
        let whole = ttft + ITL * u64::from(TOKENS - 1);
        self.free.push(Reverse(actions.now() + whole));
        self.endpoint.answer(ttft, actions);
    }
}

fn network(seed: u64) -> SimConfig {
    SimConfig {
        seed,
        ..SimConfig::default()
    }
}

fn finished(record: &Record) -> Finished {
    Finished {
        submitted_s: record.timeline.submitted.unwrap().as_secs_f64(),
        done_s: record.timeline.done.unwrap().as_secs_f64(),
    }
}

fn last_issue_s(records: &[Record]) -> f64 {
    let started = records.iter().map(|record| record.timeline.started);
    started.max().unwrap().as_secs_f64()
}

#[test]
fn the_knee_of_a_queue_is_found_in_every_seed() {
    for seed in 0..10 {
        let mut knee = Knee::new(KneeOptions::up_to(512));
        let mut windows = 0;
        while let Some(window) = knee.next() {
            windows += 1;
            let queue = Queue::new(48, seed << 32 | windows);
            let out = run_on(
                network(seed),
                plan(closed(window.level), window.requests),
                queue,
            );
            let all: Vec<Finished> = out.records.iter().map(finished).collect();
            let in_flight = out.result.collector.effective_concurrency();
            let shown =
                ClosedWindow::new(window.level, in_flight, last_issue_s(&out.records), &all);
            knee.tell(Outcome::Sound(shown.unwrap()));
        }
        let found = knee.finding();
        assert_eq!(found.ending, Ending::Found);
        let level = f64::from(found.knee.unwrap());
        assert!((level / 48.0 - 1.0).abs() <= 0.05, "seed {seed}: {found:?}");
        let most = found.throughput_max_per_s.unwrap() * SERVICE_S / 48.0;
        assert!((most - 1.0).abs() < 0.03, "seed {seed}: {most}");
        for rung in &found.rungs {
            assert!(
                rung.little_off.unwrap().abs() < 0.1,
                "seed {seed}: {rung:?}"
            );
        }
    }
}

fn arrival(record: &Record, limit: Nanos) -> Arrival {
    let timeline = &record.timeline;
    let done = timeline.done.unwrap();
    Arrival {
        scheduled_s: timeline.scheduled.as_secs_f64(),
        ended_s: done.as_secs_f64(),
        response_s: Some((done - timeline.submitted.unwrap()).as_secs_f64()),
        judged: vec![Tally::one(timeline.ttft().unwrap() > limit)],
    }
}

#[test]
fn the_highest_rate_of_a_queue_is_found_in_every_seed() {
    // Arrivals are even: hardly anybody waits until all places are taken.
    let capacity = 16.0 / SERVICE_S;
    for seed in 0..10 {
        let mut search = MaxRate::new(MaxRateOptions {
            window_min_s: 10.0 * SERVICE_S,
            ..MaxRateOptions::new(capacity / 4.0, vec![0.1])
        });
        let mut windows = 0;
        while let Some(probe) = search.next() {
            windows += 1;
            let mut plan = plan(constant(probe.rate_per_s, None), probe.requests);
            plan.limits.slots = 4_096;
            let queue = Queue::new(16, seed << 32 | windows);
            let out: world::Outcome = run_on(network(seed), plan, queue);
            let arrivals: Vec<Arrival> = out
                .records
                .iter()
                .map(|record| arrival(record, MS * 300))
                .collect();
            search.tell(Outcome::Sound(OpenWindow::new(&arrivals).unwrap()));
        }
        let found = search.finding();
        assert_eq!(found.ending, Ending::Found, "seed {seed}: {found:?}");
        let rate = found.rate_per_s.unwrap();
        assert!(
            (rate / capacity - 1.0).abs() <= 0.05,
            "seed {seed}: {found:?}"
        );
    }
}
