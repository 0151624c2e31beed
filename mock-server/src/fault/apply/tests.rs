use super::super::catalogue::{CATALOGUE, Scope};
use super::super::outline::Cue;
use super::*;
use crate::wording::Dialect;
use proptest::prelude::*;
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::http1::{Ended, Part as HttpPart, ResponseDecoder};

/// Content events of the answers below.
const CONTENTS: u32 = 4;

/// An answer without a fault, with 1 ms from one event to the next.
fn outline(is_stream: bool, framing: Framing, contents: u32) -> Outline {
    let event = |part, data: &str| Event {
        due: Nanos::ZERO,
        bytes: format!("data: {data}\n\n").into_bytes(),
        part,
        load: Load {
            tokens: u32::from(part == Part::Content),
            content_events: u32::from(part == Part::Content),
        },
    };
    let choice = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{{delta}}}}}]}}"#);
    let mut events = vec![event(Part::Open, &choice(r#""role":"assistant""#))];
    for index in 0..contents {
        events.push(event(
            Part::Content,
            &choice(&format!(r#""content": " t{index}""#)),
        ));
    }
    events.push(event(
        Part::Finish,
        r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#,
    ));
    events.push(event(Part::Usage, r#"{"usage":{"completion_tokens":4}}"#));
    events.push(event(Part::Done, "[DONE]"));
    if !is_stream {
        events = vec![Event {
            bytes: br#"{"choices":[{"message":{"content":"t0 t1"}}]}"#.to_vec(),
            ..event(Part::Content, "")
        }];
    }
    for (index, event) in (0..).zip(&mut events) {
        event.due = Nanos::from_millis(20 + index);
    }
    let kind = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    let head_due = if is_stream {
        Nanos::from_millis(10)
    } else {
        events[0].due
    };
    Outline {
        arrived: Nanos::from_millis(10),
        head: format!("HTTP/1.1 200 OK\r\nserver: x\r\ncontent-type: {kind}\r\n\r\n").into_bytes(),
        head_due,
        framing,
        events,
        is_stream,
        keep_alive: true,
        dialect: Dialect::Vllm,
    }
    .framed(framing)
}

fn streams() -> [Outline; 3] {
    [Framing::Chunked, Framing::Close, Framing::Length].map(|f| outline(true, f, CONTENTS))
}

fn whole() -> Outline {
    outline(false, Framing::Length, 1)
}

/// What a script says, with times, and how it ends. A refrain is heard `refrains` times.
fn hear(mut script: Script, refrains: usize) -> (Vec<Write>, Option<Ending>) {
    let (mut now, mut writes, mut later) = (Nanos::ZERO, Vec::new(), 0);
    loop {
        match script.next(now) {
            Cue::Later(at) => {
                assert!(at > now, "what is due is said");
                now = at;
                later += 1;
                if later > refrains + 100_000 {
                    return (writes, None);
                }
            }
            Cue::Write { write, last } => {
                assert!(write.due <= now && !write.bytes.is_empty());
                assert_eq!(last, script.is_written());
                writes.push(write);
                if script.is_refrain() && writes.len() > refrains {
                    return (writes, None);
                }
            }
            Cue::End(ending) => return (writes, Some(ending)),
        }
    }
}

fn bytes(writes: &[Write]) -> Vec<u8> {
    writes
        .iter()
        .flat_map(|write| write.bytes.to_vec())
        .collect()
}

/// The bytes of an answer with a fault, and the ending.
fn faulty(text: &str, outline: &Outline) -> (Vec<u8>, Option<Ending>) {
    let (writes, ending) = hear(apply(&Fault::parse(text).unwrap(), outline.clone()), 3);
    assert!(writes.is_sorted_by_key(|write| write.due), "{text}");
    (bytes(&writes), ending)
}

fn sound(outline: &Outline) -> Vec<u8> {
    bytes(&hear(play(outline.clone()), 0).0)
}

/// Reads a response; its status and body, and whether it is complete, or `Err` if it is not HTTP.
fn read(mut input: &[u8], fin: bool) -> Result<(u16, Vec<u8>, Ended, usize), String> {
    let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(1 << 20));
    let mut decoder = ResponseDecoder::new(256 << 10);
    decoder.start();
    let (mut status, mut body) = (0, Vec::new());
    while let Some(part) = decoder
        .next(&mut input, &mut carry, &mut pool)
        .map_err(|error| format!("{error:?}"))?
    {
        match part {
            HttpPart::Head(head) => status = head.status,
            HttpPart::Data(data) => body.extend_from_slice(data),
            HttpPart::End => return Ok((status, body, Ended::Complete, input.len())),
        }
    }
    Ok((status, body, decoder.finish(fin), 0))
}

/// The payloads of `data:` lines.
fn data(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_break_leaves_a_beginning_of_the_answer() {
    for outline in streams().into_iter().chain([whole()]) {
        let sound = sound(&outline);
        for how in ["reset", "fin", "stall"] {
            let mut before = 0;
            for place in [
                "before-head",
                "in-head",
                "after-head",
                "after-event",
                "mid-chunk",
                "before-end",
            ] {
                let text = format!("{how}-{place}");
                if !outline.is_stream && place == "after-event" {
                    continue;
                }
                let (bytes, ending) = faulty(&text, &outline);
                let wanted = match how {
                    "reset" => Ending::Reset,
                    "fin" => Ending::Fin,
                    _ => Ending::Hang,
                };
                assert_eq!(ending, Some(wanted), "{text}");
                if place == "before-end" && outline.framing == Framing::Close {
                    // It has an end that can be missed, then.
                    assert!(bytes.ends_with(b"data: [DONE]\n\n\r\n"));
                    continue;
                }
                assert!(
                    sound.starts_with(&bytes) && bytes.len() < sound.len(),
                    "{text}"
                );
                assert!(bytes.len() > before || place == "before-head", "{text}");
                before = bytes.len();
            }
        }
        for how in ["reset", "fin"] {
            assert_eq!(faulty(&format!("{how}-after-answer"), &outline).0, sound);
        }
    }
}

#[test]
fn a_break_counts_content_events() {
    let outline = outline(true, Framing::Chunked, CONTENTS);
    for at in 0..=6 {
        let kept = at.min(CONTENTS) as usize;
        let contents = |text: &str| {
            let (bytes, _) = faulty(&format!("{text}:at={at}"), &outline);
            let (_, body, ended, _) = read(&bytes, true).unwrap();
            assert_eq!(ended, Ended::Truncated);
            String::from_utf8_lossy(&body).matches("}}]}\n\n").count() - 1
        };
        assert_eq!(contents("fin-after-event"), kept, "{at}");
        // What is in the middle is the one after, or the last.
        assert_eq!(
            contents("fin-mid-event"),
            kept.min(CONTENTS as usize - 1),
            "{at}"
        );
        assert_eq!(
            contents("fin-mid-chunk"),
            kept.min(CONTENTS as usize - 1),
            "{at}"
        );
    }
    let (bytes, _) = faulty("fin-mid-event:at=2", &outline);
    assert!(
        bytes.ends_with(b"\r\n"),
        "a chunk is complete, the event is not"
    );
}

#[test]
fn a_stall_with_an_end_is_the_answer_later() {
    let outline = outline(true, Framing::Chunked, CONTENTS);
    let sound_writes = hear(play(outline.clone()), 0).0;
    for place in [
        "before-head",
        "in-head",
        "after-head",
        "mid-event",
        "mid-chunk",
        "after-event",
        "before-end",
    ] {
        let fault = Fault::parse(&format!("stall-{place}:for=7s")).unwrap();
        let (writes, ending) = hear(apply(&fault, outline.clone()), 0);
        assert_eq!(ending, Some(Ending::KeepAlive));
        assert_eq!(
            read(&bytes(&writes), false),
            read(&bytes(&sound_writes), false),
            "{place}"
        );
        let tokens: u32 = writes.iter().map(|write| write.load.tokens).sum();
        assert_eq!(tokens, CONTENTS, "{place}");
        let late = writes.last().unwrap().due - sound_writes.last().unwrap().due;
        assert_eq!(late, Nanos::from_secs(7), "{place}");
        let gaps = writes
            .windows(2)
            .filter(|two| two[1].due - two[0].due >= Nanos::from_secs(7));
        assert_eq!(gaps.count(), usize::from(place != "before-head"), "{place}");
    }
}

#[test]
fn errors_take_the_place_of_the_answer() {
    for outline in streams().into_iter().chain([whole()]) {
        let (bytes, ending) = faulty("status-429:retry-after=9", &outline);
        let (status, body, ended, _) = read(&bytes, false).unwrap();
        assert_eq!((status, ended), (429, Ended::Complete));
        assert_eq!(ending, Some(Ending::KeepAlive));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("HTTP/1.1 429 Too Many Requests\r\nserver: x\r\n"));
        assert!(text.contains("\r\nretry-after: 9\r\n"));
        assert!(
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["error"]["message"]
                .is_string()
        );
        for (name, status) in [
            ("server_error", 503),
            ("model_not_found", 404),
            ("status-302", 302),
        ] {
            assert_eq!(read(&faulty(name, &outline).0, false).unwrap().0, status);
        }
        for (body, length) in [("html", PAGE.len()), ("none", 0)] {
            let (bytes, _) = faulty(&format!("status-500:body={body}"), &outline);
            assert_eq!(read(&bytes, false).unwrap().1.len(), length);
        }
    }
}

#[test]
fn errors_inside_a_stream_come_after_what_they_are_told_to() {
    for outline in streams() {
        for at in 0..=5 {
            let (bytes, _) = faulty(&format!("error-event:at={at},form=openai"), &outline);
            let (status, body, ended, left) = read(&bytes, true).unwrap();
            assert_eq!((status, ended, left), (200, Ended::Complete, 0));
            let data = data(&body);
            let kept = at.min(CONTENTS) as usize;
            assert_eq!(data.len(), 1 + kept + 2, "{data:?}");
            assert!(data[kept + 1].contains(r#"{"error":{"#));
            assert_eq!(data[kept + 2], "[DONE]");
        }
    }
    let outline = outline(true, Framing::Chunked, CONTENTS);
    let (bytes, _) = faulty("error-event:form=named", &outline);
    let body = read(&bytes, true).unwrap().1;
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains("\n\nevent: error\ndata: {\"error\":{")
    );
    let (status, body, ..) = read(&faulty("error-event", &whole()).0, false).unwrap();
    assert_eq!(status, 200);
    assert!(body.starts_with(b"{\"error\":{"));
}

#[test]
fn one_event_is_no_json() {
    for outline in streams().into_iter().chain([whole()]) {
        for (name, valid_utf8) in [
            ("json-invalid", true),
            ("nul", true),
            ("utf8-invalid", false),
        ] {
            let (bytes, _) = faulty(&format!("{name}:at=2"), &outline);
            let (_, body, ended, _) = read(&bytes, true).unwrap();
            assert_eq!(ended, Ended::Complete);
            assert_eq!(std::str::from_utf8(&body).is_ok(), valid_utf8);
            let payloads: Vec<Vec<u8>> = if outline.is_stream {
                let lines = body.split(|byte| *byte == b'\n');
                lines
                    .filter_map(|line| line.strip_prefix(b"data: "))
                    .map(<[u8]>::to_vec)
                    .collect()
            } else {
                vec![body]
            };
            let is_json =
                |data: &&Vec<u8>| serde_json::from_slice::<serde_json::Value>(data).is_ok();
            let bad: Vec<_> = payloads.iter().filter(|data| !is_json(data)).collect();
            // `[DONE]` is none either.
            assert_eq!(bad.len(), if outline.is_stream { 2 } else { 1 }, "{name}");
            if outline.is_stream {
                assert!(String::from_utf8_lossy(bad[0]).contains("t2"), "{name}");
            }
        }
    }
}

#[test]
fn parts_are_left_out() {
    for outline in streams() {
        for (name, events, missing) in [
            ("no-done", 7, "[DONE]"),
            ("no-finish", 7, "finish_reason"),
            ("no-end", 5, "finish_reason"),
            ("no-usage", 7, "usage"),
        ] {
            let (_, body, ended, left) = read(&faulty(name, &outline).0, true).unwrap();
            assert_eq!((ended, left), (Ended::Complete, 0));
            let data = data(&body);
            assert_eq!(data.len(), events, "{name}");
            assert!(!data.iter().any(|data| data.contains(missing)), "{name}");
        }
        let (_, body, ended, _) = read(&faulty("event-unterminated", &outline).0, true).unwrap();
        assert_eq!(ended, Ended::Complete);
        assert!(body.ends_with(b" t3\"}}]}\n") && !body.ends_with(b"\n\n"));
    }
}

#[test]
fn framing_lies() {
    for outline in streams().into_iter().chain([whole()]) {
        let (bytes, ending) = faulty("content-length-long", &outline);
        assert_eq!(ending, Some(Ending::Fin));
        assert_eq!(read(&bytes, true).unwrap().2, Ended::Truncated);
        let (bytes, _) = faulty("content-length-short:bytes=9", &outline);
        let (_, _, ended, left) = read(&bytes, true).unwrap();
        assert_eq!((ended, left), (Ended::Complete, 9));
        let (bytes, _) = faulty("extra-bytes", &outline);
        let (_, _, ended, left) = read(&bytes, true).unwrap();
        assert_eq!((ended, left), (Ended::Complete, EXTRA_BYTES));
        for name in [
            "content-length-negative",
            "content-length-two",
            "content-length-garbled",
            "chunk-size-overflow",
            "chunk-size-garbled",
            "not-http",
            "head-garbled",
            "field-garbled",
            "version-unknown",
            "content-coding-unknown",
            "transfer-coding-unknown",
            "head-oversize",
        ] {
            read(&faulty(name, &outline).0, true).expect_err(name);
        }
        let (bytes, _) = faulty("empty-body", &outline);
        assert_eq!(
            read(&bytes, false),
            Ok((200, Vec::new(), Ended::Complete, 0))
        );
        let (bytes, _) = faulty("html", &outline);
        assert_eq!(read(&bytes, false).unwrap().1, PAGE.as_bytes());
    }
}

#[test]
fn oversize_events_are_well_formed() {
    for outline in streams().into_iter().chain([whole()]) {
        let (bytes, _) = faulty("event-oversize:at=2,bytes=200000", &outline);
        let (_, body, ended, left) = read(&bytes, true).unwrap();
        assert_eq!((ended, left), (Ended::Complete, 0));
        if outline.is_stream {
            let data = data(&body);
            assert_eq!((data.len(), data[3].len()), (9, 200_000));
        } else {
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
            assert!(body.len() > 200_000);
        }
    }
}

#[test]
fn comments_never_end() {
    for outline in streams() {
        let (writes, ending) = hear(
            apply(&Fault::parse("comments:at=2,gap=50ms").unwrap(), outline),
            12,
        );
        assert_eq!(ending, None);
        let comments: Vec<_> = writes
            .iter()
            .filter(|write| String::from_utf8_lossy(&write.bytes).contains(": keep-alive\n\n"))
            .collect();
        assert!(comments.len() > 5);
        for two in comments.windows(2) {
            assert_eq!(two[1].due - two[0].due, Nanos::from_millis(50));
        }
        assert_eq!(
            writes
                .iter()
                .map(|write| write.load.content_events)
                .sum::<u32>(),
            2
        );
    }
}

#[test]
fn every_fault_changes_every_answer_that_can_have_it() {
    // What these change is asked for, or there is no answer.
    let elsewhere = [Kind::JsonReply, Kind::StreamReply, Kind::ZeroTokens];
    for outline in streams().into_iter().chain([whole()]) {
        for entry in CATALOGUE {
            if elsewhere.contains(&entry.kind)
                || entry.scope == Scope::Connections
                || !entry.kind.applies(outline.is_stream)
            {
                continue;
            }
            let (writes, ending) = hear(apply(&Fault::new(entry.kind), outline.clone()), 3);
            let (sound, sound_ending) = hear(play(outline.clone()), 0);
            // A close-delimited answer ends by FIN as it is.
            let changes = entry.name != "fin-after-answer" || outline.framing != Framing::Close;
            assert_eq!(
                (writes, ending) != (sound, sound_ending),
                changes,
                "{}",
                entry.name
            );
        }
    }
}

proptest! {
    #[test]
    fn a_drip_is_the_same_bytes_a_few_at_a_time(
        size in 1..40_usize,
        gap_us in 0..3_000_u64,
        contents in 0..6_u32,
        is_chunked in any::<bool>(),
    ) {
        let framing = if is_chunked { Framing::Chunked } else { Framing::Length };
        let outline = outline(true, framing, contents);
        let fault = Fault::parse(&format!("drip:bytes={size},gap={gap_us}us")).unwrap();
        let (writes, ending) = hear(apply(&fault, outline.clone()), 0);
        let (sound, sound_ending) = hear(play(outline), 0);
        prop_assert_eq!(bytes(&writes), bytes(&sound));
        prop_assert_eq!(ending, sound_ending);
        let tokens = |writes: &[Write]| writes.iter().map(|write| write.load.tokens).sum::<u32>();
        prop_assert_eq!(tokens(&writes), tokens(&sound));
        for two in writes.windows(2) {
            prop_assert!(two[1].due >= two[0].due + Nanos::from_micros(gap_us));
        }
        prop_assert!(writes.iter().all(|write| write.bytes.len() <= size));
    }

    #[test]
    fn no_fault_panics_on_no_answer(
        index in 0..CATALOGUE.len(),
        at in prop_oneof![0..8_u32, Just(u32::MAX)],
        contents in 0..4_u32,
        events in 0..9_usize,
        framing in prop_oneof![Just(Framing::Chunked), Just(Framing::Close), Just(Framing::Length)],
        is_stream in any::<bool>(),
    ) {
        let mut outline = outline(is_stream, framing, contents);
        outline.events.truncate(events);
        let fault = Fault {
            at,
            bytes: Some(1_000),
            ..Fault::new(CATALOGUE[index].kind)
        };
        let (writes, _) = hear(apply(&fault, outline), 3);
        prop_assert!(writes.is_sorted_by_key(|write| write.due));
    }
}
