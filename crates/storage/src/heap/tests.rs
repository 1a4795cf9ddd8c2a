//! The heap keeps values apart, keeps its books and gives memory back.

use super::*;
use lockstep_base::random::SeededRandom;

#[test]
fn classes_cover_their_lengths_tightly() {
    for length in 1..=LARGEST_CLASS_BYTES {
        let class = class_of(length);
        assert!(class < CLASS_COUNT, "{length}");
        assert!(class_bytes(class) >= length, "{length}");
        assert!(class == 0 || class_bytes(class - 1) < length, "{length}");
        assert_eq!(class_bytes(class) % 8, 0);
    }
}

fn store(heap: &mut StringHeap, value: &[u8]) -> NonNull<u8> {
    if value.is_empty() {
        return NonNull::dangling();
    }
    let cell = heap.reserve(value.len());
    // SAFETY: the cell is fresh memory of that length.
    unsafe { cell.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len()) };
    cell
}

#[test]
fn values_survive_random_stores_and_releases() {
    let mut random = SeededRandom::new(11);
    let mut heap = StringHeap::default();
    let mut live: Vec<(NonNull<u8>, Vec<u8>)> = Vec::new();
    for step in 0..60_000u32 {
        let grow = step % 20_000 < 12_000;
        if live.is_empty() || random.chance(if grow { 6 } else { 3 }, 9) {
            let longest = [40, 300, 2100, 9000][random.below(4) as usize];
            let length = random.below(longest) as usize;
            let value: Vec<u8> = (0..length).map(|i| (i as u32 ^ step) as u8).collect();
            live.push((store(&mut heap, &value), value));
        } else {
            let (cell, value) = live.swap_remove(random.below(live.len() as u64) as usize);
            // SAFETY: the cell holds `value` until the release below.
            let stored = unsafe { std::slice::from_raw_parts(cell.as_ptr(), value.len()) };
            assert_eq!(stored, value);
            // SAFETY: stored above with this length, released once.
            unsafe { heap.release(cell, value.len()) };
        }
        if step % 1_009 == 0 {
            assert_eq!(heap.check(), Ok(()), "step {step}");
        }
        assert_eq!(heap.used_bytes() == 0, live.iter().all(|(_, value)| value.is_empty()));
    }
    for (cell, value) in live.drain(..) {
        // SAFETY: stored above with this length, released once.
        unsafe { heap.release(cell, value.len()) };
    }
    assert_eq!(heap.check(), Ok(()));
    assert_eq!(heap.used_bytes(), 0);
    let slab = SLAB_CHUNKS * CHUNK_BYTES;
    assert!(heap.allocated_bytes() <= CLASS_COUNT * slab, "at most a slab per class is held");
}
