//! Questions to global indexes: at which partitions the rows of a key live, and whether they live
//! here.

use crate::context::{Context, NoSubqueries};
use crate::database::{Database, storage_fault, table_of};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use lockstep_base::arena::Arena;
use lockstep_plan_ir::schema::{GlobalIndexDefinition, IndexKey};
use lockstep_plan_ir::statement::Target;
use lockstep_plan_ir::{Execution, Expression, Lookup, Statement, TableDefinition};
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{
    Datum, HashRing, IndexId, PartitionId, SqlType, TableBuilder, TableId, TableSchema, TableView,
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
                    Target::All | Target::One => {}
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

impl Database {
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
        let (base, index) = self.global_index(entries)?;
        let columns: Option<Vec<usize>> = base
            .partition_columns
            .iter()
            .map(|column| index.entry_column(*column).map(usize::from))
            .collect();
        let columns = columns.ok_or_else(|| no_index(entries))?;
        let table = table_of(&self.tables, entries)?;
        let mut rows = table.equal(IndexId(0), keys).map_err(storage_fault)?;
        while let Some((_, row)) = rows.next_row() {
            let values = columns.iter().map(|column| row.column(*column));
            found.insert(self.options.ring.partition_of_values(values));
        }
        Ok(found)
    }

    /// Whether a row with this whole key of a global index lives here.
    ///
    /// # Errors
    /// As for [`Database::places_of`].
    pub fn holds_key(&self, entries: TableId, keys: &[Datum<'_>]) -> Result<bool, SqlError> {
        if keys.iter().any(|key| key.is_null()) {
            return Ok(false);
        }
        let (base, index) = self.global_index(entries)?;
        let columns: Vec<IndexKey> = index.keys().iter().copied().map(IndexKey::Column).collect();
        let leads = base
            .indexes
            .iter()
            .position(|local| local.predicate.is_none() && local.keys.starts_with(&columns));
        let leads = IndexId(leads.ok_or_else(|| no_index(entries))? as u16);
        let table = table_of(&self.tables, base.id)?;
        let mut rows = table.equal(leads, keys).map_err(storage_fault)?;
        Ok(rows.next_id().is_some())
    }

    /// Whether a statement that is restricted to a key of a unique global index sees here all
    /// that there is: the row lives here, or the index's entries do and have none.
    ///
    /// # Errors
    /// As for [`Database::places_of`], and what the evaluation of the key refuses.
    pub(crate) fn answers_for(
        &self,
        lookup: &Lookup<'_>,
        parameters: &[Datum<'_>],
    ) -> Result<bool, SqlError> {
        let arena = Arena::new();
        let now_us = self.transaction.timestamp_us;
        with_keys(lookup, parameters, now_us, &arena, |keys| {
            if self.holds_key(lookup.entries, keys)? {
                return Ok(true);
            }
            let owner = self.options.ring.partition_of_values(keys.iter().copied());
            Ok(owner == self.options.partition && self.places_of(lookup.entries, keys)?.is_empty())
        })
    }

    /// The table with the rows of a table of entries, and the index.
    fn global_index(
        &self,
        entries: TableId,
    ) -> Result<(&TableDefinition, &GlobalIndexDefinition), SqlError> {
        let of = self.definition(entries).and_then(|entries| entries.entries_of.as_ref());
        let base = of.and_then(|of| self.definition(of.table));
        let base = base.ok_or_else(|| no_index(entries))?;
        let index = base.global_indexes.iter().find(|index| index.entries == entries);
        Ok((base, index.ok_or_else(|| no_index(entries))?))
    }
}

#[cold]
fn no_index(entries: TableId) -> SqlError {
    SqlError::sql(format!(
        "the global index with the entries {entries} was dropped; plan the statement again"
    ))
}
