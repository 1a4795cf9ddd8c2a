//! The tail of a row: its longer texts and bytes, one after the other in a single cell of the
//! table's heap.
//!
//! A slot begins with the tail's address; where each of these columns has its place, the slot
//! holds where the value ends in the tail. A value begins where that of the column before ends.
//! So a row pays for one address and one rounding up, however many such columns it has.

use crate::heap::StringHeap;
use crate::layout::{Field, FieldKind, TableLayout};
use crate::row::{FieldFault, read_field};
use lockstep_types::Datum;
use std::ptr::NonNull;

/// Bytes of the address at the beginning of a slot. Processes have addresses of 48 bits.
pub(crate) const ADDRESS_BYTES: usize = 6;
const ADDRESS_BITS: u64 = (1 << (8 * ADDRESS_BYTES)) - 1;
/// In a field's `previous`: the tail begins with this column.
pub(crate) const FIRST: u32 = u32::MAX;
/// Set in the end of a value that is NULL.
const NULL: u32 = 1 << 31;
/// The greatest end that two bytes hold, beside their mark for NULL.
pub(crate) const NARROW_LIMIT: u64 = (1 << 15) - 1;

/// Reads an end: two bytes, or four.
///
/// # Safety
/// `at` points to an end of this width.
#[inline(always)]
unsafe fn read_end(at: *const u8, wide: bool) -> u32 {
    // SAFETY: by the contract.
    unsafe {
        if wide {
            at.cast::<u32>().read_unaligned()
        } else {
            let end = u32::from(at.cast::<u16>().read_unaligned());
            (end & 0x7fff) | (end & 0x8000) << 16
        }
    }
}

/// # Safety
/// As `read_end`.
#[inline(always)]
unsafe fn write_end(at: *mut u8, wide: bool, end: u32) {
    // SAFETY: by the contract. A narrow end is within its limit, by the layout.
    unsafe {
        if wide {
            at.cast::<u32>().write_unaligned(end);
        } else {
            at.cast::<u16>().write_unaligned((end & 0x7fff) as u16 | (end >> 16) as u16);
        }
    }
}

/// The address of a slot's tail; nothing of use when the tail is empty.
///
/// # Safety
/// `slot` holds a row of a layout with a tail.
#[inline(always)]
pub(crate) unsafe fn tail_address(slot: *const u8) -> *mut u8 {
    // SAFETY: a slot with a tail has an address and at least one end, together 8 bytes.
    let word = unsafe { slot.cast::<u64>().read_unaligned() };
    std::ptr::with_exposed_provenance_mut((u64::from_le(word) & ADDRESS_BITS) as usize)
}

/// # Safety
/// `slot` is writable memory of a slot of a layout with a tail.
#[inline(always)]
unsafe fn write_address(slot: *mut u8, cell: NonNull<u8>) {
    let address = cell.as_ptr().expose_provenance() as u64;
    assert!(address <= ADDRESS_BITS, "processes have addresses of 48 bits");
    // SAFETY: the address takes the first bytes of the slot.
    unsafe {
        let bytes = address.to_le_bytes();
        slot.copy_from_nonoverlapping(bytes.as_ptr(), ADDRESS_BYTES);
    }
}

/// The value of a column in the tail; `None` for NULL.
///
/// # Safety
/// `slot` holds a row of the field's table whose tail lives for `'a`.
#[inline]
pub(crate) unsafe fn tail_value<'a>(field: &Field, slot: *const u8) -> Option<&'a [u8]> {
    // SAFETY: ends lie within the slot, and within the tail in their order.
    unsafe {
        let end = read_end(slot.add(field.offset as usize), field.wide);
        if end & NULL != 0 {
            return None;
        }
        let start = match field.previous {
            FIRST => 0,
            previous => read_end(slot.add(previous as usize), field.wide) & !NULL,
        };
        let length = (end - start) as usize;
        if length == 0 {
            return Some(&[]);
        }
        Some(std::slice::from_raw_parts(tail_address(slot).add(start as usize), length))
    }
}

/// The bytes of a value for a column in the tail; `None` for NULL.
#[inline]
pub(crate) fn tail_bytes<'v>(
    field: &Field,
    value: Datum<'v>,
) -> Result<Option<&'v [u8]>, FieldFault> {
    let bytes = match (field.kind, value) {
        (FieldKind::TailText, Datum::Text(text)) => text.as_bytes(),
        (FieldKind::TailBytes, Datum::Bytes(bytes)) => bytes,
        (_, Datum::Null) if field.nullable => return Ok(None),
        (_, Datum::Null) => return Err(FieldFault::NotNull),
        _ => return Err(FieldFault::TypeMismatch),
    };
    if bytes.len() > field.max_bytes as usize {
        return Err(FieldFault::TooLong(bytes.len()));
    }
    Ok(Some(bytes))
}

/// Writes where a value will end, whose predecessors end at `end`, and moves that on.
///
/// # Safety
/// `slot` is writable memory of a slot of the field's table.
#[inline]
pub(crate) unsafe fn put_end(
    field: &Field,
    slot: *mut u8,
    value: Datum<'_>,
    end: &mut u32,
) -> Result<(), FieldFault> {
    let mark = match tail_bytes(field, value)? {
        None => *end | NULL,
        Some(bytes) => {
            let behind = *end as usize + bytes.len();
            if behind >= NULL as usize {
                return Err(FieldFault::TooLong(bytes.len()));
            }
            *end = behind as u32;
            *end
        }
    };
    // SAFETY: the end lies within the slot.
    unsafe { write_end(slot.add(field.offset as usize), field.wide, mark) };
    Ok(())
}

/// How long the tail of a row in a record is, whose columns are `row`: what a slot holds without
/// the address. Ends must grow, and no value be longer than its column's; else the column.
pub(crate) fn row_image_ends(layout: &TableLayout, row: &[u8]) -> Result<usize, usize> {
    let mut before = 0;
    for column in &layout.tail_columns {
        let field = &layout.fields[usize::from(*column)];
        let at = field.offset as usize - ADDRESS_BYTES;
        assert!(at + if field.wide { 4 } else { 2 } <= row.len(), "the row is of this layout");
        // SAFETY: an end of this width lies within the row, as asserted.
        let end = unsafe { read_end(row.as_ptr().add(at), field.wide) };
        let (is_null, end) = (end & NULL != 0, end & !NULL);
        let fits = match end.checked_sub(before) {
            Some(0) => true,
            Some(length) => !is_null && length <= field.max_bytes,
            None => false,
        };
        if !fits {
            return Err(usize::from(*column));
        }
        before = end;
    }
    Ok(before as usize)
}

impl TableLayout {
    /// Whether rows have a tail.
    #[inline(always)]
    pub(crate) fn has_tail(&self) -> bool {
        !self.tail_columns.is_empty()
    }

    /// Where a slot's tail is and how long; `None` for an empty one.
    ///
    /// # Safety
    /// `slot` holds a row of this layout.
    #[inline]
    pub(crate) unsafe fn tail(&self, slot: *const u8) -> Option<(NonNull<u8>, usize)> {
        let last = &self.fields[usize::from(*self.tail_columns.last()?)];
        // SAFETY: by the contract; the last column's end is that of the tail.
        unsafe {
            let length = read_end(slot.add(last.offset as usize), last.wide) & !NULL;
            if length == 0 {
                return None;
            }
            NonNull::new(tail_address(slot)).map(|cell| (cell, length as usize))
        }
    }

    /// Gives the memory of a slot's tail back.
    ///
    /// # Safety
    /// `slot` holds a row of this layout, whose tail is live and which nobody reads any more.
    #[inline]
    pub(crate) unsafe fn release_tail(&self, slot: *const u8, heap: &mut StringHeap) {
        // SAFETY: by the contract.
        unsafe {
            if let Some((cell, length)) = self.tail(slot) {
                heap.release(cell, length);
            }
        }
    }

    /// Makes a slot's tail of values, whose ends are in the slot already: `value_of` gives that
    /// of a column.
    ///
    /// # Safety
    /// `slot` is writable memory of a slot of this layout, and its ends are those of the values.
    #[inline]
    pub(crate) unsafe fn fill_tail<'v>(
        &self,
        slot: *mut u8,
        heap: &mut StringHeap,
        length: u32,
        value_of: impl Fn(usize) -> Datum<'v>,
    ) {
        if length == 0 {
            // SAFETY: the address takes the first bytes of the slot.
            unsafe { write_address(slot, NonNull::dangling()) };
            return;
        }
        let cell = heap.reserve(length as usize);
        let mut at = cell.as_ptr();
        for column in &self.tail_columns {
            let bytes = match value_of(usize::from(*column)) {
                Datum::Text(text) => text.as_bytes(),
                Datum::Bytes(bytes) => bytes,
                _ => continue,
            };
            // SAFETY: the lengths add up to the cell's; the cell is fresh memory.
            unsafe {
                at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                at = at.add(bytes.len());
            }
        }
        // SAFETY: as above.
        unsafe { write_address(slot, cell) };
    }

    /// Makes the tail of a changed row: columns that are not among the changes keep the value
    /// that they have in `old`. The last change of a column counts.
    ///
    /// # Safety
    /// `old` holds a live row of this layout, `new` a copy of it that is written to.
    pub(crate) unsafe fn change_tail(
        &self,
        old: *const u8,
        new: *mut u8,
        heap: &mut StringHeap,
        changes: &[(usize, Datum<'_>)],
    ) -> Result<(), (usize, FieldFault)> {
        let value_of = |column: usize| {
            let change = changes.iter().rev().find(|(changed, _)| *changed == column);
            // SAFETY: by the contract; the old tail stays as it is.
            change.map_or_else(|| unsafe { read_field(&self.fields[column], old) }, |(_, v)| *v)
        };
        let mut end = 0;
        for column in &self.tail_columns {
            let column = usize::from(*column);
            // SAFETY: by the contract.
            unsafe { put_end(&self.fields[column], new, value_of(column), &mut end) }
                .map_err(|fault| (column, fault))?;
        }
        // SAFETY: the ends were written above.
        unsafe { self.fill_tail(new, heap, end, value_of) };
        Ok(())
    }
}
