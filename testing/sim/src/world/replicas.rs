//! The followers of a simulated host's partitions: connections that delay and lose what is in
//! flight, streams that go on by position, copies that apply what they have.
//!
//! What happens here is drawn from a random stream of its own, so that a run without followers is
//! what it was. A leader's own copy is its memory: what it has handed to the stream.

use super::content::difference;
use super::log::Held;
use super::promotion::Promoting;
use super::{Answer, PartitionCall, SimSite, World};
use crate::plans::Natives;
use lockstep_base::random::SeededRandom;
use lockstep_host::follower::{Applied, Follower, FollowerLimits};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::recovery::{EntrySources, LoggedChange, ReplayFaults};
use lockstep_site::{SchemaTask, Site, SiteLimits};
use lockstep_sql::Limits;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{
    EpochHistory, FollowerStream, NotTaken, Piece, Receipt, Receipts, ReplicaFaults, ReplicaLimits,
    ReplicaStream, Taken, ToFollower,
};
use lockstep_types::{HashRing, HostId, PartitionId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The host that leads every partition at first.
pub(super) const LEADER: HostId = HostId(0);
pub(super) const STREAM_LIMITS: ReplicaLimits = ReplicaLimits { unreceived_bytes: 1 << 20 };

/// What is broken in the copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BrokenCopies {
    /// In the streams.
    pub streams: ReplicaFaults,
    /// A follower runs writes that failed at its leader.
    pub run_failed_write: bool,
    /// A follower applies entries that are not settled.
    pub apply_unsettled: bool,
    /// A settled position counts for the entries before it without those up to it.
    pub settle_early: bool,
    /// A new leader takes what it has no decision on for committed.
    pub lose_vote: bool,
    /// A new leader counts each yes in its log, void or not.
    pub trust_logged_yes: bool,
    /// Partitions remember fewer decisions than the coordinator relies on.
    pub remember_few: bool,
    /// A new leader does not get what the coordinator has decided.
    pub forget_outcomes: bool,
}

/// From a leader to a follower.
pub(super) enum FromLeader {
    Stream(ToFollower),
    /// The digest of a position.
    Digest(u64, u64),
}

type SimFollower = Follower<PartitionCall, Answer, u64>;

/// Changes of the catalog that were made, by version and text.
pub(super) type Changes = BTreeMap<(u64, Vec<u8>), Arc<SchemaTask<u64>>>;

/// A copy of a partition.
pub(super) struct Copy {
    pub(super) host: HostId,
    pub(super) stream: FollowerStream,
    pub(super) follower: SimFollower,
    /// The version of the catalog in force at it.
    pub(super) version: u64,
    /// A change that it waits for.
    pub(super) change: Option<LoggedChange>,
    pub(super) to_follower: VecDeque<FromLeader>,
    pub(super) to_leader: VecDeque<Receipt>,
    pub(super) is_broken: bool,
}

/// A partition with its followers.
pub(super) struct Replicated {
    pub(super) stream: ReplicaStream,
    pub(super) gate: Gate<Held>,
    pub(super) copies: Vec<Copy>,
    /// The copy that is to lead, while that is so.
    pub(super) promoting: Option<Promoting>,
    /// A digest of the leader that is to be sent.
    pub(super) digest: Option<(u64, u64)>,
}

/// The followers of all partitions.
pub(super) struct Replicas {
    pub(super) random: SeededRandom,
    pub(super) partitions: Vec<Replicated>,
    /// Changes of the catalog that were made, by version and text.
    pub(super) changes: Changes,
    pub(super) broken: BrokenCopies,
    /// What a copy reports that is not sound.
    pub(super) problem: Option<String>,
    pub(super) counts: CopyCounts,
}

/// What the copies did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Entries that followers applied.
    pub applied: u64,
    /// Digests that were compared, at least.
    pub digests: u64,
    /// Connections that were lost.
    pub cuts: u64,
    /// Messages that came again.
    pub repeated: u64,
    /// Changes of the catalog that followers made.
    pub changes: u64,
    /// Leaders that were lost, and that were moved on purpose.
    pub takeovers: [u64; 2],
    /// Coordinators that were lost.
    pub coordinators: u64,
    /// Transactions that a coordinator found undecided and committed, and that it aborted.
    pub resolved: [u64; 2],
    /// Changes of the catalog that were at a coordinator that was lost: committed, and not.
    pub changes_ended: [u64; 2],
    /// Leaders and coordinators that were lost while another one was about to take over.
    pub interrupted: u64,
    /// Most entries that waited at a follower.
    pub backlog_max: u64,
}

impl CopyCounts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &CopyCounts) {
        self.applied += other.applied;
        self.digests += other.digests;
        self.cuts += other.cuts;
        self.repeated += other.repeated;
        self.changes += other.changes;
        self.coordinators += other.coordinators;
        self.interrupted += other.interrupted;
        for (sum, count) in self.takeovers.iter_mut().zip(other.takeovers) {
            *sum += count;
        }
        for (sum, count) in self.changes_ended.iter_mut().zip(other.changes_ended) {
            *sum += count;
        }
        for (sum, count) in self.resolved.iter_mut().zip(other.resolved) {
            *sum += count;
        }
        self.backlog_max = self.backlog_max.max(other.backlog_max);
    }
}

impl fmt::Display for CopyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([lost, moved], [committed, aborted]) = (self.takeovers, self.resolved);
        write!(
            f,
            "{} entries applied, {} digests compared, {lost} leaders lost and {moved} moved, {} \
             coordinators lost, {} of these while another one was to take over; {committed} \
             transactions found undecided were committed, {aborted} aborted; {:?} changes of the \
             catalog in progress were committed and not",
            self.applied, self.digests, self.coordinators, self.interrupted, self.changes_ended
        )
    }
}

impl Replicas {
    pub(super) fn new(
        seed: u64,
        (followers, broken): (u32, BrokenCopies),
        ring: &HashRing,
        limits: (&SiteLimits, usize),
    ) -> Option<Replicas> {
        if followers == 0 {
            return None;
        }
        let mut random = SeededRandom::new(seed ^ 0x5e91_1ca5);
        let slice_entries = 1 + random.below(20) as u32;
        let follower_limits = FollowerLimits { slice_entries, backlog_bytes: 1 << 20 };
        let partition = |number| {
            let copy = |host| new_copy(number, host, ring, limits, follower_limits, broken);
            let copies: Vec<Copy> = (1..=followers).map(copy).collect();
            let positions: Vec<(HostId, u64)> = copies.iter().map(|copy| (copy.host, 0)).collect();
            let mut counted = vec![(LEADER, 0)];
            if !broken.streams.answer_before_receipt {
                counted.extend(&positions);
            }
            let history = EpochHistory::of_epoch(LogSource::FIRST_EPOCH);
            let epoch = LogSource::FIRST_EPOCH;
            Replicated {
                stream: ReplicaStream::open(epoch, 0, history, &positions, [], STREAM_LIMITS),
                gate: Gate::new(SafePosition::of_copies(&counted)),
                copies,
                promoting: None,
                digest: None,
            }
        };
        let partitions = (0..ring.partition_count()).map(partition).collect();
        let (changes, counts) = (BTreeMap::new(), CopyCounts::default());
        Some(Replicas { random, partitions, changes, broken, problem: None, counts })
    }

    /// Releases what all copies have, and keeps the rest.
    pub(super) fn pass(&mut self, partition: PartitionId, entry: u64, held: Held) -> Option<Held> {
        self.partitions[partition.index()].gate.pass(entry, held)
    }

    /// A change of the catalog can be made by all hosts.
    pub(super) fn note_change(&mut self, task: &Arc<SchemaTask<u64>>) {
        let key = (task.catalog_version, task.source.to_vec());
        self.changes.insert(key, Arc::clone(task));
    }

    /// Checks what holds between two steps.
    pub(super) fn check_invariants(&self, sites: &[SimSite]) {
        for (replicated, site) in self.partitions.iter().zip(sites) {
            replicated.stream.check_invariants();
            replicated.gate.check_invariants();
            let (end, mut logged) = (replicated.stream.end(), site.log_sequence());
            if let Some(promoting) = &replicated.promoting {
                logged = promoting.promotion.end();
            }
            assert!(end <= logged, "{end} entries were sent of {logged} logged");
            for copy in &replicated.copies {
                copy.stream.check_invariants();
                copy.follower.check_invariants();
                assert!(copy.stream.end() <= end, "a copy has what was logged");
            }
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.broken == BrokenCopies::default()
    }
}

fn new_copy(
    partition: u32,
    host: u32,
    ring: &HashRing,
    (limits, kept): (&SiteLimits, usize),
    follower_limits: FollowerLimits,
    broken: BrokenCopies,
) -> Copy {
    let partition = PartitionId(partition);
    let epoch = LogSource::FIRST_EPOCH;
    let history = EpochHistory::of_epoch(epoch);
    let mut stream = FollowerStream::new(epoch, 0, history, Receipts::AtOnce);
    stream.inject(broken.streams);
    let mut site = Site::new(partition, ring.clone(), limits);
    site.remember_outcomes(kept);
    let mut follower = Follower::new(partition, site, 0, follower_limits);
    let replays_failed_writes = broken.run_failed_write;
    let (commits_open, trusts_void_votes) = (broken.lose_vote, broken.trust_logged_yes);
    let faults = ReplayFaults {
        replays_failed_writes,
        commits_open,
        trusts_void_votes,
        ..ReplayFaults::default()
    };
    follower.inject(faults);
    Copy {
        host: HostId(host),
        stream,
        follower,
        version: 0,
        change: None,
        to_follower: VecDeque::new(),
        to_leader: VecDeque::new(),
        is_broken: false,
    }
}

impl Replicated {
    /// What the leader has logged is sent, and what it advertises. False if there is nothing new.
    fn end_round(
        &mut self,
        site: &mut SimSite,
        now_us: i64,
        (all, settles_early): (bool, bool),
    ) -> bool {
        if self.promoting.is_some() {
            return self.send(None);
        }
        let is_due = if all { site.has_log_at_tick() } else { site.has_log_to_hand_over() };
        if is_due {
            self.stream.log(Piece::of(&site.take_log(Vec::new())), now_us);
            self.gate.advance(LEADER, self.stream.end());
            self.digest = site.decided_digest();
        }
        let settled = match settles_early {
            true => site.settled_sequence().min(self.stream.end()),
            false => site.settled_sequence(),
        };
        self.stream.advertise(self.gate.safe(), settled);
        self.send(settles_early.then_some(settled)) || is_due
    }

    fn send(&mut self, settled_early: Option<u64>) -> bool {
        let mut is_sent = false;
        let end = self.stream.end();
        let digest = self.digest.take_if(|(position, _)| *position == end && end > 0);
        for copy in &mut self.copies {
            while let Some(mut message) = self.stream.next_for(copy.host) {
                if let Some(settled) = settled_early {
                    let last = message.piece.as_ref().map_or(end, Piece::last);
                    message.settled = settled.min(last);
                }
                copy.to_follower.push_back(FromLeader::Stream(message));
                is_sent = true;
            }
            if let Some((position, digest)) = digest.filter(|_| !copy.is_broken) {
                copy.to_follower.push_back(FromLeader::Digest(position, digest));
            }
        }
        is_sent
    }

    fn take_receipt(&mut self, at: usize) -> bool {
        let copy = &mut self.copies[at];
        let Some(receipt) = copy.to_leader.pop_front() else { return false };
        let host = copy.host;
        self.stream.receipt(host, receipt);
        let received = self.stream.received(host).unwrap_or_default();
        self.gate.advance(host, received);
        true
    }
}

impl Replicas {
    /// Whether a partition has copies besides its leader.
    pub(super) fn has_copies(&self, partition: PartitionId) -> bool {
        !self.partitions[partition.index()].copies.is_empty()
    }

    pub(super) fn of(&mut self, partition: PartitionId) -> &mut Replicated {
        &mut self.partitions[partition.index()]
    }

    /// Something happens to the copies of a partition, of what can; false if nothing can.
    fn act(&mut self, world: &mut World) -> bool {
        let count = self.partitions.len() as u64;
        let (first, kind) = (self.random.below(count), self.random.below(4));
        if self.random.chance(1, 60) {
            self.cut(first as usize);
        }
        for offset in 0..4 * count {
            let partition = ((first + offset / 4) % count) as usize;
            let copies = self.partitions[partition].copies.len() as u64;
            let at = self.random.below(copies.max(1)) as usize;
            let done = match (kind + offset) % 4 {
                0 => self.end_round(world, partition, false),
                1 => (0..copies as usize).any(|next| {
                    let at = (at + next) % copies as usize;
                    self.partitions[partition].take_receipt(at)
                }),
                2 => (0..copies as usize)
                    .any(|next| self.deliver(partition, (at + next) % copies as usize)),
                _ => (0..copies as usize)
                    .any(|next| self.apply(world, partition, (at + next) % copies as usize)),
            };
            if done {
                return true;
            }
        }
        // Nothing has come for a while.
        (0..count as usize).any(|partition| self.end_round(world, partition, true))
    }

    fn end_round(&mut self, world: &mut World, partition: usize, is_quiet: bool) -> bool {
        let all = is_quiet || self.random.chance(1, 20);
        let replicated = &mut self.partitions[partition];
        let how = (all, self.broken.settle_early);
        replicated.end_round(&mut world.sites[partition], world.now_us, how)
    }

    /// The next message of a leader arrives at a follower.
    fn deliver(&mut self, partition: usize, at: usize) -> bool {
        let copy = &mut self.partitions[partition].copies[at];
        match copy.to_follower.pop_front() {
            None if copy.is_broken => self.reconnect(partition, at),
            None => return false,
            Some(FromLeader::Digest(position, digest)) => {
                self.counts.digests += 1;
                if let Some(differs) = copy.follower.compare(position, digest) {
                    self.problem.get_or_insert(differs.to_string());
                }
            }
            Some(FromLeader::Stream(message)) => match copy.stream.take(message) {
                Taken::Append(piece) => {
                    copy.follower.push(piece);
                    copy.to_leader.extend(copy.stream.receipt());
                    let backlog = copy.follower.backlog().0;
                    self.counts.backlog_max = self.counts.backlog_max.max(backlog);
                }
                Taken::Positions => {}
                Taken::Repeated => {
                    self.counts.repeated += 1;
                    copy.to_leader.extend(copy.stream.receipt());
                }
                Taken::Refused(NotTaken::Gap { .. }) => self.break_connection(partition, at),
                Taken::Refused(why) => {
                    self.problem.get_or_insert(format!("a follower refuses a piece: {why:?}"));
                }
            },
        }
        true
    }

    /// A follower applies what it may.
    fn apply(&mut self, world: &World, partition: usize, at: usize) -> bool {
        let copy = &mut self.partitions[partition].copies[at];
        let before = copy.follower.applied();
        let horizon = match self.broken.apply_unsettled {
            true => copy.stream.end(),
            false => copy.stream.settled(),
        };
        let applied = match copy.follower.advance(horizon) {
            Ok(()) => apply(copy, world, &self.changes),
            Err(error) => Err(error.to_string()),
        };
        match applied {
            Ok(true) => self.counts.changes += 1,
            Ok(false) => {}
            Err(problem) => {
                self.problem.get_or_insert(problem);
                return false;
            }
        }
        if let Some(differs) = copy.follower.divergence() {
            self.problem.get_or_insert(differs.to_string());
        }
        let applied = copy.follower.applied() - before;
        self.counts.applied += applied;
        applied > 0 || copy.change.is_some()
    }

    fn cut(&mut self, partition: usize) {
        let copies = self.partitions[partition].copies.len() as u64;
        if copies == 0 {
            return;
        }
        let at = self.random.below(copies) as usize;
        self.break_connection(partition, at);
    }

    /// A connection is lost: of what is in flight a beginning arrives, in each direction.
    fn break_connection(&mut self, partition: usize, at: usize) {
        let replicated = &mut self.partitions[partition];
        let copy = &mut replicated.copies[at];
        for _ in 0..self.random.below(4) {
            copy.to_follower.pop_back();
            copy.to_leader.pop_back();
        }
        copy.is_broken = true;
        replicated.stream.disconnected(copy.host);
        self.counts.cuts += 1;
    }

    fn reconnect(&mut self, partition: usize, at: usize) {
        let Replicated { stream, copies, .. } = &mut self.partitions[partition];
        let copy = &mut copies[at];
        let received = stream.received(copy.host).unwrap_or_default();
        let position = copy.stream.reconnect();
        // With these faults the two do not agree on where they go on.
        let position = match self.broken.streams {
            ReplicaFaults { resend_on_reconnect: true, .. } => received,
            ReplicaFaults { drop_suffix: true, .. } => stream.end(),
            _ => position,
        };
        if let Err(why) = stream.reconnected(copy.host, copy.stream.epoch(), position) {
            self.problem.get_or_insert(format!("a follower cannot go on: {why:?}"));
        }
        copy.to_leader.clear();
        copy.to_leader.extend(copy.stream.receipt());
        copy.is_broken = false;
    }

    /// Whether all copies have and have applied everything, and are equal to their leaders.
    fn compare(&self, sites: &[SimSite]) -> Result<(), String> {
        for (partition, (replicated, site)) in self.partitions.iter().zip(sites).enumerate() {
            let (end, hash) = (site.log_sequence(), site.database().content_hash());
            for copy in &replicated.copies {
                let (applied, host) = (copy.follower.applied(), copy.host);
                let at_rest = site.is_idle() && replicated.gate.is_idle();
                if applied != end || !at_rest {
                    return Err(format!(
                        "the copy of partition {partition} at host {host} has applied {applied} of \
                         {end} entries at rest"
                    ));
                }
                let own = copy.follower.site().database();
                if own.content_hash() != hash {
                    let difference = difference(site, copy.follower.site());
                    return Err(format!(
                        "the copy of partition {partition} at host {host} has other rows than its \
                         leader: {difference}"
                    ));
                }
                let (_, digest) = site.decided_digest().ok_or("something is undecided at rest")?;
                if own.change_digest() != digest {
                    return Err(format!(
                        "the copy of partition {partition} at host {host} has another digest"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Applies entries at a copy; true if a change of the catalog was made.
fn apply(copy: &mut Copy, world: &World, changes: &Changes) -> Result<bool, String> {
    if let Some(change) = copy.change.take() {
        let task = changes.get(&(change.catalog_version, change.source.clone()));
        let task = task.ok_or("a change of the catalog was not made")?;
        copy.follower.change_catalog(&change, task).map_err(|error| error.to_string())?;
        copy.version = change.catalog_version;
        return Ok(true);
    }
    let sources = EntrySources {
        catalog: &world.catalogs[&copy.version].host,
        limits: &Limits::default(),
        partition_count: world.ring.partition_count(),
    };
    let applied = world.natives.replay(|| copy.follower.run(&sources));
    if let Applied::Change(change) = applied.map_err(|error| error.to_string())? {
        copy.change = Some(change);
    }
    Ok(false)
}

impl World {
    /// Whether the copies are to have their turn.
    pub(super) fn replicas_are_due(&mut self) -> bool {
        let quiet = self.in_flight.is_empty();
        self.replicas.as_mut().is_some_and(|replicas| quiet || replicas.random.chance(1, 2))
    }

    /// Something happens to a copy; false if nothing can.
    pub(super) fn step_replicas(&mut self) -> bool {
        if self.step_promotions() {
            return true;
        }
        let Some(mut replicas) = self.replicas.take() else { return false };
        let is_made = replicas.act(self);
        let mut left = Vec::new();
        for replicated in &mut replicas.partitions {
            left.extend(std::iter::from_fn(|| replicated.gate.release()));
        }
        self.replicas = Some(replicas);
        let released = !left.is_empty();
        left.into_iter().for_each(|held| self.let_go(held));
        is_made || released
    }

    /// Checks what copies report, and at rest that they are equal to their leaders.
    ///
    /// # Errors
    /// A copy is not sound.
    pub fn check_copies(&self, at_rest: bool) -> Result<(), String> {
        let Some(replicas) = &self.replicas else { return Ok(()) };
        match (&replicas.problem, at_rest) {
            (Some(problem), _) => Err(problem.clone()),
            (None, true) => replicas.compare(&self.sites),
            (None, false) => Ok(()),
        }
    }

    /// What the copies did.
    pub fn copy_counts(&self) -> CopyCounts {
        self.replicas.as_ref().map_or_else(CopyCounts::default, |replicas| replicas.counts)
    }
}

/// Followers for a seed of a workload: none in one of three.
pub(crate) fn followers_of(seed: u64) -> u32 {
    SeededRandom::new(seed ^ 0xf011).below(3) as u32
}

impl Natives {
    /// Runs entries of a log.
    pub(super) fn replay<T>(&self, run: impl FnOnce() -> T) -> T {
        let serves = self.stop_serving();
        let ran = run();
        if serves {
            self.serve();
        }
        ran
    }
}
