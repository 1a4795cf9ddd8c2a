//! Reads a table in the order of its primary key, a part at a time, each part by a query that an
//! index answers.
//!
//! After the key (a, b, c) come the keys (a, b, > c), then (a, > b), then (> a). Each of these
//! is an index range; a query over the whole of it, in the key's order and with a limit, gives
//! the next rows. Where it gives fewer than the limit, the next wider range follows.

use crate::load::target::Target;
use lockstep_types::sql_type::NULL_FLOAT;
use lockstep_types::{Datum, SqlType, Value};
use std::fmt::Write;

/// Rows of the first part.
const FIRST_ROWS: u64 = 1_000;
/// Bytes of text that a part is meant to have.
const PART_BYTES: u64 = 4 << 20;
/// Most rows of a part.
const MOST_ROWS: u64 = 100_000;

/// See the module.
pub struct Parts<'t> {
    target: &'t Target,
    key: Vec<usize>,
    /// The last key that was read.
    last: Option<Vec<Value>>,
    /// How many columns of the last key the next query keeps; `None`: all is read.
    kept: Option<usize>,
    limit: u64,
    rows: u64,
    bytes: u64,
}

impl<'t> Parts<'t> {
    /// All of a table, whose primary key has these columns.
    pub fn new(target: &'t Target, key: Vec<usize>) -> Parts<'t> {
        let limit = FIRST_ROWS;
        Parts { target, key, last: None, kept: Some(0), limit, rows: 0, bytes: 0 }
    }

    /// The query for the next part.
    pub fn next_query(&self) -> Option<String> {
        let kept = self.kept?;
        let name = |column: usize| self.target.columns[column].name.as_str();
        let all: Vec<&str> = self.target.columns.iter().map(|c| c.name.as_str()).collect();
        let mut sql = format!("SELECT {} FROM {}", all.join(", "), self.target.name);
        if let Some(last) = &self.last {
            for (place, (&column, value)) in self.key.iter().zip(last).enumerate().take(kept + 1) {
                let word = if place == 0 { "WHERE" } else { "AND" };
                let comparison = if place == kept { ">" } else { "=" };
                let sql_type = self.target.columns[column].sql_type;
                let condition = condition(name(column), comparison, value, sql_type);
                let _ = write!(sql, " {word} {condition}");
            }
        }
        let order: Vec<&str> = self.key.iter().map(|&column| name(column)).collect();
        let _ = write!(sql, " ORDER BY {} LIMIT {}", order.join(", "), self.limit);
        Some(sql)
    }

    /// Takes note of a row and of the bytes that it takes as text.
    pub fn row(&mut self, values: &[Datum<'_>], bytes: usize) {
        self.rows += 1;
        self.bytes += bytes as u64;
        let key = self.key.iter().map(|&column| values[column].to_value());
        match &mut self.last {
            Some(last) => last.iter_mut().zip(key).for_each(|(place, value)| *place = value),
            None => self.last = Some(key.collect()),
        }
    }

    /// A part of N rows is read.
    pub fn done(&mut self, rows: u32) {
        self.kept = match u64::from(rows) < self.limit {
            false => Some(self.key.len() - 1),
            true => self.kept.and_then(|kept| kept.checked_sub(1)),
        };
        if let Some(row_bytes) = self.bytes.checked_div(self.rows) {
            self.limit = (PART_BYTES / row_bytes.max(1)).clamp(100, MOST_ROWS);
        }
    }
}

/// A comparison, by `=` or `>`, of a column with a value.
fn condition(name: &str, comparison: &str, value: &Value, sql_type: SqlType) -> String {
    // NaN and infinity, which SQL has no literals for, are the values beyond these.
    let least = f64::from_bits(NULL_FLOAT.to_bits() - 1);
    match value {
        Value::Float(number) if number.is_nan() && comparison == "=" => {
            format!("{name} < {least:E}")
        }
        Value::Float(number) if number.is_nan() => format!("{name} >= {least:E}"),
        Value::Float(f64::INFINITY) if comparison == "=" => format!("{name} > {:E}", f64::MAX),
        Value::Float(f64::INFINITY) => format!("{name} <> {name}"),
        value => format!("{name} {comparison} {}", literal(value, sql_type)),
    }
}

/// A value as SQL has it.
fn literal(value: &Value, sql_type: SqlType) -> String {
    match value {
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(_) => format!("X'{value}'"),
        Value::Timestamp(micros) => format!("TO_TIMESTAMP(MICROSECOND, {micros})"),
        Value::Float(number) => format!("{number:E}"),
        other => match sql_type {
            // Without a point it would be a BIGINT.
            SqlType::Decimal => format!("CAST('{other}' AS DECIMAL)"),
            _ => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::target::Column;

    #[test]
    fn numbers_without_a_literal_are_beyond_the_others() {
        let least = "-1.6999999999999997E308";
        for (number, equal, greater) in [
            (1.5, "F = 1.5E0".to_string(), "F > 1.5E0".to_string()),
            (f64::NAN, format!("F < {least}"), format!("F >= {least}")),
            (f64::INFINITY, "F > 1.7976931348623157E308".to_string(), "F <> F".to_string()),
        ] {
            let compared = |by| condition("F", by, &Value::Float(number), SqlType::Float);
            assert_eq!((compared("="), compared(">")), (equal, greater));
        }
    }

    #[test]
    fn parts_follow_one_another() {
        let column = |name: &str, sql_type| Column {
            name: name.to_string(),
            sql_type,
            length: 9,
            nullable: false,
            default: None,
        };
        let target = Target {
            name: "T".to_string(),
            columns: vec![
                column("A", SqlType::Integer),
                column("B", SqlType::Varchar),
                column("V", SqlType::Float),
            ],
            partition_columns: Vec::new(),
            has_primary_key: true,
        };
        let mut parts = Parts::new(&target, vec![1, 0]);
        let select = "SELECT A, B, V FROM T";
        let query = |parts: &Parts<'_>| parts.next_query();
        assert_eq!(query(&parts), Some(format!("{select} ORDER BY B, A LIMIT 1000")));
        let row = [Datum::Int(7), Datum::Text("it's"), Datum::Float(1.5)];
        (0..1000).for_each(|_| parts.row(&row, 1 << 10));
        parts.done(1000);
        let expected = format!("{select} WHERE B = 'it''s' AND A > 7 ORDER BY B, A LIMIT 4096");
        assert_eq!(query(&parts), Some(expected));
        parts.done(0);
        let expected = format!("{select} WHERE B > 'it''s' ORDER BY B, A LIMIT 4096");
        assert_eq!(query(&parts), Some(expected));
        parts.done(5);
        assert_eq!(query(&parts), None);
    }
}
