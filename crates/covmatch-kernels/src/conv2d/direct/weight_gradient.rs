//! Weight gradient of direct convolution: `dw[co, ci, tap] = sum over output pixels p of dy[p, co] x[source(p, tap), ci]`.
//!
//! The k x k sums of a unit ([`Units`]) stay in L2 while the pixels pass by in strips.

use std::ops::Range;

use super::micro::OuterProducts;
use super::sources::{Pixels, Sources};
use crate::conv2d::geometry::{Geometry, Grid};
use crate::conv2d::units::{Unit, Units};
use crate::gemm::micro::Width;

/// Pixels of a strip: 64 channels of the gradient and, for one tap, of the input fit L1.
const STRIP: usize = 72;

/// `dw` `[co, ci / groups, k, k]` from `x` and `dy`.
pub(in crate::conv2d) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let units = Units::new(g);
    let zeros = vec![0.0; units.depth];
    let x = Pixels { values: x, channels: g.ci, zeros: &zeros };
    let sums = Sums { g, grid: g.forward_grid(), taps: units.taps, x, dy };
    units.gradient(g, g.out_pixels(), |scratch, unit, pixels| sums.of(unit, pixels, scratch))
}

/// What a task keeps between strips.
#[derive(Default)]
struct Scratch {
    sources: Sources,
    /// The unit's columns of the gradient, side by side.
    gradient: Vec<f32>,
}

/// What the sums are made of.
struct Sums<'a> {
    g: &'a Geometry,
    grid: Grid,
    taps: usize,
    x: Pixels<'a>,
    dy: &'a [f32],
}

impl Sums<'_> {
    /// The sum of a unit over `pixels`, `[tap][depth][width]`.
    fn of(&self, unit: &Unit, pixels: Range<usize>, scratch: &mut Scratch) -> Vec<f32> {
        let Unit { depth, cols, .. } = unit;
        let width = Width::of(cols.len());
        let tap_size = depth.len() * width.vectors() * 16;
        let mut sum = vec![0.0; self.taps * tap_size];
        for start in pixels.clone().step_by(STRIP) {
            let strip = start..(start + STRIP).min(pixels.end);
            let Scratch { sources, gradient } = scratch;
            let channel = self.locate(unit, strip.clone(), sources);
            let gradient = self.columns(unit, strip.clone(), gradient);
            for (sources, sum) in sources.table.chunks_exact(strip.len()).zip(sum.chunks_exact_mut(tap_size)) {
                let (gradient, gradient_row, sum) = (gradient.as_ptr(), cols.len(), sum.as_mut_ptr());
                let products =
                    OuterProducts { channels: depth.len(), width, sources, channel, gradient, gradient_row, sum };
                // SAFETY: sources have the unit's depth, the gradient has the strip's pixels with the unit's columns, and
                // `sum` has `depth` rows of the panel's width.
                unsafe { products.add() };
            }
        }
        sum
    }

    /// Points `sources` to what the strip reads; returns how many values to skip from there.
    fn locate(&self, unit: &Unit, strip: Range<usize>, sources: &mut Sources) -> usize {
        if self.g.taps_are_rows() {
            sources.locate_rows(self.g, self.x, strip);
            return unit.depth.start;
        }
        let first = unit.group * self.g.ci_group();
        sources.locate(&self.grid, self.x, first + unit.depth.start..first + unit.depth.end, strip);
        0
    }

    /// The unit's columns of the strip's gradient, in `copy` unless they lie side by side.
    fn columns<'b>(&'b self, unit: &Unit, strip: Range<usize>, copy: &'b mut Vec<f32>) -> &'b [f32] {
        let g = self.g;
        if unit.cols.len() == g.co {
            return &self.dy[strip.start * g.co..];
        }
        copy.clear();
        for p in strip {
            copy.extend_from_slice(&self.dy[p * g.co + unit.group * g.co_group()..][unit.cols.clone()]);
        }
        copy
    }
}
