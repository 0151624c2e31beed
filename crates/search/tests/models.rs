//! Searches on queues whose answers are known, simulated from seeds: closed loops and open ones of c
//! places with constant and random service times, and servers that behave badly.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use ridgeline_schedule::{Gamma, Source};
use ridgeline_search::{
    Arrival, ClosedWindow, Ending, Finished, Knee, KneeOptions, MaxRate, MaxRateOptions,
    OpenWindow, Outcome, RungState, Standing, Tally,
};

const NS: f64 = 1e9;

/// First come, first served by so many places.
#[derive(Clone, Debug)]
struct Server {
    places: u32,
    service_s: f64,
    /// Of the service times, as a share of their mean.
    deviation: f64,
    seed: u64,
}

impl Server {
    fn new(places: u32, service_s: f64, deviation: f64, seed: u64) -> Self {
        Self {
            places,
            service_s,
            deviation,
            seed,
        }
    }

    fn capacity_per_s(&self) -> f64 {
        f64::from(self.places) / self.service_s
    }

    /// Begins to serve, with the random numbers of window number `window`.
    fn run(&self, window: u64) -> Running {
        let shape = (self.deviation > 0.0).then(|| Gamma::new(self.deviation.powi(-2)));
        Running {
            free: (0..self.places).map(|_| Reverse(0)).collect(),
            service_s: self.service_s,
            shape,
            source: Source::new(self.seed, window),
        }
    }

    /// A closed loop of `level`.
    fn closed(&self, window: u64, level: u32, requests: u64) -> Vec<Finished> {
        let mut running = self.run(window);
        // In the order of submission; those of one moment in the order of their slots.
        let mut due: BinaryHeap<Reverse<(u64, u32)>> =
            (0..level).map(|slot| Reverse((0, slot))).collect();
        let mut all = Vec::new();
        for _ in 0..requests {
            let Reverse((submitted, slot)) = due.pop().unwrap();
            let done = running.serve(submitted);
            all.push(Finished {
                submitted_s: seconds(submitted),
                done_s: seconds(done),
            });
            due.push(Reverse((done, slot)));
        }
        all
    }

    /// Poisson arrivals; who waits longer than `limit_s` to be served misses.
    fn open(&self, window: u64, rate_per_s: f64, requests: u64, limit_s: f64) -> Vec<Arrival> {
        let mut running = self.run(window);
        let mut gaps = Source::new(!self.seed, window);
        let mut at_s = 0.0;
        let mut all = Vec::new();
        for _ in 0..requests {
            at_s += gaps.exponential() / rate_per_s;
            let scheduled = nanos(at_s);
            let done = running.serve(scheduled);
            let response_s = seconds(done - scheduled);
            all.push(Arrival {
                scheduled_s: seconds(scheduled),
                ended_s: seconds(done),
                response_s: Some(response_s),
                judged: vec![Tally::one(response_s > limit_s)],
            });
        }
        all
    }
}

struct Running {
    free: BinaryHeap<Reverse<u64>>,
    service_s: f64,
    shape: Option<Gamma>,
    source: Source,
}

impl Running {
    /// When a request that comes at `at` is done.
    fn serve(&mut self, at: u64) -> u64 {
        let Reverse(free) = self.free.pop().unwrap();
        let draw = self.shape.as_ref().map(|shape| self.source.gamma(shape));
        let done = at.max(free) + nanos(self.service_s * draw.unwrap_or(1.0));
        self.free.push(Reverse(done));
        done
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's times"
)]
fn nanos(seconds: f64) -> u64 {
    (seconds * NS) as u64
}

#[expect(clippy::cast_precision_loss, reason = "a test's times")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NS
}

fn knee_window(server: &Server, window: u64, level: u32, requests: u64) -> Outcome<ClosedWindow> {
    let all = server.closed(window, level, requests);
    let last_issue_s = all.last().unwrap().submitted_s;
    let shown = ClosedWindow::new(level, f64::from(level), last_issue_s, &all);
    shown.map_or_else(|| Outcome::Unsound("too few".to_owned()), Outcome::Sound)
}

/// Searches; the number of windows beside what was found.
fn find_knee(server: &Server, options: KneeOptions) -> (Knee, u64) {
    let mut knee = Knee::new(options);
    let mut windows = 0;
    while let Some(window) = knee.next() {
        windows += 1;
        assert!(windows < 500, "a search without end");
        knee.tell(knee_window(server, windows, window.level, window.requests));
    }
    (knee, windows)
}

fn is_within(found: f64, truth: f64, share: f64) -> bool {
    (found / truth - 1.0).abs() <= share
}

#[test]
fn the_knee_of_constant_times_is_the_number_of_places() {
    for places in [1, 2, 3, 5, 8, 13, 48, 64, 100, 257] {
        let (knee, windows) = find_knee(
            &Server::new(places, 0.335, 0.0, 1),
            KneeOptions::up_to(4_096),
        );
        let found = knee.finding();
        assert_eq!(found.ending, Ending::Found);
        let at = f64::from(found.knee.unwrap());
        let truth = f64::from(places);
        assert!(
            (at - truth).abs() <= (truth * 0.05).max(1.0),
            "{places}: {at}"
        );
        assert!(windows < 120, "{places}: {windows} windows");
        let capacity = truth / 0.335;
        // Levels just above the places end their windows within a round of the server: a bias of a few percent.
        let most = found.throughput_max_per_s.unwrap();
        assert!(
            is_within(most, capacity, 0.03),
            "{places}: {most} of {capacity}"
        );
    }
}

#[test]
fn the_knee_of_random_times_is_within_five_percent_in_every_seed() {
    for seed in 0..10 {
        for deviation in [0.1, 0.2] {
            let server = Server::new(48, 0.2, deviation, seed);
            let (knee, _) = find_knee(&server, KneeOptions::up_to(1_024));
            let found = knee.finding();
            let at = f64::from(found.knee.unwrap());
            assert!(is_within(at, 48.0, 0.05), "{seed} {deviation}: {found:?}");
        }
    }
}

#[test]
fn a_ladder_that_ends_before_the_knee_gives_a_lower_bound() {
    let (knee, _) = find_knee(&Server::new(64, 0.1, 0.0, 1), KneeOptions::up_to(32));
    let found = knee.finding();
    assert_eq!((found.ending, found.knee), (Ending::LowerBound, Some(32)));
    assert!(found.why.unwrap().contains("still grows at 32"));
}

#[test]
fn what_the_client_limited_is_no_bound() {
    let server = Server::new(64, 0.1, 0.0, 1);
    let mut knee = Knee::new(KneeOptions::up_to(1_024));
    while let Some(window) = knee.next() {
        knee.tell(match window.level {
            level if level >= 32 => Outcome::Unsound("a shard was busy".to_owned()),
            level => knee_window(&server, 1, level, window.requests),
        });
    }
    let found = knee.finding();
    assert_eq!((found.ending, found.knee), (Ending::LowerBound, Some(16)));
    assert!(found.why.unwrap().contains("a shard was busy"));
    assert_eq!(found.rungs.last().unwrap().state, RungState::Unsound);
}

#[test]
fn a_rung_that_contradicts_littles_law_is_unresolved() {
    let server = Server::new(8, 0.1, 0.0, 1);
    let mut knee = Knee::new(KneeOptions::up_to(256));
    while let Some(window) = knee.next() {
        let all = server.closed(1, window.level, window.requests);
        // At 16 half of what occupies slots never comes back.
        let lost = |n: &usize| window.level == 16 && n % 2 == 1;
        let kept: Vec<Finished> = (0..all.len())
            .filter(|n| !lost(n))
            .map(|n| all[n])
            .collect();
        let last = all.last().unwrap().submitted_s;
        let shown = ClosedWindow::new(window.level, f64::from(window.level), last, &kept);
        knee.tell(Outcome::Sound(shown.unwrap()));
    }
    let found = knee.finding();
    let rung = found.rungs.iter().find(|rung| rung.level == 16).unwrap();
    assert_eq!((rung.state, rung.power), (RungState::Unresolved, None));
    assert!(rung.little_off.unwrap() < -0.4, "{rung:?}");
    assert_eq!((found.ending, found.knee), (Ending::Found, Some(8)));
}

#[test]
fn slots_that_stood_empty_make_a_window_unsound() {
    let mut knee = Knee::new(KneeOptions::up_to(64));
    let window = knee.next().unwrap();
    let all = Server::new(8, 0.1, 0.0, 1).closed(1, window.level, window.requests);
    let last = all.last().unwrap().submitted_s;
    let shown = ClosedWindow::new(1, 0.8, last, &all).unwrap();
    knee.tell(Outcome::Sound(shown.clone()));
    // Once may be a moment's disturbance.
    assert_eq!(knee.next(), Some(window));
    knee.tell(Outcome::Sound(shown));
    assert_eq!(knee.next(), None);
    assert_eq!(knee.finding().ending, Ending::Nothing);
}

#[test]
fn an_early_end_is_no_finding() {
    let server = Server::new(4, 0.1, 0.0, 1);
    let mut knee = Knee::new(KneeOptions::up_to(64));
    for _ in 0..2 {
        let window = knee.next().unwrap();
        knee.tell(knee_window(&server, 1, window.level, window.requests));
    }
    knee.tell(Outcome::Aborted);
    assert_eq!(knee.next(), None);
    let found = knee.finding();
    assert_eq!((found.ending, found.rungs.len()), (Ending::Aborted, 2));
}

fn find_rate(server: &Server, limit_s: f64, options: MaxRateOptions) -> MaxRate {
    let mut search = MaxRate::new(options);
    let mut window = 0;
    while let Some(probe) = search.next() {
        window += 1;
        assert!(window < 400, "a search without end");
        let all = server.open(window, probe.rate_per_s, probe.requests, limit_s);
        let shown = OpenWindow::new(&all);
        search.tell(shown.map_or_else(|| Outcome::Unsound("too few".to_owned()), Outcome::Sound));
    }
    search
}

/// The rate at which a tenth waits for longer, from runs of a length that no search has.
fn true_rate(server: &Server, limit_s: f64) -> f64 {
    let (mut low, mut high) = (0.0, server.capacity_per_s());
    for _ in 0..9 {
        let rate = (low + high) / 2.0;
        let all = server.open(1 << 32, rate, 150_000, limit_s);
        let missed = all.iter().filter(|one| one.judged[0].missed == 1).count();
        if missed * 10 > all.len() {
            high = rate;
        } else {
            low = rate;
        }
    }
    (low + high) / 2.0
}

fn rate_options(server: &Server, start_share: f64) -> MaxRateOptions {
    MaxRateOptions {
        window_min_s: 40.0 * server.service_s,
        windows_max: 5,
        ..MaxRateOptions::new(server.capacity_per_s() * start_share, vec![0.1])
    }
}

#[test]
fn the_highest_rate_is_within_five_percent_in_every_seed() {
    let server = |seed| Server::new(16, 0.1, 0.0, seed);
    // A tenth waits half a service time.
    let truth = true_rate(&server(99), 0.15);
    assert!(truth < 160.0);
    for seed in 0..10 {
        let search = find_rate(&server(seed), 0.15, rate_options(&server(seed), 0.5));
        let found = search.finding();
        let rate = found.rate_per_s.unwrap();
        assert!(
            is_within(rate, truth, 0.05),
            "{seed}: {rate} of {truth}: {found:?}"
        );
    }
}

#[test]
fn a_limit_that_is_never_reached_below_saturation_gives_the_capacity() {
    // Arrivals that are even: nobody waits up to the capacity, and the backlog grows beyond it.
    let server = Server::new(10, 0.1, 0.0, 1);
    let mut search = MaxRate::new(rate_options(&server, 0.3));
    while let Some(probe) = search.next() {
        let mut running = server.run(0);
        let arrival = |n: u64| {
            let at_s = f64::from(u32::try_from(n).unwrap()) / probe.rate_per_s;
            let done_s = seconds(running.serve(nanos(at_s)));
            Arrival {
                scheduled_s: at_s,
                ended_s: done_s,
                response_s: Some(done_s - at_s),
                judged: vec![Tally::one(done_s - at_s > 5.0)],
            }
        };
        let all: Vec<Arrival> = (0..probe.requests).map(arrival).collect();
        search.tell(Outcome::Sound(OpenWindow::new(&all).unwrap()));
    }
    let found = search.finding();
    assert_eq!(found.ending, Ending::Found);
    assert!(
        is_within(found.rate_per_s.unwrap(), 100.0, 0.05),
        "{found:?}"
    );
    let failed = found
        .probes
        .iter()
        .find(|one| one.standing == Standing::Failed);
    let why = failed.unwrap().why.clone().unwrap();
    assert!(
        why.contains("grows") || why.contains("miss an SLO"),
        "{why}"
    );
}

#[test]
fn a_level_that_nothing_meets_is_told() {
    let server = Server::new(4, 0.1, 0.0, 1);
    let found = find_rate(&server, 0.05, rate_options(&server, 0.5)).finding();
    assert_eq!((found.ending, found.rate_per_s), (Ending::Nothing, None));
    assert!(found.why.unwrap().contains("miss an SLO"));
}

#[test]
fn a_client_that_gives_out_leaves_a_lower_bound() {
    let server = Server::new(64, 0.1, 0.0, 1);
    let mut search = MaxRate::new(rate_options(&server, 0.05));
    while let Some(probe) = search.next() {
        search.tell(if probe.rate_per_s > 150.0 {
            Outcome::Unsound("late".to_owned())
        } else {
            let all = server.open(1, probe.rate_per_s, probe.requests, 0.15);
            Outcome::Sound(OpenWindow::new(&all).unwrap())
        });
    }
    let found = search.finding();
    assert_eq!(found.ending, Ending::LowerBound);
    let rate = found.rate_per_s.unwrap();
    assert!((140.0..=150.0).contains(&rate), "{rate}");
    assert_eq!(found.failed_per_s, None);
}

/// What a server that answers at random shows.
fn noise(source: &mut Source, requests: u64) -> OpenWindow {
    let arrival = |n: u64| {
        let at_s = f64::from(u32::try_from(n).unwrap()) * 0.01;
        let response_s = 0.1 * source.exponential();
        Arrival {
            scheduled_s: at_s,
            ended_s: at_s + response_s,
            response_s: Some(response_s),
            judged: vec![Tally::one(source.unit() < 0.1)],
        }
    };
    let all: Vec<Arrival> = (0..requests).map(arrival).collect();
    OpenWindow::new(&all).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is told, a search ends, and never answers with a level that failed or was no bound.
    #[test]
    fn any_tellings_come_to_an_end(seed: u64, kinds in prop::collection::vec(0..4_u8, 1..50)) {
        let mut source = Source::new(seed, 7);
        let mut search = MaxRate::new(MaxRateOptions::new(10.0, vec![0.1]));
        let mut asked = 0;
        while let Some(probe) = search.next() {
            prop_assert!(probe.rate_per_s > 0.0 && probe.requests >= 200);
            let kind = kinds[asked % kinds.len()];
            asked += 1;
            prop_assert!(asked < 1_000, "a search without end");
            let all_miss = |missed| Arrival {
                scheduled_s: 0.0,
                ended_s: 0.1,
                response_s: Some(0.1),
                judged: vec![Tally::one(missed)],
            };
            search.tell(match kind {
                0 => Outcome::Sound(OpenWindow::new(&vec![all_miss(false); 400]).unwrap()),
                1 => Outcome::Sound(OpenWindow::new(&vec![all_miss(true); 400]).unwrap()),
                2 => Outcome::Unsound("busy".to_owned()),
                _ => Outcome::Sound(noise(&mut source, 400)),
            });
        }
        let found = search.finding();
        if let Some(rate) = found.rate_per_s {
            let at = found.probes.iter().find(|one| one.rate_per_s >= rate).unwrap();
            prop_assert_eq!(at.standing, Standing::Passed);
            let failed_below = found.probes.iter()
                .any(|one| one.standing == Standing::Failed && one.rate_per_s <= rate);
            prop_assert!(!failed_below);
        }
    }

    /// The same of a knee, over servers that are noise.
    #[test]
    fn any_ladder_comes_to_an_end(seed: u64, level_max in 1_u32..5_000, kinds in prop::collection::vec(0..5_u8, 1..30)) {
        let mut source = Source::new(seed, 3);
        let mut knee = Knee::new(KneeOptions::up_to(level_max));
        let mut asked = 0;
        while let Some(window) = knee.next() {
            prop_assert!((1..=level_max).contains(&window.level));
            prop_assert!(window.requests >= 3 * u64::from(window.level));
            let kind = kinds[asked % kinds.len()];
            asked += 1;
            prop_assert!(asked < 1_000, "a search without end");
            knee.tell(if kind == 0 {
                Outcome::Unsound("busy".to_owned())
            } else {
                Outcome::Sound(ClosedWindow {
                    level: window.level,
                    in_flight: f64::from(window.level),
                    requests: window.requests,
                    left_out: 0,
                    span_s: source.exponential(),
                    responses_s: (0..10).map(|_| source.exponential()).collect(),
                })
            });
        }
        let found = knee.finding();
        if let Some(at) = found.knee {
            let rung = found.rungs.iter().find(|rung| rung.level == at).unwrap();
            prop_assert_eq!(rung.state, RungState::Settled);
        }
    }
}
