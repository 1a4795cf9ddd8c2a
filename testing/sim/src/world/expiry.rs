//! Row expiration of a simulated host: the surroundings of [`lockstep_host::expiry`], by the
//! simulated clock. What partitions are asked and what they find goes its way among all messages.

use super::control::{AtControl, ToControl};
use super::{Answer, CallNumber, Message, World};
use crate::plans::{NoCode, Planned};
use lockstep_host::HostTime;
use lockstep_host::catalog::HostCatalog;
use lockstep_host::expiry::{self, ExpiryHost};
use lockstep_host::statements::StatementsDestination;
use lockstep_site::{ExpiryBatch, ExpiryPoll, ExpirySchedule, ExpiryUnitId, StatementCall};
use lockstep_types::{PartitionId, TableId};
use std::sync::Arc;

/// How often a host polls.
const CHECK_US: i64 = 3_000;
/// The most rows of a transaction.
const BATCH_ROWS_MAX: u64 = 100;
/// The transactions' numbers begin here, far from those of calls.
const FIRST_CALL: CallNumber = usize::MAX / 2;

/// What a host deletes when.
pub(super) struct Expiry {
    schedule: ExpirySchedule,
    sent: Vec<SentBatch>,
    overtaken: Vec<CallNumber>,
}

/// A transaction that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentBatch {
    pub(crate) call: CallNumber,
    pub(crate) table: TableId,
    pub(crate) cut_off_us: i64,
    pub(crate) rows: u64,
    /// When it was sent.
    pub(crate) at_us: i64,
}

/// A poll on its way to a partition.
pub(crate) struct Poll {
    catalog_version: u64,
    polls: Vec<ExpiryPoll>,
}

/// Whether a call is such a transaction.
pub(crate) fn is_expiry(call: CallNumber) -> bool {
    (FIRST_CALL..FIRST_CALL + usize::MAX / 4).contains(&call)
}

fn unit_of(call: CallNumber) -> ExpiryUnitId {
    ExpiryUnitId((call - FIRST_CALL) as u64)
}

impl Expiry {
    pub(super) fn new(partition_count: u32) -> Expiry {
        let schedule = ExpirySchedule::new(partition_count, CHECK_US, BATCH_ROWS_MAX);
        Expiry { schedule, sent: Vec::new(), overtaken: Vec::new() }
    }

    /// See [`ExpirySchedule::check_invariants`].
    pub(super) fn check_invariants(&self) {
        self.schedule.check_invariants();
    }
}

impl HostTime for AtControl<'_> {
    fn now_us(&self) -> i64 {
        self.world.now_us
    }
}

impl ExpiryHost for AtControl<'_> {
    type Outside = NoCode;

    fn expiry(&mut self) -> &mut ExpirySchedule {
        &mut self.world.expiry.schedule
    }

    fn catalog(&self) -> &Arc<HostCatalog<NoCode>> {
        self.world.control.schema.catalog()
    }

    fn is_catalog_changing(&self) -> bool {
        self.world.control.schema.is_changing()
    }

    fn partition_count(&self) -> u32 {
        self.world.control.schema.partition_count()
    }

    fn takes_deletes(&mut self) -> bool {
        true
    }

    fn poll_partition(
        &mut self,
        partition: PartitionId,
        catalog_version: u64,
        polls: Vec<ExpiryPoll>,
    ) {
        let poll = Poll { catalog_version, polls };
        self.world.in_flight.push(Message::Poll(partition, poll));
    }

    fn order_deletion(
        &mut self,
        batch: &ExpiryBatch,
        work: StatementCall,
        destination: StatementsDestination,
    ) {
        let world = &mut *self.world;
        let call = FIRST_CALL + batch.unit.0 as usize;
        let ExpiryBatch { table, cut_off_us, rows, .. } = *batch;
        let at_us = world.now_us;
        world.expiry.sent.push(SentBatch { call, table, cut_off_us, rows, at_us });
        let planned = Planned::of_statements(work, destination, &world.ring);
        let version = world.control.schema.catalog().version();
        world.send_from_control(call, version, planned);
    }
}

impl World {
    /// The simulated time, in microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Has partitions poll what is due.
    pub(crate) fn expire_rows(&mut self) {
        expiry::poll_due(&mut self.at_control());
    }

    /// A partition polls its tables.
    pub(super) fn deliver_poll(&mut self, partition: PartitionId, poll: &Poll) {
        let is_current = self.versions[partition.index()] == poll.catalog_version;
        let database = self.sites[partition.index()].database();
        let found = expiry::poll(database, is_current, &poll.polls);
        let polled = ToControl::Polled { catalog_version: poll.catalog_version, found };
        self.in_flight.push(Message::Unordered(polled));
    }

    /// The transactions that were sent since the last time.
    pub(crate) fn take_sent_expiries(&mut self) -> Vec<SentBatch> {
        std::mem::take(&mut self.expiry.sent)
    }

    /// One of the transactions has ended: how many rows it deleted, if it succeeded.
    pub(crate) fn expiry_ended(&mut self, answer: &Answer, deleted: Option<u64>) {
        expiry::ended(&mut self.at_control(), unit_of(answer.call), deleted);
    }

    /// A change of the catalog overtook one; whether the call is one.
    pub(super) fn expiry_overtaken(&mut self, call: CallNumber) -> bool {
        if is_expiry(call) {
            expiry::ended(&mut self.at_control(), unit_of(call), None);
            self.expiry.overtaken.push(call);
        }
        is_expiry(call)
    }

    /// Those that were overtaken since the last time, which have done nothing.
    pub(crate) fn take_overtaken_expiries(&mut self) -> Vec<CallNumber> {
        std::mem::take(&mut self.expiry.overtaken)
    }
}
