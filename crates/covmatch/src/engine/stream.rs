//! Random numbers that are a function of (seed, purpose, step).
//!
//! Every consumer of randomness opens its own [`Stream`] by name. Adding a consumer, or drawing more numbers in one
//! place, leaves all other streams as they were; and step `t` of a run can be drawn without replaying the steps before
//! it, which is what makes a resumed run reach the same bytes.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The seed of a run, from which all its random streams are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream for `purpose` at `step`, independent of every other purpose and step.
    pub fn stream(self, purpose: &str, step: u64) -> Stream {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a64(purpose.as_bytes()).to_le_bytes());
        key[16..24].copy_from_slice(&step.to_le_bytes());
        Stream(ChaCha8Rng::from_seed(key))
    }
}

/// One sequence of random numbers (ChaCha8: the same on every platform and in every version of this crate).
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The next number in `[0, 1)`, with 24 random bits.
    pub fn uniform(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / 16_777_216.0
    }

    /// One of `0..n`; the bias of the fixed-point product is below `n / 2^64`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// The numbers `0..n` in random order (Fisher and Yates).
    pub fn shuffle(&mut self, n: u32) -> Vec<u32> {
        let mut shuffled: Vec<u32> = (0..n).collect();
        for last in (1..shuffled.len()).rev() {
            shuffled.swap(last, self.below(last as u64 + 1) as usize);
        }
        shuffled
    }

    /// The next number of a standard normal distribution (Box and Muller's method; one of its two numbers is used).
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - f64::from(self.uniform())).ln()).sqrt();
        (radius * (std::f64::consts::TAU * f64::from(self.uniform())).cos()) as f32
    }
}

/// The 64-bit FNV-1a hash.
pub(crate) fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(mut s: Stream) -> [u64; 4] {
        std::array::from_fn(|_| s.next_u64())
    }

    #[test]
    fn the_same_seed_purpose_and_step_give_the_same_numbers() {
        assert_eq!(draw(Seed(7).stream("dropout", 3)), draw(Seed(7).stream("dropout", 3)));
    }

    #[test]
    fn another_seed_purpose_or_step_gives_other_numbers() {
        let base = draw(Seed(7).stream("dropout", 3));
        for other in [Seed(8).stream("dropout", 3), Seed(7).stream("init", 3), Seed(7).stream("dropout", 4)] {
            assert_ne!(base, draw(other));
        }
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let mut stream = Seed(1).stream("normal", 0);
        let numbers: Vec<f64> = (0..100_000).map(|_| f64::from(stream.normal())).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn fnv1a64_matches_its_published_vectors() {
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
