//! What the hosts of a partition's copies say to each other, and its byte form.
//!
//! ```text
//! message := kind | partition | host of the copy | body
//! stream  := epoch | safe | settled | piece? | (position, digest)?
//! piece   := epoch | incarnation | first | entries | bytes
//! receipt := epoch | position
//! resume  := epoch | position
//! sealed  := epoch | end | kept after | (epoch | first) list
//! ask     := attempt
//! load    := attempt | number | 1 | head or 2 | bytes or 3
//! head    := epoch | position | epoch and incarnation of its entry | digest
//!          | (epoch | first) list | what it knows of transactions | table list
//! table   := number | name | used slots | head of the free list | column list
//! column  := type | greatest length | nullable
//! loaded  := attempt | number
//! again   := attempt
//! kept    := attempt
//! asked   := time
//! position := time | position
//! attempt := incarnation | epoch | number
//! ```

use crate::loading::{Attempt, LoadHead, LoadPart, NumberedPart};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_exec::snapshot::{ColumnLayout, SavedTable};
use lockstep_site::codec::{
    MessageError, Read, put_flag, put_list, put_option, put_report as put_fence_report, read_flag,
    read_list, read_number, read_option, read_report as read_fence_report,
};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{EpochHistory, Piece, Receipt, SealReport, ToFollower};
use lockstep_types::{HostId, PartitionId, SqlType, TableId};

/// A message about one copy of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfCopy {
    /// Whose copy.
    pub partition: PartitionId,
    /// The host that has the copy.
    pub copy: HostId,
    /// What is said.
    pub said: CopyMessage,
}

/// What a leader says to a copy, or a copy to its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyMessage {
    /// From the leader: entries, and how far they are safe and settled; the digest that the leader
    /// has at a position, if it has one to be compared.
    Stream(ToFollower, Option<(u64, u64)>),
    /// From the copy: it has the entries up to a position.
    Receipt(Receipt),
    /// From the copy: something is missing, it goes on after this entry of an epoch.
    Resume(Receipt),
    /// From the copy, to the host that is to lead next: it takes nothing of older epochs.
    Sealed(SealReport),
    /// From a copy without data: it is to be loaded.
    AskLoad(Attempt),
    /// From the leader: a part of what the copy is loaded from.
    Load(NumberedPart),
    /// From the copy: it has taken the parts of an attempt up to this one.
    Loaded(Attempt, u32),
    /// From the leader: it has given up an attempt, and another one is to begin.
    LoadAgain(Attempt),
    /// From the copy: a start of its host begins with what it has loaded in an attempt, which is
    /// durable.
    Kept(Attempt),
    /// From a copy that answers reads, at a time of its own clock in microseconds: how far is the
    /// log?
    AskPosition(u64),
    /// From the leader: all that was answered before that time is in the entries up to here, which
    /// are safe.
    Position(u64, u64),
}

const STREAM: u8 = 1;
const RECEIPT: u8 = 2;
const RESUME: u8 = 3;
const SEALED: u8 = 4;
const ASK_LOAD: u8 = 5;
const LOAD: u8 = 6;
const LOADED: u8 = 7;
const LOAD_AGAIN: u8 = 8;
const KEPT: u8 = 9;
const ASK_POSITION: u8 = 10;
const POSITION: u8 = 11;
const LOAD_HEAD: u8 = 1;
const LOAD_ROWS: u8 = 2;
const LOAD_END: u8 = 3;

/// Appends the byte form.
pub fn write(out: &mut Vec<u8>, message: &OfCopy) {
    let OfCopy { partition, copy, said } = message;
    out.put_u8(match said {
        CopyMessage::Stream(..) => STREAM,
        CopyMessage::Receipt(_) => RECEIPT,
        CopyMessage::Resume(_) => RESUME,
        CopyMessage::Sealed(_) => SEALED,
        CopyMessage::AskLoad(_) => ASK_LOAD,
        CopyMessage::Load(_) => LOAD,
        CopyMessage::Loaded(..) => LOADED,
        CopyMessage::LoadAgain(_) => LOAD_AGAIN,
        CopyMessage::Kept(_) => KEPT,
        CopyMessage::AskPosition(_) => ASK_POSITION,
        CopyMessage::Position(..) => POSITION,
    });
    out.put_varint(partition.0.into());
    out.put_varint(copy.0.into());
    match said {
        CopyMessage::Stream(message, digest) => {
            out.put_varint(message.epoch.into());
            out.put_varint(message.safe);
            out.put_varint(message.settled);
            put_option(out, message.piece.as_ref(), put_piece);
            put_option(out, *digest, |out, (position, digest)| {
                out.put_varint(position);
                out.put_i64(digest as i64);
            });
        }
        CopyMessage::Receipt(Receipt { epoch, position })
        | CopyMessage::Resume(Receipt { epoch, position }) => {
            out.put_varint((*epoch).into());
            out.put_varint(*position);
        }
        CopyMessage::Sealed(report) => {
            out.put_varint(report.epoch.into());
            out.put_varint(report.end);
            out.put_varint(report.kept_after);
            put_history(out, &report.history);
        }
        CopyMessage::AskLoad(attempt)
        | CopyMessage::LoadAgain(attempt)
        | CopyMessage::Kept(attempt) => put_attempt(out, *attempt),
        CopyMessage::Load(NumberedPart { attempt, number, part }) => {
            put_attempt(out, *attempt);
            out.put_varint((*number).into());
            put_part(out, part);
        }
        CopyMessage::Loaded(attempt, number) => {
            put_attempt(out, *attempt);
            out.put_varint((*number).into());
        }
        CopyMessage::AskPosition(asked_us) => out.put_varint(*asked_us),
        CopyMessage::Position(asked_us, position) => {
            out.put_varint(*asked_us);
            out.put_varint(*position);
        }
    }
}

fn put_attempt(out: &mut Vec<u8>, attempt: Attempt) {
    out.put_varint(attempt.incarnation);
    out.put_varint(attempt.epoch.into());
    out.put_varint(attempt.number.into());
}

fn put_history(out: &mut Vec<u8>, history: &EpochHistory) {
    put_list(out, history.begins(), |out, (epoch, first)| {
        out.put_varint((*epoch).into());
        out.put_varint(*first);
    });
}

fn put_part(out: &mut Vec<u8>, part: &LoadPart) {
    match part {
        LoadPart::Head(head) => {
            out.put_u8(LOAD_HEAD);
            put_head(out, head);
        }
        LoadPart::Rows(rows) => {
            out.put_u8(LOAD_ROWS);
            out.put_counted(rows);
        }
        LoadPart::End => out.put_u8(LOAD_END),
    }
}

fn put_head(out: &mut Vec<u8>, head: &LoadHead) {
    out.put_varint(head.epoch.into());
    out.put_varint(head.position);
    out.put_varint(head.source.epoch.into());
    out.put_varint(head.source.incarnation);
    out.put_i64(head.digest as i64);
    put_history(out, &head.history);
    put_fence_report(out, &head.known);
    put_list(out, &head.tables, |out, table| {
        out.put_varint(table.number.0.into());
        out.put_counted(table.name.as_bytes());
        out.put_varint(table.used_slots.into());
        out.put_varint(table.free_head.into());
        put_list(out, &table.columns, |out, column| {
            out.put_u8(column.sql_type.code() as u8);
            out.put_varint(column.max_bytes.into());
            put_flag(out, column.nullable);
        });
    });
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    out.put_varint(piece.source.epoch.into());
    out.put_varint(piece.source.incarnation);
    out.put_varint(piece.first);
    out.put_varint(piece.entries.into());
    out.put_counted(&piece.bytes);
}

/// Reads what [`write`] wrote, for a cluster with this number of partitions.
///
/// # Errors
/// It is no such message.
pub fn read(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<OfCopy> {
    let kind = reader.u8()?;
    let partition = read_number(reader, "partition")?;
    if partition >= partition_count {
        return Err(MessageError::Number("partition", partition.into()));
    }
    let copy = HostId(read_number(reader, "host")?);
    let said = match kind {
        STREAM => {
            let epoch = read_number(reader, "epoch")?;
            let (safe, settled) = (reader.varint()?, reader.varint()?);
            let piece = read_option(reader, read_piece)?;
            let digest = read_option(reader, |reader| Ok((reader.varint()?, reader.u64()?)))?;
            CopyMessage::Stream(ToFollower { epoch, safe, settled, piece }, digest)
        }
        RECEIPT => CopyMessage::Receipt(read_receipt(reader)?),
        RESUME => CopyMessage::Resume(read_receipt(reader)?),
        SEALED => CopyMessage::Sealed(read_report(reader)?),
        ASK_LOAD => CopyMessage::AskLoad(read_attempt(reader)?),
        LOAD => {
            let (attempt, number) = (read_attempt(reader)?, read_number(reader, "part")?);
            let part = read_part(reader, partition_count)?;
            CopyMessage::Load(NumberedPart { attempt, number, part })
        }
        LOADED => CopyMessage::Loaded(read_attempt(reader)?, read_number(reader, "part")?),
        LOAD_AGAIN => CopyMessage::LoadAgain(read_attempt(reader)?),
        KEPT => CopyMessage::Kept(read_attempt(reader)?),
        ASK_POSITION => CopyMessage::AskPosition(reader.varint()?),
        POSITION => CopyMessage::Position(reader.varint()?, reader.varint()?),
        other => return Err(MessageError::Unknown("a message of a copy of kind", other.into())),
    };
    Ok(OfCopy { partition: PartitionId(partition), copy, said })
}

fn read_attempt(reader: &mut ByteReader<'_>) -> Read<Attempt> {
    let incarnation = reader.varint()?;
    let epoch = read_number(reader, "epoch")?;
    Ok(Attempt { incarnation, epoch, number: read_number(reader, "attempt")? })
}

fn read_piece(reader: &mut ByteReader<'_>) -> Read<Piece> {
    let epoch = read_number(reader, "epoch")?;
    let source = LogSource { epoch, incarnation: reader.varint()? };
    let (first, entries) = (reader.varint()?, read_number(reader, "entries")?);
    Ok(Piece { source, first, entries, bytes: reader.counted()?.into() })
}

fn read_receipt(reader: &mut ByteReader<'_>) -> Read<Receipt> {
    Ok(Receipt { epoch: read_number(reader, "epoch")?, position: reader.varint()? })
}

fn read_report(reader: &mut ByteReader<'_>) -> Read<SealReport> {
    let epoch = read_number(reader, "epoch")?;
    let (end, kept_after) = (reader.varint()?, reader.varint()?);
    let history = read_history(reader)?;
    match kept_after <= end && history.last_epoch() < epoch {
        true => Ok(SealReport { epoch, end, history, kept_after }),
        false => Err(MessageError::Number("the end of a copy that keeps entries", end)),
    }
}

fn read_history(reader: &mut ByteReader<'_>) -> Read<EpochHistory> {
    let begins = read_list(reader, |reader| Ok((read_number(reader, "epoch")?, reader.varint()?)))?;
    let count = begins.len() as u64;
    let history = EpochHistory::from_begins(begins);
    history.ok_or(MessageError::Number("a history of epochs of", count))
}

fn read_part(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<LoadPart> {
    Ok(match reader.u8()? {
        LOAD_HEAD => LoadPart::Head(Box::new(read_head(reader, partition_count)?)),
        LOAD_ROWS => LoadPart::Rows(reader.counted()?.to_vec()),
        LOAD_END => LoadPart::End,
        other => return Err(MessageError::Unknown("a part of a copy of kind", other.into())),
    })
}

fn read_head(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<LoadHead> {
    let epoch = read_number(reader, "epoch")?;
    let position = reader.varint()?;
    let source = LogSource { epoch: read_number(reader, "epoch")?, incarnation: reader.varint()? };
    let digest = reader.i64()? as u64;
    let history = read_history(reader)?;
    let known = read_fence_report(reader, partition_count)?;
    let tables = read_list(reader, read_table)?;
    match known.undecided.is_empty() && history.last_epoch() <= epoch {
        true => Ok(LoadHead { epoch, position, source, digest, history, known, tables }),
        false => Err(MessageError::Number("what a copy is loaded from at entry", position)),
    }
}

fn read_table(reader: &mut ByteReader<'_>) -> Read<SavedTable> {
    let number = TableId(read_number(reader, "table")?);
    let name = reader.counted()?;
    let name = std::str::from_utf8(name);
    let name = name.map_err(|_| MessageError::Number("the name of table", number.0.into()))?;
    Ok(SavedTable {
        number,
        name: name.to_string(),
        used_slots: read_number(reader, "slots")?,
        free_head: read_number(reader, "slot")?,
        columns: read_list(reader, |reader| {
            let code = reader.u8()?;
            let sql_type = SqlType::from_code(code as i8);
            let sql_type = sql_type.ok_or(MessageError::Unknown("a type of", code.into()))?;
            let max_bytes = read_number(reader, "length")?;
            Ok(ColumnLayout { sql_type, max_bytes, nullable: read_flag(reader)? })
        })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_site::fence::{FenceReport, KnownOutcome};
    use lockstep_types::TransactionId;

    fn messages() -> Vec<CopyMessage> {
        let source = LogSource { epoch: 7, incarnation: 1 << 40 };
        let piece = Piece { source, first: 12, entries: 3, bytes: [1, 2, 3][..].into() };
        let stream = ToFollower { epoch: 7, safe: 9, settled: 14, piece: Some(piece) };
        let positions = ToFollower { piece: None, ..stream.clone() };
        let history = EpochHistory::from_begins(vec![(3, 0), (7, 12)]).expect("it ascends");
        let attempt = Attempt { incarnation: 1 << 41, epoch: 7, number: 2 };
        vec![
            CopyMessage::Stream(stream, Some((14, u64::MAX))),
            CopyMessage::Stream(positions, None),
            CopyMessage::Receipt(Receipt { epoch: 7, position: 14 }),
            CopyMessage::Resume(Receipt { epoch: 7, position: 11 }),
            CopyMessage::Sealed(SealReport { epoch: 8, end: 14, history, kept_after: 11 }),
            CopyMessage::AskLoad(attempt),
            CopyMessage::Load(NumberedPart { attempt, number: 1, part: head() }),
            CopyMessage::Load(NumberedPart {
                attempt,
                number: 2,
                part: LoadPart::Rows(vec![1, 2, 3]),
            }),
            CopyMessage::Load(NumberedPart { attempt, number: 3, part: LoadPart::End }),
            CopyMessage::Loaded(attempt, 3),
            CopyMessage::LoadAgain(attempt),
            CopyMessage::Kept(attempt),
            CopyMessage::AskPosition(1 << 50),
            CopyMessage::Position(1 << 50, 14),
        ]
    }

    fn head() -> LoadPart {
        let known = FenceReport {
            partition: PartitionId(5),
            epoch: 9,
            undecided: Vec::new(),
            outcomes: vec![KnownOutcome {
                transaction: TransactionId(77),
                commits: true,
                writers: None,
            }],
            change: None,
            catalog_version: 4,
            last: TransactionId(78),
        };
        let column = ColumnLayout { sql_type: SqlType::Varchar, max_bytes: 40, nullable: true };
        let table = SavedTable {
            number: TableId(3),
            name: "T".to_string(),
            used_slots: 9,
            free_head: u32::MAX,
            columns: vec![column],
        };
        LoadPart::Head(Box::new(LoadHead {
            epoch: 7,
            position: 14,
            source: LogSource { epoch: 7, incarnation: 1 << 40 },
            digest: u64::MAX,
            history: EpochHistory::of_epoch(7),
            known,
            tables: vec![table],
        }))
    }

    #[test]
    fn messages_read_as_they_were_written_and_cut_ones_do_not() {
        for said in messages() {
            let message = OfCopy { partition: PartitionId(5), copy: HostId(2), said };
            let mut bytes = Vec::new();
            write(&mut bytes, &message);
            assert_eq!(read(&mut ByteReader::new(&bytes), 6), Ok(message));
            assert!(read(&mut ByteReader::new(&bytes), 5).is_err(), "there is no partition 5");
            for end in 0..bytes.len() {
                assert!(read(&mut ByteReader::new(&bytes[..end]), 6).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn a_report_that_contradicts_itself_is_refused() {
        let report = |epoch: u8, end: u8, kept_after: u8, begins: &[u8]| {
            let mut bytes = vec![SEALED, 0, 1, epoch, end, kept_after];
            bytes.extend_from_slice(begins);
            read(&mut ByteReader::new(&bytes), 1)
        };
        assert!(report(8, 14, 11, &[1, 3, 0]).is_ok());
        assert!(report(8, 14, 15, &[1, 3, 0]).is_err(), "it keeps what comes after its end");
        assert!(report(3, 14, 11, &[1, 3, 0]).is_err(), "it is sealed for an epoch that it has");
        assert!(report(8, 14, 11, &[2, 3, 5, 3, 6]).is_err(), "epochs ascend");
        assert!(report(8, 14, 11, &[0]).is_err(), "a log has an epoch");
    }
}
