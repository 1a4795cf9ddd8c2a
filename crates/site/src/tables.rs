//! Result tables that are not of a query: counts of rows, the status of a schema change.

use crate::message::{AnswerForm, StatementCall, StatementProfile};
use crate::profile::write_profiles;
use lockstep_base::bytes::ByteReader;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema, TableView};

/// The result of a bulk load: one table without a column name, one row, the number of rows.
pub(crate) fn write_count(out: &mut Vec<u8>, count: i64) {
    let schema = TableSchema::new(&[("", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(count)]);
    table.finish();
}

/// Appends the one table that a call answers in place of its statements' results; false where
/// they are its answer.
pub(crate) fn write_other_answer(
    call: &StatementCall,
    profiles: &[StatementProfile],
    out: &mut Vec<u8>,
) -> bool {
    match call.answer {
        AnswerForm::Results => return false,
        AnswerForm::StatementCount => write_count(out, call.statements.len() as i64),
        AnswerForm::Count(count) => write_count(out, count),
        AnswerForm::Profiles => write_profiles(profiles, out),
    }
    true
}

/// The result of exchanging the contents of tables, as of DML: the number of rows.
pub(crate) fn write_modified(out: &mut Vec<u8>, rows: i64) {
    let schema = TableSchema::modified_tuples();
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(rows)]);
    table.finish();
}

/// The sum of partitions' row counts.
pub(crate) fn total(counts: &[Vec<u8>]) -> i64 {
    let count = |table: &Vec<u8>| {
        let view = TableView::read(&mut ByteReader::new(table)).ok()?;
        match view.scalar() {
            Ok(Some(Datum::Int(count))) => Some(count),
            _ => None,
        }
    };
    counts.iter().filter_map(count).sum()
}

/// The result of a schema change: one table, one row, STATUS 0.
pub(crate) fn write_status(out: &mut Vec<u8>) {
    let schema = TableSchema::new(&[("STATUS", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(0)]);
    table.finish();
}
