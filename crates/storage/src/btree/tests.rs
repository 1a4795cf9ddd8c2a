//! The tree against a sorted mirror, with its invariants checked along the way.

use super::*;
use crate::key_buffer::{KeyBuffer, KeyPool};
use lockstep_base::random::SeededRandom;
use std::collections::BTreeSet;

/// A key kind of the tree, made from a number.
trait TestKey: TreeKey {
    fn with<R>(number: u64, run: impl FnOnce(Self::Probe<'_>) -> R) -> R;
}

impl TestKey for u64 {
    fn with<R>(number: u64, run: impl FnOnce(u64) -> R) -> R {
        run(number)
    }
}

impl TestKey for u128 {
    fn with<R>(number: u64, run: impl FnOnce(u128) -> R) -> R {
        run(u128::from(number) << 40)
    }
}

impl TestKey for BytesKey {
    /// Keys of 8, 40 and 3,008 bytes, in the order of their numbers.
    fn with<R>(number: u64, run: impl FnOnce(BytesProbe<'_>) -> R) -> R {
        let pool = KeyPool::default();
        let mut buffer = KeyBuffer::new(&pool);
        match number % 16 {
            0..8 => {}
            8..15 => buffer.extend(&[7; 32]),
            _ => buffer.extend(&[8; 3000]),
        }
        buffer.extend(&number.to_be_bytes());
        run(buffer.probe(false))
    }
}

use crate::key_buffer::BytesProbe;

/// The order of a test key: for bytes the class comes first.
fn rank<K: TestKey>(number: u64) -> (u64, u64) {
    if size_of::<K>() <= 16 {
        return (0, number);
    }
    match number % 16 {
        0..8 => (0, number),
        8..15 => (1, number),
        _ => (2, number),
    }
}

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// All rows in order, after a check of everything.
    fn checked_rows(&self) -> Vec<u32> {
        self.check().expect("a sound tree")
    }

    /// Entries between two places: by the nodes' numbers, and leaf by leaf.
    fn counted_between(&self, from: K::Probe<'_>, to: K::Probe<'_>) -> [i64; 2] {
        let (from, to) = (self.first_at_or_after(from), self.first_at_or_after(to));
        let ends = to.position as i64 - from.position as i64;
        // SAFETY: the places are of this tree, and the caller gives them in their order.
        unsafe {
            let (mut leaf, mut walked) = (from.leaf, 0);
            while leaf != to.leaf {
                walked += leaf_length(leaf) as i64;
                leaf = *links(leaf.cast_mut()).1;
            }
            [self.count_between(from.leaf, to.leaf) as i64 + ends, walked + ends]
        }
    }
}

/// Runs inserts and removes in phases of growth and decline; `pick` chooses key numbers.
fn against_mirror<K: TestKey, const UNIQUE: bool>(
    seed: u64,
    steps: u32,
    pick: impl Fn(&mut SeededRandom, u32) -> u64,
) {
    let mut random = SeededRandom::new(seed);
    let mut tree = Tree::<K, UNIQUE>::new();
    let mut mirror: BTreeSet<((u64, u64), u32)> = BTreeSet::new();
    let mut members: Vec<(u64, u32)> = Vec::new();
    for step in 0..steps {
        let grow = step % (steps / 3) < steps / 5;
        if members.is_empty() || random.chance(if grow { 8 } else { 1 }, 10) {
            let number = pick(&mut random, step);
            let row = if UNIQUE { step } else { random.below(40) as u32 };
            let rank = rank::<K>(number);
            if UNIQUE {
                let existing = mirror.range((rank, 0)..=(rank, u32::MAX)).next().copied();
                let result = K::with(number, |probe| tree.insert(probe, row));
                assert_eq!(result.err(), existing.map(|(_, row)| row));
                if existing.is_some() {
                    continue;
                }
            } else if mirror.contains(&(rank, row)) {
                continue;
            } else {
                K::with(number, |probe| tree.insert(probe, row)).expect("not unique");
            }
            mirror.insert((rank, row));
            members.push((number, row));
        } else {
            let (number, row) = members.swap_remove(random.below(members.len() as u64) as usize);
            assert!(K::with(number, |probe| tree.remove(probe, row)));
            assert!(!K::with(number, |probe| tree.remove(probe, row)));
            mirror.remove(&(rank::<K>(number), row));
        }
        if step % 64 == 0 {
            let number = pick(&mut random, step);
            let rank = rank::<K>(number);
            let first = mirror.range((rank, 0)..=(rank, u32::MAX)).next().map(|(_, row)| *row);
            assert_eq!(K::with(number, |probe| tree.get(probe)), first);
        }
        // There are stretches without a count: then no node knows its number.
        if step % 64 == 0 && step % 8192 < 4096 {
            let mut limits = [pick(&mut random, step), pick(&mut random, step)];
            limits.sort_by_key(|number| rank::<K>(*number));
            let [from, to] = limits;
            let [counted, walked] =
                K::with(from, |from| K::with(to, |to| tree.counted_between(from, to)));
            assert_eq!(counted, walked, "from {from} to {to}, step {step}");
        }
        if step % 2003 == 0 {
            let expected: Vec<u32> = mirror.iter().map(|(_, row)| *row).collect();
            assert_eq!(tree.checked_rows(), expected, "step {step}");
        }
    }
    for (number, row) in members {
        assert!(K::with(number, |probe| tree.remove(probe, row)));
    }
    assert_eq!(tree.checked_rows(), Vec::<u32>::new());
    assert_eq!((tree.leaves, tree.inners, tree.height), (1, 0, 0));
    let spare_chunks = 64 * 16 * 1024;
    assert!(K::arena_bytes(&tree.arena) <= spare_chunks, "long keys give their memory back");
}

fn spread(random: &mut SeededRandom, _step: u32) -> u64 {
    random.below(200_000)
}

#[test]
fn words_match_a_mirror() {
    against_mirror::<u64, true>(1, 150_000, spread);
    against_mirror::<u64, false>(2, 150_000, spread);
    against_mirror::<u64, false>(3, 60_000, |random, _| random.below(50));
}

#[test]
fn double_words_match_a_mirror() {
    against_mirror::<u128, true>(4, 100_000, spread);
    against_mirror::<u128, false>(5, 100_000, |random, _| random.below(3000));
}

#[test]
fn byte_keys_match_a_mirror() {
    against_mirror::<BytesKey, true>(6, 60_000, spread);
    against_mirror::<BytesKey, false>(7, 60_000, |random, _| random.below(2000));
}

#[test]
fn sequences_match_a_mirror() {
    against_mirror::<u64, true>(8, 60_000, |_, step| u64::from(step));
    against_mirror::<u64, true>(9, 60_000, |_, step| u64::from(u32::MAX - step));
}

/// Several sequences at once, each within the keys of the next, with removes in between.
#[test]
fn interleaved_sequences_match_a_mirror() {
    fn runs(random: &mut SeededRandom, step: u32) -> u64 {
        let run = u64::from(step / 12 % 9);
        match random.below(50) {
            0 => run * 100_000 + random.below(60_000) / 9,
            _ => run * 100_000 + u64::from(step) / 9,
        }
    }
    against_mirror::<u64, true>(10, 90_000, runs);
    against_mirror::<u64, false>(11, 90_000, runs);
    against_mirror::<u128, true>(12, 90_000, runs);
    against_mirror::<u128, false>(13, 90_000, runs);
}

#[test]
fn sequences_are_packed_wherever_they_grow() {
    fn fill<K: TestKey, const UNIQUE: bool>() {
        let mut tree = Tree::<K, UNIQUE>::new();
        let mut rows = Vec::new();
        for number in 0..20_000u64 {
            for run in 0..10 {
                rows.push((run * 1_000_000 + number, (number * 10 + run) as u32));
                let (key, row) = rows[rows.len() - 1];
                K::with(key, |probe| tree.insert(probe, row)).expect("keys differ");
            }
        }
        assert!(tree.packed_leaves * 20 > tree.leaves * 19, "{} packed", tree.packed_leaves);
        assert!(tree.allocated_bytes() < 200_000 * 10, "{} bytes", tree.allocated_bytes());
        rows.sort();
        let expected: Vec<u32> = rows.iter().map(|(_, row)| *row).collect();
        assert_eq!(tree.checked_rows(), expected);
        for (key, row) in &rows {
            assert_eq!(K::with(*key, |probe| tree.get(probe)), Some(*row));
            let again =
                K::with(*key, |probe| if UNIQUE { tree.insert(probe, 7) } else { Err(*row) });
            assert_eq!(again, Err(*row));
        }
        tree.prepare_growth();
        // Removing unpacks, leaf by leaf.
        for (key, row) in rows.iter().step_by(3) {
            assert!(K::with(*key, |probe| tree.remove(probe, *row)));
        }
        assert_eq!(tree.packed_leaves, 0);
        let expected: Vec<u32> = rows
            .iter()
            .enumerate()
            .filter(|(at, _)| at % 3 != 0)
            .map(|(_, (_, row))| *row)
            .collect();
        assert_eq!(tree.checked_rows(), expected);
    }
    fill::<u64, true>();
    fill::<u64, false>();
    fill::<u128, true>();
    fill::<u128, false>();
}

#[test]
fn growing_keys_fill_their_leaves() {
    let mut tree = Tree::<u64, true>::new();
    for key in 0..100_000u64 {
        tree.insert(key, key as u32).expect("keys differ");
    }
    assert_eq!(tree.leaves, 100_000usize.div_ceil(LEAF_CAPACITY));
    // A window that moves on: what is left goes away.
    for key in 100_000..300_000u64 {
        tree.insert(key, key as u32).expect("keys differ");
        assert!(tree.remove(key - 100_000, (key - 100_000) as u32));
    }
    assert!(tree.leaves < 2 * 100_000 / LEAF_CAPACITY, "{} leaves", tree.leaves);
    assert_eq!(tree.checked_rows().len(), 100_000);
}

#[test]
fn the_partition_point_is_found_for_every_length() {
    for length in 0..64 {
        for point in 0..=length {
            assert_eq!(partition_point(length, |at| at < point), point, "{point} of {length}");
        }
    }
}

#[test]
fn entries_that_were_expected_or_appended_are_counted() {
    let mut tree = Tree::<u64, true>::new();
    for key in 0..50_000u64 {
        tree.append(2 * key, key as u32).expect("keys differ");
        if key % 997 == 0 {
            assert_eq!(tree.counted_between(0, u64::MAX), [key as i64 + 1; 2]);
        }
    }
    for (number, key) in (1..60_000u64).step_by(6).enumerate() {
        tree.expect(key);
        tree.insert_expected(key, 60_000 + key as u32).expect("keys differ");
        assert_eq!(tree.counted_between(0, u64::MAX)[0], 50_001 + number as i64);
    }
    assert_eq!(tree.checked_rows().len(), 60_000);
}

#[test]
fn counts_hold_while_inner_nodes_merge() {
    for from_the_end in [false, true] {
        // 1,600 leaves below 25 inner nodes, which merge from one end to the other.
        let mut tree = Tree::<u64, true>::new();
        for key in 0..100_000u64 {
            tree.insert(key, key as u32).expect("keys differ");
        }
        let before = tree.inners;
        for number in (0..100_000u64).filter(|number| number % 10 != 0) {
            let key = if from_the_end { 99_999 - number } else { number };
            assert!(tree.remove(key, key as u32));
            if number % 97 == 1 {
                let left = tree.len() as i64;
                assert_eq!(tree.counted_between(0, u64::MAX), [left; 2], "without {key}");
            }
            if number % 10_001 == 1 {
                tree.checked_rows();
            }
        }
        assert_eq!(tree.checked_rows().len(), 10_000);
        assert!(tree.inners < before, "{} inner nodes", tree.inners);
    }
}

#[test]
fn expected_searches_hold_while_leaves_split_and_merge() {
    let mut tree = Tree::<u64, true>::new();
    let mut model = std::collections::BTreeMap::new();
    let mut random = lockstep_base::random::SeededRandom::new(5);
    for round in 0..60_000u32 {
        let key = random.below(20_000);
        tree.expect(key);
        // What comes between may split, merge or empty the leaf, or leave it as it is.
        for _ in 0..random.below(4) {
            let other = (key + random.below(90)).saturating_sub(45);
            let grows = (round / 15_000) % 2 == 0;
            match model.get(&other).copied() {
                None if grows => {
                    tree.insert(other, round).unwrap();
                    model.insert(other, round);
                }
                Some(row) if !grows => {
                    assert!(tree.remove(other, row));
                    model.remove(&other);
                }
                _ => {}
            }
        }
        assert_eq!(tree.get_expected(key), model.get(&key).copied());
        if random.below(2) == 0 {
            let existing = model.get(&key).copied();
            assert_eq!(tree.insert_expected(key, round), existing.map_or(Ok(()), Err));
            model.entry(key).or_insert(round);
        }
    }
    assert_eq!(tree.len(), model.len() as u64);
    assert!(model.iter().all(|(key, row)| tree.get(*key) == Some(*row)));
}

/// Breaks a tree of 1,000 entries in one way, then puts it right again.
#[test]
fn a_broken_tree_is_found() {
    let mut tree = Tree::<u64, true>::new();
    for key in 0..1_000u64 {
        tree.insert(key * 7_919 % 1_000, key as u32).expect("keys differ");
    }
    let found = |tree: &Tree<u64, true>| tree.check().expect_err("a broken tree");
    tree.length += 1;
    assert_eq!(found(&tree), "1000 entries lie in the leaves, 1001 are counted");
    tree.length -= 1;
    // SAFETY: the tree has several leaves of several entries, and keys are numbers.
    unsafe {
        let leaf = tree.first;
        let rows = [(*leaf).rows[0].assume_init(), (*leaf).rows[1].assume_init()];
        let keys = &mut (*leaf).keys;
        keys.swap(0, 1);
        assert_eq!(found(&tree), format!("the entry of row {} is out of order", rows[1]));
        let keys = &mut (*leaf).keys;
        keys.swap(0, 1);
        let next = (*leaf).next;
        (*next).previous = null_mut();
        assert_eq!(found(&tree), "leaf 1 is not linked with its neighbours");
        (*next).previous = leaf;
    }
    tree.check().expect("it is right again");
}
