//! Reading entries back.

use super::body::{
    BuildEntry, CallEntry, CommitEntry, FragmentsEntry, LoadEntry, LoggedStatement, Vote, number,
    text,
};
use super::epoch::EpochEntry;
use super::{
    ADDRESSED, BASE, EntryHeader, EntryKind, KIND, LogSource, MULTI, NAMED, NUMBERED_PROCEDURES,
    WITH_EPOCH,
};
use lockstep_base::bytes::{ByteReader, EndOfBytes};
use lockstep_types::{ParameterSet, PartitionId, TransactionId};
use std::fmt;
use std::ops::Range;

/// Why bytes are no entries: where in them, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// Where the entry begins, in bytes from the beginning of what was read.
    pub offset: usize,
    /// What is wrong.
    pub reason: String,
}

impl EntryError {
    fn new(reason: impl Into<String>) -> EntryError {
        EntryError { offset: 0, reason: reason.into() }
    }

    #[cold]
    pub(super) fn unknown(what: &str, number: u8) -> EntryError {
        EntryError::new(format!("the {what} has number {number}, which this release does not know"))
    }

    #[cold]
    pub(super) fn number(value: u64) -> EntryError {
        EntryError::new(format!("the number {value} is over 32 bits"))
    }

    #[cold]
    pub(super) fn writers() -> EntryError {
        EntryError::new("the writers of a commit are not as many as it says, or none")
    }

    #[cold]
    pub(super) fn copies() -> EntryError {
        EntryError::new("the copies of an epoch are not as many as it names, or none")
    }

    #[cold]
    pub(super) fn text() -> EntryError {
        EntryError::new("a name or statement is not UTF-8")
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log entry at byte {} is not sound: {}", self.offset, self.reason)
    }
}

impl std::error::Error for EntryError {}

impl From<EndOfBytes> for EntryError {
    #[cold]
    fn from(_: EndOfBytes) -> EntryError {
        EntryError::new("it is cut off, or a length in it is wrong")
    }
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct CommandEntry<'a> {
    /// The procedure's name.
    pub procedure: &'a str,
    /// The call addresses the partition itself.
    pub addresses_partition: bool,
    /// The call's parameters.
    pub parameters: ParameterSet<'a>,
}

/// What an entry carries.
#[derive(Debug, Clone, Copy)]
pub enum EntryBody<'a> {
    /// See [`EntryKind::Command`].
    Command(CommandEntry<'a>),
    /// See [`EntryKind::Fragments`].
    Fragments(FragmentsEntry<'a>),
    /// See [`EntryKind::Call`].
    Call(CallEntry<'a>),
    /// See [`EntryKind::Load`].
    Load(LoadEntry<'a>),
    /// See [`EntryKind::Statements`]; [`Entry::statements`] reads them.
    Statements,
    /// See [`EntryKind::Vote`].
    Vote(Vote),
    /// See [`EntryKind::Schema`]: the catalog version that it makes, and what to do.
    Schema {
        /// The version of the catalog after it.
        catalog_version: u64,
        /// As the control thread wrote it.
        change: &'a [u8],
    },
    /// See [`EntryKind::Snapshot`].
    Snapshot(&'a [u8]),
    /// See [`EntryKind::Effects`].
    Effects(&'a [u8]),
    /// See [`EntryKind::Commit`].
    Commit(CommitEntry<'a>),
    /// See [`EntryKind::Abort`].
    Abort,
    /// See [`EntryKind::Withdrawn`].
    Withdrawn,
    /// See [`EntryKind::Epoch`].
    Epoch(EpochEntry<'a>),
    /// See [`EntryKind::Build`].
    Build(BuildEntry<'a>),
}

/// An entry that was read.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its number in the partition log.
    pub sequence: u64,
    /// When it ran.
    pub header: EntryHeader,
    /// What it is.
    pub kind: EntryKind,
    /// What it carries.
    pub body: EntryBody<'a>,
    /// Where it begins, in bytes from the beginning of what was read.
    pub offset: usize,
    raw: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The statements of [`EntryBody::Statements`]; stops after the first error.
    pub fn statements(&self) -> impl Iterator<Item = Result<LoggedStatement<'a>, EntryError>> + 'a {
        let raw = if self.kind == EntryKind::Statements { self.raw } else { &[] };
        LoggedStatement::all(raw)
    }

    /// Bytes of its body.
    pub fn body_bytes(&self) -> usize {
        self.raw.len()
    }
}

/// An entry of which the body was not read.
#[derive(Debug, Clone, Copy)]
pub struct EntryHead<'a> {
    /// Its number in the partition log.
    pub sequence: u64,
    /// When it ran.
    pub header: EntryHeader,
    /// What it is.
    pub kind: EntryKind,
    flags: u8,
    offset: usize,
    raw: &'a [u8],
}

/// Reads the entries of one or several transfers, one after the other. Keeps
/// its memory, so that many pieces can be read without allocating.
#[derive(Debug)]
pub struct EntryReader<'a> {
    bytes: &'a [u8],
    rest: ByteReader<'a>,
    has_base: bool,
    partition: PartitionId,
    source: LogSource,
    catalog_version: u64,
    sequence: u64,
    last: u64,
    /// [`EntryReader::last`] before the entry that was read last.
    last_before: u64,
    /// By procedure number; empty for one that was not named since the base.
    names: Vec<&'a str>,
}

/// Where a reader has stopped, to go on there later without reading what is before it again.
#[derive(Debug, Clone)]
pub struct ReadPosition {
    offset: usize,
    has_base: bool,
    partition: PartitionId,
    source: LogSource,
    catalog_version: u64,
    sequence: u64,
    last: u64,
    /// Where the names are in the bytes, by procedure number.
    names: Vec<Range<usize>>,
}

impl<'a> EntryReader<'a> {
    /// A reader at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> EntryReader<'a> {
        EntryReader {
            bytes,
            rest: ByteReader::new(bytes),
            has_base: false,
            partition: PartitionId(0),
            source: LogSource::default(),
            catalog_version: 0,
            sequence: 0,
            last: 0,
            last_before: 0,
            names: Vec::new(),
        }
    }

    /// A reader of the same `bytes` that goes on at a position in them.
    pub fn resume(bytes: &'a [u8], position: ReadPosition) -> EntryReader<'a> {
        let ReadPosition { offset, has_base, partition, source, catalog_version, .. } = position;
        assert!(offset < bytes.len(), "there is an entry at the position");
        assert!(has_base, "a base comes with the first entry");
        let name = |place: &Range<usize>| {
            std::str::from_utf8(&bytes[place.clone()]).expect("it was read from the same bytes")
        };
        EntryReader {
            bytes,
            rest: ByteReader::new(&bytes[offset..]),
            has_base,
            partition,
            source,
            catalog_version,
            sequence: position.sequence,
            last: position.last,
            last_before: position.last,
            names: position.names.iter().map(name).collect(),
        }
    }

    /// The position before the entry that was read last.
    pub fn position_before(&self, entry: &Entry<'a>) -> ReadPosition {
        assert_eq!(entry.sequence, self.sequence, "it is the entry that was read last");
        assert!(entry.sequence > 0, "entries are numbered from 1");
        let place = |name: &&str| {
            let begin = (name.as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize);
            if name.is_empty() { 0..0 } else { begin..begin + name.len() }
        };
        ReadPosition {
            offset: entry.offset,
            has_base: self.has_base,
            partition: self.partition,
            source: self.source,
            catalog_version: self.catalog_version,
            sequence: entry.sequence - 1,
            last: self.last_before,
            names: self.names.iter().map(place).collect(),
        }
    }

    /// The partition whose log the entry that was read last belongs to.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Who ordered the entry that was read last.
    pub fn source(&self) -> LogSource {
        self.source
    }

    /// The version of the catalog that was in force where it was logged.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// The bytes are no entry; nothing can be read after it.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Entry<'a>>, EntryError> {
        match self.read_head()? {
            Some(head) => self.read_body(head).map(Some),
            None => Ok(None),
        }
    }

    /// The next entry without its body, for who needs only some of them whole; `None` at the end.
    /// A command whose procedure was named in a body that was not read cannot be read after it.
    ///
    /// # Errors
    /// As of [`EntryReader::read`].
    #[inline]
    pub fn read_head(&mut self) -> Result<Option<EntryHead<'a>>, EntryError> {
        if self.rest.remaining() == 0 {
            return Ok(None);
        }
        let offset = self.bytes.len() - self.rest.remaining();
        self.head_at(offset).map(Some).map_err(|error| self.end_with(error, offset))
    }

    /// An entry whose head was read last.
    ///
    /// # Errors
    /// As of [`EntryReader::read`].
    #[inline]
    pub fn read_body(&mut self, head: EntryHead<'a>) -> Result<Entry<'a>, EntryError> {
        let EntryHead { sequence, header, kind, flags, offset, raw } = head;
        assert_eq!(sequence, self.sequence, "it is the entry whose head was read last");
        assert!(self.has_base, "a base comes with the first entry");
        match self.body_of(flags, kind, raw) {
            Ok(body) => Ok(Entry { sequence, header, kind, body, offset, raw }),
            Err(error) => Err(self.end_with(error, offset)),
        }
    }

    /// Nothing can be read after what is no entry.
    #[cold]
    fn end_with(&mut self, error: EntryError, offset: usize) -> EntryError {
        assert!(offset < self.bytes.len(), "what is no entry has bytes");
        self.rest = ByteReader::new(&[]);
        EntryError { offset, ..error }
    }

    #[inline]
    fn head_at(&mut self, offset: usize) -> Result<EntryHead<'a>, EntryError> {
        let head = self.rest.u8()?;
        if head & BASE != 0 {
            self.read_base()?;
        } else if !self.has_base {
            return Err(EntryError::new("the first entry has no base"));
        }
        let change = self.rest.varint()?;
        let change = (change >> 1) as i64 ^ -((change & 1) as i64);
        self.last_before = self.last;
        self.last = self.last.wrapping_add(change as u64);
        if self.last >> (u64::BITS - TransactionId::PARTITION_BITS) != 0 {
            return Err(EntryError::new("its transaction id is over 64 bits"));
        }
        self.sequence = self
            .sequence
            .checked_add(1)
            .ok_or_else(|| EntryError::new("its sequence is over 64 bits"))?;
        let by = if head & MULTI != 0 { PartitionId::MULTI } else { self.partition };
        let id = (self.last << TransactionId::PARTITION_BITS) | u64::from(by.0);
        let transaction = TransactionId(id);
        let timestamp_us = transaction.time_ms() * 1000;
        let raw = self.rest.counted()?;
        let kind =
            EntryKind::of(head & KIND).ok_or_else(|| EntryError::unknown("kind", head & KIND))?;
        let header = EntryHeader { transaction, timestamp_us, repeated: false };
        Ok(EntryHead { sequence: self.sequence, header, kind, flags: head, offset, raw })
    }

    #[cold]
    fn read_base(&mut self) -> Result<(), EntryError> {
        self.partition = PartitionId(number(&mut self.rest)?);
        if self.partition.0 >= PartitionId::LIMIT {
            return Err(EntryError::new(format!("there is no partition {}", self.partition)));
        }
        let incarnation = self.rest.varint()?;
        let sequence = self.rest.varint()?;
        self.sequence =
            sequence.checked_sub(1).ok_or_else(|| EntryError::new("sequences begin at 1"))?;
        self.catalog_version = self.rest.varint()?;
        let (mut ring, mut epoch) = (self.rest.varint()?, LogSource::FIRST_EPOCH);
        if ring == WITH_EPOCH {
            epoch = number(&mut self.rest)?;
            ring = self.rest.varint()?;
        }
        self.source = LogSource { epoch, incarnation };
        if ring != super::RING_VERSION {
            let text = format!("it is of ring version {ring}, which this release does not know");
            return Err(EntryError::new(text));
        }
        self.last = self.rest.varint()?;
        self.has_base = true;
        self.names.clear();
        Ok(())
    }

    #[inline]
    fn body_of(
        &mut self,
        head: u8,
        kind: EntryKind,
        raw: &'a [u8],
    ) -> Result<EntryBody<'a>, EntryError> {
        Ok(match kind {
            EntryKind::Command => EntryBody::Command(self.read_command(head, raw)?),
            EntryKind::Fragments => EntryBody::Fragments(FragmentsEntry::read(raw)?),
            EntryKind::Call => EntryBody::Call(CallEntry::read(raw)?),
            EntryKind::Load => EntryBody::Load(LoadEntry::read(raw)?),
            EntryKind::Statements => EntryBody::Statements,
            EntryKind::Vote => EntryBody::Vote(Vote::read(&mut ByteReader::new(raw))?),
            EntryKind::Schema => {
                let mut reader = ByteReader::new(raw);
                let catalog_version = reader.varint()?;
                EntryBody::Schema { catalog_version, change: reader.rest() }
            }
            EntryKind::Snapshot => EntryBody::Snapshot(raw),
            EntryKind::Effects => EntryBody::Effects(raw),
            EntryKind::Commit => EntryBody::Commit(CommitEntry::read(raw)?),
            EntryKind::Abort => EntryBody::Abort,
            EntryKind::Withdrawn => EntryBody::Withdrawn,
            EntryKind::Build => EntryBody::Build(BuildEntry::read(raw)),
            EntryKind::Epoch => EntryBody::Epoch(EpochEntry::read(raw)?),
        })
    }

    #[inline]
    fn read_command(&mut self, head: u8, raw: &'a [u8]) -> Result<CommandEntry<'a>, EntryError> {
        let mut reader = ByteReader::new(raw);
        let place = number(&mut reader)? as usize;
        let procedure = if head & NAMED != 0 {
            let name = text(reader.counted()?)?;
            self.note_name(place, name);
            name
        } else {
            let name = self.names.get(place).copied().unwrap_or("");
            if name.is_empty() {
                return Err(EntryError::new(format!("procedure {place} was not named before it")));
            }
            name
        };
        let count = u16::try_from(reader.varint()?)
            .map_err(|_| EntryError::new("it has more than 65,535 parameters"))?;
        Ok(CommandEntry {
            procedure,
            addresses_partition: head & ADDRESSED != 0,
            parameters: ParameterSet::from_parts(count, reader.rest()),
        })
    }

    #[cold]
    fn note_name(&mut self, place: usize, name: &'a str) {
        if place < NUMBERED_PROCEDURES {
            if self.names.len() <= place {
                self.names.resize(place + 1, "");
            }
            self.names[place] = name;
        }
    }
}
