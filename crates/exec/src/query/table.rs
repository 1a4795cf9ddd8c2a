//! A hash table of rows of values: groups, distinct rows, join keys, set operations.
//!
//! Rows are numbered in the order in which they came, so that what is read out of the table has
//! the same order on every replica. NULL equals NULL here; who wants otherwise keeps NULLs out.

use lockstep_types::float::float_hash_bits;
use lockstep_types::{Datum, Decimal};

/// Marks an empty place.
const EMPTY: u32 = u32::MAX;
const FIRST_PLACES: usize = 16;

/// Distinct rows of equal width, found by their values.
pub(crate) struct RowTable<'a> {
    width: usize,
    values: Vec<Datum<'a>>,
    hashes: Vec<u64>,
    /// Open addressing over row numbers; a power of two, at most three quarters full.
    places: Vec<u32>,
}

impl<'a> RowTable<'a> {
    /// An empty table of rows with this many values.
    pub(crate) fn new(width: usize) -> RowTable<'a> {
        RowTable { width, values: Vec::new(), hashes: Vec::new(), places: Vec::new() }
    }

    /// Number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The values of a row.
    #[inline]
    pub(crate) fn row(&self, number: usize) -> &[Datum<'a>] {
        &self.values[number * self.width..(number + 1) * self.width]
    }

    /// The number of an equal row.
    pub(crate) fn find(&self, row: &[Datum<'_>]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        self.probe(row, hash_row(row)).ok()
    }

    /// The number of the row, and whether it is new.
    pub(crate) fn insert(&mut self, row: &[Datum<'a>]) -> (usize, bool) {
        if self.hashes.len() * 4 >= self.places.len() * 3 {
            self.grow();
        }
        let hash = hash_row(row);
        match self.probe(row, hash) {
            Ok(number) => (number, false),
            Err(place) => {
                let number = self.hashes.len();
                self.places[place] = number as u32;
                self.hashes.push(hash);
                self.values.extend_from_slice(row);
                (number, true)
            }
        }
    }

    /// Bytes that one more row takes.
    pub(crate) fn bytes_per_row(&self) -> usize {
        self.width * size_of::<Datum<'_>>() + 16
    }

    /// The row's number, or the place where it belongs.
    #[inline]
    fn probe(&self, row: &[Datum<'_>], hash: u64) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        if let [Datum::Int(wanted)] = row {
            // One integer is compared faster than its hash is loaded.
            loop {
                let number = self.places[place];
                if number == EMPTY {
                    return Err(place);
                }
                match self.values[number as usize] {
                    Datum::Int(value) if value == *wanted => return Ok(number as usize),
                    Datum::Int(_) | Datum::Null => {}
                    other if equal_values(other, Datum::Int(*wanted)) => {
                        return Ok(number as usize);
                    }
                    _ => {}
                }
                place = (place + 1) & mask;
            }
        }
        loop {
            let number = self.places[place];
            if number == EMPTY {
                return Err(place);
            }
            let number = number as usize;
            if self.hashes[number] == hash && equal_rows(self.row(number), row) {
                return Ok(number);
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(FIRST_PLACES);
        self.places.clear();
        self.places.resize(size, EMPTY);
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut place = *hash as usize & (size - 1);
            while self.places[place] != EMPTY {
                place = (place + 1) & (size - 1);
            }
            self.places[place] = number as u32;
        }
    }
}

/// Whether two values are equal, NULL to NULL included.
#[inline]
pub(crate) fn equal_values(a: Datum<'_>, b: Datum<'_>) -> bool {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) | (Datum::Timestamp(a), Datum::Timestamp(b)) => a == b,
        (Datum::Text(a), Datum::Text(b)) => a == b,
        _ => a.sort_order(b).is_eq(),
    }
}

#[inline]
fn equal_rows(a: &[Datum<'_>], b: &[Datum<'_>]) -> bool {
    a.iter().zip(b).all(|(a, b)| equal_values(*a, *b))
}

#[inline]
fn hash_row(row: &[Datum<'_>]) -> u64 {
    let mut hash = 0u64;
    for value in row {
        hash = mix(hash ^ hash_value(*value));
    }
    hash ^ (hash >> 32)
}

#[inline]
fn mix(word: u64) -> u64 {
    let wide = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

/// Equal numbers of different types have equal hashes.
#[inline]
fn hash_value(value: Datum<'_>) -> u64 {
    match value {
        Datum::Null => 1,
        Datum::Bool(value) => u64::from(value) + 2,
        Datum::Int(value) | Datum::Timestamp(value) => value as u64,
        Datum::Float(value) => hash_float(value),
        Datum::Decimal(value) => hash_decimal(value),
        Datum::Text(text) => hash_bytes(text.as_bytes()),
        Datum::Bytes(bytes) => hash_bytes(bytes),
        Datum::Point(point) => {
            let (longitude, latitude) = point.order_key();
            mix(longitude as u64) ^ latitude as u64
        }
    }
}

fn hash_float(value: f64) -> u64 {
    let whole = value as i64;
    if whole as f64 == value { whole as u64 } else { float_hash_bits(value) }
}

fn hash_decimal(value: Decimal) -> u64 {
    let one = Decimal::from_integer(1).units();
    match i64::try_from(value.units() / one) {
        Ok(whole) if value.units() % one == 0 => whole as u64,
        _ => value.to_f64().to_bits(),
    }
}

#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*head));
        rest = tail;
    }
    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}
