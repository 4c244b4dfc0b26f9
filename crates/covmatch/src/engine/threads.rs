//! How many threads the CPU kernels use.
//!
//! All parallel work runs on rayon's global pool, whose size is fixed the first time it is used.

/// The pool already runs with another number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the thread pool already runs {running} threads, {wanted} were asked for: set the number before any computation"
)]
pub struct ThreadsError {
    /// Threads in the pool.
    pub running: usize,
    /// Threads that were asked for.
    pub wanted: usize,
}

/// Fixes the size of the thread pool. 0 leaves the choice to rayon: all cores, or `RAYON_NUM_THREADS` if that is set.
pub fn set_threads(count: usize) -> Result<(), ThreadsError> {
    if count == 0 {
        return Ok(());
    }
    let built = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    match threads() {
        running if built.is_ok() || running == count => Ok(()),
        running => Err(ThreadsError { running, wanted: count }),
    }
}

/// The size of the thread pool; starts it if nothing has yet.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the pool is global to the test program.
    #[test]
    fn the_size_is_set_once_and_another_size_is_an_error() {
        let running = threads();
        assert_eq!(set_threads(0), Ok(()));
        assert_eq!(set_threads(running), Ok(()));
        let wanted = running + 1;
        assert_eq!(set_threads(wanted), Err(ThreadsError { running, wanted }));
        assert_eq!(threads(), running);
    }
}
