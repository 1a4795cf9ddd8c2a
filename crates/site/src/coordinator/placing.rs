//! The partitions that a transaction takes its place at.

use super::{Coordinator, MAX_ENLARGEMENTS, home};
use crate::active::{RowRouting, blocks, desk_context};
use crate::message::{BoundStatement, MultiCall, MultiWork};
use crate::round::{Desk, Round};
use lockstep_types::{Failure, PartitionId, TransactionId};
use std::collections::VecDeque;

/// How it is known where a call's row lives, and the statements that are known before it begins.
/// Code that cannot be run again runs only where the index has said it.
pub(super) fn first_batch<O, C>(
    call: &mut MultiCall<O, C>,
) -> (RowRouting, VecDeque<BoundStatement>) {
    match (&call.led, &call.work) {
        (Some(question), work) if call.home.is_none() || blocks(work) => {
            call.home = None;
            (RowRouting::Asking, VecDeque::from([question.clone()]))
        }
        (_, MultiWork::Statements(call)) => {
            (RowRouting::Guessed, call.statements.iter().cloned().collect())
        }
        _ => (RowRouting::Guessed, VecDeque::new()),
    }
}

impl<O, C: Clone> Coordinator<O, C> {
    pub(super) fn all_partitions(&self) -> Vec<PartitionId> {
        (0..self.ring.partition_count()).map(PartitionId).collect()
    }

    /// The transaction takes its place at its partitions.
    pub(super) fn enlist(
        &mut self,
        transaction: TransactionId,
        first_round: &Round,
    ) -> Result<(), Failure> {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let mut set = std::mem::take(&mut self.spare.partitions);
        set.extend(first_round.busy());
        let mut of_statements = None;
        if !first_round.covers(&active.batch) {
            let context = desk_context(active, self.limits, self.timing.as_ref(), self.now_us);
            let desk = Desk {
                ring: &self.ring,
                context,
                home: home(active, None, &self.ring),
                call_home: active.call.home,
                profile_clock: self.profile_clock,
            };
            set.extend(Round::partitions_of_known(&active.batch, &desk)?);
            of_statements = Some(Round::partitions_of(&active.batch, &desk)?);
        }
        let declared = &active.call.declared;
        let mut needed = of_statements.as_ref().unwrap_or(&set).iter();
        let other = needed.find(|needed| !declared.contains(needed)).copied();
        set.extend(of_statements.into_iter().flatten());
        set.extend(declared);
        set.extend(&active.needed);
        if let Some(failure) = self.undeclared(transaction, other) {
            return Err(failure);
        }
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        if active.enlargements >= MAX_ENLARGEMENTS || self.stop_everything {
            set.extend((0..self.ring.partition_count()).map(PartitionId));
        }
        set.sort_unstable();
        set.dedup();
        active.partition_count = set.len() as u32;
        self.initiator.enlist(transaction, &set);
        set.clear();
        self.spare.partitions = set;
        Ok(())
    }

    /// Why a procedure that declares its partitions may not go on to another one.
    pub(crate) fn undeclared(
        &self,
        transaction: TransactionId,
        other: Option<PartitionId>,
    ) -> Option<Failure> {
        let other = other?;
        let active = &self.active[&transaction];
        let MultiWork::Procedure { procedure, .. } = &active.call.work else { return None };
        if active.call.declared.is_empty() {
            return None;
        }
        let text = active.batch.front().map_or("", |bound| &bound.statement.statement().text);
        Some(Failure::graceful(format!(
            "VOLTDB ERROR: SQL ERROR procedure {} declares the partitions of its PARTITION ON \
             clauses, {:?} with these parameters, and its batch that begins with \"{text}\" needs \
             partition {} as well. Declare that one too, or create the procedure without \
             PARTITION ON.",
            procedure.definition().name,
            active.call.declared.iter().map(|partition| partition.0).collect::<Vec<_>>(),
            other.0
        )))
    }
}
