//! Calls on their way to the coordinator.

use super::statement::{Rows, put_bound, read_bound, read_statement_call, write_statement_call};
use super::{
    Identities, MessageError, Read, ReceivedCall, check_partitions, check_version, end, put_change,
    put_home, put_list, put_option, put_partition, put_time_limit, read_change, read_home,
    read_list, read_number, read_option, read_partition, read_size, read_text, read_time_limit,
};
use crate::message::{MultiCall, MultiWork};
use crate::one_round::{OneRoundCall, OneRoundParts};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::{ParameterSet, PartitionId};
use std::sync::Arc;

const PROCEDURE: u8 = 1;
const STATEMENTS: u8 = 2;
const SCHEMA: u8 = 3;

/// Writes a call of several rounds; `put_origin` writes who waits.
pub fn write_multi<O, C>(
    out: &mut Vec<u8>,
    call: &MultiCall<O, C>,
    put_origin: impl FnOnce(&mut Vec<u8>, &O),
) {
    out.put_varint(call.catalog_version);
    put_origin(out, &call.origin);
    out.put_varint(call.procedure_number.into());
    put_time_limit(out, call.time_limit);
    put_list(out, &call.declared, |out, partition| put_partition(out, *partition));
    put_home(out, call.home);
    match &call.work {
        MultiWork::Procedure { procedure, parameters } => {
            out.put_u8(PROCEDURE);
            out.put_counted(procedure.definition().name.as_bytes());
            out.put_counted(parameters);
        }
        MultiWork::Statements(call) => {
            out.put_u8(STATEMENTS);
            write_statement_call(out, call);
        }
        MultiWork::Schema(task) => {
            out.put_u8(SCHEMA);
            put_change(out, task);
        }
    }
    put_option(out, call.led.as_ref(), |out, led| put_bound(out, led, Rows::All));
}

/// Reads what [`write_multi`] wrote.
///
/// # Errors
/// It is not such, is of a later version of the catalog, or names what the receiver does not have.
pub fn read_multi<O, C>(
    bytes: &[u8],
    names: &mut impl Identities<C>,
    read_origin: impl FnOnce(&mut ByteReader<'_>) -> Read<O>,
) -> Read<ReceivedCall<O, MultiCall<O, C>>> {
    let reader = &mut ByteReader::new(bytes);
    let catalog_version = reader.varint()?;
    let origin = read_origin(reader)?;
    let procedure_number = read_number(reader, "procedure")?;
    let time_limit = read_time_limit(reader)?;
    let declared = read_list(reader, read_partition)?;
    let home = read_home(reader)?;
    let kind = reader.u8()?;
    match check_version(catalog_version, names) {
        // Nothing overtakes a change: the control thread sends one after the other.
        _ if kind == SCHEMA => {}
        Ok(()) => {}
        Err(MessageError::EarlierCatalog(_)) => return Ok(ReceivedCall::Overtaken(origin)),
        Err(error) => return Err(error),
    }
    let work = match kind {
        PROCEDURE => {
            let name = read_text(reader)?;
            let parameters: Arc<[u8]> = reader.counted()?.into();
            if ParameterSet::new(&parameters).is_err() {
                return Err(MessageError::CutOff);
            }
            let procedure = names.procedure(name).map_err(MessageError::NotFound)?;
            MultiWork::Procedure { procedure, parameters }
        }
        STATEMENTS => MultiWork::Statements(read_statement_call(reader, names)?),
        SCHEMA => MultiWork::Schema(read_change(reader, names)?),
        other => return Err(MessageError::Unknown("work of", other.into())),
    };
    let led = read_option(reader, |reader| read_bound(reader, names))?;
    end(reader)?;
    let named = declared.iter().copied().chain(home.map(|home| home.partition));
    check_partitions(named, names.partition_count())?;
    Ok(ReceivedCall::Current(MultiCall {
        origin,
        procedure_number,
        catalog_version,
        time_limit,
        declared,
        home,
        led,
        work,
    }))
}

/// Writes a call of one round.
pub fn write_one_round(out: &mut Vec<u8>, call: &OneRoundCall) {
    put_one_round(out, call);
}

/// Reads what [`write_one_round`] wrote. An overtaken call is given as the invocation.
///
/// # Errors
/// As for [`read_multi`].
pub fn read_one_round<C>(
    bytes: &[u8],
    names: &mut impl Identities<C>,
) -> Read<ReceivedCall<Arc<[u8]>, Arc<OneRoundCall>>> {
    let reader = &mut ByteReader::new(bytes);
    let parts = read_parts(reader)?;
    end(reader)?;
    match check_version(parts.catalog_version, names) {
        Ok(()) => call_of(parts, names).map(ReceivedCall::Current),
        Err(MessageError::EarlierCatalog(_)) => {
            Ok(ReceivedCall::Overtaken(parts.invocation.into()))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn put_one_round(out: &mut Vec<u8>, call: &OneRoundCall) {
    let parts = call.parts();
    out.put_varint(parts.catalog_version);
    out.put_counted(parts.procedure.as_bytes());
    out.put_varint(parts.procedure_number.into());
    put_time_limit(out, parts.time_limit);
    put_home(out, parts.home);
    out.put_counted(parts.invocation);
    out.put_varint(parts.parameters_at as u64);
    for list in &parts.partitions {
        put_list(out, list, |out, partition| put_partition(out, *partition));
    }
    out.put_varint(parts.first_answer as u64);
}

pub(super) fn read_one_round_of<C>(
    reader: &mut ByteReader<'_>,
    names: &mut impl Identities<C>,
) -> Read<Arc<OneRoundCall>> {
    let parts = read_parts(reader)?;
    check_version(parts.catalog_version, names)?;
    call_of(parts, names)
}

fn read_parts<'a>(reader: &mut ByteReader<'a>) -> Read<OneRoundParts<'a>> {
    let list = |reader: &mut ByteReader<'a>| -> Read<Vec<PartitionId>> {
        read_list(reader, read_partition)
    };
    Ok(OneRoundParts {
        catalog_version: reader.varint()?,
        procedure: read_text(reader)?,
        procedure_number: read_number(reader, "procedure")?,
        time_limit: read_time_limit(reader)?,
        home: read_home(reader)?,
        invocation: reader.counted()?,
        parameters_at: read_size(reader, "place of parameters")?,
        partitions: [list(reader)?, list(reader)?, list(reader)?],
        first_answer: read_size(reader, "first answer")?,
    })
}

fn call_of<C>(parts: OneRoundParts<'_>, names: &mut impl Identities<C>) -> Read<Arc<OneRoundCall>> {
    check_partitions(parts.partitions[1].iter().copied(), names.partition_count())?;
    let procedure = names.procedure(parts.procedure).map_err(MessageError::NotFound)?;
    let call = OneRoundCall::from_parts(procedure, &parts);
    call.map(Arc::new).map_err(|reason| MessageError::NotFound(reason.to_string()))
}
