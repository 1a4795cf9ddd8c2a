//! What arrives from the coordinator.

use super::{Site, Work};
use crate::effect::PartitionEffect;
use crate::message::{FromPartition, ToPartition};
use lockstep_txn::sp::Fragments;
use lockstep_types::TransactionId;

impl<H, A, C: Clone> Site<H, A, C> {
    /// A message of the coordinator arrives, in whatever order, with its number and the epoch of
    /// its stream. [`Site::next`] is due after it.
    pub fn receive(
        &mut self,
        (epoch, number): (u64, u64),
        message: ToPartition<C>,
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        // What another coordinator has sent, or this one to another leader, came too late.
        if epoch != self.epoch && !self.faults.skip_epoch_check() {
            return;
        }
        if self.faults.lose_order() {
            return self.act(message, now_us, effects);
        }
        // Messages in order, which most are, go by nothing else.
        if self.stream.passes(number) {
            self.act(message, now_us, effects);
            return self.act_on_early(now_us, effects);
        }
        let repeat = self.faults.accept_repeats().then(|| message.clone());
        // A repeat has been acted upon already; more early messages than the limit cannot come
        // from a coordinator that awaits answers.
        if self.stream.receive(number, message).is_err() {
            return repeat.into_iter().for_each(|message| self.act(message, now_us, effects));
        }
        self.act_on_early(now_us, effects);
    }

    #[inline]
    fn act_on_early(&mut self, now_us: i64, effects: &mut Vec<PartitionEffect<H, A, C>>) {
        while self.stream.has_next() {
            let Some(message) = self.stream.take_next() else { return };
            self.act(message, now_us, effects);
        }
    }

    fn act(
        &mut self,
        message: ToPartition<C>,
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        let arrived = |transaction, round, last, work| Fragments {
            transaction,
            round,
            last,
            header: None,
            work,
        };
        match message {
            ToPartition::Fragments(tasks) => {
                // A round of one before may come after it.
                self.last_multi = self.last_multi.max(tasks.transaction);
                let (transaction, round, last) = (tasks.transaction, tasks.round, tasks.last);
                self.initiator.arrive(arrived(
                    transaction,
                    round,
                    last,
                    Work::Tasks(tasks, now_us),
                ));
            }
            ToPartition::OneRound { transaction, last, call } => {
                self.last_multi = self.last_multi.max(transaction);
                self.initiator.arrive(arrived(transaction, 1, last, Work::OneRound(call, now_us)));
            }
            // Stops the partition until the decision: no catalog changes after speculation.
            ToPartition::Schema { transaction, round, task } => {
                self.last_multi = self.last_multi.max(transaction);
                self.initiator.arrive(arrived(transaction, round, false, Work::Schema(task)));
            }
            ToPartition::Build { transaction, round, entries } => {
                self.initiator.arrive(arrived(transaction, round, false, Work::Build(entries)));
            }
            ToPartition::Decision { transaction, commit, run, acknowledge, writers, memory } => {
                self.recycle(memory);
                self.count_stop(transaction, now_us, effects);
                match commit {
                    true => self.commit(transaction, writers, effects),
                    false => self.abort(transaction, run),
                }
                if acknowledge {
                    self.acknowledge(transaction, effects);
                }
            }
            ToPartition::Confirm { checkpoint } => {
                self.log.need_all();
                let (partition, epoch) = (self.partition, self.epoch);
                let message = FromPartition::Confirmed { partition, epoch, checkpoint };
                effects.push(PartitionEffect::Send(message));
            }
            ToPartition::Resolve { decisions, acknowledge } => {
                self.resolve(&decisions, now_us, effects);
                self.joined(&acknowledge, effects);
            }
        }
    }

    pub(super) fn acknowledge(
        &self,
        transaction: TransactionId,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        let (partition, epoch) = (self.partition, self.epoch);
        let message = FromPartition::Acknowledged { partition, transaction, epoch };
        effects.push(PartitionEffect::Send(message));
    }
}
