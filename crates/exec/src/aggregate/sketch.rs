//! The sketch of APPROX_COUNT_DISTINCT: HyperLogLog with 2^16 registers (a standard error of
//! 0.4 %) over hashes of 32 bits, as VoltDB's.

use lockstep_types::float::float_hash_bits;
use lockstep_types::{Datum, SqlType};
use std::collections::BTreeMap;

/// Bits of a hash that choose the register.
const REGISTER_BITS: u32 = 16;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Up to N registers that are not empty are kept by themselves.
const FEW_REGISTERS: usize = 4096;
/// The greatest rank: all bits after the register's are zero.
const MAX_RANK: u8 = (32 - REGISTER_BITS + 1) as u8;
const TAG_FEW: u8 = 0;
const TAG_ALL: u8 = 1;

/// What is kept of a set of values to count it: per register the greatest rank.
#[derive(Debug, Clone)]
pub(super) enum Sketch {
    /// Only the registers that are not empty.
    Few(BTreeMap<u16, u8>),
    /// All registers.
    All(Vec<u8>),
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch::Few(BTreeMap::new())
    }
}

impl Sketch {
    /// Adds a value that is not NULL, of its static type.
    pub(super) fn add(&mut self, value: Datum<'_>, sql_type: SqlType) {
        let hash = hash(value, sql_type);
        // The bit after the hash bounds the rank.
        let rest = (hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1));
        self.raise((hash >> (32 - REGISTER_BITS)) as u16, rest.leading_zeros() as u8 + 1);
    }

    /// Raises a register to a rank.
    fn raise(&mut self, register: u16, rank: u8) {
        match self {
            Sketch::Few(registers) => {
                let held = registers.entry(register).or_default();
                *held = (*held).max(rank);
                if registers.len() > FEW_REGISTERS {
                    let few = std::mem::take(registers);
                    *self = Sketch::All(vec![0; REGISTERS]);
                    few.into_iter().for_each(|(register, rank)| self.raise(register, rank));
                }
            }
            Sketch::All(registers) => {
                let held = &mut registers[usize::from(register)];
                *held = (*held).max(rank);
            }
        }
    }

    /// The number of distinct values, about.
    pub(super) fn count(&self) -> i64 {
        let mut counts = [0u32; MAX_RANK as usize + 1];
        match self {
            Sketch::Few(registers) => {
                registers.values().for_each(|rank| counts[usize::from(*rank)] += 1);
                counts[0] = (REGISTERS - registers.len()) as u32;
            }
            Sketch::All(registers) => {
                registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
            }
        }
        estimate(&counts).round() as i64
    }

    /// The sketch as bytes, to be merged elsewhere.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Sketch::Few(registers) => {
                let mut bytes = vec![TAG_FEW];
                for (register, rank) in registers {
                    bytes.extend_from_slice(&register.to_be_bytes());
                    bytes.push(*rank);
                }
                bytes
            }
            Sketch::All(registers) => [&[TAG_ALL], registers.as_slice()].concat(),
        }
    }

    /// Adds all that another sketch has seen; `None` if the bytes are no sketch.
    pub(super) fn merge(&mut self, bytes: &[u8]) -> Option<()> {
        let (tag, content) = bytes.split_first()?;
        match *tag {
            TAG_FEW => {
                let (entries, rest) = content.as_chunks::<3>();
                let sound = entries.iter().all(|[_, _, rank]| (1..=MAX_RANK).contains(rank));
                if !rest.is_empty() || !sound {
                    return None;
                }
                for [high, low, rank] in entries {
                    self.raise(u16::from_be_bytes([*high, *low]), *rank);
                }
            }
            TAG_ALL if content.len() == REGISTERS => {
                if content.iter().any(|rank| *rank > MAX_RANK) {
                    return None;
                }
                for (register, rank) in (0..=u16::MAX).zip(content) {
                    if *rank > 0 {
                        self.raise(register, *rank);
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
            Sketch::Few(registers) => registers.len() * 6,
            Sketch::All(registers) => registers.len(),
        }
    }
}

/// The estimate from the number of registers of each rank.
fn estimate(counts: &[u32; MAX_RANK as usize + 1]) -> f64 {
    const MAX: usize = MAX_RANK as usize;
    let size = REGISTERS as f64;
    let ranks = counts.iter().zip(0i32..);
    let sum: f64 = ranks.map(|(count, rank)| f64::from(*count) / f64::from(1 << rank)).sum();
    let raw = 0.7213 / (1.0 + 1.079 / size) * size * size / sum;
    if raw <= 2.5 * size && counts[0] > 0 {
        return size * (size / f64::from(counts[0])).ln();
    }
    let mut sum = size * tau(1.0 - f64::from(counts[MAX]) / size);
    for count in counts[1..MAX].iter().rev() {
        sum = 0.5 * (sum + f64::from(*count));
    }
    sum += size * sigma(f64::from(counts[0]) / size);
    size * size / sum / (2.0 * std::f64::consts::LN_2)
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
        Datum::Float(v) => murmur3(&float_hash_bits(v).to_le_bytes()),
        Datum::Decimal(v) => murmur3(&v.units().to_le_bytes()),
        Datum::Text(v) => murmur3(v.as_bytes()),
        Datum::Bytes(v) => murmur3(v),
        // Equal points have one hash.
        Datum::Point(v) => {
            let (longitude, latitude) = v.order_key();
            murmur3([longitude.to_le_bytes(), latitude.to_le_bytes()].as_flattened())
        }
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
