//! Row expiration (`USING TTL`) at the control thread: the surroundings of
//! [`lockstep_host::expiry`], which has partitions poll and orders the transactions that delete.

use super::own_calls::{LENGTH_BYTES, read_count};
use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::intake::Changes;
use crate::message::{Envelope, Origin};
use crate::options::{Milliseconds, Options};
use crate::own_call::OwnCall;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::HostTime;
use lockstep_host::expiry::{self, ExpiryHost};
use lockstep_host::statements::StatementsDestination;
use lockstep_jvm::JavaNonTransactional;
use lockstep_site::{
    ExpiryBatch, ExpiryCounts, ExpiryPoll, ExpirySchedule, ExpiryUnitId, StatementCall,
};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{PartitionId, Status, Value};
use lockstep_wire_volt::invocation::{self, CallOptions};
use std::sync::Arc;
use std::time::Duration;

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
        let check_us = options.ttl_check_ms.map_or(0, Milliseconds::us);
        let schedule =
            ExpirySchedule::new(partition_count, check_us, options.max_ttl_batch_rows.get());
        let mut frame = Vec::new();
        let parameters = ParameterWriter::default();
        let call = CallOptions::default();
        invocation::encode(&mut frame, OVERTAKEN, 0, &call, parameters.bytes());
        let overtaken = Arc::from(&frame[LENGTH_BYTES..]);
        Expiry { schedule, overtaken, told: None, is_stopped: false }
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

    /// This host deletes from now on, for all of the cluster.
    pub(super) fn begin(&mut self) {
        self.is_stopped = false;
    }

    /// A host is lost: what it was asked is asked again later.
    pub(super) fn host_lost(&mut self, now_us: i64) {
        self.schedule.give_up_waiting(now_us);
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

impl HostTime for Control {
    fn now_us(&self) -> i64 {
        clock::now_us()
    }
}

impl ExpiryHost for Control {
    type Outside = JavaNonTransactional;

    fn expiry(&mut self) -> &mut ExpirySchedule {
        &mut self.expiry.schedule
    }

    fn catalog(&self) -> &Arc<HostCatalog> {
        self.schema.catalog()
    }

    fn is_catalog_changing(&self) -> bool {
        self.schema.is_changing()
    }

    fn partition_count(&self) -> u32 {
        self.schema.partition_count()
    }

    fn takes_deletes(&mut self) -> bool {
        self.facts.intake.check(Changes::Deletes, false).is_ok()
    }

    fn poll_partition(
        &mut self,
        partition: PartitionId,
        catalog_version: u64,
        polls: Vec<ExpiryPoll>,
    ) {
        let polls = Envelope::ExpiryPolls { catalog_version, looks: polls };
        self.outbox.send(self.facts.placement().leader_of(partition), polls);
    }

    fn order_deletion(
        &mut self,
        batch: &ExpiryBatch,
        work: StatementCall,
        destination: StatementsDestination,
    ) {
        let origin = self.own_origin(OwnCall::Expiry, batch.unit.0 as i64);
        let body = Arc::clone(&self.expiry.overtaken);
        let call = SystemCall { origin, admin: true, body, time_limit: None };
        self.send_work(call, work, destination);
    }
}

impl Control {
    /// Has partitions poll what is due.
    pub(super) fn attend_to_expiry(&mut self) {
        if !self.expiry.is_stopped {
            expiry::poll_due(self);
        }
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
                    tracing::warn!(%why, "expired rows are not deleted; the host tries again");
                    self.expiry.told = Some(why.message);
                }
                None
            }
        };
        expiry::ended(self, ExpiryUnitId(origin.handle as u64), deleted);
    }

    /// A change of the catalog came before the transaction, which did nothing.
    pub(super) fn expiry_overtaken(&mut self, origin: Origin) {
        expiry::ended(self, ExpiryUnitId(origin.handle as u64), None);
    }
}
