//! Nothing is allocated per call once a site is warm.

use super::voter::{host, vote, vote_parameters};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Votes of phones that voted before change rows, refused ones read them: neither allocates.
#[test]
fn a_warm_vote_that_is_refused_allocates_nothing() {
    let (mut database, procedure) = host();
    let mut out = Vec::with_capacity(4096);
    let calls: Vec<_> = (0..1000).map(|n| vote_parameters(2_125_550_000 + n, 1, 1)).collect();
    for call in calls.iter().chain(&calls) {
        out.clear();
        vote(&mut database, &procedure, call.bytes(), &mut out);
    }
    let count = allocations(|| {
        for call in &calls {
            out.clear();
            vote(&mut database, &procedure, call.bytes(), &mut out);
        }
    });
    assert_eq!(count, 0);
}

/// Inserts take new slots and index nodes from time to time, and nothing else.
#[test]
fn warm_votes_allocate_for_rows_only() {
    let (mut database, procedure) = host();
    let mut out = Vec::with_capacity(4096);
    let calls: Vec<_> =
        (0..30_000).map(|n| vote_parameters(2_125_550_000 + n % 1000, 1, 1_000_000)).collect();
    let (warm, counted) = calls.split_at(20_000);
    for call in warm {
        out.clear();
        vote(&mut database, &procedure, call.bytes(), &mut out);
    }
    let count = allocations(|| {
        for call in counted {
            out.clear();
            vote(&mut database, &procedure, call.bytes(), &mut out);
        }
    });
    // 10,000 rows of 15 bytes fill two or three blocks of 128 KiB.
    assert!(count <= 8, "{count} allocations in 10,000 votes");
}
