//! Rows whose time is over, deleted as a host's control thread has it done, by the simulated clock.
//! A look is taken at once; the transaction behind it goes its way among all messages.

use super::{Answer, CallNumber, World};
use crate::plans::{Planned, statement_call};
use lockstep_host::statements::StatementsDestination;
use lockstep_site::{BoundStatement, Expiring, ExpiryBatch, ExpirySchedule, LegId};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, PartitionId, SqlType, TableId};

/// How often a host looks.
const CHECK_US: i64 = 3_000;
/// The most rows of a transaction.
const BATCH_ROWS_MAX: u64 = 100;
/// The transactions' numbers begin here, far from those of calls.
const FIRST_CALL: CallNumber = usize::MAX / 2;

/// What a host deletes when.
pub(super) struct Expiry {
    schedule: ExpirySchedule,
}

/// A transaction that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentBatch {
    pub(crate) call: CallNumber,
    pub(crate) table: TableId,
    pub(crate) cut_off_us: i64,
    pub(crate) rows: u64,
}

/// Whether a call is such a transaction.
pub(crate) fn is_expiry(call: CallNumber) -> bool {
    (FIRST_CALL..FIRST_CALL + usize::MAX / 4).contains(&call)
}

fn leg_of(call: CallNumber) -> LegId {
    LegId((call - FIRST_CALL) as u64)
}

impl Expiry {
    pub(super) fn new(partition_count: u32) -> Expiry {
        let schedule = ExpirySchedule::new(partition_count, CHECK_US, BATCH_ROWS_MAX);
        Expiry { schedule }
    }
}

impl World {
    /// The simulated time, in microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Another catalog is in force, and so are its tables.
    pub(super) fn set_expiring_tables(&mut self) {
        let partition_count = self.partition_count();
        let tables = self.control.schema.catalog().plan.expiring_tables();
        let tables = tables.map(|table| Expiring::new(table, partition_count));
        self.expiry.schedule.set_tables(tables, self.now_us);
    }

    /// Looks at what is due, and sends the transactions that delete what is seen.
    pub(crate) fn expire_rows(&mut self) -> Vec<SentBatch> {
        let now_us = self.now_us;
        let version = self.control.schema.catalog().version();
        if self.control.schema.is_changing() {
            self.expiry.schedule.put_off(now_us);
            return Vec::new();
        }
        let mut sent = Vec::new();
        for look in self.expiry.schedule.begin_looks(now_us) {
            let place = look.partition.index();
            let database = self.sites[place].database();
            let rows = database.rows_up_to(look.table, look.index, look.cut_off_us, look.rows_max);
            let rows = rows.filter(|_| self.versions[place] == version);
            if let Some(batch) = self.expiry.schedule.seen(look.leg, rows, now_us) {
                let call = FIRST_CALL + batch.leg.0 as usize;
                let (cut_off_us, rows) = (batch.cut_off_us, batch.rows);
                sent.push(SentBatch { call, table: look.table, cut_off_us, rows });
                self.send_expiry(call, batch, version);
            }
        }
        sent
    }

    fn send_expiry(&mut self, call: CallNumber, batch: ExpiryBatch, catalog_version: u64) {
        let mut parameters = ParameterWriter::default();
        parameters.scalar(SqlType::Timestamp, Datum::Timestamp(batch.cut_off_us));
        parameters.bigint(batch.rows as i64);
        let bound = BoundStatement {
            statement: batch.statement,
            parameters: parameters.bytes().into(),
            shipped: None,
            found: None,
            profile: None,
        };
        let destination = match batch.partition {
            Some(partition) => StatementsDestination::One(partition),
            None if self.partition_count() == 1 => StatementsDestination::One(PartitionId(0)),
            None => StatementsDestination::Several,
        };
        let work = statement_call(vec![bound]);
        let planned = Planned::of_statements(work, destination, &self.ring);
        self.send_from_control(call, catalog_version, planned);
    }

    /// One of the transactions has ended: how many rows it deleted, if it succeeded.
    pub(crate) fn expiry_ended(&mut self, answer: &Answer, deleted: Option<u64>) {
        self.expiry.schedule.ended(leg_of(answer.call), deleted, self.now_us);
    }

    /// A change of the catalog overtook one; whether the call is one.
    pub(super) fn expiry_overtaken(&mut self, call: CallNumber) -> bool {
        if is_expiry(call) {
            self.expiry.schedule.ended(leg_of(call), None, self.now_us);
            self.overtaken_expiries.push(call);
        }
        is_expiry(call)
    }

    /// Those that were overtaken since the last time, which have done nothing.
    pub(crate) fn take_overtaken_expiries(&mut self) -> Vec<CallNumber> {
        std::mem::take(&mut self.overtaken_expiries)
    }
}
