//! Nothing is allocated per call once a site is warm.

use super::voter::{host, vote, vote_parameters};
use lockstep_base::counting::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
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
