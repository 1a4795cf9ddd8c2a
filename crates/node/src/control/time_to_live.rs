//! Deletes rows whose time is over (`USING TTL`): asks sites to look, and has transactions delete
//! what they have seen. Which of both is due when, [`ExpirySchedule`] says.
//!
//! The transactions are ordinary ones: of one partition, of all for a replicated table, and of few
//! where a table has global indexes. Their log entries hold the time up to which rows go and how
//! many, so that replay needs no clock. What a change of the catalog overtakes is not repeated:
//! the next look is by the new one.

use super::own_answers::{LENGTH_BYTES, read_count};
use super::{Control, SystemCall};
use crate::clock;
use crate::connection::ConnectionKey;
use crate::intake::Changes;
use crate::message::{Envelope, Origin};
use crate::options::Options;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::statements::StatementsDestination;
use lockstep_site::{
    BoundStatement, Expiring, ExpiryBatch, ExpiryCounts, ExpiryLook, ExpirySchedule, LegId,
    StatementCall,
};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, PartitionId, SqlType, Status, ThreadId, Value};
use lockstep_wire_volt::invocation::{self, CallOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the transactions have in place of a connection: no connection has this place.
const EXPIRY_KEY: ConnectionKey = ConnectionKey { place: u32::MAX, generation: u32::MAX - 9 };
/// What comes back instead of a client's call where a change of the catalog overtook one of them.
/// No client can call it.
const OVERTAKEN: &str = "@ExpireRows";

/// What is deleted when.
pub(super) struct Expiry {
    schedule: ExpirySchedule,
    overtaken: Arc<[u8]>,
    /// The failure that was told last, so that it is told once.
    told: Option<String>,
    is_stopped: bool,
}

impl Expiry {
    pub(super) fn new(options: &Options, partition_count: u32) -> Expiry {
        let check_us = options.ttl_check_ms as i64 * 1_000;
        let schedule = ExpirySchedule::new(partition_count, check_us, options.max_ttl_batch_rows);
        let mut frame = Vec::new();
        let parameters = ParameterWriter::default();
        let call = CallOptions::default();
        invocation::encode(&mut frame, OVERTAKEN, 0, &call, parameters.bytes());
        let overtaken = Arc::from(&frame[LENGTH_BYTES..]);
        Expiry { schedule, overtaken, told: None, is_stopped: false }
    }

    /// Whether an answer, or what came back, is of a transaction of this thread's.
    pub(super) fn is_own(origin: &Origin) -> bool {
        origin.connection == EXPIRY_KEY
    }

    /// Until something is due.
    pub(super) fn time_left(&self, now_us: i64) -> Option<Duration> {
        let due_us = self.schedule.due_us().filter(|_| !self.is_stopped)?;
        Some(Elapsed::between_us(now_us, due_us).duration())
    }

    /// Nothing begins any more: the host stops.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What was deleted of each table: the rows of `@Statistics TTL`, without the time.
    pub(super) fn rows(&self) -> Vec<Vec<Value>> {
        let number = |count: u64| Value::Int(count as i64);
        let row = |counts: ExpiryCounts| {
            vec![
                Value::Text(counts.name.into()),
                number(counts.deleted),
                number(counts.deleted_last),
                number(counts.remaining),
                counts.last_delete_us.map_or(Value::Null, Value::Timestamp),
            ]
        };
        self.schedule.counts().into_iter().map(row).collect()
    }
}

impl Control {
    /// Another catalog is in force: so are its tables.
    pub(super) fn set_expiring_tables(&mut self) {
        let partition_count = self.facts.partition_count;
        let tables = self.schema.catalog().plan.expiring_tables();
        let tables = tables.map(|table| Expiring::new(table, partition_count));
        self.expiry.schedule.set_tables(tables, clock::now_us());
    }

    /// Asks the sites to look at what is due, unless nothing may be deleted at the moment.
    pub(super) fn attend_to_expiry(&mut self) {
        let now_us = clock::now_us();
        if self.expiry.time_left(now_us).is_none_or(|left| !left.is_zero()) {
            return;
        }
        if self.schema.is_changing() || self.facts.intake.check(Changes::Deletes, false).is_err() {
            return self.expiry.schedule.put_off(now_us);
        }
        let catalog_version = self.schema.catalog().version();
        let placement = &self.facts.placement;
        let mut of_thread: BTreeMap<ThreadId, Vec<ExpiryLook>> = BTreeMap::new();
        for look in self.expiry.schedule.begin_looks(now_us) {
            of_thread.entry(placement.thread_of(look.partition)).or_default().push(look);
        }
        for (thread, looks) in of_thread {
            let looks = Envelope::ExpiryLooks { catalog_version, looks };
            self.outbox.send(thread, looks);
        }
    }

    /// A site has looked: per leg, how many rows there are whose time is over.
    pub(super) fn expiry_seen(&mut self, catalog_version: u64, seen: Vec<(LegId, Option<u64>)>) {
        let now_us = clock::now_us();
        let may_delete = self.facts.intake.check(Changes::Deletes, false).is_ok();
        let is_current =
            catalog_version == self.schema.catalog().version() && !self.schema.is_changing();
        for (leg, rows) in seen {
            let rows = rows.filter(|_| may_delete && is_current);
            if let Some(batch) = self.expiry.schedule.seen(leg, rows, now_us) {
                self.begin_expiry(batch);
            }
        }
    }

    fn begin_expiry(&mut self, batch: ExpiryBatch) {
        let mut parameters = ParameterWriter::default();
        parameters.scalar(SqlType::Timestamp, Datum::Timestamp(batch.cut_off_us));
        parameters.bigint(batch.rows as i64);
        let bound = BoundStatement {
            statement: batch.statement,
            parameters: Arc::from(parameters.bytes()),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = vec![bound];
        let work = StatementCall { statements, read_only: false, counted: false, answer: None };
        let origin =
            Origin { connection: EXPIRY_KEY, handle: batch.leg.0 as i64, ..self.own_origin() };
        let body = Arc::clone(&self.expiry.overtaken);
        let call = SystemCall { origin, admin: true, body, time_limit: None };
        let destination = match batch.partition {
            Some(partition) => StatementsDestination::One(partition),
            None if self.facts.partition_count == 1 => StatementsDestination::One(PartitionId(0)),
            None => StatementsDestination::Several,
        };
        self.send_work(call, work, destination);
    }

    /// A transaction that deletes rows has ended.
    pub(super) fn expiry_ended(&mut self, origin: Origin, frame: &[u8]) {
        let deleted = match read_count(Status::UnexpectedFailure, frame) {
            Ok(count) => {
                self.expiry.told = None;
                Some(count as u64)
            }
            Err(why) => {
                if self.expiry.told.as_ref() != Some(&why.message) {
                    tracing::warn!(%why, "rows whose time is over stay; it is tried again");
                    self.expiry.told = Some(why.message);
                }
                None
            }
        };
        let leg = LegId(origin.handle as u64);
        self.expiry.schedule.ended(leg, deleted, clock::now_us());
    }

    /// A change of the catalog came before the transaction, which did nothing.
    pub(super) fn expiry_overtaken(&mut self, origin: Origin) {
        self.expiry.schedule.ended(LegId(origin.handle as u64), None, clock::now_us());
    }
}
