//! Random tensors; each file of tests uses some of this.
#![allow(dead_code, clippy::unwrap_used)]

use burn::tensor::{Device, Tensor, TensorData};

/// `n` values in `[-1, 1)` from a stream that `seed` picks.
pub fn fill(n: usize, seed: u64) -> Vec<f32> {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        z ^= z << 13;
        z ^= z >> 7;
        z ^= z << 17;
        (z >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// A tensor of such values.
pub fn random<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(fill(shape.iter().product(), seed), shape), device)
}

/// The values of a tensor.
pub fn vec<const D: usize>(t: Tensor<D>) -> Vec<f32> {
    t.into_data().try_to_vec().unwrap()
}
