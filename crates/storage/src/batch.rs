//! Some hundreds of rows of a table at a time: read a column of all of them in one loop, without
//! a test of its type for each value.

use crate::layout::{Field, FieldKind};
use crate::row::{RowId, RowRef, inline, read_point};
use crate::table::{ScanCursor, Table};
use crate::tail::tail_value;
use lockstep_types::SqlType;
use lockstep_types::float::is_null_float;
use lockstep_types::geography::Point;
use lockstep_types::sql_type::NULL_FLOAT;

/// Rows of one table, borrowed. A place may also hold no row: all of its columns are NULL.
#[derive(Debug, Clone)]
pub struct RowBatch<'a> {
    table: &'a Table,
    /// Null for a place without a row.
    slots: Vec<*const u8>,
    ids: Vec<RowId>,
    /// Whether any place may lack a row.
    has_gaps: bool,
}

impl<'a> RowBatch<'a> {
    /// No rows yet.
    pub fn new(table: &'a Table) -> RowBatch<'a> {
        RowBatch { table, slots: Vec::new(), ids: Vec::new(), has_gaps: false }
    }

    /// No rows yet, of the same table.
    pub fn like(&self) -> RowBatch<'a> {
        RowBatch::new(self.table)
    }

    /// Number of places.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True without places.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Drops all rows; memory stays.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.ids.clear();
        self.has_gaps = false;
    }

    /// Appends at most `limit` rows that follow in the scan.
    pub fn fill(&mut self, cursor: &mut ScanCursor, limit: usize) {
        self.slots.reserve(limit);
        self.ids.reserve(limit);
        cursor.visit(self.table, limit, |id, slot| {
            self.slots.push(slot);
            self.ids.push(id);
        });
    }

    /// Appends a row of the table; false, and nothing appended, when it is not live.
    #[inline]
    pub fn push(&mut self, id: RowId) -> bool {
        if !self.table.is_live(id) {
            return false;
        }
        self.slots.push(self.table.slot_address(id));
        self.ids.push(id);
        true
    }

    /// Appends a place without a row.
    pub fn push_gap(&mut self) {
        self.slots.push(std::ptr::null());
        self.ids.push(RowId(u32::MAX));
        self.has_gaps = true;
    }

    /// The row at a place.
    #[inline]
    pub fn row(&self, place: usize) -> Option<(RowId, RowRef<'a>)> {
        let slot = self.slots[place];
        if slot.is_null() {
            return None;
        }
        // SAFETY: slots that are not null are of live rows of the table, borrowed for `'a`.
        Some((self.ids[place], unsafe { RowRef::new(slot, &self.table.layout().fields) }))
    }

    /// Keeps the places of a selection, which rises.
    pub fn keep(&mut self, selection: &[u32]) {
        for (to, from) in selection.iter().enumerate() {
            self.slots[to] = self.slots[*from as usize];
            self.ids[to] = self.ids[*from as usize];
        }
        self.truncate(selection.len());
    }

    /// Keeps the first places.
    pub fn truncate(&mut self, length: usize) {
        self.slots.truncate(length);
        self.ids.truncate(length);
    }

    /// Appends places of another batch of the same table, in any order; `u32::MAX` stands for a
    /// place without a row.
    pub fn gather(&mut self, from: &RowBatch<'a>, selection: &[u32]) {
        assert!(std::ptr::eq(self.table, from.table), "batches of one table");
        self.has_gaps |= from.has_gaps;
        self.slots.reserve(selection.len());
        self.ids.reserve(selection.len());
        for place in selection {
            match from.slots.get(*place as usize) {
                Some(slot) => {
                    self.slots.push(*slot);
                    self.ids.push(from.ids[*place as usize]);
                }
                None => self.push_gap(),
            }
        }
    }

    /// Appends all places of another batch of the same table.
    pub fn append(&mut self, from: &RowBatch<'a>) {
        assert!(std::ptr::eq(self.table, from.table), "batches of one table");
        self.has_gaps |= from.has_gaps;
        self.slots.extend_from_slice(&from.slots);
        self.ids.extend_from_slice(&from.ids);
    }

    /// The type of a column; `None` when the table has no such column.
    pub fn column_type(&self, column: usize) -> Option<SqlType> {
        Some(self.table.layout().fields.get(column)?.sql_type)
    }

    /// Bytes that a place takes.
    pub fn bytes_per_row() -> usize {
        size_of::<*const u8>() + size_of::<RowId>()
    }

    /// Replaces `out` by an integer or TIMESTAMP column of all places; NULL is `i64::MIN`. False
    /// when the column is not of that kind.
    pub fn integers(&self, column: usize, out: &mut Vec<i64>) -> bool {
        let field = &self.table.layout().fields[column];
        // SAFETY: `read` calls with the address of this field in a slot of the table, so a value
        // of the field's kind is there.
        unsafe {
            match field.kind {
                FieldKind::BigInt | FieldKind::Timestamp => {
                    self.read(field, out, i64::MIN, |at| at.cast::<i64>().read_unaligned());
                }
                FieldKind::Integer => self.read(field, out, i64::MIN, |at| {
                    widened(at.cast::<i32>().read_unaligned().into(), i32::MIN.into())
                }),
                FieldKind::SmallInt => self.read(field, out, i64::MIN, |at| {
                    widened(at.cast::<i16>().read_unaligned().into(), i16::MIN.into())
                }),
                FieldKind::TinyInt => self.read(field, out, i64::MIN, |at| {
                    widened(at.cast::<i8>().read().into(), i8::MIN.into())
                }),
                _ => return false,
            }
        }
        true
    }

    /// Replaces `out` by a FLOAT column of all places; NULL is `NULL_FLOAT`. False when the column
    /// is not of that kind.
    pub fn floats(&self, column: usize, out: &mut Vec<f64>) -> bool {
        let field = &self.table.layout().fields[column];
        if field.kind != FieldKind::Float {
            return false;
        }
        // SAFETY: the address is of a field of this kind.
        self.read(field, out, NULL_FLOAT, |at| unsafe {
            let value = at.cast::<f64>().read_unaligned();
            if is_null_float(value) { NULL_FLOAT } else { value }
        });
        true
    }

    /// Replaces `out` by the units of a DECIMAL column of all places; NULL is `i128::MIN`. False
    /// when the column is not of that kind.
    pub fn decimals(&self, column: usize, out: &mut Vec<i128>) -> bool {
        let field = &self.table.layout().fields[column];
        if field.kind != FieldKind::Decimal {
            return false;
        }
        // SAFETY: the address is of a field of this kind.
        self.read(field, out, i128::MIN, |at| unsafe { at.cast::<i128>().read_unaligned() });
        true
    }

    /// Replaces `out` by a VARCHAR column of all places. False when the column is not of that
    /// kind.
    pub fn texts(&self, column: usize, out: &mut Vec<Option<&'a str>>) -> bool {
        let field = &self.table.layout().fields[column];
        // SAFETY: the addresses are of a field of this kind, whose text was valid UTF-8 when it
        // was stored and lives as long as the table is borrowed.
        unsafe {
            match field.kind {
                FieldKind::InlineText => self.read(field, out, None, |at| {
                    inline(at).map(|bytes| std::str::from_utf8_unchecked(bytes))
                }),
                FieldKind::TailText => self.read(field, out, None, |at| {
                    tail(field, at).map(|bytes| std::str::from_utf8_unchecked(bytes))
                }),
                _ => return false,
            }
        }
        true
    }

    /// Replaces `out` by a VARBINARY column of all places. False when the column is not of that
    /// kind.
    pub fn bytes(&self, column: usize, out: &mut Vec<Option<&'a [u8]>>) -> bool {
        let field = &self.table.layout().fields[column];
        // SAFETY: the addresses are of a field of this kind, whose bytes live as long as the
        // table is borrowed.
        unsafe {
            match field.kind {
                FieldKind::InlineBytes => self.read(field, out, None, |at| inline(at)),
                FieldKind::TailBytes => self.read(field, out, None, |at| tail(field, at)),
                _ => return false,
            }
        }
        true
    }

    /// Replaces `out` by a GEOGRAPHY_POINT column of all places. False when the column is not of
    /// that kind.
    pub fn points(&self, column: usize, out: &mut Vec<Option<Point>>) -> bool {
        let field = &self.table.layout().fields[column];
        if field.kind != FieldKind::Point {
            return false;
        }
        // SAFETY: the address is of a field of this kind.
        self.read(field, out, None, |at| unsafe { read_point(at) });
        true
    }

    /// Replaces `out` by what `read` makes of each place's field.
    #[inline(always)]
    fn read<T: Clone>(
        &self,
        field: &Field,
        out: &mut Vec<T>,
        null: T,
        read: impl Fn(*const u8) -> T,
    ) {
        let offset = field.offset as usize;
        out.clear();
        if self.has_gaps {
            out.extend(self.slots.iter().map(|slot| match slot.is_null() {
                true => null.clone(),
                // SAFETY: the field lies within the slot.
                false => read(unsafe { slot.add(offset) }),
            }));
        } else {
            // SAFETY: without gaps all slots are of rows, and the field lies within them.
            out.extend(self.slots.iter().map(|slot| read(unsafe { slot.add(offset) })));
        }
    }
}

#[inline(always)]
fn widened(value: i64, null: i64) -> i64 {
    if value == null { i64::MIN } else { value }
}

/// The value of a field in the tail, by the address of the field itself.
///
/// # Safety
/// `at` is the address of this field in a row whose strings live for `'a`.
#[inline(always)]
unsafe fn tail<'a>(field: &Field, at: *const u8) -> Option<&'a [u8]> {
    // SAFETY: going back by the field's offset gives the row's slot.
    unsafe { tail_value(field, at.sub(field.offset as usize)) }
}
