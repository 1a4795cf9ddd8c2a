//! What scripts run at: hosts of this database, SQLite, PostgreSQL.

pub mod host;
pub mod postgres;
pub mod postgres_wire;
pub mod sqlite;

use crate::generator::Dialect;
use lockstep_types::{Datum, SqlType, Value};

/// A database that answers statements.
pub trait System {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// The SQL that it understands.
    fn dialect(&self) -> Dialect;

    /// Runs a statement, which gives rows or is a change of rows or schema.
    fn run(&mut self, sql: &str, gives_rows: bool) -> Answer;

    /// Other ways in which it can answer queries, by name; it answers in the first.
    fn ways(&self) -> Vec<String> {
        vec![self.name()]
    }

    /// Answers in another way from now on: a place in [`System::ways`].
    fn choose(&mut self, _way: usize) {}

    /// Whether it plans otherwise than this database does by itself.
    fn has_other_plans(&self) -> bool {
        false
    }

    /// Takes the last change back; false where that is not possible.
    fn undo(&mut self) -> bool {
        false
    }
}

/// What a database says to a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Rows; for a change one row with the number of rows changed, or nothing.
    Rows {
        /// Column types, where the database tells.
        types: Vec<SqlType>,
        /// The rows.
        rows: Vec<Vec<Cell>>,
    },
    /// An error.
    Refused(String),
    /// The database cannot do such statements at all.
    Unsupported(String),
}

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// As the host gave it, NULL included.
    Own(Value),
    /// A whole number, whatever it stands for.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text that may stand for any type.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// How a value is shown so that equal ones look the same: `sql_type` is the type that this
/// database gave it, `exact` says that decimals are.
pub fn show(cell: &Cell, sql_type: SqlType, exact: bool) -> String {
    match cell {
        Cell::Own(Value::Float(v)) => number(*v),
        Cell::Own(value @ Value::Decimal(_)) => decimal(&value.to_string(), exact),
        Cell::Own(Value::Text(text)) => format!("{text:?}"),
        Cell::Own(Value::Bytes(bytes)) => hex(bytes),
        Cell::Own(value) => value.to_string(),
        Cell::Integer(v) if is_fraction(sql_type) => number(*v as f64),
        Cell::Integer(v) if sql_type == SqlType::Timestamp => Datum::Timestamp(*v).to_string(),
        Cell::Integer(v) => v.to_string(),
        Cell::Real(v) => number(*v),
        Cell::Bytes(bytes) => hex(bytes),
        Cell::Text(text) => match sql_type {
            SqlType::Float => text.parse().map_or_else(|_| text.clone(), number),
            SqlType::Decimal => decimal(text, exact),
            SqlType::Timestamp => timestamp(text),
            SqlType::Varchar => format!("{text:?}"),
            SqlType::Varbinary => text.trim_start_matches("\\x").to_uppercase(),
            _ => text.clone(),
        },
    }
}

fn is_fraction(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Float | SqlType::Decimal)
}

/// Ten digits: sums may be added up in another order. Zero has no sign.
fn number(value: f64) -> String {
    match value == 0.0 {
        true => "0".to_string(),
        false => format!("{value:.9e}"),
    }
}

fn decimal(text: &str, exact: bool) -> String {
    if !exact {
        return text.parse().map_or_else(|_| text.to_string(), number);
    }
    let trimmed = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    };
    if trimmed == "-0" { "0".to_string() } else { trimmed.to_string() }
}

/// Six digits of a second's fraction.
fn timestamp(text: &str) -> String {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}.{fraction:0<6}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_look_the_same() {
        let own = |value: Value, sql_type| show(&Cell::Own(value), sql_type, true);
        let text = |text: &str, sql_type| show(&Cell::Text(text.to_string()), sql_type, true);
        let two = Value::Decimal(lockstep_types::Decimal::parse("2.50").expect("a decimal"));
        assert_eq!(own(two.clone(), SqlType::Decimal), text("2.5", SqlType::Decimal));
        let real = show(&Cell::Real(2.5), SqlType::Decimal, false);
        assert_eq!(show(&Cell::Own(two), SqlType::Decimal, false), real);
        assert_eq!(own(Value::Float(-0.0), SqlType::Float), text("0", SqlType::Float));
        let time = own(Value::Timestamp(1_500_000), SqlType::Timestamp);
        assert_eq!(time, text("1970-01-01 00:00:01.5", SqlType::Timestamp));
        assert_eq!(time, show(&Cell::Integer(1_500_000), SqlType::Timestamp, false));
        let bytes = own(Value::Bytes([1, 255].into()), SqlType::Varbinary);
        assert_eq!(bytes, text("\\x01ff", SqlType::Varbinary));
        assert_ne!(text("1", SqlType::Integer), text("2", SqlType::Integer));
    }
}
