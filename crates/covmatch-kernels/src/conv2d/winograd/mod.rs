//! Convolution with 3 x 3 kernels and stride 1 by Winograd's F(2 x 2, 3 x 3), with AVX-512.
//!
//! Paper: Lavin and Gray 2015, <https://arxiv.org/abs/1509.09308>.
//!
//! A tile `Y` of 2 x 2 results reads a window `D` of 4 x 4 pixels. With the kernel `W`, and `*` element by element,
//!
//! ```text
//! Y = A^T [ sum over channels of (G W G^T) * (B^T D B) ] A
//!
//!       1  0 -1  0          1   0   0
//! B^T = 0  1  1  0     G = 1/2 1/2 1/2     A^T = 1  1  1  0
//!       0 -1  1  0         1/2-1/2 1/2           0  1 -1 -1
//!       0  1  0 -1          0   0   1
//! ```
//! so 16 products a channel take the place of 36, and at each of the 16 places the sum over channels is a matrix product
//! of all tiles:
//!
//! ```text
//! task: a group, a strip of tiles                                (rayon)
//!   windows: V[16][tile][depth] = B^T D B
//!   panel of 64 outputs
//!     for each place: M[tile][64] = V[tile][depth] U[depth][64]  the micro-kernel of matrix products, all in L2
//!     tiles: Y = A^T M A
//! ```
//! The input gradient is the same with `dy` as the source and the kernels turned by half a turn.

mod tiles;
mod transforms;
mod weight_gradient;

use std::ops::Range;

use rayon::prelude::*;

use super::geometry::Geometry;
use super::packed::Packed;
use crate::gemm::micro::{Init, PANEL, Rows, Width};
use crate::gemm::{Aligned, Clamp, SharedMut, uninit};
use tiles::{Images, Results, Tiling};
pub(super) use weight_gradient::weight_gradient;

/// Elements of a transformed window.
const PLACES: usize = 16;

/// The place to which a bias is added: `A^T M A` adds it to all four results from there.
const BIAS_PLACE: usize = 5;

/// Most tiles of a task: with 64 channels V, M and U together are 650 KB.
const STRIP: usize = 48;

/// Whether the convolution is computed faster this way: the channels are enough to make up for the transforms, and a
/// group's transformed kernels stay in L2.
pub(super) fn suits(g: &Geometry) -> bool {
    let channels = |c: usize| (32..=128).contains(&c) && c.is_multiple_of(32);
    let tiles = |h: usize, w: usize| h.div_ceil(2) * w.div_ceil(2);
    // Tiles reach over the border of an image with odd sides.
    let pays = |h, w| 5 * PLACES * tiles(h, w) < 4 * 9 * h * w;
    g.k == 3 && g.stride == 1 && channels(g.ci_group()) && channels(g.co_group()) && pays(g.h, g.w) && pays(g.oh, g.ow)
}

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let kernels = Kernels::new(g.groups, &Packed::forward(g, w), |tap| tap);
    let zeros = vec![0.0; g.ci_group()];
    let source = Images { values: x, size: (g.h, g.w), channels: g.ci, zeros: &zeros };
    let corner = (g.top as isize, g.left as isize);
    Convolution { source, corner, kernels, bias, clamp }.compute(g.n, (g.oh, g.ow))
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let kernels = Kernels::new(g.groups, &Packed::input_gradient(g, w), |tap| 8 - tap);
    let zeros = vec![0.0; g.co_group()];
    let source = Images { values: dy, size: (g.oh, g.ow), channels: g.co, zeros: &zeros };
    let corner = (2 - g.top as isize, 2 - g.left as isize);
    Convolution { source, corner, kernels, bias: None, clamp: Clamp::NONE }.compute(g.n, (g.h, g.w))
}

/// Transformed kernels `G W G^T`: `[group][panel][place][depth][width]`.
struct Kernels {
    values: Aligned,
    groups: usize,
    depth: usize,
    breadth: usize,
}

impl Kernels {
    /// Transforms `packed`, with tap `order(i)` in the place of tap `i`.
    fn new(groups: usize, packed: &Packed, order: impl Fn(usize) -> usize + Sync) -> Self {
        let (depth, breadth) = (packed.depth(), packed.breadth());
        let mut values = Aligned::new(groups * PLACES * depth * breadth);
        let group_size = PLACES * depth * breadth;
        values.values_mut()[..groups * group_size].par_chunks_mut(group_size).enumerate().for_each(
            |(group, values)| {
                values.par_chunks_mut(PLACES * depth * PANEL).enumerate().for_each(|(panel, to)| {
                    let (_, _, from) = packed.panel(group, panel);
                    // SAFETY: Winograd convolution runs on machines with AVX-512 only; both have `depth` x width values for
                    // every tap and place.
                    unsafe { transforms::kernels(from, to, &order) };
                });
            },
        );
        Self { values, groups, depth, breadth }
    }

    /// First column, width and values of each panel of a group.
    fn panels(&self, group: usize) -> impl Iterator<Item = (usize, Width, &[f32])> {
        (0..self.breadth).step_by(PANEL).map(move |column| {
            let width = Width::of(PANEL.min(self.breadth - column));
            let per_column = PLACES * self.depth;
            let first = (group * self.breadth + column) * per_column;
            (column, width, &self.values.values()[first..first + per_column * width.vectors() * 16])
        })
    }
}

/// A convolution of images with transformed kernels.
struct Convolution<'a> {
    source: Images<'a>,
    /// Rows above and columns left of the source that the first window reads.
    corner: (isize, isize),
    kernels: Kernels,
    bias: Option<&'a [f32]>,
    clamp: Clamp,
}

impl Convolution<'_> {
    /// Results of `n` images of `size`.
    fn compute(&self, n: usize, size: (usize, usize)) -> Vec<f32> {
        let (groups, channels) = (self.kernels.groups, self.kernels.groups * self.kernels.breadth);
        let mut y = uninit(n * size.0 * size.1 * channels);
        let results = Results { values: SharedMut(y.as_mut_ptr()), size, channels };
        let tiling = Tiling::new(n, size);
        let strips = tiling.count().div_ceil(STRIP);
        (0..groups * strips).into_par_iter().with_max_len(1).for_each_init(
            || Scratch::new(self.kernels.depth),
            |scratch, task| {
                let (group, strip) = (task / strips, task % strips);
                let tiles = tiling.count() * strip / strips..tiling.count() * (strip + 1) / strips;
                self.transform_windows(&tiling, group, tiles.clone(), scratch);
                for panel in self.kernels.panels(group) {
                    self.multiply(group, panel, tiles.len(), scratch);
                    // SAFETY: every task has its own tiles and group.
                    unsafe { self.transform_sums(&tiling, (group, panel.0, panel.1), tiles.clone(), scratch, results) };
                }
            },
        );
        y
    }

    /// `V = B^T D B`.
    fn transform_windows(&self, tiling: &Tiling, group: usize, tiles: Range<usize>, scratch: &mut Scratch) {
        let depth = self.kernels.depth;
        for (i, tile) in tiles.enumerate() {
            let (image, y, x) = tiling.place(tile);
            let window = self.source.window(image, (y - self.corner.0, x - self.corner.1), group * depth);
            let to = scratch.windows.values_mut()[i * depth..].as_mut_ptr();
            // SAFETY: a window's pixels have `depth` values, and every place of V one row for each tile.
            unsafe { transforms::window(window, to, scratch.window_distance, depth) };
        }
    }

    /// `M = V U` at every place.
    fn multiply(
        &self,
        group: usize,
        (column, width, kernels): (usize, Width, &[f32]),
        n: usize,
        scratch: &mut Scratch,
    ) {
        let (kc, columns) = (self.kernels.depth, width.vectors() * 16);
        let bias = self.bias.map(|bias| bias[group * self.kernels.breadth + column..].as_ptr());
        for (place, kernels) in kernels.chunks_exact(kc * columns).enumerate() {
            let init = match bias {
                Some(bias) if place == BIAS_PLACE => Init::Bias(bias),
                _ => Init::Zero,
            };
            let a = scratch.windows.values()[place * scratch.window_distance..].as_ptr();
            let c = scratch.sums.values_mut()[place * SUM_DISTANCE..].as_mut_ptr();
            let (b, clamp) = (kernels.as_ptr(), Clamp::NONE);
            // SAFETY: V has n rows of kc values at every place, U kc rows of the panel's columns, M room for n rows.
            unsafe { Rows { n, width, kc, a, a_row: kc, b, c, c_row: columns, init, clamp }.compute() };
        }
    }

    /// `Y = A^T M A`, clamped.
    ///
    /// # Safety
    /// The results of `tiles` in the panel are the caller's.
    unsafe fn transform_sums(
        &self,
        tiling: &Tiling,
        (group, column, width): (usize, usize, Width),
        tiles: Range<usize>,
        scratch: &mut Scratch,
        results: Results,
    ) {
        let columns = width.vectors() * 16;
        for (i, tile) in tiles.enumerate() {
            let outside = scratch.outside.values_mut().as_mut_ptr();
            let to = results.tile(tiling.place(tile), group * self.kernels.breadth + column, outside);
            let from = scratch.sums.values()[i * columns..].as_ptr();
            // SAFETY: M has a row for each tile at every place; a result pixel has the panel's columns.
            unsafe { transforms::sums(from, SUM_DISTANCE, to, columns, self.clamp) };
        }
    }
}

/// Values from one place of M to the next. A cache line more than the rows, lest all places share a few sets of L1.
const SUM_DISTANCE: usize = STRIP * PANEL + 16;

/// What a task keeps.
struct Scratch {
    /// V: `[place][tile][depth]`.
    windows: Aligned,
    /// Values from one place of V to the next.
    window_distance: usize,
    /// M: `[place][tile][width]`.
    sums: Aligned,
    /// Takes results that lie outside the image.
    outside: Aligned,
}

impl Scratch {
    fn new(depth: usize) -> Self {
        let window_distance = STRIP * depth + 16;
        Self {
            windows: Aligned::new(PLACES * window_distance),
            window_distance,
            sums: Aligned::new(PLACES * SUM_DISTANCE),
            outside: Aligned::new(PANEL),
        }
    }
}
