//! A table against a mirror, with undo at random marks: what is undone is exactly what was.

use crate::support::{fixed, on, on_last_digit, table, text};
use lockstep_base::random::SeededRandom;
use lockstep_storage::{
    ColumnLayout, IndexCursor, RowId, StorageError, Table, Tables, UndoLog, UndoMark,
};
use lockstep_types::{Datum, Decimal, IndexId, SqlType, TableId, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Key columns of each index, the computed one apart.
const INDEXES: [(&str, bool, &[usize]); 5] = [
    ("PK", true, &[0]),
    ("BY_PAIR", false, &[1, 5]),
    ("BY_LONG_TEXT", false, &[3]),
    ("BY_MANY", true, &[2, 4, 6, 0]),
    ("BY_SMALL", false, &[1]),
];

fn sample_table() -> Table {
    let mut table = table(
        "SAMPLE",
        &[
            fixed(SqlType::BigInt).not_null(),
            fixed(SqlType::SmallInt),
            text(20),
            text(4000),
            fixed(SqlType::Decimal),
            fixed(SqlType::Timestamp),
            fixed(SqlType::Float),
            ColumnLayout::variable(SqlType::Varbinary, 300),
        ],
    );
    for (name, unique, columns) in INDEXES {
        table.add_index(on(name, unique, columns)).expect("a legal index");
    }
    table.add_index(on_last_digit(1)).expect("a legal index");
    table
}

fn random_value(random: &mut SeededRandom, column: usize) -> Value {
    if column > 0 && random.chance(1, 8) {
        return Value::Null;
    }
    let length = |random: &mut SeededRandom, most: u64| random.below(most) as usize;
    match column {
        0 => Value::Int(random.between(0, 700)),
        1 => Value::Int(random.between(-40, 40)),
        2 => Value::Text("é".repeat(length(random, 11)).into()),
        3 => {
            let most = [8, 70, 500, 2000][random.below(4) as usize];
            let letter = ["a", "b\0", "é"][random.below(3) as usize];
            Value::Text(letter.repeat(length(random, most)).into())
        }
        4 => Value::Decimal(Decimal::from_raw(i128::from(random.between(-5, 5)) << 70)),
        5 => Value::Timestamp(random.between(-3, 3)),
        6 => Value::Float(random.between(-4, 4) as f64 / 2.0),
        _ => Value::Bytes(vec![0; length(random, 300)].into()),
    }
}

/// What the table holds, as the test knows it.
type Mirror = BTreeMap<RowId, Vec<Value>>;

/// The whole observable state.
#[derive(PartialEq, Debug)]
struct State {
    hash: u64,
    rows: Vec<RowId>,
    indexes: Vec<Vec<RowId>>,
}

fn rows_of(cursor: IndexCursor<'_>) -> Vec<RowId> {
    let mut rows = Vec::new();
    cursor.collect_into(&mut rows);
    rows
}

fn state_of(table: &Table) -> State {
    let mut rows = Vec::new();
    table.collect_rows(&mut rows);
    let all = |index: usize| {
        table.range(IndexId(index as u16), Bound::Unbounded, Bound::Unbounded, false)
    };
    let indexes = (0..table.indexes().len())
        .map(|index| rows_of(all(index).expect("the index exists")))
        .collect();
    State { hash: table.content_hash(), rows, indexes }
}

fn compare_keys(a: &[Value], b: &[Value], columns: &[usize]) -> Ordering {
    let order = |&column: &usize| a[column].as_datum().sort_order(b[column].as_datum());
    columns.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn check_mirror(table: &Table, mirror: &Mirror) {
    table.check().expect("nothing is wrong");
    let stored: Mirror = table
        .scan()
        .map(|(row, values)| (row, values.columns().map(Datum::to_value).collect()))
        .collect();
    assert_eq!(&stored, mirror);
    assert_eq!(table.row_count(), mirror.len() as u64);
    let state = state_of(table);
    for (index, (name, unique, columns)) in INDEXES.iter().enumerate() {
        let mut expected: Vec<RowId> = mirror.keys().copied().collect();
        expected
            .sort_by(|a, b| compare_keys(&mirror[a], &mirror[b], columns).then_with(|| a.cmp(b)));
        assert_eq!(state.indexes[index], expected, "{name}");
        if *unique {
            let equal = |pair: &[RowId]| {
                compare_keys(&mirror[&pair[0]], &mirror[&pair[1]], columns).is_eq()
            };
            assert!(!expected.windows(2).any(equal), "{name} is unique");
        }
    }
    let digit = |values: &[Value]| match values[1] {
        Value::Int(value) if value > 0 => Some(value % 10),
        _ => None,
    };
    let mut expected: Vec<(i64, RowId)> =
        mirror.iter().filter_map(|(row, values)| Some((digit(values)?, *row))).collect();
    expected.sort();
    let expected: Vec<RowId> = expected.into_iter().map(|(_, row)| row).collect();
    assert_eq!(state.indexes[INDEXES.len()], expected, "the partial index");
}

/// One run: the operations follow from the seed alone, `release` says whether old marks are
/// released along the way.
struct Run {
    random: SeededRandom,
    tables: Tables,
    id: TableId,
    undo: UndoLog,
    mirror: Mirror,
    marks: Vec<(UndoMark, Mirror, State)>,
    release: bool,
    refused: u64,
}

impl Run {
    fn new(seed: u64, release: bool) -> Run {
        let mut tables = Tables::new();
        let id = tables.add(sample_table());
        Run {
            random: SeededRandom::new(seed),
            tables,
            id,
            undo: UndoLog::default(),
            mirror: Mirror::new(),
            marks: Vec::new(),
            release,
            refused: 0,
        }
    }

    fn any_row(&mut self) -> Option<RowId> {
        let count = self.mirror.len() as u64;
        if count == 0 {
            return None;
        }
        let pick = self.random.below(count) as usize;
        self.mirror.keys().nth(pick).copied()
    }

    fn insert(&mut self) {
        let values: Vec<Value> = (0..8).map(|c| random_value(&mut self.random, c)).collect();
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        match self.tables[self.id].insert(&datums, &mut self.undo) {
            Ok(row) => assert!(self.mirror.insert(row, values).is_none(), "{row} was in use"),
            Err(StorageError::UniqueViolation { existing, position, .. }) => {
                let columns = INDEXES[position].2;
                assert!(compare_keys(&self.mirror[&existing], &values, columns).is_eq());
                self.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn update(&mut self) {
        let Some(row) = self.any_row() else { return };
        let mut changes = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let column = self.random.below(8) as usize;
            changes.push((column, random_value(&mut self.random, column)));
        }
        let datums: Vec<_> = changes.iter().map(|(c, value)| (*c, value.as_datum())).collect();
        match self.tables[self.id].update(row, &datums, &mut self.undo) {
            Ok(()) => {
                let values = self.mirror.get_mut(&row).expect("picked from the mirror");
                changes.into_iter().for_each(|(column, value)| values[column] = value);
            }
            Err(StorageError::UniqueViolation { .. }) => self.refused += 1,
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.insert(),
            45..70 => self.update(),
            70..90 => {
                if let Some(row) = self.any_row() {
                    self.tables[self.id].delete(row, &mut self.undo).expect("the row is live");
                    self.mirror.remove(&row);
                }
            }
            90..94 => {
                let state = state_of(&self.tables[self.id]);
                self.marks.push((self.undo.mark(), self.mirror.clone(), state));
            }
            94..97 if !self.marks.is_empty() => {
                let back = self.random.below(self.marks.len() as u64) as usize;
                self.marks.truncate(back + 1);
                let (mark, mirror, state) = self.marks.pop().expect("truncated to one more");
                self.undo.rollback_to(mark, &mut self.tables);
                assert_eq!(state_of(&self.tables[self.id]), state);
                self.mirror = mirror;
            }
            97..98 if !self.marks.is_empty() => {
                // The oldest transaction commits.
                self.marks.remove(0);
                if self.release {
                    let mark = self.marks.first().map_or(self.undo.mark(), |(mark, ..)| *mark);
                    self.undo.release_to(mark, &mut self.tables);
                }
            }
            98 if self.random.chance(1, 8) => {
                let rows: Vec<RowId> = self.mirror.keys().copied().collect();
                for row in rows {
                    self.tables[self.id].delete(row, &mut self.undo).expect("the row is live");
                }
                self.mirror.clear();
            }
            99 if self.random.chance(1, 12) => {
                self.tables[self.id].truncate(&mut self.undo).expect("the log has room");
                self.mirror.clear();
            }
            _ => {}
        }
        // What this does shows nowhere, so the other kind of run does without.
        if self.release && self.random.clone().chance(1, 5) {
            self.tables.maintain();
        }
    }
}

#[test]
fn tables_match_a_mirror_whatever_is_taken_back() {
    for seed in 0..12 {
        let mut run = Run::new(seed, true);
        for step in 0..4000 {
            run.step();
            if step % 200 == 0 {
                check_mirror(&run.tables[run.id], &run.mirror);
                run.undo.check_invariants();
                assert_eq!(run.undo.check_against(&run.tables), Ok(()), "seed {seed}");
            }
        }
        assert!(run.refused > 50, "constraints were tried: {}", run.refused);
        for row in run.mirror.keys() {
            run.tables[run.id].delete(*row, &mut run.undo).expect("the row is live");
        }
        run.undo.release_all(&mut run.tables);
        assert_eq!(run.tables[run.id].memory().string_used_bytes, 0, "no string is left behind");
        assert!(run.undo.is_empty());
    }
}

#[test]
fn when_undo_is_released_makes_no_difference() {
    for seed in 100..104 {
        let (mut early, mut late) = (Run::new(seed, true), Run::new(seed, false));
        for _ in 0..3000 {
            early.step();
            late.step();
        }
        assert_eq!(state_of(&early.tables[early.id]), state_of(&late.tables[late.id]));
    }
}

/// Transactions that run ahead while older ones wait for their outcome: the log never runs
/// empty, its head is released, its tail undone.
#[test]
fn a_queue_of_transactions_is_released_at_its_head() {
    let mut run = Run::new(7, true);
    let mut open: Vec<(UndoMark, State)> = Vec::new();
    let mut largest = 0;
    for transaction in 0..4000 {
        open.push((run.undo.mark(), state_of(&run.tables[run.id])));
        for _ in 0..3 {
            match run.random.below(3) {
                0 => run.update(),
                1 if run.mirror.len() > 60 => {
                    let row = run.any_row().expect("there are rows");
                    run.tables[run.id].delete(row, &mut run.undo).expect("the row is live");
                    run.mirror.remove(&row);
                }
                _ => run.insert(),
            }
        }
        if open.len() > 3 {
            open.remove(0);
            run.undo.release_to(open[0].0, &mut run.tables);
        }
        if transaction % 100 == 99 {
            let (mark, state) = open.remove(1);
            run.undo.rollback_to(mark, &mut run.tables);
            assert_eq!(state_of(&run.tables[run.id]), state);
            open.truncate(1);
            let rows = run.tables[run.id].scan();
            run.mirror = rows
                .map(|(row, values)| (row, values.columns().map(Datum::to_value).collect()))
                .collect();
        }
        largest = largest.max(run.undo.allocated_bytes());
    }
    assert!(!run.undo.is_empty());
    assert!(largest < 200_000, "released records are cut off: {largest} bytes");
}
