//! The protocol as a whole: what a user of several workers meets, on a virtual network.
#![expect(clippy::unwrap_used, reason = "a test")]

mod hostile;
mod world;

use std::sync::Arc;

use ridgeline_clock::Nanos;
use ridgeline_fleet::message::{Secret, ToCoordinator, ToWorker, decode, encode};
use ridgeline_fleet::{Ending, Event, FleetError, MemberEnd, PlanFile, Worker};
use ridgeline_metrics::Phase;

use world::{MS, Path, RUN, Run, World, brief, host, limits};

fn apart() -> [Path; 3] {
    let far = Path {
        out: 9 * MS,
        back: 2 * MS,
        jitter: MS,
        offset: -77_777_777,
        ..Path::default()
    };
    let ahead = Path {
        offset: 86_400_000_000_000,
        ..Path::default()
    };
    [Path::default(), far, ahead]
}

fn ends(world: World) -> Vec<MemberEnd> {
    world.coordinator.into_ends().unwrap()
}

#[test]
fn workers_with_clocks_of_their_own_begin_at_one_time_and_their_numbers_add_up() {
    let mut world = World::new(&apart(), RUN);
    assert!(world.over(30_000 * MS));
    assert_eq!(world.lost(), []);
    let (begun, measured) = world.coordinator.starts();
    assert_eq!(begun, measured);
    let begun = begun.unwrap();
    let numbers: Vec<_> = world.machines.iter().map(|m| m.assigned).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
    for (machine, bytes) in world.machines.iter().zip(&world.gathered) {
        assert_eq!(machine.starts.len(), 1);
        // Within half of the shortest round trip: 11 ms on the far one, whose ways differ by 7 ms.
        let apart = machine.starts[0].1.abs_diff(begun.0);
        assert!(
            apart <= (machine.path.out + machine.path.back) / 2 + MS,
            "{apart}"
        );
        assert_eq!(bytes, &machine.records);
        assert_eq!(machine.files[0].len(), 1_234);
        assert_eq!(machine.over, [None]);
    }
    let machines: Vec<Path> = world.machines.iter().map(|m| m.path).collect();
    for (end, path) in ends(world).into_iter().zip(machines) {
        let clock = end.clock.unwrap();
        assert_eq!(clock.same_clock, path.offset == 0);
        assert!(clock.offset_ns.abs_diff(path.offset) <= clock.error_ns);
        assert!(clock.error_ns < 7 * MS);
        assert_eq!(end.ending, Ending::Finished);
        // On the coordinator's clock, to within the error.
        let run = end.finished.unwrap().share.into_result(begun, Nanos(5));
        assert_eq!((run.started, run.window_end), (begun, Nanos(5)));
        assert_eq!(run.ended, begun + Nanos(RUN.length));
        assert_eq!(run.collector.counts(Phase::Measured).issued, 6_000);
    }
}

#[test]
fn the_measured_phase_begins_when_the_last_warm_up_has_drained() {
    let run = Run {
        warms_up: true,
        ..RUN
    };
    let mut world = World::new(&apart(), run);
    assert!(world.over(30_000 * MS));
    let (begun, measured) = world.coordinator.starts();
    assert!(measured.unwrap() - begun.unwrap() >= Nanos(500 * MS));
    let phases = |m: &world::Machine| m.starts.iter().map(|s| s.0).collect::<Vec<_>>();
    assert!(
        world
            .machines
            .iter()
            .all(|m| phases(m) == [Phase::Warmup, Phase::Measured])
    );
}

#[test]
fn a_killed_worker_is_named_and_the_rest_finishes() {
    let mut world = World::new(&[Path::default(); 3], RUN);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(1).completed > 1_000));
    world.kill(1);
    assert!(world.over(10_000 * MS));
    let lost = world.lost();
    assert_eq!((lost.len(), lost[0].0), (1, 1));
    assert!(lost[0].1.contains("connection was closed"), "{lost:?}");
    let ends = ends(world);
    assert!(matches!(&ends[1].ending, Ending::Lost { .. }));
    assert!(ends[1].finished.is_none() && ends[1].totals.completed > 1_000);
    assert!(ends[0].finished.is_some() && ends[2].finished.is_some());
}

#[test]
fn a_stopped_process_and_a_cut_link_are_noticed_by_their_silence() {
    for cut in [false, true] {
        let run = Run {
            length: 20_000 * MS,
            ..RUN
        };
        let mut world = World::new(&[Path::default(); 2], run);
        assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
        let since = world.now;
        world.machines[0].path.cut = cut;
        world.machines[0].path.frozen = !cut;
        assert!(world.until(10_000 * MS, |w| !w.lost().is_empty()));
        let noticed = world.now - since;
        assert!(
            noticed <= (limits().silence + limits().beat * 2).0,
            "{noticed}"
        );
        assert!(world.lost()[0].1.contains("no sign of life for 5."));
        // When it is back it does not go on.
        world.machines[0].path.frozen = false;
        assert!(world.over(30_000 * MS));
        assert!(world.until(10_000 * MS, |w| w.machines[0].worker.is_free()));
        let why = world.machines[0].over.last().unwrap().clone().unwrap();
        assert!(why.contains("coordinator"), "{why}");
        let ends = ends(world);
        assert!(ends[0].finished.is_none() && ends[1].finished.is_some());
    }
}

#[test]
fn a_worker_whose_coordinator_is_dead_stops_and_serves_the_next() {
    let run = Run {
        length: 60_000 * MS,
        ..RUN
    };
    let mut world = World::new(&[Path::default(); 2], run);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
    world.coordinator_dead = true;
    assert!(world.until(10_000 * MS, |w| {
        w.machines.iter().all(|m| m.worker.is_free())
    }));
    let why = world.machines[0].over[0].clone().unwrap();
    assert!(
        why.contains("its coordinator is gone: no sign of life"),
        "{why}"
    );
    world.run.length = 1_000 * MS;
    world.next_coordinator();
    assert!(world.over(30_000 * MS));
    assert_eq!(world.lost(), []);
}

#[test]
fn nobody_waits_for_ever_for_a_worker_that_is_not_there() {
    let gone = Path {
        cut: true,
        ..Path::default()
    };
    let mut world = World::new(&[Path::default(), gone], RUN);
    assert!(world.over(limits().join.0 + 500 * MS));
    // The one that was there is free again.
    assert!(world.until(3_000 * MS, |w| w.machines[0].worker.is_free()));
    let error = world.coordinator.into_ends().unwrap_err().to_string();
    assert!(error.contains("w1 did not answer within 10.0 s"), "{error}");
}

#[test]
fn a_worker_that_never_gets_ready_has_a_deadline() {
    let run = Run {
        prepare: 3_600_000 * MS,
        ..RUN
    };
    let mut world = World::new(&[Path::default(); 2], run);
    assert!(world.over(limits().prepare.0 + 1_000 * MS));
    let error = world.coordinator.into_ends().unwrap_err().to_string();
    assert!(error.contains("was not ready within 20.0 s"), "{error}");
}

#[test]
fn a_link_that_takes_nothing_holds_nobody_up() {
    let run = Run {
        length: 20_000 * MS,
        ..RUN
    };
    let mut world = World::new(&[Path::default(); 2], run);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
    // The worker hears nothing any more: it ends its part; what it says still arrives.
    world.machines[0].path.full = true;
    assert!(world.over(40_000 * MS));
    let ends = ends(world);
    assert!(ends[1].finished.is_some());
    assert!(
        matches!(ends[0].ending, Ending::Lost { .. }),
        "{:?}",
        ends[0]
    );
}

#[test]
fn the_user_ends_a_run_everywhere() {
    let run = Run {
        length: 60_000 * MS,
        ..RUN
    };
    let mut world = World::new(&apart(), run);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(2).completed > 100));
    world
        .coordinator
        .stop(Nanos::from_secs(2), Nanos(world.now));
    assert!(world.over(3_000 * MS));
    assert_eq!(world.lost(), []);
    assert!(ends(world).iter().all(|end| end.finished.is_some()));

    let mut world = World::new(&apart(), run);
    world.until(100 * MS, |_| false);
    world.coordinator.cancel(Nanos(world.now));
    assert!(world.over(10 * MS));
    assert!(world.until(3_000 * MS, |w| {
        w.machines.iter().all(|m| m.worker.is_free())
    }));
    let error = world.coordinator.into_ends().unwrap_err();
    assert_eq!(error, FleetError::Interrupted);
}

#[test]
fn a_worker_that_leaves_hands_over_what_it_has() {
    let run = Run {
        length: 8_000 * MS,
        ..RUN
    };
    let mut world = World::new(&[Path::default(); 2], run);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
    world.machines[0].worker.leave("SIGTERM");
    assert!(world.over(20_000 * MS));
    assert_eq!(world.lost(), [(0, "SIGTERM".to_owned())]);
    assert!(world.machines[0].worker.is_free());
    assert_eq!(world.gathered[0], world.machines[0].records);
    let ends = ends(world);
    let left = Ending::Left {
        why: "SIGTERM".to_owned(),
    };
    assert_eq!(
        (&ends[0].ending, &ends[1].ending),
        (&left, &Ending::Finished)
    );
    assert!(ends[0].finished.is_some());
    // One that has nothing to do is gone at once, and takes no more work.
    let mut idle = Worker::new(host(&Path::default(), None), limits(), Nanos(1));
    idle.leave("SIGTERM");
    assert!(idle.is_free());
}

#[test]
fn a_worker_lost_while_its_records_come_costs_the_records_alone() {
    let mut world = World::new(&[Path::default(); 2], RUN);
    assert!(world.until(20_000 * MS, |w| w.gathered[0].len() >= 300));
    world.kill(0);
    assert!(world.over(10_000 * MS));
    assert!(world.gathered[0].len() < world.machines[0].records.len());
    assert_eq!(world.gathered[1], world.machines[1].records);
    let missing = world.events.iter().any(|event| {
        matches!(event, Event::Gathered { worker: 0, missing: Some(why) } if why.contains("closed"))
    });
    assert!(missing, "{:?}", world.events);
    assert!(ends(world).iter().all(|end| end.finished.is_some()));
}

#[test]
fn a_busy_worker_tells_a_second_coordinator_so() {
    let mut world = World::new(&[Path::default()], RUN);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
    let hello = encode(&ToWorker::Hello {
        revision: "r".to_owned(),
        host: "elsewhere".to_owned(),
        token: None,
    });
    let worker = &mut world.machines[0].worker;
    worker.message(99, &hello, Nanos(world.now));
    let (peer, bytes) = worker.outgoing().unwrap();
    assert_eq!(peer, 99);
    let Ok(ToCoordinator::Refused { why }) = decode(&bytes) else {
        panic!("{bytes:?}");
    };
    assert!(why.contains("works for another coordinator"), "{why}");
    assert!(world.over(20_000 * MS));
    assert_eq!(world.lost(), []);
}

#[test]
fn a_token_that_one_end_lacks_is_told_by_both_flags() {
    let secret = |text: &str| Some(Secret(text.to_owned()));
    for (token, works) in [(None, false), (secret("no"), false), (secret("yes"), true)] {
        let brief = ridgeline_fleet::Brief {
            token,
            ..brief(&RUN)
        };
        let mut world = World::with(&[Path::default()], RUN, brief, Some("yes"));
        assert!(world.over(30_000 * MS));
        match world.coordinator.into_ends() {
            Ok(_) => assert!(works),
            Err(error) => {
                assert!(
                    !works && error.to_string().contains("--token-file"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_file_is_never_written_elsewhere() {
    for name in ["../x", "a/b", "", "..", "/etc/passwd"] {
        let mut brief = brief(&RUN);
        brief.files = vec![PlanFile {
            key: "dataset".to_owned(),
            name: name.to_owned(),
            bytes: Arc::from(&b"x"[..]),
        }];
        let mut world = World::with(&[Path::default()], RUN, brief, None);
        assert!(world.over(30_000 * MS));
        let error = world.coordinator.into_ends().unwrap_err().to_string();
        assert!(error.contains("which is none"), "{error}");
    }
}
