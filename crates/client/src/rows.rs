//! Owned values of result tables, for tools and tests; the fast path reads tables in place.

use crate::{ClientError, Response};
use lockstep_types::table::DecodeError;
use lockstep_types::{SqlType, TableView, Value};

/// A result table with everything in it owned.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Column names.
    pub names: Vec<String>,
    /// Column types.
    pub types: Vec<SqlType>,
    /// The rows, in the server's order.
    pub rows: Vec<Vec<Value>>,
}

/// The rows of one table.
pub fn rows(table: &TableView<'_>) -> Result<Vec<Vec<Value>>, DecodeError> {
    let mut row_values = Vec::with_capacity(table.column_count());
    let mut rows = Vec::new();
    for row in table.rows() {
        row_values.clear();
        row?.read_into(&mut row_values)?;
        rows.push(row_values.iter().map(|value| value.to_value()).collect());
    }
    Ok(rows)
}

/// One table.
pub fn table(view: &TableView<'_>) -> Result<Table, DecodeError> {
    let names = view.column_names()?.into_iter().map(str::to_string).collect();
    let types = (0..view.column_count()).map(|column| view.column_type(column)).collect();
    Ok(Table { names, types, rows: rows(view)? })
}

/// All tables of a response. A status other than success is an error, as are bad bytes.
pub fn tables(response: &Response<'_>) -> Result<Vec<Table>, ClientError> {
    check(response)?;
    let bad = |error: DecodeError| ClientError::Protocol(error.to_string());
    response.tables().map(|view| view.and_then(|view| table(&view)).map_err(bad)).collect()
}

/// Fails unless the call did its work.
pub fn check(response: &Response<'_>) -> Result<(), ClientError> {
    if response.is_success() {
        return Ok(());
    }
    let text = response.status_text.unwrap_or_default().to_string();
    Err(ClientError::Refused { status: response.status, text })
}
