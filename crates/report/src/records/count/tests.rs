use std::cell::Cell;
use std::os::unix::fs::symlink;

use ridgeline_metrics::{Collector, GapLog, GapPool, Metric, Slo};
use serde_json::Value;

use super::super::entry::{Entry, Texts};
use super::super::{recover, samples};
use super::*;

const TOLD: Uncounted = Uncounted {
    streamed: true,
    events_in_window: 2,
    done_in_window: false,
    slos_met: true,
};

/// What `samples::success` would be without usage: five events in 30 ns.
fn line_of(texts: Option<Texts<'_>>, adapt: impl Fn(&mut Entry<'_>)) -> String {
    let record = samples::success(7);
    let mut entry = Entry::of(&record);
    if let Some(texts) = texts {
        entry.usage.output_tokens = None;
        entry.token_source = TokenSource::Events;
        entry.saved = Some(texts);
        entry.uncounted = Some(TOLD);
    }
    adapt(&mut entry);
    let mut out = Vec::new();
    line::write(&mut out, &entry, samples::ORIGIN);
    String::from_utf8(out).unwrap()
}

fn says<'a>(text: &'a str, reasoning: &'a str, tool_calls: &'a str) -> Option<Texts<'a>> {
    Some(Texts {
        text,
        reasoning,
        tool_calls: tool_calls.into(),
    })
}

/// A word is a token; a question mark can't be one.
fn words(text: &str) -> Result<u32, String> {
    if text.contains('?') {
        return Err("no token for `?`".to_owned());
    }
    Ok(u32::try_from(text.split_whitespace().count()).unwrap())
}

/// A collector that waits for so many answers, by events so far.
fn waiting_for(answers: usize) -> Collector {
    let mut collector = Collector::new(&Slo::parse_all("tpot=10ns").unwrap());
    let (mut log, mut pool) = (GapLog::new(), GapPool::new(1));
    collector.begin(Nanos::ZERO, 1);
    for _ in 0..answers {
        let finished = Finished {
            content_events: 5,
            count_later: true,
            ..Finished::new(Phase::Measured, Fate::Ok, true)
        };
        collector.issued(Phase::Measured);
        collector.finished(&finished, &mut log, &mut pool);
    }
    collector
}

fn run(folder: &Path, recount: &mut Recount) -> Result<Counted, RecordsError> {
    count(folder, recount, &mut |text| words(text), &|| false)
}

#[test]
fn answers_that_wait_are_counted_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(JSONL);
    // Text that looks like what is searched for.
    let hostile = r#"a b,"uncounted":{"x":1}} ,"token_source":"events" c}}"#;
    let calls = r#"[{"id":"not me","name":"nor me","arguments":"{\"q\": 1}"},{"id":"","name":"f","arguments":"x y z"}]"#;
    let with_usage = line_of(None, |_| {});
    let hostile_message = line_of(None, |entry| {
        entry.message = Some(r#","uncounted":{}}"#);
        entry.outcome =
            ridgeline_engine::Outcome::Error(ridgeline_wire::exchange::ErrorKind::InBand);
    });
    let foreign = "{\"not\":{\"ours\":1}}\n".to_owned();
    let lines = [
        with_usage.clone(),
        line_of(says(hostile, "", ""), |_| {}),
        line_of(says("one two", "three\nfour five", calls), |entry| {
            entry.events_at = Some(Cow::Borrowed(&[]));
        }),
        hostile_message.clone(),
        foreign.clone(),
        line_of(says("no success", "", ""), |entry| {
            entry.outcome = ridgeline_engine::Outcome::Cancelled;
        }),
        line_of(says("a document", "", ""), |entry| {
            entry.token_source = TokenSource::None;
            entry.uncounted = Some(Uncounted {
                streamed: false,
                ..TOLD
            });
        }),
    ];
    fs::write(&path, lines.concat()).unwrap();
    let mut collector = waiting_for(3);
    let mut recount = collector.recount();
    let counted = run(folder.path(), &mut recount).unwrap();
    assert_eq!((counted.answers, counted.refused), (4, 0));
    let text = fs::read_to_string(&path).unwrap();
    let now: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(now.len(), lines.len());
    for unchanged in [0, 3, 4] {
        assert_eq!(now[unchanged], lines[unchanged]);
    }
    let expected = [(1, 4), (2, 2 + 3 + 2 + 3), (5, 2), (6, 2)];
    for (place, tokens) in expected {
        let [mut before, after]: [Value; 2] =
            [lines[place].as_str(), now[place]].map(|line| serde_json::from_str(line).unwrap());
        let members = before.as_object_mut().unwrap();
        members.remove("uncounted").unwrap();
        members.insert("token_source".to_owned(), "tokenizer".into());
        members.insert("counted_output_tokens".to_owned(), tokens.into());
        assert_eq!(after, before);
        assert_eq!(after["output_tokens"], Value::Null, "what the server said");
    }
    assert!(collector.counted(&recount));
    let tokens = collector.tokens();
    assert_eq!((tokens.source.tokenizer, tokens.output), (16, 16));
    // 30 ns over 3 and 9 tokens; two of five events came in the window.
    let tpot = collector.distribution(Metric::Tpot).summary().unwrap();
    assert_eq!((tpot.count, tpot.min, tpot.max), (2, 3, 10));
    assert_eq!(collector.goodput().unwrap().good, 3);
    assert_eq!(collector.volume_in_window().output_tokens, 2 + 4 + 1);
    // Once more: there is nothing left to count.
    let mut again = collector.recount();
    assert_eq!(run(folder.path(), &mut again).unwrap(), Counted::default());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_the_tokenizer_refuses_goes_by_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(JSONL);
    let lines = ["?", "one two", "??"].map(|text| line_of(says(text, "", ""), |_| {}));
    fs::write(&path, lines.concat()).unwrap();
    let mut collector = waiting_for(3);
    let mut recount = collector.recount();
    let counted = run(folder.path(), &mut recount).unwrap();
    assert_eq!((counted.answers, counted.refused), (1, 2));
    assert_eq!(counted.refusal.as_deref(), Some("no token for `?`"));
    assert!(collector.counted(&recount));
    let source = collector.tokens().source;
    assert_eq!((source.tokenizer, source.events), (2, 10));
    let text = fs::read_to_string(&path).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["token_source"], "events");
    assert!(first.get("counted_output_tokens").is_none() && first.get("uncounted").is_none());
}

#[test]
fn a_count_that_fails_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(JSONL);
    let line = line_of(says("one two", "", ""), |_| {});
    let text = line.repeat(3) + &line[..line.len() / 2];
    let check = |error: &str, give_up: &dyn Fn() -> bool, keep: &[&str]| {
        fs::write(&path, &text).unwrap();
        let mut recount = waiting_for(3).recount();
        let told = count(
            folder.path(),
            &mut recount,
            &mut |text| words(text),
            give_up,
        );
        let told = told.unwrap_err().to_string();
        assert!(told.contains(error), "{told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, keep);
    };
    let asked = Cell::new(0);
    let second = || asked.replace(asked.get() + 1) == 1;
    check("interrupted", &second, &[JSONL]);
    symlink("/dev/full", folder.path().join(UNFINISHED)).unwrap();
    check("cannot write", &|| false, &[JSONL]);
    fs::create_dir(folder.path().join(UNFINISHED)).unwrap();
    check("cannot create", &|| false, &[JSONL, UNFINISHED]);
    fs::remove_dir(folder.path().join(UNFINISHED)).unwrap();
    fs::write(folder.path().join(SPOOL), "something").unwrap();
    check("still in records.spool", &|| false, &[JSONL, SPOOL]);
    fs::remove_file(folder.path().join(SPOOL)).unwrap();
    // What a kill leaves behind is cleared away.
    fs::write(folder.path().join(UNFINISHED), "half").unwrap();
    assert_eq!(recover(folder.path()).unwrap().cut, 1);
    assert!(!folder.path().join(UNFINISHED).exists());
    assert_eq!(fs::read_to_string(&path).unwrap(), line.repeat(3));
}

#[test]
fn a_line_that_was_cut_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(JSONL);
    let line = line_of(says("one two", "", ""), |_| {});
    for end in 0..line.len() {
        fs::write(&path, &line[..end]).unwrap();
        let mut recount = waiting_for(1).recount();
        let counted = run(folder.path(), &mut recount).unwrap();
        assert_eq!((counted.answers, recount.requests()), (0, 0));
        assert_eq!(fs::read_to_string(&path).unwrap(), line[..end]);
    }
}
