//! A table of one site: its slots, its strings and its indexes.

mod check;
mod cover;
mod modify;
mod rebuild;
mod restore;
mod scan;
mod snapshot;
mod tally;
mod undo;

pub use rebuild::ColumnSource;
pub use restore::TableRestore;
pub use scan::{ScanCursor, TableScan};
pub use tally::Tally;

use crate::blocks::BlockStore;
use crate::cursor::IndexCursor;
use crate::error::StorageError;
use crate::heap::StringHeap;
use crate::index::{AnyTree, Index, IndexDefinition, IndexFault, PrefetchedKey, each_tree};
use crate::layout::TableLayout;
use crate::row::{RowId, RowRef};
use crate::wire::{prefetch_slot, prefetch_values};
use lockstep_base::random::split_mix;
use lockstep_types::{Datum, IndexId, TableId};
use std::ops::Bound;

/// Most indexes of a table: they fit a bit mask per column.
pub const MAX_INDEXES: usize = 64;

/// A table.
pub struct Table {
    id: TableId,
    name: Box<str>,
    layout: TableLayout,
    blocks: BlockStore,
    heap: StringHeap,
    indexes: Vec<Index>,
    /// For each column, the indexes whose keys it can change.
    column_indexes: Box<[u64]>,
    /// A slot for putting an updated row together.
    scratch: Vec<u8>,
    /// Rows below it are in what is being built, see `cover.rs`.
    covered: u32,
    /// What the table held before it was emptied, while a snapshot needs it.
    emptied: Option<TruncatedState>,
}

/// What a table held before it was emptied.
pub(crate) struct TruncatedState {
    blocks: BlockStore,
    trees: Vec<AnyTree>,
}

/// Memory of a table, in bytes; its indexes count their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableMemory {
    /// Live rows.
    pub rows: u64,
    /// Obtained from the system for blocks of slots and their books.
    pub block_bytes: usize,
    /// Slots of live rows.
    pub data_bytes: usize,
    /// Obtained from the system for strings.
    pub string_allocated_bytes: usize,
    /// Strings of live rows, and of rows that undo may bring back.
    pub string_used_bytes: usize,
}

impl TableMemory {
    /// All that was obtained from the system, indexes apart.
    pub fn allocated_bytes(&self) -> usize {
        self.block_bytes + self.string_allocated_bytes
    }
}

impl Table {
    /// An empty table without indexes. It takes part in undo once it is in [`crate::Tables`].
    pub fn new(name: &str, layout: TableLayout) -> Table {
        Table {
            id: TableId(u32::MAX),
            name: name.into(),
            blocks: BlockStore::new(&layout),
            heap: StringHeap::default(),
            indexes: Vec::new(),
            column_indexes: vec![0; layout.fields.len()].into(),
            scratch: vec![0; layout.slot_bytes],
            covered: cover::ALL,
            emptied: None,
            layout,
        }
    }

    /// The name, for errors and statistics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id under which [`crate::Tables`] holds the table.
    pub fn id(&self) -> TableId {
        self.id
    }

    pub(crate) fn set_id(&mut self, id: TableId) {
        self.id = id;
    }

    /// The layout.
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// Number of live rows.
    #[inline]
    pub fn row_count(&self) -> u64 {
        u64::from(self.blocks.live_count())
    }

    /// One more than the greatest number that a row has had: what samples are drawn from.
    pub fn row_id_bound(&self) -> u32 {
        self.blocks.fresh()
    }

    /// True while the row is live.
    #[inline]
    pub fn is_live(&self, row: RowId) -> bool {
        self.blocks.is_live(row)
    }

    /// A live row.
    #[inline]
    pub fn row(&self, row: RowId) -> Option<RowRef<'_>> {
        // SAFETY: the row is live.
        self.blocks.is_live(row).then(|| unsafe { self.row_unchecked(row) })
    }

    /// A row that is known to be live.
    ///
    /// # Safety
    /// The row is live.
    #[inline]
    pub(crate) unsafe fn row_unchecked(&self, row: RowId) -> RowRef<'_> {
        // SAFETY: a live row's slot holds a row of this layout; `&self` keeps it unchanged.
        unsafe { RowRef::new(self.blocks.slot(row), &self.layout.fields) }
    }

    /// The indexes by position.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// Adds an index over the rows that are there; gives its position.
    ///
    /// # Errors
    /// `UniqueViolation` when two rows have the same key; `TooManyIndexes`, `NoSuchColumn`,
    /// `UnsupportedType`; what the evaluator gives. The table is unchanged then.
    pub fn add_index(&mut self, definition: IndexDefinition) -> Result<IndexId, StorageError> {
        let position = self.indexes.len();
        if position == MAX_INDEXES {
            let table = self.name.clone();
            return Err(StorageError::TooManyIndexes { table, limit: MAX_INDEXES });
        }
        let mut index = Index::new(definition, &self.layout, &self.name)?;
        let mut from = 0;
        while let Some(row) = self.blocks.next_live(from) {
            // SAFETY: the row is live.
            let added =
                unsafe { index.insert_row(self.blocks.slot(row), &self.layout.fields, row) };
            added.map_err(|fault| self.index_error(fault, position, index.name()))?;
            from = row.0 + 1;
        }
        self.indexes.push(index);
        assert!(self.indexes_hold_all_rows(), "a new index has each row once");
        self.map_columns();
        Ok(IndexId(position as u16))
    }

    /// Removes an index; those after it move one position forward.
    ///
    /// # Errors
    /// `NoSuchIndex`.
    pub fn remove_index(&mut self, index: IndexId) -> Result<(), StorageError> {
        self.index(index)?;
        self.indexes.remove(index.index());
        self.map_columns();
        Ok(())
    }

    /// Whether each index that holds every row has as many entries as there are rows.
    pub(crate) fn indexes_hold_all_rows(&self) -> bool {
        let (rows, holds_all) = (self.row_count(), Index::holds_all_rows);
        self.indexes.iter().filter(|index| holds_all(index)).all(|index| index.entries() == rows)
    }

    fn map_columns(&mut self) {
        assert!(self.indexes.len() <= MAX_INDEXES, "a bit mask has a bit for each index");
        self.column_indexes.fill(0);
        for (position, index) in self.indexes.iter().enumerate() {
            for column in index.reads() {
                self.column_indexes[*column] |= 1 << position;
            }
        }
    }

    /// An index by its position.
    ///
    /// # Errors
    /// `NoSuchIndex`.
    #[inline]
    pub fn index(&self, index: IndexId) -> Result<&Index, StorageError> {
        self.indexes.get(index.index()).ok_or_else(|| StorageError::NoSuchIndex {
            table: self.name.clone(),
            position: index.index(),
        })
    }

    /// The row with this key, all parts given; of a non-unique index, the first.
    ///
    /// # Errors
    /// `NoSuchIndex`, `KeyParts`, `TypeMismatch`.
    #[inline]
    pub fn get(
        &self,
        index: IndexId,
        key: &[Datum<'_>],
    ) -> Result<Option<(RowId, RowRef<'_>)>, StorageError> {
        let index = self.index(index)?;
        let row = match index.unique_word(key) {
            Some(number) => self.get_word(index, number),
            None => index.get(key)?,
        };
        // SAFETY: rows of an index are live.
        Ok(row.map(|row| (row, unsafe { self.row_unchecked(row) })))
    }

    /// The row of a number that `unique_word` of the index gave.
    #[inline]
    fn get_word(&self, index: &Index, number: u64) -> Option<RowId> {
        let row = index.recent_row(number);
        // SAFETY: the slot is looked at only while it is that of a live row.
        if self.blocks.is_live(row) && unsafe { index.is_row_of(number, self.blocks.slot(row)) } {
            return Some(row);
        }
        index.get_word(number)
    }

    /// The row whose unique key is this one integer; `None` when the index is not of that kind or
    /// the value is none of its range, which says nothing about the row.
    #[inline(always)]
    pub fn get_integer(&self, index: IndexId, key: i64) -> Option<Option<(RowId, RowRef<'_>)>> {
        let row = self.indexes.get(index.index())?.get_integer(key)?;
        // SAFETY: rows of an index are live.
        Some(row.map(|row| (row, unsafe { self.row_unchecked(row) })))
    }

    /// Prepares the memory for a [`Table::get_integer`] that is to come: without effect but that
    /// it waits less.
    #[inline(always)]
    pub fn prefetch_integer(&self, index: IndexId, key: i64) {
        if let Some(index) = self.indexes.get(index.index()) {
            index.prefetch_integer(key);
        }
    }

    /// Prefetches the index entry for a later [`Table::get`], if the index is large. Then
    /// [`Table::prefetched_row`] and [`Table::prefetch_columns`] may follow, each a little later.
    /// Without effect but that the get waits less.
    #[inline]
    pub fn prefetch(&self, index: IndexId, key: &[Datum<'_>]) -> Option<PrefetchedKey> {
        self.indexes.get(index.index())?.prefetch(key)
    }

    /// The row of a prefetched key; its slot is prefetched.
    #[inline]
    pub fn prefetched_row(&self, index: IndexId, key: PrefetchedKey) -> Option<RowId> {
        let row = self.indexes.get(index.index())?.prefetched_row(key)?;
        // SAFETY: rows of an index are live.
        prefetch_slot(unsafe { self.blocks.slot(row) }, self.layout.slot_bytes);
        Some(row)
    }

    /// Prefetches what these columns of a row have in its tail.
    #[inline]
    pub fn prefetch_columns(&self, row: RowId, columns: &[u16]) {
        if self.layout.has_tail() && self.blocks.is_live(row) {
            // SAFETY: the row is live, and of this layout.
            unsafe { prefetch_values(&self.layout.fields, self.blocks.slot(row), columns) };
        }
    }

    /// The rows between two bounds, in key order, or against it for `reverse`.
    ///
    /// A bound may give the first parts of the key only: `Included` then takes in all keys that
    /// begin with them, `Excluded` leaves all of those out. NULL is the lowest value and is in a
    /// range without a lower bound; `Excluded(&[Datum::Null])` leaves it out. A bound outside
    /// its column's range bounds nothing, or everything, as arithmetic has it.
    ///
    /// # Errors
    /// `NoSuchIndex`, `KeyParts`, `TypeMismatch`.
    #[inline]
    pub fn range<'a>(
        &'a self,
        index: IndexId,
        lower: Bound<&[Datum<'_>]>,
        upper: Bound<&[Datum<'_>]>,
        reverse: bool,
    ) -> Result<IndexCursor<'a>, StorageError> {
        let index = self.index(index)?;
        let (lower, upper) = (index.edge(lower, false)?, index.edge(upper, true)?);
        Ok(IndexCursor::new(self, &index.tree, lower, upper, reverse))
    }

    /// The rows whose key begins with `prefix`, in key order.
    ///
    /// # Errors
    /// As for [`Table::range`].
    #[inline]
    pub fn equal<'a>(
        &'a self,
        index: IndexId,
        prefix: &[Datum<'_>],
    ) -> Result<IndexCursor<'a>, StorageError> {
        let index = self.index(index)?;
        let (lower, upper) = index.edges_of(prefix)?;
        Ok(IndexCursor::new(self, &index.tree, lower, upper, false))
    }

    /// Work that no change should wait for, and that shows nowhere but in memory: makes ready what
    /// the next inserts will need, gives back what mass deletes have left. For between
    /// transactions.
    pub fn maintain(&mut self) {
        self.blocks.prepare_growth();
        self.blocks.give_back_free_blocks();
        self.heap.prepare_growth();
        for index in &mut self.indexes {
            each_tree!(&mut index.tree, tree => tree.prepare_growth());
        }
    }

    /// Memory of the table without its indexes.
    pub fn memory(&self) -> TableMemory {
        let rows = self.row_count();
        TableMemory {
            rows,
            block_bytes: self.blocks.allocated_bytes(),
            data_bytes: rows as usize * self.layout.slot_bytes,
            string_allocated_bytes: self.heap.allocated_bytes(),
            string_used_bytes: self.heap.used_bytes(),
        }
    }

    /// A hash of the replicated state: every row with its slot, the free list, the fill level.
    /// Equal on replicas that executed the same operations. Visits every row.
    pub fn content_hash(&self) -> u64 {
        let mut hash = 0u64;
        let mut add = |word: u64| {
            let mut state = hash ^ word;
            hash = split_mix(&mut state);
        };
        for (row, values) in self.scan() {
            add(u64::from(row.0));
            for value in values.columns() {
                add_value(value, &mut add);
            }
        }
        add(u64::MAX);
        for row in self.blocks.free_list() {
            add(u64::from(row.0));
        }
        add(u64::from(self.blocks.fresh()));
        hash
    }

    #[cold]
    fn index_error(&self, fault: IndexFault, position: usize, index: &str) -> StorageError {
        match fault {
            IndexFault::Evaluation(error) => error,
            IndexFault::Duplicate(existing) => StorageError::UniqueViolation {
                table: self.name.clone(),
                index: index.into(),
                position,
                existing,
            },
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "table {} with {} rows", self.name, self.row_count())
    }
}

fn add_value(value: Datum<'_>, add: &mut impl FnMut(u64)) {
    match value {
        Datum::Null => add(0),
        Datum::Bool(value) => add(1 + u64::from(value)),
        Datum::Int(value) | Datum::Timestamp(value) => add(value as u64),
        Datum::Float(value) => add(value.to_bits()),
        Datum::Decimal(value) => {
            add(value.units() as u64);
            add((value.units() >> 64) as u64);
        }
        Datum::Text(value) => add_bytes(value.as_bytes(), add),
        Datum::Bytes(value) => add_bytes(value, add),
        Datum::Point(point) => {
            add(point.longitude().to_bits());
            add(point.latitude().to_bits());
        }
    }
}

fn add_bytes(value: &[u8], add: &mut impl FnMut(u64)) {
    add(value.len() as u64 + 1);
    for chunk in value.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        add(u64::from_le_bytes(word));
    }
}
