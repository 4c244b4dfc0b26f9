//! Maximum over windows. The gradient goes to the first maximum of each window, as in PyTorch; its position is kept in
//! one byte a result.

use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module, ops::MaxPoolOptions};
use rayon::prelude::*;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::gemm::uninit;
use crate::simd::vectorized;

/// Maximum over `size` x `size` windows, `stride` apart, without padding; windows that reach past the lower or right
/// edge count what they cover (`ceil_mode=True` in PyTorch). A window with a NaN gives NaN.
///
/// # Panics
/// If the batch or the images are empty, `stride` is 0, or `size` is not in `1..=15`.
pub fn max_pool2d(x: Tensor<4>, size: usize, stride: usize) -> Tensor<4> {
    check(x.dims(), size, stride);
    if use_kernels(&x) {
        return Tensor::from_dispatch(<Dispatch as MaxPoolOps>::window_maxima(x.into_dispatch(), size, stride));
    }
    module::max_pool2d(x.permute([0, 3, 1, 2]), plain(size, stride)).permute([0, 2, 3, 1])
}

/// The values of `x` at the maxima of the windows of `at`, see [`max_pool2d`]: linear in `x`.
///
/// # Panics
/// As [`max_pool2d`], and if the shapes differ.
pub fn max_pool2d_at(x: Tensor<4>, at: Tensor<4>, size: usize, stride: usize) -> Tensor<4> {
    let [n, h, w, c] = x.dims();
    assert_eq!(x.dims(), at.dims(), "max_pool2d: the shapes differ");
    check(x.dims(), size, stride);
    if use_kernels(&x) {
        let (x, at) = (x.into_dispatch(), at.into_dispatch());
        return Tensor::from_dispatch(<Dispatch as MaxPoolOps>::window_values(x, at, size, stride));
    }
    let (_, places) = module::max_pool2d_with_indices(at.detach().permute([0, 3, 1, 2]), plain(size, stride));
    let [_, _, oh, ow] = places.dims();
    let pixels = x.permute([0, 3, 1, 2]).reshape([n, c, h * w]);
    pixels.gather(2, places.reshape([n, c, oh * ow])).reshape([n, c, oh, ow]).permute([0, 2, 3, 1])
}

fn check([n, h, w, c]: [usize; 4], size: usize, stride: usize) {
    assert!(n > 0, "max_pool2d: empty batch");
    assert!(h * w * c > 0, "max_pool2d: empty image of {h} x {w} x {c}");
    assert!((1..=15).contains(&size) && stride > 0, "max_pool2d: windows of size {size}, stride {stride}");
}

/// The windows for burn's own operations.
fn plain(size: usize, stride: usize) -> MaxPoolOptions<2> {
    MaxPoolOptions::new([size, size]).with_stride([stride, stride]).with_ceil_mode(true)
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait MaxPoolOps: Backend {
    fn window_maxima(x: FloatTensor<Self>, size: usize, stride: usize) -> FloatTensor<Self>;

    fn window_values(x: FloatTensor<Self>, at: FloatTensor<Self>, size: usize, stride: usize) -> FloatTensor<Self>;
}

impl MaxPoolOps for Flex {
    fn window_maxima(x: FlexTensor, size: usize, stride: usize) -> FlexTensor {
        Windows::new(&x, size, stride).maxima(x).0
    }

    fn window_values(x: FlexTensor, at: FlexTensor, size: usize, stride: usize) -> FlexTensor {
        let windows = Windows::new(&x, size, stride);
        windows.values(x, &windows.maxima(at).1)
    }
}

/// Sizes of images and windows.
#[derive(Clone, Copy, Debug)]
struct Windows {
    n: usize,
    h: usize,
    w: usize,
    c: usize,
    size: usize,
    stride: usize,
    /// Rows and columns of windows in an image.
    oh: usize,
    ow: usize,
}

impl Windows {
    fn new(x: &FlexTensor, size: usize, stride: usize) -> Self {
        let shape = dims(x);
        let (h, w) = (shape[1], shape[2]);
        // Every window starts inside the image.
        let count = |len: usize| (len.saturating_sub(size).div_ceil(stride) + 1).min((len - 1) / stride + 1);
        Self { n: shape[0], h, w, c: shape[3], size, stride, oh: count(h), ow: count(w) }
    }

    /// The maxima and where they are: row-major position in the window.
    fn maxima(&self, x: FlexTensor) -> (FlexTensor, Vec<u8>) {
        let (x, c) = (contiguous(x), self.c);
        let x = values(&x);
        let len = self.n * self.oh * self.ow * c;
        let (mut y, mut places) = (uninit(len), vec![0; len]);
        let rows = y.par_chunks_mut(self.ow * c).zip(places.par_chunks_mut(self.ow * c));
        rows.enumerate().for_each(|(i, (y, places))| {
            let (image, top) = (i / self.oh, i % self.oh * self.stride);
            for (ox, (y, places)) in y.chunks_exact_mut(c).zip(places.chunks_exact_mut(c)).enumerate() {
                let left = ox * self.stride;
                let pixel = |ky: usize, kx: usize| ((image * self.h + top + ky) * self.w + left + kx) * c;
                y.copy_from_slice(&x[pixel(0, 0)..][..c]);
                for ky in 0..self.size.min(self.h - top) {
                    for kx in 0..self.size.min(self.w - left) {
                        keep_greater(&x[pixel(ky, kx)..][..c], (ky * self.size + kx) as u8, y, places);
                    }
                }
            }
        });
        (tensor(y, &[self.n, self.oh, self.ow, c]), places)
    }

    /// The values of `x` at `places`.
    fn values(&self, x: FlexTensor, places: &[u8]) -> FlexTensor {
        let (x, c) = (contiguous(x), self.c);
        let x = values(&x);
        let mut y = uninit(places.len());
        let rows = y.par_chunks_mut(self.ow * c).zip(places.par_chunks(self.ow * c));
        rows.enumerate().for_each(|(i, (y, places))| {
            let (image, top) = (i / self.oh, i % self.oh * self.stride);
            for (j, (y, place)) in y.iter_mut().zip(places).enumerate() {
                let (left, place) = (j / c * self.stride, usize::from(*place));
                let (ky, kx) = (place / self.size, place % self.size);
                *y = x[((image * self.h + top + ky) * self.w + left + kx) * c + j % c];
            }
        });
        tensor(y, &[self.n, self.oh, self.ow, c])
    }

    /// Adds the gradient of each window to its maximum's pixel.
    fn gradient(&self, d: FlexTensor, places: &[u8]) -> FlexTensor {
        let (d, c) = (values(&d), self.c);
        let mut dx = uninit(self.n * self.h * self.w * c);
        dx.par_chunks_mut(self.w * c).enumerate().for_each(|(i, dx)| {
            dx.fill(0.0);
            let (image, y) = (i / self.h, i % self.h);
            // The rows of windows that reach this row of the image.
            let first = (y + 1).saturating_sub(self.size).div_ceil(self.stride);
            for oy in first..(y / self.stride + 1).min(self.oh) {
                let ky = y - oy * self.stride;
                for ox in 0..self.ow {
                    let window = ((image * self.oh + oy) * self.ow + ox) * c;
                    let (d, places) = (&d[window..window + c], &places[window..window + c]);
                    let left = ox * self.stride;
                    for kx in 0..self.size.min(self.w - left) {
                        add_where(d, places, (ky * self.size + kx) as u8, &mut dx[(left + kx) * c..][..c]);
                    }
                }
            }
        });
        tensor(dx, &[self.n, self.h, self.w, c])
    }
}

vectorized! {
    /// Takes the values of `x` that are greater than those of `y`, and notes their `place`.
    fn keep_greater(x: &[f32], place: u8, y: &mut [f32], places: &mut [u8]) {
        for ((x, y), at) in x.iter().zip(y).zip(places) {
            let take = *x > *y || x.is_nan();
            *y = if take { *x } else { *y };
            *at = if take { place } else { *at };
        }
    }
}

vectorized! {
    /// Adds the gradients of the windows whose maximum is at `place`.
    fn add_where(d: &[f32], places: &[u8], place: u8, dx: &mut [f32]) {
        for ((d, at), dx) in d.iter().zip(places).zip(dx) {
            *dx += if *at == place { *d } else { 0.0 };
        }
    }
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    windows: Windows,
    places: Arc<Vec<u8>>,
}

impl<C: CheckpointStrategy> MaxPoolOps for Autodiff<Flex, C> {
    fn window_maxima(x: FloatTensor<Self>, size: usize, stride: usize) -> FloatTensor<Self> {
        let windows = Windows::new(x.primitive(), size, stride);
        match MaxPoolBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (y, places) = windows.maxima(x.into_primitive());
                prep.finish(Saved { windows, places: Arc::new(places) }, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(windows.maxima(x.into_primitive()).0),
        }
    }

    fn window_values(x: FloatTensor<Self>, at: FloatTensor<Self>, size: usize, stride: usize) -> FloatTensor<Self> {
        let windows = Windows::new(x.primitive(), size, stride);
        let places = windows.maxima(at.into_primitive()).1;
        match MaxPoolBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = windows.values(x.into_primitive(), &places);
                prep.finish(Saved { windows, places: Arc::new(places) }, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(windows.values(x.into_primitive(), &places)),
        }
    }
}

#[derive(Debug)]
struct MaxPoolBackward;

impl Backward<Flex, 1> for MaxPoolBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |Saved { windows, places }, d, [tracked]| [tracked.then(|| windows.gradient(d, &places))]);
    }
}
