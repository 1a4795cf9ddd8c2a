//! Rows in the form that result tables have (`lockstep_types::table`), straight from their slots:
//! slots hold the NULL sentinels of that form, so only the order of bytes differs.

use crate::layout::{Field, FieldKind};
use crate::row::{RowRef, inline};
use crate::table::Table;
use crate::tail::{tail_address, tail_value};
use lockstep_types::SqlType;

/// Bytes of a row's length, and of that of a text.
const LENGTH_BYTES: usize = 4;
/// The widest value that is no text.
const FIXED_BYTES: usize = 16;
/// A text of no more bytes lies, with its length, in the room of a fixed value.
const SHORT_BYTES: usize = FIXED_BYTES - LENGTH_BYTES;

/// Result rows in progress: in the room after `at`, which belongs to `out` but is not counted yet.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    at: usize,
}

impl Writer<'_> {
    /// Writes a number of the slot in the other order of bytes.
    ///
    /// # Safety
    /// `from` points to N bytes; after `at` there is room for them.
    #[inline(always)]
    unsafe fn number<const BYTES: usize>(&mut self, from: *const u8) {
        // SAFETY: by the contract.
        unsafe {
            let mut bytes = from.cast::<[u8; BYTES]>().read_unaligned();
            if cfg!(target_endian = "little") {
                bytes.reverse();
            }
            self.out.as_mut_ptr().add(self.at).cast::<[u8; BYTES]>().write_unaligned(bytes);
        }
        self.at += BYTES;
    }

    /// Writes a text after its length. Afterwards there is room for `left` fixed values again.
    ///
    /// # Safety
    /// Everything before `at` is written; after it there is room for one fixed value, and for
    /// `left` more.
    #[inline(always)]
    unsafe fn text(&mut self, value: Option<&[u8]>, left: usize) {
        let length = value.map_or(-1, |value| value.len() as i32);
        // SAFETY: by the contract, and longer texts get their room first.
        unsafe {
            let to = self.out.as_mut_ptr().add(self.at);
            to.cast::<[u8; LENGTH_BYTES]>().write_unaligned(length.to_be_bytes());
            self.at += LENGTH_BYTES;
            let Some(value) = value else { return };
            if value.len() > SHORT_BYTES {
                self.out.set_len(self.at);
                self.out.reserve(value.len() + left * FIXED_BYTES);
            }
            let to = self.out.as_mut_ptr().add(self.at);
            to.copy_from_nonoverlapping(value.as_ptr(), value.len());
            self.at += value.len();
        }
    }

    /// Writes a field of a slot.
    ///
    /// # Safety
    /// As `text`; `slot` holds a row with this field.
    #[inline(always)]
    unsafe fn field(&mut self, field: &Field, slot: *const u8, left: usize) {
        // SAFETY: every field lies within the slot; passed on.
        unsafe {
            let from = slot.add(field.offset as usize);
            match field.kind {
                FieldKind::BigInt | FieldKind::Timestamp | FieldKind::Float => {
                    self.number::<8>(from);
                }
                FieldKind::Integer => self.number::<4>(from),
                FieldKind::SmallInt => self.number::<2>(from),
                FieldKind::TinyInt => self.number::<1>(from),
                FieldKind::Decimal => self.number::<16>(from),
                FieldKind::Point => {
                    self.number::<8>(from);
                    self.number::<8>(from.add(8));
                }
                FieldKind::InlineText | FieldKind::InlineBytes => self.text(inline(from), left),
                FieldKind::TailText | FieldKind::TailBytes => {
                    self.text(tail_value(field, slot), left);
                }
            }
        }
    }
}

impl RowRef<'_> {
    /// Appends a row of a result table: its length, and these columns, each as one of its own
    /// type. Gives the bytes after the length. Panics when the table has no such column:
    /// positions come from the plan, never from input.
    #[inline]
    pub fn write_columns(self, columns: &[u16], out: &mut Vec<u8>) -> usize {
        let (slot, fields) = self.parts();
        let start = out.len();
        out.reserve(LENGTH_BYTES + columns.len() * FIXED_BYTES);
        let mut writer = Writer { out, at: start + LENGTH_BYTES };
        let mut left = columns.len();
        // SAFETY: there is room for the length and for a fixed value for each column, which
        // longer texts keep up; what is counted in the end was written.
        unsafe {
            writer
                .out
                .as_mut_ptr()
                .add(start)
                .cast::<[u8; LENGTH_BYTES]>()
                .write([0; LENGTH_BYTES]);
            for column in columns {
                left -= 1;
                writer.field(&fields[usize::from(*column)], slot, left);
            }
            let Writer { out, at } = writer;
            out.set_len(at);
            let bytes = at - start - LENGTH_BYTES;
            let length = (bytes as i32).to_be_bytes();
            out.as_mut_ptr().add(start).cast::<[u8; LENGTH_BYTES]>().write_unaligned(length);
            bytes
        }
    }
}

impl RowRef<'_> {
    /// Appends a column as result tables have it; false, and nothing appended, when its type is
    /// another. Panics when the table has no such column.
    #[inline]
    pub fn write_column(self, column: u16, sql_type: SqlType, out: &mut Vec<u8>) -> bool {
        let (slot, fields) = self.parts();
        let field = &fields[usize::from(column)];
        if field.sql_type != sql_type {
            return false;
        }
        out.reserve(FIXED_BYTES);
        let at = out.len();
        let mut writer = Writer { out, at };
        // SAFETY: there is room for a fixed value, and what is counted in the end was written.
        unsafe {
            writer.field(field, slot, 0);
            let Writer { out, at } = writer;
            out.set_len(at);
        }
        true
    }
}

impl Table {
    /// Whether each of these columns is there and has the type of the same place.
    #[inline]
    pub fn has_columns(&self, columns: &[u16], types: &[SqlType]) -> bool {
        let fields = &self.layout().fields;
        columns.len() == types.len()
            && columns.iter().zip(types).all(|(column, sql_type)| {
                fields.get(usize::from(*column)).is_some_and(|field| field.sql_type == *sql_type)
            })
    }

    /// Whether any of these columns lies in the rows' tails.
    pub(crate) fn reads_tail(&self, columns: &[u16]) -> bool {
        let fields = &self.layout().fields;
        columns.iter().any(|column| fields[usize::from(*column)].kind.is_tail())
    }
}

/// Asks the processor for both ends of a slot.
#[inline(always)]
pub(crate) fn prefetch_slot(slot: *const u8, slot_bytes: usize) {
    prefetch(slot);
    prefetch(slot.wrapping_add(slot_bytes - 1));
}

/// Asks the processor for the beginning of a slot's tail.
///
/// # Safety
/// `slot` holds a row of a layout with a tail.
#[inline(always)]
pub(crate) unsafe fn prefetch_tail(slot: *const u8) {
    // SAFETY: by the contract.
    prefetch(unsafe { tail_address(slot) });
}

/// Asks the processor for what these columns have in a slot's tail: where that is the slot says.
///
/// # Safety
/// `slot` holds a row with these fields.
#[inline]
pub(crate) unsafe fn prefetch_values(fields: &[Field], slot: *const u8, columns: &[u16]) {
    for column in columns {
        if let Some(field) = fields.get(usize::from(*column))
            && field.kind.is_tail()
            // SAFETY: by the contract; the value itself is not read.
            && let Some(value) = unsafe { tail_value(field, slot) }
        {
            prefetch(value.as_ptr());
            prefetch(value.as_ptr().wrapping_add(value.len()));
        }
    }
}

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
