//! Data set files: what each form means, and one clear error for everything that is not one.
#![expect(
    clippy::unwrap_used,
    reason = "the functions that write files are tests, too"
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ridgeline_workload::{
    BodyOptions, Builtin, Dataset, Endpoint, Format, Input, LoadOptions, OutputLength, Sample,
    Source, Tokenizer, WorkloadError, load, request,
};
use serde_json::{Value, json};

fn read(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    load(&Source::File(path), options)
}

fn good(name: &str, text: &str) -> Dataset {
    read(name, text.as_bytes(), &LoadOptions::default()).unwrap()
}

/// The error's message without the directory.
fn bad(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> String {
    let message = read(name, bytes, options).unwrap_err().to_string();
    assert!(
        message.len() < 2_000 && !message.contains('\n'),
        "one bounded line: {message}"
    );
    let place = format!("/{name}");
    let start = message.find(&place).expect("the message names the file");
    message[start + 1..].to_owned()
}

fn prompt(sample: &Sample) -> &str {
    match &sample.input {
        Input::Prompt { text, .. } => text,
        Input::Messages(raw) => panic!("messages: {raw}"),
    }
}

fn prompts(dataset: &Dataset) -> Vec<&str> {
    dataset.samples.iter().map(prompt).collect()
}

fn body(sample: &Sample) -> Value {
    serde_json::from_slice(&request::body(sample, &BodyOptions::default()).unwrap()).unwrap()
}

#[test]
fn jsonl_members_become_what_the_table_says() {
    let dataset = good(
        "a.jsonl",
        concat!(
            r#"{"prompt": "one", "max_tokens": 5}"#,
            "\r\n",
            r#"{"text_input": "two", "output_tokens": 6, "max_tokens": 7, "id": 3}"#,
            "\n\n  \n",
            r#"{"text": "three\u00e9", "system": "be kind", "temperature": 0.5, "n": null}"#,
            "\n",
            r#"{"messages": [{"role":"user","content":"four"}], "output_length": 8}"#,
            "\n",
            r#"{"messages": [{"role":"system","content":"s"},{"role":"user","content":"five"}], "stream": false, "model": "x"}"#,
            "\n",
            r#"{"conversations": [{"from":"human","value":"six"},{"from":"gpt","value":"6"}], "max_tokens": null}"#,
            "\n",
            r#"{"conversations": [{"from":"human","value":"nobody answers"}]}"#,
        ),
    );
    assert_eq!(dataset.name, "a.jsonl");
    assert_eq!((dataset.samples_count(), dataset.skipped), (6, 1));
    let outputs: Vec<_> = dataset.samples.iter().map(|s| s.output).collect();
    assert_eq!(
        outputs,
        [
            Some(OutputLength::AtMost(5)),
            Some(OutputLength::Exact(6)),
            None,
            Some(OutputLength::Exact(8)),
            None,
            None
        ]
    );
    assert_eq!(
        body(&dataset.samples[2]),
        json!({"model": "", "stream": false, "temperature": 0.5, "n": null, "messages": [
            {"role": "system", "content": "be kind"}, {"role": "user", "content": "three\u{e9}"}]})
    );
    assert_eq!(prompt(&dataset.samples[3]), "four");
    assert!(matches!(dataset.samples[4].input, Input::Messages(_)));
    assert_eq!(prompt(&dataset.samples[5]), "six");
    assert_eq!(
        dataset.notes,
        [
            "`model` of 1 lines is not sent: the run decides it",
            "`stream` of 1 lines is not sent: the run decides it",
            "`id` of 1 lines is not sent: it names the sample",
        ]
    );
}

#[test]
fn extra_members_pass_through_as_they_are_written() {
    let line = r#"{"prompt":"x","big":123456789012345678901234567890,"nested":{"a":[1e400]}}"#;
    let dataset = good("a.jsonl", line);
    let options = BodyOptions {
        endpoint: Endpoint::Completions,
        ..BodyOptions::default()
    };
    let body = String::from_utf8(request::body(&dataset.samples[0], &options).unwrap()).unwrap();
    let end = r#","big":123456789012345678901234567890,"nested":{"a":[1e400]}}"#;
    assert!(body.ends_with(end), "{body}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_wrong_line_is_named_with_its_cause() {
    let options = LoadOptions::default();
    for (line, cause) in [
        (
            "not json",
            "line 2: not a JSON object: expected ident at column 2",
        ),
        ("[1]", "line 2: not a JSON object: invalid type: sequence"),
        (
            "{\"prompt\": \"x\"",
            "line 2: not a JSON object: EOF while parsing",
        ),
        (
            "{\"prompt\": \"x\"} {}",
            "line 2: not a JSON object: trailing characters",
        ),
        ("{}", "line 2: none of `prompt`"),
        ("{\"prompt\": 7}", "line 2: `prompt` is not a string"),
        ("{\"prompt\": \"\"}", "line 2: `prompt` is empty"),
        ("{\"prompt\": null}", "line 2: `prompt` is empty"),
        (
            "{\"prompt\": \"\\ud800\"}",
            "line 2: `prompt` is not a string",
        ),
        (
            "{\"prompt\": \"x\", \"text\": \"y\"}",
            "line 2: both `prompt` and `text`",
        ),
        (
            "{\"prompt\": \"x\", \"system\": 1}",
            "line 2: `system` is not a string",
        ),
        (
            "{\"prompt\": \"x\", \"max_tokens\": 0}",
            "line 2: `max_tokens` is 0, not a number",
        ),
        (
            "{\"prompt\": \"x\", \"max_tokens\": -1}",
            "line 2: `max_tokens` is -1",
        ),
        (
            "{\"prompt\": \"x\", \"max_tokens\": 1.5}",
            "line 2: `max_tokens` is 1.5",
        ),
        (
            "{\"prompt\": \"x\", \"output_tokens\": 1e999}",
            "line 2: `output_tokens` is 1e999",
        ),
        (
            "{\"prompt\": \"x\", \"max_tokens\": 4294967296}",
            "line 2: `max_tokens` is 4294967296",
        ),
        (
            "{\"prompt\": \"x\", \"max_tokens\": \"many\"}",
            "line 2: `max_tokens` is \"many\"",
        ),
        ("{\"messages\": []}", "line 2: `messages` is empty"),
        (
            "{\"messages\": {}}",
            "line 2: `messages` is not an array of messages",
        ),
        (
            "{\"messages\": [{\"content\": \"x\"}]}",
            "line 2: `messages` is not an array",
        ),
        ("{\"messages\": [7]}", "line 2: `messages` is not an array"),
    ] {
        let text = format!("{{\"prompt\": \"fine\"}}\n{line}\n{{\"prompt\": \"fine\"}}\n");
        let message = bad("a.jsonl", text.as_bytes(), &options);
        assert!(
            message.starts_with(&format!("a.jsonl, {cause}")),
            "{line}: {message}"
        );
    }
}

#[test]
fn sharegpt_asks_the_first_question_that_is_answered() {
    let dataset = good(
        "s.json",
        r#"[
        {"id": "a", "conversations": [{"from":"human","value":"q1"},{"from":"gpt","value":"a1"},
                                      {"from":"human","value":"q2"},{"from":"gpt","value":"a2"}]},
        {"conversations": [{"from":"system","value":"sys"},{"from":"gpt","value":"hi"},
                           {"from":"human","value":"unanswered"},
                           {"from":"user","value":"q3"},{"from":"assistant","value":"a3","extra":1}]},
        {"id": "b", "conversations": []},
        {"id": "c", "conversations": [{"from":"human","value":"no answer"}]},
        {"id": "d", "conversations": [{"from":"human","value":""},{"from":"gpt","value":"x"}]},
        {"id": "e"}, 7, null, {"conversations": {"from": "human"}},
        {"conversations": [{"from":"human","value":null},{"from":"gpt","value":"x"}]}
        ]"#,
    );
    assert_eq!(prompts(&dataset), ["q1", "q3"]);
    assert_eq!(dataset.skipped, 8);
    assert_eq!(
        body(&dataset.samples[1])["messages"],
        json!([{"role": "system", "content": "sys"}, {"role": "user", "content": "q3"}])
    );
}

#[test]
fn recorded_answers_give_the_length_to_ask_for() {
    let text = r#"[{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"hello world"}]}]"#;
    let tokenizer = Tokenizer::from(Builtin::Cl100k);
    let mut options = LoadOptions {
        answer_lengths: true,
        ..LoadOptions::default()
    };
    let error = read("s.json", text.as_bytes(), &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--tokenizer"), "{error}");
    options.tokenizer = Some(&tokenizer);
    let mut dataset = read("s.json", text.as_bytes(), &options).unwrap();
    assert_eq!(dataset.samples[0].output, Some(OutputLength::AtMost(2)));
    assert_eq!(dataset.samples[0].input_tokens, None);
    dataset.count_input_tokens(&tokenizer).unwrap();
    assert_eq!(dataset.samples[0].input_tokens, Some(1));
}

#[test]
fn csv_takes_the_column_that_is_meant() {
    let table = "id,prompt,max_tokens\n1,\"two\nlines, \"\"quoted\"\"\",5\n2,plain,\n";
    let dataset = good("t.csv", table);
    assert_eq!(prompts(&dataset), ["two\nlines, \"quoted\"", "plain"]);
    assert_eq!(dataset.samples[0].output, Some(OutputLength::AtMost(5)));
    assert_eq!(dataset.samples[1].output, None);
    assert_eq!(dataset.notes, ["1 of 3 columns are not used"]);
    // Recognised without the name ending in .csv.
    assert_eq!(
        prompts(&good("t.txt", "text,x\r\none,1\r\ntwo,2\r\n")),
        ["one", "two"]
    );
    // The only column, whatever it is called.
    assert_eq!(
        prompts(&good("t.csv", "question\none\n\ntwo\n")),
        ["one", "two"]
    );
    let options = LoadOptions {
        prompt_column: Some("q".to_owned()),
        output_column: Some("len".to_owned()),
        ..LoadOptions::default()
    };
    let dataset = read("t", b"q,prompt,len\na,b,9\n", &options).unwrap();
    assert_eq!(prompts(&dataset), ["a"]);
    assert_eq!(dataset.samples[0].output, Some(OutputLength::Exact(9)));
}

#[test]
fn csv_that_is_wrong_is_one_clear_error() {
    let options = LoadOptions::default();
    for (text, cause) in [
        (
            "a,b\n1,2\n",
            "no column `prompt` among [\"a\", \"b\"]; a CSV data set has",
        ),
        ("prompt,b\n1\n", "line 2: 1 fields, where the header has 2"),
        (
            "prompt,b\n1,2\n1,2,3\n",
            "line 3: 3 fields, where the header has 2",
        ),
        ("prompt,b\n\"\",2\n", "line 2: the prompt is empty"),
        (
            "prompt,output_tokens\nx,0\n",
            "line 2: the length `0` is not a number",
        ),
        (
            "prompt,output_tokens\nx,many\n",
            "line 2: the length `many` is not a number",
        ),
        ("prompt,b\n", "it has a header and no records"),
        (
            "prompt\none\n\"two\nthree\nfour\n",
            "line 3: a quotation that is still open",
        ),
    ] {
        let message = bad("t.csv", text.as_bytes(), &options);
        assert!(message.contains(cause), "{text:?}: {message}");
    }
}

#[test]
fn byte_order_mark_and_crlf_are_tolerated_in_every_form() {
    for (name, text) in [
        (
            "a.jsonl",
            "\u{feff}{\"prompt\":\"x\"}\r\n{\"prompt\":\"y\"}\r\n",
        ),
        ("a.csv", "\u{feff}prompt\r\nx\r\ny\r\n"),
        (
            "a.json",
            "\u{feff}[{\"conversations\":[{\"from\":\"human\",\"value\":\"x\"},{\"from\":\"gpt\",\
             \"value\":\"1\"}]},\r\n{\"conversations\":[{\"from\":\"human\",\"value\":\"y\"},\
             {\"from\":\"gpt\",\"value\":\"2\"}]}]\r\n",
        ),
    ] {
        assert_eq!(prompts(&good(name, text)), ["x", "y"], "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_file_that_is_not_what_it_claims_is_one_clear_error() {
    let auto = LoadOptions::default();
    let told = |format| LoadOptions {
        format: Some(format),
        ..LoadOptions::default()
    };
    let object = b"{\n \"data\": [{\"conversations\": []}]\n}\n";
    for (bytes, options, cause) in [
        (&b""[..], &auto, "f: it is empty; a data set is"),
        (b" \r\n\t\n", &auto, "f: it is empty"),
        (b"\xef\xbb\xbf", &auto, "f: it is empty"),
        (
            b"\x1f\x8b\x08\x00",
            &auto,
            "f: it is compressed (gzip); unpack it first",
        ),
        (b"PAR1\x15", &auto, "f: it is a Parquet file"),
        (b"\xff\xfe{\x00", &auto, "f: it is UTF-16 text; convert it"),
        (
            b"\x7fELF\x02\x01\x01\x00\x00",
            &auto,
            "not a text file: a NUL byte at offset 7",
        ),
        (
            b"{\"prompt\":\"a\"}\n{\"prompt\":\"\xc3(\"}\n",
            &auto,
            "not UTF-8 text: invalid utf-8",
        ),
        (
            b"{\"prompt\":\"a\"}\n{\"prompt\":\"\xc3(\"}\n",
            &auto,
            "in line 2; ",
        ),
        (
            b"hello\nworld\n",
            &auto,
            "f: it is neither JSON nor CSV with a column `prompt`",
        ),
        (
            object,
            &auto,
            "f: it is one JSON object over several lines; a data set is",
        ),
        (
            object,
            &told(Format::ShareGpt),
            "f: it is not a JSON array: invalid type: map",
        ),
        (
            b"[1,2,{}]",
            &auto,
            "f: it has nothing to ask: none of its 3 entries",
        ),
        (
            b"[]",
            &auto,
            "f: it has nothing to ask: none of its 0 entries",
        ),
        (
            b"[{\"conversations\":[{\"from\":",
            &auto,
            "f: it is not complete, correct JSON: EOF",
        ),
        (
            b"[] []",
            &auto,
            "f: it is not complete, correct JSON: trailing",
        ),
        (
            b"[{\"prompt\":\"x\"}]",
            &told(Format::Jsonl),
            "f, line 1: not a JSON object",
        ),
        (
            b"{\"prompt\":\"x\"}",
            &told(Format::ShareGpt),
            "f: it is not a JSON array",
        ),
    ] {
        let message = bad("f", bytes, options);
        assert!(message.contains(cause), "{bytes:?}: {message}");
    }
}

#[test]
fn paths_that_are_no_files_are_one_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let options = LoadOptions::default();
    let open = |path: &Path| {
        load(&Source::File(path.to_owned()), &options)
            .unwrap_err()
            .to_string()
    };
    let message = open(directory.path());
    assert!(
        message.ends_with("it is a directory, not a file"),
        "{message}"
    );
    let message = open(&directory.path().join("missing"));
    assert!(
        message.starts_with("cannot read ") && message.contains("No such file"),
        "{message}"
    );
}

#[test]
fn every_limit_holds() {
    let line = format!("{{\"prompt\":\"{}\"}}\n", "x".repeat(1_000));
    let small = |options| bad("f", line.repeat(3).as_bytes(), &options);
    let message = small(LoadOptions {
        line_bytes_max: 1_000,
        ..LoadOptions::default()
    });
    assert!(
        message.starts_with("f, line 1: 1013 bytes, more than the limit of 1000"),
        "{message}"
    );
    let message = small(LoadOptions {
        file_bytes_max: 3_000,
        ..LoadOptions::default()
    });
    assert!(
        message.contains("larger than the limit of 3000 bytes"),
        "{message}"
    );
    let message = small(LoadOptions {
        samples_max: 2,
        ..LoadOptions::default()
    });
    assert!(
        message.starts_with("f: it holds more than 2 samples"),
        "{message}"
    );
    let table = format!("prompt\n{}\n", "x".repeat(2_000));
    let options = LoadOptions {
        line_bytes_max: 1_000,
        ..LoadOptions::default()
    };
    assert!(bad("f", table.as_bytes(), &options).starts_with("f, line 2: a record above"));
    let exact = u64::try_from(line.len()).unwrap();
    let options = LoadOptions {
        file_bytes_max: exact,
        ..LoadOptions::default()
    };
    assert_eq!(
        read("f", line.as_bytes(), &options)
            .unwrap()
            .samples_count(),
        1
    );
}

#[cfg(unix)]
#[test]
fn an_endless_device_ends_at_the_limit() {
    let options = LoadOptions {
        file_bytes_max: 1 << 16,
        ..LoadOptions::default()
    };
    let error = load(&Source::File("/dev/zero".into()), &options)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("larger than the limit of 65536 bytes"),
        "{error}"
    );
}

#[test]
fn nesting_of_any_depth_overflows_no_stack() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let options = LoadOptions::default();
    let line = format!("{{\"prompt\":\"x\",\"deep\":{deep}}}");
    let dataset = read("f", line.as_bytes(), &options).unwrap();
    assert!(
        request::body(&dataset.samples[0], &BodyOptions::default())
            .unwrap()
            .len()
            > 200_000
    );
    for text in [
        format!("{{\"messages\":{deep}}}"),
        format!("{{\"prompt\":{deep}}}"),
        format!("{{\"conversations\":{deep}}}"),
        format!("{{\"prompt\":\"x\",\"max_tokens\":{deep}}}"),
        format!("[{deep}]"),
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
    ] {
        bad("f", text.as_bytes(), &options);
    }
    let line = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{deep}}}]}}");
    let mut dataset = read("f", line.as_bytes(), &options).unwrap();
    dataset
        .count_input_tokens(&Tokenizer::from(Builtin::Cl100k))
        .unwrap();
}

#[test]
fn prompt_source_is_one_sample() {
    let options = LoadOptions::default();
    let dataset = load(&Source::Prompt("hi".to_owned()), &options).unwrap();
    assert_eq!(
        (dataset.name.as_str(), prompts(&dataset)),
        ("prompt", vec!["hi"])
    );
    let error = load(&Source::Prompt(String::new()), &options)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("--prompt: "), "{error}");
}

/// Three valid files, to be cut and damaged.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(r#"[{"id":"1","conversations":[{"from":"human","value":"qä"},{"from":"gpt","value":"a"}]}]"#),
        Just("{\"prompt\":\"one\",\"max_tokens\":3}\n{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"),
        Just("prompt,output_tokens\n\"a, b\",3\n\"c\"\"d\",\n"),
    ]
    .prop_map(|text: &str| text.as_bytes().to_vec())
}

proptest! {
    #[test]
    fn damage_never_panics(mut bytes in valid(), cut: prop::sample::Index,
                           at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        for (index, byte) in at {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(dataset) = read("f", &bytes, &LoadOptions::default()) {
            prop_assert!(dataset.samples_count() >= 1);
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [None, Some(Format::Csv), Some(Format::Jsonl), Some(Format::ShareGpt)] {
            let options = LoadOptions { format, ..LoadOptions::default() };
            let _ = read("f", &bytes, &options);
        }
    }

    #[test]
    fn any_text_survives_every_form(text in "\\PC{1,40}", answer in "\\PC{1,40}") {
        let files = [
            ("a.jsonl", json!({"prompt": &text}).to_string()),
            ("a.json", json!([{"conversations": [
                {"from": "human", "value": &text}, {"from": "gpt", "value": &answer}]}]).to_string()),
            ("a.csv", format!("prompt,x\n\"{}\",1\n", text.replace('"', "\"\""))),
        ];
        for (name, file) in files {
            let dataset = good(name, &file);
            prop_assert_eq!(prompts(&dataset), [text.as_str()]);
        }
    }
}

#[test]
fn lines_of_a_session_know_it_and_do_not_send_it() {
    let dataset = good(
        "a.jsonl",
        concat!(
            r#"{"prompt": "a", "session_id": "x"}"#,
            "\n",
            r#"{"prompt": "b", "session": "x"}"#,
            "\n",
            r#"{"prompt": "c", "conversation_id": 7}"#,
            "\n",
            r#"{"prompt": "d", "session_id": null}"#,
        ),
    );
    let sessions: Vec<_> = dataset.samples.iter().map(|s| s.session).collect();
    assert!(sessions[0].is_some() && sessions[0] == sessions[1]);
    assert!(sessions[2].is_some() && sessions[2] != sessions[0]);
    assert_eq!(sessions[3], None);
    assert_eq!(body(&dataset.samples[0]).get("session_id"), None);
    assert!(dataset.notes[0].contains("it names the session"));
    let error = bad(
        "b.jsonl",
        br#"{"prompt": "a", "session": []}"#,
        &LoadOptions::default(),
    );
    assert!(error.contains("neither a string nor a number"), "{error}");
}
