//! Sizes of one convolution, and which source pixel each position of the kernel reads.

use super::{Conv2dOptions, Padding};

/// The sizes of one call of [`conv2d`](super::conv2d()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Images.
    pub(crate) n: usize,
    /// Input height, width and channels.
    pub(crate) h: usize,
    pub(crate) w: usize,
    pub(crate) ci: usize,
    /// Output height, width and channels.
    pub(crate) oh: usize,
    pub(crate) ow: usize,
    pub(crate) co: usize,
    /// Side of the kernel.
    pub(crate) k: usize,
    /// Step between two output pixels.
    pub(crate) stride: usize,
    /// Rows of zeros above and columns of zeros left of the input.
    pub(crate) top: usize,
    pub(crate) left: usize,
    /// Independent groups of channels.
    pub(crate) groups: usize,
}

impl Geometry {
    /// The sizes for an input `[n, h, w, ci]` and a weight `[co, ci / groups, k, k]`.
    ///
    /// # Panics
    /// If the shapes do not fit each other.
    pub(crate) fn new(x: [usize; 4], weight: [usize; 4], options: Conv2dOptions) -> Self {
        let ([n, h, w, ci], [co, ci_group, k, k_width]) = (x, weight);
        let Conv2dOptions { stride, padding, groups, .. } = options;
        assert!(n > 0, "conv2d: empty batch");
        assert!(k > 0 && k == k_width, "conv2d: the kernel is {k} x {k_width}, but must be square");
        assert!(stride > 0, "conv2d: stride 0");
        assert!(
            groups > 0 && ci > 0 && ci == ci_group * groups && co > 0 && co % groups == 0,
            "conv2d: input of {ci} channels does not fit a weight of shape {weight:?} in {groups} groups"
        );
        assert!(h > 0 && w > 0, "conv2d: empty image of {h} x {w} pixels");
        let out = |size: usize, padding: Padding| {
            let (before, after) = padding.amounts(size, k, stride);
            let padded = size + before + after;
            assert!(padded >= k, "conv2d: a kernel of {k} does not fit an image of {h} x {w} pixels with {padding:?}");
            (before, (padded - k) / stride + 1)
        };
        let ((top, oh), (left, ow)) = (out(h, padding), out(w, padding));
        Self { n, h, w, ci, oh, ow, co, k, stride, top, left, groups }
    }

    /// Input channels of a group.
    pub(crate) fn ci_group(&self) -> usize {
        self.ci / self.groups
    }

    /// Output channels of a group.
    pub(crate) fn co_group(&self) -> usize {
        self.co / self.groups
    }

    /// Positions of the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.k * self.k
    }

    /// Whether a row of the kernel counts as one tap: with so few channels a single tap is too short to be worth a step.
    pub(crate) fn taps_are_rows(&self) -> bool {
        self.groups == 1 && self.ci < 8
    }

    /// Output pixels of the batch.
    pub(crate) fn out_pixels(&self) -> usize {
        self.n * self.oh * self.ow
    }

    /// Input pixels of the batch.
    pub(crate) fn in_pixels(&self) -> usize {
        self.n * self.h * self.w
    }

    /// Whether the convolution is a matrix product of the pixels as they lie.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.k == 1 && self.stride == 1 && self.groups == 1 && (self.oh, self.ow) == (self.h, self.w)
    }

    /// Whether each channel is convolved by itself.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.groups == self.ci && self.ci == self.co && self.groups > 1
    }

    /// How output pixels read input pixels.
    pub(crate) fn forward_grid(&self) -> Grid {
        let place = |tap: usize| Tap {
            dy: (tap / self.k) as isize - self.top as isize,
            dx: (tap % self.k) as isize - self.left as isize,
            index: tap,
        };
        Grid {
            rows: self.oh,
            cols: self.ow,
            origin: (0, 0),
            step: 1,
            image: (self.oh, self.ow),
            source_step: self.stride,
            source: (self.h, self.w),
            taps: (0..self.taps()).map(place).collect(),
        }
    }

    /// How the gradient of input pixels reads the gradient of output pixels.
    ///
    /// Input pixel `i` was read by output pixel `o` through tap `k` if `o * stride + k - pad = i`. Pixels with the same
    /// remainder of `i / stride` use the same taps, so there is one grid for each of the `stride^2` remainders; together
    /// they cover the input. A grid may have no tap: nothing read its pixels.
    pub(crate) fn input_gradient_grids(&self) -> Vec<Grid> {
        let s = self.stride;
        // (offset, tap) along one dimension: source o = j + offset for input pixel i = remainder + s * j.
        let along = |remainder: usize, pad: usize| -> Vec<(isize, usize)> {
            (0..self.k)
                .filter(|tap| (remainder + pad + self.k * s - tap).is_multiple_of(s))
                .map(|tap| (((remainder + pad) as isize - tap as isize) / s as isize, tap))
                .collect()
        };
        let mut grids = Vec::new();
        for ry in 0..s.min(self.h) {
            for rx in 0..s.min(self.w) {
                let mut taps = Vec::new();
                for &(dy, ky) in &along(ry, self.top) {
                    for &(dx, kx) in &along(rx, self.left) {
                        taps.push(Tap { dy, dx, index: ky * self.k + kx });
                    }
                }
                grids.push(Grid {
                    rows: (self.h - ry).div_ceil(s),
                    cols: (self.w - rx).div_ceil(s),
                    origin: (ry, rx),
                    step: s,
                    image: (self.h, self.w),
                    source_step: 1,
                    source: (self.oh, self.ow),
                    taps,
                });
            }
        }
        grids
    }
}

/// One position of the kernel: where it reads, relative to a pixel's place in the source, and which weight it uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    pub(crate) dy: isize,
    pub(crate) dx: isize,
    /// Row-major index into the kernel.
    pub(crate) index: usize,
}

/// A regular grid of pixels of an image, all of which read a source image through the same taps.
///
/// Pixel `(j_y, j_x)` lies at `origin + step * (j_y, j_x)` of its image and reads `source_step * (j_y, j_x) + (dy, dx)`
/// of the source for each tap, or zero where that lies outside.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) origin: (usize, usize),
    pub(crate) step: usize,
    pub(crate) image: (usize, usize),
    pub(crate) source_step: usize,
    pub(crate) source: (usize, usize),
    pub(crate) taps: Vec<Tap>,
}

impl Grid {
    /// Pixels of the grid in a batch of `n` images.
    pub(crate) fn pixels(&self, n: usize) -> usize {
        n * self.rows * self.cols
    }

    /// Position, in pixels of the batch, of grid pixel `(j_y, j_x)` of image `n`.
    pub(crate) fn position(&self, n: usize, jy: usize, jx: usize) -> usize {
        let (y, x) = (self.origin.0 + self.step * jy, self.origin.1 + self.step * jx);
        (n * self.image.0 + y) * self.image.1 + x
    }

    /// The source row that `tap` reads for grid row `j_y`, if it is inside.
    pub(crate) fn source_row(&self, tap: Tap, jy: usize) -> Option<usize> {
        let y = (self.source_step * jy) as isize + tap.dy;
        (0..self.source.0 as isize).contains(&y).then_some(y as usize)
    }

    /// The grid columns for which `tap` reads inside the source.
    pub(crate) fn inside_cols(&self, tap: Tap) -> std::ops::Range<usize> {
        let step = self.source_step as isize;
        // j * step + dx >= 0 and j * step + dx < width.
        let lo = (-tap.dx).max(0).unsigned_abs().div_ceil(self.source_step);
        let hi = (self.source.1 as isize - tap.dx + step - 1).max(0) / step;
        let hi = (hi as usize).min(self.cols);
        lo.min(hi)..hi
    }

    /// Calls `f(image, j_y, columns)` for the runs of consecutive columns that make up `pixels` (in row-major order).
    pub(crate) fn for_each_run(
        &self,
        pixels: std::ops::Range<usize>,
        mut f: impl FnMut(usize, usize, std::ops::Range<usize>),
    ) {
        let mut p = pixels.start;
        while p < pixels.end {
            let (row, jx) = (p / self.cols, p % self.cols);
            let len = (self.cols - jx).min(pixels.end - p);
            f(row / self.rows, row % self.rows, jx..jx + len);
            p += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(h: usize, k: usize, stride: usize, padding: Padding) -> Geometry {
        let options = Conv2dOptions { stride, padding, ..Default::default() };
        Geometry::new([1, h, h + 1, 2], [3, 2, k, k], options)
    }

    /// Pairs (output pixel, input pixel, tap), from the definition.
    fn pairs(g: &Geometry) -> Vec<(usize, usize, usize)> {
        let mut pairs = Vec::new();
        for (oy, ox) in (0..g.oh).flat_map(|y| (0..g.ow).map(move |x| (y, x))) {
            for tap in 0..g.taps() {
                let y = (oy * g.stride + tap / g.k) as isize - g.top as isize;
                let x = (ox * g.stride + tap % g.k) as isize - g.left as isize;
                if (0..g.h as isize).contains(&y) && (0..g.w as isize).contains(&x) {
                    pairs.push((oy * g.ow + ox, y as usize * g.w + x as usize, tap));
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    /// Pairs (grid pixel, source pixel, tap) of one image.
    fn grid_pairs(grid: &Grid) -> Vec<(usize, usize, usize)> {
        let mut pairs = Vec::new();
        for jy in 0..grid.rows {
            for &tap in &grid.taps {
                let Some(y) = grid.source_row(tap, jy) else { continue };
                for jx in grid.inside_cols(tap) {
                    let x = (jx * grid.source_step) as isize + tap.dx;
                    assert!((0..grid.source.1 as isize).contains(&x));
                    pairs.push((grid.position(0, jy, jx), y * grid.source.1 + x as usize, tap.index));
                }
            }
        }
        pairs
    }

    #[test]
    fn grids_pair_the_pixels_that_the_definition_pairs() {
        for padding in [Padding::Explicit(0), Padding::Explicit(1), Padding::Explicit(3), Padding::Same] {
            for (h, k, stride) in
                [(5, 3, 1), (6, 3, 2), (7, 5, 2), (3, 5, 1), (8, 7, 2), (4, 1, 2), (9, 2, 3), (6, 1, 1)]
            {
                if padding == Padding::Explicit(0) && k > h {
                    continue;
                }
                let g = geometry(h, k, stride, padding);
                let mut forward = grid_pairs(&g.forward_grid());
                forward.sort_unstable();
                assert_eq!(forward, pairs(&g));
                let grids = g.input_gradient_grids();
                let mut backward: Vec<_> = grids.iter().flat_map(grid_pairs).map(|(i, o, tap)| (o, i, tap)).collect();
                backward.sort_unstable();
                assert_eq!(backward, pairs(&g));
                assert_eq!(grids.iter().map(|grid| grid.pixels(1)).sum::<usize>(), g.h * g.w);
            }
        }
    }
}
