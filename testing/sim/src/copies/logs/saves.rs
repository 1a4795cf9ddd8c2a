//! Snapshots of the hosts' own copies, as of one entry: none counts before the logs of all have
//! everything up to there.

use super::streams::transaction_of;
use super::{CLUSTER, Logs, PARTITION, PREFIX, Role};
use crate::world::save::native_manifest;
use lockstep_durability::directory::{SNAPSHOT_FOLDER, rejoin};
use lockstep_durability::snapshot::{
    FileEntry, FileWriter, HostPart, Manifest, PartitionPosition, SnapshotError, remove_outdated,
    rows_name_of, write_manifest,
};
use lockstep_env::{Disk, OpenMode};
use lockstep_txn::log_entry::LogSource;
use std::collections::BTreeMap;

/// Bytes of an entry: its epoch and its number.
const ENTRY_BYTES: usize = 12;

/// A snapshot that has begun.
pub(super) struct Saving {
    source: LogSource,
    entry: u64,
    number: u64,
    /// All with a copy in sync, and those whose copies have been loaded, with the attempt.
    hosts: BTreeMap<usize, Option<u64>>,
}

/// A snapshot of a host that counts, and is to be written.
pub(super) struct Save {
    position: PartitionPosition,
    nonce: String,
    transaction: i64,
    data: Vec<(u32, u64)>,
    /// The attempt to load the copy whose data it has.
    attempt: Option<u64>,
    rows: Option<FileEntry>,
    is_whole: bool,
}

/// The entries that a snapshot has.
pub(super) fn read_rows(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<(u32, u64)>, String> {
    let file = manifest.files.first().ok_or("a snapshot has a file")?;
    let mut bytes = vec![0; file.bytes as usize];
    let opened = disk.open(&format!("{SNAPSHOT_FOLDER}/{}", file.name), OpenMode::Read);
    let read = opened.and_then(|opened| opened.read_at(0, &mut bytes));
    if read.map_err(|error| error.to_string())? < bytes.len() {
        return Err(format!("snapshot {} is cut off", manifest.nonce));
    }
    let entry = |bytes: &[u8]| {
        let (epoch, number) = bytes.split_at(4);
        let epoch = u32::from_le_bytes(epoch.try_into().expect("four bytes"));
        (epoch, u64::from_le_bytes(number.try_into().expect("eight bytes")))
    };
    Ok(bytes.chunks_exact(ENTRY_BYTES).map(entry).collect())
}

impl Logs {
    /// A snapshot of all copies that have data begins: it is an entry at each.
    pub(super) fn begin_save(&mut self) {
        if self.saves_one_in == 0 || !self.random.chance(1, self.saves_one_in) {
            return;
        }
        self.save_all();
    }

    pub(super) fn save_all(&mut self) {
        let leader = self.placement.leader;
        if self.saving.is_some() || self.hosts[leader].role.epoch() != Some(self.placement.epoch) {
            return;
        }
        let number = self.take_number();
        let Role::Leader(state) = &mut self.hosts[leader].role else { return };
        if state.stream.is_sealed() {
            return;
        }
        state.round.push(number);
        self.end_round(leader);
        let Role::Leader(state) = &self.hosts[leader].role else { return };
        let (source, entry) = (state.source, state.stream.end());
        let all = self.hosts.iter().enumerate();
        let has_data = all.filter(|(_, host)| host.role.epoch() == Some(source.epoch));
        let has_data = has_data.map(|(number, _)| number);
        let in_sync = self.placement.in_sync.iter().map(|host| host.0 as usize);
        let hosts = in_sync.chain(has_data).map(|number| (number, self.attempt_of(number)));
        let hosts = hosts.collect();
        self.saving = Some(Saving { source, entry, number, hosts });
    }

    /// The attempt to load a copy that is not in sync.
    fn attempt_of(&self, number: usize) -> Option<u64> {
        self.hosts[number].learning.map(|learning| learning.attempt)
    }

    /// The snapshot that has begun counts once all have it on disk; it is given up if one of them
    /// has gone.
    fn advance_saving(&mut self) {
        let Some(Saving { source, entry, number, hosts }) = &self.saving else { return };
        // A host that was lost may be back, and load its copy again.
        let is_there = |(number, attempt): (&usize, &Option<u64>)| {
            let epoch = self.hosts[*number].role.epoch();
            epoch == Some(source.epoch) && self.attempt_of(*number) == *attempt
        };
        if self.placement.epoch != source.epoch || !hosts.iter().all(is_there) {
            self.saving = None;
            return;
        }
        let durable = |number: &usize| self.hosts[*number].store.as_ref().map(|it| it.durable);
        if !hosts.keys().all(|number| durable(number) >= Some(*entry)) {
            return;
        }
        let transaction = transaction_of(*number);
        let position =
            PartitionPosition { source: *source, sequence: *entry, transaction, digest: 0 };
        let nonce = format!("{PREFIX}{number}");
        for (number, attempt) in hosts.clone() {
            let host = &mut self.hosts[number];
            host.saves.push_back(Save {
                position,
                nonce: nonce.clone(),
                transaction: transaction.0 as i64,
                data: host.log[..position.sequence as usize].to_vec(),
                attempt,
                rows: None,
                is_whole: false,
            });
        }
        self.saving = None;
    }

    /// A host writes a part of its next snapshot.
    pub(super) fn step_save(&mut self, number: usize) -> Result<(), String> {
        self.advance_saving();
        let disk = self.disk(number);
        let host = &mut self.hosts[number];
        let Some(save) = host.saves.front_mut() else { return Ok(()) };
        if save.rows.is_none() {
            let rows = save.write_rows(&*disk, number as u32);
            save.rows = Some(rows.map_err(|error| error.to_string())?);
            return Ok(());
        }
        if !save.is_whole {
            let manifest = save.manifest(number as u32);
            let written = write_manifest(&*disk, SNAPSHOT_FOLDER, &manifest);
            written.map_err(|error| error.to_string())?;
            save.is_whole = true;
            return Ok(());
        }
        let save = host.saves.pop_front().expect("it was looked at");
        if host.is_joining {
            rejoin::end(&*disk).map_err(|error| error.to_string())?;
            host.is_joining = false;
        }
        if let Some(learning) = &mut host.learning {
            learning.is_kept |= save.attempt == Some(learning.attempt);
        }
        self.report.saves += 1;
        let kept = (PREFIX, 1 + self.random.below(2) as usize);
        let covered = remove_outdated(&*disk, SNAPSHOT_FOLDER, kept, CLUSTER, &mut |_| {});
        let covered = covered.map_err(|error| error.to_string())?;
        if let Some(store) = &mut self.hosts[number].store {
            self.report.pruned += store.prune(&covered)?;
        }
        Ok(())
    }
}

impl Save {
    fn write_rows(&self, disk: &dyn Disk, host: u32) -> Result<FileEntry, SnapshotError> {
        let name = rows_name_of(&self.nonce, host, PARTITION.0);
        let mut file = FileWriter::create(disk, SNAPSHOT_FOLDER, &name)?;
        for (epoch, number) in &self.data {
            file.append(&epoch.to_le_bytes())?;
            file.append(&number.to_le_bytes())?;
        }
        file.finish()
    }

    fn manifest(&self, host: u32) -> Manifest {
        Manifest {
            part: Some(HostPart { host, is_own: true, partitions: vec![PARTITION.0] }),
            catalog_version: 1,
            positions: vec![self.position],
            files: self.rows.iter().cloned().collect(),
            ..native_manifest(CLUSTER, &self.nonce, self.transaction)
        }
    }
}
