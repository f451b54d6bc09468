//! Named random streams that are the same on every machine.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

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

impl Streams {
    /// The streams of one seed.
    pub const fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// The stream for one purpose of one host, port or other owner.
    pub fn stream(&self, purpose: &str, owner: usize) -> Stream {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(purpose.as_bytes()).to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(owner as u64);
        Stream { generator }
    }
}

impl Stream {
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
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// An exponentially distributed number with mean 1, by `libm`, whose logarithm is the same on
    /// every machine.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }
}

/// The 64-bit FNV-1a hash: names become keys the same way on every machine.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
