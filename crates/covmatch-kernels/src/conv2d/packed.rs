//! Weights in the layout that the micro-kernels read: panels of up to 64 outputs.

use rayon::prelude::*;

use super::geometry::Geometry;
use crate::gemm::micro::{PANEL, Width};
use crate::gemm::{transpose, uninit};

/// Packed weights: `[group][panel][tap][depth][width]`.
///
/// `depth` is what is summed over and `breadth` what is computed: input and output channels of a group for the forward
/// pass, the other way round for the input gradient. A panel has 64 columns of `breadth`, the last one what is left,
/// rounded up to whole vectors.
pub(super) struct Packed {
    values: Vec<f32>,
    taps: usize,
    depth: usize,
    breadth: usize,
}

impl Packed {
    /// Packs `[co, ci / groups, k, k]` for the forward pass.
    pub(super) fn forward(g: &Geometry, w: &[f32]) -> Self {
        let (depth, taps) = (g.ci_group(), g.taps());
        Self::fill(g.groups, taps, depth, g.co_group(), |group, cols, width, out| {
            // [cols, depth, taps] to [depth, taps, cols], a few channels at a time, then [taps, depth, cols].
            let chunk = 16.min(depth);
            let mut block = vec![0.0; chunk * taps * width];
            for d0 in (0..depth).step_by(chunk) {
                let len = chunk.min(depth - d0);
                let first = ((group * g.co_group() + cols.start) * depth + d0) * taps;
                transpose(&w[first..], cols.len(), len * taps, depth * taps, &mut block, width);
                for d in 0..len {
                    for tap in 0..taps {
                        let to = (tap * depth + d0 + d) * width;
                        out[to..to + width].copy_from_slice(&block[(d * taps + tap) * width..][..width]);
                    }
                }
            }
        })
    }

    /// Packs `[co, ci / groups, k, k]` for the input gradient.
    pub(super) fn input_gradient(g: &Geometry, w: &[f32]) -> Self {
        let (depth, breadth, taps) = (g.co_group(), g.ci_group(), g.taps());
        Self::fill(g.groups, taps, depth, breadth, |group, cols, width, out| {
            for d in 0..depth {
                // [cols, taps] to [taps, cols]
                let source = &w[((group * depth + d) * breadth + cols.start) * taps..][..cols.len() * taps];
                for tap in 0..taps {
                    let row = &mut out[(tap * depth + d) * width..][..width];
                    row[cols.len()..].fill(0.0);
                    for (v, source) in row.iter_mut().zip(source.chunks_exact(taps)) {
                        *v = source[tap];
                    }
                }
            }
        })
    }

    fn fill(
        groups: usize,
        taps: usize,
        depth: usize,
        breadth: usize,
        pack: impl Fn(usize, std::ops::Range<usize>, usize, &mut [f32]) + Sync,
    ) -> Self {
        let padded = breadth.next_multiple_of(16);
        let mut values = uninit(groups * taps * depth * padded);
        values.par_chunks_mut(taps * depth * padded).enumerate().for_each(|(group, values)| {
            values.par_chunks_mut(taps * depth * PANEL).enumerate().for_each(|(panel, out)| {
                let cols = panel * PANEL..((panel + 1) * PANEL).min(breadth);
                let width = Width::of(cols.len()).vectors() * 16;
                pack(group, cols, width, out);
            });
        });
        Self { values, taps, depth, breadth }
    }

    /// What is summed over.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// What is computed.
    pub(super) fn breadth(&self) -> usize {
        self.breadth
    }

    /// Panels of a group.
    pub(super) fn panels(&self) -> usize {
        self.breadth.div_ceil(PANEL)
    }

    /// First column, width and values of a panel.
    pub(super) fn panel(&self, group: usize, panel: usize) -> (usize, Width, &[f32]) {
        let (start, per_column) = (panel * PANEL, self.taps * self.depth);
        let width = Width::of(PANEL.min(self.breadth - start));
        let first = (group * self.breadth.next_multiple_of(16) + start) * per_column;
        (start, width, &self.values[first..first + per_column * width.vectors() * 16])
    }
}
