//! Keys whose unsigned order is the order of the values they stand for.
//!
//! A key is the concatenation of its parts. Integers, timestamps, floats and decimals have a
//! fixed width: sign flipped, so that the NULL sentinel, the smallest, comes first. Short text and
//! bytes can be brought to a fixed width too: filled up with zeros, with the length after. When
//! all parts together take at most 8 bytes the key is one word, at most 16 a double word; these
//! are the fast paths. Any other key is bytes in memory order, where text and bytes end with a
//! terminator that sorts before every byte they can contain (a zero byte is escaped), and NULL
//! sorts before the empty value. So no key is the beginning of another of the same index.

use crate::key_buffer::KeyBuffer;
use crate::layout::{Field, FieldKind};
use crate::row::{inline, read_field, read_point};
use lockstep_types::float::float_order_key;
use lockstep_types::geography::Point;
use lockstep_types::{Datum, SqlType};
use std::sync::Arc;

/// How an index holds its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// At most 8 bytes, in one word.
    Word,
    /// At most 16 bytes, in a double word.
    DoubleWord,
    /// Byte-comparable, of any length.
    Bytes,
}

/// One part of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPart {
    pub(crate) sql_type: SqlType,
    /// Where the part lies in a slot; unset for computed keys.
    pub(crate) field: Option<Field>,
    /// Bytes in the key; 0 for text and bytes of any length.
    pub(crate) width: u32,
    /// Integers and timestamps: the NULL sentinel.
    null: Option<i64>,
}

/// Bytes of the longest key in double word form.
const DOUBLE_WORD_BYTES: u32 = 16;

impl KeyPart {
    /// `None` for a type that cannot be indexed.
    pub(crate) fn new(sql_type: SqlType, field: Option<Field>) -> Option<KeyPart> {
        match sql_type {
            SqlType::Null | SqlType::Boolean => None,
            _ => {
                let width = match (sql_type.fixed_bytes(), field) {
                    (Some(width), _) => width as u32,
                    (None, Some(field)) if field.max_bytes < DOUBLE_WORD_BYTES => {
                        field.max_bytes + 1
                    }
                    (None, _) => 0,
                };
                let integer = sql_type.is_integer() || sql_type == SqlType::Timestamp;
                let null = integer.then(|| i64::MIN >> (64 - 8 * width));
                Some(KeyPart { sql_type, field, width, null })
            }
        }
    }
}

impl KeyPart {
    /// The values that keys mostly have: integers within their part's range, and text and bytes
    /// that fit; not NULL.
    #[inline(always)]
    fn common_value(&self, value: Datum<'_>) -> Option<u128> {
        let Some(null) = self.null else { return self.common_text(value) };
        let (Datum::Int(value) | Datum::Timestamp(value)) = value else { return None };
        let ordered = value.wrapping_sub(null) as u64;
        // NULL is 0 and not among the integers; what is too small wraps to a great number.
        let legal = ordered.wrapping_sub(1) < u64::MAX >> (64 - self.width * 8);
        legal.then_some(u128::from(ordered))
    }

    #[inline(never)]
    fn common_text(&self, value: Datum<'_>) -> Option<u128> {
        let value = match (self.sql_type, value) {
            (SqlType::Varchar, Datum::Text(text)) => text.as_bytes(),
            (SqlType::Varbinary, Datum::Bytes(bytes)) => bytes,
            _ => return None,
        };
        (value.len() < self.width as usize).then(|| pack(value, self.width))
    }
}

/// A value of less than `width` bytes in `width` bytes: filled up with zeros, its length plus one
/// after. NULL, all zeros, is below the empty value.
#[inline]
fn pack(value: &[u8], width: u32) -> u128 {
    let room = 8 * (DOUBLE_WORD_BYTES - (width - 1));
    left_aligned(value).unbounded_shr(room) << 8 | (value.len() as u128 + 1)
}

/// The beginning of a value that is longer than `width - 1` bytes: after all values that have
/// this beginning and fit, before all greater ones.
fn pack_beginning(value: &[u8], width: u32) -> u128 {
    pack(&value[..width as usize - 1], width) | 0xff
}

/// At most 15 bytes as the high bytes of a number. Reads that overlap, for want of a load of any
/// length.
#[inline]
fn left_aligned(value: &[u8]) -> u128 {
    let behind = 8 * (16 - value.len() as u32);
    if let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
        u128::from(first) << 64 | u128::from(last) << behind
    } else if let (Some(first), Some(last)) = (value.first_chunk::<4>(), value.last_chunk::<4>()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        u128::from(first) << 96 | u128::from(last) << behind
    } else if let (Some(first), Some(last)) = (value.first(), value.last()) {
        // One to three bytes: first, middle and last, which may be the same.
        let middle = value.len() / 2;
        let shifted = |byte: u8, place: usize| u32::from(byte) << (24 - 8 * place);
        let high =
            shifted(*first, 0) | shifted(value[middle], middle) | u32::from(*last) << (behind - 96);
        u128::from(high) << 96
    } else {
        0
    }
}

/// The parts of an index's keys and the form that follows from them.
#[derive(Debug, Clone)]
pub(crate) struct KeyShape {
    pub(crate) parts: Arc<[KeyPart]>,
    pub(crate) form: KeyForm,
    /// Bits of a whole key in word and double word form.
    bits: u32,
    /// For keys of one integer: the NULL sentinel and the number of legal values; else 0 values.
    single: (i64, u64),
}

/// Whether an encoded key is the one that was asked for, or stands at a place beside all values
/// because a part lies outside its type's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    Exact,
    /// The last part is below every value but NULL: the key is at the smallest such value.
    Below,
    /// The last part is above every value: the key ends before it.
    Above,
    /// The last part is longer than its values can be: it stands after its longest beginning.
    Longer,
}

/// A part whose value is of a kind that its type does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFault {
    TypeMismatch(usize),
    TooManyParts(usize),
}

const SIGN: u64 = 1 << 63;
/// The smallest key of a fixed-width part that is not NULL, or below it.
const AFTER_NULL: u128 = 1;

impl KeyShape {
    pub(crate) fn new(mut parts: Vec<KeyPart>) -> KeyShape {
        let bits: u32 = parts.iter().map(|part| part.width * 8).sum();
        let form = match bits {
            _ if parts.iter().any(|part| part.width == 0) => KeyForm::Bytes,
            1..=64 => KeyForm::Word,
            65..=128 => KeyForm::DoubleWord,
            _ => KeyForm::Bytes,
        };
        if form == KeyForm::Bytes {
            let text = |part: &&mut KeyPart| part.sql_type.is_variable_length();
            parts.iter_mut().filter(text).for_each(|part| part.width = 0);
        }
        let single = match *parts.as_slice() {
            [KeyPart { null: Some(null), width, .. }] => (null, u64::MAX >> (64 - width * 8)),
            _ => (0, 0),
        };
        KeyShape { parts: parts.into(), form, bits, single }
    }

    /// The word of a key of one integer that is within its range and not NULL.
    #[inline(always)]
    pub(crate) fn single_integer(&self, key: &[Datum<'_>]) -> Option<u64> {
        let [Datum::Int(value) | Datum::Timestamp(value)] = key else { return None };
        let (null, values) = self.single;
        let ordered = value.wrapping_sub(null) as u64;
        (ordered.wrapping_sub(1) < values).then_some(ordered)
    }

    /// The fast path of key encoding: the number of a key, or of the beginning of one, whose
    /// values are all common ones, and the bits that are missing after it. For the word form.
    #[inline]
    pub(crate) fn word_of(&self, key: &[Datum<'_>]) -> Option<(u64, u32)> {
        if key.len() > self.parts.len() {
            return None;
        }
        let mut word = 0u64;
        let mut missing = self.bits;
        for (part, value) in self.parts.iter().zip(key) {
            let width = part.width * 8;
            // In two steps, because a part can be as wide as the word.
            word = (word << (width - 1) << 1) | part.common_value(*value)? as u64;
            missing -= width;
        }
        Some((word, missing))
    }

    /// As `word_of`, for the double word form.
    #[inline]
    pub(crate) fn double_of(&self, key: &[Datum<'_>]) -> Option<(u128, u32)> {
        if key.len() > self.parts.len() {
            return None;
        }
        let mut double = 0u128;
        let mut missing = self.bits;
        for (part, value) in self.parts.iter().zip(key) {
            let width = part.width * 8;
            double = double.unbounded_shl(width) | part.common_value(*value)?;
            missing -= width;
        }
        Some((double, missing))
    }

    /// The key of a row, in word form.
    ///
    /// # Safety
    /// `slot` holds a row of the table whose fields the parts name; the form is `Word`.
    #[inline]
    pub(crate) unsafe fn word_from_slot(&self, slot: *const u8) -> u64 {
        // SAFETY: passed on.
        unsafe {
            if let [part] = &*self.parts {
                return ordered_field(part, slot) as u64;
            }
            let mut word = 0u64;
            for part in &*self.parts {
                // Several parts of at most 8 bytes together: each is narrower than a word.
                word = (word << (part.width * 8)) | ordered_field(part, slot) as u64;
            }
            word
        }
    }

    /// The key of a row, in double word form.
    ///
    /// # Safety
    /// `slot` holds a row of the table whose fields the parts name; the form is `DoubleWord`.
    #[inline]
    pub(crate) unsafe fn double_from_slot(&self, slot: *const u8) -> u128 {
        let mut double = 0u128;
        for part in &*self.parts {
            // SAFETY: passed on.
            let ordered = unsafe { ordered_field(part, slot) };
            double = double.checked_shl(part.width * 8).unwrap_or(0) | ordered;
        }
        double
    }

    /// The key of a row, as bytes after what `key` holds.
    ///
    /// # Safety
    /// `slot` holds a row of the table whose fields the parts name.
    pub(crate) unsafe fn bytes_from_slot(&self, slot: *const u8, key: &mut KeyBuffer<'_>) {
        for part in &*self.parts {
            // SAFETY: passed on; the value is copied into the key before it returns.
            unsafe {
                if part.width > 0 {
                    push_fixed(key, ordered_field(part, slot), part.width);
                } else if let Some(field) = &part.field {
                    match read_field(field, slot) {
                        Datum::Text(text) => push_escaped(key, text.as_bytes()),
                        Datum::Bytes(bytes) => push_escaped(key, bytes),
                        _ => push_null(key),
                    }
                }
            }
        }
    }
}

/// A fixed-width field of a slot, as an unsigned number in value order.
///
/// # Safety
/// `slot` holds a row of the table whose field the part names.
#[inline]
unsafe fn ordered_field(part: &KeyPart, slot: *const u8) -> u128 {
    let Some(field) = &part.field else { return 0 };
    // SAFETY: the field lies within the slot.
    unsafe { ordered_at(field.kind, part.width, slot.add(field.offset as usize)) }
}

/// As `ordered_field`; `width` is that of the key's part, for text and bytes.
///
/// # Safety
/// `at` points to a field of this kind.
#[inline(always)]
pub(crate) unsafe fn ordered_at(kind: FieldKind, width: u32, at: *const u8) -> u128 {
    // SAFETY: by the contract.
    unsafe {
        u128::from(match kind {
            FieldKind::BigInt | FieldKind::Timestamp => at.cast::<u64>().read_unaligned() ^ SIGN,
            FieldKind::Integer => u64::from(at.cast::<u32>().read_unaligned() ^ (1 << 31)),
            FieldKind::SmallInt => u64::from(at.cast::<u16>().read_unaligned() ^ (1 << 15)),
            FieldKind::TinyInt => u64::from(at.read() ^ (1 << 7)),
            FieldKind::Float => float_order_key(at.cast::<f64>().read_unaligned()),
            FieldKind::Decimal => {
                return at.cast::<u128>().read_unaligned() ^ (1 << 127);
            }
            FieldKind::Point => return read_point(at).map_or(0, ordered_point),
            FieldKind::InlineText | FieldKind::InlineBytes => {
                return inline(at).map_or(0, |value| pack(value, width));
            }
            FieldKind::TailText | FieldKind::TailBytes => 0,
        })
    }
}

/// Points that are equal have the same number.
#[inline]
fn ordered_point(point: Point) -> u128 {
    let (longitude, latitude) = point.order_key();
    u128::from(longitude as u64 ^ SIGN) << 64 | u128::from(latitude as u64 ^ SIGN)
}

#[inline]
fn push_fixed(key: &mut KeyBuffer<'_>, ordered: u128, width: u32) {
    match width {
        1 => key.extend(&[ordered as u8]),
        2 => key.extend(&(ordered as u16).to_be_bytes()),
        4 => key.extend(&(ordered as u32).to_be_bytes()),
        8 => key.extend(&(ordered as u64).to_be_bytes()),
        _ => key.extend(&ordered.to_be_bytes()),
    }
}

/// Before the terminator, so before the empty value.
fn push_null(key: &mut KeyBuffer<'_>) {
    key.extend(&[0, 0]);
}

/// The value with each zero byte escaped, and a terminator that sorts before the escape.
#[inline]
fn push_escaped(key: &mut KeyBuffer<'_>, value: &[u8]) {
    if has_zero(value) {
        for byte in value {
            key.extend(if *byte == 0 { &[0, 0xff] } else { std::slice::from_ref(byte) });
        }
    } else {
        key.extend(value);
    }
    key.extend(&[0, 1]);
}

/// True if a byte is zero; eight at a time.
#[inline]
fn has_zero(value: &[u8]) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let (chunks, rest) = value.as_chunks::<8>();
    let zero = |chunk: &[u8; 8]| {
        let word = u64::from_ne_bytes(*chunk);
        word.wrapping_sub(LOW) & !word & (LOW << 7) != 0
    };
    chunks.iter().any(zero) || rest.contains(&0)
}

/// Builds a key from values, part after part.
pub(crate) struct KeyEncoder<'e, 'b> {
    shape: &'e KeyShape,
    buffer: &'e mut KeyBuffer<'b>,
    part: usize,
    number: u128,
    bits: u32,
    exactness: Exactness,
}

impl<'e, 'b> KeyEncoder<'e, 'b> {
    pub(crate) fn new(shape: &'e KeyShape, buffer: &'e mut KeyBuffer<'b>) -> Self {
        let exactness = Exactness::Exact;
        KeyEncoder { shape, buffer, part: 0, number: 0, bits: 0, exactness }
    }

    pub(crate) fn shape(&self) -> &'e KeyShape {
        self.shape
    }

    /// Parts pushed so far.
    pub(crate) fn parts(&self) -> usize {
        self.part
    }

    pub(crate) fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// Adds the next part. After a part that is out of range further parts say nothing.
    #[inline]
    pub(crate) fn push(&mut self, value: Datum<'_>) -> Result<(), KeyFault> {
        let Some(part) = self.shape.parts.get(self.part) else {
            return Err(KeyFault::TooManyParts(self.part));
        };
        let position = self.part;
        self.part += 1;
        if self.exactness != Exactness::Exact {
            return Ok(());
        }
        if part.width == 0 {
            match (part.sql_type, value) {
                (_, Datum::Null) => push_null(self.buffer),
                (SqlType::Varchar, Datum::Text(text)) => {
                    push_escaped(self.buffer, text.as_bytes());
                }
                (SqlType::Varbinary | SqlType::Geography, Datum::Bytes(bytes)) => {
                    push_escaped(self.buffer, bytes);
                }
                _ => return Err(KeyFault::TypeMismatch(position)),
            }
            return Ok(());
        }
        let (ordered, exactness) =
            ordered_value(part, value).ok_or(KeyFault::TypeMismatch(position))?;
        self.exactness = exactness;
        if exactness == Exactness::Above {
            return Ok(());
        }
        if self.shape.form == KeyForm::Bytes {
            push_fixed(self.buffer, ordered, part.width);
        } else {
            self.bits += part.width * 8;
            self.number = self.number.checked_shl(part.width * 8).unwrap_or(0) | ordered;
        }
        Ok(())
    }

    /// The key as a number, missing parts filled with zero bits, or one bits for `high`. Says
    /// nothing in bytes form.
    #[inline]
    pub(crate) fn number(&self, high: bool) -> u128 {
        if self.shape.form == KeyForm::Bytes {
            return 0;
        }
        let missing = self.shape.bits - self.bits;
        let shifted = self.number.checked_shl(missing).unwrap_or(0);
        if high && missing > 0 { shifted | (u128::MAX >> (128 - missing)) } else { shifted }
    }
}

/// A value of a part that has a width, as an unsigned number in value order; `None` when the part's
/// type does not take the value's kind.
#[inline]
fn ordered_value(part: &KeyPart, value: Datum<'_>) -> Option<(u128, Exactness)> {
    Some(match (part.sql_type, value) {
        (_, Datum::Null) => (0, Exactness::Exact),
        (SqlType::BigInt, Datum::Int(value)) => ordered_integer(value, 63),
        (SqlType::Integer, Datum::Int(value)) => ordered_integer(value, 31),
        (SqlType::SmallInt, Datum::Int(value)) => ordered_integer(value, 15),
        (SqlType::TinyInt, Datum::Int(value)) => ordered_integer(value, 7),
        (SqlType::Timestamp, Datum::Timestamp(value) | Datum::Int(value)) => {
            ordered_integer(value, 63)
        }
        (SqlType::Float, Datum::Float(value)) => float_part(value),
        (SqlType::Float, Datum::Int(value)) => float_part(value as f64),
        (SqlType::Float, Datum::Decimal(value)) => float_part(value.to_f64()),
        (SqlType::Decimal, Datum::Decimal(value)) => decimal_part(value.units()),
        (SqlType::Decimal, Datum::Int(value)) => {
            decimal_part(lockstep_types::Decimal::from_integer(value).units())
        }
        (SqlType::Varchar, Datum::Text(text)) => packed_part(text.as_bytes(), part.width),
        (SqlType::Varbinary, Datum::Bytes(bytes)) => packed_part(bytes, part.width),
        (SqlType::GeographyPoint, Datum::Point(point)) => (ordered_point(point), Exactness::Exact),
        _ => return None,
    })
}

#[inline]
fn ordered_integer(value: i64, magnitude_bits: u32) -> (u128, Exactness) {
    let null = i64::MIN >> (63 - magnitude_bits);
    if value <= null {
        (AFTER_NULL, Exactness::Below)
    } else if value > !null {
        (0, Exactness::Above)
    } else {
        (u128::from(value.wrapping_sub(null) as u64), Exactness::Exact)
    }
}

fn packed_part(value: &[u8], width: u32) -> (u128, Exactness) {
    if value.len() < width as usize {
        (pack(value, width), Exactness::Exact)
    } else {
        (pack_beginning(value, width), Exactness::Longer)
    }
}

fn float_part(value: f64) -> (u128, Exactness) {
    match float_order_key(value) {
        0 => (AFTER_NULL, Exactness::Below),
        ordered => (u128::from(ordered), Exactness::Exact),
    }
}

fn decimal_part(units: i128) -> (u128, Exactness) {
    match units as u128 ^ (1 << 127) {
        0 => (AFTER_NULL, Exactness::Below),
        ordered => (ordered, Exactness::Exact),
    }
}
