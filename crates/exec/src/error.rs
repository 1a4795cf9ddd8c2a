//! How the execution of a statement fails: a SQLSTATE, VoltDB's wording, and what kind of failure
//! the client is told of.
//!
//! A [`SqlError`] is one pointer, so that `Result<Datum, SqlError>` is as cheap as the datum;
//! making one is cold.

use crate::watch::{LimitSource, Overdue, Stop};
use lockstep_types::{Failure, SqlType, Status};
use std::fmt;

/// The SQLSTATE of a failure: five characters.
pub type SqlState = &'static str;

/// The SQLSTATEs that execution uses.
pub mod state {
    use super::SqlState;

    /// Division by zero.
    pub const DIVISION_BY_ZERO: SqlState = "22012";
    /// A number is out of its type's range.
    pub const OUT_OF_RANGE: SqlState = "22003";
    /// Text or bytes are longer than their column.
    pub const TOO_LONG: SqlState = "22001";
    /// A value cannot be converted.
    pub const BAD_CAST: SqlState = "22018";
    /// A function does not take this argument.
    pub const INVALID_PARAMETER: SqlState = "22023";
    /// A value is of a type that is not taken here.
    pub const TYPE_MISMATCH: SqlState = "2200G";
    /// A constraint of a table.
    pub const CONSTRAINT: SqlState = "23000";
    /// A subquery gave more rows than may be.
    pub const CARDINALITY: SqlState = "21000";
    /// The memory of one statement is used up.
    pub const TEMPORARY_MEMORY: SqlState = "V0002";
    /// The result is too large.
    pub const RESULT_TOO_LARGE: SqlState = "V0001";
    /// The statement's time was over.
    pub const STOPPED: SqlState = "57014";
    /// A function of users failed.
    pub const USER_FUNCTION: SqlState = "V0004";
    /// A failure that the statement asked for.
    pub const RAISED: SqlState = "99999";
}

/// What the client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value, conversion or function: `VOLTDB ERROR: SQL ERROR`, status -2.
    Sql,
    /// A constraint: `VOLTDB ERROR: CONSTRAINT VIOLATION`, status -2.
    Constraint,
    /// A limit on memory, rows or size: a SQL error with status -2.
    Limit,
    /// The statement breaks a rule that only its execution can check (a scalar subquery with
    /// several rows): status -3, as VoltDB reports it.
    Unexpected,
    /// The statement cannot run as it was called: status -2, the message alone.
    Statement,
    /// An abort by the procedure: status -1.
    UserAbort,
    /// A schema change that the data does not allow: status -2, worded as an abort.
    SchemaChange,
}

/// The constraint that was violated, with VoltDB's name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A primary key, unique index or constraint.
    Unique,
    /// NOT NULL.
    NotNull,
    /// A row in a partition where it does not belong.
    Partitioning,
    /// LIMIT PARTITION ROWS.
    RowLimit,
}

impl ConstraintKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ConstraintKind::Unique => "UNIQUE",
            ConstraintKind::NotNull => "NOT_NULL",
            ConstraintKind::Partitioning => "PARTITIONING",
            ConstraintKind::RowLimit => "LIMIT",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    state: SqlState,
    message: String,
    /// The constraint that was violated.
    violated: Option<ConstraintKind>,
}

/// Why a statement failed. Deterministic: it follows from the data and the call, but for
/// [`SqlError::stopped`], which only a host's timeout makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError(Box<Details>);

const _: () = assert!(size_of::<Result<lockstep_types::Datum<'_>, SqlError>>() == 24);

impl SqlError {
    /// A failure of any kind.
    #[cold]
    pub fn new(kind: ErrorKind, state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Details { kind, state, message: message.into(), violated: None }))
    }

    /// A SQL error.
    #[cold]
    pub fn coded(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError::new(ErrorKind::Sql, state, message)
    }

    /// A SQL error without a SQLSTATE of its own.
    #[cold]
    pub fn sql(message: impl Into<String>) -> SqlError {
        SqlError::coded(state::TYPE_MISMATCH, message)
    }

    /// An argument that a function does not take.
    #[cold]
    pub fn argument(message: impl Into<String>) -> SqlError {
        SqlError::coded(state::INVALID_PARAMETER, message)
    }

    /// A number out of range.
    #[cold]
    pub fn out_of_range(message: impl Into<String>) -> SqlError {
        SqlError::coded(state::OUT_OF_RANGE, message)
    }

    /// A limit that was reached.
    #[cold]
    pub fn limit(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError::new(ErrorKind::Limit, state, message)
    }

    /// A violated constraint; `tuples` are the rows at fault as text (see [`TupleText`]).
    #[cold]
    pub fn constraint(kind: ConstraintKind, table: &str, tuples: &str) -> SqlError {
        let message = match kind {
            ConstraintKind::Partitioning => {
                "Mispartitioned tuple in single-partition insert statement."
            }
            _ => "Attempted violation of constraint",
        };
        SqlError::constraint_with_message(message, kind, table, tuples)
    }

    /// A violated constraint with a message of its own in front.
    #[cold]
    pub fn constraint_with_message(
        message: &str,
        kind: ConstraintKind,
        table: &str,
        tuples: &str,
    ) -> SqlError {
        let name = kind.name();
        let message = format!(
            "{message}\nConstraint Type {name}, Table CatalogId {table}\nRelevant Tuples:\n{tuples}"
        );
        let mut error = SqlError::new(ErrorKind::Constraint, state::CONSTRAINT, message);
        error.0.violated = Some(kind);
        error
    }

    /// The constraint that was violated, if that is what failed.
    pub fn violated(&self) -> Option<ConstraintKind> {
        self.0.violated
    }

    /// An UPDATE that would move a row to another partition.
    #[cold]
    pub fn partition_column_changed(table: &str, tuples: &str) -> SqlError {
        let message = "An update to a partitioning column triggered a partitioning error. \
                       Updating a partitioning column is not supported. Try delete followed by \
                       insert.";
        let kind = ConstraintKind::Partitioning;
        SqlError::constraint_with_message(message, kind, table, tuples)
    }

    /// A number that the target type cannot hold; `value` as VoltDB shows it.
    #[cold]
    pub fn cast_out_of_range(from: SqlType, value: impl fmt::Display, to: SqlType) -> SqlError {
        SqlError::out_of_range(format!(
            "Type {from} with value {value} can't be cast as {to} because the value is out of \
             range for the destination type"
        ))
    }

    /// Types between which there is no conversion.
    #[cold]
    pub fn cannot_cast(from: SqlType, to: SqlType) -> SqlError {
        SqlError::coded(state::BAD_CAST, format!("Type {from} can't be cast as {to}"))
    }

    /// A scalar subquery with several rows.
    #[cold]
    pub fn several_rows() -> SqlError {
        let message = "More than one row returned by a scalar/row subquery";
        SqlError::new(ErrorKind::Unexpected, state::CARDINALITY, message)
    }

    /// The memory for intermediate results is used up.
    #[cold]
    pub fn temporary_memory(limit_bytes: usize) -> SqlError {
        let megabytes = limit_bytes >> 20;
        SqlError::limit(
            state::TEMPORARY_MEMORY,
            format!(
                "More than {megabytes} MB of temp table memory used while executing SQL.  \
                 Aborting. (option max_temporary_bytes)"
            ),
        )
    }

    /// A statement that a host's check ended ([`crate::watch::StopCheck`]).
    #[cold]
    pub fn stopped(reason: Stop) -> SqlError {
        let Overdue { elapsed_ms, limit } = match reason {
            Stop::Overdue(overdue) => overdue,
            Stop::Left => {
                let message = "the query was canceled: its client closed the connection";
                return SqlError::limit(state::STOPPED, message.to_string());
            }
        };
        let seconds = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let (what, whose) = match limit.source {
            LimitSource::Call => ("query", "the query-specific timeout period"),
            LimitSource::Host => {
                ("query", "the default query timeout period (option query_timeout_ms)")
            }
            LimitSource::Transaction => {
                ("statement", "the rest of its transaction's time (option transaction_timeout_ms)")
            }
            LimitSource::Write => {
                ("statement", "the timeout period of writes (option write_timeout_ms)")
            }
        };
        let message = format!(
            "the {what} was stopped after {} seconds: it exceeded {whose} of {} seconds",
            seconds(elapsed_ms),
            seconds(limit.timeout_ms.into()),
        );
        SqlError::limit(state::STOPPED, message)
    }

    /// A function of users that failed, in its own words.
    #[cold]
    pub fn user_function(failure: Failure) -> SqlError {
        let kind = match failure.status {
            Status::UserAbort => ErrorKind::UserAbort,
            _ => ErrorKind::Sql,
        };
        SqlError::new(kind, state::USER_FUNCTION, failure.message)
    }

    /// The same failure with text after its message: VoltDB names the column of an assignment
    /// so.
    #[cold]
    pub fn with_suffix(mut self, suffix: &str) -> SqlError {
        self.0.message.push_str(suffix);
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What the client is told.
    pub fn to_failure(&self) -> Failure {
        Failure::from(self.clone())
    }

    /// The SQLSTATE.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// The message without what the client's text has in front.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for SqlError {}

impl From<SqlError> for Failure {
    #[cold]
    fn from(error: SqlError) -> Failure {
        let Details { kind, message, .. } = *error.0;
        match kind {
            ErrorKind::Sql | ErrorKind::Limit => {
                Failure::graceful(format!("VOLTDB ERROR: SQL ERROR {message}"))
            }
            ErrorKind::Constraint => {
                Failure::graceful(format!("VOLTDB ERROR: CONSTRAINT VIOLATION {message}"))
            }
            ErrorKind::Statement => Failure::graceful(message),
            ErrorKind::Unexpected => {
                Failure::unexpected(format!("VOLTDB ERROR: USER ABORT {message}"))
            }
            ErrorKind::SchemaChange => {
                Failure::graceful(format!("VOLTDB ERROR: USER ABORT {message}"))
            }
            ErrorKind::UserAbort => Failure::abort(format!("VOLTDB ERROR: USER ABORT {message}")),
        }
    }
}

/// Rows as the texts of constraint violations show them: a table with padded columns.
#[derive(Debug, Default)]
pub struct TupleText {
    lines: Vec<Vec<String>>,
}

impl TupleText {
    /// A table with these column names.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> TupleText {
        TupleText { lines: vec![names.map(str::to_string).collect()] }
    }

    /// Appends a row, as many values as there are names.
    pub fn row<'d>(mut self, values: impl Iterator<Item = lockstep_types::Datum<'d>>) -> TupleText {
        self.lines.push(values.map(|value| value.to_string()).collect());
        self
    }

    /// The text, a line per row below the names and a rule.
    pub fn finish(&self) -> String {
        let column_count = self.lines.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 1
        };
        let widths: Vec<usize> = (0..column_count).map(width).collect();
        let mut text = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            for (cell, width) in line.iter().zip(&widths) {
                text.push_str(&format!("{cell:<width$} "));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                text.push_str(&rules.join(" "));
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::Datum;

    #[test]
    fn texts_are_those_that_clients_know() {
        let tuples = TupleText::new(["ID", "A", "B"].into_iter())
            .row([Datum::Int(1), Datum::Int(30), Datum::Text("dup")].into_iter())
            .row([Datum::Int(1), Datum::Null, Datum::Text("x")].into_iter())
            .finish();
        assert_eq!(tuples, "ID  A     B\n--- ----- ----\n1   30    dup\n1   NULL  x\n");
        let failure = Failure::from(SqlError::constraint(ConstraintKind::Unique, "T", &tuples));
        assert_eq!(failure.status, Status::GracefulFailure);
        assert!(failure.message.starts_with(
            "VOLTDB ERROR: CONSTRAINT VIOLATION Attempted violation of constraint\n\
             Constraint Type UNIQUE, Table CatalogId T\nRelevant Tuples:\nID "
        ));
        let failure = Failure::from(SqlError::several_rows());
        assert_eq!(failure.status, Status::UnexpectedFailure);
    }
}
