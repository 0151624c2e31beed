//! Synthetic prompts have exactly the asked number of tokens, differ, and are pinned.

use std::collections::HashSet;

use proptest::prelude::*;
use ridgeline_workload::{
    Builtin, Generator, Input, Length, OutputLength, Sample, Synthetic, Tokenizer, WorkloadError,
};

fn text(sample: &Sample) -> &str {
    match &sample.input {
        Input::Prompt { system: None, text } => text,
        other => panic!("not a plain prompt: {other:?}"),
    }
}

fn fixed(input: Length, seed: u64) -> Synthetic {
    Synthetic {
        input,
        seed,
        ..Synthetic::default()
    }
}

#[test]
fn golden_prompts() {
    let generator = Generator::new(fixed(Length::Exact(8), 0), None).unwrap();
    let prompts: Vec<_> = (0..3)
        .map(|i| text(&generator.sample(i).unwrap()).to_owned())
        .collect();
    assert_eq!(
        prompts,
        [
            "truth parts seven queue without thing bank budget",
            "line project rights needs changed done tool users",
            "control camera volume software peace writer reported ways"
        ]
    );
    let spread = Synthetic {
        input: Length::Uniform { min: 10, max: 99 },
        output: Some(Length::Normal {
            mean: 100,
            stddev: 20.0,
        }),
        seed: 42,
        ..Synthetic::default()
    };
    let generator = Generator::new(spread, None).unwrap();
    let lengths: Vec<_> = (0..8)
        .map(|i| generator.sample(i).unwrap())
        .map(|s| (s.input_tokens.unwrap(), s.output.unwrap()))
        .map(|(input, output)| match output {
            OutputLength::Exact(output) => (input, output),
            OutputLength::AtMost(_) => panic!("synthetic lengths are exact"),
        })
        .collect();
    assert_eq!(
        lengths,
        [
            (38, 65),
            (27, 109),
            (95, 131),
            (57, 100),
            (48, 111),
            (18, 81),
            (60, 125),
            (16, 116)
        ]
    );
}

#[test]
fn the_default_is_4096_different_prompts_of_128_tokens() {
    let dataset = Generator::new(Synthetic::default(), None)
        .unwrap()
        .dataset()
        .unwrap();
    assert_eq!(dataset.samples_count(), 4096);
    let tokenizer = Tokenizer::from(Builtin::O200k);
    for sample in dataset.samples.iter().step_by(61) {
        assert_eq!(tokenizer.count(text(sample)).unwrap(), 128);
        assert_eq!(sample.input_tokens, Some(128));
        assert_eq!(sample.output, Some(OutputLength::Exact(64)));
    }
    let starts: HashSet<Vec<&str>> = dataset
        .samples
        .iter()
        .map(|s| text(s).split(' ').take(3).collect())
        .collect();
    assert_eq!(
        starts.len(),
        4096,
        "prompts differ within their first three words"
    );
}

#[test]
fn short_prompts_differ_as_long_as_there_are_words() {
    for (tokens, samples) in [(1, 1024), (2, 5_000), (3, 5_000), (4, 5_000)] {
        let synthetic = Synthetic {
            samples,
            ..fixed(Length::Exact(tokens), 9)
        };
        let dataset = Generator::new(synthetic, None).unwrap().dataset().unwrap();
        let texts: HashSet<&str> = dataset.samples.iter().map(text).collect();
        assert_eq!(texts.len(), samples as usize, "{tokens} tokens");
    }
}

#[test]
fn seeds_give_different_prompts() {
    let one = Generator::new(fixed(Length::Exact(16), 1), None).unwrap();
    let two = Generator::new(fixed(Length::Exact(16), 2), None).unwrap();
    for index in 0..100 {
        assert_ne!(
            text(&one.sample(index).unwrap()),
            text(&two.sample(index).unwrap())
        );
    }
}

#[test]
fn distributions_have_their_mean_and_stay_in_range() {
    let around = Length::around("--isl", 100, 0.5).unwrap();
    assert_eq!(around, Length::Uniform { min: 50, max: 150 });
    for (input, deviation) in [
        (around, 29.15), // (n^2 - 1) / 12 with n = 101
        (
            Length::Normal {
                mean: 100,
                stddev: 10.0,
            },
            10.0,
        ),
        (Length::Exact(100), 0.0),
    ] {
        let generator = Generator::new(fixed(input, 3), None).unwrap();
        let lengths: Vec<f64> = (0..4_000)
            .map(|i| f64::from(generator.sample(i).unwrap().input_tokens.unwrap()))
            .collect();
        let mean = lengths.iter().sum::<f64>() / 4_000.0;
        let variance = lengths.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 4_000.0;
        assert!((mean - 100.0).abs() < 2.0, "{input:?}: mean {mean}");
        assert!(
            (variance.sqrt() - deviation).abs() < 1.0,
            "{input:?}: {}",
            variance.sqrt()
        );
        if let Length::Uniform { min, max } = input {
            assert!(lengths.contains(&min.into()) && lengths.contains(&max.into()));
            assert!(
                lengths
                    .iter()
                    .all(|l| (f64::from(min)..=f64::from(max)).contains(l))
            );
        }
    }
}

#[test]
fn a_wide_normal_is_never_below_one_token() {
    let generator = Generator::new(
        fixed(
            Length::Normal {
                mean: 2,
                stddev: 50.0,
            },
            3,
        ),
        None,
    )
    .unwrap();
    assert!((0..500).all(|i| generator.sample(i).unwrap().input_tokens >= Some(1)));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let isl = |input| {
        (
            "--isl",
            Synthetic {
                input,
                ..Synthetic::default()
            },
        )
    };
    let osl = |output| {
        (
            "--osl",
            Synthetic {
                output: Some(output),
                ..Synthetic::default()
            },
        )
    };
    let many = |samples, tokens| {
        let input = Length::Exact(tokens);
        (
            "--dataset-samples",
            Synthetic {
                samples,
                input,
                ..Synthetic::default()
            },
        )
    };
    for (flag, synthetic) in [
        isl(Length::Exact(0)),
        isl(Length::Exact(u32::MAX)),
        isl(Length::Uniform { min: 5, max: 4 }),
        isl(Length::Uniform { min: 0, max: 4 }),
        isl(Length::Normal {
            mean: 5,
            stddev: f64::NAN,
        }),
        isl(Length::Normal {
            mean: 5,
            stddev: -1.0,
        }),
        osl(Length::Exact(0)),
        osl(Length::Normal {
            mean: 5,
            stddev: 1e300,
        }),
        many(0, 128),
        many(u32::MAX, 1),
        many(1 << 20, 1 << 20),
    ] {
        match Generator::new(synthetic, None) {
            Err(WorkloadError::Option { option, .. }) => assert_eq!(option, flag),
            other => panic!("{synthetic:?} gave {other:?}"),
        }
    }
}

#[test]
fn range_ratios_that_cannot_be_are_refused() {
    for ratio in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(Length::around("--isl", 10, ratio).is_err(), "{ratio}");
    }
    assert!(Length::around("--isl", 0, 0.5).is_err());
    assert!(Length::around("--isl", u32::MAX, 0.5).is_err());
    assert_eq!(
        Length::around("--isl", 1, 0.9).unwrap(),
        Length::Uniform { min: 1, max: 2 }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_count_is_exact_under_every_builtin_vocabulary(
        tokens in 1_u32..=4096, seed: u64, index in 0_u32..1 << 30,
    ) {
        let sample =
            Generator::new(fixed(Length::Exact(tokens), seed), None).unwrap().sample(index).unwrap();
        for builtin in [Builtin::Cl100k, Builtin::O200k] {
            let tokenizer = Tokenizer::from(builtin);
            let ids = tokenizer.encode(text(&sample)).unwrap();
            prop_assert_eq!(ids.len(), tokens as usize);
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text(&sample));
        }
    }

    #[test]
    fn drawn_lengths_are_exact_too(min in 1_u32..500, more in 0_u32..500, seed: u64) {
        let length = Length::Uniform { min, max: min + more };
        let generator = Generator::new(fixed(length, seed), None).unwrap();
        let tokenizer = Tokenizer::from(Builtin::Cl100k);
        for index in 0..4 {
            let sample = generator.sample(index).unwrap();
            prop_assert_eq!(Some(tokenizer.count(text(&sample)).unwrap()), sample.input_tokens);
        }
    }
}
