//! The command log of a simulated host: what the log's thread and the gates of the sites do, one
//! step at a time. Between two steps the host goes on, and between any two the power may fail.

use super::{Answer, Message, SimSite, World};
use crate::power::Broken;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{LogEnd, LogError, LogPosition, LogSettings, LogWriter};
use lockstep_env::Disk;
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::snapshots::LogProgress;
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cluster of all simulated hosts.
pub(crate) const CLUSTER: ClusterId = ClusterId([7; 16]);

/// The only simulated host.
const HOST: HostId = HostId(0);

/// What leaves a partition.
pub(crate) enum Held {
    /// To the coordinator.
    Message(Message),
    /// To a client.
    Answer(Answer),
}

/// Counts how often the log has taken what sites had logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogClock {
    taken: u64,
    /// What was logged before this time is durable.
    durable: u64,
    /// So is what was decided before this one.
    decided: u64,
}

impl LogClock {
    /// Whether what was answered when the clock stood so must be there now.
    pub(crate) fn covers(&self, before: LogClock, at_partition: bool) -> bool {
        before.taken < if at_partition { self.durable } else { self.decided }
    }
}

/// What the log does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Gather,
    Write,
    Sync,
}

/// The log, and who waits for it.
pub(crate) struct HostLog {
    disk: Arc<dyn Disk>,
    writer: LogWriter,
    phase: Phase,
    is_sealed: bool,
    /// By partition, the last entry of the group.
    gathered: Vec<u64>,
    /// By partition, what may be released when the log has more.
    gates: Vec<Gate<Held>>,
    failed: Option<LogError>,
    /// The disk has no room for what comes next.
    pub(super) waits_for_space: bool,
    pub(super) broken: Broken,
    /// One step of the host in N is the log's.
    one_in: u64,
    /// One group in N is synced, and answers wait for none; 0: each, and they wait.
    sync_every: u64,
    /// How often it has looked for what the sites logged, up to which of these times it is
    /// durable, and up to which after one when the host was at rest.
    clock: LogClock,
    /// The last time when the host was at rest.
    rest: u64,
    /// By partition, the last entry that is safe elsewhere, until the log has heard of it.
    covered: Option<BTreeMap<u32, u64>>,
    /// Segments that went.
    pub(super) pruned: u64,
    /// Bytes that the sites have logged.
    written_bytes: u64,
}

impl LogProgress for HostLog {
    fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn has_more_than(&self, sequences: &[u64]) -> bool {
        self.gates.iter().zip(sequences).any(|(gate, sequence)| gate.safe() > *sequence)
    }
}

impl HostLog {
    /// Goes on after the end of a log whose partitions end with these entries.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        (segment_bytes, seed, one_in, sync_every): (u32, u64, u64, u64),
        (end, sequences): (LogEnd, Vec<u64>),
        broken: Broken,
    ) -> Result<HostLog, LogError> {
        let settings = LogSettings { cluster: CLUSTER, segment_bytes, seed };
        let mut writer = LogWriter::open(Arc::clone(disk), settings, end)?;
        writer.inject(broken.log);
        Ok(HostLog {
            disk: Arc::clone(disk),
            writer,
            phase: Phase::Gather,
            is_sealed: true,
            gates: sequences
                .iter()
                .map(|sequence| Gate::new(SafePosition::of_copy(HOST, *sequence)))
                .collect(),
            gathered: sequences,
            failed: None,
            waits_for_space: false,
            broken,
            one_in,
            sync_every,
            clock: LogClock::default(),
            rest: 0,
            covered: None,
            pruned: 0,
            written_bytes: 0,
        })
    }

    /// Releases what depends on durable entries only, and keeps the rest.
    fn pass(&mut self, partition: PartitionId, entry: u64, held: Held) -> Option<Held> {
        let early = match &held {
            Held::Answer(_) => self.broken.answers_leave_early || self.sync_every > 0,
            Held::Message(_) => self.broken.votes_leave_early,
        };
        if early {
            return Some(held);
        }
        self.gates[partition.index()].pass(entry, held)
    }

    /// Checks what holds between two steps of a log that did not fail.
    pub(super) fn check_invariants(&self, sites: &[SimSite]) {
        if self.failed.is_some() {
            return;
        }
        self.writer.check_invariants();
        for (place, site) in sites.iter().enumerate() {
            let (gate, gathered) = (&self.gates[place], self.gathered[place]);
            assert!(
                gate.safe() <= gathered,
                "what is safe was taken from partition {place} before"
            );
            let logged = site.log_sequence();
            assert!(gathered <= logged, "{gathered} entries were taken of {logged} logged");
            gate.check_invariants();
        }
        let syncs = self.phase != Phase::Sync || self.writer.synced() < self.writer.position();
        assert!(syncs, "a group that was written waits for its sync");
    }

    /// Entries up to these are safe elsewhere.
    pub(super) fn prune(&mut self, covered: BTreeMap<u32, u64>) {
        self.covered = Some(covered);
    }

    fn has_work(&self, sites: &[SimSite]) -> bool {
        let handed_over = || sites.iter().any(SimSite::has_log_to_hand_over);
        let is_busy = self.phase != Phase::Gather || !self.is_sealed || self.covered.is_some();
        self.failed.is_none() && (is_busy || handed_over())
    }

    /// The next step; gives what it releases.
    fn step(&mut self, sites: &mut [SimSite], is_at_rest: bool) -> Vec<Held> {
        let mut left = Vec::new();
        if self.phase == Phase::Gather {
            self.clock.taken += 1;
            self.rest = if is_at_rest { self.clock.taken } else { self.rest };
        }
        if let Err(error) = self.work(sites, &mut left) {
            self.failed = Some(error);
        }
        left
    }

    fn work(&mut self, sites: &mut [SimSite], left: &mut Vec<Held>) -> Result<(), LogError> {
        let phase = self.phase;
        match phase {
            Phase::Gather => {
                let gathered = self.gather(sites, false);
                if let Some(covered) = self.covered.take() {
                    self.pruned += self.writer.prune(&covered)? as u64;
                }
                if gathered {
                    self.phase = Phase::Write;
                    return Ok(());
                }
                if self.is_sealed {
                    return Ok(());
                }
                self.sync()?;
                self.writer.seal()?;
                self.is_sealed = true;
            }
            Phase::Write => {
                let room = self.writer.make_room();
                self.waits_for_space = room.as_ref().is_err_and(LogError::is_full);
                if self.waits_for_space {
                    // A snapshot may have made segments free.
                    if let Some(covered) = self.covered.take() {
                        self.pruned += self.writer.prune(&covered)? as u64;
                    }
                    return Ok(());
                }
                room?;
                self.writer.write()?;
                self.is_sealed = false;
                self.phase = Phase::Sync;
                if self.sync_every > 0 {
                    self.release(left);
                    if !self.clock.taken.is_multiple_of(self.sync_every) {
                        self.phase = Phase::Gather;
                    }
                }
            }
            Phase::Sync => {
                self.sync()?;
                self.release(left);
                self.phase = Phase::Gather;
                if let Some(order) = self.writer.spare_to_make() {
                    let made = order.make(&*self.disk, &mut || true);
                    self.writer.spare_is_made(order, made == Ok(true));
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if !(self.broken.forgets_interval && self.sync_every > 0) {
            self.writer.sync()?;
        }
        self.clock.durable = self.clock.taken;
        self.clock.decided = self.rest;
        Ok(())
    }

    /// What the log has now is enough for those who wait.
    fn release(&mut self, left: &mut Vec<Held>) {
        for (gate, gathered) in self.gates.iter_mut().zip(&self.gathered) {
            gate.advance(HOST, *gathered);
            left.extend(std::iter::from_fn(|| gate.release()));
        }
    }

    /// Takes what the sites have logged, without `all` only what others may depend on; false if
    /// that is nothing.
    fn gather(&mut self, sites: &mut [SimSite], all: bool) -> bool {
        for (partition, site) in sites.iter_mut().enumerate() {
            let is_taken =
                if all { site.waiting_log_bytes() > 0 } else { site.has_log_to_hand_over() };
            if !is_taken {
                continue;
            }
            let handed = site.take_log(Vec::new());
            let (first, entries) = (handed.first_sequence, handed.entries);
            self.written_bytes += handed.bytes.len() as u64;
            self.writer.add(partition as u32, handed.source, first, entries, &handed.bytes);
            self.gathered[partition] = first + u64::from(entries) - 1;
        }
        self.writer.group_bytes() > 0
    }
}

impl World {
    /// From now on nothing leaves a partition before its log is durable; if that is asynchronous,
    /// nothing but answers before it is written.
    pub(crate) fn attach_log(&mut self, log: HostLog) {
        if log.sync_every == 0 {
            self.coordinator.await_durable_decisions();
        }
        self.log = Some(log);
    }

    /// How far the log has come.
    pub(crate) fn log_clock(&self) -> LogClock {
        self.log.as_ref().map_or(LogClock::default(), |log| log.clock)
    }

    /// The host stops in order, at rest: its log says that everything before this place is
    /// durable.
    pub(crate) fn finish_log(&mut self) -> Option<LogPosition> {
        let log = self.log.as_mut()?;
        if log.gather(&mut self.sites, true) {
            log.writer.make_room().and_then(|()| log.writer.write()).ok()?;
        }
        let synced = log.writer.position();
        let finished = log.writer.sync().and_then(|()| log.writer.seal());
        finished.and_then(|()| log.writer.sync()).ok()?;
        Some(synced)
    }

    /// Why the log cannot go on, if it cannot: the host stops.
    pub(crate) fn log_failure(&self) -> Option<String> {
        self.log.as_ref()?.failed.as_ref().map(ToString::to_string)
    }

    /// Whether the log waits for space on its disk.
    pub(crate) fn log_waits_for_space(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.waits_for_space)
    }

    pub(super) fn log_is_due(&mut self) -> bool {
        let Some(log) = &self.log else { return false };
        if !log.has_work(&self.sites) {
            return false;
        }
        let one_in = log.one_in;
        self.in_flight.is_empty() || self.random.chance(1, one_in)
    }

    pub(super) fn step_log(&mut self) {
        self.note(8);
        let is_at_rest = self.is_idle();
        let Some(log) = &mut self.log else { return };
        for held in log.step(&mut self.sites, is_at_rest) {
            self.let_go(held);
        }
    }

    /// Something leaves a partition as soon as the log allows.
    pub(super) fn leave(&mut self, partition: PartitionId, held: Held) {
        let entry = self.sites[partition.index()].needed_log_sequence();
        let left = match &mut self.log {
            Some(log) => log.pass(partition, entry, held),
            None => match &mut self.replicas {
                Some(replicas) => replicas.pass(partition, entry, held),
                None => Some(held),
            },
        };
        if let Some(held) = left {
            self.let_go(held);
        }
    }

    pub(super) fn let_go(&mut self, held: Held) {
        match held {
            Held::Message(message) => self.in_flight.push(message),
            Held::Answer(answer) => {
                self.at.remove(&answer.call);
                self.answers.push(answer);
            }
        }
    }
}

/// Messages between the coordinator and partitions may arrive twice; calls of clients are sent
/// once.
pub(super) fn copy_of(message: &Message) -> Option<Message> {
    match message {
        Message::Call(..)
        | Message::Multi(_)
        | Message::OneRound(..)
        | Message::Ordered(..)
        | Message::ToControl(..)
        | Message::Unordered(_)
        | Message::Poll(..)
        | Message::Fence(..) => None,
        Message::FromPartition(message) => Some(Message::FromPartition(message.clone())),
        Message::ToPartition(message) => Some(Message::ToPartition(message.clone())),
    }
}
