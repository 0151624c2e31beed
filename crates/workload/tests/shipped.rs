//! The data set under `workloads/` is what its README says.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use ridgeline_workload::{
    BodyOptions, Builtin, Dataset, Endpoint, Input, LoadOptions, OutputLength, Source, Tokenizer,
    load, request,
};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../workloads")
        .join(name)
}

fn small(tokenizer: &Tokenizer) -> Dataset {
    let options = LoadOptions {
        tokenizer: Some(tokenizer),
        answer_lengths: true,
        ..LoadOptions::default()
    };
    let mut dataset = load(&Source::File(file("sharegpt-small.json")), &options)
        .expect("the repository's own data set loads");
    dataset
        .count_input_tokens(tokenizer)
        .expect("the builtin vocabulary counts any text");
    dataset
}

#[test]
fn every_conversation_is_asked_once() {
    let dataset = small(&Tokenizer::from(Builtin::Cl100k));
    assert_eq!((dataset.samples_count(), dataset.skipped), (114, 0));
    assert!(dataset.notes.is_empty());
    let bodies: HashSet<_> = dataset
        .samples
        .iter()
        .flat_map(|sample| {
            [Endpoint::Chat, Endpoint::Completions].map(|endpoint| {
                let options = BodyOptions {
                    endpoint,
                    streaming: true,
                    ..BodyOptions::default()
                };
                request::body(sample, &options).unwrap()
            })
        })
        .collect();
    assert_eq!(bodies.len(), 228, "no two conversations ask the same");
    for body in bodies {
        assert!(serde_json::from_slice::<Value>(&body).unwrap().is_object());
    }
}

#[test]
fn the_file_is_as_varied_as_it_says() {
    let text = fs::read_to_string(file("sharegpt-small.json")).unwrap();
    let conversations: Vec<Value> = serde_json::from_str(&text).unwrap();
    let ids: HashSet<_> = conversations
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 114);
    let turns = |c: &Value| c["conversations"].as_array().unwrap().len();
    let system = |c: &Value| usize::from(c["conversations"][0]["from"] == "system");
    assert_eq!(conversations.iter().map(system).sum::<usize>(), 2);
    let multi = conversations
        .iter()
        .filter(|c| turns(c) - system(c) > 2)
        .count();
    assert_eq!(multi, 13);
    let dataset = small(&Tokenizer::from(Builtin::Cl100k));
    let not_ascii = dataset.samples.iter().filter(|s| match &s.input {
        Input::Prompt { text, .. } => !text.is_ascii(),
        Input::Messages(_) => false,
    });
    assert_eq!(not_ascii.count(), 18);
}

/// The numbers of the table in `workloads/README.md`.
#[test]
fn the_readme_has_the_right_statistics() {
    let dataset = small(&Tokenizer::from(Builtin::Cl100k));
    let mut inputs: Vec<u32> = dataset
        .samples
        .iter()
        .map(|s| s.input_tokens.unwrap())
        .collect();
    let mut outputs: Vec<u32> = dataset
        .samples
        .iter()
        .map(|s| match s.output {
            Some(OutputLength::AtMost(tokens)) => tokens,
            other => panic!("no recorded length: {other:?}"),
        })
        .collect();
    let readme = fs::read_to_string(file("README.md")).unwrap();
    for (name, lengths) in [("question", &mut inputs), ("answer", &mut outputs)] {
        lengths.sort_unstable();
        let sum: u32 = lengths.iter().sum();
        let last = lengths.len() - 1;
        let row = format!(
            "| {name} | {} | {} | {} | {} | {sum} |",
            lengths[0],
            lengths[last / 2],
            lengths[last * 9 / 10],
            lengths[last]
        );
        assert!(
            readme.contains(&row),
            "the README should have the row {row}"
        );
    }
}
