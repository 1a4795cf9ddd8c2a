//! What partitions report to a coordinator that is new to them, and what it decides.

use super::{
    MessageError, Read, check_partitions, put_flag, put_list, put_option, put_partition,
    put_transaction, read_flag, read_list, read_number, read_option, read_partition,
    read_transaction,
};
use crate::fence::{ChangeId, FenceReport, KnownOutcome, LoggedRound, UndecidedTransaction};
use crate::message::Writers;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_txn::log_entry::{Vote, WriterRound};

/// Writes the partitions that logged something of a transaction, if they are named.
pub(super) fn put_writers(out: &mut Vec<u8>, writers: Option<&[WriterRound]>) {
    put_option(out, writers, |out, writers| {
        put_list(out, writers, |out, writer| {
            put_partition(out, writer.partition);
            out.put_varint(writer.round.into());
        });
    });
}

/// Reads what [`put_writers`] wrote.
pub(super) fn read_writers(
    reader: &mut ByteReader<'_>,
    partition_count: u32,
) -> Read<Option<Writers>> {
    let writers = read_option(reader, |reader| read_list(reader, read_writer))?;
    let named = writers.iter().flatten().map(|writer| writer.partition);
    check_partitions(named, partition_count)?;
    Ok(writers.map(Writers::new))
}

fn read_writer(reader: &mut ByteReader<'_>) -> Read<WriterRound> {
    let partition = read_partition(reader)?;
    Ok(WriterRound { partition, round: read_number(reader, "round")? })
}

pub(super) fn put_outcome(out: &mut Vec<u8>, outcome: &KnownOutcome) {
    put_transaction(out, outcome.transaction);
    put_flag(out, outcome.commits);
    put_writers(out, outcome.writers.as_deref().map(Vec::as_slice));
}

pub(super) fn read_outcome(
    reader: &mut ByteReader<'_>,
    partition_count: u32,
) -> Read<KnownOutcome> {
    Ok(KnownOutcome {
        transaction: read_transaction(reader)?,
        commits: read_flag(reader)?,
        writers: read_writers(reader, partition_count)?,
    })
}

/// Writes what a partition reports.
pub fn put_report(out: &mut Vec<u8>, report: &FenceReport) {
    put_partition(out, report.partition);
    out.put_varint(report.epoch);
    put_list(out, &report.undecided, |out, one| {
        put_transaction(out, one.transaction);
        put_option(out, one.logged, |out, logged| {
            out.put_varint(logged.round.into());
            out.put_u8(logged.vote as u8);
        });
        put_list(out, &one.voters, |out, voter| put_partition(out, *voter));
    });
    put_list(out, &report.outcomes, put_outcome);
    put_option(out, report.change.as_ref(), |out, change| {
        put_transaction(out, change.transaction);
        out.put_varint(change.catalog_version);
        put_option(out, change.snapshot.as_deref(), |out, source| out.put_counted(source));
    });
    out.put_varint(report.catalog_version);
    put_transaction(out, report.last);
}

/// Reads what [`put_report`] wrote, for a cluster with this number of partitions.
///
/// # Errors
/// It is no report.
pub fn read_report(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<FenceReport> {
    Ok(FenceReport {
        partition: read_partition(reader)?,
        epoch: reader.varint()?,
        undecided: read_list(reader, |reader| {
            let transaction = read_transaction(reader)?;
            let logged = read_option(reader, |reader| {
                let round = read_number(reader, "round")?;
                Ok(LoggedRound { round, vote: read_vote(reader)? })
            })?;
            let voters = read_list(reader, read_partition)?;
            check_partitions(voters.iter().copied(), partition_count)?;
            Ok(UndecidedTransaction { transaction, logged, voters })
        })?,
        outcomes: read_list(reader, |reader| read_outcome(reader, partition_count))?,
        change: read_option(reader, |reader| {
            Ok(ChangeId {
                transaction: read_transaction(reader)?,
                catalog_version: reader.varint()?,
                snapshot: read_option(reader, |reader| Ok(reader.counted()?.into()))?,
            })
        })?,
        catalog_version: reader.varint()?,
        last: read_transaction(reader)?,
    })
}

fn read_vote(reader: &mut ByteReader<'_>) -> Read<Vote> {
    match reader.u8()? {
        0 => Ok(Vote::None),
        1 => Ok(Vote::Yes),
        2 => Ok(Vote::No),
        other => Err(MessageError::Unknown("a vote of", other.into())),
    }
}
