//! Reading records: from bytes that may be anything.

use crate::blocks::NO_ROW;
use crate::error::StorageError;
use crate::layout::{Field, FieldKind, TableLayout};
use crate::row::{INLINE_NULL, RowId, RowRef, read_field};
use crate::tail::{ADDRESS_BYTES, row_image_ends};
use lockstep_types::{Datum, TableId};

const HEAD_BYTES: usize = 16;

/// A record, checked as far as its own lengths go.
#[derive(Debug, Clone, Copy)]
pub struct RowsRecord<'a> {
    /// The number of its table.
    pub table: TableId,
    /// Its first slot.
    pub first: u32,
    /// How many slots it tells of.
    pub slots: u32,
    live: &'a [u8],
    links: &'a [u8],
    rows: u32,
    body: &'a [u8],
}

/// A row of a record.
#[derive(Clone, Copy)]
pub struct RecordRow<'a> {
    /// Its slot.
    pub id: RowId,
    /// Its columns; those of the tail are not there yet.
    pub(crate) fixed: &'a [u8],
    /// Its tail.
    pub(crate) tail: &'a [u8],
}

fn bad(table: impl std::fmt::Display, reason: String) -> StorageError {
    StorageError::BadRecord { table: table.to_string().into(), reason: reason.into() }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

impl<'a> RowsRecord<'a> {
    /// Takes the first record off `input`; `None` at its end.
    ///
    /// # Errors
    /// `BadRecord`.
    pub fn take(input: &mut &'a [u8]) -> Result<Option<RowsRecord<'a>>, StorageError> {
        if input.is_empty() {
            return Ok(None);
        }
        let Some((head, rest)) = input.split_at_checked(HEAD_BYTES) else {
            let reason = format!("{} bytes are left where a record begins", input.len());
            return Err(bad("?", reason));
        };
        let (table, first, slots) = (word(head, 0), word(head, 4), word(head, 8));
        let length = word(head, 12) as usize;
        let Some((body, behind)) = rest.split_at_checked(length) else {
            let reason = format!("it has {length} bytes of which {} are there", rest.len());
            return Err(bad(table, reason));
        };
        if slots == 0 || first.checked_add(slots).is_none_or(|end| end == NO_ROW) {
            return Err(bad(table, format!("{slots} slots from slot {first} on")));
        }
        let short = || bad(table, format!("{length} bytes are too few for {slots} slots"));
        let live_bytes = slots.div_ceil(8) as usize;
        let (live, body) = body.split_at_checked(live_bytes).ok_or_else(short)?;
        let rows: u32 = live.iter().map(|byte| byte.count_ones()).sum();
        let beyond = match (slots % 8, live.last()) {
            (1.., Some(last)) => last >> (slots % 8) != 0,
            _ => false,
        };
        if beyond {
            return Err(bad(table, format!("a row after the {slots} slots")));
        }
        let link_bytes = (slots - rows) as usize * 4;
        let (links, body) = body.split_at_checked(link_bytes).ok_or_else(short)?;
        *input = behind;
        Ok(Some(RowsRecord { table: TableId(table), first, slots, live, links, rows, body }))
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.rows
    }

    /// Bytes of the rows: their columns and tails.
    pub fn row_bytes(&self) -> usize {
        self.body.len()
    }

    /// The free slots, each with the one after it in the free list or `u32::MAX`.
    pub(crate) fn free_slots(&self) -> impl Iterator<Item = (RowId, u32)> + use<'a> {
        let (first, live, links) = (self.first, self.live, self.links);
        let free = (0..self.slots).filter(move |slot| !is_live(live, *slot));
        free.enumerate().map(move |(place, slot)| (RowId(first + slot), word(links, place * 4)))
    }

    /// Visits the rows in the order of their slots, each checked against the table's layout.
    ///
    /// # Errors
    /// `BadRecord`, also for bytes after the rows; what `visit` gives.
    pub(crate) fn for_each_row(
        &self,
        layout: &TableLayout,
        name: &str,
        mut visit: impl FnMut(RecordRow<'a>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let width = layout.fixed_bytes();
        let fixed_bytes = self.rows as usize * width;
        let Some((mut fixed, mut tails)) = self.body.split_at_checked(fixed_bytes) else {
            let (rows, there) = (self.rows, self.body.len());
            return Err(bad(name, format!("{there} bytes are too few for {rows} rows")));
        };
        for slot in (0..self.slots).filter(|slot| is_live(self.live, *slot)) {
            let id = RowId(self.first + slot);
            let (row, behind) = fixed.split_at(width);
            fixed = behind;
            let tail_bytes = row_image_ends(layout, row)
                .map_err(|column| bad(name, format!("row {id}: column {column} ends oddly")))?;
            let Some((tail, behind)) = tails.split_at_checked(tail_bytes) else {
                return Err(bad(name, format!("row {id}: its texts end after the record")));
            };
            tails = behind;
            check_inline(layout, row)
                .map_err(|column| bad(name, format!("row {id}: column {column} is none")))?;
            visit(RecordRow { id, fixed: row, tail })?;
        }
        if !tails.is_empty() {
            return Err(bad(name, format!("{} bytes after the rows", tails.len())));
        }
        Ok(())
    }

    /// Visits the rows with their values. `values` and `slot` are kept for their memory.
    ///
    /// # Errors
    /// `BadRecord`; what `visit` gives.
    pub fn read_rows<E: From<StorageError>>(
        &self,
        layout: &TableLayout,
        name: &str,
        mut visit: impl FnMut(RowId, RowRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut slot = vec![0; layout.slot_bytes];
        let mut stopped = None;
        let read = self.for_each_row(layout, name, |row| {
            // SAFETY: the slot is of the layout.
            unsafe { row.write_slot(layout, slot.as_mut_ptr(), row.tail.as_ptr()) };
            // SAFETY: the slot is of the layout, its ends and lengths were checked; the tail is
            // borrowed for as long as the record. Texts are checked next, before they are read.
            let values = unsafe { RowRef::new(slot.as_ptr(), &layout.fields) };
            check_texts(layout, &row, slot.as_ptr(), name)?;
            if let Err(error) = visit(row.id, values) {
                stopped = Some(error);
                return Err(bad(name, "the reader stopped".to_string()));
            }
            Ok(())
        });
        match stopped {
            Some(error) => Err(error),
            None => Ok(read?),
        }
    }
}

impl RecordRow<'_> {
    /// Makes a slot of the row, with its tail at an address.
    ///
    /// # Safety
    /// `slot` is writable memory of a slot of the layout, which is that of the record's table.
    #[inline]
    pub(crate) unsafe fn write_slot(&self, layout: &TableLayout, slot: *mut u8, tail: *const u8) {
        let skipped = layout.address_bytes();
        if skipped > 0 {
            let address = tail.expose_provenance() as u64;
            assert!(address >> (8 * ADDRESS_BYTES) == 0, "processes have addresses of 48 bits");
            // SAFETY: the address takes the first bytes of the slot.
            unsafe { slot.copy_from_nonoverlapping(address.to_le_bytes().as_ptr(), skipped) };
        }
        assert_eq!(self.fixed.len(), layout.fixed_bytes(), "the row is of this layout");
        // SAFETY: the columns take the bytes after it.
        unsafe {
            slot.add(skipped).copy_from_nonoverlapping(self.fixed.as_ptr(), self.fixed.len());
        }
    }
}

fn is_live(live: &[u8], slot: u32) -> bool {
    live[(slot / 8) as usize] >> (slot % 8) & 1 == 1
}

/// Checks the lengths of values that lie in the slot; gives the column of the first bad one.
#[inline]
fn check_inline(layout: &TableLayout, row: &[u8]) -> Result<(), usize> {
    for (offset, limit) in &layout.inline_values {
        let at = *offset as usize - layout.address_bytes();
        if row[at] != INLINE_NULL && u32::from(row[at]) > *limit {
            let column = layout.fields.iter().position(|field| field.offset == *offset);
            return Err(column.unwrap_or(0));
        }
    }
    Ok(())
}

/// Checks that texts are UTF-8, and that NULL is only where the column allows it.
///
/// # Errors
/// `BadRecord`.
#[inline]
pub(crate) fn check_texts(
    layout: &TableLayout,
    row: &RecordRow<'_>,
    slot: *const u8,
    name: &str,
) -> Result<(), StorageError> {
    for (column, field) in layout.fields.iter().enumerate() {
        if field.kind.is_text() {
            // SAFETY: the caller made the slot of a row whose ends and lengths are checked; bytes
            // are looked at as such.
            let valid = match unsafe { read_field(&as_bytes(field), slot) } {
                Datum::Bytes(bytes) => std::str::from_utf8(bytes).is_ok(),
                _ => field.nullable,
            };
            if !valid {
                let reason = format!("row {}: column {column} is no text", row.id);
                return Err(bad(name, reason));
            }
        } else if !field.nullable {
            // SAFETY: as above; no text.
            if unsafe { read_field(field, slot) }.is_null() {
                let reason = format!("row {}: column {column} is NULL", row.id);
                return Err(bad(name, reason));
            }
        }
    }
    Ok(())
}

/// The field of a text, to be read as bytes.
fn as_bytes(field: &Field) -> Field {
    let kind = match field.kind {
        FieldKind::TailText => FieldKind::TailBytes,
        FieldKind::InlineText => FieldKind::InlineBytes,
        kind => kind,
    };
    Field { kind, ..*field }
}
