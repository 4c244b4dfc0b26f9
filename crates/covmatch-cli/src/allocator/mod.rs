//! The program's allocator: mimalloc for small things, a heap of its own for large buffers.
//!
//! Neither returns memory to the system: each page would have to be cleared before it is used again, at every step of a
//! training run.

mod heap;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use heap::Heap;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Buffers of at least this many bytes are large.
const LARGE: usize = 1 << 19;

/// Large buffers start at multiples of this many bytes.
const PAGE: usize = 4096;

/// `mi_option_purge_delay` of mimalloc 3.
const PURGE_DELAY: c_int = 15;

/// Makes mimalloc keep what is freed.
pub fn keep_freed_memory() {
    // SAFETY: sets one number of mimalloc's options; -1 means never.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

/// Where large buffers lie.
struct LargeBuffers {
    base: *mut u8,
    heap: Mutex<Heap>,
}

// SAFETY: `base` is an address that never changes; the heap has its lock.
unsafe impl Send for LargeBuffers {}
// SAFETY: as above.
unsafe impl Sync for LargeBuffers {}

impl LargeBuffers {
    /// Where `layout` goes if it is large; none if it is not, or if the system has no addresses to set aside.
    fn of(layout: Layout) -> Option<&'static Self> {
        static BUFFERS: OnceLock<Option<LargeBuffers>> = OnceLock::new();
        if layout.size() < LARGE || layout.align() > PAGE {
            return None;
        }
        BUFFERS.get_or_init(Self::reserve).as_ref()
    }

    #[cfg(all(unix, target_pointer_width = "64"))]
    fn reserve() -> Option<Self> {
        // Only addresses that are written to take memory.
        const ADDRESSES: usize = 1 << 40;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new addresses, wherever the system likes.
        let base = unsafe { libc::mmap(ptr::null_mut(), ADDRESSES, access, kind | libc::MAP_NORESERVE, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // Fewer and larger pages; the system may refuse.
        #[cfg(target_os = "linux")]
        // SAFETY: the addresses are ours.
        unsafe {
            libc::madvise(base, ADDRESSES, libc::MADV_HUGEPAGE)
        };
        Some(Self { base: base.cast(), heap: Mutex::new(Heap::new(ADDRESSES)) })
    }

    #[cfg(not(all(unix, target_pointer_width = "64")))]
    fn reserve() -> Option<Self> {
        None
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        let start = self.heap.lock().unwrap_or_else(PoisonError::into_inner).take(pages(layout));
        // SAFETY: the heap hands out offsets of addresses that are set aside.
        start.map_or(ptr::null_mut(), |start| unsafe { self.base.add(start) })
    }

    fn give(&self, buffer: *mut u8, layout: Layout) {
        let start = buffer as usize - self.base as usize;
        self.heap.lock().unwrap_or_else(PoisonError::into_inner).give(start, pages(layout));
    }
}

/// Bytes of the whole pages that `layout` takes.
fn pages(layout: Layout) -> usize {
    layout.size().next_multiple_of(PAGE)
}

struct Allocator;

// SAFETY: a layout decides alone where it goes, so a buffer is freed where it was taken; the heap's pieces do not overlap
// and start at pages; the heap's own bookkeeping is small, so it never asks for large buffers while it is locked.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match LargeBuffers::of(layout) {
            Some(buffers) => buffers.take(layout),
            // SAFETY: the caller's duty.
            None => unsafe { MiMalloc.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, buffer: *mut u8, layout: Layout) {
        match LargeBuffers::of(layout) {
            Some(buffers) => buffers.give(buffer, layout),
            // SAFETY: the caller's duty.
            None => unsafe { MiMalloc.dealloc(buffer, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(buffers) = LargeBuffers::of(layout) else {
            // SAFETY: the caller's duty.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        };
        let buffer = buffers.take(layout);
        if !buffer.is_null() {
            // SAFETY: the buffer has this many bytes.
            unsafe { buffer.write_bytes(0, layout.size()) };
        }
        buffer
    }

    unsafe fn realloc(&self, buffer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: the caller's duty; neither layout is large.
            return unsafe { MiMalloc.realloc(buffer, layout, size) };
        }
        // SAFETY: the caller guarantees that the new size fits a layout of this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: a layout of the caller's; both buffers have at least the bytes that are copied, and are apart.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(buffer, new, layout.size().min(size));
                self.dealloc(buffer, layout);
            }
            new
        }
    }
}
