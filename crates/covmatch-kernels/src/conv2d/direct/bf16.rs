//! Direct convolution whose operands are rounded to bf16, with AVX-512 BF16.
//!
//! The loop nest is that of [`direct`](super). The pixels under the kernel are rounded into the rows of a strip, from the
//! pointers that the table of [`Sources`] has, so the micro-kernel is that of a matrix product:
//! ```text
//! task: a strip of pixels                                        (rayon)
//!   group: rows A[pixel][tap, channel], rounded                  stay in L2
//!     panel of 64 outputs: weights B[tap, channel][64], rounded  once for all strips
//! ```
//! For the weight gradient the sum runs over the pixels of a strip, two at a time, and its units ([`Units`]) stay in L2.

use std::ops::Range;

use rayon::prelude::*;

use super::sources::{Pixels, Sources};
use crate::conv2d::geometry::{Geometry, Grid};
use crate::conv2d::packed::Packed;
use crate::conv2d::units::{Unit, Units};
use crate::gemm::bf16::{Line, Order, Room, Rows, pack_lines, pack_pixel_pairs, pack_pixels};
use crate::gemm::micro::{Init, Width};
use crate::gemm::{Clamp, Matrix, SharedMut, uninit};
use crate::precision::{Precision, precision};
use crate::simd::{self, Bf16};

/// Pixels of a strip of the weight gradient: those of 64 channels stay in L1.
const STRIP: usize = 192;

/// Most values of a strip's rows, 320 KB: they stay in L2 beside a panel of weights.
const ROOM: usize = 160 << 10;

/// Whether the process asks for bf16 and this convolution is faster in it: taps of whole vectors, and sums short enough
/// for a run.
pub(in crate::conv2d) fn suits(g: &Geometry) -> bool {
    let (ci, co) = (g.ci_group(), g.co_group());
    precision() == Precision::Bf16 && simd::bf16() == Some(Bf16::Avx512) && fits(ci, co, g.taps())
}

/// Whether the kernels are made for such sizes.
fn fits(ci: usize, co: usize, taps: usize) -> bool {
    ci.is_multiple_of(16) && co.is_multiple_of(16) && ci.max(co) * taps <= 4608
}

/// `y = clamp(conv(x, w) + bias)`.
pub(in crate::conv2d) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let mut y = uninit(g.out_pixels() * g.co);
    let convolution = Convolution {
        source: Pixels { values: x, channels: g.ci, zeros: &vec![0.0; g.ci_group()] },
        packed: &Packed::forward(g, w),
        groups: g.groups,
        n: g.n,
        y: SharedMut(y.as_mut_ptr()),
        bias,
        clamp,
    };
    // SAFETY: `y` has the pixels of the grid, and [`suits`] found the instructions.
    unsafe { convolution.compute(&g.forward_grid()) };
    y
}

/// `dx` from `dy`.
pub(in crate::conv2d) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let mut dx = uninit(g.in_pixels() * g.ci);
    let convolution = Convolution {
        source: Pixels { values: dy, channels: g.co, zeros: &vec![0.0; g.co_group()] },
        packed: &Packed::input_gradient(g, w),
        groups: g.groups,
        n: g.n,
        y: SharedMut(dx.as_mut_ptr()),
        bias: None,
        clamp: Clamp::NONE,
    };
    // Every input pixel belongs to one grid.
    for grid in g.input_gradient_grids() {
        // SAFETY: `dx` has the pixels of the grid, and [`suits`] found the instructions.
        unsafe { convolution.compute(&grid) };
    }
    dx
}

/// `clamp(conv(source, packed) + bias)`.
struct Convolution<'a> {
    source: Pixels<'a>,
    packed: &'a Packed,
    groups: usize,
    /// Images.
    n: usize,
    y: SharedMut,
    bias: Option<&'a [f32]>,
    clamp: Clamp,
}

/// Rounded weights of the taps of a grid: `[group][panel][tap, depth][width]`, each panel a whole number of tiles.
struct Weights {
    lines: Vec<Room>,
}

impl Convolution<'_> {
    /// Computes the pixels of a grid.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16; the pixels of the grid lie within `y`, and nobody else writes to them.
    unsafe fn compute(&self, grid: &Grid) {
        // SAFETY: the caller's duty.
        let weights = unsafe { self.weights(grid) };
        let row = (grid.taps.len() * self.packed.depth()).div_ceil(32) + 1;
        let pixels = grid.pixels(self.n);
        let strip = (ROOM / (32 * row)).clamp(24, STRIP);
        let count = pixels.div_ceil(strip).next_multiple_of(rayon::current_num_threads()).clamp(1, pixels.div_ceil(24));
        // A thread that runs out of tasks takes over single ones.
        (0..count).into_par_iter().with_max_len(1).for_each_init(
            || (Sources::default(), Line::room(pixels.div_ceil(count) * row)),
            |(sources, room), i| {
                let strip = pixels * i / count..pixels * (i + 1) / count;
                for group in 0..self.groups {
                    // SAFETY: the caller's duty; every task has its own strip, for which there is room.
                    unsafe { self.strip(grid, &weights, group, strip.clone(), row, (sources, room)) };
                }
            },
        );
    }

    /// The weights of the taps that the grid reads.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16.
    unsafe fn weights(&self, grid: &Grid) -> Weights {
        let (packed, depth) = (self.packed, self.packed.depth());
        let steps = grid.taps.len() * depth;
        let pack = |i: usize| {
            let (_, width, values) = packed.panel(i / packed.panels(), i % packed.panels());
            let columns = 16 * width.vectors();
            let taps = grid.taps.iter().map(|tap| &values[tap.index * depth * columns..][..depth * columns]);
            let values: Vec<f32> = taps.flatten().copied().collect();
            let matrix = Matrix::new(&values, steps, columns).t();
            let mut lines = Line::room(steps.next_multiple_of(32) / 2 * width.vectors());
            // SAFETY: the caller's duty.
            unsafe { pack_lines(matrix, 0..columns, 0..steps, Order::Pairs, width.vectors(), &mut lines) };
            lines
        };
        Weights { lines: (0..self.groups * packed.panels()).into_par_iter().map(pack).collect() }
    }

    /// Computes the channels of `group` for the pixels `strip`, whose rows lie `row` lines apart in `room`.
    ///
    /// # Safety
    /// As [`compute`](Self::compute), for these pixels.
    unsafe fn strip(
        &self,
        grid: &Grid,
        weights: &Weights,
        group: usize,
        strip: Range<usize>,
        row: usize,
        (sources, room): (&mut Sources, &mut Room),
    ) {
        let (depth, panels) = (self.packed.depth(), self.packed.panels());
        let channels = self.groups * self.packed.breadth();
        sources.locate_in_place(grid, self.source, group * depth, strip.clone());
        // SAFETY: the table has a source of `depth` values for every tap and pixel; the caller vouches for the instructions.
        unsafe { pack_pixels(&sources.table, strip.len(), depth, row, room) };
        for panel in 0..panels {
            let (column, width, _) = self.packed.panel(group, panel);
            let column = group * self.packed.breadth() + column;
            let mut first = 0;
            grid.for_each_run(strip.clone(), |image, jy, cols| {
                let n = cols.len();
                let rows = Rows {
                    n,
                    width,
                    pairs: grid.taps.len() * depth / 2,
                    a: room[first * row..].as_ptr().cast(),
                    a_row: 16 * row,
                    a_step: 1,
                    b: weights.lines[group * panels + panel].as_ptr().cast(),
                    // SAFETY: a grid's positions are pixels of the tensor.
                    c: unsafe { self.y.at(grid.position(image, jy, cols.start) * channels + column) },
                    c_row: grid.step * channels,
                    init: self.bias.map_or(Init::Zero, |bias| Init::Bias(bias[column..].as_ptr())),
                    clamp: self.clamp,
                    streamed: false,
                };
                // SAFETY: A has a row for each pixel of the strip, B the panel's columns, and the destinations are the
                // caller's.
                unsafe { rows.compute() };
                first += n;
            });
        }
    }
}

/// `dw` `[co, ci / groups, k, k]` from `x` and `dy`.
pub(in crate::conv2d) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let x = Pixels { values: x, channels: g.ci, zeros: &vec![0.0; g.ci_group()] };
    let sums = Sums { g, grid: g.forward_grid(), x, dy };
    Units::new(g).gradient(g, g.out_pixels(), |scratch, unit, pixels| sums.of(unit, pixels, scratch))
}

/// What a task keeps between strips.
struct Scratch {
    sources: Sources,
    /// The input pixels of a tap, `[pair][channel]`.
    inputs: Room,
    /// The gradient pixels, `[pair][output]`.
    gradients: Room,
}

impl Default for Scratch {
    fn default() -> Self {
        // A unit has up to 64 channels and 64 outputs.
        let room = || Line::room(STRIP / 2 * 5);
        Self { sources: Sources::default(), inputs: room(), gradients: room() }
    }
}

/// What the sums are made of.
struct Sums<'a> {
    g: &'a Geometry,
    grid: Grid,
    x: Pixels<'a>,
    dy: &'a [f32],
}

impl Sums<'_> {
    /// The sum of a unit over `pixels`, `[tap][depth][width]`.
    fn of(&self, unit: &Unit, pixels: Range<usize>, scratch: &mut Scratch) -> Vec<f32> {
        let (g, depth, width) = (self.g, unit.depth.len(), Width::of(unit.cols.len()));
        let columns = 16 * width.vectors();
        let mut sum = vec![0.0; g.taps() * depth * columns];
        let Scratch { sources, inputs, gradients } = scratch;
        for start in pixels.clone().step_by(STRIP) {
            let strip = start..(start + STRIP).min(pixels.end);
            let (n, pairs) = (strip.len(), strip.len().div_ceil(2));
            let first = unit.group * g.ci_group() + unit.depth.start;
            sources.locate_in_place(&self.grid, self.x, first, strip.clone());
            let dy = &self.dy[strip.start * g.co + unit.group * g.co_group() + unit.cols.start..];
            let dy = Matrix::strided(dy, n, unit.cols.len(), g.co).t();
            let stride = depth.div_ceil(16) + 1;
            // SAFETY: [`suits`] found the instructions. The scratch has room for the strip, every source has the unit's
            // depth, and `sum` has `depth` rows of the panel's width for each tap.
            unsafe {
                pack_lines(dy, 0..unit.cols.len(), 0..n, Order::Pairs, width.vectors(), gradients);
                for (sources, sum) in sources.table.chunks_exact(n).zip(sum.chunks_exact_mut(depth * columns)) {
                    pack_pixel_pairs(sources, depth, stride, inputs);
                    let (a, a_step, b) = (inputs.as_ptr().cast(), 16 * stride, gradients.as_ptr().cast());
                    let (c, c_row, init, clamp) = (sum.as_mut_ptr(), columns, Init::Accumulate, Clamp::NONE);
                    let streamed = false;
                    Rows { n: depth, width, pairs, a, a_row: 1, a_step, b, c, c_row, init, clamp, streamed }.compute();
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conv2d::{Conv2dOptions, Padding, direct};
    use crate::gemm::bf16::rounded;
    use crate::gemm::fill;
    use crate::simd::forms;

    /// Compares with f32 on rounded operands, from which only the roundings of the sums differ: `steps` of them, of terms
    /// below 1.
    fn check(got: &[f32], want: &[f32], steps: usize, what: &str) {
        assert_eq!(got.len(), want.len());
        let bound = 2.0 * (steps as f32).powi(2).max(1.0) * 0.5f32.powi(24) + 1e-6;
        let error = got.iter().zip(want).fold(0.0_f32, |m, (g, w)| m.max((g - w).abs()));
        assert!(error <= bound, "{what}: error of {error}, {bound} allowed");
    }

    fn rounded_all(values: &[f32]) -> Vec<f32> {
        values.iter().map(|v| rounded(*v)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn results_are_those_of_f32_on_rounded_operands(
            n in 1_usize..4, h in 3_usize..12, w in 3_usize..12, ci in 1_usize..6, co in 1_usize..6,
            groups in 1_usize..3, k in 1_usize..4, stride in 1_usize..3, padding in 0_usize..2, bias: bool,
            clamp in prop_oneof![Just(Clamp::NONE), Just(Clamp::RELU), Just(Clamp::RELU6)],
        ) {
            if !forms().contains(&Bf16::Avx512) {
                return Ok(());
            }
            let options = Conv2dOptions { stride, padding: Padding::Explicit(padding), groups, ..Default::default() };
            let g = Geometry::new([n, h, w, 16 * ci * groups], [16 * co * groups, 16 * ci, k, k], options);
            prop_assert!(fits(g.ci_group(), g.co_group(), g.taps()));
            let (x, dy) = (fill(g.in_pixels() * g.ci, 1), fill(g.out_pixels() * g.co, 2));
            let weight = fill(g.co * g.ci_group() * g.taps(), 3);
            let b = fill(g.co, 4);
            let b = bias.then_some(&b[..]);
            let (x_, dy_, weight_) = (rounded_all(&x), rounded_all(&dy), rounded_all(&weight));
            let want = direct::forward(&g, &x_, &weight_, b, clamp);
            check(&forward(&g, &x, &weight, b, clamp), &want, g.taps() * g.ci_group() + 1, "y");
            let want = direct::input_gradient(&g, &dy_, &weight_);
            check(&input_gradient(&g, &dy, &weight), &want, g.taps() * g.co_group(), "dx");
            let want = direct::weight_gradient(&g, &x_, &dy_);
            check(&weight_gradient(&g, &x, &dy), &want, g.out_pixels(), "dw");
        }
    }
}
