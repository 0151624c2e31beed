//! A made-up roofline for tests.

use ridgeline_report::{Environment, Program};

use crate::{
    Ceiling, Cores, EVENTS_PER_WRITE, Found, Measured, Origin, Roofline, Row, Section, SectionRun,
    Unit,
};

fn measured(achieved: f64, cpu_ns: f64, ceiling: (&str, f64, f64)) -> Measured {
    let (name, value, ceiling_cpu_ns) = ceiling;
    Measured {
        achieved,
        cpu_ns: Some(cpu_ns),
        ceiling: Some(Ceiling {
            name: name.to_owned(),
            value,
            cpu_ns: Some(ceiling_cpu_ns),
        }),
    }
}

/// Rows of every kind.
pub(crate) fn rows() -> Vec<Row> {
    let scanner = Row::new(Section::Scanner, "1 token an event", Unit::BytesPerS)
        .at("tokens_per_event", 1.0)
        .measured(measured(11.5e9, 17.8, ("memchr pass", 39.7e9, 5.2)))
        .limited_by("the core: one pass over the bytes");
    let transport = Row::new(Section::Transport, "ZeroMQ, 128 B", Unit::MessagesPerS)
        .limited_by("not measured: not built in");
    let mut rows = vec![scanner, transport];
    rows.extend(client());
    rows.extend(sse());
    rows.extend(schedule());
    rows.extend(streams());
    rows
}

fn client() -> impl Iterator<Item = Row> {
    let figures = [
        (1.0, 21_000.0, 22_500.0),
        (16.0, 140_000.0, 150_000.0),
        (64.0, 165_000.0, 175_000.0),
        (256.0, 161_000.0, 172_000.0),
        (1024.0, 150_000.0, 160_000.0),
    ];
    figures.into_iter().map(|(connections, achieved, ceiling)| {
        let name = format!("{connections} connections, 128 B prompt");
        Row::new(Section::Client, name, Unit::RequestsPerS)
            .at("connections", connections)
            .at("prompt_bytes", 128.0)
            .measured(measured(
                achieved,
                4_300.0,
                ("bare client", ceiling, 4_000.0),
            ))
            .limited_by("the server's core, 99 % busy")
    })
}

fn sse() -> impl Iterator<Item = Row> {
    let figures = [
        (1.0, 412_000.0, 410_000.0),
        (4.0, 1.5e6, 1.6e6),
        (16.0, 5.2e6, 5.6e6),
        (1000.0, 34.1e6, 37.9e6),
    ];
    figures.into_iter().map(|(events, achieved, ceiling)| {
        Row::new(
            Section::Sse,
            format!("{events} events a write"),
            Unit::EventsPerS,
        )
        .at(EVENTS_PER_WRITE, events)
        .measured(measured(achieved, 29.0, ("bare client", ceiling, 26.0)))
        .limited_by("the client's core, 97 % busy")
    })
}

fn schedule() -> Vec<Row> {
    let highest = measured(118_000.0, 6_000.0, ("bare sleeper", 300_000.0, 2_000.0));
    let mut rows = vec![
        Row::new(Section::Schedule, "highest timely rate", Unit::RequestsPerS)
            .measured(highest)
            .limited_by("p99 lag over 1 ms"),
    ];
    for (share, rate, lag) in [
        (0.1, 11_800.0, 55e3),
        (0.5, 59_000.0, 61e3),
        (0.9, 106_000.0, 840e3),
    ] {
        for (percentile, lag) in [(50.0, lag / 2.0), (99.0, lag)] {
            let name = format!("p{percentile} at {} %", share * 100.0);
            let row = Row::new(Section::Schedule, name, Unit::LagNs)
                .at("rate_per_s", rate)
                .at("percentile", percentile)
                .measured(Measured {
                    achieved: lag,
                    cpu_ns: None,
                    ceiling: Some(Ceiling {
                        name: "bare sleeper".to_owned(),
                        value: 52e3,
                        cpu_ns: None,
                    }),
                });
            rows.push(row.limited_by("the timer"));
        }
    }
    rows
}

fn streams() -> [Row; 2] {
    let alone = |achieved| Measured {
        achieved,
        cpu_ns: None,
        ceiling: None,
    };
    [
        Row::new(Section::Streams, "50000 streams", Unit::Streams)
            .at("streams", 50_000.0)
            .measured(alone(50_000.0))
            .limited_by("the largest that was tried"),
        Row::new(Section::Streams, "memory of a stream", Unit::BytesEach)
            .measured(alone(3_600.0))
            .limited_by("a slot and a connection each"),
    ]
}

/// A whole document of them.
pub(crate) fn roofline() -> Roofline {
    let found = Found {
        rows: rows(),
        sections: vec![SectionRun {
            section: Section::Client,
            duration_ns: 81_000_000_000,
            failure: None,
        }],
        duration_ns: 312_000_000_000,
        interrupted: false,
    };
    Roofline::new(
        found,
        Origin {
            program: Program {
                version: "0.1.0".to_owned(),
                revision: Some("0123456789ab".to_owned()),
            },
            optimised: true,
            host: "testhost".to_owned(),
            environment: Environment {
                kernel: Some("6.18.44".to_owned()),
                cpu_model: Some("Example 9000".to_owned()),
                cores: Some(2),
                congestion_control: Some("cubic".to_owned()),
                driver: "io_uring".to_owned(),
                port_range: Some((32_768, 60_999)),
                ..Environment::default()
            },
            cores: Cores {
                server: 0,
                client: 1,
            },
            started_unix_ns: 1_796_040_000_000_000_000,
            quick: false,
        },
    )
}
