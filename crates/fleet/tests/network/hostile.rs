//! Messages out of order, of other versions, and none at all.

use proptest::prelude::*;
use ridgeline_clock::Nanos;
use ridgeline_engine::LiveTotals;
use ridgeline_fleet::message::{Assignment, ToCoordinator, ToWorker, Totals, decode, encode};
use ridgeline_fleet::{Event, Worker};
use ridgeline_metrics::Phase;
use serde_bytes::ByteBuf;

use crate::world::{MS, Path, RUN, World, host, limits};

fn told(bytes: &[u8]) -> String {
    match decode(bytes).unwrap() {
        ToCoordinator::Refused { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_is_told_in_words_at_both_ends() {
    let mut newer = encode(&ToWorker::Cancel);
    newer[4] = 3;
    let mut worker = Worker::new(host(&Path::default(), None), limits(), Nanos(1));
    worker.message(5, &newer, Nanos(2));
    let (peer, bytes) = worker.outgoing().unwrap();
    assert_eq!(peer, 5);
    assert!(told(&bytes).contains("speaks version 3"));

    let mut world = World::new(&[Path::default()], RUN);
    world.coordinator.message(0, &newer, Nanos(world.now));
    let error = world.coordinator.into_ends().unwrap_err().to_string();
    assert!(
        error.contains("use the same ridgeline on all machines"),
        "{error}"
    );
}

#[test]
fn a_coordinator_that_does_not_say_hello_is_told_so() {
    let mut worker = Worker::new(host(&Path::default(), None), limits(), Nanos(1));
    for _ in 0..1_000 {
        worker.message(5, &encode(&ToWorker::Release { gathered: true }), Nanos(2));
        worker.message(6, b"GET / HTTP/1.1\r\n\r\n", Nanos(2));
    }
    let mut answers = 0;
    while let Some((_, bytes)) = worker.outgoing() {
        assert!(!told(&bytes).is_empty());
        answers += 1;
    }
    assert_eq!(answers, 2, "one for each, whatever is asked");
    assert!(worker.is_free());
}

#[test]
fn what_comes_out_of_turn_loses_the_worker_by_name() {
    let mut world = World::new(&[Path::default(); 2], RUN);
    assert!(world.until(10_000 * MS, |w| w.coordinator.totals(0).completed > 100));
    let part = ToCoordinator::Part {
        offset: 0,
        bytes: ByteBuf::new(),
    };
    world
        .coordinator
        .message(0, &encode(&part), Nanos(world.now));
    let event = world.coordinator.event().unwrap();
    let Event::Gone { worker: 0, why } = event else {
        panic!("{event:?}");
    };
    assert!(why.contains("`part` out of turn"), "{why}");
}

fn to_coordinator() -> impl Strategy<Value = ToCoordinator> {
    let phase = prop_oneof![Just(Phase::Warmup), Just(Phase::Measured)];
    prop_oneof![
        Just(ToCoordinator::Hello(Box::default())),
        (0_u64..40, any::<u64>(), any::<u64>()).prop_map(|(sequence, sent_ns, at_ns)| {
            ToCoordinator::Pong {
                sequence,
                sent_ns,
                at_ns,
            }
        }),
        phase.prop_map(|phase| ToCoordinator::Ready {
            phase,
            driver: "d".to_owned()
        }),
        Just(ToCoordinator::Snapshot(Totals::default())),
        Just(ToCoordinator::Leaving {
            why: "w".to_owned()
        }),
        (any::<u64>(), 0_usize..200).prop_map(|(offset, length)| ToCoordinator::Part {
            offset,
            bytes: ByteBuf::from(vec![0; length]),
        }),
        Just(ToCoordinator::Refused {
            why: "w".to_owned()
        }),
        Just(ToCoordinator::Failed {
            why: "w".to_owned()
        }),
    ]
}

fn to_worker() -> impl Strategy<Value = ToWorker> {
    let phase = prop_oneof![Just(Phase::Warmup), Just(Phase::Measured)];
    prop_oneof![
        Just(ToWorker::Hello {
            revision: "r".to_owned(),
            host: "h".to_owned(),
            token: None
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(sequence, sent_ns)| ToWorker::Ping { sequence, sent_ns }),
        any::<u64>().prop_map(|silence_ns| ToWorker::Plan(Box::new(Assignment {
            run_id: 1,
            worker: 0,
            workers: 1,
            first_shard: 0,
            shards: 1,
            cores: None,
            config: String::new(),
            api_key: None,
            folder: None,
            files: Vec::new(),
            silence_ns,
        }))),
        (0_u32..3, 0_usize..20).prop_map(|(place, length)| ToWorker::File {
            place,
            bytes: ByteBuf::from(vec![1; length]),
        }),
        (phase, any::<u64>()).prop_map(|(phase, at_ns)| ToWorker::Start { phase, at_ns }),
        any::<u64>().prop_map(|drain_ns| ToWorker::Stop { drain_ns }),
        Just(ToWorker::Cancel),
        (any::<u64>(), any::<u32>()).prop_map(|(offset, bytes)| ToWorker::Fetch { offset, bytes }),
        any::<bool>().prop_map(|gathered| ToWorker::Release { gathered }),
    ]
}

proptest! {
    /// One worker says whatever it likes; the other is sound. The run is over in time all the same.
    #[test]
    fn no_worker_can_hold_a_run_up(
        words in proptest::collection::vec((0_u64..9_000, to_coordinator()), 0..40),
    ) {
        let mut world = World::new(&[Path::default(); 2], RUN);
        let begun = world.now;
        let mut words = words;
        words.sort_by_key(|(at, _)| *at);
        for (at, word) in words {
            world.until((begun + at * MS).saturating_sub(world.now), |w| w.coordinator.is_over());
            world.coordinator.message(0, &encode(&word), Nanos(world.now));
        }
        prop_assert!(world.over(60_000 * MS));
        let ends = world.coordinator.into_ends();
        prop_assert!(ends.is_err() || ends.is_ok_and(|ends| ends[1].finished.is_some()));
    }

    /// A coordinator says whatever it likes, in any order, over two links.
    #[test]
    fn no_coordinator_can_break_a_worker(
        words in proptest::collection::vec((0_u64..2, to_worker(), 0_u64..2_000), 0..60),
    ) {
        let mut worker = Worker::new(host(&Path::default(), None), limits(), Nanos(1));
        let mut now = Nanos(1);
        for (peer, word, millis) in words {
            worker.message(peer, &encode(&word), now);
            now += Nanos(millis * MS);
            worker.step(LiveTotals::default(), now);
            while worker.order().is_some() {}
            // The link takes little.
            worker.outgoing();
        }
        // Silence ends whatever it was at; its run is told to end.
        for _ in 0..40 {
            now += Nanos(500 * MS);
            worker.step(LiveTotals::default(), now);
        }
        worker.failed("cancelled");
        while worker.order().is_some() {}
        prop_assert!(worker.is_free());
        let mut waiting = 0;
        while worker.outgoing().is_some() {
            waiting += 1;
        }
        prop_assert!(waiting < 200);
    }
}
