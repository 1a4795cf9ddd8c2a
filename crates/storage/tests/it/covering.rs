//! Indexes that are built while rows change.

use crate::support::{fixed, on, table, text};
use lockstep_base::random::SeededRandom;
use lockstep_storage::{RowId, Tables, UndoLog};
use lockstep_types::{Datum, IndexId, SqlType, TableId};

const TABLE: TableId = TableId(0);

/// One change of some row.
fn change(tables: &mut Tables, undo: &mut UndoLog, random: &mut SeededRandom) {
    let value = random.below(20) as i64;
    let name = format!("name {}", random.below(20));
    let bound = tables[TABLE].row_id_bound();
    let row = RowId(random.below(u64::from(bound).max(1)) as u32);
    let live = tables[TABLE].is_live(row);
    let table = tables.get_mut(TABLE).expect("it is there");
    let done = match random.below(100) {
        0 => table.truncate(undo),
        1..30 if live => table.delete(row, undo),
        30..60 if live => {
            table.update(row, &[(1, Datum::Int(value)), (2, Datum::Text(&name))], undo)
        }
        _ => table
            .insert(&[Datum::Int(value * 7), Datum::Int(value), Datum::Text(&name)], undo)
            .map(drop),
    };
    done.expect("nothing is in the way");
}

#[test]
fn an_index_that_is_built_in_steps_holds_the_covered_rows_whatever_happens() {
    for seed in 0..40 {
        let random = &mut SeededRandom::new(seed);
        let mut tables = Tables::new();
        let columns = [fixed(SqlType::BigInt), fixed(SqlType::Integer), text(40)];
        tables.set(TABLE, table("T", &columns));
        let undo = &mut UndoLog::default();
        (0..300).for_each(|_| change(&mut tables, undo, random));
        undo.release_all(&mut tables);
        let rows = tables.get_mut(TABLE).expect("it is there");
        rows.begin_covering();
        rows.add_covering_index(on("NUMBERS", false, &[1])).expect("there is room");
        rows.add_covering_index(on("NAMES", false, &[2, 1])).expect("there is room");
        while tables[TABLE].uncovered_from().is_some() {
            let (mark, before) = (undo.mark(), tables[TABLE].content_hash());
            let from = tables[TABLE].uncovered_from().expect("it is not complete").0;
            for _ in 0..random.below(10) {
                change(&mut tables, undo, random);
                tables[TABLE].check().expect("after a change");
            }
            let to = from + random.below(40) as u32;
            let to = (to < tables[TABLE].row_id_bound()).then_some(RowId(to));
            let rows = tables.get_mut(TABLE).expect("it is there");
            rows.cover_to(to, undo).expect("there is room");
            rows.check().expect("after a step");
            (0..random.below(10)).for_each(|_| change(&mut tables, undo, random));
            tables[TABLE].check().expect("behind a step");
            match random.below(3) {
                0 => {
                    undo.rollback_to(mark, &mut tables);
                    assert_eq!(tables[TABLE].content_hash(), before);
                    assert_eq!(tables[TABLE].uncovered_from(), Some(RowId(from)));
                    tables[TABLE].check().expect("after undo");
                }
                _ => undo.release_all(&mut tables),
            }
        }
        let rows = tables.get_mut(TABLE).expect("it is there");
        (0..2).for_each(|index| rows.complete_index(IndexId(index)).expect("it is there"));
        rows.end_covering();
        (0..50).for_each(|_| change(&mut tables, undo, random));
        tables[TABLE].check().expect("at the end");
        assert_eq!(tables[TABLE].indexes()[0].entries(), tables[TABLE].row_count());
    }
}
