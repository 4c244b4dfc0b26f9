//! Results that are written past the caches.
//!
//! A store normally reads the line it writes to first. For a large result of little arithmetic, memory traffic is the
//! whole cost, and streaming stores save that read; the next operation would not find the result in cache anyway.

/// Values above which a result does not stay in cache: 4 MB.
const LARGE: usize = 1 << 20;

/// Whether rows of `row` values of `out`, `total` in all, should be streamed: it is large, and every vector of 16 values
/// is one cache line.
pub(crate) fn should_stream(out: *const f32, row: usize, total: usize) -> bool {
    total >= LARGE && row.is_multiple_of(16) && (out as usize).is_multiple_of(64)
}

/// Makes the streamed stores of this thread visible before whatever it does next.
pub(crate) fn finish_streaming() {
    // SAFETY: SSE, which every x86-64 machine has.
    unsafe { std::arch::x86_64::_mm_sfence() };
}
