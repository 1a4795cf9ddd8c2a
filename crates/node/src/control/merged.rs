//! One response from those of all hosts, where the rows of several belong together.

use super::rebalance::add_up;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema, TableView, Value};
use lockstep_wire_volt::Response;
use std::collections::{BTreeMap, BTreeSet};

/// The rows that all hosts have for one table.
pub(super) struct MergedTable {
    columns: Vec<(String, SqlType)>,
    rows: Vec<Vec<Value>>,
}

/// The tables of all responses, each with the rows of all, in the order of the hosts.
pub(super) fn read_tables(responses: &[Response<'_>]) -> Result<Vec<MergedTable>, String> {
    let mut merged: Vec<MergedTable> = Vec::new();
    for response in responses {
        for (number, table) in response.tables().enumerate() {
            let table = table.map_err(|error| error.to_string())?;
            if number == merged.len() {
                merged.push(MergedTable::like(&table)?);
            }
            merged[number].add(&table)?;
        }
    }
    Ok(merged)
}

impl MergedTable {
    fn like(table: &TableView<'_>) -> Result<MergedTable, String> {
        let names = table.column_names().map_err(|error| error.to_string())?;
        let types = (0..table.column_count()).map(|column| table.column_type(column));
        let columns = names.into_iter().map(str::to_string).zip(types).collect();
        Ok(MergedTable { columns, rows: Vec::new() })
    }

    fn add(&mut self, table: &TableView<'_>) -> Result<(), String> {
        if table.column_count() != self.columns.len() {
            return Err("the tables of hosts have other columns".to_string());
        }
        for row in table.rows() {
            let row = row.map_err(|error| error.to_string())?;
            let mut values = Vec::new();
            row.read_into(&mut values).map_err(|error| error.to_string())?;
            self.rows.push(values.iter().map(|value| value.to_value()).collect());
        }
        Ok(())
    }

    /// Appends the table.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let schema = TableSchema::new(&self.columns);
        let mut builder = TableBuilder::begin(out, &schema);
        for row in &self.rows {
            let values: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
            builder.row(&schema, &values);
        }
        builder.finish();
    }

    fn place(&self, name: &str) -> Result<usize, String> {
        let found = self.columns.iter().position(|(column, _)| column == name);
        found.ok_or_else(|| format!("a host's table has no column {name}"))
    }
}

fn text(row: &[Value], place: usize) -> &str {
    match &row[place] {
        Value::Text(text) => text,
        _ => "",
    }
}

fn integer(row: &[Value], place: usize) -> i64 {
    match row[place] {
        Value::Int(number) => number,
        _ => 0,
    }
}

/// What the files of all hosts say of a snapshot.
#[derive(Default)]
struct Parts {
    /// By name, so that a folder that several hosts have counts once.
    bytes: BTreeMap<String, i64>,
    partitions: BTreeSet<String>,
    partition_count: i64,
}

/// The responses to `@SnapshotScan`: a snapshot of which several hosts have parts is one, and it is
/// complete if they have those of all partitions.
pub(super) fn merge_scans(responses: &[Response<'_>], out: &mut Vec<u8>) -> Result<u16, String> {
    let mut tables = read_tables(responses)?;
    if let [found, _, files] = &mut tables[..] {
        let parts = read_parts(files)?;
        merge_found(found, &parts)?;
    }
    tables.iter().for_each(|table| table.write(out));
    Ok(tables.len() as u16)
}

/// By nonce and transaction, the parts that all hosts have.
fn read_parts(files: &MergedTable) -> Result<BTreeMap<(String, i64), Parts>, String> {
    let places = ["NAME", "TXNID", "SIZE", "PARTITIONS", "TOTAL_PARTITIONS", "READABLE"];
    let places: Result<Vec<usize>, String> =
        places.into_iter().map(|name| files.place(name)).collect();
    let [name, transaction, size, partitions, total, readable] = places?[..] else {
        unreachable!("as many places as names")
    };
    let mut all: BTreeMap<(String, i64), Parts> = BTreeMap::new();
    for row in &files.rows {
        let file = text(row, name);
        let nonce = file.split('-').next().unwrap_or_default();
        let parts = all.entry((nonce.to_string(), integer(row, transaction))).or_default();
        parts.bytes.insert(file.to_string(), integer(row, size));
        parts.partition_count = parts.partition_count.max(integer(row, total));
        if text(row, readable) == "TRUE" {
            let numbers = text(row, partitions).split(',').filter(|number| !number.is_empty());
            parts.partitions.extend(numbers.map(str::to_string));
        }
    }
    Ok(all)
}

fn merge_found(
    found: &mut MergedTable,
    parts: &BTreeMap<(String, i64), Parts>,
) -> Result<(), String> {
    let [nonce, transaction, size] =
        [found.place("NONCE")?, found.place("TXNID")?, found.place("SIZE")?];
    let [missing, incomplete, complete] = [
        found.place("TABLES_MISSING")?,
        found.place("TABLES_INCOMPLETE")?,
        found.place("COMPLETE")?,
    ];
    let mut merged: Vec<Vec<Value>> = Vec::new();
    for mut row in std::mem::take(&mut found.rows) {
        let key = (text(&row, nonce).to_string(), integer(&row, transaction));
        let is_it = |other: &&mut Vec<Value>| {
            text(other, nonce) == key.0 && integer(other, transaction) == key.1
        };
        let known = parts.get(&key);
        if let Some(known) = known {
            row[size] = Value::Int(known.bytes.values().sum());
        }
        let has_all = known.is_some_and(|known| {
            known.partition_count > 0 && known.partitions.len() as i64 == known.partition_count
        });
        if has_all {
            row[complete] = Value::Text("TRUE".into());
            [missing, incomplete].into_iter().for_each(|at| row[at] = Value::Text("".into()));
        }
        match merged.iter_mut().find(is_it) {
            Some(before) if text(&row, complete) == "TRUE" => *before = row,
            Some(_) => {}
            None => merged.push(row),
        }
    }
    found.rows = merged;
    Ok(())
}

/// The responses to `@SnapshotDelete`: that a host has no part of a snapshot is no failure where
/// another one has removed its part.
pub(super) fn merge_removed(responses: &[Response<'_>], out: &mut Vec<u8>) -> Result<u16, String> {
    let mut tables = read_tables(responses)?;
    for table in &mut tables {
        // What is wrong with the call itself is another table.
        let places = ["PATH", "NONCE", "NAME", "DELETED", "ERR_MSG"].map(|name| table.place(name));
        let [Ok(path), Ok(nonce), Ok(name), Ok(deleted), Ok(problem)] = places else { continue };
        let key = |row: &[Value]| (text(row, path).to_string(), text(row, nonce).to_string());
        let is_removed = |row: &&Vec<Value>| text(row, deleted) == "TRUE";
        let removed: BTreeSet<_> =
            table.rows.iter().filter(is_removed).map(|row| key(row)).collect();
        table.rows.retain(|row| {
            let (path, nonce) = key(row);
            let is_absent =
                text(row, name).is_empty() && text(row, problem) == no_such_snapshot(&path, &nonce);
            !(is_absent && removed.contains(&(path, nonce)))
        });
    }
    tables.iter().for_each(|table| table.write(out));
    Ok(tables.len() as u16)
}

/// The responses to `@Statistics REBALANCE`: one row for all hosts.
pub(super) fn merge_rebalance(
    responses: &[Response<'_>],
    out: &mut Vec<u8>,
) -> Result<u16, String> {
    let mut tables = read_tables(responses)?;
    for table in &mut tables {
        table.rows = add_up(&table.rows).into_iter().collect();
        table.write(out);
    }
    Ok(tables.len() as u16)
}

/// What a host says that has no part of a snapshot.
pub(super) fn no_such_snapshot(path: &str, nonce: &str) -> String {
    format!("there is no snapshot {nonce} in {path}")
}
