//! Model mode beyond fixed times: the queue, the load, spread, packing, and how late writes are.

use std::num::NonZeroU32;

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{
    KvCache, Latency, Law, Mode, PaceConfig, Packing, Prefill, ServerConfig, TokensPerEvent, text,
};
use ridgeline_net::Token;

use crate::fed::{Fed, chat, responses};

const TTFT: Nanos = Nanos::from_micros(750);
const ITL: Nanos = Nanos::from_micros(125);

fn modelled(pace: PaceConfig) -> ServerConfig {
    ServerConfig {
        mode: Mode::Model(pace),
        ..ServerConfig::default()
    }
}

/// Fixed times, and so many places.
fn places(sequences_max: u32) -> PaceConfig {
    PaceConfig {
        sequences_max: NonZeroU32::new(sequences_max),
        ..PaceConfig::fixed(TTFT, ITL)
    }
}

fn stream(tokens: u32) -> Vec<u8> {
    chat(&format!(r#","stream":true,"max_tokens":{tokens}"#))
}

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// The times of the writes to `token` that carry content.
fn times(fed: &Fed, token: Token) -> Vec<Nanos> {
    let writes = fed.sent.iter().filter(|(_, to, _)| *to == token);
    let content = writes.filter(|(_, _, bytes)| contents(bytes) > 0);
    content.map(|(at, ..)| *at).collect()
}

/// Content events among `bytes`: the role's is empty.
fn contents(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let content = text.matches(r#""content":""#).count();
    content - text.matches(r#""content":"""#).count()
}

#[test]
fn requests_run_in_the_order_they_came_each_from_when_another_was_due_to_end() {
    let mut fed = Fed::new(&modelled(places(2)));
    let tokens: Vec<_> = (0..5).map(|_| fed.accept()).collect();
    for token in &tokens {
        fed.feed(*token, &stream(3));
        fed.now += Nanos(1);
    }
    // Each takes 1 ms from its turn on; turns are late here by what steps are apart.
    fed.run(Nanos::from_millis(5));
    let from = |start: u64| [0, 125, 250].map(|after| us(start + 750 + after));
    let at = |token: usize, offset_ns: u64| {
        let times = times(&fed, tokens[token]);
        times
            .into_iter()
            .map(|at| at - Nanos(offset_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(at(0, 0), from(0));
    assert_eq!(at(1, 1), from(0));
    assert_eq!(at(2, 0), from(1_000));
    assert_eq!(at(3, 1), from(1_000));
    assert_eq!(at(4, 0), from(2_000));
    for token in &tokens {
        assert_eq!(responses(&fed.take(*token))[0].text(), text(3));
    }
}

#[test]
fn a_late_turn_does_not_delay_who_starts_after_it() {
    let mut fed = Fed::new(&modelled(places(1)));
    let (first, second) = (fed.accept(), fed.accept());
    fed.feed(first, &stream(1));
    fed.feed(second, &stream(2));
    // The turn that should have come at 750 us comes at 900 us.
    fed.now = us(900);
    fed.run(Nanos::from_millis(5));
    assert_eq!(times(&fed, first), [us(900)]);
    assert_eq!(times(&fed, second), [us(1_500), us(1_625)]);
    let tally = fed.server.lateness().tally();
    assert_eq!((tally.writes(), tally.late(), tally.max()), (3, 0, us(150)));
}

#[test]
fn one_more_than_may_wait_is_told_to_come_again() {
    let config = PaceConfig {
        waiting_max: Some(1),
        ..places(1)
    };
    let mut fed = Fed::new(&modelled(config));
    let tokens = [fed.accept(), fed.accept(), fed.accept()];
    for token in tokens {
        fed.feed(token, &stream(1));
    }
    let refused = &responses(&fed.take(tokens[2]))[0];
    assert_eq!(refused.status, 429);
    assert!(
        refused.head.contains("\r\nretry-after: 1"),
        "{}",
        refused.head
    );
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    fed.run(us(800));
    // The connection is as good as before, and there is room in the queue again.
    fed.feed(tokens[2], &stream(1));
    fed.run(Nanos::from_millis(5));
    assert_eq!(times(&fed, tokens[1]), [us(1_500)]);
    assert_eq!(times(&fed, tokens[2]), [us(2_250)]);
    assert_eq!(fed.server.served().requests_refused, 1);
}

#[test]
fn who_goes_away_makes_room_whether_it_ran_or_waited() {
    let mut fed = Fed::new(&modelled(places(1)));
    let tokens: Vec<_> = (0..4).map(|_| fed.accept()).collect();
    for token in &tokens {
        fed.feed(*token, &stream(2));
    }
    fed.run(us(100));
    fed.reset(tokens[1]);
    fed.run(us(200));
    fed.reset(tokens[0]);
    fed.run(Nanos::from_millis(5));
    assert_eq!(times(&fed, tokens[2]), [us(950), us(1_075)]);
    assert_eq!(times(&fed, tokens[3]), [us(1_825), us(1_950)]);
    assert_eq!(fed.server.served().answers_cut, 2);
}

#[test]
fn a_pipelined_request_queues_like_any_other() {
    let mut fed = Fed::new(&modelled(places(1)));
    let (token, other) = (fed.accept(), fed.accept());
    fed.feed(token, &[stream(2), stream(1)].concat());
    fed.feed(other, &stream(1));
    fed.run(Nanos::from_millis(5));
    assert_eq!(times(&fed, token), [us(750), us(875), us(1_625)]);
    assert_eq!(times(&fed, other), [us(2_375)]);
}

#[test]
fn times_grow_with_the_load_of_each_moment() {
    let config = PaceConfig {
        factor_under_load: 3.0,
        ..places(3)
    };
    let mut fed = Fed::new(&modelled(config.clone()));
    let (long, short) = (fed.accept(), fed.accept());
    fed.feed(long, &stream(5));
    fed.run(us(800));
    // Two run from here on: everything takes twice as long.
    fed.feed(short, &stream(1));
    fed.run(Nanos::from_millis(9));
    // The gap that had begun at 750 us is one of a lone request.
    let expected = [750, 875, 1_125, 1_375, 1_625].map(us);
    assert_eq!(times(&fed, long), expected);
    assert_eq!(times(&fed, short), [us(800 + 1_500)]);

    // The same, not streamed: each token takes the load of its moment all the same.
    let mut fed = Fed::new(&modelled(config));
    let (long, short) = (fed.accept(), fed.accept());
    fed.feed(long, &chat(r#","max_tokens":5"#));
    fed.run(us(800));
    fed.feed(short, &stream(1));
    fed.run(Nanos::from_millis(9));
    assert_eq!(
        fed.sent.iter().find(|(_, to, _)| *to == long).unwrap().0,
        us(1_625)
    );
}

#[test]
fn ten_thousand_tokens_do_not_drift() {
    const TOKENS: u32 = 10_000;
    for factor in [1.0, 1.0 + 1.0 / 3.0] {
        let config = PaceConfig {
            factor_under_load: factor,
            ..places(2)
        };
        let mut fed = Fed::new(&modelled(config));
        let (token, other) = (fed.accept(), fed.accept());
        // The other one only makes the load, and waits for its own first token very long.
        fed.feed(other, &stream(30_000));
        fed.feed(token, &stream(TOKENS));
        fed.run(Nanos::from_secs(2));
        let times = times(&fed, token);
        assert_eq!(times.len(), TOKENS as usize);
        for (index, at) in times.iter().enumerate() {
            let exact_ns = (750_000.0 + 125_000.0 * index as f64) * factor;
            assert!((at.0 as f64 - exact_ns).abs() <= 2.0, "{index}: {at:?}");
        }
        let lateness = fed.server.lateness().tally();
        assert_eq!(lateness.max(), Nanos::ZERO);
    }
}

#[test]
fn events_that_share_a_write_leave_when_the_last_is_due() {
    let packing = |events_per_write| PaceConfig {
        packing: Packing {
            events_per_write,
            ..Packing::default()
        },
        ..PaceConfig::fixed(TTFT, ITL)
    };
    let writes = |events_per_write| {
        let mut fed = Fed::new(&modelled(packing(events_per_write)));
        let token = fed.accept();
        fed.feed(token, &stream(7));
        fed.run(Nanos::from_millis(5));
        let writes = fed.sent.iter().map(|(at, _, bytes)| (*at, contents(bytes)));
        let writes = writes
            .filter(|(_, contents)| *contents > 0)
            .collect::<Vec<_>>();
        assert_eq!(responses(&fed.take(token))[0].text(), text(7));
        writes
    };
    let expected = [(us(1_000), 3), (us(1_375), 3), (us(1_500), 1)];
    assert_eq!(writes(NonZeroU32::new(3)), expected);
    assert_eq!(writes(None), [(us(1_500), 7)]);
}

#[test]
fn an_event_that_is_cut_leaves_in_pieces_at_one_time() {
    let bytes = |writes_per_event: u32, late: bool| {
        let mut fed = Fed::new(&modelled(PaceConfig {
            packing: Packing {
                writes_per_event: NonZeroU32::new(writes_per_event).unwrap(),
                ..Packing::default()
            },
            ..PaceConfig::fixed(TTFT, ITL)
        }));
        let token = fed.accept();
        fed.feed(token, &stream(4));
        if late {
            // Two events are due by then; they are cut each by itself.
            fed.now = TTFT + ITL;
        }
        fed.run(Nanos::from_millis(5));
        assert_eq!(fed.server.served().tokens, 4);
        let writes: Vec<_> = fed
            .sent
            .iter()
            .map(|(at, _, bytes)| (*at, bytes.len()))
            .collect();
        (writes, fed.take(token))
    };
    let (whole, expected) = bytes(1, false);
    assert_eq!(whole.len(), 5);
    for pieces in [2_usize, 3, 7] {
        let (writes, same) = bytes(u32::try_from(pieces).unwrap(), false);
        assert_eq!(same, expected);
        assert_eq!(writes[0], whole[0], "the head alone is not cut");
        for (event, cut) in whole[1..].iter().zip(writes[1..].chunks(pieces)) {
            assert!(cut.iter().all(|(at, len)| *at == event.0 && *len > 0));
            assert_eq!(cut.iter().map(|(_, len)| len).sum::<usize>(), event.1);
            assert!(
                cut.iter()
                    .all(|(_, len)| len.abs_diff(event.1 / pieces) <= 1)
            );
        }
    }
    // Nothing can be cut into more pieces than it has bytes.
    let (writes, same) = bytes(1_000_000, true);
    assert_eq!(same, expected);
    assert!(writes[1..].iter().all(|(_, len)| *len == 1));
}

#[test]
fn random_times_are_those_of_the_seed() {
    let config = |seed| PaceConfig {
        prefill: Prefill::Whole(Latency::new(Law::Gamma, TTFT, TTFT / 2).unwrap()),
        gap: Latency::new(Law::Lognormal, ITL, ITL).unwrap(),
        tokens_per_event: TokensPerEvent::new(Law::Normal, 2.5, 0.5).unwrap(),
        seed,
        ..PaceConfig::default()
    };
    let served = |seed, extra: &str| {
        let mut fed = Fed::new(&modelled(config(seed)));
        let tokens = [fed.accept(), fed.accept()];
        for token in tokens {
            let fields = format!(r#","stream":true,"max_tokens":100{extra}"#);
            fed.feed(token, &chat(&fields));
        }
        fed.run(Nanos::from_secs(1));
        let times = tokens.map(|token| times(&fed, token));
        for token in tokens {
            // A seed chooses where in the list of words it begins.
            let said = responses(&fed.take(token))[0].text();
            assert_eq!(said.split(' ').count(), 100);
            assert_eq!(said == text(100), extra.is_empty());
        }
        times
    };
    let one = served(1, "");
    assert_eq!(served(1, ""), one);
    assert_ne!(served(2, ""), one);
    assert_ne!(one[0], one[1]);
    // Events of 2.5 tokens.
    assert!(one.iter().all(|times| (32..50).contains(&times.len())));
    // A request's own seed decides, whichever number it has.
    let own = served(1, r#","seed":7"#);
    assert_eq!(own[0], own[1]);
    assert!(!one.contains(&own[0]));
}

#[test]
fn late_writes_are_counted_by_how_late_they_are() {
    let mut fed = Fed::new(&ServerConfig {
        late_over: us(100),
        ..modelled(PaceConfig::fixed(TTFT, ITL))
    });
    let token = fed.accept();
    fed.feed(token, &stream(3));
    fed.now = TTFT + us(100);
    fed.run(TTFT + us(100));
    fed.now = TTFT + ITL + us(101);
    fed.run(Nanos::from_millis(5));
    let tally = fed.server.lateness().tally();
    // Neither the head nor what instant mode sends has a time.
    assert_eq!((tally.writes(), tally.late(), tally.max()), (3, 1, us(101)));
    assert_eq!(fed.server.served().lateness, tally);
    let instant = Mode::Instant {
        events_per_write: None,
    };
    let mut fed = Fed::new(&ServerConfig {
        mode: instant,
        ..ServerConfig::default()
    });
    let token = fed.accept();
    fed.feed(token, &stream(3));
    assert_eq!(fed.server.lateness().tally().writes(), 0);
}

#[test]
fn a_server_that_loads_its_model_says_so_in_every_mode() {
    let instant = Mode::Instant {
        events_per_write: None,
    };
    for mode in [instant, Mode::Model(PaceConfig::fixed(TTFT, ITL))] {
        let mut fed = Fed::new(&ServerConfig {
            mode,
            startup: Nanos::from_millis(1_500),
            ..ServerConfig::default()
        });
        let token = fed.accept();
        fed.run(Nanos::from_millis(400));
        let health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
        let models = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
        fed.feed(token, &[&stream(1)[..], health, models].concat());
        let answers = responses(&fed.take(token));
        assert_eq!(
            answers.iter().map(|a| a.status).collect::<Vec<_>>(),
            [503, 503, 200]
        );
        assert!(
            answers[0].head.contains("\r\nretry-after: 2"),
            "{}",
            answers[0].head
        );
        fed.run(Nanos::from_millis(1_500));
        fed.feed(token, &[&stream(1)[..], health].concat());
        fed.run(Nanos::from_secs(2));
        let statuses = responses(&fed.take(token))
            .iter()
            .map(|a| a.status)
            .collect::<Vec<_>>();
        assert_eq!(statuses, [200, 200]);
    }
}

#[test]
fn a_request_that_can_never_fit_is_refused_and_one_that_does_not_fit_now_waits() {
    let config = PaceConfig {
        kv_cache: Some(KvCache {
            blocks: 4,
            block_tokens: 16,
            prefix_caching: false,
        }),
        ..PaceConfig::fixed(TTFT, ITL)
    };
    let mut fed = Fed::new(&modelled(config));
    let tokens = [fed.accept(), fed.accept(), fed.accept()];
    // The prompt has a token or two; with 64 of output it is more than four blocks.
    fed.feed(tokens[0], &stream(64));
    assert_eq!(responses(&fed.take(tokens[0]))[0].status, 400);
    for token in tokens {
        fed.feed(token, &stream(20));
    }
    fed.run(Nanos::from_millis(20));
    let starts = tokens.map(|token| times(&fed, token)[0]);
    let all = TTFT + ITL * 19;
    assert_eq!(starts, [TTFT, TTFT, all + TTFT]);
}
