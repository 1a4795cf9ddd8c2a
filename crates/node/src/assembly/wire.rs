//! What hosts that start ask each other, as bytes: one question and one answer for a connection.
//!
//! ```text
//! question := magic | frame of (kind | host | process | what it is about)
//! answer   := frame of (0 | what was asked for)  or  (1): not yet  or  (2 | text): no
//!             or  (3 | placement): the cluster serves
//! frame    := u32 length | u32 checksum | bytes
//! ```

use flate2::Crc;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_durability::ClusterId;
use lockstep_durability::recovery::{CopyEnd, Fact, LogPiece};
use lockstep_host::recovery::assembly::{DurablePlacement, HostReport};
use lockstep_txn::log_entry::LogSource;
use lockstep_types::{HostId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

/// First bytes of a question: no link begins with them.
pub(super) const MAGIC: &[u8; 8] = b"LSSTART\x02";
/// The longest answer that is believed.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 30;
/// The longest question, which has a report at most.
pub(super) const QUESTION_BYTES_MAX: usize = 16 << 20;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Takes the report of the one that asks, and gives the own one.
    Report = 1,
    /// What logs say of transactions over several partitions.
    Facts = 2,
    /// Entries of one partition after a number.
    Pieces = 3,
    /// The transactions that replay has found not to be committed.
    Found = 4,
    /// The one that asks needs nothing more.
    Finish = 5,
    /// It cannot start.
    GiveUp = 6,
}

impl Kind {
    pub(super) fn of(number: u8) -> Option<Kind> {
        let all =
            [Kind::Report, Kind::Facts, Kind::Pieces, Kind::Found, Kind::Finish, Kind::GiveUp];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Given(Vec<u8>),
    NotYet,
    Refused(String),
    /// Of a host whose cluster serves: who has which copies.
    Serves(DurablePlacement),
}

impl Answer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Answer::Given(bytes) => [&[0], bytes.as_slice()].concat(),
            Answer::NotYet => vec![1],
            Answer::Refused(text) => [&[2], text.as_bytes()].concat(),
            Answer::Serves(placement) => {
                let mut bytes = vec![3];
                put_placement(&mut bytes, placement);
                bytes
            }
        }
    }

    pub(super) fn of(bytes: &[u8]) -> Option<Answer> {
        match bytes.split_first()? {
            (0, given) => Some(Answer::Given(given.to_vec())),
            (1, []) => Some(Answer::NotYet),
            (2, text) => Some(Answer::Refused(String::from_utf8_lossy(text).into_owned())),
            (3, bytes) => read_placement(&mut ByteReader::new(bytes)).ok().map(Answer::Serves),
            _ => None,
        }
    }
}

pub(super) fn write_frame(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > ANSWER_BYTES_MAX {
        return Err(io::Error::other("what another host lacks is longer than 1 GiB"));
    }
    to.write_all(&(bytes.len() as u32).to_be_bytes())?;
    to.write_all(&checksum(bytes).to_be_bytes())?;
    to.write_all(bytes)
}

pub(super) fn read_frame(from: &mut impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let length = number(0) as usize;
    let unsound = || io::Error::new(io::ErrorKind::InvalidData, "it is no frame of a host");
    if length > bytes_max {
        return Err(unsound());
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    match bytes.len() == length && checksum(&bytes) == number(4) {
        true => Ok(bytes),
        false => Err(unsound()),
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(bytes);
    sum.sum()
}

fn cut(_: EndOfBytes) -> String {
    "it is cut off".to_string()
}

fn small(input: &mut ByteReader<'_>) -> Result<u32, String> {
    u32::try_from(input.varint().map_err(cut)?).map_err(|_| "a number is too great".to_string())
}

fn list<T>(
    input: &mut ByteReader<'_>,
    read: impl Fn(&mut ByteReader<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let count = small(input)? as usize;
    if count > input.remaining() {
        return Err("a list is cut off".to_string());
    }
    (0..count).map(|_| read(input)).collect()
}

fn put_hosts<'h>(out: &mut Vec<u8>, hosts: impl ExactSizeIterator<Item = &'h HostId>) {
    out.put_varint(hosts.len() as u64);
    hosts.for_each(|host| out.put_varint(u64::from(host.0)));
}

fn directory(input: &mut ByteReader<'_>) -> Result<ClusterId, String> {
    let bytes = input.take(16).map_err(cut)?;
    Ok(ClusterId(bytes.try_into().expect("16 bytes were taken")))
}

fn put_placement(out: &mut Vec<u8>, placement: &DurablePlacement) {
    out.put_varint(placement.epoch);
    put_hosts(out, placement.up.iter());
    out.put_varint(placement.in_sync.len() as u64);
    placement.in_sync.iter().for_each(|hosts| put_hosts(out, hosts.iter()));
}

fn read_placement(input: &mut ByteReader<'_>) -> Result<DurablePlacement, String> {
    let hosts = |input: &mut ByteReader<'_>| list(input, |input| small(input).map(HostId));
    let epoch = input.varint().map_err(cut)?;
    let up: BTreeSet<HostId> = hosts(input)?.into_iter().collect();
    Ok(DurablePlacement { epoch, up, in_sync: list(input, hosts)? })
}

pub(super) fn put_report(out: &mut Vec<u8>, report: &HostReport) {
    out.extend_from_slice(&report.directory.0);
    let members = report.members.as_deref().unwrap_or_default();
    out.put_varint(members.len() as u64);
    members.iter().for_each(|id| out.extend_from_slice(&id.0));
    out.put_u8(u8::from(report.replaces));
    put_placement(out, &report.placement);
    out.put_varint(report.ends.len() as u64);
    for CopyEnd { begins, end } in &report.ends {
        out.put_varint(*end);
        out.put_varint(begins.len() as u64);
        for (epoch, first) in begins {
            out.put_varint(u64::from(*epoch));
            out.put_varint(*first);
        }
    }
    out.put_varint(report.saved.0);
}

/// Reads the report of a host of a cluster with N partitions.
pub(super) fn read_report(bytes: &[u8], partitions: usize) -> Result<HostReport, String> {
    let input = &mut ByteReader::new(bytes);
    let own = directory(input)?;
    let members = list(input, directory)?;
    let replaces = input.u8().map_err(cut)? != 0;
    let placement = read_placement(input)?;
    let ends = list(input, |input| {
        let end = input.varint().map_err(cut)?;
        let begins = list(input, |input| Ok((small(input)?, input.varint().map_err(cut)?)))?;
        Ok(CopyEnd { begins, end })
    })?;
    let saved = TransactionId(input.varint().map_err(cut)?);
    if placement.in_sync.len() != partitions || ends.len() != partitions {
        return Err(format!("it has not {partitions} partitions"));
    }
    Ok(HostReport {
        directory: own,
        members: (!members.is_empty()).then_some(members),
        replaces,
        placement,
        ends,
        saved,
    })
}

pub(super) fn put_facts(out: &mut Vec<u8>, facts: &BTreeMap<u32, Vec<Fact>>) {
    out.put_varint(facts.len() as u64);
    for (partition, facts) in facts {
        out.put_varint(u64::from(*partition));
        out.put_varint(facts.len() as u64);
        facts.iter().for_each(|fact| fact.write(out));
    }
}

pub(super) fn read_facts(bytes: &[u8]) -> Result<Vec<(u32, Vec<Fact>)>, String> {
    let of_one = |input: &mut ByteReader<'_>| Ok((small(input)?, list(input, Fact::read)?));
    list(&mut ByteReader::new(bytes), of_one)
}

pub(super) fn put_partitions(out: &mut Vec<u8>, partitions: &[u32]) {
    out.put_varint(partitions.len() as u64);
    partitions.iter().for_each(|partition| out.put_varint(u64::from(*partition)));
}

pub(super) fn read_partitions(bytes: &[u8]) -> Result<Vec<u32>, String> {
    list(&mut ByteReader::new(bytes), small)
}

pub(super) fn put_piece(out: &mut Vec<u8>, piece: &LogPiece) {
    out.put_varint(u64::from(piece.source.epoch));
    out.put_varint(piece.source.incarnation);
    out.put_varint(piece.first);
    out.put_varint(u64::from(piece.entries));
    out.put_counted(&piece.bytes);
}

pub(super) fn read_pieces(bytes: &[u8]) -> Result<Vec<LogPiece>, String> {
    let input = &mut ByteReader::new(bytes);
    let mut pieces = Vec::new();
    while input.remaining() > 0 {
        let epoch = small(input)?;
        let source = LogSource { epoch, incarnation: input.varint().map_err(cut)? };
        let (first, entries) = (input.varint().map_err(cut)?, small(input)?);
        let bytes = input.counted().map_err(cut)?.to_vec();
        pieces.push(LogPiece { source, first, entries, bytes });
    }
    Ok(pieces)
}

pub(super) fn put_found(out: &mut Vec<u8>, found: &BTreeSet<TransactionId>) {
    out.put_varint(found.len() as u64);
    found.iter().for_each(|transaction| out.put_varint(transaction.0));
}

pub(super) fn read_found(bytes: &[u8]) -> Result<BTreeSet<TransactionId>, String> {
    let one = |input: &mut ByteReader<'_>| Ok(TransactionId(input.varint().map_err(cut)?));
    Ok(list(&mut ByteReader::new(bytes), one)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_the_rest_refused() {
        let report = HostReport {
            directory: ClusterId([3; 16]),
            members: Some(vec![ClusterId([1; 16]), ClusterId([3; 16])]),
            replaces: true,
            placement: DurablePlacement {
                epoch: 7,
                up: BTreeSet::from([HostId(0), HostId(1)]),
                in_sync: vec![vec![HostId(0), HostId(1)], vec![HostId(1)]],
            },
            ends: vec![CopyEnd { begins: vec![(1, 1), (4, 30)], end: 77 }, CopyEnd::default()],
            saved: TransactionId(12),
        };
        let mut bytes = Vec::new();
        put_report(&mut bytes, &report);
        assert_eq!(read_report(&bytes, 2), Ok(report));
        assert!(read_report(&bytes, 3).is_err(), "other partitions");
        (0..bytes.len()).for_each(|end| assert!(read_report(&bytes[..end], 2).is_err()));
        let serves = Answer::Serves(read_report(&bytes, 2).expect("it is whole").placement);
        assert_eq!(Answer::of(&serves.to_bytes()), Some(serves));
        assert_eq!(Answer::of(&[3, 7]), None, "a placement that is cut off");
        let mut frame = Vec::new();
        write_frame(&mut frame, &bytes).expect("it is short");
        let read = |frame: &[u8], bytes_max| read_frame(&mut &*frame, bytes_max);
        assert_eq!(read(&frame, QUESTION_BYTES_MAX).expect("it is whole"), bytes);
        assert!(read(&frame, bytes.len() - 1).is_err(), "longer than is believed");
        frame[12] ^= 1;
        assert!(read(&frame, QUESTION_BYTES_MAX).is_err(), "damaged");
    }
}
