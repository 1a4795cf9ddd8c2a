//! The Raft library. This is the only file that names it, its log types and its logger.
//!
//! What the library panics on is refused before it is asked: a message that contradicts what is
//! committed here, an index after the end of the log, a snapshot without voters. A correct member
//! sends none of these; a damaged or foreign one may.

use crate::error::FormatError;
use crate::ids::RaftId;
use crate::log_entry::{
    EntryBody, GroupChange, HardState, LogEntry, Persist, Snapshot, put_entries, put_snapshot,
    read_entries, read_index, read_snapshot,
};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_base::random::split_mix;
use protobuf::Message as _;
use raft::eraftpb::{
    ConfChange, ConfChangeType, ConfState, Entry, EntryType, HardState as LibraryHardState,
    Message, MessageType, Snapshot as LibrarySnapshot,
};
use raft::storage::GetEntriesContext;
use raft::{Config, RaftState, RawNode, StateRole, Storage, StorageError};

/// How the library is run. Times are in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreOptions {
    pub election_ticks: usize,
    pub heartbeat_ticks: usize,
    pub message_bytes_max: u64,
    pub inflight_messages_max: usize,
    pub uncommitted_bytes_max: u64,
    pub seed: u64,
}

/// What became committed, in order.
#[derive(Debug)]
pub(crate) enum Committed {
    /// The state of another member, in place of all before it.
    Snapshot(Snapshot),
    /// A proposal.
    Proposal(Vec<u8>),
    /// The group changed.
    Group { voters: Vec<RaftId>, learners: Vec<RaftId> },
}

/// What is to be done, in this order: persist, then send, then apply.
#[derive(Debug, Default)]
pub(crate) struct CoreEffects {
    pub persists: Vec<Persist>,
    pub messages: Vec<(RaftId, Vec<u8>)>,
    pub committed: Vec<Committed>,
}

/// The entries that the library reads, after a snapshot.
struct Store {
    hard_state: HardState,
    snapshot: Option<Snapshot>,
    entries: Vec<Entry>,
}

impl Store {
    /// Index and term of what stands before the first entry.
    fn base(&self) -> (u64, u64) {
        self.snapshot.as_ref().map_or((0, 0), |snapshot| (snapshot.index, snapshot.term))
    }

    fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let (base, _) = self.base();
        assert!(first.index > base, "entries of the snapshot are not written again");
        let kept = (first.index - base - 1) as usize;
        assert!(kept <= self.entries.len(), "the log has no gap");
        self.entries.truncate(kept);
        self.entries.extend_from_slice(entries);
    }
}

fn unavailable<T>(error: StorageError) -> raft::Result<T> {
    Err(raft::Error::Store(error))
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let conf_state = self.snapshot.as_ref().map(conf_state_of).unwrap_or_default();
        Ok(RaftState::new(library_hard_state(&self.hard_state), conf_state))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let (base, _) = self.base();
        if low <= base {
            return unavailable(StorageError::Compacted);
        }
        let (from, to) = ((low - base - 1) as usize, (high - base - 1) as usize);
        let Some(entries) = self.entries.get(from..to) else {
            return unavailable(StorageError::Unavailable);
        };
        let mut left = max_size.into().unwrap_or(u64::MAX);
        let mut fits = |(at, entry): &(usize, &Entry)| {
            let size = u64::from(entry.compute_size());
            let fits = *at == 0 || size <= left;
            left = left.saturating_sub(size);
            fits
        };
        let entries = entries.iter().enumerate().take_while(|entry| fits(entry));
        Ok(entries.map(|(_, entry)| entry.clone()).collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let (base, term) = self.base();
        match index.checked_sub(base) {
            None => unavailable(StorageError::Compacted),
            Some(0) => Ok(term),
            Some(after) => match self.entries.get(after as usize - 1) {
                Some(entry) => Ok(entry.term),
                None => unavailable(StorageError::Unavailable),
            },
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base().0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.base().0 + self.entries.len() as u64)
    }

    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<LibrarySnapshot> {
        match &self.snapshot {
            Some(snapshot) if snapshot.index >= request_index => Ok(library_snapshot(snapshot)),
            _ => unavailable(StorageError::SnapshotTemporarilyUnavailable),
        }
    }
}

/// One member of the Raft group.
pub(crate) struct RaftCore {
    node: RawNode<Store>,
    /// The term and the vote that are durable.
    promised: (u64, u64),
    seed: u64,
}

impl RaftCore {
    /// A member with what it had persisted: the snapshot, the entries after it and the promise.
    ///
    /// # Errors
    /// These contradict each other.
    pub fn new(
        id: RaftId,
        options: &CoreOptions,
        snapshot: Option<Snapshot>,
        entries: Vec<LogEntry>,
        hard_state: HardState,
    ) -> Result<RaftCore, String> {
        let store =
            Store { hard_state, snapshot, entries: entries.iter().map(library_entry).collect() };
        let (base, base_term) = store.base();
        let last = base + store.entries.len() as u64;
        let follows = (base + 1..).zip(&store.entries).all(|(index, e)| e.index == index)
            && store.entries.first().is_none_or(|entry| entry.term >= base_term)
            && store.entries.is_sorted_by_key(|entry| entry.term);
        if !follows || !(base..=last).contains(&hard_state.commit) {
            return Err(format!(
                "the log has entries {} to {last}, and {} is committed",
                base + 1,
                hard_state.commit
            ));
        }
        let config = Config {
            id: id.number(),
            election_tick: options.election_ticks,
            heartbeat_tick: options.heartbeat_ticks,
            applied: base,
            max_size_per_msg: options.message_bytes_max,
            max_inflight_msgs: options.inflight_messages_max,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: options.uncommitted_bytes_max,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, store, &logger).map_err(|error| error.to_string())?;
        let promised = (hard_state.term, hard_state.vote);
        let mut core = RaftCore { node, promised, seed: options.seed ^ id.number() };
        core.pin_election_timeout();
        Ok(core)
    }

    /// The library draws election timeouts from the thread's random source. Before a tick reads
    /// one, it is set to what follows from the seed, the member and the term.
    fn pin_election_timeout(&mut self) {
        let raft = &mut self.node.raft;
        let mut state = self.seed ^ raft.term.wrapping_mul(0x9e37_79b9);
        let range = raft.election_timeout() as u64;
        let timeout = raft.election_timeout() + (split_mix(&mut state) % range) as usize;
        raft.set_randomized_election_timeout(timeout);
    }

    pub fn tick(&mut self) {
        self.node.tick();
        self.pin_election_timeout();
    }

    /// Takes a message of another member of the cluster.
    ///
    /// # Errors
    /// It is malformed, or contradicts what is committed here. Nothing changed then.
    pub fn receive(&mut self, from: RaftId, bytes: &[u8]) -> Result<(), FormatError> {
        let mut message = decode_message(bytes)?;
        message.from = from.number();
        message.to = self.node.raft.id;
        self.check(&message)?;
        // What is left are messages that came too late, or of a member that left the group.
        let _ = self.node.step(message);
        self.pin_election_timeout();
        Ok(())
    }

    fn check(&self, message: &Message) -> Result<(), FormatError> {
        let log = &self.node.raft.raft_log;
        let (last, committed) = (log.last_index(), log.committed);
        let term = |index| log.term(index).unwrap_or(0);
        let holds = match message.msg_type {
            // Messages of older terms are not looked at.
            _ if message.term < self.node.raft.term => true,
            MessageType::MsgHeartbeat => message.commit <= last,
            MessageType::MsgAppendResponse if !message.reject => message.index <= last,
            MessageType::MsgAppend => {
                let same = |entry: &&Entry| term(entry.index) == entry.term;
                let old = message.entries.iter().filter(|entry| entry.index <= committed);
                let agrees = message.index < committed || message.log_term >= term(committed);
                agrees && old.filter(|e| e.index > self.node.store().base().0).all(|e| same(&e))
            }
            _ => true,
        };
        match holds {
            true => Ok(()),
            false => Err(FormatError::Rule("a message agrees with what is committed")),
        }
    }

    /// Appends a proposal. False if this member does not lead, or too much is uncommitted.
    pub fn propose(&mut self, bytes: Vec<u8>) -> bool {
        self.leads() && self.node.propose(Vec::new(), bytes).is_ok()
    }

    /// Appends a change of the group. False if this member does not lead, or another change is not
    /// applied yet.
    pub fn propose_change(&mut self, change: GroupChange) -> bool {
        if !self.leads() || self.node.raft.has_pending_conf() {
            return false;
        }
        self.node.propose_conf_change(Vec::new(), library_change(change)).is_ok()
    }

    /// What has to be done since the last call. The caller carries it out in the order of
    /// [`CoreEffects`] before it calls the member again.
    pub fn take_effects(&mut self) -> CoreEffects {
        let mut effects = CoreEffects::default();
        while self.node.has_ready() {
            let mut ready = self.node.ready();
            let mut messages = ready.take_messages();
            let mut persist = Persist::default();
            if !ready.snapshot().is_empty() {
                let snapshot = own_snapshot(ready.snapshot());
                let store = self.node.mut_store();
                store.entries.clear();
                store.snapshot = Some(snapshot.clone());
                effects.committed.push(Committed::Snapshot(snapshot.clone()));
                persist.snapshot = Some(snapshot);
            }
            let entries = ready.take_entries();
            self.node.mut_store().append(&entries);
            persist.entries = entries.iter().map(own_entry).collect();
            if let Some(hard_state) = ready.hs() {
                self.node.mut_store().hard_state = own_hard_state(hard_state);
            }
            let committed = ready.take_committed_entries();
            messages.extend(ready.take_persisted_messages());
            self.take_committed(committed, &mut effects);
            let mut light = self.node.advance_append(ready);
            if let Some(commit) = light.commit_index() {
                self.node.mut_store().hard_state.commit = commit;
            }
            self.promise(&mut persist);
            messages.extend(light.take_messages());
            self.take_committed(light.take_committed_entries(), &mut effects);
            self.node.advance_apply();
            if persist != Persist::default() {
                effects.persists.push(persist);
            }
            let sent = messages.iter().filter(|m| m.msg_type == MessageType::MsgSnapshot);
            let snapshots: Vec<u64> = sent.map(|message| message.to).collect();
            let address = |message: Message| {
                Some((RaftId::from_number(message.to)?, encode_message(&message)))
            };
            effects.messages.extend(messages.into_iter().filter_map(address));
            // Whether a snapshot arrives is seen by the next probe; the library would wait for
            // word of it.
            for to in snapshots {
                self.node.report_snapshot(to, raft::SnapshotStatus::Finish);
            }
            self.pin_election_timeout();
        }
        effects
    }

    /// Adds the hard state to what is made durable, if a term or a vote needs it. A commit index
    /// alone is not worth a sync: after a restart the leader sends it again.
    fn promise(&mut self, persist: &mut Persist) {
        let HardState { term, vote, .. } = self.node.store().hard_state;
        let is_new = (term, vote) != self.promised;
        if is_new || *persist != Persist::default() {
            self.promised = (term, vote);
            persist.hard_state = Some(self.node.store().hard_state);
        }
    }

    fn take_committed(&mut self, entries: Vec<Entry>, effects: &mut CoreEffects) {
        for entry in entries {
            match own_entry(&entry).body {
                EntryBody::Empty => {}
                EntryBody::Proposal(bytes) => effects.committed.push(Committed::Proposal(bytes)),
                EntryBody::Change(change) => {
                    // A change that cannot be made, such as the removal of the last voter, is
                    // refused in the same way by every member.
                    let conf_state = match self.node.apply_conf_change(&library_change(change)) {
                        Ok(conf_state) => conf_state,
                        Err(_) => self.node.raft.prs().conf().to_conf_state(),
                    };
                    let (voters, learners) = own_group(&conf_state);
                    effects.committed.push(Committed::Group { voters, learners });
                }
            }
        }
    }

    /// Replaces the log up to what was taken as committed by `state`, which it led to.
    pub fn compact(&mut self, state: Vec<u8>) -> Persist {
        let index = self.node.raft.raft_log.applied;
        let term = self.node.raft.raft_log.term(index).expect("what was applied has a term");
        let (voters, learners) = own_group(&self.node.raft.prs().conf().to_conf_state());
        let store = self.node.mut_store();
        let (base, _) = store.base();
        let dropped = index.checked_sub(base).expect("a snapshot is applied") as usize;
        assert!(dropped <= store.entries.len(), "what was applied is in the log");
        store.entries.drain(..dropped);
        let snapshot = Snapshot { index, term, voters, learners, state };
        store.snapshot = Some(snapshot.clone());
        Persist {
            snapshot: Some(snapshot),
            entries: store.entries.iter().map(own_entry).collect(),
            hard_state: Some(store.hard_state),
        }
    }

    pub fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// As the leader: lets a voter lead in its place, once that has everything. It may be asked
    /// again while that lasts.
    pub fn transfer_leadership(&mut self, to: RaftId) {
        assert!(self.leads(), "only a leader gives its place to another member");
        self.node.transfer_leader(to.number());
    }

    /// The leader that this member knows.
    pub fn leader(&self) -> Option<RaftId> {
        RaftId::from_number(self.node.raft.leader_id)
    }

    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// Entries after the snapshot that were applied.
    pub fn applied_since_snapshot(&self) -> u64 {
        self.node.raft.raft_log.applied - self.node.store().base().0
    }

    /// Whether the leader has sent its own first entry to a quorum, so that all older ones are
    /// known to be committed.
    pub fn has_committed_in_term(&self) -> bool {
        let log = &self.node.raft.raft_log;
        log.term(log.applied).is_ok_and(|term| term == self.node.raft.term)
    }

    /// As the leader: whether a member has all that is committed.
    pub fn is_caught_up(&self, id: RaftId) -> bool {
        let raft = &self.node.raft;
        let progress = raft.prs().get(id.number());
        progress.is_some_and(|progress| progress.matched >= raft.raft_log.committed)
    }

    /// The members that vote and those that learn, ascending.
    pub fn group(&self) -> (Vec<RaftId>, Vec<RaftId>) {
        own_group(&self.node.raft.prs().conf().to_conf_state())
    }
}

fn own_group(conf_state: &ConfState) -> (Vec<RaftId>, Vec<RaftId>) {
    let ids = |numbers: &[u64]| {
        let mut ids: Vec<RaftId> = numbers.iter().filter_map(|n| RaftId::from_number(*n)).collect();
        ids.sort();
        ids
    };
    (ids(&conf_state.voters), ids(&conf_state.learners))
}

fn conf_state_of(snapshot: &Snapshot) -> ConfState {
    ConfState {
        voters: snapshot.voters.iter().map(|id| id.number()).collect(),
        learners: snapshot.learners.iter().map(|id| id.number()).collect(),
        ..ConfState::default()
    }
}

fn library_hard_state(hard_state: &HardState) -> LibraryHardState {
    let HardState { term, vote, commit } = *hard_state;
    LibraryHardState { term, vote, commit, ..LibraryHardState::default() }
}

fn own_hard_state(hard_state: &LibraryHardState) -> HardState {
    HardState { term: hard_state.term, vote: hard_state.vote, commit: hard_state.commit }
}

fn library_snapshot(snapshot: &Snapshot) -> LibrarySnapshot {
    let data = snapshot.state.clone().into();
    let mut library = LibrarySnapshot { data, ..LibrarySnapshot::default() };
    let metadata = library.mut_metadata();
    metadata.index = snapshot.index;
    metadata.term = snapshot.term;
    metadata.set_conf_state(conf_state_of(snapshot));
    library
}

fn own_snapshot(library: &LibrarySnapshot) -> Snapshot {
    let metadata = library.get_metadata();
    let (voters, learners) = own_group(metadata.get_conf_state());
    let state = library.data.to_vec();
    Snapshot { index: metadata.index, term: metadata.term, voters, learners, state }
}

fn library_change(change: GroupChange) -> ConfChange {
    let (kind, id) = match change {
        GroupChange::AddVoter(id) => (ConfChangeType::AddNode, id),
        GroupChange::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
        GroupChange::Remove(id) => (ConfChangeType::RemoveNode, id),
    };
    ConfChange { change_type: kind, node_id: id.number(), ..ConfChange::default() }
}

/// The library keeps a change as bytes. They were made by [`library_entry`], from an entry that
/// was read by the functions of this crate.
fn own_entry(entry: &Entry) -> LogEntry {
    let body = match entry.entry_type {
        EntryType::EntryNormal if entry.data.is_empty() => EntryBody::Empty,
        EntryType::EntryNormal => EntryBody::Proposal(entry.data.to_vec()),
        _ => {
            let mut change = ConfChange::default();
            change.merge_from_bytes(&entry.data).expect("the bytes are ours");
            match (RaftId::from_number(change.node_id), change.change_type) {
                (Some(id), ConfChangeType::AddNode) => EntryBody::Change(GroupChange::AddVoter(id)),
                (Some(id), ConfChangeType::AddLearnerNode) => {
                    EntryBody::Change(GroupChange::AddLearner(id))
                }
                (Some(id), ConfChangeType::RemoveNode) => {
                    EntryBody::Change(GroupChange::Remove(id))
                }
                (None, _) => EntryBody::Empty,
            }
        }
    };
    LogEntry { term: entry.term, index: entry.index, body }
}

fn library_entry(entry: &LogEntry) -> Entry {
    let mut library = Entry { term: entry.term, index: entry.index, ..Entry::default() };
    match &entry.body {
        EntryBody::Empty => {}
        EntryBody::Proposal(bytes) => library.data = bytes.clone().into(),
        EntryBody::Change(change) => {
            library.entry_type = EntryType::EntryConfChange;
            let bytes = library_change(*change).write_to_bytes();
            library.data = bytes.expect("a change of known fields is written").into();
        }
    }
    library
}

/// The messages that travel, with the number that stands for each in the byte form.
const MESSAGE_TYPES: &[(u8, MessageType)] = &[
    (1, MessageType::MsgAppend),
    (2, MessageType::MsgAppendResponse),
    (3, MessageType::MsgRequestVote),
    (4, MessageType::MsgRequestVoteResponse),
    (5, MessageType::MsgSnapshot),
    (6, MessageType::MsgHeartbeat),
    (7, MessageType::MsgHeartbeatResponse),
    (8, MessageType::MsgRequestPreVote),
    (9, MessageType::MsgRequestPreVoteResponse),
    (10, MessageType::MsgTimeoutNow),
];

fn encode_message(message: &Message) -> Vec<u8> {
    let mut output = Vec::with_capacity(64);
    let known = MESSAGE_TYPES.iter().find(|(_, kind)| *kind == message.msg_type);
    let (number, _) = known.expect("the library sends the messages of the table");
    output.put_u8(*number);
    for value in [
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ] {
        output.put_varint(value);
    }
    output.put_u8(u8::from(message.reject));
    output.put_counted(&message.context);
    let entries: Vec<LogEntry> = message.entries.iter().map(own_entry).collect();
    put_entries(&mut output, &entries);
    if message.msg_type == MessageType::MsgSnapshot {
        put_snapshot(&mut output, &own_snapshot(message.get_snapshot()));
    }
    output
}

fn decode_message(bytes: &[u8]) -> Result<Message, FormatError> {
    let input = &mut ByteReader::new(bytes);
    let number = input.u8()?;
    let known = MESSAGE_TYPES.iter().find(|(known, _)| *known == number);
    let Some((_, kind)) = known else {
        return Err(FormatError::Value { field: "message", found: u64::from(number) });
    };
    let mut message = Message { msg_type: *kind, ..Message::default() };
    message.term = read_index(input, "term")?;
    message.log_term = read_index(input, "log term")?;
    message.index = read_index(input, "index")?;
    message.commit = read_index(input, "commit index")?;
    message.commit_term = read_index(input, "commit term")?;
    message.reject_hint = read_index(input, "hint")?;
    message.reject = crate::codec::read_flag(input, "reject")?;
    message.context = input.counted()?.to_vec().into();
    let entries = read_entries(input)?;
    let starts = entries.first().is_none_or(|first| first.index == message.index + 1);
    let append = *kind == MessageType::MsgAppend;
    if message.term == 0 || !starts || (!append && !entries.is_empty()) {
        return Err(FormatError::Rule("entries follow the index of their message"));
    }
    message.set_entries(entries.iter().map(library_entry).collect::<Vec<_>>().into());
    if *kind == MessageType::MsgSnapshot {
        let snapshot = read_snapshot(input)?;
        crate::state::ClusterState::decode(&snapshot.state)?;
        message.set_snapshot(library_snapshot(&snapshot));
    }
    crate::codec::read_end(input)?;
    Ok(message)
}

#[cfg(test)]
mod tests;
