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
    #[inline]
    fn add(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for FixedHasher {
    #[inline]
    fn write(&mut self, mut bytes: &[u8]) {
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            self.add(u64::from_le_bytes(*head));
            bytes = rest;
        }
        if !bytes.is_empty() {
            let mut last = [0u8; 8];
            last[..bytes.len()].copy_from_slice(bytes);
            self.add(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
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
