//! Elementwise loops: parallel over chunks, and in place when nothing else refers to the values.

use rayon::prelude::*;

use crate::backend::{FlexTensor, contiguous, dims, tensor, values, values_mut};
use crate::gemm::uninit;

/// Values a task takes at a time; fewer than this run on the calling thread.
pub(crate) const CHUNK: usize = 1 << 14;

/// Values copied and overwritten at a time: small enough to stay in the first-level cache.
const BLOCK: usize = 1 << 10;

/// Runs `kernel(start, chunk)` over `y` cut into chunks that begin at `start`.
pub(crate) fn for_each_chunk(y: &mut [f32], kernel: impl Fn(usize, &mut [f32]) + Sync) {
    if y.len() <= CHUNK {
        kernel(0, y);
    } else {
        y.par_chunks_mut(CHUNK).enumerate().for_each(|(i, y)| kernel(i * CHUNK, y));
    }
}

/// What `kernel(start, values)` makes of the values of `x`, which it overwrites; `start` is their position in `x`.
///
/// Works in place if `x` is the only handle to its values, and on a copy otherwise.
pub(crate) fn overwrite(x: FlexTensor, kernel: impl Fn(usize, &mut [f32]) + Sync) -> FlexTensor {
    let mut x = contiguous(x);
    if let Some(y) = values_mut(&mut x) {
        for_each_chunk(y, kernel);
        return x;
    }
    let source = values(&x);
    let mut y = uninit(source.len());
    for_each_chunk(&mut y, |start, chunk| {
        for (i, block) in chunk.chunks_mut(BLOCK).enumerate() {
            let start = start + i * BLOCK;
            block.copy_from_slice(&source[start..start + block.len()]);
            kernel(start, block);
        }
    });
    tensor(y, &dims(&x))
}

/// Like [`overwrite`], row by row: `kernel(task, i, row)` overwrites row `i` of `x`, whose rows have `width` values.
///
/// Rows are grouped into tasks by `width` alone, whatever the number of threads. Each task starts from `init()`;
/// what `kernel` makes of it is returned in the order of the rows.
pub(crate) fn overwrite_rows<T: Send>(
    x: FlexTensor,
    width: usize,
    init: impl Fn() -> T + Sync,
    kernel: impl Fn(&mut T, usize, &mut [f32]) + Sync,
) -> (FlexTensor, Vec<T>) {
    let mut x = contiguous(x);
    let rows = (CHUNK / width).max(1);
    if let Some(y) = values_mut(&mut x) {
        let tasks = y.par_chunks_mut(rows * width).enumerate().map(|(i, chunk)| {
            let mut task = init();
            chunk.chunks_mut(width).enumerate().for_each(|(j, row)| kernel(&mut task, i * rows + j, row));
            task
        });
        let tasks = tasks.collect();
        return (x, tasks);
    }
    let source = values(&x);
    let mut y = uninit(source.len());
    let tasks = y.par_chunks_mut(rows * width).zip(source.par_chunks(rows * width)).enumerate().map(|(i, (y, x))| {
        let mut task = init();
        for (j, (y, x)) in y.chunks_mut(width).zip(x.chunks(width)).enumerate() {
            y.copy_from_slice(x);
            kernel(&mut task, i * rows + j, y);
        }
        task
    });
    let tasks = tasks.collect();
    (tensor(y, &dims(&x)), tasks)
}
