//! How many threads the CPU kernels use.
//!
//! All parallel work runs on rayon's global pool, whose size is fixed the first time it is used. A thread outside of it
//! that asks for parallel work sleeps until that is done, which costs three changes of threads each time, so
//! [`set_threads`] makes the calling thread one of the pool's.

use std::thread::available_parallelism;

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

/// Fixes the size of the thread pool; 0 is all cores, or `RAYON_NUM_THREADS` if that is set.
///
/// The calling thread, which should live as long as there is parallel work, becomes one of the pool's. A pool of one
/// thread has a thread of its own, so that any other thread may wait for it.
pub fn set_threads(count: usize) -> Result<(), ThreadsError> {
    let wanted = if count == 0 { default_threads() } else { count };
    let builder = rayon::ThreadPoolBuilder::new().num_threads(wanted);
    let builder = if wanted > 1 { builder.use_current_thread() } else { builder };
    let built = builder.build_global().is_ok();
    match threads() {
        running if built || count == 0 || running == count => Ok(()),
        running => Err(ThreadsError { running, wanted }),
    }
}

/// What `RAYON_NUM_THREADS` says, or the number of cores.
fn default_threads() -> usize {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok()).filter(|&count| count > 0);
    asked.unwrap_or_else(|| available_parallelism().map_or(1, |count| count.get()))
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
