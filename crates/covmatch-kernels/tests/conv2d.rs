//! `conv2d` and its gradients against burn's own convolution and against finite differences.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};

use burn::tensor::{Device, Tensor, TensorData};
use covmatch_kernels::{Conv2dOptions, Epilogue, Padding, Prologue, conv2d, counters, plain_ops};
use proptest::prelude::*;

use common::{fill, random, vec};

/// Starts every buffer at a cache line, as the program's allocator does for large ones: kernels write large results
/// past the caches only then.
struct CacheLines;

// SAFETY: the system's allocator with a stricter alignment, the same for both calls.
unsafe impl GlobalAlloc for CacheLines {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty; 64 is a power of two.
        unsafe { System.alloc(Layout::from_size_align_unchecked(layout.size(), layout.align().max(64))) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty; `alloc` used the same alignment.
        unsafe { System.dealloc(memory, Layout::from_size_align_unchecked(layout.size(), layout.align().max(64))) }
    }
}

#[global_allocator]
static ALLOCATOR: CacheLines = CacheLines;

/// A convolution to test.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    h: usize,
    w: usize,
    ci: usize,
    co: usize,
    k: usize,
    options: Conv2dOptions,
    bias: bool,
}

impl Case {
    fn new(n: usize, hw: (usize, usize), channels: (usize, usize), k: usize, stride: usize, padding: Padding) -> Self {
        let options = Conv2dOptions { stride, padding, ..Default::default() };
        Self { n, h: hw.0, w: hw.1, ci: channels.0, co: channels.1, k, options, bias: true }
    }

    fn groups(mut self, groups: usize) -> Self {
        self.options.groups = groups;
        self
    }

    fn epilogue(mut self, epilogue: Epilogue) -> Self {
        self.options.epilogue = epilogue;
        self
    }

    fn weight_shape(&self) -> [usize; 4] {
        [self.co, self.ci / self.options.groups, self.k, self.k]
    }

    /// Input, weight and bias.
    fn arguments(&self, device: &Device) -> (Tensor<4>, Tensor<4>, Tensor<1>) {
        let fan_in = (self.weight_shape()[1] * self.k * self.k) as f32;
        let x = random([self.n, self.h, self.w, self.ci], 1, device);
        let w = random(self.weight_shape(), 2, device).mul_scalar(2.0 / fan_in.sqrt());
        (x, w, random([self.co], 3, device))
    }

    /// The gradient of the result: zero where rounding decides on which side of a bound of the epilogue a value lies.
    fn cotangent(&self, device: &Device) -> Tensor<4> {
        let (x, w, b) = self.arguments(&Device::flex());
        let unbounded = Conv2dOptions { epilogue: Epilogue::None, ..self.options };
        let y = plain_ops(|| conv2d(x, w, self.bias.then_some(b), unbounded));
        let bounded = self.options.epilogue != Epilogue::None;
        let on_a_bound = |y: f32| bounded && (y.abs() < 1e-4 || (y - 6.0).abs() < 1e-4);
        let dims = y.dims();
        let values = vec(y).into_iter().zip(fill(dims.iter().product(), 4));
        let values = values.map(|(y, d)| if on_a_bound(y) { 0.0 } else { d }).collect();
        Tensor::from_data(TensorData::new(values, dims), device)
    }

    /// Result, and gradients of x, weight and bias of `sum(y * cotangent)`.
    fn run(&self) -> [Vec<f32>; 4] {
        let device = Device::flex().autodiff();
        let (x, w, b) = self.arguments(&device);
        let (x, w, b) = (x.require_grad(), w.detach().require_grad(), b.require_grad());
        let y = conv2d(x.clone(), w.clone(), self.bias.then(|| b.clone()), self.options);
        let grads = (y.clone() * self.cotangent(&device)).sum().backward();
        let db = if self.bias { vec(b.grad(&grads).unwrap()) } else { Vec::new() };
        [vec(y), vec(x.grad(&grads).unwrap()), vec(w.grad(&grads).unwrap()), db]
    }

    /// Compares the kernels with burn's own operations.
    fn check(&self) {
        let (got, want) = (self.run(), plain_ops(|| self.run()));
        for ((name, got), want) in ["y", "dx", "dw", "db"].into_iter().zip(&got).zip(&want) {
            assert_eq!(got.len(), want.len(), "{name} of {self:?}");
            let scale = want.iter().fold(1e-3_f32, |m, v| m.max(v.abs()));
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                assert!((g - w).abs() <= 2e-5 * scale, "{name}[{i}] = {g}, burn says {w}: {self:?}");
            }
        }
    }
}

#[test]
fn the_shapes_of_real_networks_match_burn() {
    use Padding::{Explicit, Same};
    // nfnet: stem, 1x1, grouped 3x3 of both strides
    Case::new(2, (20, 22), (3, 16), 3, 2, Explicit(1)).check();
    Case::new(1, (13, 13), (16, 32), 3, 1, Explicit(1)).check();
    Case::new(2, (9, 9), (64, 128), 3, 2, Explicit(1)).check();
    Case::new(2, (7, 5), (128, 128), 3, 1, Explicit(1)).groups(2).check();
    Case::new(2, (8, 8), (128, 128), 3, 2, Explicit(1)).groups(2).check();
    Case::new(3, (28, 28), (128, 128), 3, 1, Explicit(1)).groups(2).check();
    Case::new(1, (31, 30), (32, 64), 3, 1, Explicit(1)).check();
    Case::new(2, (56, 56), (64, 64), 3, 1, Explicit(1)).check();
    Case::new(3, (14, 14), (192, 192), 3, 1, Explicit(1)).groups(3).check();
    Case::new(12, (7, 7), (128, 128), 3, 1, Explicit(1)).groups(2).check();
    Case::new(3, (6, 7), (64, 256), 1, 1, Explicit(0)).check();
    // regnet: narrow groups; resnet: 7x7 stem, strided 1x1
    Case::new(2, (9, 9), (24, 24), 3, 2, Explicit(1)).groups(3).check();
    Case::new(1, (30, 30), (3, 64), 7, 2, Explicit(3)).check();
    Case::new(2, (9, 10), (32, 48), 1, 2, Explicit(0)).check();
    Case::new(1, (6, 6), (200, 150), 3, 1, Explicit(1)).check();
    // EfficientNet-Lite and MobileNetV2: TensorFlow's padding, depthwise
    Case::new(2, (24, 24), (3, 32), 3, 2, Same).epilogue(Epilogue::Relu6).check();
    Case::new(2, (12, 12), (96, 96), 3, 2, Same).groups(96).epilogue(Epilogue::Relu6).check();
    Case::new(2, (13, 12), (144, 144), 5, 2, Same).groups(144).epilogue(Epilogue::Relu6).check();
    Case::new(2, (6, 6), (240, 240), 5, 1, Same).groups(240).epilogue(Epilogue::Relu6).check();
    Case::new(2, (3, 3), (72, 72), 5, 1, Same).groups(72).epilogue(Epilogue::Relu6).check();
    Case::new(2, (24, 20), (32, 32), 3, 1, Explicit(1)).groups(32).check();
    // SqueezeNet: 3x3 without padding, ReLU
    Case::new(2, (21, 21), (3, 64), 3, 2, Explicit(0)).epilogue(Epilogue::Relu).check();
}

#[test]
fn a_result_within_rounding_of_a_bound_matches_burn() {
    let mut case = Case::new(1, (14, 15), (256, 128), 3, 1, Padding::Same).groups(2).epilogue(Epilogue::Relu6);
    case.bias = false;
    case.check();
}

#[test]
fn a_single_pixel_matches_burn() {
    Case::new(1, (1, 1), (5, 7), 1, 1, Padding::Explicit(0)).check();
    Case::new(1, (1, 1), (20, 7), 3, 1, Padding::Explicit(1)).check();
    Case::new(1, (1, 1), (3, 7), 3, 2, Padding::Same).check();
    Case::new(1, (1, 1), (17, 17), 5, 1, Padding::Same).groups(17).check();
}

#[test]
fn a_wide_kernel_over_few_channels_matches_burn() {
    Case::new(2, (12, 13), (7, 70), 11, 1, Padding::Explicit(5)).check();
}

#[test]
fn results_larger_than_the_caches_match_burn() {
    Case::new(1, (130, 130), (64, 64), 3, 1, Padding::Explicit(1)).groups(64).epilogue(Epilogue::Relu6).check();
    Case::new(1, (260, 260), (16, 16), 5, 2, Padding::Same).groups(16).check();
    Case::new(1, (130, 130), (16, 64), 1, 1, Padding::Explicit(0)).epilogue(Epilogue::Relu6).check();
    Case::new(1, (130, 130), (64, 16), 1, 1, Padding::Explicit(0)).check();
    Case::new(1, (128, 132), (32, 64), 3, 1, Padding::Explicit(1)).epilogue(Epilogue::Relu).check();
    Case::new(1, (130, 130), (64, 64), 3, 1, Padding::Explicit(1)).check();
}

fn padding() -> impl Strategy<Value = Padding> {
    prop_oneof![(0_usize..4).prop_map(Padding::Explicit), Just(Padding::Same)]
}

fn prologue() -> impl Strategy<Value = Prologue> {
    prop_oneof![Just(Prologue::None), Just(Prologue::Silu)]
}

fn epilogue() -> impl Strategy<Value = Epilogue> {
    prop_oneof![Just(Epilogue::None), Just(Epilogue::Relu), Just(Epilogue::Relu6)]
}

fn fits(case: &Case) -> bool {
    match case.options.padding {
        Padding::Explicit(p) => case.h.min(case.w) + 2 * p >= case.k,
        Padding::Same => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn convolutions_of_any_shape_match_burn(
        n in 1_usize..4, h in 1_usize..13, w in 1_usize..13, groups in 1_usize..4, ci in 1_usize..41, co in 1_usize..80,
        k in prop_oneof![Just(1_usize), Just(2), Just(3), Just(5), Just(7)], stride in 1_usize..4,
        padding in padding(), prologue in prologue(), epilogue in epilogue(), bias: bool,
    ) {
        let options = Conv2dOptions { stride, padding, groups, prologue, epilogue };
        let case = Case { n, h, w, ci: ci * groups, co: co * groups, k, options, bias };
        prop_assume!(fits(&case));
        case.check();
    }

    #[test]
    fn convolutions_of_3x3_with_many_channels_match_burn(
        n in 1_usize..4, h in 3_usize..17, w in 3_usize..17, groups in 1_usize..3, ci in 1_usize..5, co in 1_usize..5,
        padding in padding(), prologue in prologue(), epilogue in epilogue(), bias: bool,
    ) {
        let options = Conv2dOptions { stride: 1, padding, groups, prologue, epilogue };
        Case { n, h, w, ci: 32 * ci * groups, co: 32 * co * groups, k: 3, options, bias }.check();
    }

    /// The sizes at which Winograd's tiles of 4 x 4 are chosen.
    #[test]
    fn convolutions_of_3x3_with_many_pixels_match_burn(
        n in 1_usize..4, h in 7_usize..26, w in 7_usize..26, groups in 1_usize..3, ci in 1_usize..3, co in 1_usize..3,
        padding in padding(), prologue in prologue(), epilogue in epilogue(), bias: bool,
    ) {
        let options = Conv2dOptions { stride: 1, padding, groups, prologue, epilogue };
        Case { n, h, w, ci: 32 * ci * groups, co: 32 * co * groups, k: 3, options, bias }.check();
    }

    #[test]
    fn depthwise_convolutions_of_any_shape_match_burn(
        n in 1_usize..4, h in 1_usize..13, w in 1_usize..13, c in 2_usize..150,
        k in prop_oneof![Just(1_usize), Just(3), Just(5), Just(7)], stride in 1_usize..4,
        padding in padding(), prologue in prologue(), epilogue in epilogue(), bias: bool,
    ) {
        let options = Conv2dOptions { stride, padding, groups: c, prologue, epilogue };
        let case = Case { n, h, w, ci: c, co: c, k, options, bias };
        prop_assume!(fits(&case));
        case.check();
    }
}

#[test]
fn gradients_match_finite_differences() {
    let device = Device::flex();
    let options = Conv2dOptions { stride: 2, padding: Padding::Same, groups: 2, ..Default::default() };
    let case = Case { n: 2, h: 5, w: 6, ci: 6, co: 8, k: 3, options, bias: true };
    let [_, dx, dw, db] = case.run();
    let fan_in = (3 * 9) as f32;
    let x = fill(2 * 5 * 6 * 6, 1);
    let w: Vec<f32> = fill(8 * 3 * 9, 2).into_iter().map(|v| v * 2.0 / fan_in.sqrt()).collect();
    let b = fill(8, 3);
    let loss = |x: &[f32], w: &[f32], b: &[f32]| -> f64 {
        let x = Tensor::<4>::from_data(TensorData::new(x.to_vec(), [2, 5, 6, 6]), &device);
        let w = Tensor::<4>::from_data(TensorData::new(w.to_vec(), [8, 3, 3, 3]), &device);
        let b = Tensor::<1>::from_data(TensorData::new(b.to_vec(), [8]), &device);
        let y = conv2d(x, w, Some(b), options);
        let cotangent = fill(y.shape().num_elements(), 4);
        vec(y).iter().zip(cotangent).map(|(y, c)| f64::from(*y) * f64::from(c)).sum()
    };
    // The loss is linear in each argument: a large step has no truncation error.
    let eps = 0.5;
    let numeric = |i: usize, which: usize| {
        let at = |step: f32| {
            let mut args = [x.clone(), w.clone(), b.clone()];
            args[which][i] += step;
            loss(&args[0], &args[1], &args[2])
        };
        ((at(eps) - at(-eps)) / f64::from(2.0 * eps)) as f32
    };
    for (which, gradient) in [dx, dw, db].iter().enumerate() {
        for i in (0..gradient.len()).step_by(gradient.len().div_ceil(40)) {
            let want = numeric(i, which);
            assert!((gradient[i] - want).abs() <= 1e-4 * want.abs().max(1.0), "{which}[{i}]: {} {want}", gradient[i]);
        }
    }
}

#[test]
fn strided_inputs_and_gradients_are_accepted() {
    let device = Device::flex().autodiff();
    let run = || {
        // x and the gradient of y arrive permuted, as after a change of layout.
        let x = random([2, 20, 9, 8], 1, &device).require_grad();
        let w = random([24, 20, 3, 3], 2, &device).require_grad();
        let options = Conv2dOptions { padding: Padding::Explicit(1), ..Default::default() };
        let y = conv2d(x.clone().permute([0, 2, 3, 1]), w.clone(), None, options).permute([0, 3, 1, 2]);
        let grads = (y.clone() * random([2, 24, 9, 8], 4, &device)).sum().backward();
        [vec(y), vec(x.grad(&grads).unwrap()), vec(w.grad(&grads).unwrap())]
    };
    let (got, want) = (run(), plain_ops(run));
    for (got, want) in got.iter().zip(&want) {
        let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 2e-5 * scale));
    }
}

#[test]
fn only_tracked_gradients_are_computed() {
    for (k, groups) in [(1, 1), (3, 2), (3, 16)] {
        for (train_x, train_w) in [(true, true), (true, false), (false, true)] {
            let device = Device::flex().autodiff();
            let (x, w) = (random([1, 6, 6, 16], 1, &device), random([16, 16 / groups, k, k], 2, &device));
            let x = if train_x { x.require_grad() } else { x };
            let w = if train_w { w.require_grad() } else { w };
            let options = Conv2dOptions { groups, prologue: Prologue::Silu, ..Default::default() };
            let y = conv2d(x.clone(), w.clone(), None, options);
            let before = (counters::input_gradients(), counters::weight_gradients());
            let grads = y.sum().backward();
            let kernels = (counters::input_gradients() - before.0, counters::weight_gradients() - before.1);
            assert_eq!(kernels, (usize::from(train_x), usize::from(train_w)));
            assert_eq!((x.grad(&grads).is_some(), w.grad(&grads).is_some()), (train_x, train_w));
        }
    }
}

#[test]
fn gradient_checkpointing_gives_the_same_gradients() {
    let run = |device: Device| {
        let x = random([2, 8, 8, 16], 1, &device).require_grad();
        let w = random([32, 8, 3, 3], 2, &device).require_grad();
        let options =
            Conv2dOptions { groups: 2, prologue: Prologue::Silu, epilogue: Epilogue::Relu, ..Default::default() };
        let y = conv2d(x.clone().mul_scalar(2.0), w.clone(), None, options);
        let grads = y.powi_scalar(2).sum().backward();
        [vec(x.grad(&grads).unwrap()), vec(w.grad(&grads).unwrap())]
    };
    assert_eq!(run(Device::flex().autodiff()), run(Device::flex().autodiff().gradient_checkpointing()));
}

#[test]
fn nan_passes_through_the_epilogue() {
    let device = Device::flex();
    for (k, groups, size, channels) in [(1, 1, 4, 4), (3, 1, 4, 4), (3, 4, 4, 4), (3, 1, 4, 32), (3, 1, 16, 32)] {
        let x = Tensor::<4>::full([1, size, size, channels], f32::NAN, &device);
        let w = Tensor::<4>::ones([channels, channels / groups, k, k], &device);
        let options = Conv2dOptions { groups, epilogue: Epilogue::Relu6, ..Default::default() };
        assert!(vec(conv2d(x, w, None, options)).iter().all(|v| v.is_nan()));
    }
}

#[test]
#[should_panic(expected = "conv2d: empty batch")]
fn an_empty_batch_is_refused() {
    let device = Device::flex();
    conv2d(Tensor::zeros([0, 4, 4, 3], &device), Tensor::ones([8, 3, 3, 3], &device), None, Default::default());
}

#[test]
#[should_panic(expected = "conv2d: input of 4 channels does not fit a weight of shape [8, 3, 3, 3] in 1 groups")]
fn channels_that_do_not_fit_are_refused() {
    let device = Device::flex();
    conv2d(Tensor::zeros([1, 4, 4, 4], &device), Tensor::ones([8, 3, 3, 3], &device), None, Default::default());
}

#[test]
#[should_panic(expected = "conv2d: a kernel of 5 does not fit an image of 4 x 9 pixels")]
fn a_kernel_larger_than_the_image_is_refused() {
    let device = Device::flex();
    conv2d(Tensor::zeros([1, 4, 9, 3], &device), Tensor::ones([8, 3, 5, 5], &device), None, Default::default());
}

#[test]
#[should_panic(expected = "conv2d: 3 biases for 8 output channels")]
fn a_bias_of_the_wrong_length_is_refused() {
    let device = Device::flex();
    let bias = Some(Tensor::zeros([3], &device));
    conv2d(Tensor::zeros([1, 4, 4, 3], &device), Tensor::ones([8, 3, 3, 3], &device), bias, Default::default());
}
