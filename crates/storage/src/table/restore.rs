//! A table made of a snapshot's records: the same rows in the same slots.

use super::Table;
use crate::blocks::BlockStore;
use crate::error::StorageError;
use crate::index::{AnyTree, each_tree};
use crate::row::RowId;
use crate::snapshot::{RowsRecord, check_texts};

/// A table that is being made of records, which come in any order.
pub struct TableRestore {
    table: Table,
    /// One bit a slot, set once a record has told of it.
    seen: Vec<u64>,
    used_slots: u32,
    free_head: u32,
}

impl TableRestore {
    /// Begins with an empty table; it had used slots below `used_slots`, and its free list began
    /// with `free_head`.
    ///
    /// # Errors
    /// `BadRecord` when the table has rows, or the numbers are none of a table.
    pub fn new(mut table: Table, used_slots: u32, free_head: u32) -> Result<Self, StorageError> {
        if table.blocks.fresh() > 0 {
            return Err(table.bad_record("the table is not empty"));
        }
        if used_slots == u32::MAX {
            return Err(table.bad_record("it has more slots than a table can have"));
        }
        table.blocks = BlockStore::new(&table.layout);
        let seen = vec![0; used_slots.div_ceil(64) as usize];
        Ok(TableRestore { table, seen, used_slots, free_head })
    }

    /// Takes the rows of a record in.
    ///
    /// # Errors
    /// `BadRecord`. The table is of no use then.
    pub fn add(&mut self, record: &RowsRecord<'_>) -> Result<(), StorageError> {
        let Table { blocks, heap, layout, name, .. } = &mut self.table;
        let end = u64::from(record.first) + u64::from(record.slots);
        if end > u64::from(self.used_slots) {
            return Err(self.table.bad_record("it tells of slots that the table had not used"));
        }
        for slot in record.first..record.first + record.slots {
            let (word, bit) = (&mut self.seen[(slot >> 6) as usize], 1 << (slot & 63));
            if *word & bit != 0 {
                return Err(self.table.bad_record("another record tells of the same slot"));
            }
            *word |= bit;
        }
        blocks.make_room(record.first + record.slots);
        record.free_slots().for_each(|(row, next)| blocks.write_link(row, next));
        record.for_each_row(layout, name, |row| {
            let tail = match row.tail.len() {
                0 => std::ptr::NonNull::dangling(),
                length => {
                    let cell = heap.reserve(length);
                    // SAFETY: the cell is fresh memory of this length.
                    unsafe {
                        cell.as_ptr().copy_from_nonoverlapping(row.tail.as_ptr(), length);
                    }
                    cell
                }
            };
            // SAFETY: there is room for the slot, which is of this layout, this table's alone and
            // not live.
            let slot = unsafe {
                let slot = blocks.slot(row.id);
                row.write_slot(layout, slot, tail.as_ptr());
                slot
            };
            check_texts(layout, &row, slot, name)?;
            blocks.publish(row.id);
            Ok(())
        })
    }

    /// The table, with its indexes, once every slot was told of.
    ///
    /// # Errors
    /// `BadRecord` when records are missing or the free list is none; `UniqueViolation` when two
    /// rows have the same key in a unique index.
    pub fn finish(self) -> Result<Table, StorageError> {
        let TableRestore { mut table, seen, used_slots, free_head } = self;
        let told: u64 = seen.iter().map(|word| u64::from(word.count_ones())).sum();
        if told != u64::from(used_slots) {
            let reason = format!("records tell of {told} of {used_slots} slots");
            return Err(table.bad_record(&reason));
        }
        if used_slots > 0 && !table.blocks.set_free_list(free_head) {
            return Err(table.bad_record("the free list is broken"));
        }
        for position in 0..table.indexes.len() {
            table.fill_index(position)?;
        }
        Ok(table)
    }
}

impl Table {
    /// Enters all rows into an index that is empty.
    fn fill_index(&mut self, position: usize) -> Result<(), StorageError> {
        let index = &mut self.indexes[position];
        assert_eq!(each_tree!(&index.tree, tree => tree.len()), 0, "the index is empty");
        let mut from = 0;
        while let Some(row) = self.blocks.next_live(from) {
            // SAFETY: the row is live.
            let added =
                unsafe { index.insert_row(self.blocks.slot(row), &self.layout.fields, row) };
            if let Err(fault) = added {
                let name: Box<str> = self.indexes[position].name().into();
                return Err(self.index_error(fault, position, &name));
            }
            from = row.0 + 1;
        }
        Ok(())
    }

    #[cold]
    fn bad_record(&self, reason: &str) -> StorageError {
        StorageError::BadRecord { table: self.name.clone(), reason: reason.into() }
    }
}

impl BlockStore {
    /// Makes all slots below `end` exist; what they hold is not written yet.
    fn make_room(&mut self, end: u32) {
        while self.fresh() < end {
            self.extend(end);
        }
    }

    /// Puts the free list into force: true if it runs through every free slot once.
    fn set_free_list(&mut self, head: u32) -> bool {
        let free = self.fresh() - self.live_count();
        let mut next = head;
        for _ in 0..free {
            if next >= self.fresh() || self.is_live(RowId(next)) {
                return false;
            }
            next = self.link(RowId(next));
        }
        self.put_free_head(head);
        // A slot met twice would have led back into the list, which then has no end here.
        next == crate::blocks::NO_ROW
    }
}
