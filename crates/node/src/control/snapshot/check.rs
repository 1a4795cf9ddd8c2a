//! What is looked at before the first row of a snapshot is restored: all files, byte by byte, and
//! all rows against the tables that they are for. What is wrong then has changed nothing.

use super::restore::RestoredTable;
use crate::snapshot::load::saved_columns;
use lockstep_durability::snapshot::{Manifest, RowsReader, TableHead, TableKind, verify_file};
use lockstep_env::Disk;
use lockstep_plan_ir::{ColumnDefinition, TableDefinition};
use lockstep_storage::{RowsRecord, StorageError, TableLayout};
use lockstep_types::{Datum, SqlType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Looks at a snapshot whose tables are to be restored.
///
/// # Errors
/// The text for the user: a file is missing, damaged or of another snapshot, or a row does not fit
/// its table.
pub(super) fn check(
    disk: &dyn Disk,
    (folder, manifest): (&str, &Manifest),
    tables: &[RestoredTable],
) -> Result<(), String> {
    for file in &manifest.files {
        verify_file(disk, folder, file).map_err(|error| error.to_string())?;
    }
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    for partition in 0..manifest.positions.len() as u32 {
        let reader = RowsReader::open(disk, folder, manifest, partition);
        let reader = reader.map_err(|error| error.to_string())?;
        check_rows(reader, (manifest, partition), tables, &mut rows)?;
    }
    for table in &manifest.tables {
        let found = rows.get(&table.name).copied().unwrap_or(0);
        let is_restored = tables.iter().any(|restored| restored.name == table.name);
        if is_restored && found != table.rows {
            return Err(format!(
                "snapshot {}: its files have {found} rows of table {}, {} in the manifest; use \
                 another snapshot",
                manifest.nonce, table.name, table.rows
            ));
        }
    }
    Ok(())
}

/// A table of a file, and the one that takes its rows.
struct Checked<'a> {
    head: &'a TableHead,
    layout: TableLayout,
    target: Option<Arc<TableDefinition>>,
}

fn check_rows(
    mut reader: RowsReader,
    (manifest, partition): (&Manifest, u32),
    tables: &[RestoredTable],
    rows: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    let heads = reader.tables().to_vec();
    let mut checked = BTreeMap::new();
    for head in &heads {
        let Some(restored) = tables.iter().find(|table| table.name == head.name) else { continue };
        // What is replicated counts once, though old files all have it.
        let kind = manifest.tables.iter().find(|table| table.name == head.name);
        if partition > 0 && kind.is_some_and(|table| table.kind == TableKind::Replicated) {
            continue;
        }
        let target = restored.definition.clone();
        if let Some(target) = &target {
            check_columns(head, target)?;
        }
        let layout = TableLayout::new(&saved_columns(head)).map_err(|error| error.to_string())?;
        checked.insert(head.table, Checked { head, layout, target });
    }
    let mut payload = Vec::new();
    while let Some(chunk) = reader.next(&mut payload).map_err(|error| error.to_string())? {
        let mut input = &payload[..];
        loop {
            let at = payload.len() - input.len();
            let damaged = |error: StorageError| {
                reader.damaged_record(chunk, at, error.to_string()).to_string()
            };
            let Some(record) = RowsRecord::take(&mut input).map_err(damaged)? else { break };
            let Some(table) = checked.get(&record.table.0) else { continue };
            let count = table.check(&record).map_err(damaged)??;
            *rows.entry(table.head.name.clone()).or_default() += count;
        }
    }
    Ok(())
}

fn check_columns(head: &TableHead, target: &TableDefinition) -> Result<(), String> {
    let (saved, there) = (head.columns.len(), usize::from(target.visible_columns));
    if saved != there {
        return Err(format!(
            "table {} has {there} columns, {saved} in the snapshot: restore it into the schema \
             that it was saved with",
            head.name
        ));
    }
    Ok(())
}

impl Checked<'_> {
    /// Looks at the rows of a record; their number, or why one of them does not fit.
    fn check(&self, record: &RowsRecord<'_>) -> Result<Result<u64, String>, StorageError> {
        let (mut count, mut problem) = (0, None);
        record.read_rows(&self.layout, &self.head.name, |_, row| {
            count += 1;
            if let Some(target) = &self.target
                && problem.is_none()
            {
                let mut both = row.columns().zip(&target.columns);
                problem = both.find_map(|(value, column)| misfit(&value, column));
            }
            Ok::<(), StorageError>(())
        })?;
        Ok(match problem {
            None => Ok(count),
            Some(problem) => Err(format!(
                "table {}: {problem}; restore it into the schema that it was saved with",
                self.head.name
            )),
        })
    }
}

/// Why a column does not take a value. What is converted is looked at when it is loaded.
fn misfit(value: &Datum<'_>, column: &ColumnDefinition) -> Option<String> {
    let name = &column.name;
    let range = match column.sql_type {
        SqlType::TinyInt => i64::from(i8::MAX),
        SqlType::SmallInt => i64::from(i16::MAX),
        SqlType::Integer => i64::from(i32::MAX),
        _ => i64::MAX,
    };
    let too_long = |length: usize| {
        (length > column.length as usize)
            .then(|| format!("a value of length {length} in column {name} ({})", column.length))
    };
    match (value, column.sql_type) {
        (Datum::Null, _) if !column.nullable => Some(format!("a NULL in column {name}, NOT NULL")),
        (Datum::Int(number), SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer) => {
            let fits = (-range..=range).contains(number);
            (!fits).then(|| format!("the value {number} in column {name} is out of its range"))
        }
        (Datum::Text(text), SqlType::Varchar) if column.length_in_bytes => too_long(text.len()),
        (Datum::Text(text), SqlType::Varchar) => too_long(text.chars().count()),
        (Datum::Bytes(bytes), SqlType::Varbinary) => too_long(bytes.len()),
        _ => None,
    }
}
