//! Snapshots of a simulated host: its sites encode a little at a time, and what a host's snapshot
//! thread does with it is done one message at a time, through the code that servers write
//! snapshots with. When one is whole, old ones go, and so does the log that they made superfluous.

use super::World;
use super::control::SNAPSHOT_CALL;
use super::log::CLUSTER;
use lockstep_durability::ClusterId;
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::snapshot::{
    ColumnHead, ContentKind, FileEntry, Manifest, PartitionPosition, RowsWriter, SnapshotError,
    TableEntry, TableHead, TableKind, clear, remove_outdated, rows_name, write_manifest,
};
use lockstep_env::Disk;
use lockstep_host::snapshots::{
    LogProgress, SnapshotKind, SnapshotSchedule, SnapshotSettings, beginning,
};
use lockstep_plan_ir::TableDefinition;
use lockstep_site::{MultiWork, SnapshotBegun, SnapshotStart};
use lockstep_storage::{ColumnLayout, RowsRecord, SnapshotProgress, SnapshotTable};
use lockstep_types::{PartitionId, TableId};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the names of snapshots begin with.
pub(crate) const PREFIX: &str = "AUTOSNAP";

/// How snapshots are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SavePlan {
    /// One step of the host in N begins one; 0 for none.
    pub(crate) one_in: u64,
    /// How many stay.
    pub(crate) kept: usize,
    /// Records are about this long.
    pub(crate) record_bytes: usize,
    /// A site encodes N bytes at a time.
    pub(crate) step_bytes: usize,
    /// The first one's number.
    pub(crate) next: u64,
}

/// What a site says of its snapshot.
enum FromSite {
    Begun(Box<SnapshotBegun>),
    Records(Vec<u8>),
    Done,
}

/// A site's way to the one that writes.
#[derive(Default)]
struct Lane {
    messages: VecDeque<FromSite>,
    is_encoding: bool,
    rows: Option<RowsWriter>,
}

/// The snapshot in progress.
struct Running {
    nonce: String,
    lanes: Vec<Lane>,
    /// The catalog when it began.
    catalog_version: u64,
    schema: String,
    /// The version of the classes.
    classes: Option<i64>,
    tables: Vec<Arc<TableDefinition>>,
    transaction: i64,
    positions: Vec<PartitionPosition>,
    /// Of the first partition, which saves all tables.
    heads: Vec<TableHead>,
    /// Tables that only the first partition saves.
    replicated: Vec<TableId>,
    files: Vec<FileEntry>,
}

/// The snapshots of a host.
pub(crate) struct Saves {
    disk: Arc<dyn Disk>,
    plan: SavePlan,
    schedule: SnapshotSchedule,
    /// The files of the one in progress.
    running: Option<Running>,
    /// Snapshots that are whole, that were given up, and segments of the log that went.
    pub(crate) counts: [u64; 3],
}

impl World {
    /// From now on the host saves snapshots.
    pub(crate) fn save_to(&mut self, disk: Arc<dyn Disk>, plan: SavePlan) {
        // One is due whenever the draw has it looked for, if something was logged since the last.
        let settings = SnapshotSettings {
            interval_us: Some(1),
            log_bytes: None,
            has_directory: true,
            has_log: self.log.is_some(),
        };
        let schedule = SnapshotSchedule::new(settings, 1);
        self.saves = Some(Saves { disk, plan, schedule, running: None, counts: [0; 3] });
    }

    /// From now on snapshots follow each other closely.
    pub(crate) fn save_often(&mut self) {
        if let Some(saves) = &mut self.saves {
            saves.plan.one_in = 10;
            saves.plan.kept = 1;
        }
    }

    /// How many snapshots are whole, and were given up; segments of the log that went.
    pub(crate) fn save_counts(&self) -> [u64; 3] {
        let mut counts = self.saves.as_ref().map_or([0; 3], |saves| saves.counts);
        counts[2] = self.log.as_ref().map_or(0, |log| log.pruned);
        counts
    }

    /// Whether a snapshot is in progress.
    pub(crate) fn is_saving(&self) -> bool {
        self.saves.as_ref().is_some_and(|saves| saves.schedule.is_running())
    }

    /// The schedule and the files agree on whether one is in progress.
    pub(super) fn check_saves(&self) {
        if let Some(saves) = &self.saves {
            saves.schedule.check_invariants();
            assert_eq!(saves.schedule.is_running(), saves.running.is_some(), "one in progress");
        }
    }

    pub(super) fn save_is_due(&mut self) -> bool {
        let Some(saves) = &self.saves else { return false };
        let has_work = saves.running.as_ref().is_some_and(|running| {
            running.lanes.iter().any(|lane| lane.is_encoding || !lane.messages.is_empty())
        });
        has_work && (self.in_flight.is_empty() || self.random.chance(1, 4))
    }

    /// Begins a snapshot, if the draw says so.
    pub(crate) fn draw_save(&mut self) {
        let Some(saves) = &mut self.saves else { return };
        let one_in = saves.plan.one_in;
        let may_begin = saves.schedule.is_free() && self.control.schema.is_quiet();
        if one_in == 0 || !may_begin || !self.random.chance(1, one_in) {
            return;
        }
        let log = self.log.as_ref().map(|log| log as &dyn LogProgress);
        if saves.schedule.is_due(self.now_us, log, 0) {
            saves.schedule.prepare(self.now_us);
            self.begin_save();
        }
    }

    fn begin_save(&mut self) {
        let partitions = self.sites.len();
        let (catalog_version, catalog) = self.latest();
        let (schema, classes) = (catalog.host.plan.schema_text(), catalog.classes());
        let tables = catalog.host.plan.tables.values().map(|table| Arc::clone(&table.definition));
        let tables: Vec<Arc<TableDefinition>> = tables.collect();
        let replicated = tables.iter().filter(|table| table.is_replicated());
        let replicated: Vec<TableId> = replicated.map(|table| table.id).collect();
        self.control.schema.begin_snapshot();
        let Some(saves) = &mut self.saves else { return };
        let nonce = format!("{PREFIX}{:08}", saves.plan.next);
        saves.plan.next += 1;
        saves.running = Some(Running {
            nonce: nonce.clone(),
            lanes: (0..partitions).map(|_| Lane::default()).collect(),
            catalog_version,
            schema,
            classes,
            tables,
            transaction: 0,
            positions: vec![PartitionPosition::default(); partitions],
            heads: Vec::new(),
            replicated: replicated.clone(),
            files: Vec::new(),
        });
        let record_bytes = saves.plan.record_bytes;
        let start = SnapshotStart { tables: None, replicated: replicated.into(), record_bytes };
        let log = self.log.as_ref().map(|log| log as &dyn LogProgress);
        saves.schedule.begin(SnapshotKind::Automatic, log);
        let task = beginning(&self.control.schema, catalog_version, &nonce, start);
        let task = Arc::new(task);
        self.bytes.note_prepared(&task);
        self.send_multi(SNAPSHOT_CALL, MultiWork::Schema(task));
    }

    /// The snapshot has begun at a partition.
    pub(super) fn save_begun(&mut self, partition: PartitionId, begun: Box<SnapshotBegun>) {
        let running = self.saves.as_mut().and_then(|saves| saves.running.as_mut());
        let Some(running) = running else { return };
        let lane = &mut running.lanes[partition.index()];
        lane.messages.push_back(FromSite::Begun(begun));
        lane.is_encoding = true;
    }

    /// The transaction of the snapshot is decided.
    pub(super) fn save_decided(&mut self, committed: bool) {
        if !committed {
            self.give_up_save();
        }
    }

    /// What has been written is of no use; the sites encode no more.
    fn give_up_save(&mut self) {
        let Some(saves) = &mut self.saves else { return };
        let Some(running) = saves.running.take() else { return };
        saves.counts[1] += 1;
        assert!(!saves.schedule.end(None, self.now_us), "nothing is older than what failed");
        // Its files only take up room.
        let _ = clear(&*saves.disk, SNAPSHOT_FOLDER, &running.nonce, CLUSTER);
        self.sites.iter_mut().for_each(super::SimSite::end_snapshot);
    }

    /// A site encodes a little, or the next message is written.
    pub(super) fn step_save(&mut self) {
        self.note(9);
        let partition = self.random.below(self.sites.len() as u64) as usize;
        let encodes = self.random.chance(1, 2);
        let Some(saves) = &mut self.saves else { return };
        let Some(running) = &mut saves.running else { return };
        let lane = &mut running.lanes[partition];
        if encodes && lane.is_encoding {
            let mut records = Vec::new();
            let step = self.sites[partition].snapshot_step(&mut records, saves.plan.step_bytes);
            if !records.is_empty() {
                lane.messages.push_back(FromSite::Records(records));
            }
            if step == SnapshotProgress::Done {
                lane.is_encoding = false;
                lane.messages.push_back(FromSite::Done);
            }
            return;
        }
        let Some(message) = lane.messages.pop_front() else { return };
        if running.write(&*saves.disk, partition, message).is_err() {
            return self.give_up_save();
        }
        if running.files.len() == self.sites.len() {
            self.finish_save();
        }
    }

    /// All rows are written and durable.
    fn finish_save(&mut self) {
        let Some(saves) = &mut self.saves else { return };
        let Some(running) = &mut saves.running else { return };
        let manifest = running.manifest();
        if write_manifest(&*saves.disk, SNAPSHOT_FOLDER, &manifest).is_err() {
            return self.give_up_save();
        }
        let sequences: Vec<u64> =
            manifest.positions.iter().map(|position| position.sequence).collect();
        saves.running = None;
        saves.counts[0] += 1;
        if !saves.schedule.end(Some(&sequences), self.now_us) {
            return;
        }
        let (disk, kept) = (&*saves.disk, (PREFIX, saves.plan.kept));
        let removed = remove_outdated(disk, SNAPSHOT_FOLDER, kept, CLUSTER, &mut |_| {});
        saves.schedule.tidied();
        if let (Ok(covered), Some(log)) = (removed, &mut self.log) {
            log.prune(covered);
        }
    }
}

impl Running {
    fn write(
        &mut self,
        disk: &dyn Disk,
        partition: usize,
        message: FromSite,
    ) -> Result<(), SnapshotError> {
        let lane = &mut self.lanes[partition];
        match message {
            FromSite::Begun(begun) => {
                self.transaction = begun.transaction.0 as i64;
                let SnapshotBegun { source, sequence, digest, last: transaction, .. } = *begun;
                self.positions[partition] =
                    PartitionPosition { source, sequence, transaction, digest };
                let heads = begun.tables.iter().map(|table| head(table, &self.tables));
                let heads: Vec<_> = heads.collect();
                let name = rows_name(&self.nonce, partition as u32);
                let of = (CLUSTER, self.transaction, partition as u32);
                lane.rows = Some(RowsWriter::create(disk, SNAPSHOT_FOLDER, &name, of, &heads)?);
                if partition == 0 {
                    self.heads = heads;
                }
            }
            FromSite::Records(records) => {
                let rows = lane.rows.as_mut().expect("it has begun");
                rows.mixed_records(&records, |input| {
                    let record = RowsRecord::take(input).expect("a site encodes whole records");
                    Ok(record.map(|record| self.replicated.contains(&record.table)))
                })?;
            }
            FromSite::Done => {
                let rows = lane.rows.take().expect("it has begun");
                self.files.push(rows.finish()?);
            }
        }
        Ok(())
    }

    fn manifest(&mut self) -> Manifest {
        let is_partitioned = |head: &TableHead| {
            let found = self.tables.iter().find(|table| table.id.0 == head.table);
            found.is_some_and(|table| table.is_partitioned())
        };
        let entry = |head: &TableHead| TableEntry {
            name: head.name.clone(),
            kind: match is_partitioned(head) {
                true => TableKind::Partitioned,
                false => TableKind::Replicated,
            },
            rows: head.rows,
        };
        let mut tables: Vec<_> = self.heads.iter().map(entry).collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Manifest {
            catalog_version: self.catalog_version,
            planning: self.classes.map_or(Vec::new(), |version| version.to_le_bytes().into()),
            positions: std::mem::take(&mut self.positions),
            tables,
            files: std::mem::take(&mut self.files),
            schema: std::mem::take(&mut self.schema),
            ..native_manifest(CLUSTER, &self.nonce, self.transaction)
        }
    }
}

/// The manifest of a snapshot from which recovery begins, without what it has.
pub(crate) fn native_manifest(cluster: ClusterId, nonce: &str, transaction: i64) -> Manifest {
    Manifest {
        release: lockstep_durability::RELEASE.to_string(),
        cluster,
        nonce: nonce.to_string(),
        content: ContentKind::Native,
        transaction,
        created_ms: 0,
        part: None,
        catalog_version: 0,
        planning: Vec::new(),
        positions: Vec::new(),
        tables: Vec::new(),
        files: Vec::new(),
        schema: String::new(),
    }
}

fn head(table: &SnapshotTable, tables: &[Arc<TableDefinition>]) -> TableHead {
    let column = |column: &ColumnLayout| ColumnHead {
        sql_type: column.sql_type,
        nullable: column.nullable,
        max_bytes: if column.sql_type.is_variable_length() { column.max_bytes } else { 0 },
    };
    let definition = tables.iter().find(|known| known.id == table.table);
    TableHead {
        table: table.table.0,
        name: table.name.to_string(),
        rows: table.rows,
        used_slots: table.used_slots,
        free_head: table.free_head,
        columns: table.columns.iter().map(column).collect(),
        partition_columns: definition.map_or(Vec::new(), |known| known.partition_columns.clone()),
    }
}
