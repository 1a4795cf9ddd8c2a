//! Snapshots: whatever changes while one is taken, it holds the tables as they were when it began.

use crate::support::{fixed, on, table, text};
use lockstep_base::random::SeededRandom;
use lockstep_storage::{
    ColumnLayout, RowId, RowsRecord, SnapshotProgress, SnapshotTable, StorageError, Table,
    TableLayout, TableRestore, Tables, Tally, UndoLog,
};
use lockstep_types::{Datum, Decimal, SqlType, TableId, Value};

/// Tables of several shapes: all types, nothing in the tail, everything in it, a tiny slot.
fn shapes() -> Vec<Vec<ColumnLayout>> {
    let bytes = |most| ColumnLayout::variable(SqlType::Varbinary, most);
    vec![
        vec![
            fixed(SqlType::BigInt).not_null(),
            fixed(SqlType::TinyInt),
            fixed(SqlType::SmallInt),
            fixed(SqlType::Integer),
            fixed(SqlType::Float),
            fixed(SqlType::Timestamp),
            fixed(SqlType::Decimal),
            text(15),
            text(400),
            bytes(9),
            bytes(70_000),
        ],
        vec![fixed(SqlType::BigInt).not_null(), fixed(SqlType::Integer)],
        vec![fixed(SqlType::BigInt).not_null(), text(100).not_null(), text(3000)],
        vec![fixed(SqlType::TinyInt)],
    ]
}

fn empty(shape: usize) -> Table {
    let columns = &shapes()[shape];
    let mut made = table("SAMPLE", columns);
    if columns[0].sql_type == SqlType::BigInt {
        made.add_index(on("PK", true, &[0])).expect("a legal index");
        made.add_index(on("SECOND", false, &[1, 0])).expect("a legal index");
    }
    made
}

fn random_value(random: &mut SeededRandom, column: &ColumnLayout, key: i64) -> Value {
    if column.nullable && random.chance(1, 6) {
        return Value::Null;
    }
    let length = random.below(u64::from(column.max_bytes.min(600)) + 1) as usize;
    match column.sql_type {
        SqlType::BigInt if !column.nullable => Value::Int(key),
        SqlType::Float => Value::Float(random.between(-9, 9) as f64 / 4.0),
        SqlType::Timestamp => Value::Timestamp(random.between(-9, 9)),
        SqlType::Decimal => Value::Decimal(Decimal::from_raw(random.between(-9, 9).into())),
        SqlType::Varchar => Value::Text("é".repeat(length / 2).into()),
        SqlType::Varbinary => Value::Bytes(vec![length as u8; length].into()),
        _ => Value::Int(random.between(-99, 99)),
    }
}

/// The tables of a run, changed at random.
struct Run {
    random: SeededRandom,
    tables: Tables,
    undo: UndoLog,
    next_key: i64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut tables = Tables::new();
        for shape in 0..shapes().len() {
            tables.add(empty(shape));
        }
        let random = SeededRandom::new(seed);
        Run { random, tables, undo: UndoLog::default(), next_key: 0 }
    }

    /// One to some changes, kept or undone.
    fn transaction(&mut self) {
        let mark = self.undo.mark();
        for _ in 0..self.random.between(1, 12) {
            self.change();
        }
        if self.random.chance(1, 4) {
            self.undo.rollback_to(mark, &mut self.tables);
        } else {
            self.undo.release_all(&mut self.tables);
        }
    }

    fn change(&mut self) {
        let shape = self.random.below(shapes().len() as u64) as usize;
        let columns = &shapes()[shape];
        let table = &mut self.tables[TableId(shape as u32)];
        let mut rows = Vec::new();
        table.collect_rows(&mut rows);
        let random = &mut self.random;
        let chosen = (!rows.is_empty()).then(|| rows[random.below(rows.len() as u64) as usize]);
        match (random.below(100), chosen) {
            (0, _) => table.truncate(&mut self.undo).expect("undo has room"),
            (1..30, Some(row)) => table.delete(row, &mut self.undo).expect("the row is live"),
            (30..60, Some(row)) => {
                let column = random.below(columns.len() as u64) as usize;
                self.next_key += 1;
                let value = random_value(random, &columns[column], self.next_key);
                table.update(row, &[(column, value.as_datum())], &mut self.undo).expect("it fits");
            }
            _ => {
                self.next_key += 1;
                let key = self.next_key;
                let values: Vec<Value> =
                    columns.iter().map(|column| random_value(random, column, key)).collect();
                let values: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
                table.insert(&values, &mut self.undo).expect("it fits");
            }
        }
    }

    /// A table is dropped, replaced or exchanged, as schema changes do.
    fn change_schema(&mut self) {
        let shape = self.random.below(shapes().len() as u64) as usize;
        let old = self.tables.set(TableId(shape as u32), empty(shape));
        self.tables.retire(old.expect("there is one of each shape"));
    }
}

fn restored(headers: &[SnapshotTable], stream: &[u8]) -> Result<Vec<Table>, StorageError> {
    let new = |header: &SnapshotTable| {
        TableRestore::new(empty(header.table.index()), header.used_slots, header.free_head)
    };
    let mut tables: Vec<TableRestore> = headers.iter().map(new).collect::<Result<_, _>>()?;
    let mut input = stream;
    while let Some(record) = RowsRecord::take(&mut input)? {
        let Some(place) = headers.iter().position(|header| header.table == record.table) else {
            let reason = "of no table".into();
            return Err(StorageError::BadRecord { table: "?".into(), reason });
        };
        tables[place].add(&record)?;
    }
    tables.into_iter().map(TableRestore::finish).collect()
}

fn interleave(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..run.random.below(60) {
        run.transaction();
    }
    let unit_bytes = 1 << run.random.between(0, 13);
    let hashes: Vec<u64> = run.tables.iter().map(|(_, table)| table.content_hash()).collect();
    let headers = run.tables.begin_snapshot(unit_bytes, |_| true);
    let mut stream = Vec::new();
    let eager = run.random.below(12);
    loop {
        for _ in 0..run.random.below(12) {
            run.transaction();
        }
        if run.random.chance(1, 10) {
            run.change_schema();
        }
        // Steps come between calls, also while some of those before can still be undone.
        let mark = run.undo.mark();
        run.change();
        let before = stream.len();
        let budget = run.random.below(1 << eager) as usize;
        let progress = run.tables.snapshot_step(&mut stream, budget);
        run.undo.rollback_to(mark, &mut run.tables);
        assert!(run.tables.has_snapshot() == (progress == SnapshotProgress::Open));
        if progress == SnapshotProgress::Done {
            break;
        }
        let late = stream.len() == before && run.random.chance(1, 3);
        if late && run.tables.snapshot_step(&mut stream, 4096) == SnapshotProgress::Done {
            break;
        }
    }
    let tables = restored(&headers, &stream).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let after: Vec<u64> = tables.iter().map(Table::content_hash).collect();
    assert_eq!(after, hashes, "seed {seed}");
    for (table, header) in tables.iter().zip(&headers) {
        assert_eq!(table.check(), Ok(()), "seed {seed}");
        assert_eq!(table.row_count(), header.rows);
    }
    for (_, table) in run.tables.iter() {
        assert_eq!(table.check(), Ok(()), "seed {seed}: the tables that changed");
    }
}

#[test]
fn a_snapshot_holds_what_was_there_when_it_began() {
    for seed in 0..400 {
        interleave(seed);
    }
}

/// A table of some rows, its snapshot in one stream, and what belongs to it.
fn sample(shape: usize) -> (Run, Vec<SnapshotTable>, Vec<u8>) {
    let mut run = Run::new(shape as u64);
    for _ in 0..100 {
        run.transaction();
    }
    let headers = run.tables.begin_snapshot(500, |id| id.index() == shape);
    let mut stream = Vec::new();
    assert_eq!(run.tables.snapshot_step(&mut stream, usize::MAX), SnapshotProgress::Done);
    (run, headers, stream)
}

/// Counts of groups are changed in their place, past the way that other rows are changed.
#[test]
fn a_snapshot_has_the_counts_of_when_it_began() {
    let columns = [fixed(SqlType::BigInt).not_null(), fixed(SqlType::BigInt).not_null()];
    let (votes, mut tallies) = (table("VOTES", &columns), table("TALLIES", &columns));
    tallies.add_index(on("GROUPS", true, &[0])).expect("a legal index");
    let tally = Tally::new(&votes, &tallies, &[0]).expect("a simple view");
    let (mut tables, mut undo) = (Tables::new(), UndoLog::new(1 << 20));
    let (votes, tallies) = (tables.add(votes), tables.add(tallies));
    let mut vote = |tables: &mut Tables, group: i64| {
        let values = [Datum::Int(group), Datum::Int(0)];
        let row = tables[votes].insert(&values, &mut undo).expect("there is room");
        let (votes, tallies) = tables.pair(votes, tallies).expect("two tables");
        assert_eq!(tallies.count_in(&tally, (votes, row), &mut undo), Ok(true));
        undo.release_all(tables);
    };
    (0..40).for_each(|number| vote(&mut tables, number % 4));
    let before = tables[tallies].content_hash();
    let headers = tables.begin_snapshot(64, |id| id == tallies);
    let mut stream = Vec::new();
    (0..40).for_each(|number| {
        vote(&mut tables, number % 3);
        tables.snapshot_step(&mut stream, 1);
    });
    assert_eq!(tables.snapshot_step(&mut stream, usize::MAX), SnapshotProgress::Done);
    let mut empty = table("TALLIES", &columns);
    empty.add_index(on("GROUPS", true, &[0])).expect("a legal index");
    let mut restore = TableRestore::new(empty, headers[0].used_slots, headers[0].free_head)
        .expect("a sound header");
    let mut input = &stream[..];
    while let Some(record) = RowsRecord::take(&mut input).expect("a sound record") {
        restore.add(&record).expect("a sound record");
    }
    assert_eq!(restore.finish().expect("a whole snapshot").content_hash(), before);
}

#[test]
fn rows_of_a_record_read_as_those_of_the_table() {
    for (shape, columns) in shapes().iter().enumerate() {
        let (run, _, stream) = sample(shape);
        let table = &run.tables[TableId(shape as u32)];
        let layout = TableLayout::new(columns).expect("a legal layout");
        let mut rows = 0;
        let mut input = &stream[..];
        while let Some(record) = RowsRecord::take(&mut input).expect("a sound record") {
            let read = record.read_rows(&layout, "SAMPLE", |id, row| {
                let there = table.row(id).expect("the row is live");
                assert!(there.columns().eq(row.columns()), "row {id}");
                rows += 1;
                Ok::<(), StorageError>(())
            });
            assert_eq!(read, Ok(()));
        }
        assert_eq!(rows, table.row_count());
    }
}

#[test]
fn a_given_up_snapshot_leaves_nothing() {
    let mut run = Run::new(7);
    for _ in 0..100 {
        run.transaction();
    }
    run.tables.begin_snapshot(500, |_| true);
    run.change_schema();
    for _ in 0..100 {
        run.transaction();
    }
    assert!(run.tables.snapshot_waiting_bytes() > 0, "changes have forced units out");
    run.tables.end_snapshot();
    assert!(!run.tables.has_snapshot());
    assert_eq!(run.tables.snapshot_waiting_bytes(), 0);
    for (_, table) in run.tables.iter() {
        assert_eq!(table.check(), Ok(()));
    }
    // And another one begins.
    let hashes: Vec<u64> = run.tables.iter().map(|(_, table)| table.content_hash()).collect();
    let headers = run.tables.begin_snapshot(500, |_| true);
    let mut stream = Vec::new();
    run.tables.snapshot_step(&mut stream, usize::MAX);
    let tables = restored(&headers, &stream).expect("a sound stream");
    assert!(tables.iter().map(Table::content_hash).eq(hashes));
}

#[test]
fn damaged_records_are_refused_or_give_sound_tables() {
    for shape in 0..shapes().len() {
        let (_, headers, stream) = sample(shape);
        let mut random = SeededRandom::new(shape as u64);
        let mut refused = 0;
        for _ in 0..2000 {
            let mut damaged = stream.clone();
            match random.below(3) {
                0 => damaged.truncate(random.below(stream.len() as u64) as usize),
                1 => {
                    let at = random.below(stream.len() as u64) as usize;
                    damaged[at] ^= 1 << random.below(8);
                }
                _ => {
                    let at = random.below(stream.len() as u64) as usize;
                    damaged[at] = random.below(256) as u8;
                }
            }
            match restored(&headers, &damaged) {
                Err(_) => refused += 1,
                // Other values than before: checksums are somebody else's.
                Ok(tables) => assert_eq!(tables[0].check(), Ok(())),
            }
        }
        assert!(refused > 200, "{refused} of shape {shape}");
    }
}

#[test]
fn missing_and_repeated_records_are_refused() {
    let (_, headers, stream) = sample(1);
    let mut input = &stream[..];
    RowsRecord::take(&mut input).expect("a sound record").expect("there are several");
    let message = |result: Result<Vec<Table>, StorageError>| match result {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was taken"),
    };
    let missing = message(restored(&headers, input));
    assert!(missing.contains("slots"), "{missing}");
    let first = &stream[..stream.len() - input.len()];
    let repeated = message(restored(&headers, &[first, &stream].concat()));
    assert!(repeated.contains("same slot"), "{repeated}");
    let mut headers = headers;
    headers[0].free_head = RowId(0).0;
    let other = message(restored(&headers, &stream));
    assert!(other.contains("free list"), "{other}");
}
