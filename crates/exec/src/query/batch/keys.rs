//! Hash tables over columns of keys: groups, distinct rows, the sides of joins.
//!
//! Keys are numbered in the order in which they came. NULL equals NULL; joins leave NULLs out.

use super::vector::{Cell, NULL_INT, NULL_UNITS, Vector, each_pair};
use lockstep_types::float::float_order_key;
use lockstep_types::geography::Point;

/// No key.
pub(super) const NONE: u32 = u32::MAX;
const FIRST_PLACES: usize = 64;

/// Distinct keys of one or several columns.
pub(super) struct KeyTable<'a> {
    columns: Vec<Vector<'a>>,
    hashes: Vec<u64>,
    /// Open addressing: the upper half of a hash, and the number of the key; for a single
    /// integer the table below instead.
    places: Vec<(u32, u32)>,
    /// The key itself and its number.
    integers: Vec<(i64, u32)>,
    row_hashes: Vec<u64>,
}

impl<'a> KeyTable<'a> {
    /// Without keys; the columns, still empty, say their kinds.
    pub(super) fn new(columns: Vec<Vector<'a>>) -> KeyTable<'a> {
        KeyTable {
            columns,
            hashes: Vec::new(),
            places: Vec::new(),
            integers: Vec::new(),
            row_hashes: Vec::new(),
        }
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.columns.first().map_or(0, Vector::len)
    }

    /// The columns of the keys.
    pub(super) fn columns(&self) -> &[Vector<'a>] {
        &self.columns
    }

    /// Bytes that one more key takes.
    pub(super) fn bytes_per_key(&self) -> usize {
        self.columns.iter().map(Vector::value_bytes).sum::<usize>() + 24
    }

    fn is_integer(&self) -> bool {
        matches!(self.columns.as_slice(), [Vector::Int(_) | Vector::Timestamp(_)])
    }

    /// The numbers of keys, which are added if they are new. With `skip_nulls` a key with a NULL
    /// has no number.
    pub(super) fn insert(
        &mut self,
        keys: &[Vector<'a>],
        length: usize,
        skip_nulls: bool,
        numbers: &mut Vec<u32>,
    ) {
        numbers.clear();
        if let ([Vector::Int(keys) | Vector::Timestamp(keys)], true) = (keys, self.is_integer()) {
            return self.insert_integers(&keys[..length], skip_nulls, numbers);
        }
        self.row_hashes.clear();
        self.row_hashes.resize(length, 0);
        keys.iter().for_each(|column| hash_column(column, &mut self.row_hashes));
        for row in 0..length {
            if skip_nulls && keys.iter().any(|column| column.is_null(row)) {
                numbers.push(NONE);
                continue;
            }
            if self.hashes.len() * 2 >= self.places.len() {
                self.grow();
            }
            let hash = self.row_hashes[row];
            let number = match self.probe(keys, row, hash) {
                Ok(number) => number,
                Err(place) => {
                    let number = self.hashes.len() as u32;
                    self.places[place] = ((hash >> 32) as u32, number);
                    self.hashes.push(hash);
                    for (column, key) in self.columns.iter_mut().zip(keys) {
                        column.push_from(key, row);
                    }
                    number
                }
            };
            numbers.push(number);
        }
    }

    /// The numbers of keys, or [`NONE`]; a key with a NULL has none.
    pub(super) fn find(&mut self, keys: &[Vector<'a>], length: usize, numbers: &mut Vec<u32>) {
        numbers.clear();
        if self.len() == 0 {
            numbers.resize(length, NONE);
            return;
        }
        if let ([Vector::Int(keys) | Vector::Timestamp(keys)], true) = (keys, self.is_integer()) {
            let mask = self.integers.len() - 1;
            numbers.extend(keys[..length].iter().map(|key| {
                if *key == NULL_INT {
                    return NONE;
                }
                let mut place = mix(*key as u64) as usize & mask;
                loop {
                    let (found, number) = self.integers[place];
                    if found == *key || number == NONE {
                        return number;
                    }
                    place = (place + 1) & mask;
                }
            }));
            return;
        }
        self.row_hashes.clear();
        self.row_hashes.resize(length, 0);
        keys.iter().for_each(|column| hash_column(column, &mut self.row_hashes));
        for row in 0..length {
            let number = match keys.iter().any(|column| column.is_null(row)) {
                true => NONE,
                false => self.probe(keys, row, self.row_hashes[row]).unwrap_or(NONE),
            };
            numbers.push(number);
        }
    }

    fn insert_integers(&mut self, keys: &[i64], skip_nulls: bool, numbers: &mut Vec<u32>) {
        let mut known = self.len();
        numbers.reserve(keys.len());
        for key in keys {
            if skip_nulls && *key == NULL_INT {
                numbers.push(NONE);
                continue;
            }
            if known * 2 >= self.integers.len() {
                self.grow_integers();
            }
            let mask = self.integers.len() - 1;
            let mut place = mix(*key as u64) as usize & mask;
            let number = loop {
                let (found, number) = self.integers[place];
                if number == NONE {
                    let number = known as u32;
                    self.integers[place] = (*key, number);
                    if let Vector::Int(column) | Vector::Timestamp(column) = &mut self.columns[0] {
                        column.push(*key);
                    }
                    known += 1;
                    break number;
                }
                if found == *key {
                    break number;
                }
                place = (place + 1) & mask;
            };
            numbers.push(number);
        }
    }

    #[cold]
    fn grow_integers(&mut self) {
        let size = (self.integers.len() * 4).max(FIRST_PLACES);
        self.integers.clear();
        self.integers.resize(size, (0, NONE));
        let [Vector::Int(keys) | Vector::Timestamp(keys)] = self.columns.as_slice() else { return };
        for (number, key) in keys.iter().enumerate() {
            let mut place = mix(*key as u64) as usize & (size - 1);
            while self.integers[place].1 != NONE {
                place = (place + 1) & (size - 1);
            }
            self.integers[place] = (*key, number as u32);
        }
    }

    /// The key's number, or the place where it belongs.
    #[inline]
    fn probe(&self, keys: &[Vector<'a>], row: usize, hash: u64) -> Result<u32, usize> {
        let mask = self.places.len() - 1;
        let tag = (hash >> 32) as u32;
        let mut place = hash as usize & mask;
        loop {
            let (found, number) = self.places[place];
            if number == NONE {
                return Err(place);
            }
            if found == tag && self.is_key(number as usize, keys, row) {
                return Ok(number);
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn is_key(&self, number: usize, keys: &[Vector<'a>], row: usize) -> bool {
        self.columns
            .iter()
            .zip(keys)
            .all(|(column, key)| each_pair!(column, key, (a, b) => a[number].equals(b[row])))
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 4).max(FIRST_PLACES);
        self.places.clear();
        self.places.resize(size, (0, NONE));
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut place = *hash as usize & (size - 1);
            while self.places[place].1 != NONE {
                place = (place + 1) & (size - 1);
            }
            self.places[place] = ((hash >> 32) as u32, number as u32);
        }
    }
}

#[inline]
fn mix(word: u64) -> u64 {
    let wide = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

fn hash_column(column: &Vector<'_>, hashes: &mut [u64]) {
    match column {
        Vector::Int(values) | Vector::Timestamp(values) => {
            hashes.iter_mut().zip(values).for_each(|(h, value)| *h = mix(*h ^ *value as u64));
        }
        Vector::Float(values) => hashes.iter_mut().zip(values).for_each(|(h, value)| {
            *h = mix(*h ^ float_order_key(*value));
        }),
        Vector::Decimal(values) => hashes.iter_mut().zip(values).for_each(|(h, units)| {
            let units = if *units == NULL_UNITS { 1 } else { *units };
            *h = mix(mix(*h ^ units as u64) ^ (units >> 64) as u64);
        }),
        Vector::Text(values) => hashes.iter_mut().zip(values).for_each(|(h, text)| {
            *h = hash_bytes(*h, text.map(str::as_bytes));
        }),
        Vector::Bytes(values) => hashes.iter_mut().zip(values).for_each(|(h, bytes)| {
            *h = hash_bytes(*h, *bytes);
        }),
        Vector::Point(values) => hashes.iter_mut().zip(values).for_each(|(h, point)| {
            let (longitude, latitude) = point.map_or((i64::MIN, 1), Point::order_key);
            *h = mix(mix(*h ^ longitude as u64) ^ latitude as u64);
        }),
        Vector::Bool(values) => {
            hashes.iter_mut().zip(values).for_each(|(h, truth)| *h = mix(*h ^ u64::from(*truth)));
        }
    }
}

#[inline]
fn hash_bytes(hash: u64, bytes: Option<&[u8]>) -> u64 {
    let Some(bytes) = bytes else { return mix(hash ^ 1) };
    let mut hash = hash ^ ((bytes.len() as u64) << 32);
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*head));
        rest = tail;
    }
    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}
