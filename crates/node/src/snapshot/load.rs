//! Loading a snapshot into the databases of a host that does not serve yet. Partitions are loaded
//! apart from each other, so that each can have a thread.

use lockstep_durability::snapshot::{
    Chunk, ColumnHead, Manifest, RowsReader, SnapshotError, TableHead,
};
use lockstep_env::Disk;
use lockstep_exec::database::Database;
use lockstep_exec::snapshot::{DatabaseRehash, DatabaseRestore, RestoreFault, SavedTable};
use lockstep_storage::ColumnLayout;
use lockstep_types::TableId;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// One partition's part of a load.
pub struct PartitionLoad<'a> {
    /// Where the snapshot is.
    pub disk: &'a dyn Disk,
    /// Its folder.
    pub folder: &'a str,
    /// Its manifest; its schema is in force in the database, whose tables are empty.
    pub manifest: &'a Manifest,
    /// The partition.
    pub partition: u32,
    /// Number of partitions that there are now.
    pub partition_count: u32,
    /// Grows by the bytes that are read.
    pub progress: &'a AtomicU64,
}

/// What was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Rows, views' included where they are loaded and not computed.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Why a snapshot cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// A file is missing, damaged or of another snapshot.
    File(Box<SnapshotError>),
    /// The files are sound, and their rows do not fit the schema.
    Rows {
        /// The file.
        file: String,
        /// What does not fit.
        problem: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::File(error) => error.fmt(f),
            LoadError::Rows { file, problem } => {
                write!(f, "{file}: {problem}; load it into the schema that it was saved with")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl From<SnapshotError> for LoadError {
    fn from(error: SnapshotError) -> LoadError {
        LoadError::File(Box::new(error))
    }
}

/// Loads what a snapshot has for a partition: into the same number of partitions each row into
/// its slot, into another number each row where it belongs then, with the views computed again.
///
/// # Errors
/// Damage, with file and offset; rows that the schema does not take. The database is of no use
/// then.
pub fn load_partition(
    load: &PartitionLoad<'_>,
    database: &mut Database,
) -> Result<Loaded, LoadError> {
    match load.partition_count as usize == load.manifest.positions.len() {
        true => load_same(load, database),
        false => load_others(load, database),
    }
}

fn load_same(load: &PartitionLoad<'_>, database: &mut Database) -> Result<Loaded, LoadError> {
    let mut reader = load.open(load.partition)?;
    let file = reader.shown().to_string();
    let mut tables = saved_tables(reader.tables());
    let mut replicated = load.replicated(reader.tables())?;
    if let Some((_, missing)) = &replicated {
        tables.extend(missing.iter().cloned());
    }
    let mut restore = DatabaseRestore::new(database, &tables)
        .map_err(|fault| rows_fault(&reader, None, fault))?;
    let mut loaded =
        load.each_chunk(&mut reader, RowsReader::next, |records| restore.add(records))?;
    if let Some((reader, _)) = &mut replicated {
        let next = RowsReader::next_replicated;
        let more = load.each_chunk(reader, next, |records| restore.add(records))?;
        loaded.rows += more.rows;
        loaded.bytes += more.bytes;
    }
    restore.finish(database).map_err(|fault| match fault {
        RestoreFault::Record(_, problem) | RestoreFault::Schema(problem) => {
            LoadError::Rows { file, problem }
        }
    })?;
    Ok(loaded)
}

fn load_others(load: &PartitionLoad<'_>, database: &mut Database) -> Result<Loaded, LoadError> {
    let mut all = Loaded::default();
    for partition in 0..load.manifest.positions.len() as u32 {
        let mut reader = load.open(partition)?;
        let tables = saved_tables(reader.tables());
        let rehash = match partition {
            0 => DatabaseRehash::new(database, &tables),
            _ => DatabaseRehash::behind_others(database, &tables),
        };
        let rehash = rehash.map_err(|fault| rows_fault(&reader, None, fault))?;
        let loaded = load
            .each_chunk(&mut reader, RowsReader::next, |records| rehash.add(database, records))?;
        all.rows += loaded.rows;
        all.bytes += loaded.bytes;
    }
    let filled = database.fill_all_views();
    filled.map_err(|error| LoadError::Rows {
        file: load.disk.shown(load.folder),
        problem: error.to_failure().message,
    })?;
    Ok(all)
}

impl PartitionLoad<'_> {
    fn open(&self, partition: u32) -> Result<RowsReader, LoadError> {
        Ok(RowsReader::open(self.disk, self.folder, self.manifest, partition)?)
    }

    /// The file of the first partition, with the tables of it that the partition's own file, which
    /// has `own`, leaves to it; `None` if there are none.
    fn replicated(
        &self,
        own: &[TableHead],
    ) -> Result<Option<(RowsReader, Vec<SavedTable>)>, LoadError> {
        if self.partition == 0 || self.manifest.is_own() {
            // Its own file has the rows of all tables.
            return Ok(None);
        }
        let reader = self.open(0)?;
        let is_left = |head: &&TableHead| own.iter().all(|own| own.table != head.table);
        let left: Vec<TableHead> = reader.tables().iter().filter(is_left).cloned().collect();
        let saved = saved_tables(&left);
        Ok((!saved.is_empty()).then_some((reader, saved)))
    }

    fn each_chunk(
        &self,
        reader: &mut RowsReader,
        next: fn(&mut RowsReader, &mut Vec<u8>) -> Result<Option<Chunk>, SnapshotError>,
        mut add: impl FnMut(&[u8]) -> Result<u64, RestoreFault>,
    ) -> Result<Loaded, LoadError> {
        let (mut payload, mut loaded) = (Vec::new(), Loaded::default());
        while let Some(chunk) = next(reader, &mut payload)? {
            let added = add(&payload);
            loaded.rows += added.map_err(|fault| rows_fault(reader, Some(chunk), fault))?;
            loaded.bytes += payload.len() as u64;
            self.progress.fetch_add(payload.len() as u64, Ordering::Relaxed);
        }
        Ok(loaded)
    }
}

fn rows_fault(reader: &RowsReader, chunk: Option<Chunk>, fault: RestoreFault) -> LoadError {
    match (fault, chunk) {
        (RestoreFault::Record(at, problem), Some(chunk)) => {
            LoadError::File(Box::new(reader.damaged_record(chunk, at, problem)))
        }
        (RestoreFault::Record(_, problem) | RestoreFault::Schema(problem), _) => {
            LoadError::Rows { file: reader.shown().to_string(), problem }
        }
    }
}

/// The columns of a table of a file.
pub(crate) fn saved_columns(head: &TableHead) -> Vec<ColumnLayout> {
    let column = |column: &ColumnHead| ColumnLayout {
        sql_type: column.sql_type,
        max_bytes: column.max_bytes,
        nullable: column.nullable,
    };
    head.columns.iter().map(column).collect()
}

/// The tables of a file, as the executor takes them.
fn saved_tables(heads: &[TableHead]) -> Vec<SavedTable> {
    let saved = |head: &TableHead| SavedTable {
        number: TableId(head.table),
        name: head.name.clone(),
        used_slots: head.used_slots,
        free_head: head.free_head,
        columns: saved_columns(head),
    };
    heads.iter().map(saved).collect()
}
