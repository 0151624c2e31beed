//! The bytes of every kind of message, as `golden/messages.txt` has them: what is written today must be
//! read by programs that were written yesterday.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::borrow::Cow;
use std::fmt::Write as _;

use proptest::prelude::*;
use ridgeline_clock::Nanos;
use ridgeline_service::protocol::{
    Answers, Batch, BodyFrame, Code, Inward, NoticeFrame, Outward, Piece, QueryFrame, ResultFrame,
    Times, Totals, Trouble, Value, end_message, ended_message, error_message, read_inward,
    read_outward, template_message,
};
use ridgeline_wire::openai::Usage;

const GOLDEN: &str = include_str!("golden/messages.txt");

const NOTICE: NoticeFrame = NoticeFrame {
    id: 1,
    ttft_ns: 250,
    scheduled_ns: 1_000,
    submitted_ns: 70_000,
    first_token_ns: 70_250,
};

const TOTALS: Totals = Totals {
    queries: 1_000_000,
    ok: 999_997,
    failed: 2,
    cancelled: 1,
    errors: 3,
};

const VALUES: [Value<'_>; 4] = [
    Value::Text("Ünï \"x\""),
    Value::Raw(b"[1]"),
    Value::Number(-1),
    Value::Number(u64::MAX as i128),
];

fn queries() -> Vec<u8> {
    let plain = QueryFrame {
        id: 1,
        due_ns: 0,
        endpoint: None,
        stream: true,
        text: false,
        body: BodyFrame::Whole(b"{\"model\":\"m\"}"),
    };
    let mut batch = Batch::default();
    batch.push(&plain);
    batch.push(&QueryFrame {
        id: u64::MAX,
        due_ns: 123_456_789_012,
        endpoint: Some("/v1/completions"),
        stream: false,
        text: true,
        body: BodyFrame::filled(7, &VALUES),
    });
    batch.into_message()
}

fn result() -> ResultFrame<'static> {
    ResultFrame {
        id: u64::MAX,
        outcome: "ok",
        http_status: Some(200),
        times: Times {
            scheduled: Nanos(1_000),
            started: Nanos(2_000),
            submitted: Some(Nanos(70_000)),
            connected: Some(Nanos(60_000)),
            secured: Some(Nanos(66_000)),
            first_byte: Some(Nanos(70_100)),
            first_token: Some(Nanos(70_250)),
            last_token: Some(Nanos(5_000_000_000)),
            done: Some(Nanos(5_000_000_001)),
        },
        content_events: 300,
        usage: Usage {
            input_tokens: Some(12),
            output_tokens: Some(300),
            reasoning_tokens: Some(0),
            cached_tokens: None,
        },
        finish_reason: Some("stop"),
        text: Some("Hi"),
        reasoning: Some("Hm"),
        tool_calls: vec![["call_1", "f", "{}"]],
        message: None,
        retries: 1,
    }
}

fn failure() -> ResultFrame<'static> {
    ResultFrame {
        id: 2,
        outcome: "connect",
        times: Times {
            scheduled: Nanos(5),
            started: Nanos(6),
            done: Some(Nanos(7)),
            ..Times::default()
        },
        message: Some("connection refused"),
        ..ResultFrame::default()
    }
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let pieces = [
        Piece::Bytes(b"{\"p\":\""),
        Piece::Hole(0),
        Piece::Bytes(b"\"}"),
    ];
    let mut notices = Answers::notices(Vec::new());
    notices.notice(&NOTICE);
    let mut results = Answers::results(Vec::new());
    results.result(&result(), usize::MAX);
    results.result(&failure(), usize::MAX);
    let trouble = |id| Trouble {
        code: Code::Duplicate,
        text: Cow::Borrowed("taken"),
        id,
    };
    vec![
        ("queries", queries()),
        ("template", template_message(7, &pieces)),
        ("end", end_message()),
        ("notices", notices.into_message()),
        ("results", results.into_message()),
        ("error of a message", error_message(&trouble(None))),
        ("error of a query", error_message(&trouble(Some(300)))),
        ("ended", ended_message(&TOTALS)),
    ]
}

/// The messages in lines of 32 bytes, after their name.
fn page(messages: &[(&str, Vec<u8>)]) -> String {
    let mut page = String::new();
    for (name, bytes) in messages {
        writeln!(page, "{name}").unwrap();
        for line in bytes.chunks(32) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(page, "  {}", hex.join(" ")).unwrap();
        }
    }
    page
}

#[test]
fn messages_are_written_as_they_always_were() {
    let page = page(&messages());
    assert_eq!(page, GOLDEN, "what is written now:\n{page}");
}

#[test]
fn what_a_client_writes_is_what_the_worker_reads() {
    let message = queries();
    let Ok(Inward::Queries(queries)) = read_inward(&message) else {
        panic!("queries");
    };
    let queries: Vec<_> = queries.map(Result::unwrap).collect();
    let [plain, filled] = &queries[..] else {
        panic!("two queries");
    };
    assert_eq!((plain.id, plain.due_ns, plain.endpoint), (1, 0, None));
    assert!(plain.stream && !plain.text);
    assert!(matches!(plain.body, BodyFrame::Whole(b"{\"model\":\"m\"}")));
    assert_eq!(filled.id, u64::MAX);
    assert_eq!(filled.endpoint, Some("/v1/completions"));
    assert!(!filled.stream && filled.text);
    // Written again, they are the same bytes: values and all.
    let mut again = Batch::default();
    queries.iter().for_each(|query| again.push(query));
    assert_eq!(again.into_message(), message);
    assert!(matches!(read_inward(&end_message()), Ok(Inward::End)));
}

#[test]
fn what_the_worker_writes_is_what_a_client_reads() {
    let messages = messages();
    let read = |name: &str| {
        let (_, bytes) = messages.iter().find(|(known, _)| *known == name).unwrap();
        read_outward(bytes).unwrap()
    };
    assert_eq!(read("notices"), Outward::Notices(vec![NOTICE]));
    assert_eq!(read("results"), Outward::Results(vec![result(), failure()]));
    let error = |id| Outward::Error {
        code: "duplicate",
        text: "taken",
        id,
    };
    assert_eq!(read("error of a message"), error(None));
    assert_eq!(read("error of a query"), error(Some(300)));
    assert_eq!(read("ended"), Outward::Ended(TOTALS));
}

/// Reads a message in both directions, to its end.
fn read_all(message: &[u8]) {
    match read_inward(message) {
        Ok(Inward::Queries(queries)) => {
            // A count that is a lie ends with the bytes.
            assert!(queries.filter(Result::is_ok).count() <= message.len());
        }
        Ok(Inward::Template(template)) => {
            assert!(template.pieces().count() <= message.len());
        }
        Ok(Inward::End) | Err(_) => {}
    }
    let _ = read_outward(message);
}

proptest! {
    #[test]
    fn hostile_bytes_are_refused_or_read_and_nothing_else(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        read_all(&bytes);
    }

    #[test]
    fn messages_that_were_changed_are_refused_or_read_and_nothing_else(
        which in 0..8_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, mut message) = messages().swap_remove(which);
        for (place, byte) in changes {
            let place = place.index(message.len());
            message[place] = byte;
        }
        read_all(&message);
        message.truncate(cut.index(message.len() + 1));
        read_all(&message);
    }
}
