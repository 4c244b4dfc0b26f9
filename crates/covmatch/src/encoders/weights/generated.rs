//! Weights from a formula, for tests and benchmarks that need no download.
//!
//! A value depends on its key, its position and its tensor's shape alone, so that another program (here
//! `python/goldens/formula.py`, which fills PyTorch's networks) arrives at the same bits without a file between them:
//!
//! ```text
//! seed = fnv1a64(key)
//! z_i  = splitmix64(seed + (i + 1) * 0x9e3779b97f4a7c15)         i: flat row-major index
//! u_i  = (z_i >> 40) / 2^23 - 1                                  in [-1, 1), 24 bits
//! ```
//! | the first rule that fits the key           | value                              |
//! |--------------------------------------------|------------------------------------|
//! | ends with `running_var`                    | `1 + 0.5 abs(u)`                   |
//! | ends with `running_mean`                   | `0.1 u`                            |
//! | 2-d or more, ends with `gain`              | `1 + 0.1 u`                        |
//! | 2-d or more, has `embed`, no `patch_embed` | `0.5 u`                            |
//! | 2-d or more                                | `u sqrt(3 / fan_in)`: variance `1 / fan_in` |
//! | ends with `weight` (scales of norms)       | `1 + 0.1 u`                        |
//! | the rest (biases)                          | `0.1 u`                            |

use burn::module::Module;
use rayon::prelude::*;

use super::walk;
use crate::engine::fnv1a64;

/// Replaces every parameter of `module` by the formula's values for its upstream key and shape.
pub fn fill<M: Module>(module: M) -> M {
    walk::fill(module, |key, shape| Some(values(key, shape)))
}

/// The `n` numbers `u_i` of `key`: inputs and cotangents of the golden tests.
pub fn uniform(key: &str, n: usize) -> Vec<f32> {
    let seed = fnv1a64(key.as_bytes());
    (0..n as u64).into_par_iter().map(|i| uniform_at(seed, i) as f32).collect()
}

/// The values of the parameter `key` of the given `shape`, row-major.
pub fn values(key: &str, shape: &[usize]) -> Vec<f32> {
    let seed = fnv1a64(key.as_bytes());
    let rule = Rule::of(key, shape);
    let n: usize = shape.iter().product();
    (0..n as u64).into_par_iter().map(|i| rule.value(uniform_at(seed, i)) as f32).collect()
}

/// `u_i` of the stream that starts at `seed`.
fn uniform_at(seed: u64, i: u64) -> f64 {
    let mut z = seed.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / 8_388_608.0 - 1.0
}

/// How `u` becomes a value.
enum Rule {
    /// `1 + 0.5 |u|`
    Variance,
    /// `1 + 0.1 u`
    AroundOne,
    /// `factor * u`
    Scaled(f64),
}

impl Rule {
    fn of(key: &str, shape: &[usize]) -> Self {
        let matrix = shape.len() >= 2;
        if key.ends_with("running_var") {
            Rule::Variance
        } else if key.ends_with("running_mean") {
            Rule::Scaled(0.1)
        } else if matrix && key.ends_with("gain") {
            Rule::AroundOne
        } else if matrix && key.contains("embed") && !key.contains("patch_embed") {
            Rule::Scaled(0.5)
        } else if matrix {
            let fan_in: usize = shape[1..].iter().product();
            Rule::Scaled((3.0 / fan_in as f64).sqrt())
        } else if key.ends_with("weight") {
            Rule::AroundOne
        } else {
            Rule::Scaled(0.1)
        }
    }

    fn value(&self, u: f64) -> f64 {
        match self {
            Rule::Variance => 1.0 + 0.5 * u.abs(),
            Rule::AroundOne => 1.0 + 0.1 * u,
            Rule::Scaled(factor) => factor * u,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// `python python/goldens/formula.py` prints these numbers.
    #[test]
    fn values_equal_the_python_formula_bit_for_bit() {
        assert_eq!(uniform("input", 3), INPUT);
        assert_eq!(values("conv.weight", &[2, 3, 1, 1])[..3], CONV);
        assert_eq!(values("bn.running_var", &[4])[..3], VARIANCE);
        assert_eq!(values("bn.running_mean", &[4])[..3], MEAN);
        assert_eq!(values("bn.weight", &[4])[..3], SCALE);
        assert_eq!(values("bn.bias", &[4])[..3], BIAS);
        assert_eq!(values("conv.gain", &[4, 1, 1, 1])[..3], GAIN);
        assert_eq!(values("word_embeddings.weight", &[4, 2])[..3], EMBEDDING);
        assert_eq!(values("patch_embed.proj.weight", &[1, 3, 2, 2])[..3], PATCH);
    }

    const INPUT: [f32; 3] = [-0.80436337, 0.30472076, -0.5927515];
    const CONV: [f32; 3] = [-0.62226295, 0.3201598, 0.7282387];
    const VARIANCE: [f32; 3] = [1.361659, 1.1359985, 1.3617136];
    const MEAN: [f32; 3] = [0.08470924, 0.030236412, 0.08878891];
    const SCALE: [f32; 3] = [1.01585, 0.9692946, 1.0312762];
    const BIAS: [f32; 3] = [-0.09554659, -0.06716782, -0.02546053];
    const GAIN: [f32; 3] = [1.098503, 1.0338402, 1.0936482];
    const EMBEDDING: [f32; 3] = [-0.068163216, -0.28957146, 0.23713154];
    const PATCH: [f32; 3] = [0.14854556, -0.33862704, -0.43704408];
}
