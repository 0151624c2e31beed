//! The collector and its gap log against an oracle that keeps every sample in a list.

use proptest::prelude::*;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_metrics::{
    Collector, Convention, Counts, Distribution, Fate, Finished, GapLog, GapPool, Metric,
    Percentile, Phase, Slo, Stopped, Timeline, TokenSource, Uncounted,
};

/// One content event: how long after the one before it, and its token count if it said so.
type Event = (u64, Option<u32>);

/// One request, as a test makes it.
#[derive(Clone, Debug)]
struct Request {
    phase: Phase,
    fate: Fate,
    streamed: bool,
    scheduled: u64,
    lag: u64,
    connect: Option<u64>,
    prefill: u64,
    events: Vec<Event>,
    reasoning_events: usize,
    usage: Option<u32>,
    input: Option<u32>,
    bytes: u64,
    cap_wait: u64,
    reason: Option<&'static str>,
}

impl Request {
    fn event_times(&self) -> Vec<u64> {
        let first = self.scheduled + self.lag + self.prefill;
        let gaps = self
            .events
            .iter()
            .enumerate()
            .map(|(i, event)| if i == 0 { 0 } else { event.0 });
        gaps.scan(first, |at, gap| {
            *at += gap;
            Some(*at)
        })
        .collect()
    }

    fn finished(&self, window_end: Option<u64>) -> Finished<'static> {
        let times = self.event_times();
        let submitted = self.scheduled + self.lag;
        let done = times
            .last()
            .map_or(submitted + self.prefill, |last| last + 7);
        let within = |&&at: &&u64| window_end.is_none_or(|end| at <= end);
        let count = |n: usize| u32::try_from(n).expect("few events");
        Finished {
            timeline: Timeline {
                scheduled: Nanos(self.scheduled),
                started: Nanos(self.scheduled + self.lag),
                submitted: Some(Nanos(submitted)),
                connect: self.connect.map(Nanos),
                tls: self.connect.map(|ns| Nanos(2 * ns)),
                first_byte: times.first().copied().map(Nanos),
                first_token: times.first().copied().map(Nanos),
                first_output: times.get(self.reasoning_events).copied().map(Nanos),
                last_token: times.last().copied().map(Nanos),
                done: Some(Nanos(done)),
            },
            finish_reason: self.reason,
            input_tokens: self.input,
            output_tokens: self.usage,
            token_source: if self.usage.is_some() {
                TokenSource::Usage
            } else {
                TokenSource::None
            },
            content_events: count(times.len()),
            first_event_tokens: self.events.first().and_then(|event| event.1),
            events_in_window: count(times.iter().filter(within).count()),
            received_bytes: self.bytes,
            cap_wait: Nanos(self.cap_wait),
            ..Finished::new(self.phase, self.fate, self.streamed)
        }
    }

    fn counts(&self) -> bool {
        self.phase == Phase::Measured && self.fate == Fate::Ok
    }
}

/// Runs requests through a collector one after another.
fn collect(requests: &[Request], slos: &[Slo], window_end: Option<u64>, blocks: u32) -> Collector {
    collect_as(requests, slos, window_end, blocks, |_, finished| finished).0
}

/// The same with `adapt` between the request and what the collector is told; and what it answers.
fn collect_as(
    requests: &[Request],
    slos: &[Slo],
    window_end: Option<u64>,
    blocks: u32,
    adapt: impl Fn(usize, Finished<'static>) -> Finished<'static>,
) -> (Collector, Vec<Option<Uncounted>>) {
    let (mut collector, mut pool) = (Collector::new(slos), GapPool::new(blocks));
    let mut uncounted = Vec::new();
    let mut log = GapLog::new();
    collector.begin(Nanos::ZERO, 1);
    if let Some(end) = window_end {
        collector.stop(Nanos(end), Stopped::Duration);
    }
    for (place, request) in requests.iter().enumerate() {
        collector.issued(request.phase);
        log.begin(&mut pool, request.phase);
        feed(&mut collector, &mut log, &mut pool, request);
        let finished = adapt(place, request.finished(window_end));
        uncounted.push(collector.finished(&finished, &mut log, &mut pool));
        assert_eq!(
            pool.free_blocks(),
            blocks,
            "a finished request gives its blocks back"
        );
    }
    assert!(collector.conserved(0));
    (collector, uncounted)
}

/// Events without a count that come at the same time are told at once, as a read brings them.
fn feed(collector: &mut Collector, log: &mut GapLog, pool: &mut GapPool, request: &Request) {
    let mut waiting: Option<(u64, u32)> = None;
    for (at, (_, tokens)) in request.event_times().into_iter().zip(&request.events) {
        if let (None, Some((since, count))) = (tokens, &mut waiting)
            && *since == at
        {
            *count += 1;
            continue;
        }
        if let Some((since, count)) = waiting.take() {
            collector.content(log, pool, Nanos(since), count);
        }
        match tokens {
            Some(tokens) => collector.content_counted(log, pool, Nanos(at), *tokens),
            None => waiting = Some((at, 1)),
        }
    }
    if let Some((since, count)) = waiting {
        collector.content(log, pool, Nanos(since), count);
    }
}

/// The gaps of one request as ITL and as ICL samples, by the definition.
fn gaps(events: &[Event]) -> (Vec<u64>, Vec<u64>) {
    let (mut itl, mut icl, mut carried) = (vec![], vec![], 0);
    for &(gap, tokens) in events.iter().skip(1) {
        icl.push(gap);
        let spread = gap + carried;
        carried = 0;
        match u64::from(tokens.unwrap_or(1)) {
            0 => carried = spread,
            n => itl.extend((0..n).map(|i| (spread + i) / n)),
        }
    }
    (itl, icl)
}

fn check(name: &str, distribution: &Distribution, mut samples: Vec<u64>) {
    samples.sort_unstable();
    assert_eq!(
        distribution.count(),
        samples.len() as u64,
        "{name}: samples"
    );
    let Some(summary) = distribution.summary() else {
        return;
    };
    assert_eq!(summary.min, samples[0], "{name}: min");
    assert_eq!(summary.max, samples[samples.len() - 1], "{name}: max");
    let sum: u128 = samples.iter().map(|&ns| u128::from(ns)).sum();
    assert_eq!(distribution.sum_ns(), sum, "{name}: sum");
    for percentile in Percentile::SUMMARY {
        let exact = Convention::NearestRank
            .of_sorted(&samples, percentile)
            .expect("samples");
        let found = distribution.percentile(percentile).expect("samples").0 as f64;
        assert!(
            (0.0..=exact / 1e3).contains(&(found - exact)),
            "{name} {percentile}: {found} {exact}"
        );
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![
        4 => Just(0_u64),
        4 => 1..50_000_000_u64,
        1 => 0x7FFF_FFF0..0x8000_0010_u64,
        1 => 0xFFFF_FFF0..0x1_0000_0010_u64,
        1 => 0..1_u64 << 36,
    ];
    let tokens = prop_oneof![6 => Just(None), 2 => Just(Some(1)), 2 => (0..9_u32).prop_map(Some)];
    prop::collection::vec((gap, tokens), 0..120)
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let fate = prop_oneof![
        6 => Just(Fate::Ok),
        1 => Just(Fate::Failed("reset")),
        1 => Just(Fate::Failed("timeout")),
        1 => Just(Fate::Cancelled),
        1 => Just(Fate::GivenUp),
    ];
    let phase = prop_oneof![1 => Just(Phase::Warmup), 6 => Just(Phase::Measured)];
    let shape = (phase, fate, prop::bool::weighted(0.8), events());
    let times = (
        0..9_000_000_000_u64,
        0..50_000_000_u64,
        0..2_000_000_000_u64,
    );
    let extra = (
        prop::option::of(0..1_000_000_u64),
        prop::option::of(0..500_u32),
        prop::option::of(0..4_000_u32),
        0..100_000_u64,
        prop_oneof![Just(0), 0..5_000_u64],
    );
    let request = (shape, times, extra, 0..3_usize).prop_map(
        |((phase, fate, streamed, events), (scheduled, lag, prefill), extra, reasoning_events)| {
            let (connect, usage, input, bytes, cap_wait) = extra;
            let reason = [None, Some("stop"), Some("length")][reasoning_events];
            Request {
                phase,
                fate,
                streamed,
                scheduled,
                lag,
                connect,
                prefill,
                events,
                reasoning_events,
                usage,
                input,
                bytes,
                cap_wait,
                reason,
            }
        },
    );
    prop::collection::vec(request, 0..25)
}

fn samples(requests: &[Request], of: impl Fn(&Request) -> Option<u64>) -> Vec<u64> {
    requests
        .iter()
        .filter(|request| request.counts())
        .filter_map(of)
        .collect()
}

fn check_summaries(collector: &Collector, all: &[Request]) {
    let streamed = |request: &Request, at: Option<u64>| at.filter(|_| request.streamed);
    let end = |request: &Request| {
        let times = request.event_times();
        match times.last() {
            Some(&last) if request.streamed => Some(last),
            None if request.streamed => None,
            Some(&last) => Some(last + 7),
            None => Some(request.scheduled + request.lag + request.prefill),
        }
    };
    let first = |r: &Request| streamed(r, r.event_times().first().copied());
    let output = |r: &Request| streamed(r, r.event_times().get(r.reasoning_events).copied());
    let tpot = |r: &Request| -> Option<u64> {
        let times = r.event_times();
        let (tokens, head) = match r.usage {
            Some(usage) => (usage, r.events.first()?.1.unwrap_or(1)),
            None => (u32::try_from(times.len()).ok()?, 1),
        };
        let span = (r.streamed && tokens >= 2).then_some(times.last()? - times.first()?)?;
        let after = u64::from(tokens.checked_sub(head)?);
        // To the nearest whole, halves up.
        (after > 0).then(|| (span + after / 2) / after)
    };
    let expected: [(Metric, Vec<u64>); 8] = [
        (
            Metric::Latency,
            samples(all, |r| Some(end(r)? - r.scheduled - r.lag)),
        ),
        (
            Metric::LatencyFromSchedule,
            samples(all, |r| Some(end(r)? - r.scheduled)),
        ),
        (
            Metric::Ttft,
            samples(all, |r| Some(first(r)? - r.scheduled - r.lag)),
        ),
        (
            Metric::TtftFromSchedule,
            samples(all, |r| Some(first(r)? - r.scheduled)),
        ),
        (
            Metric::Ttfo,
            samples(all, |r| Some(output(r)? - r.scheduled - r.lag)),
        ),
        (Metric::Tpot, samples(all, tpot)),
        (Metric::Connect, samples(all, |r| r.connect)),
        (Metric::Tls, samples(all, |r| Some(2 * r.connect?))),
    ];
    for (metric, samples) in expected {
        check(metric.name(), &collector.distribution(metric), samples);
    }
    check_client(collector, all);
}

/// What judges the client, whatever came of its requests.
fn check_client(collector: &Collector, all: &[Request]) {
    let client = |of: fn(&Request) -> u64| -> Vec<u64> {
        all.iter()
            .filter(|r| r.phase == Phase::Measured)
            .map(of)
            .collect()
    };
    check(
        "lag",
        &collector.distribution(Metric::ScheduleLag),
        client(|r| r.lag.saturating_sub(r.cap_wait)),
    );
    check(
        "cap_wait",
        &collector.distribution(Metric::CapWait),
        client(|r| r.cap_wait),
    );
    let waited = client(|r| r.cap_wait)
        .into_iter()
        .filter(|&ns| ns > 0)
        .count();
    assert_eq!(collector.cap_waited(), waited as u64);
}

fn check_gaps(collector: &Collector, all: &[Request]) {
    let pooled = all
        .iter()
        .filter(|r| r.counts() && r.streamed)
        .map(|r| gaps(&r.events));
    let (itl, icl): (Vec<_>, Vec<_>) = pooled.unzip();
    check("itl", &collector.distribution(Metric::Itl), itl.concat());
    check("icl", &collector.distribution(Metric::Icl), icl.concat());
}

fn check_counts(collector: &Collector, all: &[Request]) {
    for phase in [Phase::Warmup, Phase::Measured] {
        let count = |fate: fn(&Fate) -> bool| {
            all.iter()
                .filter(|r| r.phase == phase && fate(&r.fate))
                .count() as u64
        };
        let expected = Counts {
            issued: count(|_| true),
            completed: count(|fate| *fate == Fate::Ok),
            failed: count(|fate| matches!(fate, Fate::Failed(_))),
            cancelled: count(|fate| matches!(fate, Fate::Cancelled | Fate::GivenUp)),
            given_up: count(|fate| *fate == Fate::GivenUp),
            retried: 0,
        };
        assert_eq!(collector.counts(phase), expected);
    }
    let measured = collector.counts(Phase::Measured);
    assert_eq!(collector.errors().total(), measured.failed);
    let reasons = samples(all, |r| r.reason.map(|_| 1)).len() as u64;
    assert_eq!(collector.finish_reasons().total(), reasons);
    let tokens = collector.tokens();
    let usage: u64 = samples(all, |r| r.usage.map(u64::from)).iter().sum();
    let events: u64 = samples(all, |r| {
        (r.usage.is_none() && r.streamed).then_some(r.events.len() as u64)
    })
    .iter()
    .sum();
    assert_eq!((tokens.source.usage, tokens.source.events), (usage, events));
    assert_eq!(tokens.output, usage + events);
}

proptest! {
    // A collector takes 4 MB: fewer cases than usual, of up to 25 requests each.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_collector_agrees_with_lists(all in requests()) {
        let collector = collect(&all, &[], None, 64);
        prop_assert_eq!(collector.gaps_committed_early(), 0);
        check_summaries(&collector, &all);
        check_gaps(&collector, &all);
        check_counts(&collector, &all);
        let volume = collector.volume_in_window();
        prop_assert_eq!(volume.requests, collector.counts(Phase::Measured).completed);
        prop_assert_eq!(volume.output_tokens, collector.tokens().output);
        prop_assert_eq!(volume.bytes, collector.received_bytes());
        prop_assert_eq!(volume.content_events, collector.content_events());
    }

    #[test]
    fn merging_shards_is_collecting_in_one(all in requests(), of in 1..5_usize) {
        let slos = Slo::parse_all("ttft=500ms,itl:p90=9ms,tpot=20ms").expect("three SLOs");
        let end = Some(5_000_000_000);
        let mut merged = Collector::new(&slos);
        for shard in 0..of {
            let own: Vec<_> = all.iter().skip(shard).step_by(of).cloned().collect();
            merged.merge(&collect(&own, &slos, end, 64));
        }
        let mut one = Collector::new(&slos);
        one.merge(&collect(&all, &slos, end, 64));
        // Each shard was asked for one slot: their sum is the number of shards.
        prop_assert_eq!(merged.target_concurrency(), of as u64);
        prop_assert_eq!(merged.goodput(), one.goodput());
        prop_assert_eq!(merged.throughput(), one.throughput());
        let text = |collector: &Collector| {
            let mut value = serde_json::to_value(collector).expect("numbers and names");
            value["concurrency"].take();
            value
        };
        prop_assert_eq!(text(&merged), text(&one));
    }

    #[test]
    fn counting_tokens_after_the_run_is_counting_them_in_it(all in requests(), of in 1..300_u32) {
        let slos = Slo::parse_all("ttft=500ms,itl:p90=9ms,tpot:p90=20ms").expect("three SLOs");
        let end = Some(5_000_000_000);
        let tokens = |place: usize| u32::try_from(place).expect("few") * 7 % of;
        let known = |place: usize, finished: Finished<'static>| Finished {
            output_tokens: Some(tokens(place)),
            token_source: TokenSource::Tokenizer,
            count_later: false,
            ..finished
        };
        let later = |finished: &Finished<'_>| {
            finished.output_tokens.is_none() && finished.content_events > 0
        };
        let said = |collector: &Collector| {
            let distribution = collector.distribution(Metric::Tpot).into_owned();
            (
                (collector.tokens(), collector.volume_in_window(), distribution),
                (collector.goodput(), collector.throughput()),
            )
        };
        let (mut collector, uncounted) = collect_as(&all, &slos, end, 64, |_, finished| {
            Finished { count_later: later(&finished), ..finished }
        });
        prop_assert_eq!(said(&collector), said(&collect(&all, &slos, end, 64)), "until then");
        let mut recount = collector.recount();
        for (place, (request, about)) in all.iter().zip(&uncounted).enumerate() {
            let finished = request.finished(end);
            let asked = request.phase == Phase::Measured && later(&finished);
            prop_assert_eq!(about.is_some(), asked);
            if let Some(about) = about && request.fate == Fate::Ok {
                // Of the record only these are left.
                let finished = Finished {
                    timeline: Timeline {
                        first_token: finished.timeline.first_token,
                        last_token: finished.timeline.last_token,
                        ..Timeline::default()
                    },
                    content_events: finished.content_events,
                    ..Finished::new(Phase::Measured, Fate::Ok, false)
                };
                let before = collector.clone();
                if recount.requests() < collector.uncounted() {
                    prop_assert!(!collector.counted(&recount), "one is missing");
                    prop_assert_eq!(&collector, &before);
                }
                recount.add(&known(place, finished), about);
            }
        }
        prop_assert_eq!(recount.requests(), collector.uncounted());
        prop_assert!(collector.counted(&recount));
        prop_assert_eq!(collector.uncounted(), 0);
        let (inside, _) = collect_as(&all, &slos, end, 64, |place, finished| {
            if later(&finished) { known(place, finished) } else { finished }
        });
        prop_assert_eq!(said(&collector), said(&inside));
    }

    #[test]
    fn what_crosses_processes_is_the_same(all in requests()) {
        let slos = Slo::parse_all("ttft=500ms,itl:p99.9=9ms").expect("two SLOs");
        let collector = collect(&all, &slos, None, 64);
        let text = serde_json::to_string(&collector).expect("numbers and names");
        let back: Collector = serde_json::from_str(&text).expect("its own text");
        prop_assert_eq!(back, collector);
    }

    #[test]
    fn an_empty_pool_loses_no_gap(all in requests(), blocks in 0..4_u32) {
        let ok: Vec<Request> = all
            .into_iter()
            .filter(|request| request.counts() && request.streamed)
            .collect();
        check_gaps(&collect(&ok, &[], None, blocks), &ok);
    }

    #[test]
    fn logs_in_flight_together_do_not_mix(all in requests()) {
        let blocks = 400;
        let (mut collector, mut pool) = (Collector::new(&[]), GapPool::new(blocks));
        let mut logs: Vec<GapLog> = all.iter().map(|_| GapLog::new()).collect();
        let most = all.iter().map(|request| request.events.len()).max().unwrap_or(0);
        for (request, log) in all.iter().zip(&mut logs) {
            collector.issued(request.phase);
            log.begin(&mut pool, request.phase);
        }
        for turn in 0..most {
            for (request, log) in all.iter().zip(&mut logs) {
                let times = request.event_times();
                match request.events.get(turn).map(|event| (Nanos(times[turn]), event.1)) {
                    Some((at, None)) => collector.content(log, &mut pool, at, 1),
                    Some((at, Some(n))) => collector.content_counted(log, &mut pool, at, n),
                    None => {}
                }
            }
        }
        prop_assert!(collector.conserved(all.len() as u64));
        for (request, log) in all.iter().zip(&mut logs) {
            collector.finished(&request.finished(None), log, &mut pool);
        }
        prop_assert_eq!(collector.gaps_committed_early(), 0);
        prop_assert_eq!(pool.free_blocks(), blocks);
        check_gaps(&collector, &all);
    }
}

fn streamed(events: &[Event]) -> Request {
    Request {
        phase: Phase::Measured,
        fate: Fate::Ok,
        streamed: true,
        scheduled: 0,
        lag: 0,
        connect: None,
        prefill: 1_000,
        events: events.to_vec(),
        reasoning_events: 0,
        usage: None,
        input: None,
        bytes: 1_000,
        cap_wait: 0,
        reason: None,
    }
}

#[test]
fn only_the_part_inside_the_window_counts_for_throughput() {
    // Events at 1000, 2000, 3000, 4000; the window ends at 2500 and the response at 4007.
    let outlasting = Request {
        usage: Some(8),
        ..streamed(&[(1_000, None); 4])
    };
    let inside = Request {
        usage: Some(5),
        input: Some(3),
        ..streamed(&[(1_000, None); 2])
    };
    let collector = collect(&[outlasting, inside], &[], Some(2_500), 8);
    let volume = collector.volume_in_window();
    assert_eq!(volume.requests, 1);
    assert_eq!(volume.input_tokens, 3);
    assert_eq!(volume.output_tokens, 4 + 5);
    assert_eq!(volume.content_events, 2 + 2);
    assert_eq!(volume.bytes, 500 + 1_000);
    assert_eq!(collector.duration(), Some(Nanos(2_500)));
    // Summaries hold both: they were scheduled in the window.
    assert_eq!(collector.distribution(Metric::Latency).count(), 2);
}

#[test]
fn gaps_of_a_request_that_fails_are_pooled_only_when_the_pool_ran_out() {
    let failed = Request {
        fate: Fate::Failed("truncated"),
        ..streamed(&[(9, None); 101])
    };
    let with_room = collect(std::slice::from_ref(&failed), &[], None, 4);
    assert_eq!(with_room.distribution(Metric::Itl).count(), 0);
    let without = collect(&[failed], &[], None, 2);
    assert_eq!(without.gaps_committed_early(), 64);
    assert_eq!(without.distribution(Metric::Itl).count(), 64);
}

#[test]
fn nothing_of_the_warm_up_is_pooled_even_early() {
    let warmup = Request {
        phase: Phase::Warmup,
        ..streamed(&[(9, Some(2)); 500])
    };
    let collector = collect(&[warmup], &[], None, 0);
    assert_eq!(collector.gaps_committed_early(), 0);
    assert_eq!(collector.distribution(Metric::Icl).count(), 0);
    assert_eq!(collector.counts(Phase::Warmup).completed, 1);
    assert_eq!(collector.counts(Phase::Measured), Counts::default());
}

#[test]
fn itl_spreads_a_gap_over_tokens_and_icl_does_not() {
    let events = [
        (0, Some(4)),
        (100, Some(4)),
        (30, None),
        (0, None),
        (10, Some(0)),
        (5, Some(3)),
    ];
    let collector = collect(&[streamed(&events)], &[], None, 8);
    let sorted = |metric| {
        let distribution = collector.distribution(metric);
        (
            distribution.count(),
            distribution.sum_ns(),
            distribution.max(),
        )
    };
    // 25 x 4; 30; 0; then 10 + 5 over three tokens.
    assert_eq!(sorted(Metric::Itl), (4 + 2 + 3, 145, Some(Nanos(30))));
    assert_eq!(sorted(Metric::Icl), (5, 145, Some(Nanos(100))));
}

#[test]
fn delays_count_by_event_and_only_while_measuring() {
    let mut collector = Collector::new(&[]);
    let arrival = Arrival {
        at: Nanos(50),
        not_before: Nanos(20),
        reaped: Nanos(57),
    };
    collector.read(arrival, 3);
    collector.begin(Nanos(0), 1);
    collector.read(arrival, 4);
    collector.read(arrival, 0);
    let delay = collector
        .distribution(Metric::HarnessDelay)
        .summary()
        .expect("four events");
    assert_eq!((delay.count, delay.min, delay.max), (4, 7, 7));
    let width = collector
        .distribution(Metric::StampWidth)
        .summary()
        .expect("four events");
    assert_eq!((width.count, width.p50), (4, 30));
    assert_eq!(width.min, 0, "the last event of the read has its own stamp");
}

#[test]
fn a_read_of_one_event_is_as_exact_as_its_stamp() {
    let mut collector = Collector::new(&[]);
    collector.begin(Nanos(0), 1);
    collector.read(
        Arrival {
            at: Nanos::from_millis(25),
            not_before: Nanos::from_millis(20),
            reaped: Nanos::from_millis(25),
        },
        1,
    );
    let width = collector.distribution(Metric::StampWidth);
    assert_eq!((width.count(), width.max()), (1, Some(Nanos::ZERO)));
}

#[test]
fn goodput_counts_good_requests_of_the_window() {
    let slos = Slo::parse_all("ttft=1us,itl=50ns").expect("two SLOs");
    let good = streamed(&[(0, None), (50, None), (50, None)]);
    let slow = streamed(&[(0, None), (50, None), (52, None)]);
    let late = Request {
        prefill: 1_001,
        ..good.clone()
    };
    let one_token = streamed(&[(0, None)]);
    let failed = Request {
        fate: Fate::Failed("reset"),
        ..good.clone()
    };
    let cancelled = Request {
        fate: Fate::Cancelled,
        ..good.clone()
    };
    let all = [good, slow, late, one_token, failed, cancelled];
    let goodput = collect(&all, &slos, Some(10_000), 8)
        .goodput()
        .expect("two SLOs");
    assert_eq!((goodput.good, goodput.judged), (2, 5));
    assert_eq!(goodput.requests_per_s, Some(2.0 / 10e-6));
}

#[test]
fn requests_submitted_in_the_window_are_told_from_later_ones() {
    let at = |scheduled| Request {
        scheduled,
        ..streamed(&[(0, None)])
    };
    let mut collector = collect(&[at(10), at(100), at(101)], &[], Some(100), 1);
    collector.due(4);
    collector.never_sent(Nanos(0));
    let arrived = collector.arrived();
    assert_eq!(
        (arrived.scheduled, arrived.submitted, arrived.never_sent),
        (4, 2, 1)
    );
}

#[test]
fn failures_before_anything_was_sent_are_told_apart() {
    let mut collector = Collector::new(&[]);
    let (mut log, mut pool) = (GapLog::new(), GapPool::new(1));
    let sent = Timeline {
        submitted: Some(Nanos(5)),
        ..Timeline::default()
    };
    for (phase, fate, timeline) in [
        (
            Phase::Measured,
            Fate::Failed("connect"),
            Timeline::default(),
        ),
        (Phase::Measured, Fate::Failed("timeout"), sent),
        (Phase::Measured, Fate::Cancelled, Timeline::default()),
        (Phase::Warmup, Fate::Failed("connect"), Timeline::default()),
    ] {
        let finished = Finished {
            timeline,
            ..Finished::new(phase, fate, true)
        };
        collector.finished(&finished, &mut log, &mut pool);
    }
    assert_eq!(collector.unsent_failures(), 1);
    let twice = collector.clone();
    collector.merge(&twice);
    assert_eq!(collector.unsent_failures(), 2);
}

#[test]
fn a_tokenizer_counts_prompts_where_the_server_does_not() {
    let mut collector = Collector::new(&[]);
    let (mut log, mut pool) = (GapLog::new(), GapPool::new(1));
    collector.begin(Nanos::ZERO, 1);
    for (usage, counted) in [(Some(10), Some(7)), (None, Some(8)), (None, None)] {
        collector.issued(Phase::Measured);
        let finished = Finished {
            timeline: Timeline {
                done: Some(Nanos(9)),
                ..Timeline::default()
            },
            input_tokens: usage,
            input_counted: counted,
            ..Finished::new(Phase::Measured, Fate::Ok, true)
        };
        collector.finished(&finished, &mut log, &mut pool);
    }
    let tokens = collector.tokens();
    assert_eq!((tokens.input, tokens.input_counted), (18, 8));
    assert_eq!(collector.volume_in_window().input_tokens, 18);
}

#[test]
fn what_was_measured_on_another_clock_merges_as_if_on_one() {
    let measure = |start: u64| {
        let (mut collector, mut pool) = (Collector::new(&[]), GapPool::new(8));
        let mut log = GapLog::new();
        collector.begin(Nanos(start), 1);
        let request = Request {
            scheduled: start + 100,
            ..streamed(&[(0, None), (50, None)])
        };
        collector.issued(Phase::Measured);
        feed(&mut collector, &mut log, &mut pool, &request);
        collector.finished(&request.finished(None), &mut log, &mut pool);
        collector.stop(Nanos(start + 90_000), Stopped::Duration);
        collector
    };
    let mut here = measure(1_000_000);
    let mut there = measure(7);
    assert_ne!(here, there);
    there.rebase(Nanos(7), Nanos(1_000_000));
    assert_eq!(here, there);
    here.merge(&there);
    assert_eq!(here.duration(), Some(Nanos(90_000)));
}
