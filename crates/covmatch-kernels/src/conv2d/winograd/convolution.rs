//! A convolution by tiles.
//!
//! ```text
//! task: a group, a strip of tiles                                (rayon)
//!   windows: V[place][tile][depth] = B^T D B
//!   panel of 64 outputs
//!     for each place: M[tile][64] = V[tile][depth] U[depth][64]  the micro-kernel of matrix products, all in L2
//!     tiles: Y = A^T M A
//! ```
//! If there is one panel only, M takes the place of V: the micro-kernel reads a block's rows before it writes them.

use std::ops::Range;

use rayon::prelude::*;

use super::kernels::{Kernels, Panel};
use super::matrices::{Tile, Winograd};
use super::tiles::{Images, Results, Tiling};
use super::transforms;
use crate::conv2d::packed::Packed;
use crate::gemm::micro::{Init, PANEL, Rows};
use crate::gemm::stream::{finish_streaming, should_stream};
use crate::gemm::{Aligned, Clamp, SharedMut, uninit};

/// `clamp(conv(source, packed) + bias)`.
pub(super) struct Convolution<'a> {
    pub(super) source: Images<'a>,
    /// Rows above and columns left of the source that the first window reads.
    pub(super) corner: (isize, isize),
    pub(super) groups: usize,
    pub(super) packed: Packed,
    /// Which tap of `packed` a tap of the kernel is.
    pub(super) order: fn(usize) -> usize,
    /// A value for every channel of the results.
    pub(super) bias: &'a [f32],
    pub(super) clamp: Clamp,
    /// Images.
    pub(super) n: usize,
    /// Height and width of the results.
    pub(super) size: (usize, usize),
}

impl Convolution<'_> {
    /// The results, by tiles of `OUT` x `OUT`.
    pub(super) fn by_tiles<const OUT: usize, const WINDOW: usize>(&self) -> Vec<f32>
    where
        Winograd: Tile<OUT, WINDOW>,
    {
        let kernels = Kernels::new(self.groups, &self.packed, self.order);
        let mut y = uninit(self.n * self.size.0 * self.size.1 * self.bias.len());
        let (tiles, size, channels) = (Tiling::new(OUT, self.n, self.size), self.size, self.bias.len());
        // What lies outside the images is written to one pixel again and again, which is no stream.
        let streamed = tiles.is_exact(size) && should_stream(y.as_ptr(), channels, y.len());
        let results = Results { values: SharedMut(y.as_mut_ptr()), size, channels, streamed };
        Tiled::<OUT, WINDOW> { convolution: self, kernels, tiles, results }.compute();
        y
    }
}

/// A convolution by tiles of `OUT` x `OUT` results.
struct Tiled<'a, const OUT: usize, const WINDOW: usize> {
    convolution: &'a Convolution<'a>,
    kernels: Kernels<OUT, WINDOW>,
    tiles: Tiling,
    results: Results,
}

impl<const OUT: usize, const WINDOW: usize> Tiled<'_, OUT, WINDOW>
where
    Winograd: Tile<OUT, WINDOW>,
{
    /// Writes the results.
    fn compute(&self) {
        let count = self.tiles.count();
        let strips = count.div_ceil(<Winograd as Tile<OUT, WINDOW>>::STRIP);
        (0..self.convolution.groups * strips).into_par_iter().with_max_len(1).for_each_init(
            || Scratch::new(&self.kernels),
            |scratch, task| {
                let (group, strip) = (task / strips, task % strips);
                let tiles = count * strip / strips..count * (strip + 1) / strips;
                self.transform_windows(group, tiles.clone(), scratch);
                for panel in self.kernels.panels(group) {
                    self.multiply(panel, tiles.len(), scratch);
                    // SAFETY: every task has its own tiles and group.
                    unsafe { self.transform_sums(group, panel, tiles.clone(), scratch) };
                }
                if self.results.streamed {
                    finish_streaming();
                }
            },
        );
    }

    /// `V = B^T D B`.
    fn transform_windows(&self, group: usize, tiles: Range<usize>, scratch: &mut Scratch) {
        let (depth, corner) = (self.kernels.depth, self.convolution.corner);
        for (i, tile) in tiles.enumerate() {
            let (image, y, x) = self.tiles.place(tile);
            let window = self.convolution.source.window(image, (y - corner.0, x - corner.1), group * depth);
            let to = scratch.values.values_mut()[i * scratch.row..].as_mut_ptr();
            // SAFETY: a window's pixels have `depth` values, and every place of V one row for each tile.
            unsafe { transforms::window::<OUT, WINDOW>(&window, to, scratch.distance, depth) };
        }
    }

    /// `M = V U` at every place.
    fn multiply(&self, panel: Panel, n: usize, scratch: &mut Scratch) {
        let (width, kc, row) = (panel.width, self.kernels.depth, scratch.row);
        let values = scratch.values.values_mut().as_mut_ptr();
        for (place, kernels) in panel.values.chunks_exact(kc * width.vectors() * 16).enumerate() {
            let a = values.wrapping_add(place * scratch.distance);
            let c = a.wrapping_add(scratch.sums);
            let (b, init, clamp) = (kernels.as_ptr(), Init::Zero, Clamp::NONE);
            // SAFETY: V has n rows of kc values at every place, U kc rows of the panel's columns, M room for n rows. M
            // is apart from V or has its rows where V has them.
            unsafe { Rows { n, width, kc, a, a_row: row, a_step: 1, b, c, c_row: row, init, clamp }.compute() };
        }
    }

    /// `Y = clamp(A^T M A + bias)`.
    ///
    /// # Safety
    /// The results of `tiles` in the panel are the caller's.
    unsafe fn transform_sums(&self, group: usize, panel: Panel, tiles: Range<usize>, scratch: &mut Scratch) {
        let Convolution { bias, clamp, .. } = *self.convolution;
        let first = group * self.kernels.breadth + panel.column;
        let bias = &bias[first..first + panel.width.vectors() * 16];
        for (i, tile) in tiles.enumerate() {
            let outside = scratch.outside.values_mut().as_mut_ptr();
            let to = self.results.tile(self.tiles.place(tile), first, outside);
            let from = scratch.values.values()[scratch.sums + i * scratch.row..].as_ptr();
            // SAFETY: M has a row for each tile at every place; a result pixel has the panel's columns, whole vectors
            // that start a cache line if streamed.
            unsafe { transforms::sums::<OUT, WINDOW>((from, scratch.distance), &to, bias, clamp) };
        }
    }
}

/// What a task keeps.
struct Scratch {
    /// V, `[place][tile][depth]`, and M, `[place][tile][width]`.
    values: Aligned,
    /// Values from one tile to the next.
    row: usize,
    /// Values from one place to the next.
    distance: usize,
    /// Where M starts.
    sums: usize,
    /// Takes results that lie outside the image.
    outside: Aligned,
}

impl Scratch {
    fn new<const OUT: usize, const WINDOW: usize>(kernels: &Kernels<OUT, WINDOW>) -> Self
    where
        Winograd: Tile<OUT, WINDOW>,
    {
        let row = kernels.depth.max(kernels.breadth.min(PANEL));
        // A cache line more than the rows, lest all places share a few sets of L1.
        let distance = <Winograd as Tile<OUT, WINDOW>>::STRIP * row + 16;
        let size = WINDOW * WINDOW * distance;
        let sums = if kernels.breadth <= PANEL { 0 } else { size };
        Self { values: Aligned::new(sums + size), row, distance, sums, outside: Aligned::new(PANEL) }
    }
}
