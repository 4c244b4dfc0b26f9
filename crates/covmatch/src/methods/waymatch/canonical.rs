//! Canonical directions: in which combinations of features images and captions go together, by how much, in units of
//! their own variance.
//!
//! ```text
//! S + ridge tr(S)/d I = L L^T                         for images and captions
//! M = L_v^-1 C L_l^-T = U K V^T                       K: canonical correlations; the r largest are kept
//! Q_v = L_v^-T U_r      Q_l = L_l^-T V_r              Q_v^T C Q_l = K_r,   Q_m^T S_m Q_m ~ I
//! ```
//! `U_r` and `V_r` by subspace iteration; within the subspace they need not be turned to the axes, as everything that is
//! asked of the pairs there is the same for any rotation.

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::engine::Stream;
use crate::losses::cross_covariance::Features;

/// Rounds of the subspace iteration.
const ROUNDS: usize = 8;

/// A matrix of f64, row by row.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f64>,
}

/// `Q_v` `[d_v, r]` and `Q_l` `[d_l, r]` of the covariances `C` `[d_v, d_l]`, `S_v` and `S_l`.
pub fn canonical_directions(
    covariance: &Tensor<2>,
    spread: &Features,
    directions: usize,
    ridge: f64,
    stream: &mut Stream,
) -> Features {
    let device = covariance.device();
    let of_image = Matrix::of(&spread.image).with_ridge(ridge).cholesky();
    let of_text = Matrix::of(&spread.text).with_ridge(ridge).cholesky();
    let left = of_image.solve(Matrix::of(covariance)); // L_v^-1 C
    let whitened = of_text.solve(left.transposed()).transposed(); // M [d_v, d_l]
    let r = directions.min(whitened.rows).min(whitened.cols);
    let mut v = Matrix::random(whitened.cols, r, stream).orthonormal();
    let transposed = whitened.transposed();
    let mut u = whitened.times(&v).orthonormal();
    for _ in 0..ROUNDS {
        v = transposed.times(&u).orthonormal();
        u = whitened.times(&v).orthonormal();
    }
    Features { image: of_image.solve_transposed(u).tensor(&device), text: of_text.solve_transposed(v).tensor(&device) }
}

impl Matrix {
    fn of(tensor: &Tensor<2>) -> Self {
        let [rows, cols] = tensor.dims();
        Self { rows, cols, values: tensor.clone().into_data().iter::<f64>().collect() }
    }

    fn random(rows: usize, cols: usize, stream: &mut Stream) -> Self {
        Self { rows, cols, values: (0..rows * cols).map(|_| f64::from(stream.normal())).collect() }
    }

    fn tensor(&self, device: &Device) -> Tensor<2> {
        let values: Vec<f32> = self.values.iter().map(|&x| x as f32).collect();
        Tensor::from_data(TensorData::new(values, [self.rows, self.cols]), device)
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.cols..(i + 1) * self.cols]
    }

    fn transposed(&self) -> Self {
        let values = (0..self.cols).flat_map(|j| (0..self.rows).map(move |i| self.values[i * self.cols + j])).collect();
        Self { rows: self.cols, cols: self.rows, values }
    }

    /// `self` with a part of its mean diagonal added to the diagonal.
    fn with_ridge(mut self, ridge: f64) -> Self {
        let (n, at) = (self.rows, |i: usize| i * (self.cols + 1));
        let mean = (0..n).map(|i| self.values[at(i)]).sum::<f64>() / n as f64;
        (0..n).for_each(|i| self.values[i * (self.cols + 1)] += ridge * mean);
        self
    }

    /// `L` of the symmetric positive definite `self = L L^T`.
    fn cholesky(mut self) -> Self {
        let n = self.rows;
        for j in 0..n {
            let (above, below) = self.values.split_at_mut((j + 1) * n);
            let row_j = &mut above[j * n..];
            let pivot = (row_j[j] - dot(&row_j[..j], &row_j[..j])).max(f64::MIN_POSITIVE).sqrt();
            row_j[j] = pivot;
            row_j[j + 1..].fill(0.0);
            let row_j = &above[j * n..];
            below.par_chunks_mut(n).for_each(|row| row[j] = (row[j] - dot(&row[..j], &row_j[..j])) / pivot);
        }
        self
    }

    /// `L^-1 B` of the lower triangular `self = L`.
    fn solve(&self, b: Matrix) -> Self {
        let columns = b.transposed();
        let mut solved = columns.values;
        solved.par_chunks_mut(self.rows).for_each(|x| {
            for i in 0..self.rows {
                let row = self.row(i);
                x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
            }
        });
        Self { rows: b.cols, cols: self.rows, values: solved }.transposed()
    }

    /// `L^-T B` of the lower triangular `self = L`.
    fn solve_transposed(&self, b: Matrix) -> Self {
        let (upper, columns) = (self.transposed(), b.transposed());
        let (n, mut solved) = (self.rows, columns.values);
        solved.par_chunks_mut(n).for_each(|x| {
            for i in (0..n).rev() {
                let row = upper.row(i);
                x[i] = (x[i] - dot(&row[i + 1..], &x[i + 1..])) / row[i];
            }
        });
        Self { rows: b.cols, cols: n, values: solved }.transposed()
    }

    fn times(&self, b: &Matrix) -> Self {
        let columns = b.transposed();
        let mut values = vec![0.0; self.rows * b.cols];
        values.par_chunks_mut(b.cols).enumerate().for_each(|(i, out)| {
            out.iter_mut().enumerate().for_each(|(j, x)| *x = dot(self.row(i), columns.row(j)));
        });
        Self { rows: self.rows, cols: b.cols, values }
    }

    /// The columns of `self` made orthonormal one after the other, each against those before it twice.
    fn orthonormal(&self) -> Self {
        let mut columns = self.transposed();
        let n = columns.cols;
        for j in 0..columns.rows {
            let (before, rest) = columns.values.split_at_mut(j * n);
            let column = &mut rest[..n];
            for other in before.chunks(n).chain(before.chunks(n)) {
                let along = dot(other, column);
                column.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
            let norm = dot(column, column).sqrt().max(f64::MIN_POSITIVE);
            column.iter_mut().for_each(|x| *x /= norm);
        }
        columns.transposed()
    }
}

/// The inner product, in four sums so that the compiler can use vectors.
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
    use super::*;
    use crate::engine::Seed;
    use crate::losses::cross_covariance::cross_covariance;

    fn values(t: Tensor<2>) -> Vec<f32> {
        t.into_data().iter::<f32>().collect()
    }

    /// `n` rows of `d` numbers, the first two of which `latent` goes into.
    fn rows(n: usize, d: usize, latent: &[f32], stream: &mut Stream) -> Tensor<2> {
        let row = |i: usize, stream: &mut Stream| -> Vec<f32> {
            (0..d).map(|j| stream.normal() + if j < 2 { 3.0 * latent[2 * i + j] } else { 0.0 }).collect()
        };
        let values: Vec<f32> = (0..n).flat_map(|i| row(i, stream)).collect();
        Tensor::from_data(TensorData::new(values, [n, d]), &Device::flex())
    }

    #[test]
    fn in_canonical_directions_variances_are_one_and_the_shared_part_is_found() {
        let mut stream = Seed(3).stream("canonical", 0);
        let latent: Vec<f32> = (0..800).map(|_| stream.normal()).collect();
        let h = Features { image: rows(400, 7, &latent, &mut stream), text: rows(400, 5, &latent, &mut stream) };
        let own = |h: &Tensor<2>| cross_covariance(&Features { image: h.clone(), text: h.clone() });
        let spread = h.as_ref().map(own);
        let q = canonical_directions(&cross_covariance(&h), &spread, 2, 1e-9, &mut stream);
        let x = Features { image: h.image.matmul(q.image), text: h.text.matmul(q.text) };
        for side in [&x.image, &x.text] {
            let identity = [1.0, 0.0, 0.0, 1.0];
            for (found, expected) in values(own(side)).into_iter().zip(identity) {
                assert!((found - expected).abs() < 1e-3, "{found} {expected}");
            }
        }
        // Signal 9 and noise 1 on both sides: a correlation of 0.9 in each of the two directions.
        let strength = cross_covariance(&x).powi_scalar(2).sum().into_scalar::<f32>();
        assert!((strength - 2.0 * 0.81).abs() < 0.12, "{strength}");
    }
}
