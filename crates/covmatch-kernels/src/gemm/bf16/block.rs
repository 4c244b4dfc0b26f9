//! A block of C, and what it is computed from.

use super::pack::Tile;

/// Rows and columns of a block of C: two tiles by two.
pub(super) const BLOCK: usize = 32;

/// `BLOCK` x `BLOCK` sums over a run of the reduction:
/// ```text
/// out[i, j] = init[i, j] + sum over l: a[i, l] * b[l, j]
/// ```
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// A's first 16 rows; the others lie `panel` tiles on.
    pub(super) a: *const Tile,
    /// B's first 16 columns; the others lie `panel` tiles on.
    pub(super) b: *const Tile,
    /// Tiles from 16 lines to the next 16.
    pub(super) panel: usize,
    /// Tiles of the run.
    pub(super) depth: usize,
    /// What the sums start from.
    pub(super) init: *const f32,
    /// Values from one row of `init` to the next; zero for the same row everywhere.
    pub(super) init_row: usize,
    /// The sums; may be where `init` is.
    pub(super) out: *mut f32,
    /// Values from one row of `out` to the next.
    pub(super) out_row: usize,
}
