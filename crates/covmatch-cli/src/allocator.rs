//! The program's allocator: mimalloc, which keeps the memory that tensors free.

use std::ffi::c_int;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 3.
const PURGE_DELAY: c_int = 15;

/// Keeps freed memory for the next tensor. Returned to the system, each of its pages would have to be cleared before it
/// is used again, at every step of a training run.
pub fn keep_freed_memory() {
    // SAFETY: sets one number of mimalloc's options; -1 means never.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}
