//! The thread that writes a snapshot: takes what the sites encode, and ends with the manifest.

use super::lane::{FromSite, RECORD_BYTES, ThreadLane};
use super::{SaveResult, Saved, table_head};
use crate::clock;
use lockstep_durability::ClusterId;
use lockstep_durability::snapshot::{
    ContentKind, FileWriter, HostPart, Manifest, PartitionPosition, RowsWriter, SnapshotError,
    TableEntry, TableKind, classes_name, csv, rows_name_of, write_manifest,
};
use lockstep_env::{Disk, DiskErrorKind};
use lockstep_plan_ir::TableDefinition;
use lockstep_site::{SnapshotBegun, SnapshotStart};
use lockstep_storage::{RowsRecord, SnapshotTable, StorageError, TableLayout};
use lockstep_types::{PartitionId, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long the thread sleeps when nobody wakes it.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often it looks whether the snapshot may count.
const LOOK: Duration = Duration::from_millis(10);
/// CSV text is written when there is this much of it.
const TEXT_BYTES: usize = 1 << 20;

/// What to save and where to.
pub(crate) struct SaveJob {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: String,
    pub(crate) nonce: String,
    pub(crate) content: ContentKind,
    pub(crate) cluster: ClusterId,
    pub(crate) catalog_version: u64,
    pub(crate) schema: String,
    /// What the catalog's procedures were planned with.
    pub(crate) planning: Vec<u8>,
    pub(crate) classes: Option<Arc<[u8]>>,
    /// The tables that are saved.
    pub(crate) tables: Vec<Arc<TableDefinition>>,
    /// Of the partitions that this host leads.
    pub(crate) lanes: Vec<(PartitionId, ThreadLane)>,
    /// How many there are in all.
    pub(crate) partition_count: u32,
    /// The host, if it is one of several, which save their partitions.
    pub(crate) host: Option<u32>,
    /// Set when the thread writes no more: sites give up then.
    pub(crate) given_up: Arc<AtomicBool>,
    /// Set from outside when nobody wants the snapshot any more.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// Bytes written so far.
    pub(crate) progress: Arc<AtomicU64>,
    /// Of a host of several that saves all of its copies for its own starts.
    pub(crate) kept: Option<KeptJob>,
    /// The files that were made: those that go when the snapshot is given up.
    pub(crate) created: Mutex<Vec<String>>,
}

/// By partition, whether the command log is durable up to these entries.
pub(crate) type IsDurable = dyn Fn(&[u64]) -> bool + Send;

/// What the thread of a host of several that keeps its copies waits for before the snapshot counts:
/// no host gives up what its log has before the logs of all have what was decided up to there.
pub(crate) struct KeptJob {
    pub(crate) is_durable: Box<IsDurable>,
    /// Tells that all files are written but the manifest, and the log durable up to there.
    pub(crate) note_written: Box<dyn Fn() + Send>,
    /// Set from outside once that is so at all hosts.
    pub(crate) counts: Arc<AtomicBool>,
}

/// A snapshot of these tables.
pub(crate) fn snapshot_start(tables: &[Arc<TableDefinition>]) -> SnapshotStart {
    let replicated = tables.iter().filter(|table| table.is_replicated());
    SnapshotStart {
        tables: Some(tables.iter().map(|table| table.id).collect()),
        replicated: replicated.map(|table| table.id).collect(),
        record_bytes: RECORD_BYTES,
    }
}

/// How a table lies over the partitions.
pub(crate) fn table_kind(definition: &TableDefinition) -> TableKind {
    match definition {
        table if table.view.is_some() => TableKind::Derived,
        table if table.entries_of.is_some() => TableKind::Entries,
        table if table.is_replicated() => TableKind::Replicated,
        _ => TableKind::Partitioned,
    }
}

/// A partition's rows as they arrive.
enum Sink {
    /// Not begun.
    Waiting,
    Rows(Box<RowsWriter>),
    Csv,
    Ended,
}

/// A table's text.
struct CsvTable {
    definition: Arc<TableDefinition>,
    layout: TableLayout,
    file: FileWriter,
    text: Vec<u8>,
}

struct Writing<'j> {
    job: &'j SaveJob,
    /// By partition.
    sinks: Vec<Sink>,
    /// The partitions that this host saves.
    saved: Vec<PartitionId>,
    texts: BTreeMap<TableId, CsvTable>,
    /// Tables that only the first partition saves.
    replicated: BTreeSet<TableId>,
    transaction: i64,
    positions: Vec<PartitionPosition>,
    rows: BTreeMap<TableId, u64>,
    manifest_files: Vec<lockstep_durability::snapshot::FileEntry>,
    saved_files: Vec<(Option<String>, String, u64)>,
}

/// Writes the snapshot to its end. On failure what was written is removed.
pub(crate) fn run(mut job: SaveJob) -> SaveResult {
    let lanes = std::mem::take(&mut job.lanes);
    let result = write(&job, lanes);
    job.given_up.store(true, Ordering::Release);
    // It has no manifest, so it does not exist: its files only take up room. Those that were there
    // before are somebody's.
    if result.is_err() {
        for name in &*job.created.lock().expect("no holder of the lock panics") {
            let _ = job.disk.remove(&job.path(name));
        }
        let _ = job.disk.sync_folder(&job.folder);
    }
    result
}

impl SaveJob {
    /// The number in the names of the files.
    fn file_host(&self) -> u32 {
        self.host.unwrap_or(0)
    }

    fn path(&self, name: &str) -> String {
        match self.folder.as_str() {
            "" => name.to_string(),
            folder => format!("{folder}/{name}"),
        }
    }

    fn is_given_up(&self) -> SnapshotError {
        let file = self.disk.shown(&self.folder);
        let problem = format!("snapshot {} was given up", self.nonce);
        SnapshotError::refused(file, problem, "save again")
    }

    /// Waits until the snapshot may count, which has everything up to these entries.
    fn await_others(&self, sequences: &[u64]) -> Result<(), SnapshotError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let mut is_told = false;
        while !is_told || !kept.counts.load(Ordering::Acquire) {
            if self.cancelled.load(Ordering::Acquire) {
                return Err(self.is_given_up());
            }
            if !is_told && (kept.is_durable)(sequences) {
                (kept.note_written)();
                is_told = true;
                continue;
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    /// Notes a file that was made, wholly or in part: all but one that was there before.
    fn note<T>(&self, name: &str, made: Result<T, SnapshotError>) -> Result<T, SnapshotError> {
        if !matches!(&made, Err(error) if error.disk == Some(DiskErrorKind::Exists)) {
            self.created.lock().expect("no holder of the lock panics").push(name.to_string());
        }
        made
    }
}

fn write(job: &SaveJob, mut lanes: Vec<(PartitionId, ThreadLane)>) -> SaveResult {
    if lanes.is_empty() {
        // A host that leads nothing has no part of the snapshot.
        return Ok(Saved::default());
    }
    let replicated = job.tables.iter().filter(|table| table.is_replicated());
    let mut writing = Writing {
        job,
        sinks: (0..job.partition_count).map(|_| Sink::Waiting).collect(),
        saved: lanes.iter().map(|(partition, _)| *partition).collect(),
        texts: BTreeMap::new(),
        replicated: replicated.map(|table| table.id).collect(),
        transaction: 0,
        positions: vec![PartitionPosition::default(); job.partition_count as usize],
        rows: BTreeMap::new(),
        manifest_files: Vec::new(),
        saved_files: Vec::new(),
    };
    let mut ended = 0;
    while ended < lanes.len() {
        let mut idle = true;
        for (partition, lane) in &mut lanes {
            let partition = partition.index();
            let Some(message) = lane.from_site.pop() else { continue };
            idle = false;
            match message {
                FromSite::Begun(begun) => writing.begin(partition, &begun)?,
                FromSite::Records(records) => {
                    writing.records(partition, &records)?;
                    lane.give_back(records);
                }
                FromSite::Done => {
                    writing.end(partition)?;
                    ended += 1;
                }
            }
        }
        let deserted = lanes.iter_mut().any(|(partition, lane)| {
            let ended = matches!(writing.sinks[partition.index()], Sink::Ended);
            !ended && lane.from_site.is_closed() && lane.from_site.is_empty()
        });
        if deserted || job.cancelled.load(Ordering::Acquire) {
            return Err(job.is_given_up());
        }
        if idle {
            std::thread::park_timeout(PATIENCE);
        }
    }
    writing.finish()
}

fn broken_record(job: &SaveJob, error: StorageError) -> SnapshotError {
    SnapshotError::refused(job.disk.shown(&job.folder), error.to_string(), "report this")
}

impl Writing<'_> {
    fn begin(&mut self, partition: usize, begun: &SnapshotBegun) -> Result<(), SnapshotError> {
        let job = self.job;
        self.transaction = begun.transaction.0 as i64;
        let SnapshotBegun { source, sequence, digest, last: transaction, .. } = *begun;
        self.positions[partition] = PartitionPosition { source, sequence, transaction, digest };
        for table in &begun.tables {
            let definition = job.tables.iter().find(|known| known.id == table.table);
            let replicated = definition.is_some_and(|known| known.is_replicated());
            if PartitionId(partition as u32) == self.saved[0] || !replicated {
                *self.rows.entry(table.table).or_default() += table.rows;
            }
        }
        self.sinks[partition] = match job.content {
            ContentKind::Native => {
                let name = rows_name_of(&job.nonce, job.file_host(), partition as u32);
                let of = (job.cluster, self.transaction, partition as u32);
                let head = |table: &SnapshotTable| {
                    let definition = job.tables.iter().find(|known| known.id == table.table);
                    definition.map(|definition| table_head(table, definition))
                };
                let heads: Vec<_> = begun.tables.iter().filter_map(head).collect();
                let rows = RowsWriter::create(&*job.disk, &job.folder, &name, of, &heads);
                let rows = job.note(&name, rows)?;
                Sink::Rows(Box::new(rows))
            }
            ContentKind::Csv => {
                self.begin_texts(begun)?;
                Sink::Csv
            }
        };
        Ok(())
    }

    fn begin_texts(&mut self, begun: &SnapshotBegun) -> Result<(), SnapshotError> {
        let job = self.job;
        for table in &begun.tables {
            let definition = job.tables.iter().find(|known| known.id == table.table);
            let Some(definition) = definition else { continue };
            if self.texts.contains_key(&table.table) {
                continue;
            }
            let name = csv::file_name(&job.nonce, &definition.name, job.file_host());
            let file = job.note(&name, FileWriter::create(&*job.disk, &job.folder, &name))?;
            let layout =
                TableLayout::new(&table.columns).map_err(|error| broken_record(job, error))?;
            let (definition, text) = (Arc::clone(definition), Vec::new());
            self.texts.insert(table.table, CsvTable { definition, layout, file, text });
        }
        Ok(())
    }

    fn records(&mut self, partition: usize, records: &[u8]) -> Result<(), SnapshotError> {
        let written = match &mut self.sinks[partition] {
            Sink::Rows(rows) if partition > 0 || self.replicated.is_empty() => {
                rows.records(records)?;
                records.len()
            }
            Sink::Rows(rows) => {
                rows.mixed_records(records, |input| {
                    let record = RowsRecord::take(input);
                    let record = record.map_err(|error| broken_record(self.job, error))?;
                    Ok(record.map(|record| self.replicated.contains(&record.table)))
                })?;
                records.len()
            }
            Sink::Csv => self.write_texts(partition, records)?,
            Sink::Waiting | Sink::Ended => 0,
        };
        self.job.progress.fetch_add(written as u64, Ordering::Relaxed);
        Ok(())
    }

    fn write_texts(&mut self, partition: usize, records: &[u8]) -> Result<usize, SnapshotError> {
        let broken = |error| broken_record(self.job, error);
        let (mut input, mut written) = (records, 0);
        while let Some(record) = RowsRecord::take(&mut input).map_err(broken)? {
            let Some(table) = self.texts.get_mut(&record.table) else { continue };
            if partition > 0 && table.definition.is_replicated() {
                continue;
            }
            let visible = usize::from(table.definition.visible_columns);
            let text = &mut table.text;
            let read = record.read_rows(&table.layout, &table.definition.name, |_, row| {
                let columns = table.definition.columns[..visible].iter();
                let values = columns.map(|column| column.sql_type).zip(row.columns());
                csv::write_row(text, values);
                Ok::<(), StorageError>(())
            });
            read.map_err(broken)?;
            if table.text.len() >= TEXT_BYTES {
                table.file.append(&table.text)?;
                written += table.text.len();
                table.text.clear();
            }
        }
        Ok(written)
    }

    fn end(&mut self, partition: usize) -> Result<(), SnapshotError> {
        match std::mem::replace(&mut self.sinks[partition], Sink::Ended) {
            Sink::Rows(rows) => self.add_file(None, rows.finish()?),
            Sink::Csv | Sink::Waiting | Sink::Ended => {}
        }
        Ok(())
    }

    fn add_file(&mut self, table: Option<String>, entry: lockstep_durability::snapshot::FileEntry) {
        self.saved_files.push((table, entry.name.clone(), entry.bytes));
        self.manifest_files.push(entry);
    }

    fn finish(mut self) -> SaveResult {
        let job = self.job;
        for (_, mut table) in std::mem::take(&mut self.texts) {
            table.file.append(&table.text)?;
            self.add_file(Some(table.definition.name.clone()), table.file.finish()?);
        }
        let has_first = self.saved.contains(&PartitionId(0)) || job.kept.is_some();
        if let Some(jar) = job.classes.as_ref().filter(|_| has_first) {
            let name = classes_name(&job.nonce, job.file_host());
            let made = FileWriter::create(&*job.disk, &job.folder, &name);
            let mut file = job.note(&name, made)?;
            file.append(jar)?;
            self.add_file(None, file.finish()?);
        }
        let mut tables: Vec<TableEntry> = job
            .tables
            .iter()
            .map(|definition| TableEntry {
                name: definition.name.clone(),
                kind: table_kind(definition),
                rows: self.rows.get(&definition.id).copied().unwrap_or(0),
            })
            .collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let partitions: Vec<u32> = self.saved.iter().map(|partition| partition.0).collect();
        let is_own = job.kept.is_some();
        let manifest = Manifest {
            part: job.host.map(|host| HostPart { host, is_own, partitions }),
            release: lockstep_durability::RELEASE.to_string(),
            cluster: job.cluster,
            nonce: job.nonce.clone(),
            content: job.content,
            transaction: self.transaction,
            created_ms: clock::now_us() / 1000,
            catalog_version: job.catalog_version,
            planning: job.planning.clone(),
            positions: self.positions,
            tables,
            files: self.manifest_files,
            schema: job.schema.clone(),
        };
        let sequences: Vec<u64> = manifest.positions.iter().map(|it| it.sequence).collect();
        job.await_others(&sequences)?;
        let entry = write_manifest(&*job.disk, &job.folder, &manifest)?;
        self.saved_files.push((None, entry.name, entry.bytes));
        let bytes = self.saved_files.iter().map(|(_, _, bytes)| bytes).sum();
        let (transaction, files) = (self.transaction, self.saved_files);
        Ok(Saved { transaction, files, bytes, sequences })
    }
}
