//! A copy of a partition is loaded from its leader while that goes on: for a host that has come
//! back, or a copy that has to begin again.
//!
//! 1. The copy asks ([`CopyMessage::AskLoad`]), naming the run of its process and the epoch that it
//!    knows.
//! 2. The leader begins a snapshot of its data after an entry at which nothing is undecided, and
//!    keeps what it logs from then on ([`lockstep_txn::replica::ReplicaStream::begin_learner`]). It
//!    sends a head, the rows in parts, and an end. Only some parts are on their way at a time; the
//!    copy says which it has taken.
//! 3. The copy applies what was logged since, like any other one that follows. When it has nearly
//!    all, answers wait for it, and then it is taken in sync in a new epoch.
//!
//! With a command log a copy in sync has to survive a stop of all hosts. So its host first saves
//! all of its copies, as of one transaction, and the copy says that it is kept
//! ([`CopyMessage::Kept`]); its own log has what follows.
//!
//! Parts of another attempt than the last one are not taken. A new epoch in which the copy is not
//! in sync, or a leader that gives the copy up, begins another attempt. A copy that gets nothing
//! repeats its ask: a leader may have heard of placements in which it is not to be loaded.
//!
//! [`CopyMessage::AskLoad`]: crate::follower::codec::CopyMessage::AskLoad
//! [`CopyMessage::Kept`]: crate::follower::codec::CopyMessage::Kept

use crate::follower::{Follower, FollowerLimits};
use lockstep_base::elapsed::Elapsed;
use lockstep_exec::snapshot::{
    DatabaseRestore, RestoreFault, SavedTable, SnapshotProgress, SnapshotTable,
};
use lockstep_site::Site;
use lockstep_site::fence::FenceReport;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{EpochHistory, ReplicaStream};
use lockstep_types::{HostId, PartitionId};
use std::collections::VecDeque;

/// A part with rows is about this long, bytes.
const PART_BYTES: usize = 128 * 1024;
/// A record of a part is about this long, bytes: what a change that forces one out waits for.
const RECORD_BYTES: usize = 8 * 1024;
/// Parts that may be on their way.
const PARTS_MAX: u32 = 16;
/// Between two proposals to take a copy in sync.
const PROPOSE_EVERY_US: u64 = 500_000;

/// What a copy begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadHead {
    /// The epoch in which its leader leads.
    pub epoch: u32,
    /// The last entry that its data have.
    pub position: u64,
    /// Who ordered that entry.
    pub source: LogSource,
    /// The digest of changes there.
    pub digest: u64,
    /// Where the epochs began.
    pub history: EpochHistory,
    /// What the partition knows of its coordinator's transactions.
    pub known: FenceReport,
    /// Its tables.
    pub tables: Vec<SavedTable>,
}

/// A part of what a copy is loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadPart {
    /// The first one.
    Head(Box<LoadHead>),
    /// Rows.
    Rows(Vec<u8>),
    /// That was all.
    End,
}

/// An attempt of a copy to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The run of its process.
    pub incarnation: u64,
    /// The epoch of the partition that it knows.
    pub epoch: u32,
    /// The attempts of the copy, this one included.
    pub number: u32,
}

/// A part of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedPart {
    /// The attempt.
    pub attempt: Attempt,
    /// The number of the part, from 1.
    pub number: u32,
    /// The part.
    pub part: LoadPart,
}

/// The copies that are loaded from a leader: one at a time, others wait.
#[derive(Debug, Default)]
pub struct CopyLoads {
    /// The last ask of each host that waits.
    waiting: VecDeque<(HostId, Attempt)>,
    current: Option<CurrentLoad>,
    /// Copies that have their data, and the attempts.
    loaded: Vec<(HostId, Attempt)>,
    /// Those of them with which a start of their host begins.
    kept: Vec<HostId>,
    /// Those of them that the control plane is to take in sync, and when that was proposed last.
    proposed: Vec<(HostId, i64)>,
}

#[derive(Debug)]
struct CurrentLoad {
    host: HostId,
    attempt: Attempt,
    /// The number of the part that was sent last.
    sent: u32,
    /// The number of the part that the copy has taken last.
    taken: u32,
    /// All rows are encoded.
    is_encoded: bool,
    /// The end was sent.
    is_sent: bool,
}

impl CopyLoads {
    /// Whether a copy is loaded, or waits for it, or has its data and is not in sync.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty() || !self.loaded.is_empty()
    }

    /// Whether a step has something to do.
    pub fn can_step(&self) -> bool {
        match &self.current {
            Some(current) => !current.is_sent && current.sent - current.taken < PARTS_MAX,
            None => !self.waiting.is_empty(),
        }
    }

    /// A copy asks. What was on its way to it before is void.
    pub fn ask<H, A, C: Clone>(&mut self, host: HostId, ask: Attempt, site: &mut Site<H, A, C>) {
        self.waiting.retain(|(other, _)| *other != host);
        self.give_up(host, site);
        self.waiting.push_back((host, ask));
        assert!(self.attempt_of(host).is_none(), "an ask ends what was given to the copy before");
    }

    /// Whether this is what a copy has asked for last: it waits, is being loaded or is loaded.
    pub fn has_ask(&self, host: HostId, ask: Attempt) -> bool {
        self.waiting.contains(&(host, ask)) || self.attempt_of(host) == Some(ask)
    }

    /// A copy is not loaded any more.
    pub fn give_up<H, A, C: Clone>(&mut self, host: HostId, site: &mut Site<H, A, C>) {
        if self.current.take_if(|current| current.host == host).is_some() {
            site.end_copy_snapshot();
        }
        self.loaded.retain(|(other, _)| *other != host);
        self.kept.retain(|other| *other != host);
        self.proposed.retain(|(other, _)| *other != host);
        assert!(!self.hosts().any(|other| other == host), "the copy is given up");
    }

    /// The host whose copy is loaded from a snapshot that has ended for another one to begin.
    pub fn overtaken<H, A, C: Clone>(&self, site: &Site<H, A, C>) -> Option<HostId> {
        let current = self.current.as_ref().filter(|current| !current.is_encoded)?;
        (!site.has_copy_snapshot()).then_some(current.host)
    }

    /// The leader follows another one: all copies ask that one.
    pub fn give_up_all<H, A, C: Clone>(&mut self, site: &mut Site<H, A, C>) {
        site.end_copy_snapshot();
        *self = CopyLoads::default();
        assert!(!site.has_copy_snapshot(), "a copy that follows holds nothing for others");
    }

    /// Asks of copies that are void, as of hosts that are lost, or have asked in another run.
    pub fn forget_asks(&mut self, is_void: impl Fn(HostId, Attempt) -> bool) {
        self.waiting.retain(|(host, ask)| !is_void(*host, *ask));
        let mut left = self.waiting.iter();
        assert!(left.all(|(host, ask)| !is_void(*host, *ask)), "what is void is forgotten");
    }

    /// The partition has another epoch: a copy that is not in sync asks again, or has done so.
    pub fn follow_epoch<H, A, C: Clone>(&mut self, epoch: u32, site: &mut Site<H, A, C>) {
        self.waiting.retain(|(_, ask)| ask.epoch >= epoch);
        if self.current.take().is_some() {
            site.end_copy_snapshot();
        }
        self.loaded.clear();
        self.kept.clear();
        self.proposed.clear();
        assert!(!site.has_copy_snapshot(), "nothing is encoded for a copy of another epoch");
    }

    /// The attempt of a copy that is being loaded, or is loaded.
    pub fn attempt_of(&self, host: HostId) -> Option<Attempt> {
        let loading = self.current.iter().map(|current| (current.host, current.attempt));
        let mut all = loading.chain(self.loaded.iter().copied());
        all.find(|(other, _)| *other == host).map(|(_, attempt)| attempt)
    }

    /// What a copy has loaded in an attempt is durable at its host.
    pub fn note_kept(&mut self, host: HostId, attempt: Attempt) {
        if self.loaded.contains(&(host, attempt)) && !self.kept.contains(&host) {
            self.kept.push(host);
        }
        assert!(self.kept.len() <= self.loaded.len(), "what is kept was loaded");
    }

    /// Whether a start of a copy's host begins with what it has loaded.
    pub fn is_kept(&self, host: HostId) -> bool {
        self.kept.contains(&host)
    }

    /// The copies that are being loaded, or have their data and are not in sync.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        let loading = self.current.iter().map(|current| current.host);
        loading.chain(self.loaded.iter().map(|(host, _)| *host))
    }

    /// Whether a copy waits to be loaded, and none is.
    pub fn can_begin(&self) -> bool {
        self.current.is_none() && !self.waiting.is_empty()
    }

    /// Whether the control plane is to be asked now to take a copy in sync.
    pub fn is_proposal_due(&mut self, host: HostId, now_us: i64) -> bool {
        assert!(self.hosts().any(|other| other == host), "a copy that is proposed is loaded");
        let is_pending = |(other, at_us): &(HostId, i64)| {
            *other == host && Elapsed::between_us(*at_us, now_us).us() < PROPOSE_EVERY_US
        };
        if self.proposed.iter().any(is_pending) {
            return false;
        }
        self.proposed.retain(|(other, _)| *other != host);
        self.proposed.push((host, now_us));
        true
    }

    /// A copy has taken the parts of an attempt up to this one. True if it has all of them: it is
    /// to get entries.
    pub fn note_taken(&mut self, host: HostId, (attempt, number): (Attempt, u32)) -> bool {
        let is_of = |current: &&mut CurrentLoad| current.host == host && current.attempt == attempt;
        let Some(current) = self.current.as_mut().filter(is_of) else { return false };
        current.taken = current.taken.max(number.min(current.sent));
        assert!(current.taken <= current.sent, "what was taken was sent");
        let has_all = current.is_sent && current.taken == current.sent;
        if has_all {
            self.loaded.push((host, attempt));
            self.current = None;
        }
        has_all
    }

    /// The next part, and the host that it goes to, if there is one now. `stream` has everything
    /// that the site has logged, and `may_load` says which hosts are to have a copy.
    pub fn step<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        stream: &mut ReplicaStream,
        may_load: impl Fn(HostId) -> bool,
    ) -> Option<(HostId, NumberedPart)> {
        if self.current.is_none() {
            return self.begin(site, stream, may_load);
        }
        if !self.can_step() {
            return None;
        }
        let current = self.current.as_mut()?;
        let mut rows = Vec::new();
        while !current.is_encoded && rows.len() < PART_BYTES {
            assert!(site.has_copy_snapshot(), "what ends the snapshot gives the copy up");
            current.is_encoded =
                site.snapshot_step(&mut rows, PART_BYTES) == SnapshotProgress::Done;
        }
        current.sent += 1;
        let part = match rows.is_empty() {
            true => LoadPart::End,
            false => LoadPart::Rows(rows),
        };
        current.is_sent = part == LoadPart::End;
        let CurrentLoad { host, attempt, sent: number, .. } = *current;
        assert!(number - current.taken <= PARTS_MAX, "few parts are on their way");
        Some((host, NumberedPart { attempt, number, part }))
    }

    fn begin<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        stream: &mut ReplicaStream,
        may_load: impl Fn(HostId) -> bool,
    ) -> Option<(HostId, NumberedPart)> {
        let epoch = stream.epoch();
        let is_due = |(host, ask): &(HostId, Attempt)| ask.epoch == epoch && may_load(*host);
        let place = self.waiting.iter().position(is_due)?;
        if stream.is_sealed() || stream.end() != site.log_sequence() {
            return None;
        }
        // From now on the log has what a copy needs.
        site.set_followed(true);
        let (begun, known) = site.begin_copy(RECORD_BYTES)?;
        let (host, ask) = self.waiting.remove(place).expect("it was found there");
        let (position, history) = stream.begin_learner(host, ask.incarnation);
        assert_eq!(position, begun.sequence, "the copy goes on after its data");
        let tables = begun.tables.iter().map(saved_table).collect();
        let (source, digest) = (begun.source, begun.digest);
        let head = LoadHead { epoch, position, source, digest, history, known, tables };
        let attempt = ask;
        let (is_encoded, is_sent) = (false, false);
        self.current = Some(CurrentLoad { host, attempt, sent: 1, taken: 0, is_encoded, is_sent });
        let part = LoadPart::Head(Box::new(head));
        Some((host, NumberedPart { attempt, number: 1, part }))
    }
}

fn saved_table(table: &SnapshotTable) -> SavedTable {
    SavedTable {
        number: table.table,
        name: table.name.to_string(),
        used_slots: table.used_slots,
        free_head: table.free_head,
        columns: table.columns.clone(),
    }
}

/// A copy that is being loaded.
pub struct LoadingCopy<H, A, C> {
    partition: PartitionId,
    attempt: Attempt,
    /// The number of the part that was taken last.
    taken: u32,
    /// Empty, with the catalog in force.
    site: Site<H, A, C>,
    restore: Option<(Box<LoadHead>, DatabaseRestore)>,
    progress: LoadProgress,
}

/// How much of its data a copy has that is being loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows that it has.
    pub rows: u64,
    /// Their bytes, as they came.
    pub bytes: u64,
    /// Rows that it is to have at most: the slots of its tables, of which deleted rows have some.
    pub slots: u64,
}

/// How far a copy is that is being loaded.
pub enum Loading<H, A, C> {
    /// More is to come.
    More(Box<LoadingCopy<H, A, C>>),
    /// It has its data, and goes on with what was logged since.
    Loaded(Box<Follower<H, A, C>>),
}

impl<H, A, C: Clone> LoadingCopy<H, A, C> {
    /// An attempt, with an empty site at which the catalog of the cluster is in force.
    pub fn new(site: Site<H, A, C>, attempt: Attempt) -> LoadingCopy<H, A, C> {
        let partition = site.partition();
        let progress = LoadProgress::default();
        LoadingCopy { partition, attempt, taken: 0, site, restore: None, progress }
    }

    /// The attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The number of the part that was taken last.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// What was taken.
    pub fn progress(&self) -> LoadProgress {
        self.progress
    }

    /// Takes the next part of this attempt.
    ///
    /// # Errors
    /// It is not what a leader sends, or does not fit the catalog: the text for the user.
    pub fn take(
        mut self,
        number: u32,
        part: LoadPart,
        limits: FollowerLimits,
    ) -> Result<Loading<H, A, C>, String> {
        if number != self.taken + 1 {
            return Err(format!("part {number} comes after part {}", self.taken));
        }
        self.taken = number;
        assert!(self.site.is_idle(), "nothing runs at a copy that is loaded");
        match (part, &mut self.restore) {
            (LoadPart::Head(head), None) => {
                if head.known.partition != self.partition {
                    return Err(format!("it is of partition {}", head.known.partition));
                }
                let slots = head.tables.iter().map(|table| u64::from(table.used_slots));
                self.progress.slots = slots.sum();
                let restore = DatabaseRestore::new(self.site.database(), &head.tables);
                self.restore = Some((head, restore.map_err(shown)?));
            }
            (LoadPart::Rows(rows), Some((_, restore))) => {
                self.progress.rows += restore.add(&rows).map_err(shown)?;
                self.progress.bytes += rows.len() as u64;
            }
            (LoadPart::End, Some(_)) => return self.finish(limits),
            _ => return Err(format!("part {number} is not what follows")),
        }
        Ok(Loading::More(Box::new(self)))
    }

    fn finish(mut self, limits: FollowerLimits) -> Result<Loading<H, A, C>, String> {
        let (head, restore) = self.restore.take().expect("it was looked at");

        let LoadHead { position, source, digest, known, .. } = *head;
        restore.finish(self.site.database_mut()).map_err(shown)?;
        self.site.go_on_behind((source, position), known.last, known.catalog_version);
        self.site.database_mut().resume_digest(digest);
        let follower = Follower::of_loaded(self.partition, self.site, (position, known), limits);
        Ok(Loading::Loaded(Box::new(follower)))
    }
}

fn shown(fault: RestoreFault) -> String {
    match fault {
        RestoreFault::Record(at, problem) => format!("a record at byte {at}: {problem}"),
        RestoreFault::Schema(problem) => problem,
    }
}
