//! The runs.

use std::net::TcpStream;

use ridgeline_clock::Nanos;
use serde_json::Value;

use crate::network::{COORDINATOR, WORKERS};
use crate::relay::{Delay, Relay};
use crate::world::{World, at, codes, socket};

/// Requests that take a while, so that a run is not over before something happens to it.
const SERVER: [&str; 4] = [
    "--time-to-first-token",
    "5ms",
    "--inter-token-latency",
    "1ms",
];

/// A load of some seconds.
const LOAD: [&str; 6] = [
    "--request-rate",
    "60",
    "--arrival-pattern",
    "constant",
    "--request-count",
    "120",
];

/// A load that lasts long enough to be disturbed.
const LONG: [&str; 6] = [
    "--request-rate",
    "60",
    "--arrival-pattern",
    "constant",
    "--duration",
    "8s",
];

/// What the report says of one worker.
fn of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let workers = report["harness"]["workers"].as_array();
    let workers = workers.expect("the report names the workers");
    let own = workers.iter().find(|worker| worker["host"] == name);
    own.unwrap_or_else(|| panic!("no worker is {name}: {workers:?}"))
}

fn nanos(worker: &Value, key: &str) -> i64 {
    let value = worker[key].as_i64();
    value.unwrap_or_else(|| panic!("{key} is a number: {worker}"))
}

#[test]
fn machines_with_clocks_of_their_own_run_one_load_and_a_delay_shows_in_the_error() {
    let Some(world) = World::make(&SERVER) else {
        return;
    };
    let ahead = [0, 1_000, 5];
    let workers: Vec<_> = WORKERS
        .iter()
        .zip(ahead)
        .map(|(machine, ahead)| world.worker(machine, ahead))
        .collect();
    // What looks whether they are there is no coordinator, and no run.
    let probe = world.network.thread(COORDINATOR, || {
        WORKERS.map(|machine| TcpStream::connect(socket(machine)).is_ok())
    });
    assert_eq!(probe.join().expect("no panic"), [true; 3]);
    // One way of it only: the worst for an estimate by round trips.
    let delay = Delay {
        there: Nanos::from_millis(40),
        back: Nanos::ZERO,
    };
    let relay = Relay::start(&world.network, socket(WORKERS[2]), delay);
    let addresses = [
        at(WORKERS[0]),
        at(WORKERS[1]),
        format!("tcp://{}", relay.address),
    ];
    let (code, said) = world.coordinator(&addresses, &LOAD).end();
    // The lateness of a machine that does something else besides is another test's.
    assert!(matches!(code, 0 | 3), "{code}: {said}");
    for worker in workers {
        let (code, said) = worker.end();
        assert_eq!(code, 0, "{said}");
    }
    let report = world.report();
    assert!(!codes(&report).contains(&"workers"), "{said}");
    assert_eq!(report["load"]["completed"], 120, "{said}");
    assert_eq!(world.records().len(), 120);
    let mut errors = Vec::new();
    for (machine, ahead) in WORKERS.iter().zip(ahead) {
        let worker = of(&report, machine);
        let (offset, error) = (
            nanos(worker, "clock_offset_ns"),
            nanos(worker, "clock_error_ns"),
        );
        let truth = i64::from(ahead) * 1_000_000_000;
        assert!(error > 0, "{worker}");
        assert!((offset - truth).abs() <= error, "{machine}: {worker}");
        errors.push(error);
    }
    // Half of what a round trip takes at the least.
    assert!(errors[2] >= 20_000_000, "{errors:?}");
    assert!(errors[0] < errors[2] && errors[1] < errors[2], "{errors:?}");
}

#[test]
fn a_cut_link_makes_the_run_invalid_and_the_others_finish() {
    let Some(mut world) = World::make(&SERVER) else {
        return;
    };
    let [first, cut, last] = WORKERS.map(|machine| world.worker(machine, 0));
    let coordinator = world.coordinator(&WORKERS.map(at), &LONG);
    world.load();
    world.network.cut(WORKERS[1]);
    let (code, said) = coordinator.end();
    assert_eq!(code, 3, "{said}");
    let report = world.report();
    assert!(codes(&report).contains(&"workers"), "{report:#}");
    assert!(said.contains(WORKERS[1]), "{said}");
    for worker in [first, last] {
        let (code, said) = worker.end();
        assert_eq!(code, 0, "{said}");
    }
    // On its side the coordinator is what is dead.
    let (_, said) = cut.end();
    assert!(said.contains("the run ended early"), "{said}");
    // Two thirds are there, and what the others did is told apart.
    let completed = report["load"]["completed"].as_u64().expect("a number");
    assert!(completed >= 2 * 60 * 8 * 9 / 30, "{completed}: {said}");
}

#[test]
fn workers_end_by_themselves_when_their_coordinator_is_cut_off() {
    let Some(mut world) = World::make(&SERVER) else {
        return;
    };
    let workers = WORKERS.map(|machine| world.worker(machine, 0));
    let coordinator = world.coordinator(&WORKERS.map(at), &LONG);
    world.load();
    world.network.cut(COORDINATOR);
    for worker in workers {
        let (_, said) = worker.end();
        assert!(said.contains("the run ended early"), "{said}");
        assert!(said.contains("coordinator"), "{said}");
    }
    let (code, said) = coordinator.end();
    assert!(matches!(code, 3 | 4), "{code}: {said}");
    assert!(WORKERS.iter().all(|worker| said.contains(worker)), "{said}");
}

#[test]
fn a_worker_that_comes_late_is_waited_for() {
    let Some(world) = World::make(&SERVER) else {
        return;
    };
    let early = [WORKERS[0], WORKERS[1]].map(|machine| world.worker(machine, 0));
    // Not even its name is known yet, as that of a pod that has not been scheduled.
    let addresses = [at(WORKERS[0]), at(WORKERS[1]), at("worker-2.workers")];
    let mut coordinator = world.coordinator(&addresses, &LOAD);
    coordinator.line("worker-2.workers");
    world.network.name("worker-2.workers", WORKERS[2]);
    let late = world.worker(WORKERS[2], 0);
    let (code, said) = coordinator.end();
    assert!(matches!(code, 0 | 3), "{code}: {said}");
    let report = world.report();
    assert!(!codes(&report).contains(&"workers"), "{said}");
    assert_eq!(report["load"]["completed"], 120, "{said}");
    for worker in early.into_iter().chain([late]) {
        let (code, said) = worker.end();
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn a_worker_that_never_comes_is_named_in_time() {
    let Some(world) = World::make(&SERVER) else {
        return;
    };
    let _there = world.worker(WORKERS[0], 0);
    let addresses = [at(WORKERS[0]), at(WORKERS[1])];
    let load = [&LOAD[..], &["--join-timeout", "1s"]].concat();
    let (code, said) = world.coordinator(&addresses, &load).end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(WORKERS[1]), "{said}");
}

#[test]
fn without_the_same_token_nothing_is_run() {
    let Some(world) = World::make(&SERVER) else {
        return;
    };
    let _worker = world.worker_with(WORKERS[0], 0, &world.token("another token, and as long\n"));
    let load = [&LOAD[..], &["--join-timeout", "1s"]].concat();
    let (code, said) = world.coordinator(&[at(WORKERS[0])], &load).end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("token"), "{said}");
}
