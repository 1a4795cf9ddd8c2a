//! What the Raft log consists of, in types of our own, and the byte forms that both the network
//! and the disk use.

use crate::codec::{read_count, read_number};
use crate::error::FormatError;
use crate::ids::RaftId;
use lockstep_base::bytes::{ByteReader, ByteWriter};

/// The greatest term or index that is believed: nothing overflows above it.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// How one member of the Raft group changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChange {
    /// It becomes a voter.
    AddVoter(RaftId),
    /// It becomes a learner; a voter stops voting.
    AddLearner(RaftId),
    /// It leaves the group.
    Remove(RaftId),
}

/// What a log entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryBody {
    /// Nothing: the first entry of a term.
    Empty,
    /// A proposal.
    Proposal(Vec<u8>),
    /// A change of the group.
    Change(GroupChange),
}

/// An entry of the Raft log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The term in which it was appended.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// What it holds.
    pub body: EntryBody,
}

/// What a member promised: it is durable before any message that depends on it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardState {
    /// The newest term.
    pub term: u64,
    /// The member that it voted for in that term, as a number; 0 for none.
    pub vote: u64,
    /// The greatest index that is known to be committed.
    pub commit: u64,
}

/// The replicated state at an index, in place of all entries up to there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The index of the last entry in it.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The members that vote, ascending.
    pub voters: Vec<RaftId>,
    /// The members that receive the log only, ascending.
    pub learners: Vec<RaftId>,
    /// The byte form of the state.
    pub state: Vec<u8>,
}

/// What must be durable before the messages after it are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Persist {
    /// A snapshot. It replaces everything that was durable before.
    pub snapshot: Option<Snapshot>,
    /// Entries, ascending without gaps. They replace durable ones from the first index on.
    pub entries: Vec<LogEntry>,
    /// The promise, if it changed.
    pub hard_state: Option<HardState>,
}

pub(crate) fn put_raft_id(output: &mut Vec<u8>, id: RaftId) {
    output.extend_from_slice(&id.number().to_be_bytes());
}

pub(crate) fn read_raft_id(input: &mut ByteReader<'_>) -> Result<RaftId, FormatError> {
    let found = input.u64()?;
    RaftId::from_number(found).ok_or(FormatError::Value { field: "Raft identity", found })
}

pub(crate) fn read_index(
    input: &mut ByteReader<'_>,
    field: &'static str,
) -> Result<u64, FormatError> {
    read_number(input, field, NUMBER_MAX)
}

pub(crate) fn put_entry(output: &mut Vec<u8>, entry: &LogEntry) {
    output.put_varint(entry.term);
    output.put_varint(entry.index);
    let (kind, id) = match &entry.body {
        EntryBody::Empty => return output.put_u8(0),
        EntryBody::Proposal(bytes) => {
            output.put_u8(1);
            return output.put_counted(bytes);
        }
        EntryBody::Change(GroupChange::AddVoter(id)) => (2, id),
        EntryBody::Change(GroupChange::AddLearner(id)) => (3, id),
        EntryBody::Change(GroupChange::Remove(id)) => (4, id),
    };
    output.put_u8(kind);
    put_raft_id(output, *id);
}

pub(crate) fn read_entry(input: &mut ByteReader<'_>) -> Result<LogEntry, FormatError> {
    let (term, index) = (read_index(input, "term")?, read_index(input, "index")?);
    let body = match input.u8()? {
        0 => EntryBody::Empty,
        1 => EntryBody::Proposal(input.counted()?.to_vec()),
        2 => EntryBody::Change(GroupChange::AddVoter(read_raft_id(input)?)),
        3 => EntryBody::Change(GroupChange::AddLearner(read_raft_id(input)?)),
        4 => EntryBody::Change(GroupChange::Remove(read_raft_id(input)?)),
        found => return Err(FormatError::Value { field: "entry", found: u64::from(found) }),
    };
    Ok(LogEntry { term, index, body })
}

/// Reads entries, which have no gaps and whose terms do not fall.
pub(crate) fn read_entries(input: &mut ByteReader<'_>) -> Result<Vec<LogEntry>, FormatError> {
    let count = read_count(input, "entries")?;
    let entries = (0..count).map(|_| read_entry(input)).collect::<Result<Vec<_>, _>>()?;
    let follows = |a: &LogEntry, b: &LogEntry| b.index == a.index + 1 && b.term >= a.term;
    match entries.windows(2).all(|pair| follows(&pair[0], &pair[1])) {
        true => Ok(entries),
        false => Err(FormatError::Rule("entries follow each other")),
    }
}

pub(crate) fn put_entries(output: &mut Vec<u8>, entries: &[LogEntry]) {
    output.put_varint(entries.len() as u64);
    entries.iter().for_each(|entry| put_entry(output, entry));
}

pub(crate) fn put_snapshot(output: &mut Vec<u8>, snapshot: &Snapshot) {
    output.put_varint(snapshot.index);
    output.put_varint(snapshot.term);
    for ids in [&snapshot.voters, &snapshot.learners] {
        output.put_varint(ids.len() as u64);
        ids.iter().for_each(|id| put_raft_id(output, *id));
    }
    output.put_counted(&snapshot.state);
}

pub(crate) fn read_snapshot(input: &mut ByteReader<'_>) -> Result<Snapshot, FormatError> {
    let (index, term) = (read_index(input, "index")?, read_index(input, "term")?);
    let mut ids = || {
        let count = read_count(input, "members")?;
        (0..count).map(|_| read_raft_id(input)).collect::<Result<Vec<_>, _>>()
    };
    let (voters, learners) = (ids()?, ids()?);
    let ascending = voters.is_sorted_by(|a, b| a < b) && learners.is_sorted_by(|a, b| a < b);
    let apart = learners.iter().all(|learner| !voters.contains(learner));
    if voters.is_empty() || !ascending || !apart || index == 0 {
        return Err(FormatError::Rule("a snapshot has an index and voters, each listed once"));
    }
    Ok(Snapshot { index, term, voters, learners, state: input.counted()?.to_vec() })
}

pub(crate) fn put_hard_state(output: &mut Vec<u8>, hard_state: &HardState) {
    output.put_varint(hard_state.term);
    output.extend_from_slice(&hard_state.vote.to_be_bytes());
    output.put_varint(hard_state.commit);
}

pub(crate) fn read_hard_state(input: &mut ByteReader<'_>) -> Result<HardState, FormatError> {
    let term = read_index(input, "term")?;
    let vote = input.u64()?;
    if vote != 0 && RaftId::from_number(vote).is_none() {
        return Err(FormatError::Value { field: "vote", found: vote });
    }
    Ok(HardState { term, vote, commit: read_index(input, "commit index")? })
}
