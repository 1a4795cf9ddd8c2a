//! Entries of a partition log.
//!
//! An entry is what a partition executes: the same bytes go to followers, to the command log and
//! to replay, which needs nothing else. All numbers are those of [`ByteWriter::put_varint`]:
//! seven bits a byte, the lowest first; *bytes* follow their length.
//!
//! ```text
//! entry     := u8 head | base? | transaction | bytes body
//! head      := kind in the low four bits | 0x10 a base follows | 0x20 ordered by the coordinator
//!              | 0x40 and 0x80: of the kind
//! base      := partition | incarnation | sequence | catalog version | ring
//!              | transaction id without its partition
//! ring      := 0 | epoch | ring version (or the ring version alone: an earlier release, epoch 1)
//! transaction := change of the transaction id without its partition since the entry before,
//!              zigzag; the partition is the log's own, or that of the coordinator
//! ```
//!
//! What is transferred at a time begins with an entry that has a base, and so does whatever
//! follows a change of the catalog: what stands between two bases is read by itself, and pieces
//! that were transferred apart may be put one after the other. An entry's sequence is one more
//! than that of the entry before it. NOW is the time in the transaction id.
//!
//! ```text
//! command    := procedure number | name? (0x40) | count | parameters   (0x80: it addresses the
//!               partition itself)
//! statements := statement*
//! load       := bytes procedure | rows, a table in wire form
//! fragments  := round | u8 vote | participants? (vote) | part*
//! call       := u8 vote | participants | u8 home | home partition? | bytes procedure | parameters
//! vote       := u8
//! schema     := catalog version that it makes | what the control thread wrote
//! snapshot   := what the taker of the snapshot wrote
//! effects    := images of rows, as the executor writes them
//! commit     := writers (or nothing: an earlier release)
//! abort, withdrawn := nothing
//! epoch      := epoch | how many | host*
//! build      := part*, changes of entries only
//! writers    := how many | (partition | the round of its last entry)*
//! vote       := 0 none yet: rounds are to come, 1 yes, 2 no
//! participants := how many | partition*
//! part       := u8 what | entry changes: bytes removed | bytes added
//!                       | else: number? | statement | bytes shipped rows?
//! statement  := u8 of procedure | bytes name | number | bytes parameters
//!            or u8 of text | bytes text | u8 how planned | rules off? | bytes parameters
//! ```
//!
//! A procedure's number is its place in the catalog in force at the site that logged; the name
//! comes with the first command after each base that has the number, so that replay does not
//! depend on how catalogs number.
//!
//! An entry gets its sequence when it is appended, and nothing else takes one: reads, calls that
//! go on to another partition, and calls that are refused before they run have none. So the
//! numbers are without gaps, and the order of entries is that in which the partition ran them
//! first. What runs again after an abort has its entry already; where it turns out to belong
//! elsewhere then, because the row that it was led to is not here, it is withdrawn.
//!
//! A call that failed has no entry either, unless it ran after an undecided transaction: it may run
//! again and succeed. Then a vote of no follows its entry in the same batch, and another vote for
//! each time that it runs again. The last vote counts; without one, the call succeeded.
//!
//! Every decision on a transaction over several partitions is an entry of each partition that
//! logged something of it, so that a follower knows it from its own stream alone. A commit names
//! all that did. Where votes imply it, it need not be durable before anybody hears of the
//! transaction: recovery counts the votes.
//!
//! The first entry of an epoch is one of its own: it names the epoch and the hosts whose copies of
//! the partition are in sync. Nothing that the epoch's leader reports is released before all of
//! these have it. It runs nothing, and is replayed by doing nothing; the entries of earlier epochs
//! with its number or a greater one are void.

mod body;
mod epoch;
mod read;
#[cfg(test)]
mod tests;

pub use body::{
    BuildEntry, CallEntry, CommitEntry, FragmentsEntry, LoadEntry, LoggedPart, LoggedStatement,
    PartKind, StatementSource, Vote, WriterRound, begin_fragments, put_call, put_commit,
    put_entry_changes, put_load, put_part, put_schema, put_statement,
};
pub use epoch::{EPOCH_COPIES_MAX, EpochEntry, put_epoch};
pub use read::{CommandEntry, Entry, EntryBody, EntryError, EntryHead, EntryReader, ReadPosition};

use lockstep_base::bytes::ByteWriter;
use lockstep_types::{ParameterSet, PartitionId, TransactionId};

const KIND: u8 = 0x0f;
const BASE: u8 = 0x10;
const MULTI: u8 = 0x20;
const NAMED: u8 = 0x40;
const ADDRESSED: u8 = 0x80;
/// The ring never changes on one host.
const RING_VERSION: u64 = 1;
/// In place of a ring version: an epoch comes before it.
const WITH_EPOCH: u64 = 0;
/// Procedures with higher numbers are named in each entry.
const NUMBERED_PROCEDURES: usize = 1 << 16;

/// What an entry carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// A single-partition invocation.
    Command = 1,
    /// This partition's fragments of a multi-partition transaction, one round.
    Fragments = 2,
    /// The decision on a multi-partition transaction: commit.
    Commit = 3,
    /// The decision on a multi-partition transaction: abort.
    Abort = 4,
    /// The command of the same transaction id before it does not run here: the transaction before
    /// it was aborted, and without that it belongs to another partition.
    Withdrawn = 5,
    /// Ad hoc statements that need this partition only, one transaction.
    Statements = 6,
    /// Rows for a table, loaded at this partition.
    Load = 7,
    /// A whole multi-partition call of one round, of which each partition works out its part.
    Call = 8,
    /// How the transaction of the same id ended here when it ran last, as a vote: of one that ran
    /// again after an abort, and of a call that failed after an undecided transaction.
    Vote = 9,
    /// A change of the catalog, at all partitions.
    Schema = 10,
    /// Where a snapshot stands, at all partitions.
    Snapshot = 11,
    /// A single-partition invocation by what it did: images of rows.
    Effects = 12,
    /// An epoch begins: its number, and the hosts whose copies are in sync. Ordered by the
    /// partition itself.
    Epoch = 13,
    /// Entries of a new global index, which other partitions have handed out while a change of the
    /// catalog builds it; after the entry of that change. Followers take them from here; recovery
    /// passes over them, because it makes the change at all partitions.
    Build = 14,
}

impl EntryKind {
    fn of(number: u8) -> Option<EntryKind> {
        use EntryKind::*;
        let kinds = [
            Command, Fragments, Commit, Abort, Withdrawn, Statements, Load, Call, Vote, Schema,
            Snapshot, Effects, Epoch, Build,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// When something runs at a partition, and whether its log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The transaction.
    pub transaction: TransactionId,
    /// What NOW is: microseconds since 1970, of millisecond resolution.
    pub timestamp_us: i64,
    /// It ran before, after a transaction that was aborted: the log has it, if it is to have it.
    pub repeated: bool,
}

/// Who ordered entries: the configuration, and the run of the process that led the partition in it.
/// A later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSource {
    /// The number of the configuration: which hosts lead and follow which partitions.
    pub epoch: u32,
    /// The run of the process: greater than those of all its runs before.
    pub incarnation: u64,
}

impl LogSource {
    /// The first configuration; it changes only with the members of a cluster.
    pub const FIRST_EPOCH: u32 = 1;

    /// A run in the first configuration.
    pub const fn of_run(incarnation: u64) -> LogSource {
        LogSource { epoch: LogSource::FIRST_EPOCH, incarnation }
    }
}

impl Default for LogSource {
    /// Nobody: before all runs.
    fn default() -> LogSource {
        LogSource::of_run(0)
    }
}

/// Entries on their way to the log writer.
#[derive(Debug, Default)]
pub struct HandedLog {
    /// The entries.
    pub bytes: Vec<u8>,
    /// Who ordered them.
    pub source: LogSource,
    /// The number of the first.
    pub first_sequence: u64,
    /// How many they are.
    pub entries: u32,
}

/// The entries that a partition ordered since the last hand-over, as bytes.
///
/// The site's loop hands the whole buffer to the log writer and the followers once a round and
/// then clears it; the memory stays.
#[derive(Debug)]
pub struct LogBuffer {
    partition: PartitionId,
    source: LogSource,
    catalog_version: u64,
    /// The number of the entry that was appended last.
    sequence: u64,
    /// The number of the last entry that others may depend on.
    needed: u64,
    /// The transaction id of the entry before, without its partition.
    last: u64,
    /// The next entry begins with a base.
    needs_base: bool,
    /// Grows with every base.
    base: u32,
    /// Per procedure number, the base after which its name stands.
    named: Vec<u32>,
    bytes: Vec<u8>,
    entries: u64,
    /// Somebody reads the entries; otherwise none is made.
    is_kept: bool,
    /// Entries and bytes transferred so far.
    total_entries: u64,
    total_bytes: u64,
}

impl LogBuffer {
    /// The log of a partition whose last entry has the number `sequence`, 0 for none; `source`
    /// orders what follows.
    pub fn new(partition: PartitionId, source: LogSource, sequence: u64) -> LogBuffer {
        LogBuffer {
            partition,
            source,
            catalog_version: 0,
            sequence,
            needed: sequence,
            last: 0,
            needs_base: true,
            base: 0,
            named: Vec::new(),
            bytes: Vec::new(),
            entries: 0,
            is_kept: true,
            total_entries: 0,
            total_bytes: 0,
        }
    }

    /// The version of the catalog that entries are of.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// From the next entry on another catalog is in force, which may number procedures otherwise.
    pub fn set_catalog_version(&mut self, version: u64) {
        assert!(version >= self.catalog_version, "catalog versions grow");
        self.catalog_version = version;
        self.needs_base = true;
    }

    /// Whether somebody reads the entries, as is so from the start unless it is said: of a log that
    /// is written nowhere they are numbered only.
    pub fn set_kept(&mut self, is_kept: bool) {
        assert_eq!(self.entries, 0, "what was logged is transferred first");
        self.is_kept = is_kept;
    }

    /// Whether somebody reads the entries.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The log goes on after an entry of this number that was read back.
    pub fn continue_behind(&mut self, sequence: u64) {
        assert_eq!(self.sequence, 0, "nothing was logged before the log was read");
        self.sequence = sequence;
        self.needed = sequence;
    }

    /// Appends a single-partition call.
    #[inline]
    pub fn command(
        &mut self,
        header: &EntryHeader,
        procedure: u32,
        name: &str,
        addresses_partition: bool,
        parameters: &ParameterSet<'_>,
    ) {
        assert!(!header.repeated, "what runs again is logged once");
        if !self.is_kept {
            return self.number_only();
        }
        let base = self.base + u32::from(self.needs_base);
        let has_name = self.named.get(procedure as usize) == Some(&base);
        let named = if has_name { 0 } else { NAMED };
        let addressed = if addresses_partition { ADDRESSED } else { 0 };
        let (number, count) = (u64::from(procedure), parameters.count() as u64);
        let mut length = varint_length(number) + varint_length(count) + parameters.bytes().len();
        if !has_name {
            length += varint_length(name.len() as u64) + name.len();
        }
        let mut start = self.begin(header, EntryKind::Command as u8 | named | addressed, length);
        start.put(number);
        if !has_name {
            start.put(name.len() as u64);
            start.append_to(&mut self.bytes);
            self.bytes.extend_from_slice(name.as_bytes());
            self.note_named(procedure);
            start = Short::default();
        }
        start.put(count);
        start.append_to(&mut self.bytes);
        self.bytes.extend_from_slice(parameters.bytes());
    }

    /// An entry that nobody reads: it has its number, which tells snapshots what they have.
    #[inline]
    pub fn number_only(&mut self) {
        assert!(!self.is_kept, "what is read is made");
        self.sequence += 1;
        self.needed = self.sequence;
    }

    #[cold]
    fn note_named(&mut self, procedure: u32) {
        let place = procedure as usize;
        if place < NUMBERED_PROCEDURES {
            if self.named.len() <= place {
                self.named.resize(place + 1, 0);
            }
            self.named[place] = self.base;
        }
    }

    /// Appends an entry of another kind, with the body that its kind has.
    pub fn append(&mut self, header: &EntryHeader, kind: EntryKind, body: &[u8]) {
        let again = matches!(kind, EntryKind::Withdrawn | EntryKind::Vote);
        assert!(!header.repeated || again, "what runs again is logged once");
        assert_ne!(kind, EntryKind::Command, "commands have a way of their own");
        if !self.is_kept {
            return self.number_only();
        }
        self.begin(header, kind as u8, body.len()).append_to(&mut self.bytes);
        self.bytes.extend_from_slice(body);
    }

    /// Appends a commit, with all partitions that logged something of its transaction. One that the
    /// votes in their logs imply is an entry that nobody depends on: it may be forwarded with the
    /// next that somebody does depend on.
    #[inline]
    pub fn append_commit(
        &mut self,
        header: &EntryHeader,
        writers: impl ExactSizeIterator<Item = WriterRound> + Clone,
        is_implied: bool,
    ) {
        assert!(!header.repeated, "a decision is logged once");
        assert!(self.is_kept, "what is not logged has no decision");
        let needed = self.needed;
        let is_byte = |writer: WriterRound| writer.partition.0 < 0x80 && writer.round < 0x80;
        if writers.len() <= FEW_WRITERS && writers.clone().all(is_byte) {
            let length = 1 + 2 * writers.len();
            let mut entry = self.begin(header, EntryKind::Commit as u8, length);
            entry.put_byte(writers.len() as u8);
            for writer in writers {
                entry.put_byte(writer.partition.0 as u8);
                entry.put_byte(writer.round as u8);
            }
            entry.append_to(&mut self.bytes);
        } else {
            let mut body = Vec::new();
            put_commit(&mut body, writers);
            self.append(header, EntryKind::Commit, &body);
        }
        if is_implied {
            self.needed = needed;
        }
    }

    /// Begins an entry whose body has `length` bytes: gives what precedes the body and is not
    /// appended yet, so that the caller appends it together with the body's first numbers.
    #[inline(always)]
    fn begin(&mut self, header: &EntryHeader, kind: u8, length: usize) -> Short {
        assert_eq!(self.bytes.is_empty(), self.entries == 0, "entries have bytes");
        let transaction = header.transaction;
        assert_eq!(header.timestamp_us, transaction.time_ms() * 1000, "NOW is the id's time");
        let multi = transaction.partition() == PartitionId::MULTI;
        assert!(multi || transaction.partition() == self.partition, "a log has its own calls");
        self.sequence += 1;
        self.needed = self.sequence;
        self.entries += 1;
        let id = transaction.0 >> TransactionId::PARTITION_BITS;
        let head = kind | if multi { MULTI } else { 0 };
        let mut start = Short::default();
        if self.needs_base {
            self.begin_with_base(head, id);
        } else {
            start.put_byte(head);
        }
        assert!(length <= u32::MAX as usize, "an entry is shorter than 4 GiB");
        let change = id.wrapping_sub(self.last) as i64;
        self.last = id;
        start.put(((change << 1) ^ (change >> 63)) as u64);
        start.put(length as u64);
        start
    }

    #[cold]
    fn begin_with_base(&mut self, head: u8, id: u64) {
        self.needs_base = false;
        self.base += 1;
        self.last = id;
        self.bytes.push(head | BASE);
        let base = [
            u64::from(self.partition.0),
            self.source.incarnation,
            self.sequence,
            self.catalog_version,
            WITH_EPOCH,
            u64::from(self.source.epoch),
            RING_VERSION,
            id,
        ];
        base.into_iter().for_each(|number| self.bytes.put_varint(number));
    }

    /// The number of the last entry.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the last entry that others may depend on: responses that depend on the log
    /// are released when it is durable up to there.
    #[inline]
    pub fn needed_sequence(&self) -> u64 {
        self.needed
    }

    /// What is sent now depends on all entries.
    pub fn need_all(&mut self) {
        self.needed = self.sequence;
    }

    /// Whether entries wait to be forwarded that others may depend on.
    #[inline]
    pub fn is_needed(&self) -> bool {
        self.needed + self.entries > self.sequence
    }

    /// Entries that are taken from now on are of a later epoch.
    pub fn set_source(&mut self, source: LogSource) {
        assert!(source.epoch > self.source.epoch, "epochs ascend");
        self.source = source;
    }

    /// Who orders its entries.
    pub fn source(&self) -> LogSource {
        self.source
    }

    /// The entries since the last [`LogBuffer::clear`]: those up to [`LogBuffer::sequence`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of entries since the last [`LogBuffer::clear`].
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Number of entries, and their bytes, transferred so far.
    pub fn totals(&self) -> (u64, u64) {
        (self.total_entries, self.total_bytes)
    }

    /// Hands the entries over; `spare` takes the place of their buffer.
    pub fn take(&mut self, spare: Vec<u8>) -> HandedLog {
        assert!(self.entries > 0 && spare.is_empty(), "entries go, and an empty buffer comes");
        let entries = self.entries;
        let bytes = std::mem::replace(&mut self.bytes, spare);
        self.total_entries += entries;
        self.total_bytes += bytes.len() as u64;
        self.entries = 0;
        self.needs_base = true;
        HandedLog {
            bytes,
            source: self.source,
            first_sequence: self.sequence + 1 - entries,
            entries: u32::try_from(entries).expect("a round logs far fewer entries"),
        }
    }

    /// Checks what holds between two entries.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        assert!(self.is_kept || self.entries == 0, "what nobody reads is not made");
        assert_eq!(self.bytes.is_empty(), self.entries == 0, "entries have bytes");
        assert!(self.entries <= self.sequence, "every entry has taken a number of its own");
        assert!(self.needed <= self.sequence, "others depend on entries that there are");
        assert!(self.needs_base || self.entries > 0, "what is transferred next begins with a base");
        assert!(
            self.named.iter().all(|base| *base <= self.base),
            "names stand in entries that were made"
        );
    }

    /// Forgets the entries: they have been transferred.
    pub fn clear(&mut self) {
        self.total_entries += self.entries;
        self.total_bytes += self.bytes.len() as u64;
        self.entries = 0;
        self.bytes.clear();
        self.needs_base = true;
    }
}

/// Bytes of a number, encoded by [`Short::put`].
#[inline]
fn varint_length(value: u64) -> usize {
    // Seven bits a byte, one byte at least.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// The most that stands in front of the parameters of a call: a kind, an id of 50 bits and its
/// sign, a length, a procedure of 32 bits, a count.
const SHORT_BYTES: usize = 32;

/// The writers of a commit that is appended at once, where each takes two bytes: besides a kind, an
/// id and a length.
const FEW_WRITERS: usize = 6;

/// A few numbers, encoded without a heap and appended at once.
struct Short {
    bytes: [u8; SHORT_BYTES],
    length: usize,
}

impl Default for Short {
    #[inline]
    fn default() -> Short {
        Short { bytes: [0; SHORT_BYTES], length: 0 }
    }
}

impl Short {
    #[inline(always)]
    fn put_byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline(always)]
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_byte(value as u8);
    }

    /// Copies all bytes, of which the last ones mean nothing, and takes those away again: a copy
    /// of a fixed length needs no call.
    #[inline]
    fn append_to(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.length;
        bytes.extend_from_slice(&self.bytes);
        bytes.truncate(end);
    }
}
