use std::collections::HashMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::clock::difference;
use super::records::Record;
use super::*;
use crate::RunClock;

const GOLDEN: &str = include_str!("../../../../tests/golden/truth.jsonl");

fn header() -> &'static str {
    GOLDEN.lines().next().unwrap()
}

fn truth(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// Reads a file to its end: its requests' ids, or what is wrong with it.
fn ids(text: &str) -> Result<(Vec<String>, bool, Option<End>), String> {
    let (_keep, path) = truth(text);
    let place = path.display().to_string();
    let told = |error: TruthError| error.to_string().replace(&place, "FILE");
    let mut reader = TruthReader::open(&path).map_err(told)?;
    let mut ids = Vec::new();
    while let Some(request) = reader.next_request().map_err(told)? {
        ids.push(request.request_id.as_deref().unwrap_or("-").to_owned());
    }
    assert_eq!(reader.requests(), ids.len() as u64);
    Ok((ids, reader.is_cut(), reader.end()))
}

#[test]
fn the_golden_file_is_read_whole() {
    let (ids, cut, end) = ids(GOLDEN).unwrap();
    let expected = [
        "rl-0000002a-0000000000000001",
        "rl-0000002a-0000000000000000",
        "a \"quoted\\\" id",
        "-",
    ];
    assert_eq!(
        (ids.as_slice(), cut),
        (&expected.map(String::from)[..], false)
    );
    let expected = End {
        lines: 4,
        dropped: 1,
        unfinished: 2,
    };
    assert_eq!(end, Some(expected));

    let (_keep, path) = truth(GOLDEN);
    let mut reader = TruthReader::open(&path).unwrap();
    assert!(reader.header().rx_timestamps);
    assert_eq!(reader.header().clock.start_monotonic_ns, 5_000_000_000);
    reader.next_request().unwrap();
    let request = reader.next_request().unwrap().unwrap();
    assert_eq!(
        (request.status, request.ended),
        (Some(200), Ended::Complete)
    );
    let expected = Write {
        submitted_ns: 26_700,
        due_ns: Some(26_000),
        bytes: 900,
        tokens: 3,
        content_events: 2,
    };
    assert_eq!(request.writes[2], expected);
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_lines() {
    let (all, ..) = ids(GOLDEN).unwrap();
    for cut in header().len()..GOLDEN.len() {
        let text = &GOLDEN[..cut];
        let (found, is_cut, end) = ids(text).unwrap();
        assert!(all.starts_with(&found), "cut at {cut}");
        // All that can be missing is the last line end.
        let whole = text.ends_with('\n') || GOLDEN.as_bytes()[cut] == b'\n';
        assert_eq!(is_cut, !whole, "cut at {cut}");
        assert_eq!(end.is_some(), cut == GOLDEN.len() - 1, "cut at {cut}");
    }
}

#[test]
fn what_is_no_truth_is_told_with_its_reason() {
    let line = GOLDEN.lines().nth(1).unwrap();
    let after = |line: &str| format!("{}\n{line}\n", header());
    for (text, expected) in [
        (String::new(), "it is empty"),
        (
            "hello".to_owned(),
            "its first line is no JSON object; a truth",
        ),
        (
            "{\"index\":0}\n".to_owned(),
            "its first line names no schema; a truth",
        ),
        (
            header().replace("truth/1", "truth/2"),
            "its schema is `ridgeline.truth/2`, not",
        ),
        (
            header().replace("due_ns", "planned_ns"),
            "other columns than this version knows: sub",
        ),
        (
            header().replace("_MONOTONIC", "_TAI"),
            "its times are of `CLOCK_TAI`, not",
        ),
        (
            header()
                .replace("\"shards\"", "\"x\"")
                .replace("\"driver\"", "\"y\""),
            "missing field `driver`",
        ),
        (after("{}"), "FILE, line 2: missing field"),
        (after("nonsense"), "FILE, line 2: expected"),
        (
            after(&line.replace("[2300,", "[1999,")),
            "line 2: a write is earlier",
        ),
        (
            after(&line.replace("2100,\"started", "1999,\"started")),
            "line 2: the request was reaped before",
        ),
        (
            after(&line.replace("180,0,0]", "180,2,1]")),
            "line 2: its writes have 2 tokens, and it says 0",
        ),
        (
            after(&line.replace("180,0,0]", "180,0]")),
            "line 2: invalid length 4",
        ),
        (
            after(&line.replace("\"complete\"", "\"later\"")),
            "line 2: unknown variant `later`",
        ),
        (
            format!("{GOLDEN}{line}\n"),
            "line 7: something follows the file's end",
        ),
        (
            after("{\"end\":{\"lines\":3,\"dropped\":0,\"unfinished\":0}}"),
            "line 2: the file should have 3 requests, and has 0",
        ),
    ] {
        let found = ids(&text).unwrap_err();
        assert!(found.contains(expected), "{expected:?}: {found}");
    }
    let nothing = TruthReader::open(Path::new("no/such/file")).unwrap_err();
    assert!(nothing.to_string().starts_with("cannot read no/such/file"));
}

/// A record line, as far as the join reads it.
fn record(index: u64, more: &serde_json::Value) -> String {
    let mut line = serde_json::json!({
        "request_id": format!("rl-0000002a-{index:016x}"),
        "phase": "measured", "outcome": "ok", "error": null, "retries": 0,
        "submitted_ns": 500, "first_token_ns": 22_000, "last_token_ns": 27_100, "done_ns": 27_300,
        "content_events": 3,
    });
    for (key, value) in more.as_object().unwrap() {
        line[key] = value.clone();
    }
    format!("{line}\n")
}

fn folder_of(records: &[String]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("records.jsonl"), records.concat()).unwrap();
    folder
}

fn run_clock(boot_id: &str) -> RunClock {
    RunClock {
        boot_id: Some(boot_id.to_owned()),
        time_namespace: Some("time:[4026531834]".to_owned()),
        start_monotonic_ns: 5_000_000_100,
        start_realtime_ns: 1_790_000_005_000_000_160,
        realtime_error_ns: 9,
    }
}

fn report_of(clock: Option<RunClock>) -> Report {
    let mut report = crate::samples::report(&crate::samples::Recipe::default());
    report.environment.clock = clock;
    report
}

const BOOT: &str = "6f7b6f6e-0000-4000-8000-000000000001";

fn only(value: i64) -> Option<Spread> {
    Spread::of(&mut [value])
}

#[test]
fn a_join_is_exact() {
    let events = serde_json::json!({"event_ns": [22_000, 27_000, 27_100]});
    let failed = serde_json::json!({
        "outcome": "error", "error": {"kind": "http_status", "message": "", "http_status": 503},
    });
    let folder = folder_of(&[record(0, &events), record(1, &failed), record(2, &events)]);
    let (_keep, path) = truth(GOLDEN);
    let report = report_of(Some(run_clock(BOOT)));
    let joined = join(folder.path(), Some(&report), &path).unwrap();
    let expected = Matching {
        records: 3,
        matched: 2,
        only_in_records: 1,
        only_in_truth: 1,
        without_id: 1,
        compared: 1,
        ..Matching::default()
    };
    assert_eq!(joined.requests, expected);
    // Client 21,500; server 20,500 from arrival to first content write.
    assert_eq!(joined.ttft_error_ns, only(1_000));
    // Client 26,600; server 25,700.
    assert_eq!(joined.latency_error_ns, only(900));
    // Client 5,000 and 100; server 5,200, and 0 within one write.
    assert_eq!(joined.gap_error_ns, Spread::of(&mut [-200, 100]));
    // All three came at times of their own.
    assert_eq!(joined.gap_alone_error_ns, joined.gap_error_ns);
    assert_eq!(joined.ttft_alone_error_ns, joined.ttft_error_ns);
    // The server started 100 ns before the run: its 1,000 are the run's 900, its 21,500 are 21,400.
    assert_eq!(joined.request_one_way_ns, only(400));
    assert_eq!(joined.first_token_one_way_ns, only(600));
    assert_eq!(joined.write_lateness_ns, Spread::of(&mut [500, 700]));
    let clock = joined.clock.as_ref().unwrap();
    assert_eq!(
        (clock.kind, clock.offset_ns, clock.error_ns),
        (ClockKind::Monotonic, -100, 0)
    );
    let expected = [("none", "ok"), ("status-503", "http_status")]
        .map(|(fault, kind)| (fault.to_owned(), BTreeMap::from([(kind.to_owned(), 1)])));
    assert_eq!(joined.faults, BTreeMap::from(expected));
    assert_eq!(joined.notes.len(), 1, "{:?}", joined.notes);
    assert!(joined.notes[0].starts_with("1 requests have no line"));

    write(&joined, folder.path()).unwrap();
    let kept = fs::read(folder.path().join(FILE)).unwrap();
    assert_eq!(serde_json::from_slice::<Joined>(&kept).unwrap(), joined);
}

#[test]
fn events_that_share_a_read_are_told_apart() {
    for (arrivals, ttft, gaps) in [
        ([22_000, 22_000, 27_100], 0, 0),
        ([22_000, 27_100, 27_100], 1, 0),
        ([22_000, 27_000, 27_100], 1, 2),
    ] {
        let events = serde_json::json!({ "event_ns": arrivals });
        let folder = folder_of(&[record(0, &events)]);
        let (_keep, path) = truth(GOLDEN);
        let joined = join(folder.path(), None, &path).unwrap();
        let count = |spread: Option<Spread>| spread.map_or(0, |spread| spread.count);
        assert_eq!(count(joined.gap_error_ns), 2);
        assert_eq!(count(joined.ttft_alone_error_ns), ttft, "{arrivals:?}");
        assert_eq!(count(joined.gap_alone_error_ns), gaps, "{arrivals:?}");
    }
}

#[test]
fn other_machines_are_compared_by_the_time_of_day_and_it_is_said() {
    let folder = folder_of(&[record(0, &serde_json::json!({}))]);
    let (_keep, path) = truth(GOLDEN);
    let report = report_of(Some(run_clock("another")));
    let joined = join(folder.path(), Some(&report), &path).unwrap();
    let clock = joined.clock.unwrap();
    assert_eq!(
        (clock.kind, clock.offset_ns, clock.error_ns),
        (ClockKind::Realtime, -160, 50)
    );
    assert_eq!(joined.request_one_way_ns, only(340));
    assert_eq!(joined.gap_error_ns, None);
    let notes = joined.notes.join("\n");
    for part in [
        "do not share a boot",
        "--save-events",
        "1 requests have no line",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn without_a_report_what_needs_no_clock_is_there() {
    let folder = folder_of(&[record(0, &serde_json::json!({}))]);
    let cut = &GOLDEN[..GOLDEN.len() - 100];
    let (_keep, path) = truth(cut);
    for report in [None, Some(report_of(None))] {
        let joined = join(folder.path(), report.as_ref(), &path).unwrap();
        assert_eq!(
            (joined.ttft_error_ns, joined.latency_error_ns),
            (only(1_000), only(900))
        );
        assert_eq!(joined.first_token_one_way_ns, None);
        assert_eq!(joined.truth.dropped, None);
        let notes = joined.notes.join("\n");
        assert!(
            notes.contains("no times one way") && notes.contains("last line is cut"),
            "{notes}"
        );
    }
}

#[test]
fn of_a_whole_answer_the_end_counts() {
    let more = serde_json::json!({"content_events": 3, "done_ns": 28_000});
    let folder = folder_of(&[record(0, &more)]);
    let (_keep, path) = truth(GOLDEN);
    let mut report = report_of(Some(run_clock(BOOT)));
    report.target.streaming = false;
    let joined = join(folder.path(), Some(&report), &path).unwrap();
    assert_eq!(joined.latency_error_ns, only(27_500 - 25_700));
    assert_eq!(joined.ttft_error_ns, None);
    assert!(
        joined
            .notes
            .iter()
            .all(|note| !note.contains("--save-events"))
    );
}

#[test]
fn requests_sent_again_and_ids_used_twice_are_told_and_left_out() {
    let lines: Vec<&str> = GOLDEN.lines().collect();
    let [refused, answered] = [lines[1], lines[2]];
    // The first attempt of request 0 ended after the second: order is that of arrival.
    let earlier = refused
        .replace("0000000000000001\"", "0000000000000000\"")
        .replace("2000,", "100,");
    let text = [header(), answered, &earlier, refused, refused].join("\n");
    let (_keep, path) = truth(&text);
    let again = serde_json::json!({"retries": 1});
    let folder = folder_of(&[record(0, &again), record(1, &serde_json::json!({}))]);
    let joined = join(folder.path(), None, &path).unwrap();
    let expected = Matching {
        records: 2,
        matched: 2,
        sent_again: 1,
        ambiguous: 1,
        ..Matching::default()
    };
    assert_eq!(joined.requests, expected);
    assert_eq!(
        (joined.ttft_error_ns, joined.write_lateness_ns),
        (None, None)
    );
    assert_eq!(joined.faults["status-503"], {
        BTreeMap::from([("sent_again".to_owned(), 2), ("ok".to_owned(), 1)])
    });
    assert_eq!(joined.faults["none"]["ok"], 1);
    let notes = joined.notes.join("\n");
    assert!(notes.contains("1 requests were sent again") && notes.contains("1 ids have more"));
}

#[test]
fn other_numbers_of_events_are_told() {
    let more = serde_json::json!({"content_events": 4, "event_ns": [1, 2, 3, 4]});
    let folder = folder_of(&[record(0, &more)]);
    let (_keep, path) = truth(GOLDEN);
    let joined = join(folder.path(), None, &path).unwrap();
    assert_eq!(joined.requests.events_differ, 1);
    assert_eq!((joined.gap_error_ns, joined.latency_error_ns), (None, None));
    assert_eq!(joined.ttft_error_ns, only(1_000));
}

#[test]
fn files_that_do_not_belong_together_are_told() {
    let (_keep, path) = truth(GOLDEN);
    let told = |records: &[String]| {
        let folder = folder_of(records);
        join(folder.path(), None, &path).unwrap_err().to_string()
    };
    let strangers = told(&[record(9, &serde_json::json!({}))]);
    for part in [
        "another run",
        "none of its 4",
        "rl-0000002a-0000000000000009",
        "0000000000000001",
    ] {
        assert!(strangers.contains(part), "{strangers}");
    }
    assert!(told(&[]).contains("--records jsonl"));
    assert!(told(&["{}\n".to_owned()]).contains("records.jsonl, line 1: missing field"));
    let twice = record(0, &serde_json::json!({}));
    assert!(told(&[twice.clone(), twice]).contains("line 2: its request_id has a record already"));
    let nowhere = tempfile::tempdir().unwrap();
    let nothing = join(nowhere.path(), None, &path).unwrap_err().to_string();
    assert!(nothing.contains("--records jsonl"), "{nothing}");
}

/// One request of both sides, made of what happened to each event.
#[derive(Clone, Debug)]
struct Made {
    submitted: u64,
    way: u64,
    /// Of each write: how long after the one before, and its content events.
    writes: Vec<(u64, u64)>,
    /// Of each event: how long it was under way.
    ways: Vec<u64>,
}

fn made() -> impl Strategy<Value = Made> {
    let writes = proptest::collection::vec((0..5_000_u64, 0..4_u64), 1..8);
    (0..1_000_000_u64, 0..900_u64, writes).prop_flat_map(|(submitted, way, writes)| {
        let events: u64 = writes.iter().map(|write| write.1).sum();
        let ways = proptest::collection::vec(0..100_000_u64, usize::try_from(events).unwrap());
        ways.prop_map(move |ways| Made {
            submitted,
            way,
            writes: writes.clone(),
            ways,
        })
    })
}

/// What the join should find, event by event from the way each was made. The server's clock began
/// `EARLIER` before the run's.
const EARLIER: u64 = 70_000;

#[derive(Debug, Default)]
struct Expected {
    ttft: Vec<i64>,
    gap: Vec<i64>,
    latency: Vec<i64>,
    request: Vec<i64>,
    first: Vec<i64>,
}

fn sides(made: &Made, expected: &mut Expected) -> (Record, String) {
    let mut at = made.submitted + made.way;
    let (mut rows, mut arrivals, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = made.ways.iter();
    for &(wait, events) in &made.writes {
        at += wait;
        rows.push(format!("[{},null,9,{events},{events}]", at + EARLIER));
        for way in left.by_ref().take(usize::try_from(events).unwrap()) {
            // Bytes of a stream do not overtake one another.
            let arrival = (at + way).max(arrivals.last().copied().unwrap_or(0));
            arrivals.push(arrival);
            ways.push(difference(arrival, at));
        }
    }
    expected.request.push(difference(made.way, 0));
    if let (Some(&first), Some(&last)) = (ways.first(), ways.last()) {
        expected.first.push(first);
        expected.ttft.push(difference(made.way, 0) + first);
        expected.latency.push(difference(made.way, 0) + last);
        // What jitters is the way.
        expected
            .gap
            .extend(ways.windows(2).map(|pair| pair[1] - pair[0]));
    }
    let record = Record {
        outcome: "ok".to_owned(),
        measured: true,
        submitted_ns: Some(made.submitted),
        first_token_ns: arrivals.first().copied(),
        last_token_ns: arrivals.last().copied(),
        content_events: arrivals.len() as u64,
        event_ns: Some(arrivals),
        ..Record::default()
    };
    let arrival = made.submitted + made.way + EARLIER;
    let line = format!(
        "\"arrival_ns\":{arrival},\"reaped_ns\":{arrival},\"started_ns\":null,\"status\":200,\
         \"fault\":null,\"output_tokens\":{},\"ended\":\"complete\",\"writes\":[{}]}}\n",
        made.ways.len(),
        rows.join(",")
    );
    (record, line)
}

proptest! {
    #[test]
    fn a_join_finds_how_long_everything_was_under_way(all in proptest::collection::vec(made(), 1..6)) {
        let mut expected = Expected::default();
        let (mut text, mut records) = (format!("{}\n", header()), HashMap::new());
        for (index, made) in all.iter().enumerate() {
            let (record, line) = sides(made, &mut expected);
            text.push_str(&format!("{{\"request_id\":\"r{index}\",{line}"));
            records.insert(format!("r{index}"), record);
        }
        let (_keep, path) = truth(&text);
        let mut reader = TruthReader::open(&path).unwrap();
        let clock = Clock {
            kind: ClockKind::Monotonic,
            offset_ns: -difference(EARLIER, 0),
            error_ns: 0,
        };
        let mut join = join::Join::new(records, Some(clock), true);
        while let Some(request) = reader.next_request().unwrap() {
            join.add(&request);
        }
        let joined = join.finish(&reader).unwrap();
        prop_assert_eq!(joined.requests.compared, all.len() as u64);
        prop_assert_eq!(joined.requests.events_differ, 0);
        for (found, expected) in [
            (joined.ttft_error_ns, &mut expected.ttft),
            (joined.gap_error_ns, &mut expected.gap),
            (joined.latency_error_ns, &mut expected.latency),
            (joined.request_one_way_ns, &mut expected.request),
            (joined.first_token_one_way_ns, &mut expected.first),
        ] {
            prop_assert_eq!(found, Spread::of(expected));
        }
    }
}
