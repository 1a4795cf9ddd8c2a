//! Row ids, borrowed rows, and the encoding of one field in a slot.

use crate::layout::{Field, FieldKind};
use crate::tail::tail_value;
use lockstep_types::float::float_datum;
use lockstep_types::geography::{NULL_COORDINATE, Point};
use lockstep_types::sql_type::NULL_FLOAT;
use lockstep_types::{Datum, Decimal};
use std::fmt;
use std::marker::PhantomData;

/// A row's number in its table: the block in the high bits, the slot in the low ones.
///
/// Ids are replicated state: the same operations give the same ids. The id of a deleted row is
/// used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u32);

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// First byte of an inline field that is NULL.
pub(crate) const INLINE_NULL: u8 = 0xff;

/// A row, borrowed from its table: reads fields straight from the slot.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    slot: *const u8,
    fields: &'a [Field],
    table: PhantomData<&'a u8>,
}

impl<'a> RowRef<'a> {
    /// # Safety
    /// `slot` points to an encoded row with these fields that stays unchanged, with the strings
    /// it refers to, for `'a`.
    #[inline]
    pub(crate) unsafe fn new(slot: *const u8, fields: &'a [Field]) -> RowRef<'a> {
        RowRef { slot, fields, table: PhantomData }
    }

    /// The slot, and the fields of the row in it.
    #[inline]
    pub(crate) fn parts(self) -> (*const u8, &'a [Field]) {
        (self.slot, self.fields)
    }

    /// Number of columns.
    #[inline]
    pub fn len(self) -> usize {
        self.fields.len()
    }

    /// True for a table without columns.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.fields.is_empty()
    }

    /// The value of a column; text and bytes are borrowed from the table. Panics when the table
    /// has no such column: positions come from the plan, never from input.
    #[inline]
    pub fn column(self, column: usize) -> Datum<'a> {
        // SAFETY: by the contract of `new` the slot holds a row with these fields.
        unsafe { read_field(&self.fields[column], self.slot) }
    }

    /// All values in column order.
    #[inline]
    pub fn columns(self) -> impl Iterator<Item = Datum<'a>> {
        // SAFETY: by the contract of `new` the slot holds a row with these fields.
        self.fields.iter().map(move |field| unsafe { read_field(field, self.slot) })
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.columns()).finish()
    }
}

/// Reads a field.
///
/// # Safety
/// `slot` holds a row of the field's table whose strings live for `'a`.
#[inline]
pub(crate) unsafe fn read_field<'a>(field: &Field, slot: *const u8) -> Datum<'a> {
    // SAFETY: every field lies within the slot; text was valid UTF-8 when it was stored.
    unsafe {
        let at = slot.add(field.offset as usize);
        match field.kind {
            FieldKind::BigInt => int(at.cast::<i64>().read_unaligned(), i64::MIN),
            FieldKind::Integer => {
                int(at.cast::<i32>().read_unaligned().into(), i64::from(i32::MIN))
            }
            FieldKind::SmallInt => {
                int(at.cast::<i16>().read_unaligned().into(), i64::from(i16::MIN))
            }
            FieldKind::TinyInt => int(at.cast::<i8>().read().into(), i64::from(i8::MIN)),
            FieldKind::Timestamp => match at.cast::<i64>().read_unaligned() {
                i64::MIN => Datum::Null,
                value => Datum::Timestamp(value),
            },
            FieldKind::Float => float_datum(at.cast::<f64>().read_unaligned()),
            FieldKind::Decimal => match at.cast::<i128>().read_unaligned() {
                i128::MIN => Datum::Null,
                units => Datum::Decimal(Decimal::from_raw(units)),
            },
            FieldKind::Point => read_point(at).map_or(Datum::Null, Datum::Point),
            FieldKind::InlineText => inline(at)
                .map_or(Datum::Null, |value| Datum::Text(std::str::from_utf8_unchecked(value))),
            FieldKind::InlineBytes => inline(at).map_or(Datum::Null, Datum::Bytes),
            FieldKind::TailText => tail_value(field, slot)
                .map_or(Datum::Null, |value| Datum::Text(std::str::from_utf8_unchecked(value))),
            FieldKind::TailBytes => tail_value(field, slot).map_or(Datum::Null, Datum::Bytes),
        }
    }
}

/// The point of a field; `None` for NULL, whose coordinates are out of range.
///
/// # Safety
/// `at` points to a field of this kind.
#[inline]
pub(crate) unsafe fn read_point(at: *const u8) -> Option<Point> {
    // SAFETY: by the contract.
    let [longitude, latitude] = unsafe { at.cast::<[f64; 2]>().read_unaligned() };
    Point::new(longitude, latitude)
}

#[inline]
fn int(value: i64, null: i64) -> Datum<'static> {
    if value == null { Datum::Null } else { Datum::Int(value) }
}

/// The value of an inline field; `None` for NULL.
///
/// # Safety
/// `at` points to an inline field that stays unchanged for `'a`.
#[inline]
pub(crate) unsafe fn inline<'a>(at: *const u8) -> Option<&'a [u8]> {
    // SAFETY: the first byte counts those that follow.
    unsafe {
        match at.read() {
            INLINE_NULL => None,
            length => Some(std::slice::from_raw_parts(at.add(1), length as usize)),
        }
    }
}

/// Why a value does not go into a field; the table adds its name and the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldFault {
    NotNull,
    TooLong(usize),
    OutOfRange,
    TypeMismatch,
}

/// Writes a value into a field that is not in the tail.
///
/// # Safety
/// `slot` points to writable memory of a slot of the field's table.
#[inline]
pub(crate) unsafe fn write_field(
    field: &Field,
    slot: *mut u8,
    value: Datum<'_>,
) -> Result<(), FieldFault> {
    // SAFETY: every field lies within the slot, and inline values are checked against the
    // greatest length.
    unsafe {
        let at = slot.add(field.offset as usize);
        match (field.kind, value) {
            (FieldKind::BigInt, Datum::Int(value)) if value != i64::MIN => {
                at.cast::<i64>().write_unaligned(value);
            }
            (FieldKind::Integer, Datum::Int(value)) => {
                at.cast::<i32>().write_unaligned(narrow(value, i32::MIN)?);
            }
            (FieldKind::SmallInt, Datum::Int(value)) => {
                at.cast::<i16>().write_unaligned(narrow(value, i16::MIN)?);
            }
            (FieldKind::TinyInt, Datum::Int(value)) => {
                at.cast::<i8>().write(narrow(value, i8::MIN)?);
            }
            (FieldKind::Timestamp, Datum::Timestamp(value) | Datum::Int(value))
                if value != i64::MIN =>
            {
                at.cast::<i64>().write_unaligned(value);
            }
            (FieldKind::Float, Datum::Float(value)) => match float_datum(value) {
                Datum::Float(value) => at.cast::<f64>().write_unaligned(value),
                _ => return Err(FieldFault::OutOfRange),
            },
            (FieldKind::Decimal, Datum::Decimal(value)) if value.units() != i128::MIN => {
                at.cast::<i128>().write_unaligned(value.units());
            }
            (FieldKind::Point, Datum::Point(point)) => {
                at.cast::<[f64; 2]>().write_unaligned([point.longitude(), point.latitude()]);
            }
            (FieldKind::InlineText, Datum::Text(text)) => write_inline(field, at, text.as_bytes())?,
            (FieldKind::InlineBytes, Datum::Bytes(bytes)) => write_inline(field, at, bytes)?,
            (_, Datum::Null) if field.nullable => write_null(field, slot),
            _ => return Err(fault(field, value)),
        }
    }
    Ok(())
}

/// The error for a value that no arm of `write_field` took.
#[cold]
fn fault(field: &Field, value: Datum<'_>) -> FieldFault {
    match (field.kind, value) {
        (_, Datum::Null) => FieldFault::NotNull,
        (FieldKind::BigInt | FieldKind::Timestamp, Datum::Int(_))
        | (FieldKind::Timestamp, Datum::Timestamp(_))
        | (FieldKind::Decimal, Datum::Decimal(_)) => FieldFault::OutOfRange,
        _ => FieldFault::TypeMismatch,
    }
}

/// The value in the narrower type, unless it does not fit or is the NULL sentinel.
#[inline]
fn narrow<T: TryFrom<i64> + PartialEq>(value: i64, null: T) -> Result<T, FieldFault> {
    match T::try_from(value) {
        Ok(narrow) if narrow != null => Ok(narrow),
        _ => Err(FieldFault::OutOfRange),
    }
}

/// # Safety
/// `at` points to the field's `1 + max_bytes` bytes.
#[inline]
unsafe fn write_inline(field: &Field, at: *mut u8, value: &[u8]) -> Result<(), FieldFault> {
    if value.len() > field.max_bytes as usize {
        return Err(FieldFault::TooLong(value.len()));
    }
    // SAFETY: the length is checked. `copy` because the value may be the field itself.
    unsafe {
        std::ptr::copy(value.as_ptr(), at.add(1), value.len());
        at.write(value.len() as u8);
    }
    Ok(())
}

/// Writes the NULL of the field's kind.
///
/// # Safety
/// `slot` points to writable memory of a slot of the field's table.
#[inline]
pub(crate) unsafe fn write_null(field: &Field, slot: *mut u8) {
    // SAFETY: every field lies within the slot.
    unsafe {
        let at = slot.add(field.offset as usize);
        match field.kind {
            FieldKind::TinyInt => at.cast::<i8>().write(i8::MIN),
            FieldKind::SmallInt => at.cast::<i16>().write_unaligned(i16::MIN),
            FieldKind::Integer => at.cast::<i32>().write_unaligned(i32::MIN),
            FieldKind::BigInt | FieldKind::Timestamp => {
                at.cast::<i64>().write_unaligned(i64::MIN);
            }
            FieldKind::Float => at.cast::<f64>().write_unaligned(NULL_FLOAT),
            FieldKind::Decimal => at.cast::<i128>().write_unaligned(i128::MIN),
            FieldKind::Point => {
                at.cast::<[f64; 2]>().write_unaligned([NULL_COORDINATE; 2]);
            }
            FieldKind::InlineText | FieldKind::InlineBytes => at.write(INLINE_NULL),
            // The tail is written as a whole.
            FieldKind::TailText | FieldKind::TailBytes => {}
        }
    }
}
