//! Tokenizers: builtin vocabularies, and files of several kinds written here.

#![expect(
    clippy::unwrap_used,
    reason = "the functions that write tokenizers are tests, too"
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ridgeline_workload::{
    Builtin, Generator, Input, Length, Sample, Synthetic, Tokenizer, WorkloadError,
};
use serde_json::{Value, json};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

fn text(sample: &Sample) -> &str {
    match &sample.input {
        Input::Prompt { text, .. } => text,
        Input::Messages(_) => panic!("synthetic samples are prompts"),
    }
}

fn written(directory: &Path, file: &Value) -> Tokenizer {
    fs::write(directory.join("tokenizer.json"), file.to_string()).unwrap();
    Tokenizer::open(directory.to_str().unwrap()).unwrap()
}

/// A byte-level BPE as most models have one, trained on sentences in which some of the words that
/// synthetic prompts use occur: these become single tokens, others take several.
fn byte_level(directory: &Path) -> Tokenizer {
    let corpus = [
        "some people want more time to read about the water under their house",
        "what would they make of another place where things happen over and over again",
    ];
    let mut trainer = TrainerWrapper::from(
        BpeTrainer::builder()
            .vocab_size(400)
            .min_frequency(0)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build(),
    );
    let mut model = tokenizers::Tokenizer::new(BPE::default());
    model.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    model.with_decoder(Some(ByteLevel::default()));
    model
        .train(&mut trainer, corpus.into_iter().cycle().take(20))
        .unwrap();
    let mut file: Value = serde_json::from_str(&model.to_string(false).unwrap()).unwrap();
    // As files of embedding models have them; both would falsify a count.
    file["truncation"] =
        json!({"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = json!({"strategy": {"Fixed": 512}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    written(directory, &file)
}

/// One token per character, spaces included: no word is a single token.
fn characters(directory: &Path) -> Tokenizer {
    let vocabulary: serde_json::Map<_, _> = (b' '..b'\x7f')
        .zip(0..)
        .map(|(c, id)| (char::from(c).to_string(), json!(id)))
        .collect();
    written(
        directory,
        &json!({"version": "1.0", "added_tokens": [], "model":
        {"type": "BPE", "vocab": vocabulary, "merges": []}}),
    )
}

/// One token per word, and one for all that are unknown.
fn words(directory: &Path) -> Tokenizer {
    written(
        directory,
        &json!({"version": "1.0", "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "this": 1, "that": 2},
                  "unk_token": "[UNK]"}}),
    )
}

#[test]
fn builtin_vocabularies_give_known_ids() {
    let cl100k = Tokenizer::open("cl100k_base").unwrap();
    let o200k = Tokenizer::open("o200k_base").unwrap();
    assert_eq!(cl100k.encode("hello world").unwrap(), [15339, 1917]);
    assert_eq!(o200k.encode("hello world").unwrap(), [24912, 2375]);
    assert_eq!(cl100k.name(), "cl100k_base");
    assert_eq!(o200k.builtin(), Some(Builtin::O200k));
    assert_eq!(cl100k.count("").unwrap(), 0);
    assert!(
        cl100k.count("<|endoftext|>").unwrap() > 1,
        "plain text, not a special token"
    );
}

#[test]
fn ids_that_do_not_exist_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for tokenizer in [Tokenizer::from(Builtin::Cl100k), words(directory.path())] {
        let error = tokenizer.decode(&[4_000_000_000]).unwrap_err();
        assert!(matches!(error, WorkloadError::Tokenizer { .. }), "{error}");
    }
}

#[test]
fn a_file_counts_whole_texts_without_padding_or_truncation() {
    let directory = tempfile::tempdir().unwrap();
    let tokenizer = byte_level(directory.path());
    assert_eq!(tokenizer.count("a").unwrap(), 1);
    assert!(tokenizer.count(&"xq".repeat(300)).unwrap() > 512);
    let text = "people want more time \u{e9}\u{1f600}";
    assert_eq!(
        tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(),
        text
    );
    assert!(tokenizer.name().ends_with("tokenizer.json"));
    assert_eq!(tokenizer.builtin(), None);
}

#[test]
fn prompts_are_exact_and_different_under_files_of_every_kind() {
    for kind in [byte_level, characters, words] {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = kind(directory.path());
        for tokens in [1, 2, 3, 4, 5, 7, 16, 100, 1000] {
            let synthetic = Synthetic {
                input: Length::Exact(tokens),
                samples: 20,
                ..Synthetic::default()
            };
            let dataset = Generator::new(synthetic, Some(&tokenizer))
                .unwrap()
                .dataset()
                .unwrap();
            for sample in &dataset.samples {
                let counted = tokenizer.count(text(sample)).unwrap();
                assert_eq!(counted, tokens, "{:?}", text(sample));
            }
            let mut texts: Vec<_> = dataset.samples.iter().map(text).collect();
            texts.sort_unstable();
            texts.dedup();
            assert!(
                tokens < 16 || texts.len() == 20,
                "{tokens} tokens: {} differ",
                texts.len()
            );
        }
    }
}

#[test]
fn a_tokenizer_without_words_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tokenizer = written(
        directory.path(),
        &json!({"version": "1.0", "model": {"type": "BPE", "vocab": {"\u{4e2d}": 0}, "merges": []}}),
    );
    let error = Generator::new(Synthetic::default(), Some(&tokenizer)).unwrap_err();
    assert!(
        error.to_string().contains("choose another tokenizer"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_tokenizer_is_one_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokenizer.json");
    let missing = Tokenizer::open(directory.path().to_str().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("tokenizer.json: ") && missing.contains("cl100k_base"),
        "{missing}"
    );
    assert!(Tokenizer::open("gpt-17").is_err());
    for bytes in [
        &b""[..],
        b"{}",
        b"[]",
        b"\xff\xfe\x00",
        b"{\"model\": {\"type\": \"BPE\"",
        b"{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}",
        b"{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}",
        b"{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"vocab\":[],\"unk_id\":7}}",
        "[".repeat(100_000).as_bytes(),
    ] {
        fs::write(&path, bytes).unwrap();
        let message = Tokenizer::file(&path).unwrap_err().to_string();
        assert!(message.starts_with("tokenizer ") && message.contains("; give a"), "{message}");
        assert!(message.len() < 1_000 && !message.contains('\n'), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_count_is_exact_under_a_file(tokens in 1_u32..=4096, seed: u64, index in 0_u32..1 << 30) {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = byte_level(directory.path());
        let synthetic = Synthetic { input: Length::Exact(tokens), seed, ..Synthetic::default() };
        let sample = Generator::new(synthetic, Some(&tokenizer)).unwrap().sample(index).unwrap();
        prop_assert_eq!(tokenizer.encode(text(&sample)).unwrap().len(), tokens as usize);
    }

    #[test]
    fn builtin_vocabularies_return_what_they_were_given(text: String) {
        for builtin in [Builtin::Cl100k, Builtin::O200k] {
            let tokenizer = Tokenizer::from(builtin);
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.count(&text).unwrap() as usize, ids.len());
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text.clone());
        }
    }
}
