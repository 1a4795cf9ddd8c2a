//! What storage refuses leaves no trace and names what was wrong.

use crate::support::{fixed, on, on_last_digit, table, text};
use lockstep_storage::{RowId, StorageError, Table, TableLayout, Tables, UndoLog};
use lockstep_types::{Datum, IndexId, SqlType, TableId};

fn sample() -> (Tables, TableId, UndoLog) {
    let mut tables = Tables::new();
    let columns = [fixed(SqlType::SmallInt).not_null(), text(10), text(100), fixed(SqlType::Float)];
    let id = tables.add(table("T", &columns));
    tables[id].add_index(on("PK", true, &[0])).expect("a legal index");
    tables[id].add_index(on_last_digit(0)).expect("a legal index");
    (tables, id, UndoLog::default())
}

fn row<'a>(key: i64, short: &'a str, long: &'a str) -> [Datum<'a>; 4] {
    [Datum::Int(key), Datum::Text(short), Datum::Text(long), Datum::Null]
}

#[test]
fn refused_changes_leave_no_trace() {
    let (mut tables, id, mut undo) = sample();
    tables[id].insert(&row(1, "one", "long one"), &mut undo).expect("legal values");
    tables[id].insert(&row(2, "two", "long two"), &mut undo).expect("legal values");
    tables[id].delete(RowId(0), &mut undo).expect("the row is live");
    tables[id].insert(&row(3, "three", "long three"), &mut undo).expect("legal values");
    let mark = undo.mark();
    let (hash, memory) = (tables[id].content_hash(), tables[id].memory());
    let table: &mut Table = &mut tables[id];
    let long = "é".repeat(51);
    let mut refuse =
        |values: &[Datum<'_>]| table.insert(values, &mut undo).expect_err("refused").to_string();
    assert_eq!(
        refuse(&row(2, "x", "a value for the heap")),
        "table T: index PK is unique; row 1 has this key"
    );
    assert_eq!(refuse(&row(4, "12345678901", "y")), "table T: column 1 holds 10 bytes, not 11");
    assert_eq!(refuse(&row(4, "x", &long)), "table T: column 2 holds 100 bytes, not 102");
    assert_eq!(
        refuse(&row(-32_768, "x", "y")),
        "table T: column 0: value is out of range for SMALLINT"
    );
    assert_eq!(refuse(&row(4, "x", "y")[..3]), "table T has 4 columns, the row 3 values");
    let mut null = row(4, "x", "y");
    null[0] = Datum::Null;
    assert_eq!(refuse(&null), "table T: column 0 is NOT NULL");
    let mut wrong = row(4, "x", "y");
    wrong[3] = Datum::Int(1);
    assert_eq!(refuse(&wrong), "T: part 3 takes values of type FLOAT");
    wrong[3] = Datum::Float(-1.75E308);
    assert_eq!(refuse(&wrong), "table T: column 3: value is out of range for FLOAT");
    assert_eq!(refuse(&row(666, "x", "y")), "666", "the key expression fails");

    let long = Datum::Text(&long);
    let changes: [(RowId, &[(usize, Datum<'_>)]); 7] = [
        (RowId(0), &[(2, Datum::Text("new")), (0, Datum::Int(2))]),
        (RowId(0), &[(2, Datum::Text("new")), (0, Datum::Int(666))]),
        (RowId(0), &[(2, Datum::Text("new")), (2, Datum::Text("newer")), (2, long)]),
        (RowId(0), &[(2, Datum::Text("new")), (0, Datum::Null)]),
        (RowId(0), &[(4, Datum::Null)]),
        (RowId(2), &[(2, Datum::Text("new"))]),
        (RowId(u32::MAX), &[(2, Datum::Text("new"))]),
    ];
    for (row, changes) in changes {
        assert!(table.update(row, changes, &mut undo).is_err(), "{changes:?}");
    }
    assert!(table.delete(RowId(2), &mut undo).is_err());
    assert!(!undo.changed_since(mark));
    assert_eq!(tables[id].content_hash(), hash);
    let after = tables[id].memory();
    assert_eq!(after.string_used_bytes, memory.string_used_bytes);
    assert_eq!(tables[id].indexes()[0].entries(), 2);
    assert_eq!(tables[id].indexes()[1].entries(), 2);
}

#[test]
fn the_undo_limit_is_kept() {
    let (mut tables, id, _) = sample();
    let mut undo = UndoLog::new(200);
    let error = (0..100)
        .find_map(|key| tables[id].insert(&row(key, "", ""), &mut undo).err())
        .expect("the limit is met");
    assert_eq!(error, StorageError::UndoLimit { limit: 200 });
    undo.release_all(&mut tables);
    tables[id].insert(&row(100, "", ""), &mut undo).expect("there is room again");
}

#[test]
fn indexes_are_refused_whole() {
    let (mut tables, id, mut undo) = sample();
    for key in [1, 2] {
        tables[id].insert(&row(key, "same", "long"), &mut undo).expect("legal values");
    }
    let table = &mut tables[id];
    let error = table.add_index(on("U", true, &[1])).expect_err("two rows are equal");
    assert_eq!(error.to_string(), "table T: index U is unique; row 0 has this key");
    assert!(table.add_index(on("U", true, &[9])).is_err());
    assert_eq!(table.indexes().len(), 2);
    assert!(table.get(IndexId(7), &[]).is_err());
    assert!(table.get(IndexId(0), &[]).is_err());
    assert!(table.get(IndexId(0), &[Datum::Int(1), Datum::Int(1)]).is_err());
    table.remove_index(IndexId(0)).expect("the index exists");
    assert_eq!(table.indexes()[0].name(), "LAST_DIGIT");
    table.insert(&row(2, "", ""), &mut undo).expect("nothing is unique any more");
}

#[test]
fn layouts_have_limits() {
    assert!(TableLayout::new(&[fixed(SqlType::Boolean)]).is_err());
    let wide = vec![text(15); 9000];
    assert!(matches!(TableLayout::new(&wide), Err(StorageError::RowTooWide { .. })));
    // A short text with its length; the row's tail with its address and one end.
    let layout = TableLayout::new(&[text(15), text(64), fixed(SqlType::Decimal)]).expect("legal");
    assert_eq!(layout.slot_bytes(), 16 + (6 + 2) + 16);
    assert_eq!(layout.slots_per_block(), 2048);
    // Tails that may be longer have wider ends.
    let layout = TableLayout::new(&[text(30_000), text(30_000)]).expect("legal");
    assert_eq!(layout.slot_bytes(), 6 + 4 + 4);
}
