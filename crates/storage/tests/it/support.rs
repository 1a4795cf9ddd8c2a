//! What the tests share: an allocator that counts per thread, and tables to fill.

use lockstep_storage::{
    ColumnLayout, IndexDefinition, KeyEvaluator, KeySource, KeyWriter, RowRef, StorageError, Table,
    TableLayout,
};
use lockstep_types::{Datum, SqlType};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

fn note(calls: u64, bytes: i64) {
    // A thread that ends may free after its counters are gone.
    let _ = CALLS.try_with(|cell| cell.set(cell.get() + calls));
    let _ = BYTES.try_with(|cell| cell.set(cell.get() + bytes));
}

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread so far.
pub fn allocation_calls() -> u64 {
    CALLS.with(Cell::get)
}

/// Bytes that this thread allocated and has not freed.
pub fn allocated_bytes() -> i64 {
    BYTES.with(Cell::get)
}

/// A table with these columns.
pub fn table(name: &str, columns: &[ColumnLayout]) -> Table {
    Table::new(name, TableLayout::new(columns).expect("a legal layout"))
}

/// An index on columns.
pub fn on(name: &str, unique: bool, columns: &[usize]) -> IndexDefinition {
    IndexDefinition { name: name.into(), unique, source: KeySource::Columns(columns.into()) }
}

/// A nullable column of a fixed-width type.
pub fn fixed(sql_type: SqlType) -> ColumnLayout {
    ColumnLayout::fixed(sql_type)
}

/// A nullable VARCHAR.
pub fn text(max_bytes: u32) -> ColumnLayout {
    ColumnLayout::variable(SqlType::Varchar, max_bytes)
}

/// Last digit of an integer column, for rows where it is positive.
pub struct LastDigit(pub usize);

impl KeyEvaluator for LastDigit {
    fn evaluate(
        &mut self,
        row: RowRef<'_>,
        key: &mut KeyWriter<'_, '_, '_>,
    ) -> Result<bool, StorageError> {
        match row.column(self.0) {
            Datum::Int(666) => Err(StorageError::KeyExpression { message: "666".into() }),
            Datum::Int(value) if value > 0 => key.push(Datum::Int(value % 10)).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// A partial index on the last digit of a column.
pub fn on_last_digit(column: usize) -> IndexDefinition {
    IndexDefinition {
        name: "LAST_DIGIT".into(),
        unique: false,
        source: KeySource::Computed {
            types: vec![SqlType::Integer],
            reads: vec![column],
            evaluator: Box::new(LastDigit(column)),
        },
    }
}
