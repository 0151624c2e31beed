//! Synthetic prompts: words without meaning, of an exact number of tokens, no two alike.

use crate::draw::{Draw, derive};
use crate::error::WorkloadError;
use crate::order::permute;
use crate::pieces::Pieces;
use crate::sample::{Dataset, Fields, Input, OutputLength, Sample};
use crate::tokenizer::Tokenizer;
use crate::words::WORDS;

/// The longest prompt or answer, in tokens.
pub const LENGTH_MAX: u32 = 1 << 20;

/// The most tokens that the prompts of one run may have together: some 7 GB of text. A guess at
/// what nobody means to ask for.
const TOKENS_MAX: u64 = 1 << 30;

/// The most prompts: as many as are certain to differ.
const SAMPLES_MAX: u32 = 1 << 30;

/// The words at the start of a prompt that are a number written in words, the same for no two
/// prompts. Prompts of three tokens or more differ within these, so that a server's prefix cache
/// never finds one useful for another; 2 tokens allow 2^20 different prompts, and 1 token 1024.
pub(crate) const LEAD: u32 = 3;

/// Synthetic prompts, as flags describe them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthetic {
    /// How many prompts to make. A run that issues more requests repeats them.
    pub samples: u32,
    /// `--isl`: tokens of a prompt, before the server applies its chat template.
    pub input: Length,
    /// `--osl`: tokens of an answer, asked for exactly. `None` leaves the length to the model.
    pub output: Option<Length>,
    /// The run's seed. The same seed gives the same prompts, which a server may still have in its
    /// cache from an earlier run.
    pub seed: u64,
}

impl Default for Synthetic {
    /// 4096 prompts of 128 tokens, 64 tokens out, seed 0.
    fn default() -> Self {
        Self {
            samples: 4096,
            input: Length::Exact(128),
            output: Some(Length::Exact(64)),
            seed: 0,
        }
    }
}

/// A length in tokens, or a distribution of lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Always the same.
    Exact(u32),
    /// Normally distributed, rounded, and not below 1.
    Normal {
        /// Tokens on average.
        mean: u32,
        /// Standard deviation, in tokens.
        stddev: f64,
    },
    /// Each length from `min` to `max`, both included, equally often.
    Uniform {
        /// The shortest.
        min: u32,
        /// The longest.
        max: u32,
    },
}

impl Length {
    /// Uniform from `mean` (1 - `ratio`), rounded down and not below 1, to `mean` (1 + `ratio`),
    /// rounded up: what vLLM means by `--random-range-ratio`. (SGLang's of the same name means
    /// `mean` x `ratio` to `mean`: that is a [`Length::Uniform`].)
    ///
    /// # Errors
    /// When `ratio` is not in 0..1 or the lengths are not in `1..=LENGTH_MAX`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and beyond u32 the cast saturates and is refused"
    )]
    pub fn around(option: &'static str, mean: u32, ratio: f64) -> Result<Self, WorkloadError> {
        if !(0.0..1.0).contains(&ratio) {
            let problem = format!("a range ratio is at least 0 and below 1, not {ratio}");
            return Err(WorkloadError::Option { option, problem });
        }
        let min = libm::floor(f64::from(mean) * (1.0 - ratio)) as u32;
        let max = libm::ceil(f64::from(mean) * (1.0 + ratio)) as u32;
        let length = Self::Uniform {
            min: min.max(1),
            max,
        };
        length.checked(option)?;
        Ok(length)
    }

    fn checked(self, option: &'static str) -> Result<(), WorkloadError> {
        let error = |problem| Err(WorkloadError::Option { option, problem });
        let (min, max) = match self {
            Self::Exact(tokens) | Self::Normal { mean: tokens, .. } => (tokens, tokens),
            Self::Uniform { min, max } => (min, max),
        };
        if min == 0 || max > LENGTH_MAX {
            return error(format!("a length is 1 to {LENGTH_MAX} tokens"));
        }
        if min > max {
            return error(format!(
                "the shortest length, {min}, is above the longest, {max}"
            ));
        }
        match self {
            Self::Normal { stddev, .. } if !(0.0..=f64::from(LENGTH_MAX)).contains(&stddev) => {
                error(format!(
                    "a standard deviation is 0 to {LENGTH_MAX} tokens, not {stddev}"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Tokens on average, rounded up.
    fn mean(self) -> u32 {
        match self {
            Self::Exact(tokens) | Self::Normal { mean: tokens, .. } => tokens,
            Self::Uniform { min, max } => min + (max - min).div_ceil(2),
        }
    }

    /// One length, in `1..=LENGTH_MAX`.
    fn draw(self, draw: &mut Draw) -> u32 {
        match self {
            Self::Exact(tokens) => tokens,
            Self::Uniform { min, max } => min + draw.below(max - min + 1),
            Self::Normal { mean, stddev } => normal(draw, mean, stddev),
        }
    }
}

/// Box and Muller, 1958. `libm` gives the same bits on every machine.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=2^20, whole numbers"
)]
fn normal(draw: &mut Draw, mean: u32, stddev: f64) -> u32 {
    let radius = libm::sqrt(-2.0 * libm::log(draw.unit()));
    let deviate = radius * libm::cos(std::f64::consts::TAU * draw.unit());
    libm::rint(f64::from(mean) + stddev * deviate).clamp(1.0, f64::from(LENGTH_MAX)) as u32
}

/// Makes the prompts of one [`Synthetic`], each from its index alone.
///
/// ```
/// use ridgeline_workload::{Generator, Synthetic};
///
/// let generator = Generator::new(Synthetic::default(), None)?;
/// assert_eq!(generator.sample(7)?.input_tokens, Some(128));
/// # Ok::<(), ridgeline_workload::WorkloadError>(())
/// ```
#[derive(Debug)]
pub struct Generator<'a> {
    synthetic: Synthetic,
    text: Text<'a>,
}

#[derive(Debug)]
enum Text<'a> {
    /// Words that are known to be one token each: nothing to build, nothing to measure.
    Known,
    /// Pieces whose tokens were counted.
    Measured(Pieces<'a>),
}

impl<'a> Generator<'a> {
    /// `tokenizer`: the one under which lengths are exact. Without one, and with a builtin one,
    /// they are exact for all builtin vocabularies and none of them is built.
    ///
    /// # Errors
    /// When a length is out of range, the prompts together would be too long, or the tokenizer
    /// counts no word at all.
    pub fn new(
        synthetic: Synthetic,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self, WorkloadError> {
        synthetic.input.checked("--isl")?;
        synthetic
            .output
            .map_or(Ok(()), |output| output.checked("--osl"))?;
        let error = |problem| {
            Err(WorkloadError::Option {
                option: "--dataset-samples",
                problem,
            })
        };
        if synthetic.samples == 0 || synthetic.samples > SAMPLES_MAX {
            return error(format!("a run has 1 to {SAMPLES_MAX} synthetic prompts"));
        }
        let tokens = u64::from(synthetic.samples) * u64::from(synthetic.input.mean());
        if tokens > TOKENS_MAX {
            return error(format!(
                "the prompts together would have about {tokens} tokens, more than {TOKENS_MAX}; \
                 ask for fewer or shorter ones"
            ));
        }
        let text = match tokenizer {
            Some(tokenizer) if tokenizer.builtin().is_none() => {
                Text::Measured(Pieces::measure(tokenizer)?)
            }
            _ => Text::Known,
        };
        Ok(Self { synthetic, text })
    }

    /// The prompt `index`. Its lengths and its words depend on the seed and on `index` only.
    ///
    /// # Errors
    /// When no text of exactly the drawn length was found; never with a builtin vocabulary.
    pub fn sample(&self, index: u32) -> Result<Sample, WorkloadError> {
        let seed = self.synthetic.seed;
        let mut draw = Draw::new(derive(seed ^ SYNTHETIC, u64::from(index)));
        let tokens = self.synthetic.input.draw(&mut draw);
        let output = self
            .synthetic
            .output
            .map(|o| OutputLength::Exact(o.draw(&mut draw)));
        let text = match &self.text {
            Text::Known => known(seed, index, tokens, &mut draw),
            Text::Measured(pieces) => pieces.compose(seed, index, tokens, &mut draw)?,
        };
        Ok(Sample {
            input: Input::Prompt {
                system: None,
                text: text.into(),
            },
            input_tokens: Some(tokens),
            output,
            extra: Fields::default(),
            session: None,
        })
    }

    /// All prompts.
    ///
    /// # Errors
    /// As [`Generator::sample`].
    pub fn dataset(&self) -> Result<Dataset, WorkloadError> {
        let samples = (0..self.synthetic.samples).map(|index| self.sample(index));
        Ok(Dataset {
            name: "synthetic".to_owned(),
            samples: samples.collect::<Result<_, _>>()?,
            ..Dataset::default()
        })
    }
}

/// Keeps lengths and words independent of other uses of the run's seed.
const SYNTHETIC: u64 = 0x7379_6e74_6865_7469;

/// `tokens` words with single spaces.
fn known(seed: u64, index: u32, tokens: u32, draw: &mut Draw) -> String {
    let mut text = String::with_capacity(tokens as usize * 7);
    for word in lead(seed, index, tokens, &WORDS) {
        text.push_str(word);
        text.push(' ');
    }
    // Ten bits choose a word, and one draw has enough for six.
    let (mut bits, mut left) = (0, 0);
    for _ in LEAD..tokens {
        if left == 0 {
            (bits, left) = (draw.word(), 6);
        }
        text.push_str(WORDS[usize::try_from(bits % WORDS.len() as u64).expect("ten bits")]);
        text.push(' ');
        (bits, left) = (bits >> 10, left - 1);
    }
    text.pop();
    text
}

const _: () = assert!(WORDS.len() == 1 << 10, "ten bits choose a word");

/// Up to [`LEAD`] words that spell a number which belongs to `index` alone. The numbers are
/// permuted, so that the words look like the others and differ from seed to seed.
pub(crate) fn lead<'w>(seed: u64, index: u32, tokens: u32, words: &[&'w str]) -> Vec<&'w str> {
    let count = tokens.min(LEAD);
    let base = u32::try_from(words.len().min(WORDS.len())).expect("at most 1024");
    let numbers = base.pow(count);
    let mut number = permute(derive(seed ^ SYNTHETIC, u64::MAX), index % numbers, numbers);
    (0..count)
        .map(|_| {
            let word = words[(number % base) as usize];
            number /= base;
            word
        })
        .collect()
}
