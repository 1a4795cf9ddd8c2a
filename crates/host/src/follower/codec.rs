//! What the hosts of a partition's copies say to each other, and its byte form.
//!
//! ```text
//! message := kind | partition | host of the copy | body
//! stream  := epoch | safe | settled | piece? | (position, digest)?
//! piece   := epoch | incarnation | first | entries | bytes
//! receipt := epoch | position
//! resume  := epoch | position
//! sealed  := epoch | end | kept after | (epoch | first) list
//! ```

use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_site::codec::{
    MessageError, Read, put_list, put_option, read_list, read_number, read_option,
};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{EpochHistory, Piece, Receipt, SealReport, ToFollower};
use lockstep_types::{HostId, PartitionId};

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
}

const STREAM: u8 = 1;
const RECEIPT: u8 = 2;
const RESUME: u8 = 3;
const SEALED: u8 = 4;

/// Appends the byte form.
pub fn write(out: &mut Vec<u8>, message: &OfCopy) {
    let OfCopy { partition, copy, said } = message;
    out.put_u8(match said {
        CopyMessage::Stream(..) => STREAM,
        CopyMessage::Receipt(_) => RECEIPT,
        CopyMessage::Resume(_) => RESUME,
        CopyMessage::Sealed(_) => SEALED,
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
            put_list(out, report.history.begins(), |out, (epoch, first)| {
                out.put_varint((*epoch).into());
                out.put_varint(*first);
            });
        }
    }
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
        other => return Err(MessageError::Unknown("a message of a copy of kind", other.into())),
    };
    Ok(OfCopy { partition: PartitionId(partition), copy, said })
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
    let begins = read_list(reader, |reader| Ok((read_number(reader, "epoch")?, reader.varint()?)))?;
    let count = begins.len() as u64;
    let history = EpochHistory::from_begins(begins);
    let history = history.ok_or(MessageError::Number("a history of epochs of", count))?;
    match kept_after <= end && history.last_epoch() < epoch {
        true => Ok(SealReport { epoch, end, history, kept_after }),
        false => Err(MessageError::Number("the end of a copy that keeps entries", end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<CopyMessage> {
        let source = LogSource { epoch: 7, incarnation: 1 << 40 };
        let piece = Piece { source, first: 12, entries: 3, bytes: [1, 2, 3][..].into() };
        let stream = ToFollower { epoch: 7, safe: 9, settled: 14, piece: Some(piece) };
        let positions = ToFollower { piece: None, ..stream.clone() };
        let history = EpochHistory::from_begins(vec![(3, 0), (7, 12)]).expect("it ascends");
        vec![
            CopyMessage::Stream(stream, Some((14, u64::MAX))),
            CopyMessage::Stream(positions, None),
            CopyMessage::Receipt(Receipt { epoch: 7, position: 14 }),
            CopyMessage::Resume(Receipt { epoch: 7, position: 11 }),
            CopyMessage::Sealed(SealReport { epoch: 8, end: 14, history, kept_after: 11 }),
        ]
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
