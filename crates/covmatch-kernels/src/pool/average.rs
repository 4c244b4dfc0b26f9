//! Averages over windows that do not overlap, and over whole images.
//!
//! `y[o] = sum of x over the window of o / its pixels`; each pixel of a window gets `d[o] / pixels` back.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module, ops::AvgPoolOptions};
use rayon::prelude::*;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::gemm::uninit;
use crate::simd::vectorized;

/// Mean over height and width: `[n, h, w, c]` to `[n, c]`.
///
/// # Panics
/// If the batch or the images are empty.
pub fn global_avg_pool(x: Tensor<4>) -> Tensor<2> {
    let [n, h, w, c] = x.dims();
    check("global_avg_pool", [n, h, w, c]);
    if use_kernels(&x) {
        let y = <Dispatch as AvgPoolOps>::window_means(x.into_dispatch(), h, w);
        return Tensor::<4>::from_dispatch(y).reshape([n, c]);
    }
    x.reshape([n, h * w, c]).mean_dim(1).reshape([n, c])
}

/// Mean over `size` x `size` windows with the same stride; windows that reach past the lower or right edge average
/// what they cover (`ceil_mode=True, count_include_pad=False` in PyTorch).
///
/// # Panics
/// If the batch or the images are empty, or `size` is 0.
pub fn avg_pool2d(x: Tensor<4>, size: usize) -> Tensor<4> {
    check("avg_pool2d", x.dims());
    assert!(size > 0, "avg_pool2d: windows of size 0");
    if use_kernels(&x) {
        return Tensor::from_dispatch(<Dispatch as AvgPoolOps>::window_means(x.into_dispatch(), size, size));
    }
    let x = x.permute([0, 3, 1, 2]);
    let options =
        AvgPoolOptions::new([size, size]).with_stride([size, size]).with_count_include_pad(false).with_ceil_mode(true);
    module::avg_pool2d(x, options).permute([0, 2, 3, 1])
}

fn check(operation: &str, [n, h, w, c]: [usize; 4]) {
    assert!(n > 0, "{operation}: empty batch");
    assert!(h * w * c > 0, "{operation}: empty image of {h} x {w} x {c}");
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait AvgPoolOps: Backend {
    fn window_means(x: FloatTensor<Self>, height: usize, width: usize) -> FloatTensor<Self>;
}

impl AvgPoolOps for Flex {
    fn window_means(x: FlexTensor, height: usize, width: usize) -> FlexTensor {
        Windows::new(&x, height, width).means(x)
    }
}

/// Sizes of images and of the windows that tile them; those at the lower and right edge may be smaller.
#[derive(Clone, Copy, Debug)]
struct Windows {
    n: usize,
    h: usize,
    w: usize,
    c: usize,
    height: usize,
    width: usize,
}

impl Windows {
    fn new(x: &FlexTensor, height: usize, width: usize) -> Self {
        let shape = dims(x);
        Self { n: shape[0], h: shape[1], w: shape[2], c: shape[3], height, width }
    }

    /// Rows and columns of windows in an image.
    fn count(&self) -> (usize, usize) {
        (self.h.div_ceil(self.height), self.w.div_ceil(self.width))
    }

    /// The image rows of row `i` of all windows of the batch, as rows of the batch.
    fn rows(&self, i: usize) -> std::ops::Range<usize> {
        let (image, row) = (i / self.count().0, i % self.count().0);
        let start = row * self.height;
        image * self.h + start..image * self.h + (start + self.height).min(self.h)
    }

    /// One over the pixels of a window in column `j`, of which there are `rows` rows.
    fn share(&self, rows: usize, j: usize) -> f32 {
        1.0 / (rows * self.width.min(self.w - j * self.width)) as f32
    }

    fn means(&self, x: FlexTensor) -> FlexTensor {
        let (x, (oh, ow), row) = (contiguous(x), self.count(), self.w * self.c);
        let x = values(&x);
        let mut y = vec![0.0; self.n * oh * ow * self.c];
        y.par_chunks_mut(ow * self.c).enumerate().for_each(|(i, y)| {
            let rows = self.rows(i);
            for x in x[rows.start * row..rows.end * row].chunks_exact(row) {
                for (y, x) in y.chunks_exact_mut(self.c).zip(x.chunks(self.width * self.c)) {
                    add_pixels(x, y);
                }
            }
            for (j, y) in y.chunks_exact_mut(self.c).enumerate() {
                let share = self.share(rows.len(), j);
                y.iter_mut().for_each(|y| *y *= share);
            }
        });
        tensor(y, &[self.n, oh, ow, self.c])
    }

    fn gradient(&self, d: FlexTensor) -> FlexTensor {
        let ((oh, ow), row) = (self.count(), self.w * self.c);
        let d = values(&d);
        let mut dx = uninit(self.n * self.h * row);
        // Rows of one image a task; a row belongs to one row of windows.
        dx.par_chunks_mut(row).enumerate().for_each(|(y, dx)| {
            let i = y / self.h * oh + y % self.h / self.height;
            let (rows, d) = (self.rows(i).len(), &d[i * ow * self.c..][..ow * self.c]);
            for (j, (dx, d)) in dx.chunks_mut(self.width * self.c).zip(d.chunks_exact(self.c)).enumerate() {
                spread(d, self.share(rows, j), dx);
            }
        });
        tensor(dx, &[self.n, self.h, self.w, self.c])
    }
}

vectorized! {
    /// Adds every pixel to `sum`.
    fn add_pixels(pixels: &[f32], sum: &mut [f32]) {
        for pixel in pixels.chunks_exact(sum.len()) {
            sum.iter_mut().zip(pixel).for_each(|(sum, v)| *sum += v);
        }
    }
}

vectorized! {
    /// Writes `share * d` to every pixel.
    fn spread(d: &[f32], share: f32, pixels: &mut [f32]) {
        for pixel in pixels.chunks_exact_mut(d.len()) {
            pixel.iter_mut().zip(d).for_each(|(v, d)| *v = share * d);
        }
    }
}

impl<C: CheckpointStrategy> AvgPoolOps for Autodiff<Flex, C> {
    fn window_means(x: FloatTensor<Self>, height: usize, width: usize) -> FloatTensor<Self> {
        let windows = Windows::new(x.primitive(), height, width);
        match AvgPoolBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(windows, windows.means(x.into_primitive())),
            OpsKind::UnTracked(prep) => prep.finish(windows.means(x.into_primitive())),
        }
    }
}

#[derive(Debug)]
struct AvgPoolBackward;

impl Backward<Flex, 1> for AvgPoolBackward {
    type State = Windows;

    fn backward(self, ops: Ops<Windows, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |windows, d, [tracked]| [tracked.then(|| windows.gradient(d))]);
    }
}
