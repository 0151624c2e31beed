//! The sections of a roofline that start programs, with runs as short as they may be.
#![expect(clippy::unwrap_used, reason = "a test")]

use ridgeline_clock::Nanos;
use ridgeline_roofline::{Context, Row, Section, Unit};

/// Epoll works wherever this does.
const DRIVERS: &[&str] = &[
    "epoll",
    #[cfg(feature = "monoio")]
    "monoio",
    #[cfg(feature = "glommio")]
    "glommio",
];

/// All on one core, which is allowed here, whichever that is.
fn rows(section: Section) -> Vec<Row> {
    let core = rustix::thread::sched_getcpu();
    let context = Context {
        quick: true,
        ridgeline: env!("CARGO_BIN_EXE_ridgeline").into(),
        drivers: DRIVERS.iter().map(|&driver| driver.to_owned()).collect(),
        server_core: core,
        client_core: core,
        run_length: Some(Nanos::from_millis(40)),
    };
    let mut rows = Vec::new();
    section.work()(&context, &mut |row| rows.push(row)).unwrap();
    rows
}

/// Each row of `rows` is measured beside its ceiling, and says what stops it.
fn compared(rows: &[Row]) {
    for row in rows {
        assert!(row.ratio() > Some(0.0), "{row:?}");
        assert!(row.cpu_ratio() > Some(0.0), "{row:?}");
        assert!(!row.limited_by.is_empty(), "{row:?}");
    }
}

#[test]
fn requests_are_compared_by_connections_prompts_and_answers() {
    let rows = rows(Section::Client);
    compared(&rows);
    let at = |axis: &str| -> Vec<f64> { rows.iter().map(|row| row.at[axis]).collect() };
    assert_eq!(at("connections"), [1.0, 64.0, 1024.0, 64.0, 64.0, 64.0]);
    assert_eq!(
        at("prompt_bytes"),
        [128.0, 128.0, 128.0, 32.0, 32768.0, 128.0]
    );
    assert_eq!(
        at("answer_bytes"),
        [256.0, 256.0, 256.0, 256.0, 256.0, 4096.0]
    );
}

#[test]
fn requests_are_compared_by_drivers() {
    let rows = rows(Section::Drivers);
    compared(&rows);
    assert_eq!(rows.len(), DRIVERS.len());
    for (row, driver) in rows.iter().zip(DRIVERS) {
        assert!(row.name.starts_with(driver), "{row:?}");
    }
}

#[test]
fn streams_are_compared_by_events_a_write() {
    let rows = rows(Section::Sse);
    compared(&rows);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), 4);
    assert!(
        names[0].starts_with("paced") && names[3].starts_with("coalesced"),
        "{names:?}"
    );
    assert!(rows.iter().all(|row| row.unit == Unit::EventsPerS));
}

#[test]
fn a_lag_stands_beside_the_sleepers() {
    let rows = rows(Section::Schedule);
    // On a machine that is busy with other tests no rate at all may be kept up with.
    if rows[0].measured.is_none() {
        assert!(rows[0].limited_by.starts_with("not found"), "{rows:?}");
        assert_eq!(rows.len(), 1);
        return;
    }
    assert!(rows[0].ratio() > Some(0.0));
    assert_eq!(rows.len(), 1 + 3 * 2);
    for row in &rows[1..] {
        assert_eq!(row.unit, Unit::LagNs);
        assert!(
            row.measured.is_some() && row.at["rate_per_s"] >= 1.0,
            "{row:?}"
        );
    }
}

#[test]
fn open_streams_are_held_or_it_is_said_why_not() {
    let rows = rows(Section::Streams);
    let (each, counts) = rows.split_last().unwrap();
    assert_eq!(each.unit, Unit::BytesEach);
    assert!(!counts.is_empty());
    for row in counts {
        let held = row.measured.is_some();
        assert_eq!(held, !row.limited_by.starts_with("not held"), "{row:?}");
        assert!(!held || row.measured.as_ref().unwrap().achieved == row.at["streams"]);
    }
}
