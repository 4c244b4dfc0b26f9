//! Which pixels of a row use which taps.
//!
//! Rows of a grid differ only in the taps that fall above or below the source. Along a row, the pixels in the middle
//! use every tap, and those near the borders some: a row is cut into a middle run and border runs, and each tap of a
//! border run has a mask of the pixels it serves. The cut is the same for every row and made once.

use std::ops::Range;

use crate::conv2d::geometry::{Grid, Tap};

/// Border runs have whole blocks of this many pixels where the row is long enough.
const BLOCK: usize = 6;

/// Most pixels of a border run, so that a mask holds them.
const LONGEST: usize = 24;

/// How the rows of a grid are computed.
pub(super) struct Plan {
    grid: Grid,
    channels: usize,
    lanes: usize,
    runs: Vec<Columns>,
}

/// A run of columns, and for each tap that reads inside for any of them, which.
struct Columns {
    cols: Range<usize>,
    taps: Vec<(Tap, u32)>,
    border: bool,
}

/// A tap of a run: what it reads for the run's first pixel, as elements from the start of the source; where its weights
/// start; and a bit for each pixel of the run that it serves.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    pub(super) source: isize,
    pub(super) weights: usize,
    pub(super) mask: u32,
}

/// A run of pixels of one row.
pub(super) struct Run<'a> {
    /// How many.
    pub(super) pixels: usize,
    pub(super) taps: &'a [Reach],
    /// Whether a tap may serve some pixels only.
    pub(super) border: bool,
    /// Elements from one pixel's source to the next.
    pub(super) source_step: usize,
    /// The first pixel, as elements from the start of its tensor.
    pub(super) pixel: usize,
    /// Elements from one pixel to the next.
    pub(super) step: usize,
    /// Elements from a row of the source to the same place in the row that the next row of pixels starts with.
    pub(super) next_row: usize,
}

impl Plan {
    /// The plan for tensors of `channels` channels and weights `[tap][lanes]`.
    pub(super) fn new(grid: Grid, channels: usize, lanes: usize) -> Self {
        // Columns for which every tap reads inside.
        let inner = grid.taps.iter().fold(0..grid.cols, |inner, tap| {
            let inside = grid.inside_cols(*tap);
            inner.start.max(inside.start)..inner.end.min(inside.end)
        });
        let left = inner.start.next_multiple_of(BLOCK);
        let right = grid.cols.saturating_sub((grid.cols - inner.end).next_multiple_of(BLOCK));
        let mut runs = Vec::new();
        let mut border = |cols: Range<usize>| {
            let pieces = cols.len().div_ceil(LONGEST);
            for i in 0..pieces {
                let piece = cols.start + cols.len() * i / pieces..cols.start + cols.len() * (i + 1) / pieces;
                runs.push(Columns { taps: masks(&grid, &piece), cols: piece, border: true });
            }
        };
        if left < right {
            border(0..left);
            border(right..grid.cols);
            let taps = grid.taps.iter().map(|tap| (*tap, u32::MAX)).collect();
            runs.insert(runs.len().min(1), Columns { cols: left..right, taps, border: false });
        } else {
            border(0..grid.cols);
        }
        Self { grid, channels, lanes, runs }
    }

    /// Rows of the grid in an image.
    pub(super) fn rows(&self) -> usize {
        self.grid.rows
    }

    /// Calls `f` for the runs of row `j_y` in one image; `taps` is scratch.
    pub(super) fn for_each_run(&self, image: usize, jy: usize, taps: &mut Vec<Reach>, mut f: impl FnMut(Run)) {
        let (grid, c) = (&self.grid, self.channels);
        let (height, width) = grid.source;
        for run in &self.runs {
            taps.clear();
            let first = (run.cols.start * grid.source_step) as isize;
            for &(tap, mask) in &run.taps {
                if let Some(y) = grid.source_row(tap, jy) {
                    let row = ((image * height + y) * width) as isize;
                    let source = (row + first + tap.dx) * c as isize;
                    taps.push(Reach { source, weights: tap.index * self.lanes, mask });
                }
            }
            f(Run {
                pixels: run.cols.len(),
                taps,
                border: run.border,
                source_step: grid.source_step * c,
                pixel: grid.position(image, jy, run.cols.start) * c,
                step: grid.step * c,
                next_row: grid.source_step * width * c,
            });
        }
    }
}

/// The taps that read inside for some of `cols`, and for which.
fn masks(grid: &Grid, cols: &Range<usize>) -> Vec<(Tap, u32)> {
    let mask = |tap: &Tap| {
        let inside = grid.inside_cols(*tap);
        cols.clone().enumerate().filter(|(_, jx)| inside.contains(jx)).fold(0_u32, |mask, (i, _)| mask | 1 << i)
    };
    grid.taps.iter().map(|tap| (*tap, mask(tap))).filter(|(_, mask)| *mask != 0).collect()
}
