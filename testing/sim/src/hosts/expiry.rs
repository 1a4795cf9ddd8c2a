//! Row expiration of hosts: the surroundings of [`lockstep_host::expiry`], by the clock of each
//! host. The host of the coordinator polls the leaders of all partitions and orders what deletes
//! rows, as its control thread does in the server.

use super::host::{Host, Of};
use super::judge::rows;
use super::{Answer, HostCall, HostFaults, Said, Shared};
use crate::plans::{NoCode, Planned};
use lockstep_base::random::SeededRandom;
use lockstep_host::catalog::HostCatalog;
use lockstep_host::expiry::{self, ExpiryHost};
use lockstep_host::several::CoordinatorCall;
use lockstep_host::statements::StatementsDestination;
use lockstep_host::unavailable::cannot_serve;
use lockstep_site::{
    ExpiryBatch, ExpiryPoll, ExpirySchedule, ExpiryUnitId, MultiCall, StatementCall,
};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, HostId, Outcome, PartitionId, SqlType, Status, TableId};
use std::sync::Arc;

/// The numbers of deletions begin here, far from those of calls of clients.
const FIRST_CALL: usize = usize::MAX / 2;
/// With a fault, how much earlier than they should rows are deleted.
const EARLY_US: i64 = 500_000;

/// A transaction that deletes expired rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deletion {
    /// The host that has ordered it.
    pub(super) host: HostId,
    unit: ExpiryUnitId,
    pub(super) table: TableId,
    /// Where it runs; none for all partitions.
    pub(super) partition: Option<PartitionId>,
    pub(super) cut_off_us: i64,
    /// The most rows.
    pub(super) rows: u64,
    /// When it was ordered, by the clock of its host.
    pub(super) at_us: i64,
    /// Its host has taken over the coordinator.
    pub(super) is_after_takeover: bool,
}

/// How a deletion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionEnd {
    Deleted(u64),
    Failed,
    Unknown,
}

/// What a host knows of row expiration.
pub(super) struct HostExpiry {
    schedule: ExpirySchedule,
    /// The version of the catalog that the tables are from.
    catalog_version: u64,
    /// Another host orders deletions, or the coordinator is to move.
    is_stopped: bool,
    has_taken_over: bool,
}

/// How often hosts poll, and the most rows of a deletion.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpiryLimits {
    check_us: i64,
    batch_rows_max: u64,
}

impl ExpiryLimits {
    pub(super) fn of_seed(seed: u64) -> ExpiryLimits {
        let mut random = SeededRandom::new(seed ^ 0x0771_0771);
        let check_us = [5_000, 30_000, 200_000][random.below(3) as usize];
        ExpiryLimits { check_us, batch_rows_max: [1, 2, 100][random.below(3) as usize] }
    }
}

/// The number of a call among deletions; none if it is a client's.
pub(super) fn deletion_of(call: usize) -> Option<usize> {
    call.checked_sub(FIRST_CALL)
}

impl HostExpiry {
    pub(super) fn new(partitions: u32, limits: ExpiryLimits, is_here: bool) -> HostExpiry {
        let ExpiryLimits { check_us, batch_rows_max } = limits;
        HostExpiry {
            schedule: ExpirySchedule::new(partitions, check_us, batch_rows_max),
            catalog_version: 0,
            is_stopped: !is_here,
            has_taken_over: false,
        }
    }
}

impl Host {
    /// Has partitions poll what is due.
    pub(super) fn attend_to_expiry(&mut self, shared: &mut Shared) {
        let Some(expiry) = self.expiry.as_ref().filter(|it| !it.is_stopped) else { return };
        let known = expiry.catalog_version;
        let of = &mut Of { host: self, shared };
        if of.catalog().version() != known {
            of.set_expiring_tables();
        }
        expiry::poll_due(of);
        let expiry = self.expiry.as_ref().expect("it was looked at");
        expiry.schedule.check_invariants();
    }

    /// Another placement is in force: what hosts were asked is asked again later.
    pub(super) fn expiry_follows_placement(&mut self) {
        let (now_us, is_here) = (self.now_us, self.coordinator.is_some());
        let Some(expiry) = &mut self.expiry else { return };
        expiry.schedule.give_up_waiting(now_us);
        expiry.is_stopped |= !is_here;
    }

    /// The coordinator is to be at another host, or to stay.
    pub(super) fn expiry_follows_move(&mut self, moves: bool, faults: HostFaults) {
        let is_taking_over = self.coordinator.as_ref().is_none_or(|it| it.is_taking_over());
        if let Some(expiry) = &mut self.expiry {
            let stays_stopped = faults.stop_expiring && expiry.has_taken_over;
            expiry.is_stopped = moves || is_taking_over || stays_stopped;
        }
    }

    /// A partition polls its tables.
    pub(super) fn poll_expired(
        &mut self,
        partition: PartitionId,
        catalog_version: u64,
        polls: &[ExpiryPoll],
    ) {
        let Some(replica) = self.replicas.get(&partition) else { return };
        let is_current = catalog_version == self.version;
        let found = expiry::poll(replica.site.database(), is_current, polls);
        self.send(self.placement.coordinator().host(), Said::Polled(catalog_version, found));
    }

    /// A partition has polled.
    pub(super) fn take_polled(
        &mut self,
        catalog_version: u64,
        found: Vec<(ExpiryUnitId, Option<u64>)>,
        shared: &mut Shared,
    ) {
        if self.expiry.is_some() {
            expiry::polled(&mut Of { host: self, shared }, catalog_version, found);
        }
    }

    /// A deletion has ended.
    pub(super) fn deletion_ended(&mut self, answer: &Answer, shared: &mut Shared) {
        let status = answer.outcome.failure.as_ref().map(|failure| failure.status);
        let end = match status {
            None => {
                let rows = rows(&answer.tables);
                let count = rows.first().and_then(|row| row.first());
                DeletionEnd::Deleted(count.map_or(u64::MAX, |count| *count as u64))
            }
            Some(Status::ResponseUnknown) => DeletionEnd::Unknown,
            Some(_) => DeletionEnd::Failed,
        };
        self.end_deletion(answer.call, end, shared);
    }

    /// A deletion has done nothing: a change of the catalog overtook it, or another host leads.
    pub(super) fn deletion_overtaken(&mut self, call: usize, shared: &mut Shared) {
        self.end_deletion(call, DeletionEnd::Failed, shared);
    }

    fn end_deletion(&mut self, call: usize, end: DeletionEnd, shared: &mut Shared) {
        let number = deletion_of(call).expect("it is a deletion");
        shared.deletions_ended.push((number, end));
        let unit = shared.deletions[number].unit;
        let deleted = match end {
            DeletionEnd::Deleted(rows) => Some(rows),
            DeletionEnd::Failed | DeletionEnd::Unknown => None,
        };
        expiry::ended(&mut Of { host: self, shared }, unit, deleted);
    }
}

impl Of<'_> {
    /// The coordinator has taken over here, and what was in progress is decided.
    pub(super) fn begin_expiry(&mut self) {
        let stays_stopped = self.shared.faults.stop_expiring;
        let Some(expiry) = &mut self.host.expiry else { return };
        (expiry.is_stopped, expiry.has_taken_over) = (stays_stopped, true);
        self.set_expiring_tables();
    }

    fn set_expiring_tables(&mut self) {
        let version = self.catalog().version();
        expiry::set_tables(self);
        self.host.expiry.as_mut().expect("rows expire in this run").catalog_version = version;
    }

    fn order(&mut self, call: usize, planned: Planned) {
        let catalog_version = self.catalog().version();
        let Of { host, shared } = self;
        match planned {
            Planned::Partition(partition, _) if host.unavailable.has(partition) => {
                let outcome = Outcome::failed(cannot_serve(&[partition]));
                let refused = Answer::new(call, outcome, Vec::new());
                host.own.push_back(Said::Answer(Box::new(refused)));
            }
            Planned::Partition(partition, work) => {
                let (leader, epoch) = (host.placement.leader_of(partition), host.placement.epoch());
                let call = HostCall { call, work, catalog_version, epoch };
                host.send(leader.host(), Said::Call(partition, call));
            }
            Planned::Multi { declared, home, work } => {
                let multi = CoordinatorCall::Multi(Box::new(MultiCall {
                    origin: call,
                    procedure_number: 0,
                    catalog_version,
                    time_limit: None,
                    declared,
                    home,
                    led: None,
                    work,
                }));
                host.send(host.placement.coordinator().host(), Said::Multi(Box::new(multi)));
            }
            Planned::Several(_) => shared.problem("a deletion is no procedure".to_string()),
        }
    }
}

impl ExpiryHost for Of<'_> {
    type Outside = NoCode;

    fn expiry(&mut self) -> &mut ExpirySchedule {
        &mut self.host.expiry.as_mut().expect("rows expire in this run").schedule
    }

    fn catalog(&self) -> &Arc<HostCatalog<NoCode>> {
        let coordinator = self.host.coordinator.as_ref();
        let version = coordinator.map_or(self.host.version, |it| it.catalog_version());
        &self.shared.catalogs[&version].host
    }

    fn is_catalog_changing(&self) -> bool {
        self.host.changing.is_some()
    }

    fn partition_count(&self) -> u32 {
        self.host.placement.partition_count()
    }

    fn takes_deletes(&mut self) -> bool {
        !self.host.is_cut_off
    }

    fn poll_partition(
        &mut self,
        partition: PartitionId,
        catalog_version: u64,
        polls: Vec<ExpiryPoll>,
    ) {
        let leader = self.host.placement.leader_of(partition).host();
        self.host.send(leader, Said::Poll(partition, catalog_version, polls));
    }

    fn order_deletion(
        &mut self,
        batch: &ExpiryBatch,
        mut work: StatementCall,
        destination: StatementsDestination,
    ) {
        let ExpiryBatch { unit, table, partition, cut_off_us, rows, .. } = *batch;
        if self.shared.faults.expire_early {
            let mut parameters = ParameterWriter::default();
            let early = Datum::Timestamp(cut_off_us + EARLY_US);
            parameters.scalar(SqlType::Timestamp, early).bigint(rows as i64);
            work.statements[0].parameters = parameters.bytes().into();
        }
        let (host, at_us) = (self.host.id, self.host.now_us);
        let expiry = self.host.expiry.as_ref().expect("rows expire in this run");
        let is_after_takeover = expiry.has_taken_over;
        let call = FIRST_CALL + self.shared.deletions.len();
        self.shared.deletions.push(Deletion {
            host,
            unit,
            table,
            partition,
            cut_off_us,
            rows,
            at_us,
            is_after_takeover,
        });
        let planned = Planned::of_statements(work, destination, &self.shared.ring);
        self.order(call, planned);
    }
}
