//! What answers say: the lists that a transaction saw, and whether an index is its table's.

use super::{Form, Transaction};
use crate::walk::{SHARED, Step};
use lockstep_base::bytes::ByteReader;
use lockstep_types::{Datum, TableView};

/// The rows of a table and the entries of its index are the same, and each key is there once,
/// added ones after the others. Gives what is after these tables.
pub(super) fn same_keys(tables: &[u8], keys: i64) -> Result<&[u8], String> {
    let mut reader = ByteReader::new(tables);
    let mut read = || -> Result<Vec<(i64, i64)>, String> {
        let table = TableView::read(&mut reader).map_err(|error| error.to_string())?;
        let mut pairs = Vec::new();
        for row in table.rows() {
            let mut values = Vec::new();
            row.and_then(|row| row.read_into(&mut values)).map_err(|error| error.to_string())?;
            let [Datum::Int(key), Datum::Int(id), ..] = values.as_slice() else {
                return Err(format!("{values:?}"));
            };
            pairs.push((*key, *id));
        }
        Ok(pairs)
    };
    let (rows, entries) = (read()?, read()?);
    let (first, added) = rows.split_at(rows.len().min(keys as usize));
    let all = first.iter().map(|(key, _)| *key).eq(0..keys);
    let sound = added.is_sorted_by(|a, b| a.0 < b.0) && added.iter().all(|(key, _)| *key >= keys);
    match rows == entries && all && sound {
        true => Ok(reader.rest()),
        false => Err(format!("the table has {rows:?}, its index {entries:?}")),
    }
}

/// The values that a transaction appends, if it commits.
pub(super) fn values(steps: &[Step]) -> Vec<i64> {
    let value = |step: &Step| match *step {
        Step::Append(_, value) | Step::Hop(_, value) | Step::AppendShared(value) => Some(value),
        _ => None,
    };
    steps.iter().filter_map(value).collect()
}

/// What the reads of a transaction saw: a table for each statement, or a procedure's own.
pub(super) fn reads(transaction: &Transaction, tables: &[u8]) -> Vec<(i64, Vec<i64>)> {
    let mut reads = Vec::new();
    let mut reader = ByteReader::new(tables);
    if matches!(transaction.form, Form::AdHoc | Form::OneRound(_)) {
        for step in &transaction.steps {
            let Ok(table) = TableView::read(&mut reader) else { break };
            match step {
                Step::Read(key) => reads.push((*key, items(&table))),
                Step::ReadShared => reads.push((SHARED, items(&table))),
                _ => {}
            }
        }
        return reads;
    }
    let Ok(table) = TableView::read(&mut reader) else { return reads };
    for row in table.rows().flatten() {
        let mut values = Vec::new();
        let _ = row.read_into(&mut values);
        if let [Datum::Int(key), Datum::Int(0), Datum::Text(text)] = values.as_slice() {
            reads.push((*key, parse(text)));
        }
    }
    reads
}

fn parse(text: &str) -> Vec<i64> {
    text.split(',').filter_map(|item| item.parse().ok()).collect()
}

/// The numbers of the list in a table of one row and column.
pub(crate) fn items(table: &TableView<'_>) -> Vec<i64> {
    let mut values = Vec::new();
    if let Some(Ok(row)) = table.rows().next() {
        let _ = row.read_into(&mut values);
    }
    match values.first() {
        Some(Datum::Text(text)) => parse(text),
        _ => Vec::new(),
    }
}
