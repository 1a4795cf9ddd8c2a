//! Questions to global indexes: at which partitions the rows of a key live, and whether they live
//! here.

use crate::context::{Context, NoSubqueries};
use crate::database::{Database, storage_fault, table_of};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use lockstep_base::arena::Arena;
use lockstep_plan_ir::schema::{IndexDefinition, IndexKey};
use lockstep_plan_ir::statement::Target;
use lockstep_plan_ir::{Execution, Expression, Lookup, Node, Statement, TableDefinition};
use lockstep_storage::{RowId, RowRef, UndoMark};
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{
    Datum, HashRing, IndexId, PartitionId, SqlType, TableBuilder, TableId, TableSchema, TableView,
    TransactionId,
};
use std::collections::BTreeSet;

/// The questions that have to be answered before it is known where a statement runs: the
/// partitioning values that are places, each once.
pub fn lookups(statement: &Statement) -> Vec<&Expression> {
    let mut found: Vec<&Expression> = Vec::new();
    let mut note = |value| {
        if Lookup::of(value).is_some() && !found.contains(&value) {
            found.push(value);
        }
    };
    match &statement.execution {
        Execution::Local { routing, .. } => routing.iter().for_each(note),
        Execution::Distributed { fragments, .. } | Execution::Shipped { fragments, .. } => {
            for fragment in fragments {
                match &fragment.target {
                    Target::All | Target::One | Target::OwnersOfArray(_) => {}
                    Target::Owner(value) => note(value),
                    Target::Owners(values) => values.iter().for_each(&mut note),
                }
            }
        }
    }
    found
}

/// The partition that answers a question.
///
/// # Errors
/// What the evaluation of the key refuses.
pub fn lookup_owner(
    lookup: &Lookup<'_>,
    parameters: &[Datum<'_>],
    timestamp_us: i64,
    ring: &HashRing,
) -> Result<PartitionId, SqlError> {
    let arena = Arena::new();
    with_keys(lookup, parameters, timestamp_us, &arena, |keys| {
        Ok(ring.partition_of_values(keys.iter().copied()))
    })
}

fn with_keys<T>(
    lookup: &Lookup<'_>,
    parameters: &[Datum<'_>],
    timestamp_us: i64,
    arena: &Arena,
    body: impl FnOnce(&[Datum<'_>]) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let context = Context { parameters, arena, now_us: timestamp_us, subqueries: &NoSubqueries };
    let frame = Frame::new(arena, 0);
    let mut keys = [Datum::Null; MAX_KEY_PARTS];
    let count = lookup.keys.len().min(MAX_KEY_PARTS);
    for (key, expression) in keys.iter_mut().zip(lookup.keys) {
        *key = evaluate(expression, &context, &frame)?;
    }
    body(&keys[..count])
}

/// Answers a statement's question at this partition, which owns the key: appends a table of
/// partition numbers, which [`read_places`] reads.
///
/// # Errors
/// What the evaluation of the key refuses; the index is gone.
pub fn execute_lookup(
    database: &Database,
    statement: &Statement,
    number: usize,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let questions = lookups(statement);
    let Some(lookup) = questions.get(number).and_then(|value| Lookup::of(value)) else {
        return Err(SqlError::sql(format!("the statement has no index lookup {number}")));
    };
    let arena = Arena::new();
    let now_us = database.transaction.timestamp_us;
    let places = with_keys(&lookup, parameters, now_us, &arena, |keys| {
        database.places_of(lookup.entries, keys)
    })?;
    let schema = TableSchema::new(&[("PARTITION", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    for partition in places {
        table.row(&schema, &[Datum::Int(partition.0.into())]);
    }
    table.finish();
    Ok(())
}

/// The partitions of a table that [`execute_lookup`] made.
///
/// # Errors
/// The bytes are no such table.
pub fn read_places(table: &[u8]) -> Result<Vec<PartitionId>, SqlError> {
    let damaged = || SqlError::sql("the answer of an index lookup is damaged");
    let mut reader = lockstep_base::bytes::ByteReader::new(table);
    let table = TableView::read(&mut reader).map_err(|_| damaged())?;
    let mut places = Vec::new();
    for row in table.rows() {
        match row.map_err(|_| damaged())?.values().next() {
            Some(Ok(Datum::Int(number))) => {
                places.push(PartitionId(u32::try_from(number).map_err(|_| damaged())?));
            }
            _ => return Err(damaged()),
        }
    }
    Ok(places)
}

/// How a global index is asked: from its entries to the place of a key's rows, and from the key to
/// rows that are here. Holds as long as the schema does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRoute {
    /// The table of the entries.
    pub entries: TableId,
    /// The columns of the entries that place the rows.
    places: Box<[u16]>,
    /// The table of the rows.
    table: TableId,
    /// Its index that begins with the key, and whether it finds one row by just the key.
    rows: IndexId,
    rows_unique: bool,
}

impl KeyRoute {
    /// The route of the index whose entries are in a table, by the definition of the rows' table.
    pub fn of(table: &TableDefinition, entries: TableId) -> Option<KeyRoute> {
        let index = table.global_indexes.iter().find(|index| index.entries == entries)?;
        let place = |column: &u16| index.entry_column(*column);
        let places: Option<Box<[u16]>> = table.partition_columns.iter().map(place).collect();
        let columns: Vec<IndexKey> = index.keys().iter().copied().map(IndexKey::Column).collect();
        let leads = |local: &&(usize, &IndexDefinition)| {
            local.1.predicate.is_none() && local.1.keys.starts_with(&columns)
        };
        // Keys that are unique over all partitions are so at each, whatever the index says.
        let is_whole = |local: &&(usize, &IndexDefinition)| local.1.keys.len() == columns.len();
        let locals: Vec<(usize, &IndexDefinition)> = table.indexes.iter().enumerate().collect();
        let mut leading = locals.iter().filter(leads);
        let whole = leading.clone().find(is_whole);
        let rows = whole.or_else(|| leading.next())?;
        Some(KeyRoute {
            entries,
            places: places?,
            table: table.id,
            rows: IndexId(rows.0 as u16),
            rows_unique: whole.is_some() && index.unique,
        })
    }
}

/// The key by which a call was led to this partition: what it is restricted to lives here, or
/// nowhere.
#[derive(Debug, Default)]
pub(crate) struct RoutedKey {
    transaction: TransactionId,
    entries: TableId,
    /// The parts of the key, each with its kind and length in front; empty for none.
    key: Vec<u8>,
    /// Its row, where that was found by a unique index, as long as nothing has changed since.
    row: Option<FoundRow>,
}

#[derive(Debug)]
struct FoundRow {
    table: TableId,
    index: IndexId,
    row: RowId,
    mark: UndoMark,
}

impl RoutedKey {
    /// A part of a key as bytes: its kind, and what it holds. None of such as no index is asked
    /// by when a call is routed.
    fn part<'v>(value: &'v Datum<'_>, number: &'v mut [u8; 8]) -> Option<(u8, &'v [u8])> {
        match value {
            Datum::Int(value) => {
                *number = value.to_be_bytes();
                Some((1, number))
            }
            Datum::Text(text) => Some((2, text.as_bytes())),
            Datum::Bytes(bytes) => Some((3, bytes)),
            _ => None,
        }
    }

    fn set(&mut self, transaction: TransactionId, entries: TableId, keys: &[Datum<'_>]) {
        (self.transaction, self.entries) = (transaction, entries);
        self.row = None;
        self.key.clear();
        for value in keys {
            let mut number = [0; 8];
            let Some((kind, bytes)) = RoutedKey::part(value, &mut number) else {
                return self.key.clear();
            };
            self.key.push(kind);
            self.key.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            self.key.extend_from_slice(bytes);
        }
    }

    /// Whether a transaction was led here by just this key.
    fn is<'v>(
        &self,
        transaction: TransactionId,
        entries: TableId,
        keys: impl Iterator<Item = Option<Datum<'v>>>,
    ) -> bool {
        self.transaction == transaction && self.entries == entries && self.is_key(keys)
    }

    fn is_key<'v>(&self, keys: impl Iterator<Item = Option<Datum<'v>>>) -> bool {
        if self.key.is_empty() {
            return false;
        }
        let mut left = self.key.as_slice();
        for value in keys {
            let mut number = [0; 8];
            let Some(value) = value else { return false };
            let Some((kind, bytes)) = RoutedKey::part(&value, &mut number) else { return false };
            let Some(([held_kind, length @ ..], behind)) = left.split_first_chunk::<5>() else {
                return false;
            };
            if *held_kind != kind || *length != (bytes.len() as u32).to_be_bytes() {
                return false;
            }
            match behind.strip_prefix(bytes) {
                Some(behind) => left = behind,
                None => return false,
            }
        }
        left.is_empty()
    }
}

impl Database {
    /// Whether a statement of the transaction that runs failed because it asked for a row that a
    /// global index finds elsewhere.
    pub fn was_misled(&self) -> bool {
        self.misled
    }

    /// The partitions where rows with this whole key of a global index live, as the index's
    /// entries at this partition have it. A NULL in the key finds nothing, as no condition of
    /// equality does.
    ///
    /// # Errors
    /// The index is gone, or the key is of other types.
    pub fn places_of(
        &self,
        entries: TableId,
        keys: &[Datum<'_>],
    ) -> Result<BTreeSet<PartitionId>, SqlError> {
        let mut found = BTreeSet::new();
        if keys.iter().any(|key| key.is_null()) {
            return Ok(found);
        }
        let route = self.key_route(entries)?;
        let table = table_of(&self.tables, entries)?;
        let mut rows = table.equal(IndexId(0), keys).map_err(storage_fault)?;
        while let Some((_, row)) = rows.next_row() {
            found.insert(self.place_in(&route, row));
        }
        Ok(found)
    }

    /// The partition of the row with this whole key of a unique global index, as its entries at
    /// this partition have it.
    ///
    /// # Errors
    /// As for [`Database::places_of`].
    #[inline]
    pub fn place_of_key(
        &self,
        route: &KeyRoute,
        keys: &[Datum<'_>],
    ) -> Result<Option<PartitionId>, SqlError> {
        if keys.iter().any(|key| key.is_null()) {
            return Ok(None);
        }
        let table = table_of(&self.tables, route.entries)?;
        let found = table.get(IndexId(0), keys).map_err(storage_fault)?;
        Ok(found.map(|(_, row)| self.place_in(route, row)))
    }

    #[inline]
    fn place_in(&self, route: &KeyRoute, entry: RowRef<'_>) -> PartitionId {
        if let [only] = *route.places {
            return self.options.ring.partition_of_values([entry.column(usize::from(only))]);
        }
        let values = route.places.iter().map(|column| entry.column(usize::from(*column)));
        self.options.ring.partition_of_values(values)
    }

    /// A row with this whole key of a global index, if one lives here.
    ///
    /// # Errors
    /// As for [`Database::places_of`].
    #[inline]
    pub fn row_of_key(
        &self,
        route: &KeyRoute,
        keys: &[Datum<'_>],
    ) -> Result<Option<RowId>, SqlError> {
        if keys.iter().any(|key| key.is_null()) {
            return Ok(None);
        }
        let table = table_of(&self.tables, route.table)?;
        if route.rows_unique {
            return Ok(table.get(route.rows, keys).map_err(storage_fault)?.map(|(row, _)| row));
        }
        let mut rows = table.equal(route.rows, keys).map_err(storage_fault)?;
        Ok(rows.next_id())
    }

    /// The call that runs next, under this transaction id, was led here by this key: its row lives
    /// here, and is this one if that is known, or it lives nowhere. So it need not be looked for
    /// again.
    #[inline]
    pub fn note_index_route(
        &mut self,
        transaction: TransactionId,
        route: &KeyRoute,
        keys: &[Datum<'_>],
        row: Option<RowId>,
    ) {
        self.routed_key.set(transaction, route.entries, keys);
        if let (Some(row), true) = (row, route.rows_unique) {
            let (table, index, mark) = (route.table, route.rows, self.mark());
            self.routed_key.row = Some(FoundRow { table, index, row, mark });
        }
    }

    /// The row with a whole key of a unique index, if it was found while the call was led here.
    #[inline]
    pub(crate) fn routed_row(
        &self,
        table: TableId,
        index: IndexId,
        keys: &[Datum<'_>],
    ) -> Option<RowId> {
        let routed = &self.routed_key;
        let found = routed.row.as_ref().filter(|found| {
            routed.transaction == self.transaction.transaction_id
                && (found.table, found.index) == (table, index)
                && found.mark == self.mark()
        })?;
        routed.is_key(keys.iter().map(|key| Some(*key))).then_some(found.row)
    }

    /// Whether a statement that is restricted to a key of a unique global index sees here all
    /// that there is: the row lives here, or the index's entries do and have none.
    ///
    /// # Errors
    /// As for [`Database::places_of`], and what the evaluation of the key refuses.
    #[inline]
    pub(crate) fn answers_for(
        &self,
        lookup: &Lookup<'_>,
        parameters: &[Datum<'_>],
    ) -> Result<bool, SqlError> {
        let keys = lookup.keys.iter().map(|key| match &key.node {
            Node::Parameter(number) => parameters.get(usize::from(*number)).copied(),
            Node::Literal(value) => Some(value.as_datum()),
            _ => None,
        });
        if self.routed_key.is(self.transaction.transaction_id, lookup.entries, keys) {
            return Ok(true);
        }
        self.answers_for_any(lookup, parameters)
    }

    fn answers_for_any(
        &self,
        lookup: &Lookup<'_>,
        parameters: &[Datum<'_>],
    ) -> Result<bool, SqlError> {
        let arena = Arena::new();
        let now_us = self.transaction.timestamp_us;
        with_keys(lookup, parameters, now_us, &arena, |keys| {
            if self.row_of_key(&self.key_route(lookup.entries)?, keys)?.is_some() {
                return Ok(true);
            }
            let owner = self.options.ring.partition_of_values(keys.iter().copied());
            Ok(owner == self.options.partition && self.places_of(lookup.entries, keys)?.is_empty())
        })
    }

    /// How the index with a table of entries is asked.
    fn key_route(&self, entries: TableId) -> Result<KeyRoute, SqlError> {
        let of = self.definition(entries).and_then(|entries| entries.entries_of.as_ref());
        let base = of.and_then(|of| self.definition(of.table));
        base.and_then(|base| KeyRoute::of(base, entries)).ok_or_else(|| no_index(entries))
    }
}

#[cold]
fn no_index(entries: TableId) -> SqlError {
    SqlError::sql(format!(
        "the global index with the entries {entries} was dropped; plan the statement again"
    ))
}
