use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Random numbers of a few distributions, reproducible to the bit.
///
/// Only the generator comes from a library (its output is fixed by its definition). The steps from
/// its integers to a distribution are spelled out here, because libraries change theirs between
/// releases.
#[derive(Clone, Debug)]
pub struct Source {
    generator: Pcg64Mcg,
    /// The second normal value of the last pair.
    spare: Option<f64>,
}

impl Source {
    /// The stream number `stream` of `seed`: streams and seeds are independent of one another.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        // SplitMix64 (Steele, Lea, Flood 2014) spreads neighbouring seeds and streams over the
        // whole state.
        let mut state = mix(seed) ^ stream;
        let mut word = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            u128::from(mix(state))
        };
        let (high, low) = (word(), word());
        Self {
            generator: Pcg64Mcg::new(high << 64 | low),
            spare: None,
        }
    }

    /// Uniform on (0, 1], in steps of 2^-53: its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.generator.next_u64() >> 11) + 1) as f64 * STEP
    }

    /// Exponential with mean 1, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Normal with mean 0 and variance 1, by Marsaglia's polar method (Marsaglia, Bray 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let scale = libm::sqrt(-2.0 * libm::log(square) / square);
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }

    /// Gamma with mean 1, by the method of Marsaglia and Tsang (2000).
    pub fn gamma(&mut self, gamma: &Gamma) -> f64 {
        let value = loop {
            let x = self.normal();
            let t = 1.0 + gamma.c * x;
            if t <= 0.0 {
                continue;
            }
            let v = t * t * t;
            let u = self.unit();
            // The cheap test accepts about 98 %; the exact one settles the rest.
            let square = x * x;
            if u < 1.0 - 0.0331 * square * square
                || libm::log(u) < 0.5 * square + gamma.d * (1.0 - v + libm::log(v))
            {
                break gamma.d * v;
            }
        };
        let boost = gamma
            .boost
            .map_or(1.0, |power| libm::pow(self.unit(), power));
        value * boost / gamma.shape
    }
}

/// The constants of a gamma distribution of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    shape: f64,
    d: f64,
    c: f64,
    /// `1 / shape` for shapes below 1: the method needs 1 or more, and
    /// gamma(shape) = gamma(shape + 1) * unit^(1 / shape).
    boost: Option<f64>,
}

impl Gamma {
    /// For a `shape` between [`SHAPE_MIN`](crate::SHAPE_MIN) and [`SHAPE_MAX`](crate::SHAPE_MAX):
    /// the standard deviation is `1 / sqrt(shape)` of the mean.
    #[must_use]
    pub fn new(shape: f64) -> Self {
        let boosted = shape < 1.0;
        let d = if boosted { shape + 1.0 } else { shape } - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        Self {
            shape,
            d,
            c,
            boost: boosted.then_some(1.0 / shape),
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 40_000;

    fn sample(mut draw: impl FnMut() -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = (0..SAMPLES).map(|_| draw()).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The largest distance between the sample's distribution and `cdf` (Kolmogorov, Smirnov).
    fn distance(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
        let n = sorted.len() as f64;
        sorted.iter().enumerate().fold(0.0, |worst: f64, (i, &x)| {
            let p = cdf(x);
            worst
                .max((p - i as f64 / n).abs())
                .max(((i + 1) as f64 / n - p).abs())
        })
    }

    /// The distance that a true sample exceeds once in a hundred times.
    fn bound() -> f64 {
        1.628 / (SAMPLES as f64).sqrt()
    }

    fn gamma(shape: f64, seed: u64) -> Vec<f64> {
        let (mut source, gamma) = (Source::new(seed, 0), Gamma::new(shape));
        sample(|| source.gamma(&gamma))
    }

    #[test]
    fn units_are_uniform_and_never_zero() {
        let mut source = Source::new(7, 0);
        let units = sample(|| source.unit());
        assert!(units[0] > 0.0 && units[SAMPLES - 1] <= 1.0);
        assert!(distance(&units, |x| x) < bound());
    }

    #[test]
    fn exponentials_follow_their_law() {
        let mut source = Source::new(11, 0);
        assert!(distance(&sample(|| source.exponential()), |x| 1.0 - (-x).exp()) < bound());
    }

    #[test]
    fn normals_follow_their_law() {
        let mut source = Source::new(13, 0);
        let cdf = |x: f64| 0.5 * (1.0 + libm::erf(x / 2.0_f64.sqrt()));
        assert!(distance(&sample(|| source.normal()), cdf) < bound());
    }

    #[test]
    fn gammas_follow_their_law_on_both_sides_of_one() {
        // Closed forms of the distribution function, in units of the mean.
        let half = |x: f64| libm::erf((0.5 * x).sqrt());
        assert!(distance(&gamma(0.5, 17), half) < bound());
        assert!(distance(&gamma(1.0, 19), |x| 1.0 - (-x).exp()) < bound());
        let erlang4 = |x: f64| {
            let y = 4.0 * x;
            1.0 - (-y).exp() * (1.0 + y + y * y / 2.0 + y * y * y / 6.0)
        };
        assert!(distance(&gamma(4.0, 23), erlang4) < bound());
        // The wrong law is told apart: the test has teeth.
        assert!(distance(&gamma(4.0, 23), half) > bound());
    }

    #[test]
    fn extreme_shapes_stay_finite_with_the_right_mean() {
        for shape in [crate::SHAPE_MAX, 1e3] {
            let values = gamma(shape, 29);
            let mean = values.iter().sum::<f64>() / SAMPLES as f64;
            assert!(
                (mean - 1.0).abs() < 5.0 / (shape * SAMPLES as f64).sqrt(),
                "{shape}: {mean}"
            );
        }
        let tiny = gamma(crate::SHAPE_MIN, 31);
        assert!(tiny.iter().all(|x| x.is_finite() && *x >= 0.0));
        assert!(tiny[SAMPLES / 2] < 1e-100, "nearly all gaps vanish");
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, stream| Source::new(seed, stream).generator.next_u64();
        let mut seen: Vec<u64> = (0..40)
            .flat_map(|seed| (0..40).map(move |stream| first(seed, stream)))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1_600);
    }
}
