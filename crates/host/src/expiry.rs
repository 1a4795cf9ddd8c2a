//! Row expiration (`USING TTL`): the control thread has partitions poll for rows whose time is
//! over, and orders transactions that delete them. What is due when is in [`ExpirySchedule`].
//!
//! The transactions are ordinary ones: of one partition, of all for a replicated table, and of few
//! where a table has global indexes. Their log entries hold the cut-off and the number of rows, so
//! that replay needs no clock. A transaction that a schema change overtakes is not repeated: the
//! next poll is by the new catalog.

use crate::HostTime;
use crate::catalog::HostCatalog;
use crate::statements::StatementsDestination;
use lockstep_exec::database::Database;
use lockstep_site::{
    AnswerForm, BoundStatement, Expiring, ExpiryBatch, ExpiryPoll, ExpirySchedule, ExpiryUnitId,
    StatementCall,
};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, PartitionId, SqlType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The surroundings of a host's row expiration.
pub trait ExpiryHost: HostTime {
    /// The code of a procedure that is not a transaction.
    type Outside;

    /// What is due when.
    fn expiry(&mut self) -> &mut ExpirySchedule;

    /// The catalog in force, by which tables are polled and rows deleted.
    fn catalog(&self) -> &Arc<HostCatalog<Self::Outside>>;

    /// Whether a change of the catalog is in progress, during which no deletion begins.
    fn is_catalog_changing(&self) -> bool;

    /// Number of partitions of the cluster.
    fn partition_count(&self) -> u32;

    /// Whether the host takes transactions that delete.
    fn takes_deletes(&mut self) -> bool;

    /// Has a partition poll its tables, of the catalog with this version: [`poll`] at the
    /// partition, then [`polled`].
    fn poll_partition(
        &mut self,
        partition: PartitionId,
        catalog_version: u64,
        polls: Vec<ExpiryPoll>,
    );

    /// Sends a transaction that deletes rows; [`ended`] gets its end.
    fn order_deletion(
        &mut self,
        batch: &ExpiryBatch,
        work: StatementCall,
        destination: StatementsDestination,
    );
}

/// Another catalog is in force, or the first one.
pub fn set_tables<H: ExpiryHost>(host: &mut H) {
    let now_us = host.now_us();
    let partition_count = host.partition_count();
    let tables = host.catalog().plan.expiring_tables();
    let tables: Vec<Expiring> = tables.map(|table| Expiring::new(table, partition_count)).collect();
    host.expiry().set_tables(tables, now_us);
}

/// Has partitions poll what is due, unless nothing may be deleted at the moment.
pub fn poll_due<H: ExpiryHost>(host: &mut H) {
    let now_us = host.now_us();
    if host.expiry().due_us().is_none_or(|due_us| due_us > now_us) {
        return;
    }
    if host.is_catalog_changing() || !host.takes_deletes() {
        return host.expiry().put_off(now_us);
    }
    let catalog_version = host.catalog().version();
    let mut of_partition: BTreeMap<PartitionId, Vec<ExpiryPoll>> = BTreeMap::new();
    for poll in host.expiry().begin_polls(now_us) {
        of_partition.entry(poll.partition).or_default().push(poll);
    }
    for (partition, polls) in of_partition {
        host.poll_partition(partition, catalog_version, polls);
    }
}

/// What a partition finds: by [`ExpiryUnitId`], the number of expired rows; none where its catalog
/// is another one than that of the poll.
pub fn poll(
    database: &Database,
    is_current: bool,
    polls: &[ExpiryPoll],
) -> Vec<(ExpiryUnitId, Option<u64>)> {
    let rows = |poll: &ExpiryPoll| {
        let ExpiryPoll { table, index, cut_off_us, rows_max, .. } = *poll;
        database.rows_up_to(table, index, cut_off_us, rows_max).filter(|_| is_current)
    };
    polls.iter().map(|poll| (poll.unit, rows(poll))).collect()
}

/// A partition has polled: what it has found begins to be deleted, unless a schema change came
/// between.
pub fn polled<H: ExpiryHost>(
    host: &mut H,
    catalog_version: u64,
    found: Vec<(ExpiryUnitId, Option<u64>)>,
) {
    let now_us = host.now_us();
    let is_current = catalog_version == host.catalog().version() && !host.is_catalog_changing();
    let may_delete = is_current && host.takes_deletes();
    for (unit, rows) in found {
        let batch = host.expiry().seen(unit, rows.filter(|_| may_delete), now_us);
        if let Some(batch) = batch {
            order(host, &batch);
        }
    }
}

fn order<H: ExpiryHost>(host: &mut H, batch: &ExpiryBatch) {
    assert!(batch.rows > 0, "a transaction deletes rows");
    let mut parameters = ParameterWriter::default();
    parameters.scalar(SqlType::Timestamp, Datum::Timestamp(batch.cut_off_us));
    parameters.bigint(batch.rows as i64);
    let bound = BoundStatement {
        statement: Arc::clone(&batch.statement),
        parameters: parameters.bytes().into(),
        shipped: None,
        found: None,
        profile: None,
    };
    let statements = vec![bound];
    let work = StatementCall { statements, read_only: false, answer: AnswerForm::Results };
    let destination = match batch.partition {
        Some(partition) => StatementsDestination::One(partition),
        None if host.partition_count() == 1 => StatementsDestination::One(PartitionId(0)),
        None => StatementsDestination::Several,
    };
    host.order_deletion(batch, work, destination);
}

/// A transaction has ended: the number of rows that it deleted; none if it failed, or if a schema
/// change overtook it.
pub fn ended<H: ExpiryHost>(host: &mut H, unit: ExpiryUnitId, deleted: Option<u64>) {
    let now_us = host.now_us();
    host.expiry().ended(unit, deleted, now_us);
}
