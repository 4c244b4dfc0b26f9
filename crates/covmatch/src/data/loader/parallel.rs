//! The pictures of a batch, prepared by several threads.
//!
//! Threads take the next position from a common queue and write into that position's part of the batch, so the result
//! does not depend on which thread did what.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::data::DataError;
use crate::data::transform::Scratch;

/// Scratch memory that threads leave for those of the next batch.
#[derive(Debug, Default)]
pub(super) struct Scratches(Mutex<Vec<Scratch>>);

impl Scratches {
    fn take(&self) -> Scratch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, scratch: Scratch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

/// Calls `work` with each position of `values`, cut into parts of `part`, on `threads` threads.
///
/// The results are in the order of the positions. Work stops at an error; of several, the one at the lowest position is
/// returned, because all positions below a failed one have been taken.
pub(super) fn for_each_part<R: Send>(
    values: &mut [f32],
    part: usize,
    threads: usize,
    scratches: &Scratches,
    work: impl Fn(usize, &mut [f32], &mut Scratch) -> Result<R, DataError> + Sync,
) -> Result<Vec<R>, DataError> {
    let queue = Mutex::new(values.chunks_exact_mut(part.max(1)).enumerate());
    let failed = AtomicBool::new(false);
    let run = || {
        let mut scratch = scratches.take();
        let mut results = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((position, part)) = next else { break };
            let result = work(position, part, &mut scratch);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.push((position, result));
        }
        scratches.give_back(scratch);
        results
    };
    let mut results = match threads {
        0 | 1 => run(),
        _ => thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut results = run();
            for other in others {
                results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        }),
    };
    results.sort_unstable_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}
