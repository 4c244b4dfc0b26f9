//! Tables of pointers to the source pixels that a strip of pixels reads.

use std::ops::Range;

use crate::conv2d::geometry::{Geometry, Grid};

/// The source pixels of a strip: a table `[tap][pixel]`, and copies of what cannot be read in place.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) table: Vec<*const f32>,
    copies: Vec<f32>,
}

/// A tensor of pixels, and zeros that stand for pixels outside the image.
#[derive(Clone, Copy)]
pub(super) struct Pixels<'a> {
    pub(super) values: &'a [f32],
    pub(super) channels: usize,
    pub(super) zeros: &'a [f32],
}

impl Sources {
    /// Points the table to `channels` of the source pixels of `pixels`.
    ///
    /// If these are not all the channels, the slice is copied to where its pixels lie side by side: at the distance
    /// that they have in the tensor, often a multiple of a large power of two, they would compete for the same sets of
    /// the cache.
    pub(super) fn locate(&mut self, grid: &Grid, source: Pixels, channels: Range<usize>, pixels: Range<usize>) {
        let (base, first, stride) = if channels.len() == source.channels {
            (source.values.as_ptr(), 0, source.channels)
        } else {
            let range = source_pixels(grid, pixels.clone());
            self.copies.resize(range.len() * channels.len(), 0.0);
            for (to, p) in self.copies.chunks_exact_mut(channels.len()).zip(range.clone()) {
                to.copy_from_slice(&source.values[p * source.channels..][channels.clone()]);
            }
            (self.copies.as_ptr(), range.start, channels.len())
        };
        self.point(grid, base, first, stride, source.zeros.as_ptr(), pixels);
    }

    /// Points the table to the source pixels of `pixels` where they lie, from channel `first` on.
    pub(super) fn locate_in_place(&mut self, grid: &Grid, source: Pixels, first: usize, pixels: Range<usize>) {
        let base = source.values[first..].as_ptr();
        self.point(grid, base, 0, source.channels, source.zeros.as_ptr(), pixels);
    }

    /// Points the table to the source pixels of `pixels`: source pixel `p` lies `(p - first) * stride` values from `base`,
    /// and those outside the image are `outside`.
    fn point(
        &mut self,
        grid: &Grid,
        base: *const f32,
        first: usize,
        stride: usize,
        outside: *const f32,
        pixels: Range<usize>,
    ) {
        self.table.clear();
        for &tap in &grid.taps {
            let inside = grid.inside_cols(tap);
            grid.for_each_run(pixels.clone(), |image, jy, cols| {
                let Some(y) = grid.source_row(tap, jy) else {
                    self.table.extend(cols.map(|_| outside));
                    return;
                };
                let start = inside.start.clamp(cols.start, cols.end);
                let end = inside.end.clamp(start, cols.end);
                self.table.extend((cols.start..start).map(|_| outside));
                // Offset of column 0; the sum with a column that is inside is not negative.
                let row = ((image * grid.source.0 + y) * grid.source.1) as isize + tap.dx - first as isize;
                let step = (grid.source_step * stride) as isize;
                let place = |jx: usize| base.wrapping_offset(row * stride as isize + jx as isize * step);
                self.table.extend((start..end).map(place));
                self.table.extend((end..cols.end).map(|_| outside));
            });
        }
    }

    /// Points the table to rows of the kernel, `[k_y][pixel]`, `k * channels` values each.
    ///
    /// The pixels under a row of the kernel are side by side in the input; rows that reach over the left or right border
    /// are copied and completed with zeros.
    pub(super) fn locate_rows(&mut self, g: &Geometry, source: Pixels, pixels: Range<usize>) {
        let (ci, len) = (g.ci, g.k * g.ci);
        let grid = g.forward_grid();
        // Never moved while pointers into it are collected.
        self.copies.clear();
        self.copies.resize(g.k * pixels.len() * len, 0.0);
        let mut copies = self.copies.chunks_exact_mut(len);
        self.table.clear();
        // Columns whose whole window is inside.
        let inner_end = (g.w + g.left + g.stride).saturating_sub(g.k) / g.stride;
        let inner = g.left.div_ceil(g.stride)..inner_end;
        for &tap in grid.taps.iter().step_by(g.k) {
            grid.for_each_run(pixels.clone(), |image, oy, cols| {
                let Some(y) = grid.source_row(tap, oy) else {
                    self.table.extend(cols.map(|_| source.zeros.as_ptr()));
                    return;
                };
                let row = &source.values[(image * g.h + y) * g.w * ci..][..g.w * ci];
                let mut copy = |ox: usize| {
                    // There is a copy for every pixel of every row of the kernel.
                    let Some(copy) = copies.next() else { return source.zeros.as_ptr() };
                    for (kx, copy) in copy.chunks_exact_mut(ci).enumerate() {
                        let x = (ox * g.stride + kx) as isize - g.left as isize;
                        if (0..g.w as isize).contains(&x) {
                            copy.copy_from_slice(&row[x as usize * ci..][..ci]);
                        }
                    }
                    copy.as_ptr()
                };
                let start = inner.start.clamp(cols.start, cols.end);
                let end = inner.end.clamp(start, cols.end);
                self.table.extend((cols.start..start).map(&mut copy));
                let place = |ox: usize| row.as_ptr().wrapping_add((ox * g.stride - g.left) * ci);
                self.table.extend((start..end).map(place));
                self.table.extend((end..cols.end).map(&mut copy));
            });
        }
    }
}

/// A range of source pixels of the batch that holds all that `pixels` read.
fn source_pixels(grid: &Grid, pixels: Range<usize>) -> Range<usize> {
    let row = |pixel: usize, dy: Option<isize>| {
        let (image, jy) = (pixel / grid.cols / grid.rows, pixel / grid.cols % grid.rows);
        let y = (jy * grid.source_step) as isize + dy.unwrap_or(0);
        image * grid.source.0 + y.clamp(0, grid.source.0 as isize - 1) as usize
    };
    let reach = || grid.taps.iter().map(|tap| tap.dy);
    let (first, last) = (row(pixels.start, reach().min()), row(pixels.end - 1, reach().max()));
    first * grid.source.1..(last.max(first) + 1) * grid.source.1
}
