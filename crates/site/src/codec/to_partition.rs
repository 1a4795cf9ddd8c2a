//! What the coordinator tells a partition.

use super::call::{put_one_round, read_one_round_of};
use super::fence::{put_outcome, put_writers, read_outcome, read_writers};
use super::statement::{Rows, put_bound, read_bound};
use super::{
    Identities, MessageError, Read, check_partitions, check_version, end, put_change, put_entries,
    put_flag, put_list, put_partition, put_time_limit, put_transaction, read_change, read_entries,
    read_flag, read_list, read_number, read_partition, read_size, read_time_limit,
    read_transaction,
};
use crate::message::{FragmentPart, FragmentTask, Numbered, RoundTasks, ToPartition};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_exec::lookup::lookups;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{Execution, Statement};
use lockstep_types::PartitionId;

const FRAGMENTS: u8 = 1;
const ONE_ROUND: u8 = 2;
const SCHEMA: u8 = 3;
const BUILD: u8 = 4;
const DECISION: u8 = 5;
const RESOLVE: u8 = 6;
const CONFIRM: u8 = 7;

/// Writes a message.
pub fn write_to_partition<C>(out: &mut Vec<u8>, message: &Numbered<C>) {
    let Numbered { partition, number, epoch, message } = message;
    put_partition(out, *partition);
    out.put_varint(*number);
    out.put_varint(*epoch);
    match message {
        ToPartition::Fragments(tasks) => put_fragments(out, tasks, *partition),
        ToPartition::OneRound { transaction, last, call } => {
            out.put_u8(ONE_ROUND);
            put_one_round(out, call);
            put_transaction(out, *transaction);
            put_flag(out, *last);
        }
        ToPartition::Schema { transaction, round, task } => {
            out.put_u8(SCHEMA);
            put_change(out, task);
            put_transaction(out, *transaction);
            out.put_varint((*round).into());
        }
        ToPartition::Build { transaction, round, entries } => {
            out.put_u8(BUILD);
            put_transaction(out, *transaction);
            out.put_varint((*round).into());
            put_list(out, entries, put_entries);
        }
        ToPartition::Decision { transaction, commit, run, acknowledge, writers, memory: _ } => {
            out.put_u8(DECISION);
            put_transaction(out, *transaction);
            put_flag(out, *commit);
            out.put_varint(*run);
            put_flag(out, *acknowledge);
            put_writers(out, writers.as_deref().map(Vec::as_slice));
        }
        ToPartition::Confirm { checkpoint } => {
            out.put_u8(CONFIRM);
            out.put_varint(*checkpoint);
        }
        ToPartition::Resolve { decisions, acknowledge } => {
            out.put_u8(RESOLVE);
            put_list(out, decisions, put_outcome);
            put_list(out, acknowledge, |out, one| put_transaction(out, *one));
        }
    }
}

/// Reads what [`write_to_partition`] wrote.
///
/// # Errors
/// It is not such, is of another version of the catalog, or names what the receiver does not have.
pub fn read_to_partition<C>(bytes: &[u8], names: &mut impl Identities<C>) -> Read<Numbered<C>> {
    let mut reader = ByteReader::new(bytes);
    let partition = read_partition(&mut reader)?;
    let (number, epoch) = (reader.varint()?, reader.varint()?);
    let message = match reader.u8()? {
        FRAGMENTS => read_fragments(&mut reader, names)?,
        ONE_ROUND => {
            let call = read_one_round_of(&mut reader, names)?;
            let transaction = read_transaction(&mut reader)?;
            ToPartition::OneRound { transaction, last: read_flag(&mut reader)?, call }
        }
        SCHEMA => {
            let task = read_change(&mut reader, names)?;
            let transaction = read_transaction(&mut reader)?;
            ToPartition::Schema { transaction, round: read_number(&mut reader, "round")?, task }
        }
        BUILD => ToPartition::Build {
            transaction: read_transaction(&mut reader)?,
            round: read_number(&mut reader, "round")?,
            entries: read_list(&mut reader, read_entries)?.into(),
        },
        DECISION => ToPartition::Decision {
            transaction: read_transaction(&mut reader)?,
            commit: read_flag(&mut reader)?,
            run: reader.varint()?,
            acknowledge: read_flag(&mut reader)?,
            writers: read_writers(&mut reader, names.partition_count())?,
            memory: Vec::new(),
        },
        RESOLVE => ToPartition::Resolve {
            decisions: read_list(&mut reader, |reader| {
                read_outcome(reader, names.partition_count())
            })?
            .into(),
            acknowledge: read_list(&mut reader, read_transaction)?.into(),
        },
        CONFIRM => ToPartition::Confirm { checkpoint: reader.varint()? },
        other => return Err(MessageError::Unknown("a message to a partition of", other.into())),
    };
    end(&reader)?;
    check_partitions([partition], names.partition_count())?;
    Ok(Numbered { partition, number, epoch, message })
}

/// The partition and the number of a message, which stand in front of it.
///
/// # Errors
/// It is cut off, or not such.
pub fn read_address(bytes: &[u8]) -> Read<(PartitionId, u64)> {
    let mut reader = ByteReader::new(bytes);
    Ok((read_partition(&mut reader)?, reader.varint()?))
}

fn put_fragments(out: &mut Vec<u8>, tasks: &RoundTasks, partition: PartitionId) {
    out.put_u8(FRAGMENTS);
    out.put_varint(tasks.catalog_version);
    put_transaction(out, tasks.transaction);
    out.put_varint(tasks.round.into());
    out.put_varint(tasks.procedure_number.into());
    put_time_limit(out, tasks.time_limit);
    put_flag(out, tasks.last);
    put_list(out, &tasks.entries, put_entries);
    put_list(out, &tasks.tasks, |out, task| {
        put_part(out, task.part);
        put_bound(out, &task.bound, Rows::Of(partition));
    });
    put_list(out, &tasks.writers, |out, writer| put_partition(out, *writer));
}

fn read_fragments<C>(
    reader: &mut ByteReader<'_>,
    names: &mut impl Identities<C>,
) -> Read<ToPartition<C>> {
    let catalog_version = reader.varint()?;
    check_version(catalog_version, names)?;
    Ok(ToPartition::Fragments(Box::new(RoundTasks {
        catalog_version,
        transaction: read_transaction(reader)?,
        round: read_number(reader, "round")?,
        procedure_number: read_number(reader, "procedure")?,
        time_limit: read_time_limit(reader)?,
        last: read_flag(reader)?,
        entries: read_list(reader, read_entries)?.into(),
        tasks: read_list(reader, |reader| {
            let part = read_part(reader)?;
            let bound = read_bound(reader, names)?;
            check_part(part, bound.statement.statement())?;
            Ok(FragmentTask { part, bound })
        })?
        .into(),
        writers: read_list(reader, read_partition)?.into(),
    })))
}

/// Whether a statement has such a part.
fn check_part(part: FragmentPart, statement: &Statement) -> Read<()> {
    let (what, number, count) = match part {
        FragmentPart::Entry(number) => {
            let count = match &statement.upkeep {
                IndexUpkeep::Known(entries) => entries.len(),
                IndexUpkeep::Truncated(tables) => tables.len(),
                IndexUpkeep::None | IndexUpkeep::Collected => 0,
            };
            ("entry", number, count)
        }
        FragmentPart::Lookup(number) => ("question", number, lookups(statement).len()),
        FragmentPart::Fragment(number) => {
            let count = match &statement.execution {
                Execution::Local { .. } => 0,
                Execution::Distributed { fragments, .. } | Execution::Shipped { fragments, .. } => {
                    fragments.len()
                }
            };
            ("fragment", number, count)
        }
        FragmentPart::Apply => {
            let ships = matches!(statement.execution, Execution::Shipped { .. });
            ("second round", 0, usize::from(ships))
        }
        _ => return Ok(()),
    };
    match number < count {
        true => Ok(()),
        false => Err(MessageError::Number(what, number as u64)),
    }
}

fn put_part(out: &mut Vec<u8>, part: FragmentPart) {
    let (kind, number) = match part {
        FragmentPart::Whole => (1, None),
        FragmentPart::Home { addresses_partition: false } => (2, None),
        FragmentPart::Home { addresses_partition: true } => (3, None),
        FragmentPart::Entry(number) => (4, Some(number)),
        FragmentPart::Lookup(number) => (5, Some(number)),
        FragmentPart::Fragment(number) => (6, Some(number)),
        FragmentPart::Apply => (7, None),
        FragmentPart::Load => (8, None),
    };
    out.put_u8(kind);
    number.into_iter().for_each(|number| out.put_varint(number as u64));
}

fn read_part(reader: &mut ByteReader<'_>) -> Read<FragmentPart> {
    Ok(match reader.u8()? {
        1 => FragmentPart::Whole,
        2 => FragmentPart::Home { addresses_partition: false },
        3 => FragmentPart::Home { addresses_partition: true },
        4 => FragmentPart::Entry(read_size(reader, "entry")?),
        5 => FragmentPart::Lookup(read_size(reader, "question")?),
        6 => FragmentPart::Fragment(read_size(reader, "fragment")?),
        7 => FragmentPart::Apply,
        8 => FragmentPart::Load,
        other => return Err(MessageError::Unknown("a part of a statement", other.into())),
    })
}
