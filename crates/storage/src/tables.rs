//! All tables of a site, by their dense ids.

use crate::snapshot::RunningSnapshot;
use crate::table::Table;
use lockstep_types::TableId;
use std::ops::{Index, IndexMut};

/// The tables of a site. A table is replaced or removed only while the undo log has no change of
/// it: a record names its table by id.
#[derive(Default)]
pub struct Tables {
    tables: Vec<Option<Table>>,
    pub(crate) snapshot: Option<Box<RunningSnapshot>>,
}

impl Tables {
    /// No tables.
    pub fn new() -> Tables {
        Tables::default()
    }

    /// Adds a table under the lowest id that is not in use.
    pub fn add(&mut self, table: Table) -> TableId {
        let free = self.tables.iter().position(Option::is_none).unwrap_or(self.tables.len());
        let id = TableId(free as u32);
        self.set(id, table);
        id
    }

    /// Puts a table under an id that the catalog chose; gives the one that was there.
    pub fn set(&mut self, id: TableId, mut table: Table) -> Option<Table> {
        if id.index() >= self.tables.len() {
            self.tables.resize_with(id.index() + 1, || None);
        }
        assert!(id.0 != u32::MAX, "the id of a table that is in no set");
        table.set_id(id);
        self.tables[id.index()].replace(table)
    }

    /// Removes a table; its id may be used again.
    pub fn remove(&mut self, id: TableId) -> Option<Table> {
        self.tables.get_mut(id.index()).and_then(Option::take)
    }

    /// The table with this id.
    #[inline]
    pub fn get(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.index()).and_then(Option::as_ref)
    }

    /// The table with this id.
    #[inline]
    pub fn get_mut(&mut self, id: TableId) -> Option<&mut Table> {
        self.tables.get_mut(id.index()).and_then(Option::as_mut)
    }

    /// Checks every table ([`Table::check`]).
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub fn check(&self) -> Result<(), String> {
        self.tables.iter().flatten().try_for_each(Table::check)
    }

    /// Two different tables, the first to read and the second to change.
    #[inline]
    pub fn pair(&mut self, read: TableId, change: TableId) -> Option<(&Table, &mut Table)> {
        let indices = [read.index(), change.index()];
        match self.tables.get_disjoint_mut(indices) {
            Ok([Some(read), Some(change)]) => Some((read, change)),
            _ => None,
        }
    }

    /// [`Table::maintain`] for all tables.
    pub fn maintain(&mut self) {
        self.tables.iter_mut().flatten().for_each(Table::maintain);
    }

    /// All tables, in id order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.tables.iter_mut().flatten()
    }

    /// All tables with their ids, in id order.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Table)> {
        let numbered = self.tables.iter().enumerate();
        numbered.filter_map(|(id, table)| Some((TableId(id as u32), table.as_ref()?)))
    }
}

impl Index<TableId> for Tables {
    type Output = Table;

    /// Panics without such a table: ids come from the plan, which the catalog keeps current.
    #[inline]
    fn index(&self, id: TableId) -> &Table {
        self.get(id).expect("plans name tables of the catalog they were compiled against")
    }
}

impl IndexMut<TableId> for Tables {
    #[inline]
    fn index_mut(&mut self, id: TableId) -> &mut Table {
        self.get_mut(id).expect("plans name tables of the catalog they were compiled against")
    }
}
