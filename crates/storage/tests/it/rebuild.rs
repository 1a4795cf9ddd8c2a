//! A rebuilt table has the same rows in the same order.

use crate::support::{fixed, on, table, text};
use lockstep_storage::{ColumnSource, RowId, TableLayout, Tables, UndoLog};
use lockstep_types::{Datum, SqlType, Value};

#[test]
fn rows_keep_their_order_and_get_new_columns() {
    let mut tables = Tables::new();
    let id = tables.add(table("T", &[fixed(SqlType::SmallInt), text(200)]));
    let mut undo = UndoLog::default();
    for key in 0..100 {
        tables[id].insert(&[Datum::Int(key), Datum::Text("v")], &mut undo).expect("legal");
    }
    for row in (0..100).step_by(3) {
        tables[id].delete(RowId(row), &mut undo).expect("the row is live");
    }
    undo.release_all(&mut tables);
    let columns = [text(20), fixed(SqlType::BigInt), fixed(SqlType::Integer).not_null()];
    let layout = TableLayout::new(&columns).expect("legal");
    let sources =
        [ColumnSource::Column(1), ColumnSource::Column(0), ColumnSource::Value(Value::Int(7))];
    let mut rebuilt = tables[id].rebuild(layout.clone(), &sources).expect("values fit");
    rebuilt.add_index(on("PK", true, &[1])).expect("keys differ");
    let keys = |column: usize, rows: &lockstep_storage::Table| -> Vec<Value> {
        rows.scan().map(|(_, row)| row.column(column).to_value()).collect()
    };
    assert_eq!(keys(1, &rebuilt), keys(0, &tables[id]));
    assert_eq!(rebuilt.row(RowId(0)).map(|row| row.column(2)), Some(Datum::Int(7)));
    assert_eq!(rebuilt.row_count(), 66);
    assert!(tables[id].rebuild(layout.clone(), &sources[..2]).is_err());
    let null = [ColumnSource::Column(1), ColumnSource::Column(0), ColumnSource::Value(Value::Null)];
    let error = tables[id].rebuild(layout, &null).expect_err("a NOT NULL column");
    assert_eq!(error.to_string(), "table T: column 2 is NOT NULL");
    tables.set(id, rebuilt);
    assert_eq!(tables[id].id(), id);
}
