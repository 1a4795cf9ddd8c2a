//! Entries of global indexes: what a change of rows means for them, and carrying it out.
//!
//! A changed row's entries live at the partitions of their keys, mostly elsewhere. So changes of
//! rows here are *collected* as entries to be removed and added ([`EntryChanges`]), to be carried
//! out where they belong by [`apply_entries`] before the transaction ends. With one partition that
//! is here, at the end of each statement. All removals of a statement go before its additions: a
//! key may move from one row to another within it.

use super::{TableState, Writer, fault};
use crate::context::{Context, NoSubqueries};
use crate::convert::assign;
use crate::database::{Database, storage_fault};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use crate::statement::PreparedStatement;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_storage::{RowId, Tables};
use lockstep_types::table::{read_datum, write_datum};
use lockstep_types::{Datum, HashRing, IndexId, PartitionId, TableId};
use std::collections::BTreeMap;

/// The entries' index over their key, or over all their columns but the number of rows.
const ENTRY_KEY: IndexId = IndexId(0);

/// What changes of entries are to the digest of changes, in place of a statement.
const ENTRIES: u64 = u64::from_be_bytes(*b"_entries");

/// What a statement removes from and adds to the entries at one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEntries {
    /// Where the entries live.
    pub partition: PartitionId,
    /// To be removed, first of all.
    pub removed: Vec<u8>,
    /// To be added.
    pub added: Vec<u8>,
}

/// Entry changes that were collected and not carried out.
#[derive(Default)]
pub(crate) struct EntryChanges {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Inserts and truncations of the statement that runs collect nothing: their entries were
    /// sent to where they belong beside it.
    pub(crate) known: bool,
}

#[derive(Clone, Copy)]
struct Record {
    partition: PartitionId,
    added: bool,
    start: usize,
    end: usize,
}

/// Memory for collected changes that is kept.
const KEPT_BYTES: usize = 1 << 16;

impl EntryChanges {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all of them.
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// How many there are, to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.records.len()
    }

    /// Forgets what came after a mark.
    pub(crate) fn truncate(&mut self, mark: usize) {
        self.records.truncate(mark);
        self.bytes.truncate(self.records.last().map_or(0, |record| record.end));
    }

    /// What is to be done where, without what takes itself back; and nothing is left.
    pub(crate) fn take(&mut self) -> Vec<PartitionEntries> {
        let records = std::mem::take(&mut self.records);
        let bytes = std::mem::take(&mut self.bytes);
        let kept = without_cancelled(&records, &bytes);
        let mut changes: BTreeMap<PartitionId, PartitionEntries> = BTreeMap::new();
        for record in kept {
            let partition = record.partition;
            let entries = changes.entry(partition).or_insert_with(|| PartitionEntries {
                partition,
                removed: Vec::new(),
                added: Vec::new(),
            });
            let list = if record.added { &mut entries.added } else { &mut entries.removed };
            list.extend_from_slice(&bytes[record.start..record.end]);
        }
        if bytes.capacity() <= KEPT_BYTES {
            self.bytes = bytes;
            self.bytes.clear();
            self.records = records;
            self.records.clear();
        }
        changes.into_values().collect()
    }
}

/// The records without pairs of an entry that is both removed and added.
fn without_cancelled(records: &[Record], bytes: &[u8]) -> Vec<Record> {
    let value = |record: &Record| &bytes[record.start..record.end];
    let mut added: BTreeMap<&[u8], usize> = BTreeMap::new();
    if records.iter().any(|record| !record.added) {
        for record in records.iter().filter(|record| record.added) {
            *added.entry(value(record)).or_default() += 1;
        }
    }
    if added.is_empty() {
        return records.to_vec();
    }
    let mut cancelled: BTreeMap<&[u8], usize> = BTreeMap::new();
    let mut kept = Vec::with_capacity(records.len());
    for record in records.iter().filter(|record| !record.added) {
        match added.get_mut(value(record)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                *cancelled.entry(value(record)).or_default() += 1;
            }
            _ => kept.push(*record),
        }
    }
    for record in records.iter().filter(|record| record.added) {
        match cancelled.get_mut(value(record)) {
            Some(count) if *count > 0 => *count -= 1,
            _ => kept.push(*record),
        }
    }
    kept
}

/// The partition where the entries of a key live.
pub(crate) fn partition_of_key(ring: &HashRing, key: &[Datum<'_>]) -> PartitionId {
    ring.partition_of_values(key.iter().copied())
}

impl<'w> Writer<'w> {
    /// A row with these values was inserted.
    pub(super) fn entries_of_inserted(
        &mut self,
        state: &TableState,
        row: RowId,
        values: &[Datum<'_>],
    ) -> Result<(), SqlError> {
        if self.entries.known {
            return Ok(());
        }
        let definition = &*state.definition;
        for index in &definition.global_indexes {
            if index.building && !is_covered(self.tables, definition, row) {
                continue;
            }
            let entry: Vec<Datum<'_>> =
                index.columns.iter().map(|column| values[usize::from(*column)]).collect();
            self.collect_entry(definition, index, &entry, true)?;
        }
        Ok(())
    }

    /// A stored row goes, as far as the indexes are concerned that read one of `changed`; all of
    /// them without. Or it has come.
    pub(super) fn entries_of_row(
        &mut self,
        state: &TableState,
        row: RowId,
        changed: Option<&[(usize, Datum<'_>)]>,
        added: bool,
    ) -> Result<(), SqlError> {
        let definition = &*state.definition;
        let tables = &*self.tables;
        let stored = tables.get(definition.id).and_then(|table| table.row(row));
        let Some(stored) = stored else {
            return Err(crate::database::no_such_table(definition.id));
        };
        for index in &definition.global_indexes {
            let reads = |(column, _): &(usize, Datum<'_>)| {
                index.columns.iter().any(|held| usize::from(*held) == *column)
            };
            if changed.is_some_and(|changed| !changed.iter().any(reads)) {
                continue;
            }
            if index.building && !is_covered(tables, definition, row) {
                continue;
            }
            let entry: Vec<Datum<'_>> =
                index.columns.iter().map(|column| stored.column(usize::from(*column))).collect();
            collect_entry(self.entries, self.options, definition, index, &entry, added)?;
        }
        Ok(())
    }

    fn collect_entry(
        &mut self,
        table: &TableDefinition,
        index: &GlobalIndexDefinition,
        entry: &[Datum<'_>],
        added: bool,
    ) -> Result<(), SqlError> {
        collect_entry(self.entries, self.options, table, index, entry, added)
    }

    /// Carries out changes of entries that live here.
    pub(crate) fn apply_entries(&mut self, removed: &[u8], added: &[u8]) -> Result<(), SqlError> {
        for (bytes, adds) in [(removed, false), (added, true)] {
            let mut reader = ByteReader::new(bytes);
            let mut values: Vec<Datum<'_>> = Vec::new();
            while !reader.rest().is_empty() {
                let table = TableId(reader.i32().map_err(damaged)? as u32);
                let state = self.state(table)?;
                values.clear();
                for column in &state.definition.columns[..held_columns(&state.definition)?] {
                    values.push(read_datum(&mut reader, column.sql_type).map_err(damaged)?);
                }
                match adds {
                    true => {
                        values.push(Datum::Int(1));
                        self.add_entry(state, &mut values)?;
                    }
                    false => self.remove_entry(state, &values)?,
                }
            }
        }
        Ok(())
    }

    /// Adds an entry, or counts one row more in it. `values` are those of the entry, and
    /// after them a one, which is the number of rows in an index that is not unique.
    fn add_entry<'v>(
        &mut self,
        state: &'w TableState,
        values: &mut [Datum<'v>],
    ) -> Result<(), SqlError>
    where
        'w: 'v,
    {
        let definition = &*state.definition;
        let unique = definition.entries_of.as_ref().is_some_and(|of| of.unique);
        let held = values.len().saturating_sub(1);
        let entry = &mut values[..held];
        if unique {
            return self.insert(state, entry).map(drop);
        }
        for (value, column) in entry.iter_mut().zip(&definition.columns) {
            *value = assign(self.arena, *value, column)?;
        }
        if let Some((row, rows)) = self.find_entry(state, entry)? {
            return self.update(state, row, &mut [(held, Datum::Int(rows + 1))]);
        }
        self.insert(state, values).map(drop)
    }

    /// Removes an entry, or counts one row less in it.
    fn remove_entry(
        &mut self,
        state: &'w TableState,
        values: &[Datum<'_>],
    ) -> Result<(), SqlError> {
        let definition = &*state.definition;
        let unique = definition.entries_of.as_ref().is_some_and(|of| of.unique);
        match self.find_entry(state, values)? {
            None => Err(fault::missing_entry(definition, values)),
            Some((row, rows)) if !unique && rows > 1 => {
                self.update(state, row, &mut [(values.len(), Datum::Int(rows - 1))])
            }
            Some((row, _)) => self.delete(state, row),
        }
    }

    /// The entry with these values and its number of rows.
    fn find_entry(
        &self,
        state: &TableState,
        values: &[Datum<'_>],
    ) -> Result<Option<(RowId, i64)>, SqlError> {
        let definition = &*state.definition;
        let Some(table) = self.tables.get(definition.id) else {
            return Err(crate::database::no_such_table(definition.id));
        };
        let key_count = definition.indexes.first().map_or(0, |index| index.keys.len());
        let found = table.get(ENTRY_KEY, &values[..key_count]).map_err(storage_fault)?;
        let Some((row, entry)) = found else { return Ok(None) };
        if !values.iter().enumerate().all(|(place, value)| entry.column(place) == *value) {
            return Ok(None);
        }
        let rows = match values.len() < definition.columns.len() {
            true => entry.column(values.len()),
            false => Datum::Int(1),
        };
        match rows {
            Datum::Int(rows) if rows > 0 => Ok(Some((row, rows))),
            _ => Err(fault::missing_entry(definition, values)),
        }
    }
}

/// Whether the index that is being built has an entry for a row.
fn is_covered(tables: &Tables, definition: &TableDefinition, row: RowId) -> bool {
    tables.get(definition.id).is_some_and(|table| table.is_covered(row))
}

/// Notes an entry that is to be added or removed where it lives.
pub(crate) fn collect_entry(
    entries: &mut EntryChanges,
    options: &crate::database::DatabaseOptions,
    table: &TableDefinition,
    index: &GlobalIndexDefinition,
    entry: &[Datum<'_>],
    added: bool,
) -> Result<(), SqlError> {
    let start = entries.bytes.len();
    entries.bytes.put_i32(index.entries.0 as i32);
    for (column, value) in index.columns.iter().zip(entry) {
        write_datum(&mut entries.bytes, table.columns[usize::from(*column)].sql_type, *value);
    }
    let partition = partition_of_key(&options.ring, &entry[..usize::from(index.key_count)]);
    let end = entries.bytes.len();
    entries.records.push(Record { partition, added, start, end });
    let limit = options.entry_changes_limit_bytes;
    if end > limit {
        return Err(fault::too_many_entries(table, index, entries.records.len(), limit));
    }
    Ok(())
}

/// How many columns of an entries table come from the rows.
fn held_columns(entries: &TableDefinition) -> Result<usize, SqlError> {
    let Some(of) = &entries.entries_of else {
        return Err(SqlError::sql(format!("{} holds no entries of an index", entries.name)));
    };
    Ok(entries.columns.len() - usize::from(!of.unique))
}

#[cold]
fn damaged(error: impl std::fmt::Display) -> SqlError {
    SqlError::sql(format!("changes of index entries are damaged: {error}"))
}

/// Carries out changes of entries at this partition, as a statement of its own.
///
/// # Errors
/// A key that a unique index has already; an entry that is not there. The data is then as it was.
pub fn apply_entries(
    database: &mut Database,
    removed: &[u8],
    added: &[u8],
) -> Result<(), SqlError> {
    database.begin_statement();
    let mark = database.mark();
    let (mut writer, _) = database.writer();
    let result = writer.apply_entries(removed, added);
    match result {
        Ok(()) => database.note_bytes(mark, ENTRIES, &[removed, added]),
        Err(_) => database.rollback_to(mark),
    }
    result
}

/// Carries out one of the entry changes that a statement's plan knows ([`IndexUpkeep::Known`]),
/// at the partition that it belongs to.
///
/// # Errors
/// As for [`apply_entries`], and what evaluation refuses.
pub fn apply_known_entry(
    database: &mut Database,
    prepared: &PreparedStatement,
    number: usize,
    parameters: &[Datum<'_>],
) -> Result<(), SqlError> {
    let statement = prepared.statement();
    crate::statement::check_start(database, statement, parameters)?;
    let none = || SqlError::sql(format!("the statement has no index entry {number}"));
    database.begin_statement();
    let mark = database.mark();
    let result = match &statement.upkeep {
        IndexUpkeep::Known(entries) => {
            let known = entries.get(number).ok_or_else(none)?;
            let (mut writer, _) = database.writer();
            let arena = writer.arena;
            let now_us = writer.transaction.timestamp_us;
            let context = Context { parameters, arena, now_us, subqueries: &NoSubqueries };
            let frame = Frame::new(arena, 0);
            let values = arena.fill(known.values.len() + 1, Datum::Int(1));
            for (place, value) in values.iter_mut().zip(&known.values) {
                *place = evaluate(value, &context, &frame)?;
            }
            let state = writer.state(known.entries)?;
            writer.add_entry(state, values)
        }
        IndexUpkeep::Truncated(tables) => {
            let table = *tables.get(number).ok_or_else(none)?;
            let (mut writer, _) = database.writer();
            let state = writer.state(table)?;
            writer.truncate(state).map(drop)
        }
        _ => Err(none()),
    };
    match result {
        Ok(()) => database.note_changes(mark, prepared, parameters),
        Err(_) => database.rollback_to(mark),
    }
    result
}

impl Database {
    /// A part of a statement of a multi-partition transaction begins. `home` says, for those of a
    /// single-partition procedure, whether the call addresses the partition itself. With
    /// `entries_known` the statement's entries are changed beside it.
    pub fn begin_task(&mut self, home: Option<bool>, entries_known: bool) {
        self.transaction.single_partition = home.is_some();
        self.transaction.addresses_partition = home.unwrap_or(true);
        self.entries.known = entries_known && self.options.ring.partition_count() > 1;
    }

    /// What [`Database::begin_task`] said holds no longer.
    pub fn end_task(&mut self) {
        self.transaction.single_partition = false;
        self.transaction.addresses_partition = true;
        self.entries.known = false;
    }

    /// Entry changes of the statements since this was last asked, to be carried out elsewhere.
    pub fn take_entry_changes(&mut self) -> Vec<PartitionEntries> {
        match self.entries.is_empty() {
            true => Vec::new(),
            false => self.entries.take(),
        }
    }

    /// True if entry changes wait to be carried out elsewhere.
    #[inline]
    pub fn has_entry_changes(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The statement has run: with one partition, its entry changes are carried out here.
    #[cold]
    pub(crate) fn settle_entries(&mut self) -> Result<(), SqlError> {
        if self.options.ring.partition_count() > 1 {
            return Ok(());
        }
        let changes = self.entries.take();
        let (mut writer, _) = self.writer();
        changes
            .iter()
            .try_for_each(|entries| writer.apply_entries(&entries.removed, &entries.added))
    }
}
