//! Statistics of tables and indexes, per site.

use super::{Row, View, number, text};
use lockstep_types::Value;

const KIB: u64 = 1024;

pub(super) fn table(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in &view.snapshots {
        for table in &snapshot.tables {
            let limit = table.row_limit;
            let full = limit.map_or(0, |limit| table.rows * 100 / u64::from(limit.max(1)));
            rows.push(vec![
                Value::Int(snapshot.index as i64),
                Value::Int(snapshot.index as i64),
                text(&table.name),
                text("PersistentTable"),
                number(table.rows),
                number((table.memory.block_bytes as u64).div_ceil(KIB)),
                number((table.memory.data_bytes as u64).div_ceil(KIB)),
                number((table.memory.string_allocated_bytes as u64).div_ceil(KIB)),
                limit.map_or(Value::Int(i32::MAX.into()), |limit| number(limit.into())),
                number(full),
                text("false"),
                text(""),
            ]);
        }
    }
    rows
}

pub(super) fn index(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in &view.snapshots {
        for table in &snapshot.tables {
            for index in &table.indexes {
                rows.push(vec![
                    Value::Int(snapshot.index as i64),
                    Value::Int(snapshot.index as i64),
                    text(&index.name),
                    text(&table.name),
                    text(if index.unique { "OrderedUniqueIndex" } else { "OrderedIndex" }),
                    Value::Int(index.unique.into()),
                    Value::Int(1),
                    number(index.entries),
                    number((index.allocated_bytes as u64).div_ceil(KIB)),
                ]);
            }
        }
    }
    rows
}
