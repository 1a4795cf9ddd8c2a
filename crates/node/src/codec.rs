//! The byte form of what the threads of a host send each other, for hosts to come: one kind, then
//! its parts, most of them as [`lockstep_site::codec`] and [`lockstep_host::codec`] have them.
//!
//! In one process messages are passed as they are. A host that is set
//! ([`crate::server::ServerConfiguration::sends_bytes`]) makes bytes of each and reads those, so
//! that all tests of a server can run with them.
//!
//! Without a byte form are what only threads of one process can pass, a socket and the way to
//! a thread that writes files, and the numbers of a thread for `@Statistics`, of which its own host
//! makes tables.
//!
//! Long file: one list of all kinds of messages, each written and read side by side.

use crate::buffers::Buffers;
use crate::catalog::HostCatalog;
use crate::connection::ConnectionKey;
use crate::message::{
    AdHocCall, BouncedCall, ControlRequest, Envelope, ForwardedAnswer, ForwardedCall, MultiOrigin,
    OneRoundEnd, OneRoundTables, Origin, SnapshotStep, ViaCall,
};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_host::codec as host;
use lockstep_host::follower::codec::OfCopy;
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::index_hops::ViaKey;
use lockstep_host::names::CatalogNames;
use lockstep_site::codec::{
    self as site, Identities, MessageError, Read, ReceivedCall, put_failure, put_time_limit,
    read_failure, read_number, read_short, read_time_limit,
};
use lockstep_site::{IndexHop, OneRoundAnswer};
use lockstep_types::{HostId, PartitionId, Status, TableId, ThreadId};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static ALWAYS: AtomicBool = AtomicBool::new(false);

/// From now on hosts of this process are started so that each message goes through its byte form.
pub fn send_bytes_always() {
    ALWAYS.store(true, Ordering::Relaxed);
}

/// See [`send_bytes_always`].
pub(crate) fn sends_bytes_always() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

const CALL: u8 = 1;
const VIA: u8 = 2;
const ANSWER: u8 = 3;
const AD_HOC: u8 = 4;
const MULTI: u8 = 5;
const ONE_ROUND: u8 = 6;
const ONE_ROUND_TABLES: u8 = 7;
const TO_PARTITION: u8 = 8;
const FROM_PARTITION: u8 = 9;
const SYSTEM_CALL: u8 = 10;
const SCHEMA_DECIDED: u8 = 11;
const SURVEYED: u8 = 12;
const EXPIRY_SEEN: u8 = 13;
const GATHER: u8 = 14;
const SURVEY: u8 = 15;
const EXPIRY_LOOKS: u8 = 16;
const PUSH: u8 = 17;
const TASK: u8 = 18;
const DRAIN: u8 = 19;
const STOP: u8 = 20;
const PREPARE_CHANGE: u8 = 21;
const CHANGE_PREPARED: u8 = 22;
const COPY: u8 = 23;
const CATALOG_IN_FORCE: u8 = 24;
const SNAPSHOT: u8 = 25;
const ASK_CATALOG: u8 = 28;
const CATALOG_GIVEN: u8 = 29;
const HAND_OVER: u8 = 26;
const BOUNCED: u8 = 27;

/// What was read.
pub enum Received {
    /// A message, as the receiver can take it.
    Message(Envelope),
    /// A call for the coordinator that a schema change has overtaken, to be planned again for the
    /// caller.
    Overtaken(MultiOrigin),
    /// The same of ad hoc statements for a partition.
    OvertakenStatements(MultiOrigin),
}

/// What the catalogs of this host's changes are in.
pub type Catalog = Arc<HostCatalog>;

/// Appends the byte form of a message; false for one that has none.
pub fn write_message(out: &mut Vec<u8>, message: &Envelope) -> bool {
    match message {
        Envelope::Call(partition, call) => {
            out.put_u8(CALL);
            out.put_varint(partition.0.into());
            put_call(out, call);
        }
        Envelope::Via(via) => put_via(out, via),
        Envelope::Answer(answer) => {
            out.put_u8(ANSWER);
            put_origin(out, &answer.origin);
            out.put_i8(answer.status.code());
            out.put_counted(&answer.frame);
        }
        Envelope::AdHoc(partition, call) => put_ad_hoc(out, *partition, call),
        Envelope::Multi(call) => {
            out.put_u8(MULTI);
            site::write_multi(out, call, |out, origin| {
                put_origin(out, &origin.origin);
                put_body(out, origin.body.as_deref());
            });
        }
        Envelope::OneRound(origin, call) => {
            out.put_u8(ONE_ROUND);
            put_origin(out, origin);
            site::write_one_round(out, call);
        }
        Envelope::OneRoundFinished(OneRoundEnd { origin, call, result }) => {
            put_tables(out, origin, &call.table_order(), result);
        }
        Envelope::OneRoundTables(end) => put_tables(out, &end.origin, &end.order, &end.result),
        Envelope::ToPartition(message) => {
            out.put_u8(TO_PARTITION);
            site::write_to_partition(out, message);
        }
        Envelope::FromPartition(message) => {
            out.put_u8(FROM_PARTITION);
            site::write_from_partition(out, message);
        }
        Envelope::Copy(message) => {
            out.put_u8(COPY);
            lockstep_host::follower::codec::write(out, message);
        }
        Envelope::HandOver(planned) => {
            out.put_u8(HAND_OVER);
            out.put_varint(planned.partition.0.into());
            out.put_varint(planned.to.0.into());
            out.put_varint(planned.epoch.into());
        }
        Envelope::Bounced(bounced) => {
            out.put_u8(BOUNCED);
            out.put_varint(bounced.epoch);
            put_call(out, &bounced.call);
        }
        Envelope::Control(request) => return put_request(out, request),
        other => return write_from_control(out, other),
    }
    true
}

/// Appends the byte form of what the control thread sends to sites; false for what has none.
fn write_from_control(out: &mut Vec<u8>, message: &Envelope) -> bool {
    match message {
        Envelope::Gather { request, validate } => {
            out.put_u8(GATHER);
            out.put_varint(*request);
            out.put_u8(u8::from(*validate));
        }
        Envelope::Survey { sample, rows } => {
            out.put_u8(SURVEY);
            out.put_varint(u64::from(*rows));
            sample.iter().for_each(|table| out.put_varint(table.0.into()));
        }
        Envelope::ExpiryPolls { catalog_version, looks } => {
            out.put_u8(EXPIRY_LOOKS);
            host::write_polls(out, *catalog_version, looks);
        }
        Envelope::Push(frames) => {
            out.put_u8(PUSH);
            out.extend_from_slice(frames);
        }
        Envelope::Task(body) => {
            out.put_u8(TASK);
            out.extend_from_slice(body);
        }
        Envelope::Drain => out.put_u8(DRAIN),
        Envelope::Stop => out.put_u8(STOP),
        _ => return false,
    }
    true
}

/// Reads what [`write_message`] wrote; what it carries comes in `buffers`.
///
/// # Errors
/// It is no message, or of a later version of the catalog, or names what this host does not have;
/// what a coordinator says of an earlier version is a repeat.
pub fn read_message<O>(
    bytes: &[u8],
    names: &mut CatalogNames<'_, O, Catalog>,
    buffers: &mut Buffers,
) -> Read<Received> {
    let reader = &mut ByteReader::new(bytes);
    let kind = reader.u8()?;
    let message = match kind {
        CALL => {
            let partition = read_partition(reader, names.partition_count)?;
            Envelope::Call(partition, read_call(reader, buffers)?)
        }
        VIA => read_via(reader, names.partition_count, buffers)?,
        ANSWER => read_answer(reader, buffers)?,
        AD_HOC => return read_ad_hoc(reader, names),
        MULTI => return read_multi(reader.rest(), names),
        ONE_ROUND => {
            let origin = read_origin(reader)?;
            return Ok(match site::read_one_round(reader.rest(), names)? {
                ReceivedCall::Current(call) => Received::Message(Envelope::OneRound(origin, call)),
                ReceivedCall::Overtaken(body) => {
                    Received::Overtaken(MultiOrigin { origin, body: Some(body) })
                }
            });
        }
        ONE_ROUND_TABLES => read_tables(reader)?,
        TO_PARTITION => {
            return site::read_to_partition(reader.rest(), names)
                .map(|message| Received::Message(Envelope::ToPartition(message)));
        }
        FROM_PARTITION => {
            return site::read_from_partition(reader.rest(), names.partition_count())
                .map(|message| Received::Message(Envelope::FromPartition(message)));
        }
        SYSTEM_CALL | SCHEMA_DECIDED | SURVEYED | EXPIRY_SEEN | PREPARE_CHANGE
        | CHANGE_PREPARED | CATALOG_IN_FORCE | SNAPSHOT | ASK_CATALOG | CATALOG_GIVEN => {
            Envelope::Control(Box::new(read_request(kind, reader)?))
        }
        HAND_OVER => Envelope::HandOver(PlannedMove {
            partition: read_partition(reader, names.partition_count)?,
            to: HostId(read_number(reader, "host")?),
            epoch: read_number(reader, "epoch")?,
        }),
        BOUNCED => read_bounced(reader, buffers)?,
        COPY => Envelope::Copy(Box::new(read_of_copy(reader, names.partition_count)?)),
        GATHER => Envelope::Gather { request: reader.varint()?, validate: reader.u8()? != 0 },
        SURVEY => {
            let rows = read_number(reader, "rows")?;
            let mut sample = Vec::new();
            while reader.remaining() > 0 {
                sample.push(TableId(read_number(reader, "table")?));
            }
            Envelope::Survey { sample: sample.into(), rows }
        }
        EXPIRY_LOOKS => {
            let (catalog_version, looks) = host::read_polls(reader)?;
            Envelope::ExpiryPolls { catalog_version, looks }
        }
        PUSH => Envelope::Push(take_rest(reader).into()),
        TASK => Envelope::Task(take_rest(reader).to_vec()),
        DRAIN => Envelope::Drain,
        STOP => Envelope::Stop,
        other => return Err(MessageError::Unknown("a message of kind", other.into())),
    };
    match reader.remaining() {
        0 => Ok(Received::Message(message)),
        rest => Err(MessageError::TooLong(rest)),
    }
}

/// Reads a message for the thread of the links, which knows no catalog.
///
/// # Errors
/// It is none.
pub fn read_copy_message(bytes: &[u8], partition_count: u32) -> Read<OfCopy> {
    let reader = &mut ByteReader::new(bytes);
    match reader.u8()? {
        COPY => read_of_copy(reader, partition_count),
        other => Err(MessageError::Unknown("a message for the links of kind", other.into())),
    }
}

fn read_of_copy(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<OfCopy> {
    let message = lockstep_host::follower::codec::read(reader, partition_count)?;
    match reader.remaining() {
        0 => Ok(message),
        rest => Err(MessageError::TooLong(rest)),
    }
}

fn take_rest<'a>(reader: &mut ByteReader<'a>) -> &'a [u8] {
    let rest = reader.rest();
    *reader = ByteReader::new(&[]);
    rest
}

/// The partition of a call: one that the cluster has.
fn read_partition(reader: &mut ByteReader<'_>, partition_count: u32) -> Read<PartitionId> {
    match read_number(reader, "partition")? {
        number if number < partition_count => Ok(PartitionId(number)),
        number => Err(MessageError::Number("partition", number.into())),
    }
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    let Origin { thread, connection, handle, arrived_us, procedure, weight } = *origin;
    out.put_varint(thread.0.into());
    out.put_varint(connection.place.into());
    out.put_varint(connection.generation.into());
    out.put_i64(handle);
    out.put_i64(arrived_us);
    out.put_varint(procedure.into());
    out.put_varint(weight.into());
}

fn read_origin(reader: &mut ByteReader<'_>) -> Read<Origin> {
    Ok(Origin {
        thread: ThreadId(read_short(reader, "thread")?),
        connection: ConnectionKey {
            place: read_number(reader, "connection")?,
            generation: read_number(reader, "connection")?,
        },
        handle: reader.i64()?,
        arrived_us: reader.i64()?,
        procedure: read_number(reader, "procedure")?,
        weight: read_short(reader, "weight")?,
    })
}

/// An invocation, which has to be one: nobody checks it again.
fn read_invocation<'a>(reader: &mut ByteReader<'a>) -> Read<&'a [u8]> {
    let body = reader.counted()?;
    match Invocation::decode(body) {
        Ok(_) => Ok(body),
        Err(rejection) => Err(MessageError::NotFound(rejection.message())),
    }
}

fn put_body(out: &mut Vec<u8>, body: Option<&[u8]>) {
    out.put_u8(u8::from(body.is_some()));
    out.put_counted(body.unwrap_or_default());
}

fn read_body(reader: &mut ByteReader<'_>) -> Read<Option<Arc<[u8]>>> {
    let is_there = reader.u8()? != 0;
    let body = reader.counted()?;
    Ok(is_there.then(|| body.into()))
}

fn put_call(out: &mut Vec<u8>, call: &ForwardedCall) {
    put_origin(out, &call.origin);
    out.put_counted(&call.body);
}

fn read_call(reader: &mut ByteReader<'_>, buffers: &mut Buffers) -> Read<ForwardedCall> {
    let origin = read_origin(reader)?;
    Ok(ForwardedCall { origin, body: buffers.copy_of(read_invocation(reader)?) })
}

fn read_bounced(reader: &mut ByteReader<'_>, buffers: &mut Buffers) -> Read<Envelope> {
    let epoch = reader.varint()?;
    Ok(Envelope::Bounced(Box::new(BouncedCall { epoch, call: read_call(reader, buffers)? })))
}

fn put_via(out: &mut Vec<u8>, via: &ViaCall) {
    out.put_u8(VIA);
    put_call(out, &via.call);
    let ViaKey { catalog_version, integer } = via.key();
    out.put_varint(catalog_version.into());
    out.put_u8(u8::from(integer.is_some()));
    out.put_i64(integer.unwrap_or_default());
    out.put_varint(via.partition().0.into());
    out.put_u8(u8::from(via.hop == IndexHop::Row));
    out.put_u8(via.lookups);
}

fn read_via(
    reader: &mut ByteReader<'_>,
    partition_count: u32,
    buffers: &mut Buffers,
) -> Read<Envelope> {
    let call = read_call(reader, buffers)?;
    let catalog_version = read_number(reader, "catalog version")?;
    let has_integer = reader.u8()? != 0;
    let integer = Some(reader.i64()?).filter(|_| has_integer);
    let partition = read_partition(reader, partition_count)?;
    let hop = if reader.u8()? != 0 { IndexHop::Row } else { IndexHop::Index };
    let lookups = reader.u8()?;
    let mut via = ViaCall::new(call, ViaKey { catalog_version, integer }, hop, partition);
    via.lookups = lookups;
    Ok(Envelope::Via(via))
}

fn read_answer(reader: &mut ByteReader<'_>, buffers: &mut Buffers) -> Read<Envelope> {
    let origin = read_origin(reader)?;
    let code = reader.i8()?;
    let status = Status::from_code(code)
        .ok_or(MessageError::Unknown("a status of", code.unsigned_abs().into()))?;
    let frame = buffers.copy_of(reader.counted()?);
    Ok(Envelope::Answer(ForwardedAnswer { origin, status, frame }))
}

fn put_ad_hoc(out: &mut Vec<u8>, partition: PartitionId, call: &AdHocCall) {
    out.put_u8(AD_HOC);
    out.put_varint(partition.0.into());
    out.put_varint(call.catalog_version);
    put_origin(out, &call.origin);
    out.put_counted(&call.body);
    put_time_limit(out, call.time_limit);
    site::write_statement_call(out, &call.call);
    out.put_u8(u8::from(call.via.is_some()));
    call.via.iter().for_each(|via| host::write_via(out, via));
}

fn read_ad_hoc<O>(
    reader: &mut ByteReader<'_>,
    names: &mut CatalogNames<'_, O, Catalog>,
) -> Read<Received> {
    let partition = read_partition(reader, names.partition_count)?;
    let catalog_version = reader.varint()?;
    let origin = read_origin(reader)?;
    let body: Arc<[u8]> = reader.counted()?.into();
    let time_limit = read_time_limit(reader)?;
    match names.catalog_version() {
        own if own < catalog_version => return Err(MessageError::LaterCatalog(catalog_version)),
        own if own > catalog_version => {
            return Ok(Received::OvertakenStatements(MultiOrigin { origin, body: Some(body) }));
        }
        _ => {}
    }
    let call = match site::read_statement_call(reader, names) {
        // It has no plan here: it is planned again with the catalog of the control thread.
        Err(MessageError::NotFound(_)) => {
            return Ok(Received::OvertakenStatements(MultiOrigin { origin, body: Some(body) }));
        }
        read => read?,
    };
    let via = match reader.u8()? {
        0 => None,
        _ => Some(host::read_via(reader, names.sources.catalog)?),
    };
    match reader.remaining() {
        0 => {
            let call = AdHocCall { origin, body, catalog_version, time_limit, call, via };
            Ok(Received::Message(Envelope::AdHoc(partition, Box::new(call))))
        }
        rest => Err(MessageError::TooLong(rest)),
    }
}

fn read_multi<O>(bytes: &[u8], names: &mut CatalogNames<'_, O, Catalog>) -> Read<Received> {
    let received = site::read_multi(bytes, names, |reader| {
        let origin = read_origin(reader)?;
        Ok(MultiOrigin { origin, body: read_body(reader)? })
    })?;
    Ok(match received {
        ReceivedCall::Current(call) => Received::Message(Envelope::Multi(Box::new(call))),
        ReceivedCall::Overtaken(origin) => Received::Overtaken(origin),
    })
}

fn put_tables(out: &mut Vec<u8>, origin: &Origin, order: &[u16], result: &OneRoundAnswer) {
    out.put_u8(ONE_ROUND_TABLES);
    put_origin(out, origin);
    out.put_varint(order.len() as u64);
    order.iter().for_each(|statement| out.put_varint(u64::from(*statement)));
    out.put_u8(u8::from(result.is_ok()));
    match result {
        Ok(tables) => out.put_counted(tables),
        Err(failure) => put_failure(out, failure),
    }
}

fn read_tables(reader: &mut ByteReader<'_>) -> Read<Envelope> {
    let origin = read_origin(reader)?;
    let count = read_short(reader, "tables")?;
    let order: Read<Vec<u16>> = (0..count).map(|_| read_short(reader, "statement")).collect();
    let order = order?;
    let result = match reader.u8()? {
        0 => Err(Box::new(read_failure(reader)?)),
        _ => Ok(reader.counted()?.to_vec()),
    };
    Ok(Envelope::OneRoundTables(Box::new(OneRoundTables { origin, order, result })))
}

fn put_request(out: &mut Vec<u8>, request: &ControlRequest) -> bool {
    match request {
        ControlRequest::Call { origin, admin, body } => {
            out.put_u8(SYSTEM_CALL);
            put_origin(out, origin);
            out.put_u8(u8::from(*admin));
            out.put_counted(body);
        }
        ControlRequest::PrepareChange { lead, catalog_version, source } => {
            out.put_u8(PREPARE_CHANGE);
            out.put_varint(lead.0.into());
            out.put_varint(*catalog_version);
            out.put_counted(source);
        }
        ControlRequest::ChangePrepared { host, catalog_version, failure } => {
            out.put_u8(CHANGE_PREPARED);
            out.put_varint(host.0.into());
            out.put_varint(*catalog_version);
            out.put_u8(u8::from(failure.is_some()));
            failure.iter().for_each(|failure| put_failure(out, failure));
        }
        ControlRequest::SchemaDecided { committed, catalog_version } => {
            out.put_u8(SCHEMA_DECIDED);
            out.put_u8(u8::from(*committed));
            out.put_varint(*catalog_version);
        }
        ControlRequest::Surveyed { thread, tables } => {
            out.put_u8(SURVEYED);
            host::write_survey(out, *thread, tables);
        }
        ControlRequest::ExpirySeen { catalog_version, seen } => {
            out.put_u8(EXPIRY_SEEN);
            host::write_seen(out, *catalog_version, seen);
        }
        ControlRequest::CatalogInForce { host, catalog_version } => {
            out.put_u8(CATALOG_IN_FORCE);
            out.put_varint(host.0.into());
            out.put_varint(*catalog_version);
        }
        ControlRequest::Snapshot { host, nonce, step } => {
            out.put_u8(SNAPSHOT);
            out.put_varint(host.0.into());
            out.put_counted(nonce.as_bytes());
            put_step(out, step);
        }
        ControlRequest::AskCatalog { host } => {
            out.put_u8(ASK_CATALOG);
            out.put_varint(host.0.into());
        }
        ControlRequest::CatalogGiven { catalog, is_paused } => {
            out.put_u8(CATALOG_GIVEN);
            out.put_u8(u8::from(*is_paused));
            out.put_counted(catalog);
        }
        ControlRequest::SchemaAnswer { .. }
        | ControlRequest::CatalogTaken { .. }
        | ControlRequest::Gathered { .. } => return false,
    }
    true
}

fn put_step(out: &mut Vec<u8>, step: &SnapshotStep) {
    match step {
        SnapshotStep::Prepare { epoch, catalog_version, cluster, keeps_copies, request } => {
            out.put_u8(0);
            out.put_varint(*epoch);
            out.put_varint(*catalog_version);
            out.extend_from_slice(cluster);
            out.put_u8(u8::from(*keeps_copies));
            out.put_counted(request.as_bytes());
        }
        SnapshotStep::Prepared { host_name, problem } => {
            out.put_u8(1);
            out.put_counted(host_name.as_bytes());
            put_problem(out, problem.as_deref());
        }
        SnapshotStep::Saved { problem } => {
            out.put_u8(2);
            put_problem(out, problem.as_deref());
        }
        SnapshotStep::GiveUp => out.put_u8(3),
        SnapshotStep::Keep => out.put_u8(4),
        SnapshotStep::Due => out.put_u8(5),
    }
}

fn read_step(reader: &mut ByteReader<'_>) -> Read<SnapshotStep> {
    Ok(match reader.u8()? {
        0 => {
            let (epoch, catalog_version) = (reader.varint()?, reader.varint()?);
            let mut cluster = [0; 16];
            cluster.copy_from_slice(reader.take(16)?);
            let keeps_copies = reader.u8()? != 0;
            let request = read_text(reader)?;
            SnapshotStep::Prepare { epoch, catalog_version, cluster, keeps_copies, request }
        }
        1 => {
            let host_name = read_text(reader)?;
            SnapshotStep::Prepared { host_name, problem: read_problem(reader)? }
        }
        2 => SnapshotStep::Saved { problem: read_problem(reader)? },
        3 => SnapshotStep::GiveUp,
        4 => SnapshotStep::Keep,
        5 => SnapshotStep::Due,
        other => return Err(MessageError::Unknown("a step of a snapshot of kind", other.into())),
    })
}

fn put_problem(out: &mut Vec<u8>, problem: Option<&str>) {
    out.put_u8(u8::from(problem.is_some()));
    problem.iter().for_each(|text| out.put_counted(text.as_bytes()));
}

fn read_problem(reader: &mut ByteReader<'_>) -> Read<Option<String>> {
    match reader.u8()? {
        0 => Ok(None),
        _ => read_text(reader).map(Some),
    }
}

fn read_text(reader: &mut ByteReader<'_>) -> Read<String> {
    Ok(String::from_utf8_lossy(reader.counted()?).into_owned())
}

fn read_request(kind: u8, reader: &mut ByteReader<'_>) -> Read<ControlRequest> {
    Ok(match kind {
        SYSTEM_CALL => {
            let origin = read_origin(reader)?;
            let admin = reader.u8()? != 0;
            ControlRequest::Call { origin, admin, body: reader.counted()?.into() }
        }
        PREPARE_CHANGE => {
            let lead = HostId(read_number(reader, "host")?);
            let catalog_version = reader.varint()?;
            let source = reader.counted()?.to_vec();
            ControlRequest::PrepareChange { lead, catalog_version, source }
        }
        CHANGE_PREPARED => {
            let host = HostId(read_number(reader, "host")?);
            let catalog_version = reader.varint()?;
            let failure = match reader.u8()? {
                0 => None,
                _ => Some(Box::new(read_failure(reader)?)),
            };
            ControlRequest::ChangePrepared { host, catalog_version, failure }
        }
        SCHEMA_DECIDED => ControlRequest::SchemaDecided {
            committed: reader.u8()? != 0,
            catalog_version: reader.varint()?,
        },
        CATALOG_IN_FORCE => ControlRequest::CatalogInForce {
            host: HostId(read_number(reader, "host")?),
            catalog_version: reader.varint()?,
        },
        SNAPSHOT => ControlRequest::Snapshot {
            host: HostId(read_number(reader, "host")?),
            nonce: read_text(reader)?,
            step: read_step(reader)?,
        },
        ASK_CATALOG => ControlRequest::AskCatalog { host: HostId(read_number(reader, "host")?) },
        CATALOG_GIVEN => ControlRequest::CatalogGiven {
            is_paused: reader.u8()? != 0,
            catalog: reader.counted()?.to_vec(),
        },
        SURVEYED => {
            let (thread, tables) = host::read_survey(reader)?;
            ControlRequest::Surveyed { thread, tables }
        }
        EXPIRY_SEEN => {
            let (catalog_version, seen) = host::read_seen(reader)?;
            ControlRequest::ExpirySeen { catalog_version, seen }
        }
        other => return Err(MessageError::Unknown("a request of kind", other.into())),
    })
}
