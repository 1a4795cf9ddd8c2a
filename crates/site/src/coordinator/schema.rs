//! Rounds of schema changes: preparing, and building global indexes on tables with rows.

use super::{Coordinator, CoordinatorOutput, numbered};
use crate::active::Active;
use crate::message::{SchemaTask, ToPartition};
use lockstep_plan_ir::StorageChange;
use lockstep_types::TransactionId;
use std::sync::Arc;

/// Whether entries of new global indexes are in flight, or have still to be requested.
pub(super) fn goes_on_building<O, C>(active: &Active<O, C>, task: &SchemaTask<C>) -> bool {
    let mut changes = task.changes.iter();
    let builds = changes.any(|change| matches!(change, StorageChange::BuildGlobalIndex { .. }));
    builds && (active.rounds == 1 || !active.pending.is_empty())
}

impl<O, C: Clone> Coordinator<O, C> {
    /// Every partition prepares the change.
    pub(super) fn send_schema(
        &mut self,
        transaction: TransactionId,
        task: &Arc<SchemaTask<C>>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let all = self.all_partitions();
        self.initiator.enlist(transaction, &all);
        let (round, addressed) = self.initiator.begin_round(transaction, &all, false);
        self.begun_round(transaction, None);
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        active.note_logged(round, &all, false);
        for address in addressed {
            let message = ToPartition::Schema { transaction, round, task: Arc::clone(task) };
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
    }

    /// The entries that partitions have handed out go where they belong, and more are asked for.
    pub(super) fn send_build(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let all = self.all_partitions();
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let mut pending = std::mem::take(&mut active.pending);
        let (round, addressed) = self.initiator.begin_round(transaction, &all, false);
        self.begun_round(transaction, None);
        for address in addressed {
            let entries = pending.remove(&address.partition).unwrap_or_default().into();
            let message = ToPartition::Build { transaction, round, entries };
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
    }
}
