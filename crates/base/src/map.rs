//! Hash maps whose order is the same in every process.
//!
//! The standard map seeds its hash per process, so iterating over it would differ between two
//! replicas. These use a fixed hash. Keys come from the catalog and the connection table, which
//! are bounded, so a crafted collision costs time within those bounds only.

// The one place that may name the standard map: with a fixed hasher its order is a function of
// the operations alone.
#![allow(clippy::disallowed_types)]

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed hash function.
pub type FixedHashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set with a fixed hash function.
pub type FixedHashSet<K> = std::collections::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiply-and-rotate over eight bytes at a time (the scheme known as FxHash), with a final mix.
#[derive(Debug, Default, Clone, Copy)]
pub struct FixedHasher {
    state: u64,
}

const MULTIPLIER: u64 = 0x517c_c1b7_2722_0a95;

impl FixedHasher {
    /// Goes on from what [`Hasher::finish`] gave.
    pub fn resumed(finished: u64) -> FixedHasher {
        FixedHasher { state: finished ^ (finished >> 29) ^ (finished >> 58) }
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}

/// Fewer than eight bytes as the low bytes of a word, without a copy of variable length: reads that
/// overlap bring some bytes twice, each time to the same position.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    debug_assert!(!bytes.is_empty() && bytes.len() < 8, "whole words are read before");
    let count = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (count - 4));
        return u64::from(u32::from_le_bytes(*first)) | last;
    }
    let at = |position: usize| u64::from(bytes[position]) << (8 * position);
    at(0) | at(count / 2) | at(count - 1)
}

impl Hasher for FixedHasher {
    #[inline]
    fn write(&mut self, mut bytes: &[u8]) {
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            self.add(u64::from_le_bytes(*head));
            bytes = rest;
        }
        if !bytes.is_empty() {
            self.add(last_word(bytes) ^ ((bytes.len() as u64) << 56));
        }
    }
    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }
    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }
    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }
    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.state ^ (self.state >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_after_the_last_whole_word_are_a_padded_word() {
        let bytes = [0xff, 2, 0, 4, 0x80, 6, 7];
        for count in 1..=bytes.len() {
            let mut padded = [0; 8];
            padded[..count].copy_from_slice(&bytes[..count]);
            assert_eq!(last_word(&bytes[..count]), u64::from_le_bytes(padded), "{count} bytes");
        }
    }

    #[test]
    fn a_hasher_goes_on_from_what_another_gave() {
        let mut whole = FixedHasher::default();
        for word in [3, u64::MAX, 1 << 40, 0] {
            let mut resumed = FixedHasher::resumed(whole.finish());
            assert_eq!(resumed.finish(), whole.finish());
            resumed.write_u64(word);
            whole.write_u64(word);
            assert_eq!(resumed.finish(), whole.finish());
        }
    }

    #[test]
    fn order_is_a_function_of_the_operations() {
        let fill = || {
            let mut map = FixedHashMap::default();
            for i in 0..1000u64 {
                map.insert(format!("key{}", i * 7919 % 1000), i);
            }
            map.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(fill(), fill());
    }
}
