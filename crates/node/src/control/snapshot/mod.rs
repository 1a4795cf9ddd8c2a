//! Snapshots as system procedures: `@SnapshotSave`, `@SnapshotStatus`, `@SnapshotScan`,
//! `@SnapshotRestore`, `@SnapshotDelete`, and those that the host takes by itself.

mod check;
mod files;
mod hosts;
mod keeper;
mod own_copies;
mod place;
mod request;
mod restore;
mod save;
mod saved;
mod schedule;

pub(super) use keeper::Keeper;
pub(super) use restore::Restoring;
pub(crate) use save::AUTOMATIC_PREFIX;
pub(super) use save::Snapshots;
pub(super) use schedule::settings;

use lockstep_types::SqlType::{self, BigInt, Float, Integer, Varchar};
use lockstep_types::{Datum, TableBuilder, TableSchema};

type Columns = [(&'static str, SqlType)];

const SCAN_FOUND: &Columns = &[
    ("PATH", Varchar),
    ("NONCE", Varchar),
    ("TXNID", BigInt),
    ("CREATED", BigInt),
    ("SIZE", BigInt),
    ("TABLES_REQUIRED", Varchar),
    ("TABLES_MISSING", Varchar),
    ("TABLES_INCOMPLETE", Varchar),
    ("COMPLETE", Varchar),
    ("PATHTYPE", Varchar),
];
const SCAN_SPACE: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("PATH", Varchar),
    ("TOTAL", BigInt),
    ("FREE", BigInt),
    ("USED", BigInt),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
];
const SCAN_FILES: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("PATH", Varchar),
    ("NAME", Varchar),
    ("TXNID", BigInt),
    ("CREATED", BigInt),
    ("TABLE", Varchar),
    ("COMPLETED", Varchar),
    ("SIZE", BigInt),
    ("IS_REPLICATED", Varchar),
    ("PARTITIONS", Varchar),
    ("TOTAL_PARTITIONS", BigInt),
    ("READABLE", Varchar),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
    ("PATHTYPE", Varchar),
];
const DELETED: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("PATH", Varchar),
    ("PATHTYPE", Varchar),
    ("NONCE", Varchar),
    ("NAME", Varchar),
    ("SIZE", BigInt),
    ("DELETED", Varchar),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
];
const SAVED_TABLES: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("TABLE", Varchar),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
];
const SAVED_SITES: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("SITE_ID", Integer),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
];
const RESTORED: &Columns = &[
    ("HOST_ID", Integer),
    ("HOSTNAME", Varchar),
    ("SITE_ID", Integer),
    ("TABLE", Varchar),
    ("PARTITION_ID", Integer),
    ("RESULT", Varchar),
    ("ERR_MSG", Varchar),
];
/// What the statistics SNAPSHOTSTATUS have, after the columns of a host.
pub(super) const STATUS: &Columns = &[
    ("TABLE", Varchar),
    ("PATH", Varchar),
    ("FILENAME", Varchar),
    ("NONCE", Varchar),
    ("TXNID", BigInt),
    ("START_TIME", BigInt),
    ("END_TIME", BigInt),
    ("SIZE", BigInt),
    ("DURATION", BigInt),
    ("THROUGHPUT", Float),
    ("RESULT", Varchar),
    ("TYPE", Varchar),
];
/// What the statistics SNAPSHOTSUMMARY have.
pub(super) const SUMMARY: &Columns = &[
    ("NONCE", Varchar),
    ("TXNID", BigInt),
    ("TYPE", Varchar),
    ("PATH", Varchar),
    ("START_TIME", BigInt),
    ("END_TIME", BigInt),
    ("DURATION", BigInt),
    ("PROGRESS_PCT", Float),
    ("RESULT", Varchar),
];

/// Appends one table.
fn write_table(out: &mut Vec<u8>, columns: &Columns, rows: &[Vec<Datum<'_>>]) {
    let schema = TableSchema::new(columns);
    let mut table = TableBuilder::begin(out, &schema);
    for row in rows {
        table.row(&schema, row);
    }
    table.finish();
}
