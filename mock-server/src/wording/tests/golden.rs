//! The bytes of each dialect: a change of them is seen, and meant.
//!
//! `RIDGELINE_BLESS=1 cargo test -p ridgeline-mock-server golden` writes the files anew.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{Dialect, call, plain, response};
use crate::answer::{Answer, Endpoint, Finish, Output};

/// Bytes as lines of text: what is not plain ASCII is escaped, line feeds too, before their line
/// ends.
fn page(bytes: &[u8]) -> String {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| format!("{}\n", line.escape_ascii()))
        .collect()
}

/// A stream and a whole answer of each kind.
fn pages(dialect: Dialect) -> String {
    let chat = Answer {
        cached_tokens: 4,
        outputs: [Output {
            calls: [call("call_a", "look", "{\"at\":1}")].into(),
            ..Output::words(0, 1, 2, Finish::ToolCalls)
        }]
        .into(),
        ..plain(Endpoint::Chat)
    };
    let completions = Answer {
        logprobs: Some(1),
        outputs: [Output::words(0, 0, 2, Finish::Length)].into(),
        ..plain(Endpoint::Completions)
    };
    let mut out = String::new();
    for (name, answer) in [("chat", chat), ("completions", completions)] {
        for stream in [true, false] {
            let answer = Answer {
                stream,
                include_usage: stream,
                ..answer.clone()
            };
            let how = if stream { "streamed" } else { "whole" };
            out += &format!("==== {name}, {how}\n");
            out += &page(&response(dialect, &answer, 2));
        }
    }
    out
}

#[test]
fn every_dialect_says_its_golden_bytes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("RIDGELINE_BLESS").is_some();
    for &dialect in Dialect::value_variants() {
        let name = dialect.to_possible_value().unwrap().get_name().to_owned();
        let path = folder.join(format!("{name}.txt"));
        let said = pages(dialect);
        if bless {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &said).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            said == golden,
            "{name} differs from {}:\n{said}",
            path.display()
        );
    }
}
