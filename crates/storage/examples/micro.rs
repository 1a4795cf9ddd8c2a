//! Times point lookups and changes of a table with a million rows.
//!
//! `cargo run --release -p lockstep-storage --example micro [CASE [ROWS]]`; for instruction
//! counts run one case under `valgrind --tool=callgrind --toggle-collect='*measured*'`.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]

use lockstep_base::random::SeededRandom;
use lockstep_storage::{
    ColumnLayout, IndexDefinition, KeySource, RowId, Table, TableLayout, Tables, UndoLog,
};
use lockstep_types::{Datum, IndexId, SqlType, TableId};
use std::hint::black_box;
use std::time::Instant;

const PROBES: u64 = 200_000;

struct Bench {
    tables: Tables,
    id: TableId,
    undo: UndoLog,
    random: SeededRandom,
    rows: u64,
}

fn on(name: &str, unique: bool, columns: &[usize]) -> IndexDefinition {
    IndexDefinition { name: name.into(), unique, source: KeySource::Columns(columns.into()) }
}

impl Bench {
    /// A table like voter's `votes`: number, state, contestant.
    fn new(index: Option<IndexDefinition>, rows: u64, text_bytes: u32) -> Bench {
        let layout = TableLayout::new(&[
            ColumnLayout::fixed(SqlType::BigInt).not_null(),
            ColumnLayout::variable(SqlType::Varchar, text_bytes).not_null(),
            ColumnLayout::fixed(SqlType::Integer).not_null(),
        ]);
        let mut table = Table::new("T", layout.expect("a legal layout"));
        if let Some(index) = index {
            table.add_index(index).expect("a legal index");
        }
        let mut tables = Tables::new();
        let id = tables.add(table);
        let random = SeededRandom::new(1);
        let mut bench = Bench { tables, id, undo: UndoLog::default(), random, rows };
        for number in 0..rows {
            bench.insert(number);
            bench.undo.release_all(&mut bench.tables);
        }
        bench
    }

    /// Spreads numbers over all keys, one to one.
    fn key(number: u64) -> i64 {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64
    }

    #[inline]
    fn insert(&mut self, number: u64) -> RowId {
        let values = [Datum::Int(Self::key(number)), Datum::Text("MA"), Datum::Int(3)];
        self.tables[self.id].insert(&values, &mut self.undo).expect("keys differ")
    }

    fn any(&mut self) -> u64 {
        self.random.below(self.rows)
    }
}

fn report(name: &str, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    println!("{name:28} {:7.1} ns", start.elapsed().as_nanos() as f64 / PROBES as f64);
}

#[inline(never)]
fn measured_get(bench: &mut Bench) {
    for _ in 0..PROBES {
        let key = [Datum::Int(Bench::key(bench.any()))];
        let found = bench.tables[bench.id].get(IndexId(0), &key);
        let (_, row) = found.expect("a whole key").expect("the key is there");
        black_box(row.column(2));
    }
}

#[inline(never)]
fn measured_get_pair(bench: &mut Bench) {
    for _ in 0..PROBES {
        let key = [Datum::Int(Bench::key(bench.any())), Datum::Int(3)];
        let found = bench.tables[bench.id].get(IndexId(0), &key);
        let (_, row) = found.expect("a whole key").expect("the key is there");
        black_box(row.column(2));
    }
}

#[inline(never)]
fn measured_get_text(bench: &mut Bench) {
    for _ in 0..PROBES {
        let key = [Datum::Text("MA"), Datum::Int(Bench::key(bench.any()))];
        let found = bench.tables[bench.id].get(IndexId(0), &key);
        let (_, row) = found.expect("a whole key").expect("the key is there");
        black_box(row.column(2));
    }
}

#[inline(never)]
fn measured_equal(bench: &mut Bench) {
    for _ in 0..PROBES {
        let key = [Datum::Int(Bench::key(bench.any()))];
        let found = bench.tables[bench.id].equal(IndexId(0), &key);
        let mut cursor = found.expect("a whole key");
        while let Some((_, row)) = cursor.next_row() {
            black_box(row.column(2));
        }
    }
}

#[inline(never)]
fn measured_insert(bench: &mut Bench) {
    for number in bench.rows..bench.rows + PROBES {
        bench.insert(number);
        bench.undo.release_all(&mut bench.tables);
    }
}

#[inline(never)]
fn measured_update(bench: &mut Bench) {
    for _ in 0..PROBES {
        let row = RowId(bench.any() as u32);
        let table = &mut bench.tables[bench.id];
        table.update(row, &[(2, Datum::Int(4))], &mut bench.undo).expect("the row is live");
        bench.undo.release_all(&mut bench.tables);
    }
}

#[inline(never)]
fn measured_delete(bench: &mut Bench) {
    for row in 0..PROBES {
        let table = &mut bench.tables[bench.id];
        table.delete(RowId(row as u32), &mut bench.undo).expect("the row is live");
        bench.undo.release_all(&mut bench.tables);
    }
}

#[inline(never)]
fn measured_insert_undone(bench: &mut Bench) {
    for number in bench.rows..bench.rows + PROBES {
        let mark = bench.undo.mark();
        bench.insert(number);
        bench.undo.rollback_to(mark, &mut bench.tables);
    }
}

#[inline(never)]
fn measured_scan(bench: &mut Bench) {
    let mut sum = 0;
    for (_, row) in bench.tables[bench.id].scan().take(PROBES as usize) {
        if let Datum::Int(value) = row.column(2) {
            sum += value;
        }
    }
    black_box(sum);
}

#[inline(never)]
fn measured_range(bench: &mut Bench) {
    let everything = bench.tables[bench.id].equal(IndexId(0), &[]).expect("a legal range");
    let mut sum = 0;
    for (_, row) in everything.take(PROBES as usize) {
        if let Datum::Int(value) = row.column(2) {
            sum += value;
        }
    }
    black_box(sum);
}

type Case = (&'static str, Option<(bool, &'static [usize])>, fn(&mut Bench));

const CASES: [Case; 15] = [
    ("get-short-text-integer", Some((true, &[1, 0])), measured_get_text),
    ("get", Some((true, &[0])), measured_get),
    ("get-two-integers", Some((true, &[0, 2])), measured_get_pair),
    ("get-text-integer", Some((true, &[1, 0])), measured_get_text),
    ("equal", Some((false, &[0])), measured_equal),
    ("insert", Some((true, &[0])), measured_insert),
    ("insert-no-index", None, measured_insert),
    ("insert-undone", Some((true, &[0])), measured_insert_undone),
    ("insert-two-integers", Some((false, &[0, 2])), measured_insert),
    ("insert-text-integer", Some((false, &[1, 0])), measured_insert),
    ("insert-not-unique", Some((false, &[0])), measured_insert),
    ("update", Some((true, &[0])), measured_update),
    ("delete", Some((true, &[0])), measured_delete),
    ("scan", None, measured_scan),
    ("range", Some((true, &[0])), measured_range),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let chosen = arguments.next();
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    for (name, index, run) in CASES {
        if chosen.as_ref().is_none_or(|chosen| chosen == name) {
            let index = index.map(|(unique, columns)| on("I", unique, columns));
            let mut bench = Bench::new(index, rows, if name.contains("short") { 7 } else { 20 });
            report(name, || run(&mut bench));
        }
    }
}
