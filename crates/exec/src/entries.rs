//! Entries of global indexes: changing them (see `change/entries.rs`), and holding all of them
//! against the rows.

pub use crate::change::{PartitionEntries, apply_entries, apply_known_entry};

use crate::change::partition_of_key;
use crate::database::Database;
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_types::Datum;
use lockstep_types::table::write_datum;
use std::collections::BTreeMap;

/// Entries, encoded, with the number of rows that each stands for, and how they read.
type Counted = BTreeMap<Vec<u8>, (i64, String)>;

/// Holds the entries of all global indexes against the rows of their tables, where nothing is
/// in progress. `partitions` are all partitions, in order. For tests: it reads everything.
///
/// # Errors
/// The first difference: an entry without its rows, rows without their entry, an entry at another
/// partition than its key's, or a key of a unique index that two rows have.
pub fn check_entries(partitions: &[&Database]) -> Result<(), String> {
    let Some(first) = partitions.first() else { return Ok(()) };
    let tables = first.states.iter().flatten().map(|state| &state.definition);
    for table in tables {
        for index in &table.global_indexes {
            let expected = entries_of_rows(partitions, table, index)?;
            let found = entries_held(partitions, table, index)?;
            if let Some(difference) = difference(&expected, &found) {
                return Err(format!("global index {} of {}: {difference}", index.name, table.name));
            }
        }
    }
    Ok(())
}

fn encoded(table: &TableDefinition, index: &GlobalIndexDefinition, entry: &[Datum<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (column, value) in index.columns.iter().zip(entry) {
        write_datum(&mut bytes, table.columns[usize::from(*column)].sql_type, *value);
    }
    bytes
}

fn text(entry: &[Datum<'_>]) -> String {
    let values: Vec<String> = entry.iter().map(Datum::to_string).collect();
    format!("({})", values.join(", "))
}

fn entries_of_rows(
    partitions: &[&Database],
    table: &TableDefinition,
    index: &GlobalIndexDefinition,
) -> Result<Counted, String> {
    let mut counted = Counted::new();
    let mut keys: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    for database in partitions {
        let rows = database.tables.get(table.id).ok_or("the table is not at all partitions")?;
        for (id, row) in rows.scan() {
            if index.building && !rows.is_covered(id) {
                continue;
            }
            let entry: Vec<Datum<'_>> =
                index.columns.iter().map(|column| row.column(usize::from(*column))).collect();
            let shown = text(&entry);
            let key = encoded(table, index, &entry[..usize::from(index.key_count)]);
            if index.unique
                && let Some(other) = keys.insert(key, shown.clone())
            {
                return Err(format!("{} is unique, and has {other} and {shown}", index.name));
            }
            let bytes = encoded(table, index, &entry);
            counted.entry(bytes).or_insert_with(|| (0, shown)).0 += 1;
        }
    }
    Ok(counted)
}

fn entries_held(
    partitions: &[&Database],
    table: &TableDefinition,
    index: &GlobalIndexDefinition,
) -> Result<Counted, String> {
    let mut counted = Counted::new();
    for database in partitions {
        let held = database.tables.get(index.entries).ok_or("the entries are not everywhere")?;
        for (_, row) in held.scan() {
            let entry: Vec<Datum<'_>> = (0..index.columns.len()).map(|at| row.column(at)).collect();
            let key = &entry[..usize::from(index.key_count)];
            let options = database.options();
            let owner = partition_of_key(&options.ring, key);
            if owner != options.partition {
                let (shown, here) = (text(&entry), options.partition);
                return Err(format!("the entry {shown} is at partition {here}, not at {owner}"));
            }
            let rows = match index.rows_column().map(|column| row.column(usize::from(column))) {
                Some(Datum::Int(rows)) => rows,
                Some(other) => return Err(format!("an entry counts {other} rows")),
                None => 1,
            };
            let bytes = encoded(table, index, &entry);
            counted.entry(bytes).or_insert_with(|| (0, text(&entry))).0 += rows;
        }
    }
    Ok(counted)
}

fn difference(expected: &Counted, found: &Counted) -> Option<String> {
    for (bytes, (rows, shown)) in expected {
        let held = found.get(bytes).map_or(0, |(held, _)| *held);
        if held != *rows {
            return Some(format!("{rows} rows have {shown}, the entries say {held}"));
        }
    }
    let (_, (held, shown)) = found.iter().find(|(bytes, _)| !expected.contains_key(*bytes))?;
    Some(format!("no row has {shown}, the entries say {held}"))
}
