//! The sketch of APPROX_COUNT_DISTINCT: HyperLogLog with 2^14 registers (a standard error of
//! 0.8 %) over hashes of 32 bits, which are kept whole while they are few.

use lockstep_types::{Datum, SqlType};
use std::collections::BTreeSet;

/// Bits of a hash that choose the register.
const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Up to so many distinct hashes are kept as they are.
const EXACT_HASHES: usize = 1024;
/// The greatest rank: all bits behind the register's are zero.
const MAX_RANK: usize = (32 - REGISTER_BITS + 1) as usize;
const TAG_EXACT: u8 = 0;
const TAG_REGISTERS: u8 = 1;

/// What is kept of a set of values to count it.
#[derive(Debug, Clone)]
pub(super) enum Sketch {
    /// The hashes themselves.
    Exact(BTreeSet<u32>),
    /// Per register the greatest rank.
    Registers(Vec<u8>),
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch::Exact(BTreeSet::new())
    }
}

impl Sketch {
    /// Adds a value that is not NULL, of its static type.
    pub(super) fn add(&mut self, value: Datum<'_>, sql_type: SqlType) {
        self.add_hash(hash(value, sql_type));
    }

    fn add_hash(&mut self, hash: u32) {
        match self {
            Sketch::Exact(hashes) => {
                hashes.insert(hash);
                if hashes.len() > EXACT_HASHES {
                    self.make_registers();
                }
            }
            Sketch::Registers(registers) => {
                let register = (hash >> (32 - REGISTER_BITS)) as usize;
                // The bit behind the hash bounds the rank.
                let rest = (hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1));
                let rank = rest.leading_zeros() as u8 + 1;
                registers[register] = registers[register].max(rank);
            }
        }
    }

    fn make_registers(&mut self) {
        if let Sketch::Exact(hashes) = self {
            let hashes = std::mem::take(hashes);
            *self = Sketch::Registers(vec![0; REGISTERS]);
            hashes.into_iter().for_each(|hash| self.add_hash(hash));
        }
    }

    /// The number of distinct values, about.
    pub(super) fn count(&self) -> i64 {
        let registers = match self {
            Sketch::Exact(hashes) => return hashes.len() as i64,
            Sketch::Registers(registers) => registers,
        };
        let mut counts = [0u32; MAX_RANK + 1];
        registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
        let size = REGISTERS as f64;
        let mut sum = size * tau(1.0 - f64::from(counts[MAX_RANK]) / size);
        for count in counts[1..MAX_RANK].iter().rev() {
            sum = 0.5 * (sum + f64::from(*count));
        }
        sum += size * sigma(f64::from(counts[0]) / size);
        (size * size / sum / (2.0 * std::f64::consts::LN_2)).round() as i64
    }

    /// The sketch as bytes, to be merged elsewhere.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Sketch::Exact(hashes) => {
                let mut bytes = vec![TAG_EXACT];
                hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_be_bytes()));
                bytes
            }
            Sketch::Registers(registers) => [&[TAG_REGISTERS], registers.as_slice()].concat(),
        }
    }

    /// Adds all that another sketch has seen; `None` if the bytes are no sketch.
    pub(super) fn merge(&mut self, bytes: &[u8]) -> Option<()> {
        let (tag, content) = bytes.split_first()?;
        match *tag {
            TAG_EXACT => {
                let (hashes, rest) = content.as_chunks::<4>();
                if !rest.is_empty() {
                    return None;
                }
                hashes.iter().for_each(|hash| self.add_hash(u32::from_be_bytes(*hash)));
            }
            TAG_REGISTERS if content.len() == REGISTERS => {
                // No rank is greater than that of the bits behind the register's.
                if content.iter().any(|rank| usize::from(*rank) > MAX_RANK) {
                    return None;
                }
                self.make_registers();
                if let Sketch::Registers(registers) = self {
                    for (own, other) in registers.iter_mut().zip(content) {
                        *own = (*own).max(*other);
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Bytes held, about.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Sketch::Exact(hashes) => hashes.len() * 6,
            Sketch::Registers(registers) => registers.len(),
        }
    }
}

/// Corrects for empty registers. With [`tau`] this is the estimator of Otmar Ertl, "New
/// cardinality estimation algorithms for HyperLogLog sketches" (2017), which has no bias at any
/// count.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Corrects for full registers.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The seed of the hash.
const SEED: u32 = 313;

/// MurmurHash3 (32 bits) of the value as its type lies in memory, little-endian: VoltDB's own
/// choice, so that the few values that collide there collide here.
fn hash(value: Datum<'_>, sql_type: SqlType) -> u32 {
    match value {
        Datum::Null | Datum::Bool(_) => 0,
        Datum::Int(v) => {
            let width = sql_type.fixed_bytes().filter(|width| *width <= 8).unwrap_or(8);
            murmur3(&v.to_le_bytes()[..width])
        }
        Datum::Timestamp(v) => murmur3(&v.to_le_bytes()),
        // Zeros of both signs are one value.
        Datum::Float(v) => murmur3(&(v + 0.0).to_le_bytes()),
        Datum::Decimal(v) => murmur3(&v.units().to_le_bytes()),
        Datum::Text(v) => murmur3(v.as_bytes()),
        Datum::Bytes(v) => murmur3(v),
    }
}

/// Austin Appleby's MurmurHash3_x86_32.
fn murmur3(bytes: &[u8]) -> u32 {
    let scramble =
        |word: u32| word.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(SEED, |hash, word| {
        let hash = (hash ^ scramble(u32::from_le_bytes(*word))).rotate_left(13);
        hash.wrapping_mul(5).wrapping_add(0xE654_6B64)
    });
    let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u32::from(*byte));
    hash ^= scramble(tail);
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    hash ^ (hash >> 16)
}
