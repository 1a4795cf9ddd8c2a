//! Scans over a table in slot order.

use super::Table;
use crate::row::{RowId, RowRef};

/// Runs over the live rows of a borrowed table, in slot order.
pub struct TableScan<'a> {
    table: &'a Table,
    next: u32,
}

impl<'a> Iterator for TableScan<'a> {
    type Item = (RowId, RowRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<(RowId, RowRef<'a>)> {
        let row = self.table.blocks.next_live(self.next)?;
        self.next = row.0 + 1;
        // SAFETY: the row is live and the table is borrowed for `'a`.
        Some((row, unsafe { self.table.row_unchecked(row) }))
    }
}

/// A position of a scan that does not borrow the table, so rows may change in between.
///
/// A row that is deleted before the scan reaches it is not met, one that is inserted is met when
/// its slot lies ahead. So that a statement does not meet its own inserts, collect the ids first
/// ([`Table::collect_rows`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanCursor {
    next: u32,
}

impl ScanCursor {
    /// Before the first row.
    pub fn new() -> ScanCursor {
        ScanCursor::default()
    }

    /// The next live row.
    #[inline]
    pub fn next<'a>(&mut self, table: &'a Table) -> Option<(RowId, RowRef<'a>)> {
        let row = table.blocks.next_live(self.next)?;
        self.next = row.0 + 1;
        // SAFETY: the row is live and the table is borrowed for `'a`.
        Some((row, unsafe { table.row_unchecked(row) }))
    }
}

impl ScanCursor {
    /// Visits at most `limit` rows that follow, with the addresses of their slots.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        table: &Table,
        limit: usize,
        mut visit: impl FnMut(RowId, *const u8),
    ) {
        for _ in 0..limit {
            let Some(row) = table.blocks.next_live(self.next) else { return };
            self.next = row.0 + 1;
            // SAFETY: live rows lie below `fresh`.
            visit(row, unsafe { table.blocks.slot(row) });
        }
    }
}

impl Table {
    /// The address of a live row's slot.
    #[inline]
    pub(crate) fn slot_address(&self, row: RowId) -> *const u8 {
        assert!(self.blocks.is_live(row), "only live rows have an address");
        // SAFETY: live rows lie below `fresh`.
        unsafe { self.blocks.slot(row) }
    }

    /// The address of a slot whose row is known to be live.
    ///
    /// # Safety
    /// The row is live.
    #[inline]
    pub(crate) unsafe fn slot_unchecked(&self, row: RowId) -> *const u8 {
        // SAFETY: live rows lie below `fresh`.
        unsafe { self.blocks.slot(row) }
    }

    /// The live rows in slot order.
    #[inline]
    pub fn scan(&self) -> TableScan<'_> {
        TableScan { table: self, next: 0 }
    }

    /// Appends the ids of all live rows, in slot order.
    pub fn collect_rows(&self, rows: &mut Vec<RowId>) {
        rows.extend(self.scan().map(|(row, _)| row));
    }
}
