//! Statements with their parameters, by what they come from.

use super::{
    MessageError, Read, put_flag, put_list, put_option, put_partition, read_flag, read_list,
    read_number, read_option, read_partition, read_size, read_text,
};
use crate::codec::Identities;
use crate::message::{AnswerForm, BoundStatement, StatementCall};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_exec::PreparedStatement;
use lockstep_exec::statement::StatementOrigin;
use lockstep_types::{ParameterSet, PartitionId, SqlType, TableId};
use std::sync::Arc;

const OF_PROCEDURE: u8 = 0;
const OF_TEXT: u8 = 1;
const QUESTION: u8 = 2;

const RESULTS: u8 = 0;
const STATEMENT_COUNT: u8 = 1;
const COUNT: u8 = 2;
const PROFILES: u8 = 3;

/// What stands for a statement between hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementId<'a> {
    /// The numbered statement of a procedure.
    Procedure {
        /// The procedure's name.
        name: &'a str,
        /// The statement's place in it.
        number: u32,
    },
    /// Text that was planned by itself.
    Text {
        /// The text, with `?` for parameters.
        text: &'a str,
        /// Planned as within a single-partition procedure.
        single_partition: bool,
        /// The planner's rules that were off.
        rules_off: u64,
        /// What it was planned with, where that is not the catalog's.
        planning: Option<&'a [u8]>,
    },
    /// The question to a global index where the row of a key lives.
    Question {
        /// The table of the index's entries.
        entries: TableId,
        /// The types of the key.
        key: Vec<SqlType>,
    },
}

impl StatementId<'_> {
    /// What stands for a statement.
    pub fn of(statement: &PreparedStatement) -> StatementId<'_> {
        let plan = statement.statement();
        match statement.origin() {
            StatementOrigin::Procedure { definition, number } => {
                StatementId::Procedure { name: &definition.name, number: *number }
            }
            StatementOrigin::Text { single_partition, rules_off, planning } => StatementId::Text {
                text: &plan.text,
                single_partition: *single_partition,
                rules_off: *rules_off,
                planning: planning.as_deref(),
            },
            StatementOrigin::Question { entries } => StatementId::Question {
                entries: *entries,
                key: plan.parameters.iter().map(|parameter| parameter.sql_type).collect(),
            },
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            StatementId::Procedure { name, number } => {
                out.put_u8(OF_PROCEDURE);
                out.put_counted(name.as_bytes());
                out.put_varint(u64::from(*number));
            }
            StatementId::Text { text, single_partition, rules_off, planning } => {
                out.put_u8(OF_TEXT);
                out.put_counted(text.as_bytes());
                put_flag(out, *single_partition);
                out.put_varint(*rules_off);
                put_option(out, *planning, |out, planning| out.put_counted(planning));
            }
            StatementId::Question { entries, key } => {
                out.put_u8(QUESTION);
                out.put_varint(u64::from(entries.0));
                put_list(out, key, |out, sql_type| out.put_i8(sql_type.code()));
            }
        }
    }

    fn read<'a>(reader: &mut ByteReader<'a>) -> Read<StatementId<'a>> {
        Ok(match reader.u8()? {
            OF_PROCEDURE => {
                let name = read_text(reader)?;
                StatementId::Procedure { name, number: read_number(reader, "statement")? }
            }
            OF_TEXT => StatementId::Text {
                text: read_text(reader)?,
                single_partition: read_flag(reader)?,
                rules_off: reader.varint()?,
                planning: read_option(reader, |reader| Ok(reader.counted()?))?,
            },
            QUESTION => {
                let entries = TableId(read_number(reader, "table")?);
                StatementId::Question { entries, key: read_list(reader, read_type)? }
            }
            other => {
                return Err(MessageError::Unknown("a source of a statement", other.into()));
            }
        })
    }
}

fn read_type(reader: &mut ByteReader<'_>) -> Read<SqlType> {
    let code = reader.i8()?;
    SqlType::from_code(code).ok_or(MessageError::Unknown("a type", code.unsigned_abs().into()))
}

/// Which rows of a statement that ships some go along.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    /// Those of all partitions: to the coordinator.
    All,
    /// Those of one: to that.
    Of(PartitionId),
}

/// Writes a statement with its parameters.
pub(super) fn put_bound(out: &mut Vec<u8>, bound: &BoundStatement, rows: Rows) {
    StatementId::of(&bound.statement).write(out);
    out.put_counted(&bound.parameters);
    put_option(out, bound.profile, |out, number| out.put_varint(number.into()));
    put_option(out, bound.shipped.as_deref(), |out, tables| {
        let here = |(place, table): (usize, &Vec<u8>)| match rows {
            Rows::Of(partition) if partition.index() != place => None,
            _ => (!table.is_empty()).then_some((place, table.clone())),
        };
        out.put_varint(tables.len() as u64);
        let sent: Vec<(usize, Vec<u8>)> = tables.iter().enumerate().filter_map(here).collect();
        put_list(out, &sent, |out, (place, table)| {
            out.put_varint(*place as u64);
            out.put_counted(table);
        });
    });
    put_option(out, bound.found.as_deref(), |out, questions| {
        put_list(out, questions, |out, places| {
            put_list(out, places, |out, place| put_partition(out, *place));
        });
    });
}

/// Reads what [`put_bound`] wrote.
pub(super) fn read_bound<C>(
    reader: &mut ByteReader<'_>,
    names: &mut impl Identities<C>,
) -> Read<BoundStatement> {
    let id = StatementId::read(reader)?;
    let parameters: Arc<[u8]> = reader.counted()?.into();
    if ParameterSet::new(&parameters).is_err() {
        return Err(MessageError::CutOff);
    }
    let profile = read_option(reader, |reader| read_number(reader, "profile"))?;
    let shipped = read_option(reader, read_shipped)?;
    let found = read_option(reader, |reader| {
        read_list(reader, |reader| read_list(reader, read_partition)).map(Arc::new)
    })?;
    let statement = names.statement(&id).map_err(MessageError::NotFound)?;
    let statement = match profile {
        Some(_) => Arc::new(statement.by_operators()),
        None => statement,
    };
    Ok(BoundStatement { statement, parameters, shipped, found, profile })
}

fn read_shipped(reader: &mut ByteReader<'_>) -> Read<Arc<Vec<Vec<u8>>>> {
    let count = read_size(reader, "partitions")?;
    if count > PartitionId::LIMIT as usize {
        return Err(MessageError::Number("partitions", count as u64));
    }
    let mut tables = vec![Vec::new(); count];
    let sent = read_list(reader, |reader| {
        Ok((read_size(reader, "partition")?, reader.counted()?.to_vec()))
    })?;
    for (place, table) in sent {
        let known = tables.get_mut(place);
        *known.ok_or(MessageError::Number("partition", place as u64))? = table;
    }
    Ok(Arc::new(tables))
}

/// Writes the statements of a call.
pub fn write_statement_call(out: &mut Vec<u8>, call: &StatementCall) {
    put_flag(out, call.read_only);
    match call.answer {
        AnswerForm::Results => out.put_u8(RESULTS),
        AnswerForm::StatementCount => out.put_u8(STATEMENT_COUNT),
        AnswerForm::Profiles => out.put_u8(PROFILES),
        AnswerForm::Count(count) => {
            out.put_u8(COUNT);
            out.put_i64(count);
        }
    }
    put_list(out, &call.statements, |out, bound| put_bound(out, bound, Rows::All));
}

/// Reads what [`write_statement_call`] wrote.
///
/// # Errors
/// It is not such, or names what the receiver does not have.
pub fn read_statement_call<C>(
    reader: &mut ByteReader<'_>,
    names: &mut impl Identities<C>,
) -> Read<StatementCall> {
    let read_only = read_flag(reader)?;
    let answer = match reader.u8()? {
        RESULTS => AnswerForm::Results,
        STATEMENT_COUNT => AnswerForm::StatementCount,
        COUNT => AnswerForm::Count(reader.i64()?),
        PROFILES => AnswerForm::Profiles,
        other => return Err(MessageError::Unknown("an answer of", other.into())),
    };
    let statements = read_list(reader, |reader| read_bound(reader, names))?;
    Ok(StatementCall { statements, read_only, answer })
}
