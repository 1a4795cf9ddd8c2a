//! Tables and indexes of one site: in memory, single-threaded, without latches.
//!
//! # Overview
//! - [`Tables`] holds a site's [`Table`]s by `TableId`; one [`UndoLog`] serves them all and is
//!   passed to every change.
//! - A [`Table`] is made of a [`TableLayout`] (fixed-width packed slots; the longer strings of a
//!   row, as one, in a heap of the table's own) and has [`Index`]es by `IndexId`, maintained with
//!   every change.
//! - A row is named by its [`RowId`] and read through a [`RowRef`], which borrows the table:
//!   `row.column(2)` gives a `Datum` whose text points into the table.
//!
//! ```
//! use lockstep_storage::{
//!     ColumnLayout, IndexDefinition, KeySource, Table, TableLayout, Tables, UndoLog,
//! };
//! use lockstep_types::{Datum, SqlType};
//!
//! let layout = TableLayout::new(&[
//!     ColumnLayout::fixed(SqlType::BigInt).not_null(),
//!     ColumnLayout::variable(SqlType::Varchar, 100),
//! ])?;
//! let (mut tables, mut undo) = (Tables::new(), UndoLog::default());
//! let id = tables.add(Table::new("PEOPLE", layout));
//! let by_id = tables[id].add_index(IndexDefinition {
//!     name: "PEOPLE_PK".into(),
//!     unique: true,
//!     source: KeySource::Columns(vec![0]),
//! })?;
//!
//! let transaction = undo.mark();
//! let row = tables[id].insert(&[Datum::Int(1), Datum::Text("Ada")], &mut undo)?;
//! tables[id].update(row, &[(1, Datum::Text("Ada Lovelace"))], &mut undo)?;
//! let (_, found) = tables[id].get(by_id, &[Datum::Int(1)])?.expect("inserted above");
//! assert_eq!(found.column(1), Datum::Text("Ada Lovelace"));
//!
//! undo.rollback_to(transaction, &mut tables); // or, to commit: undo.release_all(&mut tables)
//! assert_eq!(tables[id].row_count(), 0);
//! # Ok::<(), lockstep_storage::StorageError>(())
//! ```
//!
//! # Reading
//! Point: [`Table::get`]. Ranges: [`Table::range`] and [`Table::equal`] give an [`IndexCursor`]
//! (`next_row`, `next_id`, `collect_into`, `count_rows`). Scans: [`Table::scan`] borrows the
//! table; a [`ScanCursor`] does not. Many rows at once: a [`RowBatch`] reads them column by
//! column. A statement that changes what it reads collects row ids first, into a vector that it
//! keeps, so that it never meets its own result.
//!
//! # Undo
//! [`UndoLog::mark`] before a statement, a transaction, a queue of speculative transactions;
//! [`UndoLog::rollback_to`] undoes everything since, exactly; [`UndoLog::release_to`] makes
//! everything before a mark final. An operation that returns an error has changed nothing.
//!
//! # Snapshots
//! [`Tables::begin_snapshot`] keeps the tables as they are then, and [`Tables::snapshot_step`]
//! hands them out bit by bit while they change; [`TableRestore`] makes a table of what it gave.
//!
//! # Determinism
//! The same operations give the same row ids, scan order and index order on every replica, and
//! releasing undo earlier or later makes no difference. [`Table::content_hash`] compares,
//! [`Table::check`] looks for damage.
//!
//! # Types
//! `Datum::Int` goes into integer columns of every width (range checked, the NULL sentinel
//! refused) and into TIMESTAMP; other values only into columns of their own type: the caller
//! casts. Keys for lookups are looser: an integer for a FLOAT or DECIMAL part is converted, and
//! an integer outside the part's range is found nowhere.

mod batch;
mod blocks;
mod btree;
mod changes;
mod cursor;
mod error;
mod heap;
mod index;
mod key;
mod key_buffer;
mod layout;
mod row;
mod snapshot;
mod table;
mod tables;
mod tail;
mod undo;
mod wire;

pub use batch::RowBatch;
pub use changes::RowChange;
pub use cursor::{IndexCursor, RowLimits};
pub use error::StorageError;
pub use index::{Index, IndexDefinition, KeyEvaluator, KeySource, KeyWriter, PrefetchedKey};
pub use key::KeyForm;
pub use layout::{BLOCK_BYTES, ColumnLayout, INLINE_LIMIT_BYTES, TableLayout};
pub use row::{RowId, RowRef};
pub use snapshot::{RecordRow, RowsRecord, SnapshotProgress, SnapshotTable};
pub use table::{
    ColumnSource, MAX_INDEXES, ScanCursor, Table, TableMemory, TableRestore, TableScan, Tally,
};
pub use tables::Tables;
pub use undo::{DEFAULT_UNDO_LIMIT_BYTES, UndoLog, UndoMark};
