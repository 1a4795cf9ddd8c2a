//! Indexes that are built while rows change: the rows below a number are *covered*, and only
//! those are in them. The number rises in steps, each of which undo undoes, until all rows
//! are covered; changes of covered rows keep the indexes right on the way.

use super::{MAX_INDEXES, Table};
use crate::error::StorageError;
use crate::index::{Index, IndexDefinition, IndexFault};
use crate::row::{RowId, RowRef};
use crate::undo::UndoLog;
use lockstep_types::IndexId;

/// What covers every row there will ever be.
pub(super) const ALL: u32 = u32::MAX;

impl Table {
    /// From now on no row is covered, until [`Table::cover_to`] says so.
    pub fn begin_covering(&mut self) {
        assert_eq!(self.covered, ALL, "one index of a table is built at a time");
        self.covered = 0;
    }

    /// All rows are covered, as they are without [`Table::begin_covering`].
    pub fn end_covering(&mut self) {
        self.covered = ALL;
    }

    /// Whether a row is in what is being built.
    #[inline]
    pub fn is_covered(&self, row: RowId) -> bool {
        row.0 < self.covered
    }

    /// The first row that is not covered; `None` when all are, also those to come.
    pub fn uncovered_from(&self) -> Option<RowId> {
        (self.covered != ALL).then_some(RowId(self.covered))
    }

    /// The first live row from a number on.
    pub fn live_from(&self, from: RowId) -> Option<(RowId, RowRef<'_>)> {
        let row = self.blocks.next_live(from.0)?;
        // SAFETY: the row is live.
        Some((row, unsafe { self.row_unchecked(row) }))
    }

    /// Adds an empty index that holds the covered rows, after the others. Its keys are columns,
    /// and it is not unique: no change of a row fails because of it.
    ///
    /// # Errors
    /// As for [`Table::add_index`].
    pub fn add_covering_index(
        &mut self,
        definition: IndexDefinition,
    ) -> Result<IndexId, StorageError> {
        let position = self.indexes.len();
        if position == MAX_INDEXES {
            let table = self.name.clone();
            return Err(StorageError::TooManyIndexes { table, limit: MAX_INDEXES });
        }
        assert!(!definition.unique, "an index that is built beside changes refuses none");
        let mut index = Index::new(definition, &self.layout, &self.name)?;
        index.begin_covering();
        self.indexes.push(index);
        self.map_columns();
        Ok(IndexId(position as u16))
    }

    /// The index holds all rows from now on: every row is covered.
    ///
    /// # Errors
    /// `NoSuchIndex`.
    pub fn complete_index(&mut self, index: IndexId) -> Result<(), StorageError> {
        self.index(index)?;
        self.indexes[index.index()].end_covering();
        assert!(self.indexes_hold_all_rows(), "an index is complete when all rows are covered");
        Ok(())
    }

    /// Covers the rows below a number; with `None`, all, also those to come.
    ///
    /// # Errors
    /// `UndoLimit`. The table is unchanged then.
    pub fn cover_to(&mut self, to: Option<RowId>, undo: &mut UndoLog) -> Result<(), StorageError> {
        undo.check_room()?;
        let to = to.map_or(ALL, |row| row.0);
        let from = self.covered;
        assert!(to >= from, "covering goes forward only");
        self.covered = to;
        for index in self.indexes.iter_mut().filter(|index| index.is_covering()) {
            index.cover_to(to);
            let mut next = from;
            while let Some(row) = self.blocks.next_live(next).filter(|row| row.0 < to) {
                // SAFETY: the row is live.
                let added =
                    unsafe { index.insert_row(self.blocks.slot(row), &self.layout.fields, row) };
                match added {
                    Ok(()) => {}
                    Err(IndexFault::Evaluation(error)) => return Err(error),
                    Err(IndexFault::Duplicate(_)) => unreachable!("the index is not unique"),
                }
                next = row.0 + 1;
            }
        }
        undo.push_cover(self.id, RowId(from));
        Ok(())
    }

    /// Takes the latest step of covering back.
    pub(super) fn undo_cover(&mut self, from: RowId) {
        let to = std::mem::replace(&mut self.covered, from.0);
        assert!(from.0 <= to, "undo of a step covers fewer rows");
        for index in self.indexes.iter_mut().filter(|index| index.is_covering()) {
            let mut next = from.0;
            while let Some(row) = self.blocks.next_live(next).filter(|row| row.0 < to) {
                // SAFETY: the row is live, and was covered.
                unsafe { index.remove_row(self.blocks.slot(row), &self.layout.fields, row) };
                next = row.0 + 1;
            }
            index.cover_to(from.0);
        }
    }
}
