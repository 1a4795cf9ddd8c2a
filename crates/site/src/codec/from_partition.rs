//! What a partition tells the coordinator.

use super::fence::{put_report, read_report};
use super::{
    MessageError, Read, check_partitions, end, put_entries, put_failure, put_flag, put_list,
    put_option, put_partition, put_transaction, read_entries, read_failure, read_flag, read_list,
    read_number, read_option, read_partition, read_size, read_transaction,
};
use crate::message::{FromPartition, RoundAnswer, StatementProfile, TaskEntries};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_exec::watch::OperatorProfile;

const ANSWER: u8 = 1;
const ONE_ROUND: u8 = 2;
const ACKNOWLEDGED: u8 = 3;
const FENCED: u8 = 4;
const RESOLVED: u8 = 5;
const CONFIRMED: u8 = 6;

/// Writes a message.
pub fn write_from_partition(out: &mut Vec<u8>, message: &FromPartition) {
    match message {
        FromPartition::Answer(answer) => {
            out.put_u8(ANSWER);
            put_answer(out, answer);
        }
        FromPartition::OneRound { partition, transaction, run, epoch, result } => {
            out.put_u8(ONE_ROUND);
            put_partition(out, *partition);
            put_transaction(out, *transaction);
            out.put_varint(*run);
            out.put_varint(*epoch);
            put_flag(out, result.is_ok());
            match result {
                Ok(tables) => out.put_counted(tables),
                Err(failure) => put_failure(out, failure),
            }
        }
        FromPartition::Acknowledged { partition, transaction, epoch } => {
            out.put_u8(ACKNOWLEDGED);
            put_partition(out, *partition);
            put_transaction(out, *transaction);
            out.put_varint(*epoch);
        }
        FromPartition::Fenced(report) => {
            out.put_u8(FENCED);
            put_report(out, report);
        }
        FromPartition::Confirmed { partition, epoch, checkpoint } => {
            out.put_u8(CONFIRMED);
            put_partition(out, *partition);
            out.put_varint(*epoch);
            out.put_varint(*checkpoint);
        }
        FromPartition::Resolved { partition, epoch } => {
            out.put_u8(RESOLVED);
            put_partition(out, *partition);
            out.put_varint(*epoch);
        }
    }
}

/// Reads what [`write_from_partition`] wrote.
///
/// # Errors
/// It is not such.
pub fn read_from_partition(bytes: &[u8], partition_count: u32) -> Read<FromPartition> {
    let mut reader = ByteReader::new(bytes);
    let message = match reader.u8()? {
        ANSWER => FromPartition::Answer(Box::new(read_answer(&mut reader)?)),
        ONE_ROUND => FromPartition::OneRound {
            partition: read_partition(&mut reader)?,
            transaction: read_transaction(&mut reader)?,
            run: reader.varint()?,
            epoch: reader.varint()?,
            result: match read_flag(&mut reader)? {
                true => Ok(reader.counted()?.to_vec()),
                false => Err(Box::new(read_failure(&mut reader)?)),
            },
        },
        ACKNOWLEDGED => FromPartition::Acknowledged {
            partition: read_partition(&mut reader)?,
            transaction: read_transaction(&mut reader)?,
            epoch: reader.varint()?,
        },
        FENCED => FromPartition::Fenced(Box::new(read_report(&mut reader, partition_count)?)),
        RESOLVED => FromPartition::Resolved {
            partition: read_partition(&mut reader)?,
            epoch: reader.varint()?,
        },
        CONFIRMED => FromPartition::Confirmed {
            partition: read_partition(&mut reader)?,
            epoch: reader.varint()?,
            checkpoint: reader.varint()?,
        },
        other => return Err(MessageError::Unknown("a message of a partition of", other.into())),
    };
    end(&reader)?;
    check_partitions([message.source().0], partition_count)?;
    Ok(message)
}

fn put_answer(out: &mut Vec<u8>, answer: &RoundAnswer) {
    put_partition(out, answer.partition);
    put_transaction(out, answer.transaction);
    out.put_varint(answer.round.into());
    out.put_varint(answer.run);
    out.put_varint(answer.epoch);
    put_flag(out, answer.misled);
    put_flag(out, answer.result.is_ok());
    match &answer.result {
        Ok(tables) => put_list(out, tables, |out, table| out.put_counted(table)),
        Err(failure) => put_failure(out, failure),
    }
    put_list(out, &answer.entries, |out, entries| {
        out.put_varint(entries.task as u64);
        put_list(out, &entries.changes, put_entries);
    });
    put_list(out, &answer.profiles, put_profile);
}

fn read_answer(reader: &mut ByteReader<'_>) -> Read<RoundAnswer> {
    Ok(RoundAnswer {
        partition: read_partition(reader)?,
        transaction: read_transaction(reader)?,
        round: read_number(reader, "round")?,
        run: reader.varint()?,
        epoch: reader.varint()?,
        misled: read_flag(reader)?,
        result: match read_flag(reader)? {
            true => Ok(read_list(reader, |reader| Ok(reader.counted()?.to_vec()))?),
            false => Err(read_failure(reader)?),
        },
        entries: read_list(reader, |reader| {
            let task = read_size(reader, "task")?;
            Ok(TaskEntries { task, changes: read_list(reader, read_entries)? })
        })?,
        profiles: read_list(reader, read_profile)?,
    })
}

fn put_profile(out: &mut Vec<u8>, profile: &StatementProfile) {
    out.put_varint(profile.statement.into());
    put_option(out, profile.partition, put_partition);
    put_list(out, &profile.operators, |out, operator| {
        out.put_varint(operator.rows);
        out.put_varint(operator.loops);
        out.put_varint(operator.ticks);
    });
}

fn read_profile(reader: &mut ByteReader<'_>) -> Read<StatementProfile> {
    Ok(StatementProfile {
        statement: read_number(reader, "statement")?,
        partition: read_option(reader, read_partition)?,
        operators: read_list(reader, |reader| {
            let (rows, loops) = (reader.varint()?, reader.varint()?);
            Ok(OperatorProfile { rows, loops, ticks: reader.varint()? })
        })?,
    })
}
