//! Where a value lives: the hash of a partitioning value and the ring that maps hashes to
//! partitions. Clients compute the same to send a call straight to the right host.

use crate::float::float_hash_bits;
use crate::{Datum, PartitionId};

/// Tokens of a new ring; VoltDB's number, so that clients see the ring they expect.
const TOKENS: usize = 16_384;
/// Distance of two tokens: (2^31 - 1) / 8192.
const TOKEN_STEP: i64 = 262_143;
/// Tokens of a span: what is in a few cache lines tells most owners of a ring of few partitions.
const SPAN_TOKENS: usize = 64;
/// In place of the owner of a span: it has several.
const SEVERAL: u16 = u16::MAX;

/// The hash of a partitioning value: the upper half of the first word of MurmurHash3 x64_128 with
/// seed 0, over 8 little-endian bytes for integers, else over the bytes of the value.
///
/// Returns `None` for NULL, which lives on partition 0 without hashing. Other kinds than
/// integers, text and bytes hash as integer 0, as VoltDB has it; they are refused as partitioning
/// columns anyway.
#[inline]
pub fn hash_value(value: Datum<'_>) -> Option<i32> {
    match value {
        Datum::Null => None,
        Datum::Int(v) => Some(hash_integer(v)),
        Datum::Text(text) => Some(hash_bytes(text.as_bytes())),
        Datum::Bytes(bytes) => Some(hash_bytes(bytes)),
        _ => Some(hash_integer(0)),
    }
}

/// Most values that place a row together: partitioning columns of a table, key columns of a
/// global index.
pub const MAX_KEY_PARTS: usize = 16;

/// Bytes that stand for a value among several that place a row together.
const PART_BYTES: usize = 4;

/// Values that place a row together, in the form that is hashed: of each value the hash that it
/// has alone, 4 bytes little-endian. The partition of the values is that of these bytes as one
/// VARBINARY value.
///
/// Alone, a value of a type that VoltDB does not place by (they cannot partition tables, but may
/// be keys of global indexes) is hashed as the bytes of its storage form, and NULL as integer 0.
#[derive(Debug, Clone, Copy)]
pub struct CompositeKey {
    bytes: [u8; MAX_KEY_PARTS * PART_BYTES],
    length: usize,
}

impl CompositeKey {
    /// The key of some values, at most [`MAX_KEY_PARTS`]; more are a fault of the caller.
    pub fn of<'a>(values: impl IntoIterator<Item = Datum<'a>>) -> CompositeKey {
        let mut key = CompositeKey { bytes: [0; MAX_KEY_PARTS * PART_BYTES], length: 0 };
        for value in values {
            assert!(key.length < key.bytes.len(), "a key has at most {MAX_KEY_PARTS} parts");
            let part = hash_part(value).to_le_bytes();
            key.bytes[key.length..key.length + PART_BYTES].copy_from_slice(&part);
            key.length += PART_BYTES;
        }
        key
    }

    /// What is hashed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The hash of one value among several. Equal values have equal hashes.
fn hash_part(value: Datum<'_>) -> i32 {
    match value {
        Datum::Timestamp(microseconds) => hash_integer(microseconds),
        Datum::Float(number) => hash_integer(float_hash_bits(number) as i64),
        Datum::Decimal(number) => hash_bytes(&number.units().to_le_bytes()),
        other => hash_value(other).unwrap_or_else(|| hash_integer(0)),
    }
}

/// The hash of an integer of any width, widened to 64 bits.
#[inline]
pub fn hash_integer(value: i64) -> i32 {
    let mut state = Murmur::default();
    let mut k1 = value as u64;
    k1 = k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    state.h1 ^= k1;
    state.finish(8)
}

/// The hash of a text's or binary's bytes.
pub fn hash_bytes(bytes: &[u8]) -> i32 {
    let mut state = Murmur::default();
    let mut rest = bytes;
    while let Some((block, after)) = rest.split_first_chunk::<16>() {
        let (low, high) = block.split_at(8);
        state.mix(little_endian(low), little_endian(high));
        rest = after;
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    let k2 = little_endian(high).wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let k1 = little_endian(low).wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    state.h2 ^= k2;
    state.h1 ^= k1;
    state.finish(bytes.len() as u64)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The two words of MurmurHash3 x64_128 (Austin Appleby, public domain algorithm).
#[derive(Default)]
struct Murmur {
    h1: u64,
    h2: u64,
}

impl Murmur {
    #[inline]
    fn mix(&mut self, k1: u64, k2: u64) {
        self.h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        self.h1 = self.h1.rotate_left(27).wrapping_add(self.h2);
        self.h1 = self.h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        self.h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        self.h2 = self.h2.rotate_left(31).wrapping_add(self.h1);
        self.h2 = self.h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    #[inline]
    fn finish(mut self, length: u64) -> i32 {
        self.h1 ^= length;
        self.h2 ^= length;
        self.h1 = self.h1.wrapping_add(self.h2);
        self.h2 = self.h2.wrapping_add(self.h1);
        let h1 = final_mix(self.h1).wrapping_add(final_mix(self.h2));
        (h1 >> 32) as i32
    }
}

#[inline]
fn final_mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}

/// The map from hashes to partitions: 16384 evenly spaced tokens, each owned by a partition that
/// holds the hashes from its token up to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashRing {
    owners: Vec<u16>,
    /// By span, its owner, or [`SEVERAL`].
    spans: Vec<u16>,
    partition_count: u32,
}

impl HashRing {
    /// The ring that VoltDB 11.4 builds for a new cluster: all tokens start on partition 0; then
    /// partitions join one at a time, each taking the lowest token of the most loaded one until
    /// loads differ by at most one (ties by partition number).
    pub fn new(partition_count: u32) -> HashRing {
        assert!((1..PartitionId::LIMIT).contains(&partition_count), "1 to 16382 partitions");
        let mut owned: Vec<std::collections::VecDeque<u16>> = vec![(0..TOKENS as u16).collect()];
        for _ in 1..partition_count {
            let mut joining = std::collections::VecDeque::new();
            loop {
                let most = (0..owned.len())
                    .max_by_key(|&i| (owned[i].len(), std::cmp::Reverse(i)))
                    .expect("partition 0 is always there");
                if owned[most].len() <= joining.len() + 1 {
                    break;
                }
                joining.extend(owned[most].pop_front());
            }
            owned.push(joining);
        }
        let mut owners = vec![0u16; TOKENS];
        for (partition, tokens) in owned.iter().enumerate() {
            for &token in tokens {
                owners[usize::from(token)] = partition as u16;
            }
        }
        let spans = owners.chunks(SPAN_TOKENS).map(owner_of_all).collect();
        HashRing { owners, spans, partition_count }
    }

    /// Number of partitions.
    #[inline]
    pub fn partition_count(&self) -> u32 {
        self.partition_count
    }

    /// The partition that owns a hash.
    #[inline]
    pub fn partition_of_hash(&self, hash: i32) -> PartitionId {
        let position = (i64::from(hash) - i64::from(i32::MIN)) / TOKEN_STEP;
        let index = (position as usize).min(TOKENS - 1);
        let owner = match self.spans[index / SPAN_TOKENS] {
            SEVERAL => self.owners[index],
            owner => owner,
        };
        PartitionId(u32::from(owner))
    }

    /// The partition that owns a partitioning value.
    #[inline]
    pub fn partition_of(&self, value: Datum<'_>) -> PartitionId {
        if self.partition_count == 1 {
            return PartitionId(0);
        }
        hash_value(value).map_or(PartitionId(0), |hash| self.partition_of_hash(hash))
    }

    /// The partition of a row by the values that place it, in the order of their columns: one
    /// alone exactly as [`HashRing::partition_of`] has it if VoltDB places rows by its type,
    /// anything else as a [`CompositeKey`].
    #[inline]
    pub fn partition_of_values<'a>(
        &self,
        values: impl IntoIterator<Item = Datum<'a>, IntoIter: Clone>,
    ) -> PartitionId {
        let values = values.into_iter();
        let mut first = values.clone();
        match (first.next(), first.next()) {
            (
                Some(only @ (Datum::Int(_) | Datum::Text(_) | Datum::Bytes(_) | Datum::Null)),
                None,
            ) => self.partition_of(only),
            _ => self.partition_of(Datum::Bytes(CompositeKey::of(values).bytes())),
        }
    }

    /// Tokens in ascending order with the partition that owns each.
    pub fn tokens(&self) -> impl Iterator<Item = (i32, PartitionId)> + '_ {
        self.owners.iter().enumerate().map(|(i, &owner)| {
            let token = i64::from(i32::MIN) + i as i64 * TOKEN_STEP;
            (token as i32, PartitionId(u32::from(owner)))
        })
    }
}

/// The owner of a span, if it has only one.
fn owner_of_all(span: &[u16]) -> u16 {
    let first = span[0];
    if span.iter().all(|owner| *owner == first) { first } else { SEVERAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_voltdb() {
        for (value, hash) in [
            (0, 685_728_695),
            (1, 4_457_399),
            (5, 265_602_550),
            (-1, -1_595_624_838),
            (5_551_234_567, -1_381_700_295),
            (i64::MAX, 1_819_732_939),
        ] {
            assert_eq!(hash_integer(value), hash);
            assert_eq!(hash_bytes(&value.to_le_bytes()), hash);
        }
        let twenty: Vec<u8> = (0..20).collect();
        for (bytes, hash) in [
            (&b""[..], 0),
            (b"a", -2_058_005_147),
            (b"5", 223_053_125),
            (b"hello", -874_993_741),
            (b"VoltDB", -560_481_132),
            (b"0123456789abcdef", 1_272_999_316),
            (b"0123456789abcdefg", -1_909_300_947),
            ("hé".as_bytes(), -700_181_247),
            (&[0], 1_175_497_701),
            (&twenty, -1_546_497_168),
        ] {
            assert_eq!(hash_bytes(bytes), hash, "{bytes:?}");
        }
    }

    #[test]
    fn several_values_are_placed_by_the_hashes_that_each_has_alone() {
        let ring = HashRing::new(7);
        let (int, text) = (Datum::Int(5), Datum::Text("hello"));
        let bytes = [hash_integer(5).to_le_bytes(), hash_bytes(b"hello").to_le_bytes()].concat();
        assert_eq!(CompositeKey::of([int, text]).bytes(), bytes);
        assert_eq!(hash_bytes(&bytes), 1_280_757_535);
        assert_eq!(ring.partition_of_values([int, text]), ring.partition_of(Datum::Bytes(&bytes)));
        for alone in [int, text, Datum::Null, Datum::Bytes(&[1])] {
            assert_eq!(ring.partition_of_values([alone]), ring.partition_of(alone));
        }
        assert_ne!(CompositeKey::of([int, text]).bytes(), CompositeKey::of([text, int]).bytes());
        let zeros = [Datum::Float(0.0), Datum::Float(-0.0)];
        assert_eq!(CompositeKey::of([zeros[0]]).bytes(), CompositeKey::of([zeros[1]]).bytes());
        let nans = [0x7ff8_0000_0000_0000, 0xfff8_0000_0000_0001].map(f64::from_bits);
        let [a, b] = nans.map(|nan| CompositeKey::of([Datum::Float(nan)]));
        assert_eq!(a.bytes(), b.bytes());
    }

    #[test]
    fn a_ring_is_balanced_and_finds_the_token_at_or_below() {
        for count in [1, 2, 3, 5, 8, 100] {
            let ring = HashRing::new(count);
            let mut loads = vec![0; count as usize];
            ring.tokens().for_each(|(_, partition)| loads[partition.index()] += 1);
            let (min, max) = (loads.iter().min(), loads.iter().max());
            assert!(max.unwrap() - min.unwrap() <= 1, "{loads:?}");
            let tokens: Vec<_> = ring.tokens().collect();
            for hash in [i32::MIN, -1, 0, 1, 262_142, 4_457_399, i32::MAX] {
                let below = tokens.iter().rev().find(|(token, _)| *token <= hash);
                assert_eq!(Some(ring.partition_of_hash(hash)), below.map(|t| t.1));
            }
        }
        for count in [1, 2, 7, 300, PartitionId::LIMIT - 1] {
            let ring = HashRing::new(count);
            for (token, partition) in ring.tokens() {
                assert_eq!(ring.partition_of_hash(token), partition);
            }
        }
    }
}
