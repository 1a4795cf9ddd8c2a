//! Memory: nothing is allocated in steady state, and the books agree with the allocator.

use crate::support::{allocated_bytes, allocation_calls, fixed, on, on_last_digit, table, text};
use lockstep_base::random::SeededRandom;
use lockstep_storage::{Table, Tables, UndoLog};
use lockstep_types::{Datum, IndexId, SqlType, TableId};
use std::ops::Bound;

fn sample() -> Table {
    let columns = [
        fixed(SqlType::BigInt).not_null(),
        fixed(SqlType::Integer),
        text(30),
        text(500),
        fixed(SqlType::Timestamp),
    ];
    let mut table = table("T", &columns);
    table.add_index(on("PK", true, &[0])).expect("a legal index");
    table.add_index(on("PAIR", false, &[1, 4])).expect("a legal index");
    table.add_index(on("LONG", false, &[3, 0])).expect("a legal index");
    table.add_index(on_last_digit(1)).expect("a legal index");
    table
}

/// A transaction of an insert, a lookup, ranges, an update and a delete, undone every third time.
fn transaction(tables: &mut Tables, id: TableId, undo: &mut UndoLog, number: i64) {
    let mark = undo.mark();
    let long = [
        "short",
        "a text that is longer than a key in a node, so that its tail lies in the index's arena, \
         and longer than a key on the stack, so that it is put together in a lent buffer",
    ][number as usize % 2];
    let key = number % 1000;
    if let Some((row, _)) = tables[id].get(IndexId(0), &[Datum::Int(key)]).expect("legal") {
        tables[id].delete(row, undo).expect("the row is live");
    }
    let values = [
        Datum::Int(key),
        Datum::Int(number % 50),
        Datum::Text("short"),
        Datum::Text(long),
        Datum::Timestamp(number),
    ];
    let row = tables[id].insert(&values, undo).expect("the key is free");
    let changes = [(1, Datum::Int(number % 7)), (3, Datum::Text(&long[1..]))];
    tables[id].update(row, &changes, undo).expect("legal values");
    let prefix = [Datum::Text(&long[1..])];
    assert!(tables[id].equal(IndexId(2), &prefix).expect("legal").count_rows() > 0);
    let digit = [Datum::Int(number % 7)];
    let range = tables[id].range(IndexId(3), Bound::Included(&digit), Bound::Unbounded, true);
    assert!(range.expect("legal").take(10).count() <= 10);
    if number % 3 == 0 {
        undo.rollback_to(mark, tables);
    } else {
        undo.release_all(tables);
    }
}

#[test]
fn nothing_is_allocated_in_steady_state() {
    let mut tables = Tables::new();
    let id = tables.add(sample());
    let mut undo = UndoLog::default();
    for number in 0..20_000 {
        transaction(&mut tables, id, &mut undo, number);
    }
    let (before, transactions) = (allocation_calls(), 5_000);
    for number in 20_000..20_000 + transactions {
        transaction(&mut tables, id, &mut undo, number);
    }
    // Nodes of the indexes split and merge now and then.
    let calls = allocation_calls() - before;
    assert!(calls <= transactions as u64 / 50, "{calls} in {transactions} transactions");
}

fn within_a_tenth(counted: usize, allocated: i64) {
    let (counted, allocated) = (counted as f64, allocated as f64);
    assert!((counted - allocated).abs() <= allocated / 10.0, "{counted} of {allocated}");
}

#[test]
fn the_books_agree_with_the_allocator() {
    for rows in [10u64, 1000, 50_000] {
        let mut random = SeededRandom::new(rows);
        let start = allocated_bytes();
        let mut tables = Tables::new();
        let id = tables.add(sample());
        let mut undo = UndoLog::default();
        let text = "0123456789".repeat(50);
        let mut ids = Vec::new();
        for key in 0..rows {
            let values = [
                Datum::Int(key as i64),
                Datum::Int(random.between(-100, 100)),
                Datum::Null,
                Datum::Text(&text[..random.below(500) as usize]),
                Datum::Timestamp(0),
            ];
            ids.push(tables[id].insert(&values, &mut undo).expect("legal values"));
            undo.release_all(&mut tables);
        }
        let apart = (undo.allocated_bytes() + ids.capacity() * 4 + text.capacity()) as i64;
        let counted = |tables: &Tables| {
            let indexes = tables[id].indexes().iter();
            let indexes: usize = indexes.map(|index| index.allocated_bytes()).sum();
            tables[id].memory().allocated_bytes() + indexes
        };
        within_a_tenth(counted(&tables), allocated_bytes() - start - apart);
        let full = counted(&tables);
        for row in ids.iter().filter(|row| u64::from(row.0) >= rows / 10) {
            tables[id].delete(*row, &mut undo).expect("the row is live");
            undo.release_all(&mut tables);
        }
        let apart = (undo.allocated_bytes() + ids.capacity() * 4 + text.capacity()) as i64;
        within_a_tenth(counted(&tables), allocated_bytes() - start - apart);
        let memory = tables[id].memory();
        assert_eq!(memory.rows, rows / 10);
        assert!(rows < 50_000 || counted(&tables) < full * 2 / 3, "memory comes back");
        drop(tables);
        assert!(allocated_bytes() - start <= apart + 64, "a dropped table leaves nothing");
    }
}

#[test]
fn fixed_rows_take_little_more_than_their_bytes() {
    let mut tables = Tables::new();
    let id = tables.add(table(
        "VOTES",
        &[fixed(SqlType::BigInt).not_null(), text(2), fixed(SqlType::Integer).not_null()],
    ));
    let mut undo = UndoLog::default();
    for number in 0..200_000 {
        let values = [Datum::Int(number), Datum::Text("MA"), Datum::Int(1)];
        tables[id].insert(&values, &mut undo).expect("legal values");
        undo.release_all(&mut tables);
    }
    let memory = tables[id].memory();
    assert_eq!(memory.data_bytes, 200_000 * 15);
    assert!(memory.allocated_bytes() * 4 <= memory.data_bytes * 5, "{memory:?}");
}

/// A table of 40-byte slots with texts and two indexes, one by a number in random order.
fn growing() -> (Tables, TableId) {
    let mut table = table(
        "GROWING",
        &[fixed(SqlType::BigInt).not_null(), fixed(SqlType::BigInt), text(100), text(10)],
    );
    table.add_index(on("PK", true, &[0])).expect("a legal index");
    table.add_index(on("OTHER", false, &[1])).expect("a legal index");
    let mut tables = Tables::new();
    let id = tables.add(table);
    (tables, id)
}

fn add(tables: &mut Tables, id: TableId, undo: &mut UndoLog, number: i64) {
    let scattered = SeededRandom::new(number as u64).below(1 << 40) as i64;
    let long = "some text of sixty bytes, so that the heap has to grow too..";
    let values = [Datum::Int(number), Datum::Int(scattered), Datum::Text(long), Datum::Null];
    tables[id].insert(&values, undo).expect("keys differ");
    undo.release_all(tables);
}

#[test]
fn growth_is_made_ready_between_transactions() {
    let (mut tables, id) = growing();
    let mut undo = UndoLog::default();
    for number in 0..30_000 {
        add(&mut tables, id, &mut undo, number);
    }
    tables.maintain();
    let (mut inside, mut between) = (0, 0);
    for number in 30_000..130_000 {
        let before = allocation_calls();
        add(&mut tables, id, &mut undo, number);
        inside += allocation_calls() - before;
        if number % 50 == 0 {
            let before = allocation_calls();
            tables.maintain();
            between += allocation_calls() - before;
        }
    }
    assert_eq!(inside, 0, "allocations while rows were inserted");
    assert!(between > 2000, "the table has grown: {between}");
}

#[test]
fn mass_deletes_give_memory_back() {
    let (mut tables, id) = growing();
    let mut undo = UndoLog::default();
    for number in 0..200_000 {
        add(&mut tables, id, &mut undo, number);
    }
    let counted = |tables: &Tables| {
        let indexes = tables[id].indexes().iter();
        tables[id].memory().allocated_bytes()
            + indexes.map(|index| index.allocated_bytes()).sum::<usize>()
    };
    tables.maintain();
    let full = counted(&tables);
    let start = allocated_bytes();
    let mut rows = Vec::new();
    tables[id].collect_rows(&mut rows);
    let mark = undo.mark();
    for row in &rows {
        tables[id].delete(*row, &mut undo).expect("the row is live");
    }
    // While the rows may come back their texts stay.
    tables.maintain();
    let hash = tables[id].content_hash();
    assert!(tables[id].memory().block_bytes < 200_000 * 6, "{:?}", tables[id].memory());
    undo.rollback_to(mark, &mut tables);
    tables[id].check().expect("all rows are back");
    assert_eq!(tables[id].row_count(), 200_000);
    for row in &rows {
        tables[id].delete(*row, &mut undo).expect("the row is live");
    }
    assert_eq!(tables[id].content_hash(), hash);
    undo.release_all(&mut tables);
    tables.maintain();
    assert!(counted(&tables) < full / 10, "{} of {full}", counted(&tables));
    assert!(start - allocated_bytes() > full as i64 / 2, "the allocator has it");
    // The slots are taken again in the order in which they were freed, last first.
    for number in 0..1000 {
        add(&mut tables, id, &mut undo, number);
    }
    let mut again = Vec::new();
    tables[id].collect_rows(&mut again);
    assert_eq!(again, rows[199_000..]);
}
