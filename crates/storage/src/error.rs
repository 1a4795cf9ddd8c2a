//! What can go wrong when rows are stored: values that a transaction gets as its result.

use crate::row::RowId;
use lockstep_types::SqlType;
use std::fmt;

/// Why storage refused an operation. Nothing has changed when one of these is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageError {
    /// A unique index already has the key; `existing` is the row that holds it.
    UniqueViolation {
        /// Name of the table.
        table: Box<str>,
        /// Name of the unique index.
        index: Box<str>,
        /// Position of the index in its table.
        position: usize,
        /// The live row with the same key.
        existing: RowId,
    },
    /// NULL for a column that is NOT NULL.
    NotNull {
        /// Name of the table.
        table: Box<str>,
        /// Position of the column.
        column: usize,
    },
    /// A text or byte value that is longer than its column allows.
    ValueTooLong {
        /// Name of the table.
        table: Box<str>,
        /// Position of the column.
        column: usize,
        /// Length of the value in bytes.
        length: usize,
        /// Greatest length of the column in bytes.
        limit: usize,
    },
    /// A number outside the range of its column's type (the NULL sentinel included).
    OutOfRange {
        /// Name of the table.
        table: Box<str>,
        /// Position of the column.
        column: usize,
        /// The column's type.
        sql_type: SqlType,
    },
    /// A value of a kind that the column (or key part) cannot hold.
    TypeMismatch {
        /// Name of the table or index.
        place: Box<str>,
        /// Position of the column or key part.
        column: usize,
        /// The type of the column or key part.
        expected: SqlType,
    },
    /// A row with another number of values than the table has columns.
    ColumnCount {
        /// Name of the table.
        table: Box<str>,
        /// Columns of the table.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// A column position that the table does not have.
    NoSuchColumn {
        /// Name of the table.
        table: Box<str>,
        /// The position.
        column: usize,
    },
    /// An index position that the table does not have.
    NoSuchIndex {
        /// Name of the table.
        table: Box<str>,
        /// The position.
        position: usize,
    },
    /// The row is not live (deleted, or never existed).
    NoSuchRow {
        /// Name of the table.
        table: Box<str>,
        /// The row.
        row: RowId,
    },
    /// A key with more parts than the index, or, for a unique lookup, fewer.
    KeyParts {
        /// Name of the index.
        index: Box<str>,
        /// Parts of the index.
        expected: usize,
        /// Parts given.
        given: usize,
    },
    /// The table has used every row id; delete rows or split the table over more partitions.
    RowIdsExhausted {
        /// Name of the table.
        table: Box<str>,
    },
    /// The table's columns do not fit into one slot.
    RowTooWide {
        /// Bytes that a slot would take.
        bytes: usize,
        /// Greatest bytes of a slot.
        limit: usize,
    },
    /// More indexes than a table can have.
    TooManyIndexes {
        /// Name of the table.
        table: Box<str>,
        /// Greatest number of indexes.
        limit: usize,
    },
    /// A type that no column can have.
    UnsupportedType {
        /// Position of the column.
        column: usize,
        /// The type.
        sql_type: SqlType,
    },
    /// The transactions that may still be undone changed more than the undo limit allows.
    UndoLimit {
        /// The limit in bytes.
        limit: u64,
    },
    /// A record of a snapshot that no snapshot of this table has.
    BadRecord {
        /// Name of the table, if it is known.
        table: Box<str>,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// The expression of a computed index failed for a row; the text is the evaluator's.
    KeyExpression {
        /// What failed.
        message: Box<str>,
    },
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use StorageError as E;
        match self {
            E::UniqueViolation { table, index, existing, .. } => {
                write!(f, "table {table}: index {index} is unique; row {existing} has this key")
            }
            E::NotNull { table, column } => {
                write!(f, "table {table}: column {column} is NOT NULL")
            }
            E::ValueTooLong { table, column, length, limit } => {
                write!(f, "table {table}: column {column} holds {limit} bytes, not {length}")
            }
            E::OutOfRange { table, column, sql_type } => {
                write!(f, "table {table}: column {column}: value is out of range for {sql_type}")
            }
            E::TypeMismatch { place, column, expected } => {
                write!(f, "{place}: part {column} takes values of type {expected}")
            }
            E::ColumnCount { table, expected, given } => {
                write!(f, "table {table} has {expected} columns, the row {given} values")
            }
            E::NoSuchColumn { table, column } => write!(f, "table {table} has no column {column}"),
            E::NoSuchIndex { table, position } => {
                write!(f, "table {table} has no index {position}")
            }
            E::NoSuchRow { table, row } => write!(f, "table {table} has no row {row}"),
            E::KeyParts { index, expected, given } => {
                write!(f, "index {index} has {expected} key parts, the key {given}")
            }
            E::RowIdsExhausted { table } => {
                write!(f, "table {table} has used all row ids of this partition")
            }
            E::RowTooWide { bytes, limit } => {
                write!(f, "a row takes {bytes} bytes, the limit is {limit}")
            }
            E::TooManyIndexes { table, limit } => {
                write!(f, "table {table} has {limit} indexes, the most a table can have")
            }
            E::UnsupportedType { column, sql_type } => {
                write!(f, "column {column}: no column can have type {sql_type}")
            }
            E::UndoLimit { limit } => {
                write!(
                    f,
                    "open transactions changed more than the undo limit of {limit} bytes \
                     (option max_undo_bytes)"
                )
            }
            E::BadRecord { table, reason } => {
                write!(f, "a record of table {table} is damaged: {reason}")
            }
            E::KeyExpression { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for StorageError {}
