//! Weight gradient: `dW = G^T [ sum over tiles of (A dY A^T) * (B^T D B) ] G`.
//!
//! At each place the sum is one of outer products, `[depth, tiles] [tiles, outputs]`; those of a unit
//! ([`Units`]) stay in L2 while the tiles pass by in strips.

use std::ops::Range;

use super::matrices::{Tile, Winograd};
use super::tiles::{Images, Tiling};
use super::transforms;
use crate::conv2d::direct::micro::OuterProducts;
use crate::conv2d::geometry::Geometry;
use crate::conv2d::units::{Unit, Units};
use crate::gemm::Aligned;
use crate::gemm::micro::{PANEL, Width};

/// `dw` `[co, ci / groups, 3, 3]` from `x` and `dy`, by tiles of `OUT` x `OUT` results.
pub(super) fn by_tiles<const OUT: usize, const WINDOW: usize>(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32>
where
    Winograd: Tile<OUT, WINDOW>,
{
    let zeros = vec![0.0; g.ci_group().max(g.co_group())];
    let sums = Sums::<OUT, WINDOW> {
        g,
        tiles: Tiling::new(OUT, g.n, (g.oh, g.ow)),
        x: Images { values: x, size: (g.h, g.w), channels: g.ci, zeros: &zeros },
        dy: Images { values: dy, size: (g.oh, g.ow), channels: g.co, zeros: &zeros },
    };
    Units::new(g).gradient(g, sums.tiles.count(), |scratch, unit, tiles| sums.of(unit, tiles, scratch))
}

/// What a task keeps between strips.
struct Scratch<const OUT: usize, const WINDOW: usize> {
    /// `B^T D B`: `[place][tile][depth]`.
    windows: Aligned,
    /// `A dY A^T`: `[place][tile][outputs]`.
    gradients: Aligned,
    /// `dU`: `[place][depth][outputs]`.
    sums: Aligned,
}

impl<const OUT: usize, const WINDOW: usize> Default for Scratch<OUT, WINDOW>
where
    Winograd: Tile<OUT, WINDOW>,
{
    fn default() -> Self {
        let places = WINDOW * WINDOW;
        let strip = || Aligned::new(places * Sums::<OUT, WINDOW>::DISTANCE);
        Self { windows: strip(), gradients: strip(), sums: Aligned::new(places * PANEL * PANEL) }
    }
}

/// What the sums are made of.
struct Sums<'a, const OUT: usize, const WINDOW: usize> {
    g: &'a Geometry,
    tiles: Tiling,
    x: Images<'a>,
    dy: Images<'a>,
}

impl<const OUT: usize, const WINDOW: usize> Sums<'_, OUT, WINDOW>
where
    Winograd: Tile<OUT, WINDOW>,
{
    const STRIP: usize = <Winograd as Tile<OUT, WINDOW>>::GRADIENT_STRIP;

    /// Values from one place to the next. A cache line more than the rows, lest all places share a few sets of L1.
    const DISTANCE: usize = Self::STRIP * PANEL + 16;

    /// The sum of a unit over `tiles`, `[tap][depth][width]`.
    fn of(&self, unit: &Unit, tiles: Range<usize>, scratch: &mut Scratch<OUT, WINDOW>) -> Vec<f32> {
        let values = unit.depth.len() * unit.cols.len();
        let size = WINDOW * WINDOW * values;
        scratch.sums.values_mut()[..size].fill(0.0);
        for start in tiles.clone().step_by(Self::STRIP) {
            let strip = start..(start + Self::STRIP).min(tiles.end);
            self.transform(unit, strip.clone(), scratch);
            Self::add_products(unit, strip.len(), scratch);
        }
        let mut taps = vec![0.0; 9 * values];
        // SAFETY: Winograd convolution runs on machines with AVX-512 only, with whole vectors of outputs.
        unsafe { transforms::kernel_gradients::<OUT, WINDOW>(&scratch.sums.values()[..size], &mut taps) };
        taps
    }

    /// Adds the outer products of the transforms of a strip's `n` tiles.
    fn add_products(unit: &Unit, n: usize, scratch: &mut Scratch<OUT, WINDOW>) {
        let (channels, outputs, width) = (unit.depth.len(), unit.cols.len(), Width::of(unit.cols.len()));
        let (windows, gradients) = (scratch.windows.values().as_ptr(), scratch.gradients.values().as_ptr());
        let sources: Vec<_> = (0..n).map(|tile| windows.wrapping_add(tile * channels)).collect();
        let places = scratch.sums.values_mut().chunks_exact_mut(channels * outputs).take(WINDOW * WINDOW);
        for (place, sum) in places.enumerate() {
            let products = OuterProducts {
                channels,
                width,
                sources: &sources,
                channel: place * Self::DISTANCE,
                gradient: gradients.wrapping_add(place * Self::DISTANCE),
                gradient_row: outputs,
                sum: sum.as_mut_ptr(),
            };
            // SAFETY: both transforms have a row for each tile of the strip, and `sum` has `channels` rows.
            unsafe { products.add() };
        }
    }

    /// Transforms the windows and gradients of a strip.
    fn transform(&self, unit: &Unit, strip: Range<usize>, scratch: &mut Scratch<OUT, WINDOW>) {
        let (channels, outputs) = (unit.depth.len(), unit.cols.len());
        let (top, left) = (self.g.top as isize, self.g.left as isize);
        let (first_in, first_out) = (unit.group * self.g.ci_group(), unit.group * self.g.co_group());
        for (i, tile) in strip.enumerate() {
            let (image, y, x) = self.tiles.place(tile);
            let window = self.x.window(image, (y - top, x - left), first_in + unit.depth.start);
            let gradient = self.dy.window(image, (y, x), first_out + unit.cols.start);
            let windows = scratch.windows.values_mut()[i * channels..].as_mut_ptr();
            let gradients = scratch.gradients.values_mut()[i * outputs..].as_mut_ptr();
            // SAFETY: AVX-512 as above; pixels have the unit's channels, a multiple of 16, and there is a row for each
            // tile.
            unsafe {
                transforms::window::<OUT, WINDOW>(&window, windows, Self::DISTANCE, channels);
                transforms::sum_gradients::<OUT, WINDOW>(&gradient, gradients, Self::DISTANCE, outputs);
            }
        }
    }
}
