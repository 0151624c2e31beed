//! Random spans and counts, reproducible to the bit.

use ridgeline_clock::Nanos;
use ridgeline_schedule::{Gamma, SHAPE_MAX, Source};

use super::PaceError;

/// How a random span is spread around its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Law {
    /// Always the mean
    Fixed,
    /// Normal, with samples held to between 0.3 and 1.7 of the mean
    #[default]
    Normal,
    /// Lognormal: few samples are far above the mean, none is cut off
    Lognormal,
    /// Gamma: a deviation equal to the mean is the exponential distribution
    Gamma,
}

/// A normal deviate beyond these parts of the mean becomes them.
const NORMAL_LEAST: f64 = 0.3;
const NORMAL_MOST: f64 = 1.7;
/// Deviation over mean: with more, a normal span would not be normal any more once it is held to its
/// range.
const NORMAL_DEVIATION_MAX: f64 = 0.3;
/// The same for the other laws. Beyond it, one sample in thousands makes up the mean.
const DEVIATION_MAX: f64 = 10.0;

/// A law with mean 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    None,
    Normal { deviation: f64 },
    Lognormal { mu: f64, sigma: f64 },
    Gamma(Gamma),
}

impl Spread {
    /// The law of mean 1 and the given standard deviation, which is not negative.
    fn new(law: Law, deviation: f64) -> Self {
        if deviation <= 0.0 {
            return Self::None;
        }
        match law {
            Law::Fixed => Self::None,
            Law::Normal => Self::Normal { deviation },
            Law::Lognormal => {
                // exp(N(mu, sigma^2)) has mean exp(mu + sigma^2 / 2) and variance
                // (exp(sigma^2) - 1) times the square of that.
                let variance = libm::log1p(deviation * deviation);
                Self::Lognormal {
                    mu: -variance / 2.0,
                    sigma: libm::sqrt(variance),
                }
            }
            Law::Gamma => Self::Gamma(Gamma::new((1.0 / (deviation * deviation)).min(SHAPE_MAX))),
        }
    }

    /// Refuses a deviation that the law does not reach.
    fn checked(law: Law, deviation: f64) -> Result<Self, PaceError> {
        let max = match law {
            Law::Fixed => 0.0,
            Law::Normal => NORMAL_DEVIATION_MAX,
            Law::Lognormal | Law::Gamma => DEVIATION_MAX,
        };
        // Also false for what is not a number: a deviation from a mean of 0.
        let reached = (0.0..=max).contains(&deviation);
        if reached {
            Ok(Self::new(law, deviation))
        } else {
            Err(PaceError::Deviation { law, max })
        }
    }

    #[inline]
    fn draw(&self, source: &mut Source) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Normal { deviation } => {
                (1.0 + deviation * source.normal()).clamp(NORMAL_LEAST, NORMAL_MOST)
            }
            Self::Lognormal { mu, sigma } => libm::exp(mu + sigma * source.normal()),
            Self::Gamma(gamma) => source.gamma(gamma),
        }
    }
}

/// A random span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    mean: Nanos,
    spread: Spread,
}

impl Latency {
    /// A span of this mean and standard deviation.
    ///
    /// # Errors
    /// When the law does not reach the deviation: fixed has none, normal at most 0.3 of the mean,
    /// lognormal and gamma at most 10 times the mean.
    pub fn new(law: Law, mean: Nanos, std_dev: Nanos) -> Result<Self, PaceError> {
        let spread = match std_dev {
            Nanos::ZERO => Spread::None,
            _ => Spread::checked(law, std_dev.0 as f64 / mean.0 as f64)?,
        };
        Ok(Self { mean, spread })
    }

    /// A span that is always the same.
    #[must_use]
    pub const fn fixed(mean: Nanos) -> Self {
        Self {
            mean,
            spread: Spread::None,
        }
    }

    /// A sample, ns, not negative.
    #[inline]
    pub(crate) fn draw_ns(&self, source: &mut Source) -> f64 {
        self.mean.0 as f64 * self.spread.draw(source)
    }
}

/// From the start of a request to its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefill {
    /// Whatever the prompt.
    Whole(Latency),
    /// By the prompt's length: `overhead + per_token * (tokens that no cache holds)`.
    PerToken {
        /// The part that does not depend on the prompt.
        overhead: Nanos,
        /// For each token of the prompt that has to be computed.
        per_token: Nanos,
        /// The standard deviation of the sum. Where the law does not reach it, because the prompt is
        /// short, it is as large as the law allows.
        std_dev: Nanos,
        /// How the sum is spread.
        law: Law,
    },
}

impl Prefill {
    /// A sample for a prompt of which `uncached_tokens` have to be computed, ns.
    pub(crate) fn draw_ns(&self, uncached_tokens: u32, source: &mut Source) -> f64 {
        match self {
            Self::Whole(latency) => latency.draw_ns(source),
            Self::PerToken {
                overhead,
                per_token,
                std_dev,
                law,
            } => {
                let mean = *overhead + *per_token * u64::from(uncached_tokens);
                if mean == Nanos::ZERO {
                    return 0.0;
                }
                let deviation = std_dev.0 as f64 / mean.0 as f64;
                let spread = Spread::new(*law, deviation.min(DEVIATION_MAX));
                mean.0 as f64 * spread.draw(source)
            }
        }
    }
}

/// How many tokens one event brings, at least one: more than one as with speculative decoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokensPerEvent {
    mean: f64,
    spread: Spread,
}

/// The most tokens that an event brings in the mean.
pub const TOKENS_PER_EVENT_MAX: f64 = 1024.0;

impl TokensPerEvent {
    /// One token an event.
    pub const ONE: Self = Self {
        mean: 1.0,
        spread: Spread::None,
    };

    /// A number of this mean and standard deviation. What lies between two whole numbers becomes one
    /// of them at random, so that the mean stays; what is below 1 becomes 1, which raises it.
    ///
    /// # Errors
    /// When the mean is not between 1 and [`TOKENS_PER_EVENT_MAX`], or the law does not reach the
    /// deviation, as with [`Latency::new`].
    pub fn new(law: Law, mean: f64, std_dev: f64) -> Result<Self, PaceError> {
        if !(1.0..=TOKENS_PER_EVENT_MAX).contains(&mean) {
            return Err(PaceError::TokensPerEvent);
        }
        let spread = if std_dev == 0.0 {
            Spread::None
        } else {
            Spread::checked(law, std_dev / mean)?
        };
        Ok(Self { mean, spread })
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast saturates"
    )]
    pub(crate) fn draw(&self, source: &mut Source) -> u32 {
        if self.spread == Spread::None && self.mean.fract() == 0.0 {
            return self.mean as u32;
        }
        let exact = self.mean * self.spread.draw(source);
        let below_one = 1.0 - source.unit();
        ((exact + below_one) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u32 = 200_000;

    /// Mean and standard deviation of many samples, and the least and the greatest.
    fn moments(mut draw: impl FnMut(&mut Source) -> f64) -> (f64, f64, f64, f64) {
        let mut source = Source::new(5, 0);
        let (mut sum, mut squares, mut least, mut most) = (0.0, 0.0, f64::MAX, 0.0_f64);
        for _ in 0..SAMPLES {
            let x = draw(&mut source);
            (sum, squares) = (sum + x, squares + x * x);
            (least, most) = (least.min(x), most.max(x));
        }
        let mean = sum / f64::from(SAMPLES);
        let variance = squares / f64::from(SAMPLES) - mean * mean;
        (mean, variance.sqrt(), least, most)
    }

    fn latency(law: Law, mean: u64, std_dev: u64) -> Latency {
        Latency::new(law, Nanos(mean), Nanos(std_dev)).unwrap()
    }

    fn near(value: f64, expected: f64, part: f64) {
        assert!(
            (value / expected - 1.0).abs() < part,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn every_law_has_the_mean_and_the_deviation_that_were_asked_for() {
        for (law, std_dev) in [
            (Law::Normal, 150_000),
            (Law::Lognormal, 150_000),
            (Law::Lognormal, 1_000_000),
            (Law::Gamma, 150_000),
            (Law::Gamma, 1_500_000),
        ] {
            let latency = latency(law, 1_000_000, std_dev);
            let (mean, deviation, ..) = moments(|source| latency.draw_ns(source));
            near(mean, 1e6, 0.01);
            near(deviation, std_dev as f64, 0.03);
        }
    }

    #[test]
    fn the_laws_differ_in_their_skewness() {
        // Third central moments over the cube of the deviation: normal 0; gamma twice the relative
        // deviation c; lognormal (3 + c^2) c.
        let skewness = |law| {
            let latency = latency(law, 1_000, 300);
            let (mean, deviation, ..) = moments(|source| latency.draw_ns(source));
            let (third, ..) = moments(|source| {
                let z = (latency.draw_ns(source) - mean) / deviation;
                z * z * z
            });
            third
        };
        assert!(skewness(Law::Normal).abs() < 0.03);
        near(skewness(Law::Gamma), 0.6, 0.1);
        near(skewness(Law::Lognormal), 0.927, 0.1);
    }

    #[test]
    fn a_normal_span_stays_between_its_bounds_and_reaches_them() {
        let latency = latency(Law::Normal, 1_000_000, 300_000);
        let (mean, deviation, least, most) = moments(|source| latency.draw_ns(source));
        assert_eq!((least, most), (300_000.0, 1_700_000.0));
        near(mean, 1e6, 0.01);
        // The bounds lie at c = 0.7 / 0.3 deviations, where 2 Q(c) = 2 % of the samples are:
        // variance 1 - 2 Q(c) - 2 c phi(c) + 2 c^2 Q(c) = 0.9649 of the uncut one.
        near(deviation, 294_684.0, 0.005);
    }

    #[test]
    fn without_deviation_a_span_is_exact_whatever_its_law() {
        let mut source = Source::new(1, 1);
        for law in [Law::Fixed, Law::Normal, Law::Lognormal, Law::Gamma] {
            for ns in [0, 1, 750_000, 3_600_000_000_000] {
                assert_eq!(latency(law, ns, 0).draw_ns(&mut source), ns as f64);
            }
        }
    }

    #[test]
    fn what_a_law_does_not_reach_is_refused() {
        let refused = |law, mean, std_dev| Latency::new(law, Nanos(mean), Nanos(std_dev)).is_err();
        assert!(refused(Law::Fixed, 100, 1));
        assert!(refused(Law::Normal, 100, 31) && !refused(Law::Normal, 100, 30));
        assert!(refused(Law::Gamma, 100, 1_001) && !refused(Law::Gamma, 100, 1_000));
        assert!(refused(Law::Lognormal, 0, 1));
        for (mean, std_dev) in [(0.9, 0.0), (1025.0, 0.0), (f64::NAN, 0.0), (2.0, -1.0)] {
            assert!(TokensPerEvent::new(Law::Normal, mean, std_dev).is_err());
        }
        assert!(TokensPerEvent::new(Law::Normal, 2.0, f64::NAN).is_err());
    }

    #[test]
    fn equal_seeds_give_equal_samples_to_the_bit() {
        // Pinned: a change of these numbers changes what every seed means.
        let first = |law| {
            latency(law, 1_000_000, 250_000)
                .draw_ns(&mut Source::new(42, 7))
                .floor()
        };
        let laws = [Law::Normal, Law::Lognormal, Law::Gamma];
        assert_eq!(laws.map(first), [1_060_354.0, 1_029_557.0, 1_040_111.0]);
    }

    #[test]
    fn prefill_grows_with_what_no_cache_holds() {
        let prefill = |std_dev| Prefill::PerToken {
            overhead: Nanos::from_micros(500),
            per_token: Nanos::from_micros(10),
            std_dev,
            law: Law::Normal,
        };
        let mut source = Source::new(3, 0);
        for (tokens, ns) in [(0, 500_000.0), (1, 510_000.0), (1_000, 10_500_000.0)] {
            assert_eq!(prefill(Nanos::ZERO).draw_ns(tokens, &mut source), ns);
        }
        let spread = prefill(Nanos::from_micros(100));
        let (mean, deviation, ..) = moments(|source| spread.draw_ns(50, source));
        near(mean, 1e6, 0.01);
        near(deviation, 1e5, 0.01);
        // A deviation of ten times the mean: the samples are still held to their range.
        let spread = prefill(Nanos::from_millis(5));
        let (_, _, least, most) = moments(|source| spread.draw_ns(0, source));
        assert_eq!((least, most), (150_000.0, 850_000.0));
        let nothing = Prefill::PerToken {
            overhead: Nanos::ZERO,
            per_token: Nanos(5),
            std_dev: Nanos(5),
            law: Law::Gamma,
        };
        assert_eq!(nothing.draw_ns(0, &mut source), 0.0);
    }

    #[test]
    fn an_event_has_at_least_one_token_and_the_mean_that_was_asked_for() {
        for (mean, std_dev, law) in [
            (1.0, 0.0, Law::Normal),
            (2.5, 0.0, Law::Normal),
            (4.0, 1.0, Law::Normal),
            (6.0, 3.0, Law::Gamma),
            (3.0, 0.5, Law::Lognormal),
        ] {
            let tokens = TokensPerEvent::new(law, mean, std_dev).unwrap();
            let (sampled, _, least, _) = moments(|source| f64::from(tokens.draw(source)));
            assert!(least >= 1.0);
            near(sampled, mean, 0.02);
        }
        let three = TokensPerEvent::new(Law::Normal, 3.0, 0.0).unwrap();
        let (mean, deviation, ..) = moments(|source| f64::from(three.draw(source)));
        assert_eq!((mean, deviation), (3.0, 0.0));
    }
}
