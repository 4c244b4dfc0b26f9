//! The inverse of a small symmetric positive definite matrix, in f64, and its place in a graph.
//!
//! ```text
//! K = L L^T      K^-1 = L^-T L^-1
//! d(K^-1) = -K^-1 dK K^-1
//! ```

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

/// `K^-1` `[n, n]` of the tracked `k`: `A + A (I - K A)` has its value and its derivative where `A = K^-1` is a constant.
pub fn inverse(k: Tensor<2>) -> Tensor<2> {
    let fixed = inverse_of(&k.clone().inner()).autodiff();
    let identity = Tensor::<2>::eye(k.dims()[0], &fixed.device());
    fixed.clone() + fixed.clone().matmul(identity - k.matmul(fixed))
}

/// `K^-1` without a graph.
fn inverse_of(k: &Tensor<2>) -> Tensor<2> {
    let [n, _] = k.dims();
    let lower = cholesky(n, k.clone().into_data().iter::<f64>().collect());
    let upper: Vec<f64> = (0..n * n).map(|at| lower[at % n * n + at / n]).collect(); // L^T
    let mut columns = vec![0.0; n * n]; // of K^-1, which is symmetric
    columns.par_chunks_mut(n).enumerate().for_each(|(j, x)| {
        x[j] = 1.0;
        for i in j..n {
            let row = &lower[i * n..][..n];
            x[i] = (x[i] - dot(&row[j..i], &x[j..i])) / row[i];
        }
        for i in (0..n).rev() {
            let row = &upper[i * n..][..n];
            x[i] = (x[i] - dot(&row[i + 1..], &x[i + 1..])) / row[i];
        }
    });
    let values: Vec<f32> = columns.into_iter().map(|x| x as f32).collect();
    Tensor::from_data(TensorData::new(values, [n, n]), &k.device())
}

/// `L` of the positive definite `k = L L^T` `[n, n]`; what is above its diagonal is left as it is.
fn cholesky(n: usize, mut k: Vec<f64>) -> Vec<f64> {
    for j in 0..n {
        let (above, below) = k.split_at_mut((j + 1) * n);
        let row_j = &mut above[j * n..];
        let pivot = (row_j[j] - dot(&row_j[..j], &row_j[..j])).max(f64::MIN_POSITIVE).sqrt();
        row_j[j] = pivot;
        let row_j = &above[j * n..];
        below.par_chunks_mut(n).for_each(|row| row[j] = (row[j] - dot(&row[..j], &row_j[..j])) / pivot);
    }
    k
}

/// The inner product, in eight sums so that the compiler can use vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (blocks_a, blocks_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = blocks_a.remainder().iter().zip(blocks_b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in blocks_a.zip(blocks_b) {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;
    use crate::engine::Seed;

    /// A symmetric matrix with eigenvalues of at least 1/2.
    fn positive(n: usize) -> Tensor<2> {
        let device = Device::flex();
        let mut stream = Seed(4).stream("inverse", 0);
        let values: Vec<f32> = (0..n * n).map(|_| stream.normal()).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values, [n, n]), &device);
        x.clone().matmul(x.transpose()).div_scalar(n as f32) + Tensor::eye(n, &device).mul_scalar(0.5)
    }

    fn largest(x: Tensor<2>) -> f32 {
        x.abs().max().into_scalar::<f32>()
    }

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        for n in [1, 7, 20] {
            let k = positive(n);
            let one = k.clone().matmul(inverse(k.autodiff()).inner());
            assert!(largest(one - Tensor::eye(n, &Device::flex())) < 1e-4, "{n}");
        }
    }

    #[test]
    fn its_derivative_is_the_formula() {
        let (n, weights) = (6, positive(6).powi_scalar(3));
        let k = positive(n).autodiff().require_grad();
        let gradients = (inverse(k.clone()) * weights.clone().autodiff()).sum().backward();
        let a = inverse_of(&k.clone().inner());
        let expected = a.clone().matmul(weights.transpose()).matmul(a).transpose().neg();
        let found = k.grad(&gradients).unwrap();
        assert!(largest(found - expected.clone()) < 1e-4 * largest(expected));
    }
}
