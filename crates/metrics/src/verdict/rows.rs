use ridgeline_clock::Nanos;

use super::{
    BelowFloor, Code, Evidence, Load, Reason, Resource, ShardLoad, Status, Unit, VerdictLimits,
};

/// One row of the table: the reason it gives, if its limit is passed.
pub(super) type Row = fn(&Evidence, &VerdictLimits) -> Option<Reason>;

/// The table, in the order of a report.
pub(super) const ROWS: [Row; 20] = [
    rate,
    lag_median,
    lag_share,
    lag_p99,
    never_sent,
    concurrency,
    capped,
    harness_delay,
    send,
    busy,
    stall,
    resources,
    windows,
    shared_core,
    workers,
    errors,
    censored,
    records,
    short,
    floors,
];

const SEND_FASTER: &str = "give the client more cores (--cores, one shard each) and keep other work \
     off them, or lower --request-rate";

const KEEP_OFF: &str = "something else ran on its core: pin the client to cores of its own (--cores) \
     and keep other work, interrupts and the server off them";

const REFUSED: &str = "the endpoint did not take the connections for them: look at the errors in the \
     report, and whether it is still up";

fn rate(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let Evidence { arrived, .. } = judged_by_schedule(evidence, limits)?;
    let due = arrived.scheduled as f64;
    let allowed = (limits.rate_missing_share * due).max(limits.rate_missing_requests as f64);
    let missing = arrived.scheduled.saturating_sub(arrived.submitted);
    (missing as f64 > allowed).then(|| Reason {
        code: Code::Rate,
        status: Status::Invalid,
        message: format!(
            "only {} of the {} requests due in the window were sent in it",
            arrived.submitted, arrived.scheduled
        ),
        value: arrived.submitted as f64 / due,
        limit: 1.0 - allowed / due,
        unit: Unit::Share,
        remedy: match evidence.load {
            _ if evidence.is_refused(limits) => REFUSED.to_owned(),
            Load::Timed { cap: Some(cap) } => format!(
                "the cap of {cap} requests in flight may hold the rate back: raise --concurrency; \
                 otherwise {SEND_FASTER}"
            ),
            _ => SEND_FASTER.to_owned(),
        },
    })
}

fn lag_median(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let lag = judged_by_schedule(evidence, limits)?.lag_median?;
    let limit = Nanos(limits.lag_median_ns);
    (lag > limit).then(|| Reason {
        message: format!("half of the requests started over {lag} after they were due"),
        remedy: SEND_FASTER.to_owned(),
        ..span(Code::LagMedian, Status::Invalid, lag, limit)
    })
}

fn lag_share(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let late = judged_by_schedule(evidence, limits)?.lag_late_share;
    let limit = limits.lag_late_requests_share;
    (late > limit).then(|| Reason {
        code: Code::LagShare,
        status: Status::Invalid,
        message: format!(
            "{} of the requests started more than {} after they were due",
            percent(late),
            evidence.late_beyond(limits)
        ),
        value: late,
        limit,
        unit: Unit::Share,
        remedy: SEND_FASTER.to_owned(),
    })
}

fn lag_p99(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let lag = judged_by_schedule(evidence, limits)?.lag_p99?;
    let limit = evidence
        .of_response(limits.lag_p99_ttft_share)
        .max(Nanos(limits.lag_p99_ns));
    (lag > limit).then(|| Reason {
        message: format!("1 % of the requests started over {lag} after they were due"),
        remedy: format!(
            "judge by the latencies from the schedule, which hold the lag, or {SEND_FASTER}"
        ),
        ..span(Code::LagP99, Status::Degraded, lag, limit)
    })
}

fn never_sent(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let unsent = evidence.arrived.never_sent;
    (unsent > limits.never_sent).then(|| Reason {
        message: format!("{unsent} requests were due and not sent before the run ended"),
        remedy: match evidence.load {
            Load::Timed { cap: Some(_) } => {
                "the server did not keep up with the rate under the cap: raise --concurrency or \
                 lower --request-rate"
                    .to_owned()
            }
            _ => SEND_FASTER.to_owned(),
        },
        ..count(Code::NeverSent, Status::Invalid, unsent, limits.never_sent)
    })
}

fn concurrency(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let asked = evidence.concurrency_asked;
    let timed = matches!(evidence.load, Load::Timed { .. });
    if timed || asked == 0 || evidence.is_short(limits) {
        return None;
    }
    let effective = evidence.concurrency_effective;
    let limit = limits.concurrency_share * asked as f64;
    (effective < limit).then(|| Reason {
        code: Code::Concurrency,
        status: Status::Invalid,
        message: format!("{effective:.1} requests were in flight on average, not {asked}"),
        value: effective,
        limit,
        unit: Unit::Count,
        remedy: if evidence.is_refused(limits) {
            REFUSED.to_owned()
        } else {
            "refilling slots took too long: give the client more cores (--cores), look at the \
             connect times and errors, or lower --concurrency"
                .to_owned()
        },
    })
}

fn capped(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let Load::Timed { cap: Some(cap) } = evidence.load else {
        return None;
    };
    let share = evidence.cap_waited as f64 / evidence.counts.issued.max(1) as f64;
    (share > limits.capped_share).then(|| Reason {
        code: Code::Capped,
        status: Status::Degraded,
        message: format!(
            "{} of the requests waited because {cap} were in flight: the load was not the rate",
            percent(share)
        ),
        value: share,
        limit: limits.capped_share,
        unit: Unit::Share,
        remedy: "raise --concurrency or leave it out, lower --request-rate, or ask for a closed \
                 loop (--concurrency alone)"
            .to_owned(),
    })
}

fn harness_delay(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    if !evidence.streamed {
        return None;
    }
    let limit = evidence.harness_delay_limit(limits)?;
    let delay = evidence.harness_delay_p99.unwrap_or(Nanos::ZERO);
    let width = evidence.stamp_width_p99.unwrap_or(Nanos::ZERO);
    let worst = delay.max(width);
    (worst > limit).then(|| Reason {
        message: if delay >= width {
            format!("1 % of the events lay in the machine for over {delay} before they were read")
        } else {
            format!("1 % of the events came at a time known only to within {width}")
        },
        remedy: if evidence.is_idle() {
            format!("{KEEP_OFF}; TTFT and ITL below the delay mean little")
        } else {
            "give the client more cores (--cores) so that it reads sooner, or lower the load; \
             TTFT and ITL below the delay mean little"
                .to_owned()
        },
        ..span(Code::HarnessDelay, Status::Degraded, worst, limit)
    })
}

fn send(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let send = evidence.send_p99?;
    let limit = evidence
        .of_response(limits.harness_delay_share)
        .max(Nanos(limits.send_p99_ns));
    (send > limit).then(|| Reason {
        message: format!("1 % of the requests took over {send} to hand to the kernel"),
        remedy: if evidence.is_idle() {
            format!("{KEEP_OFF}; TTFT holds that time")
        } else {
            "give the client more cores (--cores) so that fewer requests are sent at once, or lower \
             the load; TTFT holds that time"
                .to_owned()
        },
        ..span(Code::Send, Status::Degraded, send, limit)
    })
}

fn busy(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let by_busy = |a: &&ShardLoad, b: &&ShardLoad| a.busy_fraction.total_cmp(&b.busy_fraction);
    let shard = evidence.shards.iter().max_by(by_busy)?;
    let limit = limits.busy_fraction;
    (shard.busy_fraction > limit).then(|| Reason {
        code: Code::Busy,
        status: Status::Degraded,
        message: format!(
            "the shard{} was busy {} of the time",
            core(shard),
            percent(shard.busy_fraction)
        ),
        value: shard.busy_fraction,
        limit,
        unit: Unit::Share,
        remedy: "the client is near its ceiling: add cores (--cores, one shard each) or machines"
            .to_owned(),
    })
}

fn stall(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let shard = evidence
        .shards
        .iter()
        .max_by_key(|shard| shard.longest_stall)?;
    let (stall, limit) = (shard.longest_stall, Nanos(limits.stall_ns));
    let cause = shard.stall_cause.as_ref();
    let why = cause.map_or_else(String::new, |cause| format!(": {}", cause.words));
    (stall > limit).then(|| Reason {
        message: format!("the shard{} stood still for {stall}{why}", core(shard)),
        remedy: cause
            .and_then(|cause| cause.remedy)
            .unwrap_or(KEEP_OFF)
            .to_owned(),
        ..span(Code::Stall, Status::Degraded, stall, limit)
    })
}

fn resources(evidence: &Evidence, _: &VerdictLimits) -> Option<Reason> {
    let exhausted = || {
        evidence
            .exhausted
            .iter()
            .filter(|exhausted| exhausted.times > 0)
    };
    let times: u64 = exhausted().map(|exhausted| exhausted.times).sum();
    let named = |exhausted: &super::Exhausted| match exhausted.times {
        1 => exhausted.resource.name().to_owned(),
        times => format!("{} ({times} times)", exhausted.resource.name()),
    };
    (times > 0).then(|| Reason {
        message: format!("the client ran out of {}", join(exhausted().map(named))),
        remedy: join(exhausted().map(|exhausted| exhausted.resource.remedy().to_owned())),
        ..count(Code::Resources, Status::Invalid, times, 0)
    })
}

fn windows(evidence: &Evidence, _: &VerdictLimits) -> Option<Reason> {
    let stalls = evidence.window_stalls;
    (stalls > 0).then(|| Reason {
        message: format!(
            "the server had to wait {stalls} times for a window of the client (HTTP/2)"
        ),
        remedy: "raise limits.http2-stream-window-bytes and limits.http2-connection-window-bytes"
            .to_owned(),
        ..count(Code::Windows, Status::Degraded, stalls, 0)
    })
}

fn shared_core(evidence: &Evidence, _: &VerdictLimits) -> Option<Reason> {
    evidence.shared_core.then(|| Reason {
        message: "the client and the embedded server shared a core".to_owned(),
        remedy: "give them two cores (--cores), or run the server on another machine".to_owned(),
        ..count(Code::SharedCore, Status::Degraded, 1, 0)
    })
}

fn workers(evidence: &Evidence, _: &VerdictLimits) -> Option<Reason> {
    let short = &evidence.workers_short;
    (!short.is_empty()).then(|| Reason {
        message: short.join("; "),
        remedy: "from then on the load was not what was asked for, and of a lost worker the numbers are \
                 missing: look at what that worker says itself, and run again"
            .to_owned(),
        ..count(Code::Workers, Status::Invalid, short.len() as u64, 0)
    })
}

fn errors(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let rate = evidence.error_rate();
    let over = limits.max_error_rate.filter(|&max| rate > max);
    let limit = over.or_else(|| (rate > limits.error_rate).then_some(limits.error_rate))?;
    let finished = evidence.counts.completed + evidence.counts.failed;
    Some(Reason {
        code: Code::Errors,
        status: Status::Degraded,
        message: format!("{} of {finished} requests failed", evidence.counts.failed),
        value: rate,
        limit,
        unit: Unit::Share,
        remedy: "look at the kinds of errors in the report: latencies are those of the successes \
                 alone, and failing early makes a server look fast"
            .to_owned(),
    })
}

fn censored(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    // Those that the plan has given up are missed by nobody.
    let cancelled = evidence.counts.cancelled - evidence.counts.given_up;
    (cancelled > limits.censored).then(|| Reason {
        message: format!("{cancelled} requests were given up before they ended"),
        remedy: "the slowest requests are missing from the summaries: raise --drain-timeout, or \
                 lower the load"
            .to_owned(),
        ..count(Code::Censored, Status::Degraded, cancelled, limits.censored)
    })
}

fn records(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let dropped = evidence.records_dropped;
    (dropped > limits.records_dropped).then(|| Reason {
        message: format!("{dropped} records were dropped; the summaries are complete"),
        remedy: "write to a faster disk, leave a core free for the writer, or use --records none"
            .to_owned(),
        ..count(
            Code::Records,
            Status::Degraded,
            dropped,
            limits.records_dropped,
        )
    })
}

fn short(evidence: &Evidence, limits: &VerdictLimits) -> Option<Reason> {
    let (requests, duration) = (evidence.requests(), evidence.duration);
    let few = requests < limits.run_requests_min;
    evidence.is_short(limits).then(|| Reason {
        message: format!(
            "{requests} requests in {duration} are too few to judge rate, lag and concurrency"
        ),
        remedy: format!(
            "run for at least {} and {} requests (--duration, --request-count)",
            Nanos(limits.run_ns_min),
            limits.run_requests_min
        ),
        ..if few {
            count(
                Code::Samples,
                Status::Degraded,
                requests,
                limits.run_requests_min,
            )
        } else {
            span(
                Code::Samples,
                Status::Degraded,
                duration,
                Nanos(limits.run_ns_min),
            )
        }
    })
}

fn floors(evidence: &Evidence, _: &VerdictLimits) -> Option<Reason> {
    let farthest = |below: &&BelowFloor| {
        std::cmp::Reverse(
            below
                .percentile
                .sample_floor()
                .saturating_sub(below.samples),
        )
    };
    let worst = evidence.below_floor.iter().min_by_key(farthest)?;
    let floor = worst.percentile.sample_floor();
    let named = |below: &BelowFloor| format!("{} {}", below.metric, below.percentile);
    Some(Reason {
        message: format!(
            "too few samples stand behind {}",
            join(evidence.below_floor.iter().map(named))
        ),
        remedy: format!(
            "{} of {} needs {floor} samples and has {}: run longer (--duration, --request-count)",
            worst.percentile, worst.metric, worst.samples
        ),
        ..count(Code::Samples, Status::Degraded, worst.samples, floor)
    })
}

/// The evidence, if a schedule was to be followed for long enough.
fn judged_by_schedule<'a>(evidence: &'a Evidence, limits: &VerdictLimits) -> Option<&'a Evidence> {
    let timed = matches!(evidence.load, Load::Timed { .. });
    (timed && !evidence.is_short(limits)).then_some(evidence)
}

/// A reason in ns, its texts to be filled in.
fn span(code: Code, status: Status, value: Nanos, limit: Nanos) -> Reason {
    let (message, remedy) = (String::new(), String::new());
    let (value, limit) = (value.0 as f64, limit.0 as f64);
    Reason {
        code,
        status,
        message,
        value,
        limit,
        unit: Unit::Ns,
        remedy,
    }
}

/// A reason in things, its texts to be filled in.
fn count(code: Code, status: Status, value: u64, limit: u64) -> Reason {
    let (message, remedy) = (String::new(), String::new());
    let (value, limit) = (value as f64, limit as f64);
    Reason {
        code,
        status,
        message,
        value,
        limit,
        unit: Unit::Count,
        remedy,
    }
}

fn core(shard: &ShardLoad) -> String {
    shard
        .core
        .map_or_else(String::new, |core| format!(" on core {core}"))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent < 10.0 { 2 } else { 1 };
    format!("{percent:.decimals$} %")
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Ports => "local ports",
            Self::Descriptors => "file descriptors",
            Self::Buffers => "receive buffers",
            Self::Pool => "connections or event memory",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Ports => {
                "for ports widen net.ipv4.ip_local_port_range, keep connections alive, or give the \
                 server more addresses"
            }
            Self::Descriptors => "for descriptors raise `ulimit -n` or lower --concurrency",
            Self::Buffers => "for buffers add shards (--cores) so that each reads less",
            Self::Pool => "for the pool lower --concurrency or raise its limit in the plan",
        }
    }
}
