//! Prefetching in a batch. The statements of a batch are known before the first one runs, so the
//! memory that later ones need is prefetched while earlier ones run. A search reads three pieces of
//! memory, each of which has the address of the next: the leaf of the index, the slot, the tail of
//! longer texts. As long as the batch has changed nothing, a statement takes the row that was found
//! for it; after a change it searches again.

use super::PreparedStatement;
use super::fast::KEY_LIMIT;
use crate::database::Database;
use lockstep_storage::{PrefetchedKey, RowId, UndoMark};
use lockstep_types::Datum;

/// Statements between the prefetch of one piece and that of the next.
const STEP: usize = 3;
/// A shorter batch is not prefetched.
const SHORTEST_BATCH: usize = 5;
/// Statements whose searches are in progress.
const RING: usize = 4 * STEP;

/// Where a statement's search is.
#[derive(Debug, Clone, Copy)]
enum Way {
    Unknown,
    Leaf(PrefetchedKey),
    Slot(RowId),
}

/// What is known of the statements to come.
pub(crate) struct Ahead {
    ways: [Way; RING],
    /// Where changes stood when the batch began.
    mark: UndoMark,
}

impl Ahead {
    /// For a batch of `statements` statements, if it is long enough.
    pub(crate) fn of(statements: usize, mark: UndoMark) -> Option<Ahead> {
        (statements >= SHORTEST_BATCH).then_some(Ahead { ways: [Way::Unknown; RING], mark })
    }

    /// The row that the statement with this number finds by its key, if that is known: as long as
    /// the batch has changed nothing.
    #[inline]
    pub(crate) fn row(&self, database: &Database, number: usize) -> Option<RowId> {
        match self.ways[number % RING] {
            Way::Slot(row) if database.mark() == self.mark => Some(row),
            _ => None,
        }
    }

    /// Asks for what the statements after `number` will need. `statement` gives those of the
    /// batch by their places; it is called with each number once, from 0.
    #[inline]
    pub(crate) fn step<'s, 'p: 's>(
        &mut self,
        database: &Database,
        number: usize,
        statement: impl Fn(usize) -> Option<(&'s PreparedStatement, &'s [Datum<'p>])>,
    ) {
        let first = if number == 0 { 0 } else { number + 3 * STEP };
        for place in first..=number + 3 * STEP {
            if let Some((prepared, parameters)) = statement(place) {
                self.ways[place % RING] = prepared.prefetch_key(database, parameters);
            }
        }
        let first = if number == 0 { 0 } else { number + 2 * STEP };
        for place in first..=number + 2 * STEP {
            if let Way::Leaf(key) = self.ways[place % RING]
                && let Some((prepared, _)) = statement(place)
            {
                self.ways[place % RING] = prepared.prefetched(database, key);
            }
        }
        if let Way::Slot(row) = self.ways[(number + STEP) % RING]
            && let Some((prepared, _)) = statement(number + STEP)
        {
            prepared.prefetch_columns(database, row);
        }
    }
}

impl PreparedStatement {
    #[inline]
    fn prefetch_key(&self, database: &Database, parameters: &[Datum<'_>]) -> Way {
        let mut key = [Datum::Null; KEY_LIMIT];
        let search = self.fast.as_ref().and_then(|fast| fast.search());
        let found = search.and_then(|(lookup, _)| {
            let (table, key) = lookup.key(database, parameters, &mut key)?;
            table.prefetch(lookup.index, key)
        });
        found.map_or(Way::Unknown, Way::Leaf)
    }

    #[inline]
    fn prefetched(&self, database: &Database, key: PrefetchedKey) -> Way {
        let search = self.fast.as_ref().and_then(|fast| fast.search());
        let found = search.and_then(|(lookup, _)| {
            database.tables.get(lookup.table)?.prefetched_row(lookup.index, key)
        });
        found.map_or(Way::Unknown, Way::Slot)
    }

    #[inline]
    fn prefetch_columns(&self, database: &Database, row: RowId) {
        if let Some((lookup, columns)) = self.fast.as_ref().and_then(|fast| fast.search())
            && let Some(table) = database.tables.get(lookup.table)
        {
            table.prefetch_columns(row, columns);
        }
    }
}
