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
    /// One bit a slot, set once a record has it.
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

    /// The table, with its indexes, once there was a record of every slot.
    ///
    /// # Errors
    /// `BadRecord` when records are missing or the free list is none; `UniqueViolation` when two
    /// rows have the same key in a unique index.
    pub fn finish(self) -> Result<Table, StorageError> {
        let TableRestore { mut table, seen, used_slots, free_head } = self;
        let recorded: u64 = seen.iter().map(|word| u64::from(word.count_ones())).sum();
        if recorded != u64::from(used_slots) {
            let reason = format!("there are records of {recorded} of {used_slots} slots");
            return Err(table.bad_record(&reason));
        }
        assert_eq!(table.blocks.fresh(), used_slots, "the table has the slots of its records");
        if used_slots > 0 && !table.blocks.set_free_list(free_head) {
            return Err(table.bad_record("the free list is broken"));
        }
        for position in 0..table.indexes.len() {
            table.fill_index(position)?;
        }
        assert!(table.indexes_hold_all_rows(), "each index has the rows of the records");
        Ok(table)
    }
}

impl Table {
    /// Enters all rows into an index that is empty.
    fn fill_index(&mut self, position: usize) -> Result<(), StorageError> {
        let index = &mut self.indexes[position];
        assert_eq!(each_tree!(&index.tree, tree => tree.len()), 0, "the index is empty");
        match index.fill(&self.blocks, &self.layout.fields) {
            Ok(()) => Ok(()),
            Err(fault) => {
                let name: Box<str> = self.indexes[position].name().into();
                Err(self.index_error(fault, position, &name))
            }
        }
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
        // A slot met twice would have led back into the list, which then has no end here.
        let ends_here = next == crate::blocks::NO_ROW;
        if ends_here {
            self.put_free_head(head);
        }
        ends_here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::fill::fill_numbers;
    use crate::{ColumnLayout, IndexDefinition, KeySource, TableLayout, UndoLog};
    use lockstep_base::random::SeededRandom;
    use lockstep_types::{Datum, SqlType};

    fn table(unique: bool) -> Table {
        let layout = TableLayout::new(&[ColumnLayout::fixed(SqlType::BigInt)]);
        let mut table = Table::new("T", layout.expect("a legal layout"));
        let source = KeySource::Columns(vec![0]);
        table.add_index(IndexDefinition { name: "I".into(), unique, source }).expect("legal");
        table
    }

    fn refill(table: &mut Table, batch_entries: usize) -> Result<(), u32> {
        let Table { indexes, blocks, .. } = table;
        let index = &mut indexes[0];
        drop(index.take_tree());
        let shape = &index.shape;
        // SAFETY: the rows are live, and the index is on a number.
        let key = |row| unsafe { shape.word_from_slot(blocks.slot(row)) };
        match &mut index.tree {
            AnyTree::Word(tree) => fill_numbers(tree, blocks, key, batch_entries),
            AnyTree::UniqueWord(tree) => fill_numbers(tree, blocks, key, batch_entries),
            _ => unreachable!("a number is a word"),
        }
    }

    #[test]
    fn rows_in_any_order_are_all_entered_in_the_order_of_their_keys() {
        for (seed, unique) in (0..40).zip([true, false].into_iter().cycle()) {
            let (mut table, mut random) = (table(unique), SeededRandom::new(seed));
            let mut undo = UndoLog::default();
            let (count, spread) =
                (random.below(3_000) as i64, [8, 1 << 40][random.below(2) as usize]);
            let ascending = random.below(2) as i64 * count / 2;
            for n in 0..count {
                let key = match n < ascending {
                    true => n,
                    false => random.below(spread) as i64 + if unique { n << 41 } else { 0 },
                };
                table.insert(&[Datum::Int(key)], &mut undo).expect("it fits");
                if random.below(5) == 0 {
                    let row = RowId(random.below(n as u64 + 1) as u32);
                    let _ = table.delete(row, &mut undo);
                }
            }
            let batch_entries = 2 + random.below(200) as usize;
            assert_eq!(refill(&mut table, batch_entries), Ok(()), "seed {seed}");
            assert_eq!(table.check(), Ok(()), "seed {seed}");
            // A key that is there twice is found, wherever it is.
            if unique && table.row_count() > 1 {
                let first = table.blocks.next_live(0).expect("there are rows");
                let other = table.blocks.next_live(first.0 + 1).expect("there are two");
                // SAFETY: both rows are live, and of the same layout.
                unsafe {
                    let (from, to) = (table.blocks.slot(first), table.blocks.slot(other));
                    to.copy_from_nonoverlapping(from, table.layout.slot_bytes);
                }
                let found = refill(&mut table, batch_entries);
                assert!(found == Err(first.0) || found == Err(other.0), "{found:?}");
            }
        }
    }
}
