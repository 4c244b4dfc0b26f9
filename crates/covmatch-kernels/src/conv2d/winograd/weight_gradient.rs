//! Weight gradient: `dW = G^T [ sum over tiles of (A dY A^T) * (B^T D B) ] G`.
//!
//! At each of the 16 places the sum is one of outer products, `[depth, tiles] [tiles, outputs]`; those of a unit
//! ([`Units`]) stay in L2 while the tiles pass by in strips.

use std::ops::Range;

use super::tiles::{Images, Tiling};
use super::{PLACES, transforms};
use crate::conv2d::direct::micro::OuterProducts;
use crate::conv2d::geometry::Geometry;
use crate::conv2d::units::{Unit, Units};
use crate::gemm::Aligned;
use crate::gemm::micro::{PANEL, Width};

/// Tiles of a strip: their windows, their gradients and the sums are 790 KB.
const STRIP: usize = 64;

/// Values from one place to the next. A cache line more than the rows, lest all places share a few sets of L1.
const DISTANCE: usize = STRIP * PANEL + 16;

/// `dw` `[co, ci / groups, 3, 3]` from `x` and `dy`.
pub(in crate::conv2d) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let tiling = Tiling::new(g.n, (g.oh, g.ow));
    let zeros = vec![0.0; g.ci_group().max(g.co_group())];
    let tiles = tiling.count();
    let sums = Sums {
        g,
        tiling,
        x: Images { values: x, size: (g.h, g.w), channels: g.ci, zeros: &zeros },
        dy: Images { values: dy, size: (g.oh, g.ow), channels: g.co, zeros: &zeros },
    };
    Units::new(g).gradient(g, tiles, |scratch, unit, tiles| sums.of(unit, tiles, scratch))
}

/// What a task keeps between strips.
struct Scratch {
    /// `B^T D B`: `[place][tile][depth]`.
    windows: Aligned,
    /// `A dY A^T`: `[place][tile][outputs]`.
    gradients: Aligned,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { windows: Aligned::new(PLACES * DISTANCE), gradients: Aligned::new(PLACES * DISTANCE) }
    }
}

/// What the sums are made of.
struct Sums<'a> {
    g: &'a Geometry,
    tiling: Tiling,
    x: Images<'a>,
    dy: Images<'a>,
}

impl Sums<'_> {
    /// The sum of a unit over `tiles`, `[tap][depth][width]`.
    fn of(&self, unit: &Unit, tiles: Range<usize>, scratch: &mut Scratch) -> Vec<f32> {
        let (channels, width) = (unit.depth.len(), Width::of(unit.cols.len()));
        let values = channels * unit.cols.len();
        let mut sums = vec![0.0; PLACES * values];
        for start in tiles.clone().step_by(STRIP) {
            let strip = start..(start + STRIP).min(tiles.end);
            self.transform(unit, strip.clone(), scratch);
            for (place, sum) in sums.chunks_exact_mut(values).enumerate() {
                let windows = scratch.windows.values()[place * DISTANCE..].as_ptr();
                let sources: Vec<_> = (0..strip.len()).map(|tile| windows.wrapping_add(tile * channels)).collect();
                let gradient = scratch.gradients.values()[place * DISTANCE..].as_ptr();
                let (gradient_row, sum, sources) = (unit.cols.len(), sum.as_mut_ptr(), &sources);
                let products = OuterProducts { channels, width, sources, channel: 0, gradient, gradient_row, sum };
                // SAFETY: both transforms have a row for each tile of the strip, and `sum` has `channels` rows.
                unsafe { products.add() };
            }
        }
        let mut taps = vec![0.0; 9 * values];
        // SAFETY: Winograd convolution runs on machines with AVX-512 only, with whole vectors of outputs.
        unsafe { transforms::kernel_gradients(&sums, &mut taps) };
        taps
    }

    /// Transforms the windows and gradients of a strip.
    fn transform(&self, unit: &Unit, strip: Range<usize>, scratch: &mut Scratch) {
        let (channels, outputs) = (unit.depth.len(), unit.cols.len());
        let (top, left) = (self.g.top as isize, self.g.left as isize);
        let (first_in, first_out) = (unit.group * self.g.ci_group(), unit.group * self.g.co_group());
        for (i, tile) in strip.enumerate() {
            let (image, y, x) = self.tiling.place(tile);
            let window = self.x.window(image, (y - top, x - left), first_in + unit.depth.start);
            let gradient = self.dy.window(image, (y, x), first_out + unit.cols.start);
            let windows = scratch.windows.values_mut()[i * channels..].as_mut_ptr();
            let gradients = scratch.gradients.values_mut()[i * outputs..].as_mut_ptr();
            // SAFETY: AVX-512 as above; pixels have the unit's channels, a multiple of 16, and there is a row for each tile.
            unsafe {
                transforms::window(window, windows, DISTANCE, channels);
                transforms::sum_gradients(gradient, gradients, DISTANCE, outputs);
            }
        }
    }
}
