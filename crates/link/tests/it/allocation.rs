//! Steady traffic allocates nothing.

use super::support::{at, connect, feed, link};
use lockstep_base::counting::{CountingAllocator, allocations};
use lockstep_link::{Event, Link, LinkLimits};
use std::io::IoSlice;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Moves what one writes to the other, as a socket would, without a copy of its own.
fn transfer(from: &mut Link, to: &mut Link, now_us: i64) -> u64 {
    let mut delivered = 0;
    while from.wants_to_write(at(now_us)) {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = from.write_slices(at(now_us), &mut slices);
        let mut bytes = 0;
        for slice in &slices[..count] {
            let mut rest = &slice[..];
            while !rest.is_empty() {
                let space = to.read_space();
                let length = space.len().min(rest.len());
                space[..length].copy_from_slice(&rest[..length]);
                to.filled(length);
                bytes += length;
                rest = &rest[length..];
                while let Some(event) = to.next_event(at(now_us)).unwrap() {
                    delivered += u64::from(matches!(event, Event::Message { .. }));
                }
            }
        }
        from.wrote(bytes);
    }
    delivered
}

fn round(a: &mut Link, b: &mut Link, now_us: i64) -> u64 {
    for length in 0..200 {
        let now = at(now_us + length);
        let length = length as usize;
        a.offer(now, |buffer| buffer.extend_from_slice(&[7; 200][..length])).unwrap();
        if length.is_multiple_of(10) {
            b.offer(now, |buffer| buffer.extend_from_slice(&[8; 100])).unwrap();
            a.offer_datagram(|buffer| buffer.extend_from_slice(&[9; 40])).unwrap();
            b.offer_heartbeat(|_| {}).unwrap();
        }
    }
    transfer(a, b, now_us + 500) + transfer(b, a, now_us + 500)
}

#[test]
fn messages_datagrams_and_acknowledgements_allocate_nothing() {
    let limits = LinkLimits { chunk_bytes: 4_096, read_bytes: 16_384, ..LinkLimits::default() };
    let (mut a, mut b) = (link(1, 1, 2, limits), link(2, 1, 1, limits));
    connect(&mut a, &mut b, at(0));
    let warm = (0..20).map(|round_number| round(&mut a, &mut b, round_number * 1_000)).sum::<u64>();
    assert_eq!(warm, 20 * 220);
    let mut delivered = 0;
    let count = allocations(|| {
        for round_number in 20..60 {
            delivered += round(&mut a, &mut b, round_number * 1_000);
        }
    });
    assert_eq!((count, delivered), (0, 40 * 220));
    let seen = allocations(|| drop(feed(&mut a, &[], at(0)).map(|_| vec![1u8])));
    assert!(seen > 0, "allocations are counted");
}
