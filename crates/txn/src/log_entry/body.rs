//! What entries of other kinds than commands carry: writing it, and reading it back.

use super::read::EntryError;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::PartitionId;

const OF_PROCEDURE: u8 = 0;
const OF_TEXT: u8 = 1;
/// The text was planned as for a single-partition procedure.
const SINGLE_PARTITION: u8 = 1;
/// Numbers of planner rules that were off follow.
const RULES_OFF: u8 = 2;
const NO_PARTITION: u8 = 0;
const HOME: u8 = 1;
const HOME_ADDRESSED: u8 = 2;

/// What a partition says to a transaction with its last round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Vote {
    /// Rounds are to come.
    None = 0,
    /// The partition did all it was asked to do.
    Yes = 1,
    /// A fragment failed: the transaction cannot commit.
    No = 2,
}

impl Vote {
    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<Vote, EntryError> {
        match reader.u8()? {
            0 => Ok(Vote::None),
            1 => Ok(Vote::Yes),
            2 => Ok(Vote::No),
            other => Err(EntryError::unknown("vote", other)),
        }
    }
}

/// Where a statement comes from: replay finds or plans it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementSource<'a> {
    /// The numbered statement of a procedure.
    Procedure {
        /// The procedure's name.
        name: &'a str,
        /// The statement's place in it.
        number: u32,
    },
    /// Text.
    Text {
        /// The text, with `?` for parameters.
        text: &'a str,
        /// Planned as within a single-partition procedure.
        single_partition: bool,
        /// The planner's rules that were off.
        rules_off: u64,
    },
}

/// A statement with its parameters, a parameter set with its count in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedStatement<'a> {
    /// Which statement.
    pub source: StatementSource<'a>,
    /// Its parameters.
    pub parameters: &'a [u8],
}

/// Which part of a statement a partition ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The whole of it.
    Whole,
    /// The whole, as of a single-partition procedure whose partition this is.
    Home {
        /// The call addresses the partition itself.
        addresses_partition: bool,
    },
    /// The numbered known entry of a global index.
    Entry(u32),
    /// The numbered fragment.
    Fragment(u32),
    /// The second round of a statement that ships rows.
    Apply,
    /// Rows that the statement inserts, one by one.
    Load,
}

impl PartKind {
    /// Whether rows follow the statement.
    fn has_rows(self) -> bool {
        matches!(self, PartKind::Apply | PartKind::Load)
    }
}

/// A part of a round at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedPart<'a> {
    /// Changes of entries of global indexes that live here.
    Entries {
        /// What is removed, as the executor encodes it.
        removed: &'a [u8],
        /// What is added.
        added: &'a [u8],
    },
    /// A part of a statement.
    Statement {
        /// Which part.
        kind: PartKind,
        /// The statement.
        statement: LoggedStatement<'a>,
        /// For [`PartKind::Apply`] and [`PartKind::Load`]: the rows for this partition.
        shipped: &'a [u8],
    },
}

/// A round of a multi-partition transaction at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentsEntry<'a> {
    /// The round, from 1.
    pub round: u32,
    /// The vote, with the last round.
    pub vote: Vote,
    participants: &'a [u8],
    parts: &'a [u8],
}

/// Entries of a new global index that come to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildEntry<'a> {
    parts: &'a [u8],
}

impl<'a> BuildEntry<'a> {
    pub(super) fn read(parts: &'a [u8]) -> BuildEntry<'a> {
        BuildEntry { parts }
    }

    /// The changes of entries, in their order. Stops after the first error.
    pub fn parts(&self) -> impl Iterator<Item = Result<LoggedPart<'a>, EntryError>> + 'a {
        each(self.parts, LoggedPart::read)
    }
}

/// A whole call of one round at several partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEntry<'a> {
    /// The vote.
    pub vote: Vote,
    /// For a procedure with a partition of its own: that partition, and whether the call
    /// addresses it itself.
    pub home: Option<(PartitionId, bool)>,
    /// The procedure's name.
    pub procedure: &'a str,
    /// The call's parameters: a parameter set, its count in front.
    pub parameters: &'a [u8],
    participants: &'a [u8],
}

/// Rows that were loaded into a table at its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadEntry<'a> {
    /// The procedure of the table whose statement each row goes by: its insert or upsert.
    pub procedure: &'a str,
    /// The rows: a table in wire form.
    pub rows: &'a [u8],
}

/// A partition that logged something of a transaction, and in which round it did so last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterRound {
    /// The partition.
    pub partition: PartitionId,
    /// The round, from 1.
    pub round: u32,
}

/// The decision to commit a transaction over several partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitEntry<'a> {
    writers: &'a [u8],
}

/// Begins the body of [`super::EntryKind::Fragments`]; [`put_part`] and [`put_entry_changes`] add
/// to it. `participants` are the partitions that log something for the transaction, and count
/// with a vote only.
pub fn begin_fragments(body: &mut Vec<u8>, round: u32, vote: Vote, participants: &[PartitionId]) {
    body.put_varint(u64::from(round));
    body.put_u8(vote as u8);
    if vote != Vote::None {
        put_participants(body, participants);
    }
}

fn put_participants(body: &mut Vec<u8>, participants: &[PartitionId]) {
    body.put_varint(participants.len() as u64);
    participants.iter().for_each(|partition| body.put_varint(u64::from(partition.0)));
}

/// Adds a part of a statement.
pub fn put_part(
    body: &mut Vec<u8>,
    kind: PartKind,
    source: &StatementSource<'_>,
    parameters: &[u8],
    shipped: &[u8],
) {
    let (what, number) = match kind {
        PartKind::Whole => (1, None),
        PartKind::Home { addresses_partition: false } => (2, None),
        PartKind::Home { addresses_partition: true } => (3, None),
        PartKind::Entry(number) => (4, Some(number)),
        PartKind::Fragment(number) => (5, Some(number)),
        PartKind::Apply => (6, None),
        PartKind::Load => (7, None),
    };
    body.put_u8(what);
    number.into_iter().for_each(|number| body.put_varint(u64::from(number)));
    put_statement(body, source, parameters);
    if kind.has_rows() {
        body.put_counted(shipped);
    }
}

/// Adds changes of entries of global indexes.
pub fn put_entry_changes(body: &mut Vec<u8>, removed: &[u8], added: &[u8]) {
    body.put_u8(0);
    body.put_counted(removed);
    body.put_counted(added);
}

/// Adds a statement: to a part, or to the body of [`super::EntryKind::Statements`].
pub fn put_statement(body: &mut Vec<u8>, source: &StatementSource<'_>, parameters: &[u8]) {
    match *source {
        StatementSource::Procedure { name, number } => {
            body.put_u8(OF_PROCEDURE);
            body.put_counted(name.as_bytes());
            body.put_varint(u64::from(number));
        }
        StatementSource::Text { text, single_partition, rules_off } => {
            body.put_u8(OF_TEXT);
            body.put_counted(text.as_bytes());
            let single = if single_partition { SINGLE_PARTITION } else { 0 };
            let rules = if rules_off == 0 { 0 } else { RULES_OFF };
            body.put_u8(single | rules);
            if rules_off != 0 {
                body.put_varint(rules_off);
            }
        }
    }
    body.put_counted(parameters);
}

/// Writes the body of [`super::EntryKind::Schema`].
pub fn put_schema(body: &mut Vec<u8>, catalog_version: u64, change: &[u8]) {
    body.put_varint(catalog_version);
    body.extend_from_slice(change);
}

/// Writes the body of [`super::EntryKind::Commit`]: all partitions that logged something of the
/// transaction, one at least.
pub fn put_commit(body: &mut Vec<u8>, writers: impl ExactSizeIterator<Item = WriterRound>) {
    assert!(writers.len() > 0, "a commit is logged where something of its transaction is");
    body.put_varint(writers.len() as u64);
    for writer in writers {
        body.put_varint(u64::from(writer.partition.0));
        body.put_varint(u64::from(writer.round));
    }
}

/// Writes the body of [`super::EntryKind::Load`].
pub fn put_load(body: &mut Vec<u8>, procedure: &str, rows: &[u8]) {
    body.put_counted(procedure.as_bytes());
    body.extend_from_slice(rows);
}

/// Writes the body of [`super::EntryKind::Call`].
pub fn put_call(
    body: &mut Vec<u8>,
    vote: Vote,
    participants: &[PartitionId],
    home: Option<(PartitionId, bool)>,
    procedure: &str,
    parameters: &[u8],
) {
    body.put_u8(vote as u8);
    put_participants(body, participants);
    match home {
        None => body.put_u8(NO_PARTITION),
        Some((partition, addressed)) => {
            body.put_u8(if addressed { HOME_ADDRESSED } else { HOME });
            body.put_varint(u64::from(partition.0));
        }
    }
    body.put_counted(procedure.as_bytes());
    body.extend_from_slice(parameters);
}

impl<'a> FragmentsEntry<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<FragmentsEntry<'a>, EntryError> {
        let mut reader = ByteReader::new(body);
        let round = number(&mut reader)?;
        let vote = Vote::read(&mut reader)?;
        let participants = match vote {
            Vote::None => &[][..],
            _ => read_participants(&mut reader)?,
        };
        Ok(FragmentsEntry { round, vote, participants, parts: reader.rest() })
    }

    /// With a vote: the partitions that must say yes.
    pub fn participants(&self) -> impl Iterator<Item = PartitionId> + 'a {
        partitions(self.participants)
    }

    /// Its parts, in the order in which they ran. Stops after the first error.
    pub fn parts(&self) -> impl Iterator<Item = Result<LoggedPart<'a>, EntryError>> + 'a {
        each(self.parts, LoggedPart::read)
    }
}

impl<'a> CallEntry<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<CallEntry<'a>, EntryError> {
        let mut reader = ByteReader::new(body);
        let vote = Vote::read(&mut reader)?;
        let participants = read_participants(&mut reader)?;
        let home = match reader.u8()? {
            NO_PARTITION => None,
            HOME => Some((PartitionId(number(&mut reader)?), false)),
            HOME_ADDRESSED => Some((PartitionId(number(&mut reader)?), true)),
            other => return Err(EntryError::unknown("home", other)),
        };
        let procedure = text(reader.counted()?)?;
        Ok(CallEntry { vote, home, procedure, parameters: reader.rest(), participants })
    }

    /// The partitions that must say yes.
    pub fn participants(&self) -> impl Iterator<Item = PartitionId> + 'a {
        partitions(self.participants)
    }
}

impl<'a> CommitEntry<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<CommitEntry<'a>, EntryError> {
        if body.is_empty() {
            return Ok(CommitEntry { writers: body });
        }
        let mut reader = ByteReader::new(body);
        let count = reader.varint()?;
        let writers = reader.rest();
        for _ in 0..count {
            read_writer(&mut reader)?;
        }
        if count == 0 || reader.remaining() > 0 {
            return Err(EntryError::writers());
        }
        Ok(CommitEntry { writers })
    }

    /// All partitions that logged something of the transaction; none if an earlier release wrote
    /// the entry, which did not name them.
    pub fn writers(&self) -> impl Iterator<Item = WriterRound> + 'a {
        each(self.writers, read_writer).map_while(Result::ok)
    }
}

fn read_writer(reader: &mut ByteReader<'_>) -> Result<WriterRound, EntryError> {
    let partition = PartitionId(number(reader)?);
    Ok(WriterRound { partition, round: number(reader)? })
}

impl<'a> LoadEntry<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<LoadEntry<'a>, EntryError> {
        let mut reader = ByteReader::new(body);
        let procedure = text(reader.counted()?)?;
        Ok(LoadEntry { procedure, rows: reader.rest() })
    }
}

impl<'a> LoggedStatement<'a> {
    fn read(reader: &mut ByteReader<'a>) -> Result<LoggedStatement<'a>, EntryError> {
        let source = match reader.u8()? {
            OF_PROCEDURE => {
                let name = text(reader.counted()?)?;
                StatementSource::Procedure { name, number: number(reader)? }
            }
            OF_TEXT => {
                let text = text(reader.counted()?)?;
                let how = reader.u8()?;
                let rules_off = if how & RULES_OFF != 0 { reader.varint()? } else { 0 };
                let single_partition = how & SINGLE_PARTITION != 0;
                StatementSource::Text { text, single_partition, rules_off }
            }
            other => return Err(EntryError::unknown("source of a statement", other)),
        };
        Ok(LoggedStatement { source, parameters: reader.counted()? })
    }

    /// The statements of the body of [`super::EntryKind::Statements`]; stops after an error.
    pub(super) fn all(
        body: &'a [u8],
    ) -> impl Iterator<Item = Result<LoggedStatement<'a>, EntryError>> + 'a {
        each(body, LoggedStatement::read)
    }
}

impl<'a> LoggedPart<'a> {
    fn read(reader: &mut ByteReader<'a>) -> Result<LoggedPart<'a>, EntryError> {
        let kind = match reader.u8()? {
            0 => {
                let removed = reader.counted()?;
                return Ok(LoggedPart::Entries { removed, added: reader.counted()? });
            }
            1 => PartKind::Whole,
            2 => PartKind::Home { addresses_partition: false },
            3 => PartKind::Home { addresses_partition: true },
            4 => PartKind::Entry(number(reader)?),
            5 => PartKind::Fragment(number(reader)?),
            6 => PartKind::Apply,
            7 => PartKind::Load,
            other => return Err(EntryError::unknown("part of a statement", other)),
        };
        let statement = LoggedStatement::read(reader)?;
        let shipped = if kind.has_rows() { reader.counted()? } else { &[] };
        Ok(LoggedPart::Statement { kind, statement, shipped })
    }
}

/// What stands in a body one after the other; ends after the first error.
fn each<'a, T: 'a>(
    bytes: &'a [u8],
    read: impl Fn(&mut ByteReader<'a>) -> Result<T, EntryError> + 'a,
) -> impl Iterator<Item = Result<T, EntryError>> + 'a {
    let mut rest = Some(ByteReader::new(bytes));
    std::iter::from_fn(move || {
        let mut reader = rest.take().filter(|reader| reader.remaining() > 0)?;
        let item = read(&mut reader);
        rest = item.is_ok().then_some(reader);
        Some(item)
    })
}

/// Checks a list of partitions and takes its bytes.
fn read_participants<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], EntryError> {
    let start = reader.rest();
    let count = reader.varint()?;
    for _ in 0..count {
        number(reader)?;
    }
    let bytes = &start[..start.len() - reader.remaining()];
    let mut counted = ByteReader::new(bytes);
    counted.varint()?;
    Ok(counted.rest())
}

fn partitions<'a>(bytes: &'a [u8]) -> impl Iterator<Item = PartitionId> + 'a {
    each(bytes, number).map_while(Result::ok).map(PartitionId)
}

pub(super) fn number(reader: &mut ByteReader<'_>) -> Result<u32, EntryError> {
    let value = reader.varint()?;
    u32::try_from(value).map_err(|_| EntryError::number(value))
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, EntryError> {
    lockstep_base::bytes::text(bytes).ok_or_else(EntryError::text)
}
