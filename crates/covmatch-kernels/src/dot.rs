//! The inner product of two long vectors that lie on a device in parts.
//!
//! ```text
//! a . b = sum over parts p and their chunks c of s_c,       s_c = sum over i in c of a_i b_i
//! ```
//! The device sums the chunks, Flex in f64 and any other device in f32. All `s_c` are read at once and added up in f64, in
//! their order: the result does not depend on the number of threads.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::backend::{FlexTensor, contiguous, use_kernels, values};

/// Values of a chunk.
const CHUNK: usize = 1 << 16;

/// `a . b`, of values that are not parts of an autodiff graph. Nothing has the product 0.
///
/// # Panics
/// If the parts of `a` and `b` differ in number or shape, or one is empty.
pub fn dot(a: &[Tensor<1>], b: &[Tensor<1>]) -> f64 {
    assert_eq!(a.len(), b.len(), "dot: {} parts and {}", a.len(), b.len());
    let sums: Vec<Tensor<1>> = a.iter().zip(b).map(|(a, b)| chunk_sums(a.clone(), b.clone())).collect();
    match sums.is_empty() {
        true => 0.0,
        false => Tensor::cat(sums, 0).into_data().iter::<f64>().sum(),
    }
}

/// `s_c` of all chunks of a part, `[chunks]`.
fn chunk_sums(a: Tensor<1>, b: Tensor<1>) -> Tensor<1> {
    let [count] = a.dims();
    assert_eq!([count], b.dims(), "dot: the shapes of a part differ");
    assert!(count > 0, "dot: an empty part");
    if use_kernels(&a) {
        return Tensor::from_dispatch(<Dispatch as DotOps>::chunk_sums(a.into_dispatch(), b.into_dispatch()));
    }
    let chunks = count.div_ceil(CHUNK);
    let size = count.div_ceil(chunks);
    let products = (a * b).pad([(0, chunks * size - count)], 0.0).reshape([chunks, size]);
    products.sum_dim(1).reshape([chunks])
}

fn sum((a, b): (&[f32], &[f32])) -> f64 {
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait DotOps: Backend {
    fn chunk_sums(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl DotOps for Flex {
    fn chunk_sums(a: FlexTensor, b: FlexTensor) -> FlexTensor {
        let (a, b) = (contiguous(a), contiguous(b));
        let (a, b) = (values(&a), values(&b));
        let sums = match a.len() <= CHUNK {
            true => vec![sum((a, b))], // most weights are this short: no task is worth its start
            false => a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)).map(sum).collect(),
        };
        let count = sums.len();
        FlexTensor::from_data(TensorData::new(sums, [count]))
    }
}

/// The product is not differentiated: the result is untracked.
impl<C: CheckpointStrategy> DotOps for Autodiff<Flex, C> {
    fn chunk_sums(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        FloatTensor::<Self>::new(Flex::chunk_sums(a.into_primitive(), b.into_primitive()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain_ops;
    use burn::tensor::Device;

    fn parts(seed: f32) -> (Vec<Tensor<1>>, Vec<f64>) {
        let lengths = [1, 700, 2 * CHUNK + 3];
        let values = lengths.map(|n| -> Vec<f32> { (0..n).map(|i| ((i as f32 + 1.0) * seed).sin()).collect() });
        let all = values.iter().flatten().map(|&x| f64::from(x)).collect();
        (values.map(|part| Tensor::from_floats(part.as_slice(), &Device::flex())).to_vec(), all)
    }

    #[test]
    fn products_of_parts_add_up() {
        let ((a, all_a), (b, all_b)) = (parts(0.7), parts(0.701));
        let expected: f64 = all_a.iter().zip(&all_b).map(|(x, y)| x * y).sum();
        let size: f64 = all_a.iter().zip(&all_b).map(|(x, y)| (x * y).abs()).sum();
        assert!((dot(&a, &b) - expected).abs() < 1e-13 * size, "{} {expected}", dot(&a, &b));
        let plain = plain_ops(|| dot(&a, &b));
        assert!((plain - expected).abs() < 1e-6 * size, "{plain} {expected}");
    }

    #[test]
    fn nothing_has_the_product_zero() {
        assert_eq!(dot(&[], &[]), 0.0);
    }
}
