//! Named random streams that are the same on every machine.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::ziggurat;

/// The source of all randomness of one run: a seed from which every stream is derived by name.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

/// One stream of random numbers. Streams of different names are independent, so that adding a
/// host or drawing once more somewhere leaves every other stream as it was.
#[derive(Debug)]
pub struct Stream {
    generator: ChaCha8Rng,
}

/// The streams for one purpose, one for each owner. Who has many streams can keep this once, and of
/// each stream how many [words](Stream::words) have been drawn: eight bytes, of which the stream
/// itself has forty times as many, most of them numbers drawn in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    seed: u64,
    /// The hash of its name.
    name: u64,
}

impl Streams {
    /// The streams of one seed.
    pub const fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// The stream for one purpose of one host, port or other owner.
    pub fn stream(&self, purpose: &str, owner: usize) -> Stream {
        self.purpose(purpose).stream(owner)
    }

    /// The streams for one purpose.
    pub fn purpose(&self, name: &str) -> Purpose {
        Purpose { seed: self.seed, name: fnv1a(name.as_bytes()) }
    }
}

impl Purpose {
    /// The stream of one owner.
    pub fn stream(self, owner: usize) -> Stream {
        self.stream_after(owner, 0)
    }

    /// The stream of one owner after this many [words](Stream::words).
    pub fn stream_after(self, owner: usize, words: u64) -> Stream {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.name.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(owner as u64);
        if words > 0 {
            generator.set_word_pos(words.into());
        }
        Stream { generator }
    }
}

impl Stream {
    /// How many words of 32 bits have been drawn from it.
    pub fn words(&self) -> u64 {
        // No run draws 2^64 words.
        self.generator.get_word_pos() as u64
    }

    /// Sixty-four random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A whole number in `0..bound`, without bias (Lemire's multiplication with rejection).
    /// `bound` must not be zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `(0, 1]` with 53 random bits; never zero, so that its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        fraction(self.bits()) + 1.0 / (1_u64 << 53) as f64
    }

    /// Whether an event of this probability happens: never at 0, always at 1.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() <= probability
    }

    /// An exponentially distributed number with mean 1, by a ziggurat of 256 layers (Marsaglia and
    /// Tsang, "The ziggurat method for generating random variables", JSS 5(8) 2000). With
    /// its random bits it takes 53 instructions, where they and a logarithm take 105, and it is as
    /// portable: 98.9 % of the draws are one multiplication, and `libm`, whose results are the
    /// same on every machine, settles the rest.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        let bits = self.bits();
        let layer = (bits & 0xff) as usize;
        let x = fraction(bits) * ziggurat::EDGES[layer];
        if x < ziggurat::EDGES[layer + 1] { x } else { self.exponential_outside(layer, x) }
    }

    /// The draws that the rectangles do not settle: under the curve beside a rectangle, and the
    /// tail, which is the whole law again because the law has no memory.
    #[cold]
    fn exponential_outside(&mut self, mut layer: usize, mut x: f64) -> f64 {
        let mut tail = 0.0;
        loop {
            if layer == 0 {
                tail += ziggurat::EDGES[1];
            } else {
                let (low, high) = (ziggurat::HEIGHTS[layer], ziggurat::HEIGHTS[layer + 1]);
                if low + self.unit() * (high - low) < libm::exp(-x) {
                    return tail + x;
                }
            }
            let bits = self.bits();
            layer = (bits & 0xff) as usize;
            x = fraction(bits) * ziggurat::EDGES[layer];
            if x < ziggurat::EDGES[layer + 1] {
                return tail + x;
            }
        }
    }

    /// The number of trials up to and including the first success.
    #[inline]
    pub fn geometric(&mut self, law: Geometric) -> u64 {
        // An exponential number cut to a whole one is geometric; the conversion saturates.
        ((self.exponential() * law.scale) as u64).saturating_add(1)
    }
}

/// The law of the number of independent trials up to and including the first success.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometric {
    /// Mean of the exponential law whose whole part counts the failures.
    scale: f64,
}

impl Geometric {
    /// Trials that succeed with a probability above 0 and up to 1.
    pub fn new(probability: f64) -> Geometric {
        debug_assert!(probability > 0.0 && probability <= 1.0, "{probability}");
        Geometric { scale: -1.0 / libm::log1p(-probability) }
    }
}

/// The upper 53 of 64 bits as a number in `[0, 1)`.
#[inline]
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The 64-bit FNV-1a hash: names become keys the same way on every machine.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const DRAWS: usize = 200_000;

    fn stream(owner: usize) -> Stream {
        Streams::new(1).stream("test", owner)
    }

    fn mean_and_variance(draws: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for draw in draws {
            count += 1.0;
            sum += draw;
            squares += draw * draw;
        }
        (sum / count, squares / count - (sum / count) * (sum / count))
    }

    #[test]
    fn a_stream_goes_on_where_it_stood() {
        for drawn in (0..70).chain([1_000]) {
            let mut one = stream(5);
            for _ in 0..drawn {
                one.bits();
            }
            let purpose = Streams::new(1).purpose("test");
            let mut other = purpose.stream_after(5, one.words());
            assert_eq!([one.words(), other.words()], [2 * drawn; 2]);
            let next = |own: &mut Stream| (0..70).map(|_| own.bits()).collect::<Vec<_>>();
            assert_eq!(next(&mut one), next(&mut other), "after {drawn}");
            assert_eq!([one.words(), other.words()], [2 * (drawn + 70); 2]);
        }
    }

    /// The first draws of every law: the same on every machine and in every version.
    #[test]
    fn golden() {
        let mut text = String::new();
        let mut line = |law: &str, draw: &mut dyn FnMut(&mut Stream) -> String| {
            let mut stream = stream(3);
            let draws: Vec<String> = (0..3).map(|_| draw(&mut stream)).collect();
            text += &format!("{law}: {}\n", draws.join(" "));
        };
        line("bits", &mut |s| format!("{:016x}", s.bits()));
        line("below 1000", &mut |s| s.below(1_000).to_string());
        line("below 3 << 62", &mut |s| s.below(3 << 62).to_string());
        line("unit", &mut |s| format!("{:016x}", s.unit().to_bits()));
        line("chance 0.4", &mut |s| s.chance(0.4).to_string());
        line("exponential", &mut |s| format!("{:016x}", s.exponential().to_bits()));
        line("geometric 0.1", &mut |s| s.geometric(Geometric::new(0.1)).to_string());
        expect![[r#"
            bits: 41c62c327a6b8214 785cd885ae7ab4de 00a1babd8eee58b5
            below 1000: 256 470 2
            below 3 << 62: 6504783788308694950 34142095919989383 11451141853934921240
            unit: 3fd0718b0c9e9ae2 3fde1736216b9eae 3f643757b1ddcc00
            chance 0.4: true false true
            exponential: 3ff14781f3aff0d3 3fd29fcc612a6ec8 3f65947a3e5e7d46
            geometric 0.1: 11 3 1
        "#]]
        .assert_eq(&text);
    }

    /// Also those of the tail and beside the rectangles, which three draws do not reach.
    #[test]
    fn golden_sum_of_exponentials() {
        let mut stream = stream(0);
        let digest = (0..DRAWS)
            .fold(0_u64, |digest, _| digest.rotate_left(7) ^ stream.exponential().to_bits());
        expect!["15f06ea381ab5e3a"].assert_eq(&format!("{digest:016x}"));
    }

    /// A bound of three quarters of the range makes a biased draw (multiplication without
    /// rejection) hit one third of the values twice as often.
    #[test]
    fn below_is_unbiased() {
        for bound in [3_u64 << 62, 3, 5, 1_000] {
            let mut stream = stream(7);
            let mut thirds = [0_u32; 3];
            for _ in 0..30_000 {
                let value = stream.below(bound);
                assert!(value < bound);
                thirds[(u128::from(value) * 3 / u128::from(bound)) as usize] += 1;
            }
            let expected = |third: u64| {
                let edge = |n: u64| (u128::from(bound) * u128::from(n)).div_ceil(3);
                30_000.0 * (edge(third + 1) - edge(third)) as f64 / bound as f64
            };
            let chi_square: f64 = (0..3)
                .map(|third| {
                    (f64::from(thirds[third as usize]) - expected(third)).powi(2) / expected(third)
                })
                .sum();
            // Two degrees of freedom: 13.8 is passed once in a thousand.
            assert!(chi_square < 13.8, "{bound}: {thirds:?}, chi-square {chi_square}");
        }
        assert!((0..100).all(|_| stream(1).below(1) == 0));
    }

    #[test]
    fn chance_keeps_its_ends() {
        let mut stream = stream(5);
        assert!((0..10_000).all(|_| stream.chance(1.0)));
        assert!((0..10_000).all(|_| !stream.chance(0.0)));
    }

    /// Mean, variance, and the shares beyond 1, 3 and the edge of the tail, against the law.
    #[test]
    fn exponential_has_its_moments_and_its_tail() {
        let mut stream = stream(11);
        let draws: Vec<f64> = (0..20 * DRAWS).map(|_| stream.exponential()).collect();
        let (mean, variance) = mean_and_variance(draws.iter().copied());
        assert!((mean - 1.0).abs() < 0.0025, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.007, "variance {variance}");
        for edge in [0.05, 0.3, 1.0, 3.0, 7.0, ziggurat::EDGES[1], 9.0] {
            let expected = libm::exp(-edge) * draws.len() as f64;
            let beyond = draws.iter().filter(|draw| **draw > edge).count() as f64;
            let deviation = (expected * (1.0 - libm::exp(-edge))).sqrt();
            assert!((beyond - expected).abs() < 4.5 * deviation, "{edge}: {beyond}, {expected}");
        }
    }

    #[test]
    fn geometric_has_its_moments() {
        for probability in [0.02, 0.3, 0.9, 1.0] {
            let (mut stream, law) = (stream(2), Geometric::new(probability));
            let draws = (0..2 * DRAWS).map(|_| stream.geometric(law) as f64);
            let (mean, variance) = mean_and_variance(draws);
            let expected = (1.0 - probability) / (probability * probability);
            assert!((mean * probability - 1.0).abs() < 0.01, "mean {mean}");
            assert!((variance - expected).abs() <= 0.02 * expected, "variance {variance}");
        }
    }

    /// Correlation of the numbers of two streams, as a multiple of its standard deviation.
    fn correlation(mut a: Stream, mut b: Stream) -> f64 {
        let draws = 50_000;
        let sum: f64 = (0..draws).map(|_| (a.unit() - 0.5) * (b.unit() - 0.5)).sum();
        sum * 12.0 / f64::from(draws).sqrt()
    }

    #[test]
    fn streams_are_independent() {
        let streams = Streams::new(42);
        let first = || streams.stream("bulk.arrivals", 0);
        for bit in 0..16 {
            let z = correlation(first(), streams.stream("bulk.arrivals", 1 << bit));
            assert!(z.abs() < 4.5, "owners that differ in bit {bit}: {z}");
        }
        for other in ["bulk.targets", "quick.arrivals", "bulk.arrivalr", ""] {
            let z = correlation(first(), streams.stream(other, 0));
            assert!(z.abs() < 4.5, "{other}: {z}");
        }
        let z = correlation(first(), Streams::new(43).stream("bulk.arrivals", 0));
        assert!(z.abs() < 4.5, "neighbouring seeds: {z}");
        // The measure itself: a stream is not independent of itself.
        assert!(correlation(first(), first()) > 100.0);
    }
}
