//! An allocator that counts the allocations of each thread.
#![allow(unsafe_code)] // the trait of an allocator is unsafe

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Install it with `#[global_allocator]`.
pub struct Counting;

thread_local! {
    /// Without a destructor and without a lazy start, so that counting allocates nothing itself.
    static MADE: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is being torn down counts nothing.
    let _ = MADE.try_with(|made| made.set(made.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// How many allocations this thread makes in `work`.
pub fn allocations(work: impl FnOnce()) -> u64 {
    let before = MADE.get();
    work();
    MADE.get() - before
}
