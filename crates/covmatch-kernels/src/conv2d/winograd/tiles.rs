//! Where tiles and windows lie in their images.

use crate::gemm::SharedMut;

/// The square tiles that cover the images of a batch; if their side does not divide the image's, the last reach over
/// the border.
pub(super) struct Tiling {
    side: usize,
    images: usize,
    rows: usize,
    cols: usize,
}

impl Tiling {
    /// Tiles of `side` x `side` pixels of `images` images of `size` (height, width).
    pub(super) fn new(side: usize, images: usize, size: (usize, usize)) -> Self {
        Self { side, images, rows: size.0.div_ceil(side), cols: size.1.div_ceil(side) }
    }

    /// Whether the tiles cover images of `size` and nothing else.
    pub(super) fn is_exact(&self, size: (usize, usize)) -> bool {
        (self.rows * self.side, self.cols * self.side) == size
    }

    /// Tiles of the batch.
    pub(super) fn count(&self) -> usize {
        self.images * self.rows * self.cols
    }

    /// Image, row and column of a tile's first pixel.
    pub(super) fn place(&self, tile: usize) -> (usize, isize, isize) {
        let row = tile / self.cols;
        let at = |i: usize| (self.side * i) as isize;
        (row / self.rows, at(row % self.rows), at(tile % self.cols))
    }
}

/// Images `[n, h, w, channels]` that are read.
#[derive(Clone, Copy)]
pub(super) struct Images<'a> {
    pub(super) values: &'a [f32],
    /// Height and width.
    pub(super) size: (usize, usize),
    pub(super) channels: usize,
    /// Stands for pixels outside the image.
    pub(super) zeros: &'a [f32],
}

impl Images<'_> {
    /// `S` x `S` pixels from `corner` (row, column) on, from channel `first` on.
    pub(super) fn window<const S: usize>(
        &self,
        image: usize,
        corner: (isize, isize),
        first: usize,
    ) -> [[*const f32; S]; S] {
        let (base, outside) = (self.values.as_ptr(), self.zeros.as_ptr());
        pixels(self.size, image, corner)
            .map(|row| row.map(|pixel| pixel.map_or(outside, |pixel| base.wrapping_add(pixel * self.channels + first))))
    }
}

/// Images `[n, h, w, channels]` that are written.
#[derive(Clone, Copy)]
pub(super) struct Results {
    pub(super) values: SharedMut,
    /// Height and width.
    pub(super) size: (usize, usize),
    pub(super) channels: usize,
    /// Whether they are written past the caches (see [`stream`](crate::gemm::stream)).
    pub(super) streamed: bool,
}

/// Where `S` x `S` results go.
pub(super) struct Destination<const S: usize> {
    pub(super) pixels: [[*mut f32; S]; S],
    /// Whether they are written past the caches; every vector of them is one cache line then.
    pub(super) streamed: bool,
}

impl Results {
    /// A tile from channel `first` on; `outside` takes the pixels outside the image.
    pub(super) fn tile<const S: usize>(
        &self,
        (image, y, x): (usize, isize, isize),
        first: usize,
        outside: *mut f32,
    ) -> Destination<S> {
        let at = |pixel: usize| self.values.0.wrapping_add(pixel * self.channels + first);
        let pixels = pixels(self.size, image, (y, x)).map(|row| row.map(|pixel| pixel.map_or(outside, at)));
        Destination { pixels, streamed: self.streamed }
    }
}

/// Positions, in pixels of the batch, of the `S` x `S` pixels from `corner` on, if they are inside the image.
fn pixels<const S: usize>((h, w): (usize, usize), image: usize, corner: (isize, isize)) -> [[Option<usize>; S]; S] {
    // Before the first row or column the sum wraps to beyond the last.
    let along =
        |start: isize, i: usize, size: usize| Some(start.wrapping_add_unsigned(i) as usize).filter(|v| *v < size);
    let cols: [Option<usize>; S] = std::array::from_fn(|j| along(corner.1, j, w));
    std::array::from_fn(|i| {
        let row = along(corner.0, i, h).map(|y| (image * h + y) * w);
        cols.map(|x| Some(row? + x?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_outside_the_image_have_no_position() {
        let found: [[Option<usize>; 4]; 4] = pixels((3, 2), 1, (-1, -1));
        let want = [
            [None, None, None, None],
            [None, Some(6), Some(7), None],
            [None, Some(8), Some(9), None],
            [None, Some(10), Some(11), None],
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn tiles_cover_images_of_odd_sides() {
        let small = Tiling::new(2, 2, (3, 5));
        assert_eq!(small.count(), 12);
        assert_eq!(small.place(5), (0, 2, 4));
        assert_eq!(small.place(6), (1, 0, 0));
        let large = Tiling::new(4, 2, (3, 5));
        assert_eq!(large.count(), 4);
        assert_eq!(large.place(1), (0, 0, 4));
        assert_eq!(large.place(2), (1, 0, 0));
        assert!(!large.is_exact((3, 5)) && large.is_exact((4, 8)));
    }
}
