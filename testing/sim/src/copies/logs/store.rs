//! The command log of a host: what its thread does, one step at a time.

use super::{CLUSTER, Host, Logs, PARTITION, Role};
use crate::power::survival;
use lockstep_durability::command_log::{LogEnd, LogFaults, LogSettings, LogWriter};
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_txn::replica::Piece;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A command log that is written.
pub(super) struct Store {
    disk: Arc<dyn Disk>,
    writer: LogWriter,
    /// The last entries of the copy that were added, were written, and are durable.
    added: u64,
    written: u64,
    pub(super) durable: u64,
}

impl Store {
    /// Goes on with the log of a directory, in which a copy has the entries up to one.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        (log_end, end): (LogEnd, u64),
        faults: LogFaults,
    ) -> Result<Store, String> {
        let writer = LogWriter::open(Arc::clone(&disk), settings, log_end);
        let mut writer = writer.map_err(|error| error.to_string())?;
        writer.inject(faults);
        Ok(Store { disk, writer, added: end, written: end, durable: end })
    }

    pub(super) fn add(&mut self, piece: &Piece) {
        let Piece { source, first, entries, bytes } = piece;
        self.writer.add(PARTITION.0, *source, *first, *entries, bytes);
        self.added = piece.last();
    }

    /// A copy is loaded with the data up to an entry: its log goes on after that.
    pub(super) fn restart(&mut self, position: u64) {
        (self.added, self.written, self.durable) = (position, position, position);
    }

    /// Writes what was added, or syncs what was written; true if more is durable.
    fn step(&mut self, seals: bool) -> Result<bool, String> {
        let mut work = || {
            if self.writer.group_bytes() > 0 {
                self.writer.write()?;
                self.written = self.added;
                return Ok(false);
            }
            if self.writer.synced() == self.writer.position() {
                return Ok(false);
            }
            self.writer.sync()?;
            self.durable = self.written;
            if let Some(order) = self.writer.spare_to_make() {
                let made = order.make(&*self.disk, &mut || true);
                self.writer.spare_is_made(order, made == Ok(true));
            }
            if seals {
                self.writer.seal()?;
            }
            Ok(true)
        };
        work().map_err(|error: lockstep_durability::command_log::LogError| error.to_string())
    }

    pub(super) fn prune(&mut self, covered: &BTreeMap<u32, u64>) -> Result<u64, String> {
        let pruned = self.writer.prune(covered).map_err(|error| error.to_string())?;
        Ok(pruned as u64)
    }
}

impl Logs {
    pub(super) fn settings(&mut self) -> LogSettings {
        let segment_bytes = self.segment_bytes;
        LogSettings { cluster: CLUSTER, segment_bytes, seed: self.random.next_u64() }
    }

    /// The log of a host goes a step further; what is durable then is reported.
    pub(super) fn step_store(&mut self, host: usize) -> Result<(), String> {
        let seals = self.random.chance(1, 8);
        let Host { role, store: Some(store), .. } = &mut self.hosts[host] else { return Ok(()) };
        if !store.step(seals)? {
            return Ok(());
        }
        let durable = store.durable;
        match role {
            Role::Leader(_) => self.note_own_durable(host, durable),
            Role::Follower(copy) => {
                copy.note_durable(durable.min(copy.end()));
                self.send_receipts(host);
            }
            Role::Down | Role::Waiting => {}
        }
        Ok(())
    }

    /// The power of a host is cut; its memory is gone.
    pub(super) fn cut_one(&mut self, number: usize) {
        if matches!(self.hosts[number].role, Role::Down) {
            return;
        }
        self.report.cuts_of_one += 1;
        self.forget_learner(number);
        self.stop(number);
        let mode = self.random.below(3);
        let random = &mut self.random;
        self.hosts[number].disk.cut_power(|write| survival(random, mode, write));
    }

    fn stop(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        (host.role, host.store, host.learning) = (Role::Down, None, None);
        host.log.clear();
        host.saves.clear();
        self.sealed.remove(&number);
        self.links.retain(|(from, to), _| *from != number && *to != number);
    }

    /// The power of all hosts is cut at one moment.
    pub(super) fn cut_all(&mut self) {
        let disks: Vec<MemoryDisk> = self.hosts.iter().map(|host| host.disk.clone()).collect();
        let mode = self.random.below(3);
        let random = &mut self.random;
        let left = MemoryDisk::survivors(&disks, |write| survival(random, mode, write));
        for (number, disk) in left.into_iter().enumerate() {
            self.stop(number);
            self.hosts[number].disk = disk;
            self.hosts[number].is_cut_off = false;
        }
        self.saving = None;
    }
}
