//! A simulated host as a snapshot has it: the catalog with its tables' numbers, and their rows.

use crate::classes::SimClasses;
use crate::plans::{Natives, NoCode};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::snapshot::{ColumnHead, Manifest, RowsReader, SnapshotError, TableHead};
use lockstep_env::Disk;
use lockstep_exec::database::Database;
use lockstep_exec::snapshot::{DatabaseRestore, RestoreFault, SavedTable};
use lockstep_host::catalog::HostCatalog;
use lockstep_plan::{Catalog, ProcedureClasses};
use lockstep_site::SchemaTask;
use lockstep_sql::{Limits, parse_batch};
use lockstep_storage::ColumnLayout;
use lockstep_types::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What puts a catalog in force.
pub(super) type CatalogTask = SchemaTask<Arc<HostCatalog<NoCode>>>;

/// The catalog of a snapshot and what makes it at empty sites; `None` if it was empty.
pub(super) fn saved_catalog(
    disk: &dyn Disk,
    manifest: &Manifest,
    natives: &Natives,
) -> Result<Option<CatalogTask>, String> {
    let Some(before) = manifest.catalog_version.checked_sub(1) else { return Ok(None) };
    let heads = RowsReader::open(disk, SNAPSHOT_FOLDER, manifest, 0).map_err(text)?;
    let heads = heads.tables().iter();
    let ids: BTreeMap<String, TableId> =
        heads.map(|head| (head.name.clone(), TableId(head.table))).collect();
    let parsed = match manifest.schema.trim() {
        "" => Vec::new(),
        schema => parse_batch(schema, &Limits::default()).map_err(|error| error.to_string())?,
    };
    let version = manifest.planning.as_slice().try_into().map(i64::from_le_bytes);
    let classes = version.ok().map(|version| -> Arc<dyn ProcedureClasses> {
        Arc::new(SimClasses(version)) //
    });
    let current = Catalog { version: before, classes, ..Catalog::default() };
    let made = current.apply_with_ids(&parsed, natives, &ids).map_err(|error| error.message)?;
    let catalog = HostCatalog::new(made.catalog, natives).map_err(|error| error.message)?;
    Ok(Some(SchemaTask {
        changes: made.changes,
        swap: None,
        snapshot: None,
        catalog_version: catalog.version(),
        catalog: Arc::new(catalog),
        source: Arc::default(),
        advice: None,
    }))
}

fn text(error: SnapshotError) -> String {
    error.to_string()
}

/// Fills the tables of a partition, which are empty, with the rows of a snapshot.
pub(super) fn load_partition(
    disk: &dyn Disk,
    manifest: &Manifest,
    partition: u32,
    database: &mut Database,
) -> Result<(), String> {
    let mut reader = RowsReader::open(disk, SNAPSHOT_FOLDER, manifest, partition).map_err(text)?;
    let unfit = |fault: RestoreFault| format!("{}: {fault:?}", disk.shown(SNAPSHOT_FOLDER));
    let column = |column: &ColumnHead| ColumnLayout {
        sql_type: column.sql_type,
        max_bytes: column.max_bytes,
        nullable: column.nullable,
    };
    let saved_table = |head: &TableHead| SavedTable {
        number: TableId(head.table),
        name: head.name.clone(),
        used_slots: head.used_slots,
        free_head: head.free_head,
        columns: head.columns.iter().map(column).collect(),
    };
    let mut saved: Vec<SavedTable> = reader.tables().iter().map(saved_table).collect();
    // What every partition has is in the first one's file only.
    let mut first = RowsReader::open(disk, SNAPSHOT_FOLDER, manifest, 0).map_err(text)?;
    let is_left = |head: &&TableHead| saved.iter().all(|saved| saved.number.0 != head.table);
    let left: Vec<SavedTable> = first.tables().iter().filter(is_left).map(saved_table).collect();
    let takes_from_first = !left.is_empty();
    saved.extend(left);
    let mut restore = DatabaseRestore::new(database, &saved).map_err(unfit)?;
    let mut records = Vec::new();
    while reader.next(&mut records).map_err(text)?.is_some() {
        restore.add(&records).map_err(unfit)?;
    }
    while takes_from_first && first.next_replicated(&mut records).map_err(text)?.is_some() {
        restore.add(&records).map_err(unfit)?;
    }
    restore.finish(database).map_err(unfit)
}
