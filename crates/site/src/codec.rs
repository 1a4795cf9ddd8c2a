//! The byte form of what the coordinator and the partitions say to each other, and of the calls
//! that they are asked for. Within a process the messages themselves are passed, which is the
//! same with less work; between hosts their bytes go.
//!
//! Bytes name things and never point to them: a procedure by its name, a statement by its procedure
//! and number or by its text and what that was planned with, a schema change by the version of the
//! catalog that it makes. The receiver finds or plans the same ([`Identities`]). A message says
//! which version of the catalog it was made with: one of a later version than the receiver's waits
//! there, one of an earlier version is a repeat, or a call that the schema change has overtaken.
//!
//! Numbers are those of [`ByteWriter::put_varint`]; *bytes* follow their length; a list follows its
//! count.
//!
//! ```text
//! to partition   := partition | number | epoch
//!                 | fragments | one round | schema | build | decision | resolve | confirm
//! fragments      := 1 | catalog version | transaction | round | procedure number | limit? | last
//!                 | entries list | task list | partition list
//! one round      := 2 | call of one round | transaction | last
//! schema         := 3 | change | transaction | round
//! build          := 4 | transaction | round | entries list
//! decision       := 5 | transaction | commit | run | acknowledge | writers
//! resolve        := 6 | outcome list | transaction list
//! confirm        := 7 | number of the question
//! writers        := (partition | round) list?
//! outcome        := transaction | commits | writers
//! task           := part | statement
//! statement      := source | bytes parameters | profile? | shipped? | found?
//! source         := 0 | bytes procedure | number
//!                 | 1 | bytes text | single partition | rules off | bytes planning?
//!                 | 2 | table of entries | type list
//! from partition := answer | of one round | acknowledged | fenced | resolved
//!                 | confirmed
//! answer         := 1 | partition | transaction | round | run | epoch | stale routing
//!                 | tables or failure
//!                 | (task | entries list) list | profile list
//! of one round   := 2 | partition | transaction | run | epoch | bytes or failure
//! acknowledged   := 3 | partition | transaction | epoch
//! fenced         := 4 | partition | epoch | undecided list | outcome list | fenced change?
//!                 | catalog version | last transaction
//! resolved       := 5 | partition | epoch
//! confirmed      := 6 | partition | epoch | number of the question
//! undecided      := transaction | (round | vote)? | partition list
//! fenced change  := transaction | catalog version | bytes of a snapshot?
//! call           := catalog version | origin | procedure number | limit? | partition list
//!                 | home? | work | statement?
//! work           := 1 | bytes procedure | bytes parameters | 2 | statement call | 3 | change
//! statement call := reads | answer form | statement list
//! change         := catalog version that it makes | bytes source
//! call of one round := catalog version | bytes procedure | procedure number | limit? | home?
//!                 | bytes invocation | where its parameters begin | three partition lists | first
//! entries        := partition | bytes removed | bytes added
//! limit          := milliseconds | source | caller
//! failure        := status | deterministic | bytes text
//! ```

mod call;
mod fence;
mod from_partition;
mod statement;
#[cfg(test)]
mod tests;
mod to_partition;

pub use call::{read_multi, read_one_round, write_multi, write_one_round};
pub use fence::{put_report, read_report};
pub use from_partition::{read_from_partition, write_from_partition};
pub use statement::{StatementId, read_statement_call, write_statement_call};
pub use to_partition::{read_address, read_to_partition, write_to_partition};

use crate::message::{Home, SchemaTask};
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::watch::{Caller, LimitSource, TimeLimit};
use lockstep_exec::{PreparedProcedure, PreparedStatement};
use lockstep_types::{Failure, PartitionId, Status, TransactionId};
use std::fmt;
use std::sync::Arc;

/// What the receiver of a message finds by the names in it, in its catalog in force.
pub trait Identities<C> {
    /// The version of that catalog.
    fn catalog_version(&self) -> u64;

    /// Number of partitions, which no message names more of.
    fn partition_count(&self) -> u32;

    /// A statement: found, or planned as its sender planned it.
    ///
    /// # Errors
    /// There is none: what is missing.
    fn statement(&mut self, id: &StatementId<'_>) -> Result<Arc<PreparedStatement>, String>;

    /// A procedure.
    ///
    /// # Errors
    /// There is none of the name.
    fn procedure(&mut self, name: &str) -> Result<Arc<PreparedProcedure>, String>;

    /// A schema change that this host has prepared, by the version of the catalog that it makes and
    /// what the log says of it.
    ///
    /// # Errors
    /// It was not prepared here.
    fn prepared_change(
        &mut self,
        catalog_version: u64,
        source: &[u8],
    ) -> Result<Arc<SchemaTask<C>>, String>;
}

/// Why bytes are no message, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageError {
    /// They end too early.
    CutOff,
    /// They go on after the message: how many bytes.
    TooLong(usize),
    /// A kind that this release does not know: of what, and its number.
    Unknown(&'static str, u64),
    /// A number is greater than what it stands for can be.
    Number(&'static str, u64),
    /// A text is not UTF-8.
    Text,
    /// Made with a later catalog than the receiver's, which has to come into force first.
    LaterCatalog(u64),
    /// Made with an earlier catalog than the receiver's.
    EarlierCatalog(u64),
    /// Something that it names is not here.
    NotFound(String),
}

impl From<EndOfBytes> for MessageError {
    fn from(_: EndOfBytes) -> MessageError {
        MessageError::CutOff
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::CutOff => f.write_str("the message is cut off"),
            MessageError::TooLong(bytes) => {
                write!(f, "{bytes} bytes follow the end of the message")
            }
            MessageError::Unknown(what, number) => {
                write!(f, "the message has {what} {number}, which this release does not know")
            }
            MessageError::Number(what, number) => {
                write!(f, "the message has {what} {number}, which is too great")
            }
            MessageError::Text => f.write_str("a text of the message is not UTF-8"),
            MessageError::LaterCatalog(version) => {
                write!(f, "the message is of catalog version {version}, which is not in force yet")
            }
            MessageError::EarlierCatalog(version) => {
                write!(f, "the message is of catalog version {version}, which was replaced")
            }
            MessageError::NotFound(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for MessageError {}

/// What was read of a call.
#[derive(Debug)]
pub enum ReceivedCall<O, T> {
    /// The call, as the receiver can run it.
    Current(T),
    /// A schema change has overtaken it: it has to be planned again for the caller.
    Overtaken(O),
}

/// What reading a part of a message gives.
pub type Read<T> = Result<T, MessageError>;

/// Whether a message of this catalog version can be read here.
fn check_version<C>(version: u64, names: &impl Identities<C>) -> Read<()> {
    let own = names.catalog_version();
    match version {
        later if later > own => Err(MessageError::LaterCatalog(later)),
        earlier if earlier < own => Err(MessageError::EarlierCatalog(earlier)),
        _ => Ok(()),
    }
}

/// Whether all of these are partitions.
fn check_partitions(
    partitions: impl IntoIterator<Item = PartitionId>,
    partition_count: u32,
) -> Read<()> {
    match partitions.into_iter().find(|partition| partition.0 >= partition_count) {
        None => Ok(()),
        Some(partition) => Err(MessageError::Number("partition", partition.0.into())),
    }
}

/// The message has ended where the bytes do.
fn end(reader: &ByteReader<'_>) -> Read<()> {
    match reader.remaining() {
        0 => Ok(()),
        rest => Err(MessageError::TooLong(rest)),
    }
}

/// Writes whether something is so.
pub fn put_flag(out: &mut Vec<u8>, flag: bool) {
    out.put_u8(u8::from(flag));
}

/// Reads whether something is so.
///
/// # Errors
/// The message is cut off, or has another byte there than 0 and 1.
pub fn read_flag(reader: &mut ByteReader<'_>) -> Read<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(MessageError::Unknown("a flag of", other.into())),
    }
}

/// Reads a number of 32 bits; errors name what it counts.
///
/// # Errors
/// The message is cut off, or the number is greater.
pub fn read_number(reader: &mut ByteReader<'_>, what: &'static str) -> Read<u32> {
    let number = reader.varint()?;
    u32::try_from(number).map_err(|_| MessageError::Number(what, number))
}

/// Reads a number of 16 bits.
///
/// # Errors
/// As for [`read_number`].
pub fn read_short(reader: &mut ByteReader<'_>, what: &'static str) -> Read<u16> {
    let number = reader.varint()?;
    u16::try_from(number).map_err(|_| MessageError::Number(what, number))
}

fn read_size(reader: &mut ByteReader<'_>, what: &'static str) -> Read<usize> {
    let number = reader.varint()?;
    usize::try_from(number).map_err(|_| MessageError::Number(what, number))
}

fn read_text<'a>(reader: &mut ByteReader<'a>) -> Read<&'a str> {
    lockstep_base::bytes::text(reader.counted()?).ok_or(MessageError::Text)
}

/// Writes a list.
pub fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.put_varint(items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

/// Reads a list. Each item has a byte at least, so that a count cannot ask for more memory than
/// the message has.
///
/// # Errors
/// The message is cut off, or an item is not one.
pub fn read_list<'a, T>(
    reader: &mut ByteReader<'a>,
    mut read: impl FnMut(&mut ByteReader<'a>) -> Read<T>,
) -> Read<Vec<T>> {
    let count = reader.varint()?;
    if count > reader.remaining() as u64 {
        return Err(MessageError::CutOff);
    }
    (0..count).map(|_| read(reader)).collect()
}

/// Writes what may be absent.
pub fn put_option<T>(out: &mut Vec<u8>, item: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_flag(out, item.is_some());
    if let Some(item) = item {
        put(out, item);
    }
}

/// Reads what may be absent.
///
/// # Errors
/// The message is cut off, or it is not such.
pub fn read_option<'a, T>(
    reader: &mut ByteReader<'a>,
    read: impl FnOnce(&mut ByteReader<'a>) -> Read<T>,
) -> Read<Option<T>> {
    match read_flag(reader)? {
        true => read(reader).map(Some),
        false => Ok(None),
    }
}

fn put_partition(out: &mut Vec<u8>, partition: PartitionId) {
    out.put_varint(partition.0.into());
}

fn read_partition(reader: &mut ByteReader<'_>) -> Read<PartitionId> {
    let number = read_number(reader, "partition")?;
    match number < PartitionId::LIMIT {
        true => Ok(PartitionId(number)),
        false => Err(MessageError::Number("partition", number.into())),
    }
}

fn put_transaction(out: &mut Vec<u8>, transaction: TransactionId) {
    out.put_i64(transaction.0 as i64);
}

fn read_transaction(reader: &mut ByteReader<'_>) -> Read<TransactionId> {
    Ok(TransactionId(reader.u64()?))
}

/// Writes how long a call may run, and whose limit it is.
pub fn put_time_limit(out: &mut Vec<u8>, limit: Option<TimeLimit>) {
    put_option(out, limit, |out, limit| {
        out.put_varint(limit.timeout_ms.into());
        out.put_u8(match limit.source {
            LimitSource::Host => 0,
            LimitSource::Call => 1,
            LimitSource::Transaction => 2,
            LimitSource::Write => 3,
        });
        out.put_varint(limit.caller.0);
    });
}

/// Reads what [`put_time_limit`] wrote.
///
/// # Errors
/// It is cut off, or not such.
pub fn read_time_limit(reader: &mut ByteReader<'_>) -> Read<Option<TimeLimit>> {
    read_option(reader, |reader| {
        let timeout_ms = read_number(reader, "time limit")?;
        let source = match reader.u8()? {
            0 => LimitSource::Host,
            1 => LimitSource::Call,
            2 => LimitSource::Transaction,
            3 => LimitSource::Write,
            other => return Err(MessageError::Unknown("a source of a time limit", other.into())),
        };
        Ok(TimeLimit { timeout_ms, source, caller: Caller(reader.varint()?) })
    })
}

/// Writes why something failed.
pub fn put_failure(out: &mut Vec<u8>, failure: &Failure) {
    out.put_i8(failure.status.code());
    put_flag(out, failure.deterministic);
    out.put_counted(failure.message.as_bytes());
}

/// Reads what [`put_failure`] wrote.
///
/// # Errors
/// It is cut off, or not such.
pub fn read_failure(reader: &mut ByteReader<'_>) -> Read<Failure> {
    let code = reader.i8()?;
    let status = Status::from_code(code)
        .ok_or(MessageError::Unknown("a status of", code.unsigned_abs().into()))?;
    let deterministic = read_flag(reader)?;
    Ok(Failure { status, message: read_text(reader)?.to_string(), deterministic })
}

fn put_entries(out: &mut Vec<u8>, entries: &PartitionEntries) {
    put_partition(out, entries.partition);
    out.put_counted(&entries.removed);
    out.put_counted(&entries.added);
}

fn read_entries(reader: &mut ByteReader<'_>) -> Read<PartitionEntries> {
    Ok(PartitionEntries {
        partition: read_partition(reader)?,
        removed: reader.counted()?.to_vec(),
        added: reader.counted()?.to_vec(),
    })
}

fn put_home(out: &mut Vec<u8>, home: Option<Home>) {
    put_option(out, home, |out, home| {
        put_partition(out, home.partition);
        put_flag(out, home.addresses_partition);
    });
}

fn read_home(reader: &mut ByteReader<'_>) -> Read<Option<Home>> {
    read_option(reader, |reader| {
        let partition = read_partition(reader)?;
        Ok(Home { partition, addresses_partition: read_flag(reader)? })
    })
}

fn put_change<C>(out: &mut Vec<u8>, task: &SchemaTask<C>) {
    out.put_varint(task.catalog_version);
    out.put_counted(&task.source);
}

fn read_change<C>(
    reader: &mut ByteReader<'_>,
    names: &mut impl Identities<C>,
) -> Read<Arc<SchemaTask<C>>> {
    let version = reader.varint()?;
    names.prepared_change(version, reader.counted()?).map_err(MessageError::NotFound)
}
