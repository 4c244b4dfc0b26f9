//! Transformed kernels `U = G W G^T`.

use rayon::prelude::*;

use super::matrices::{Tile, Winograd};
use super::transforms;
use crate::conv2d::packed::Packed;
use crate::gemm::Aligned;
use crate::gemm::micro::{PANEL, Width};

/// Transformed kernels for tiles of `OUT` x `OUT` results: `[group][panel][place][depth][width]`.
pub(super) struct Kernels<const OUT: usize, const WINDOW: usize> {
    values: Aligned,
    /// What is summed over.
    pub(super) depth: usize,
    /// What is computed.
    pub(super) breadth: usize,
}

/// Columns of a group that are computed at a time.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    /// The first column.
    pub(super) column: usize,
    pub(super) width: Width,
    /// U: `[place][depth][width]`.
    pub(super) values: &'a [f32],
}

impl<const OUT: usize, const WINDOW: usize> Kernels<OUT, WINDOW>
where
    Winograd: Tile<OUT, WINDOW>,
{
    const PLACES: usize = WINDOW * WINDOW;

    /// Transforms `packed`, with tap `order(i)` in the place of tap `i`.
    pub(super) fn new(groups: usize, packed: &Packed, order: fn(usize) -> usize) -> Self {
        let (depth, breadth) = (packed.depth(), packed.breadth());
        let group_size = Self::PLACES * depth * breadth;
        let mut values = Aligned::new(groups * group_size);
        values.values_mut()[..groups * group_size].par_chunks_mut(group_size).enumerate().for_each(
            |(group, values)| {
                values.par_chunks_mut(Self::PLACES * depth * PANEL).enumerate().for_each(|(panel, to)| {
                    let (_, _, from) = packed.panel(group, panel);
                    // SAFETY: Winograd convolution runs on machines with AVX-512 only; both have `depth` x width
                    // values for every tap and place.
                    unsafe { transforms::kernels::<OUT, WINDOW>(from, to, order) };
                });
            },
        );
        Self { values, depth, breadth }
    }

    /// The panels of a group.
    pub(super) fn panels(&self, group: usize) -> impl Iterator<Item = Panel<'_>> {
        (0..self.breadth).step_by(PANEL).map(move |column| {
            let width = Width::of(PANEL.min(self.breadth - column));
            let per_column = Self::PLACES * self.depth;
            let first = (group * self.breadth + column) * per_column;
            Panel { column, width, values: &self.values.values()[first..first + per_column * width.vectors() * 16] }
        })
    }
}
