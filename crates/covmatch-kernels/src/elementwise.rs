//! Elementwise and row-wise loops: parallel, and in place when nothing else refers to the values.
//!
//! A kernel gets a [`Source`] to read and the values to write. In place, both are the same memory, and the source is
//! `None`; [`map`], [`map2`] and [`map3`] hide the difference.

use rayon::prelude::*;

use crate::backend::{FlexTensor, contiguous, dims, tensor, values, values_mut};
use crate::gemm::uninit;

/// Values a task takes at a time; fewer than this run on the calling thread.
pub(crate) const CHUNK: usize = 1 << 14;

/// Values that [`overwrite`] copies at a time: few enough to stay in the first-level cache.
const BLOCK: usize = 1 << 10;

/// The values that a kernel reads; `None` stands for those that it overwrites.
pub(crate) type Source<'a> = Option<&'a [f32]>;

/// `y_i = f(x_i)`. For the body of a vectorised loop.
#[inline(always)]
pub(crate) fn map(x: Source, y: &mut [f32], f: impl Fn(f32) -> f32) {
    match x {
        Some(x) => y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x)),
        None => y.iter_mut().for_each(|y| *y = f(*y)),
    }
}

/// `y_i = f(x_i, z_i)`. For the body of a vectorised loop.
#[inline(always)]
pub(crate) fn map2(x: Source, z: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    match x {
        Some(x) => y.iter_mut().zip(x).zip(z).for_each(|((y, x), z)| *y = f(*x, *z)),
        None => y.iter_mut().zip(z).for_each(|(y, z)| *y = f(*y, *z)),
    }
}

/// `y_i = f(x_i, z_i, w_i)`. For the body of a vectorised loop.
#[inline(always)]
pub(crate) fn map3(x: Source, z: &[f32], w: &[f32], y: &mut [f32], f: impl Fn(f32, f32, f32) -> f32) {
    match x {
        Some(x) => y.iter_mut().zip(x).zip(z).zip(w).for_each(|(((y, x), z), w)| *y = f(*x, *z, *w)),
        None => y.iter_mut().zip(z).zip(w).for_each(|((y, z), w)| *y = f(*y, *z, *w)),
    }
}

/// What `kernel(start, source, values)` makes of chunks of `x` that begin at `start`.
///
/// Works in place if `x` is the only handle to its values, and writes a new tensor otherwise.
pub(crate) fn transform(x: FlexTensor, kernel: impl Fn(usize, Source, &mut [f32]) + Sync) -> FlexTensor {
    let mut x = contiguous(x);
    if let Some(y) = values_mut(&mut x) {
        for_each_chunk(y, |start, y| kernel(start, None, y));
        return x;
    }
    let source = values(&x);
    let mut y = uninit(source.len());
    for_each_chunk(&mut y, |start, y| kernel(start, Some(&source[start..start + y.len()]), y));
    tensor(y, &dims(&x))
}

fn for_each_chunk(y: &mut [f32], kernel: impl Fn(usize, &mut [f32]) + Sync) {
    if y.len() <= CHUNK {
        kernel(0, y);
    } else {
        y.par_chunks_mut(CHUNK).enumerate().for_each(|(i, y)| kernel(i * CHUNK, y));
    }
}

/// Like [`transform`] for a `kernel(start, values)` that can only overwrite.
pub(crate) fn overwrite(x: FlexTensor, kernel: impl Fn(usize, &mut [f32]) + Sync) -> FlexTensor {
    transform(x, |start, source, y| match source {
        Some(source) => {
            for (i, (y, source)) in y.chunks_mut(BLOCK).zip(source.chunks(BLOCK)).enumerate() {
                y.copy_from_slice(source);
                kernel(start + i * BLOCK, y);
            }
        }
        None => kernel(start, y),
    })
}

/// Like [`transform`], row by row: `kernel(task, i, source, row)` writes row `i` of rows of `width` values.
///
/// Rows are grouped into tasks by `width` alone, whatever the number of threads. Each task starts from `init()`;
/// what `kernel` makes of it is returned in the order of the rows.
pub(crate) fn transform_rows<T: Send>(
    x: FlexTensor,
    width: usize,
    init: impl Fn() -> T + Sync,
    kernel: impl Fn(&mut T, usize, Source, &mut [f32]) + Sync,
) -> (FlexTensor, Vec<T>) {
    let mut x = contiguous(x);
    let rows = (CHUNK / width).max(1);
    let run = |task: usize, source: Source, y: &mut [f32]| {
        let mut state = init();
        for (j, y) in y.chunks_mut(width).enumerate() {
            let source = source.map(|s| &s[j * width..(j + 1) * width]);
            kernel(&mut state, task * rows + j, source, y);
        }
        state
    };
    if let Some(y) = values_mut(&mut x) {
        let states = y.par_chunks_mut(rows * width).enumerate().map(|(i, y)| run(i, None, y)).collect();
        return (x, states);
    }
    let source = values(&x);
    let mut y = uninit(source.len());
    let chunks = y.par_chunks_mut(rows * width).zip(source.par_chunks(rows * width));
    let states = chunks.enumerate().map(|(i, (y, source))| run(i, Some(source), y)).collect();
    (tensor(y, &dims(&x)), states)
}

/// Like [`transform_rows`] for a `kernel(task, i, row)` that can only overwrite.
pub(crate) fn overwrite_rows<T: Send>(
    x: FlexTensor,
    width: usize,
    init: impl Fn() -> T + Sync,
    kernel: impl Fn(&mut T, usize, &mut [f32]) + Sync,
) -> (FlexTensor, Vec<T>) {
    transform_rows(x, width, init, |state, i, source, row| {
        if let Some(source) = source {
            row.copy_from_slice(source);
        }
        kernel(state, i, row);
    })
}
