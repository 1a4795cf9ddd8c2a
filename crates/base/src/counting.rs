//! An allocator that counts, for tests which show that a path allocates nothing: a test binary
//! declares it as its global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static APART: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
pub struct CountingAllocator;

fn count_one() {
    // A thread that is ending has no counter any more, and nobody who reads it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// How often this thread allocated while `work` ran. Always 0 in a binary that does not declare
/// the allocator, so a test should see it count once.
pub fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// How often this thread has allocated since it began, but for what was counted apart. Always 0
/// in a binary that does not declare the allocator.
pub fn allocations_so_far() -> u64 {
    ALLOCATIONS.with(Cell::get) - APART.with(Cell::get)
}

/// Counts the allocations of `work` apart: it makes memory ready that the paths under test will
/// need, while nobody waits for it.
pub fn apart(work: impl FnOnce()) {
    let count = allocations(work);
    APART.with(|apart| apart.set(apart.get() + count));
}

/// How often this thread has allocated in work that is counted apart.
pub fn allocations_apart() -> u64 {
    APART.with(Cell::get)
}
