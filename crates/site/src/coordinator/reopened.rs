//! A partition has another leader: what was in progress there is undone everywhere, and ordered
//! again.
//!
//! Its new leader has of a transaction what its log has, and of one that only read there nothing:
//! answers of the leader before are void. So every transaction that was sent there, and is not
//! decided, is aborted and gets a new id; if all that vote may have said yes, only when a log has
//! the abort. What was decided stays so; the new leader learns of it.

use super::ending::{Decision, send_decision};
use super::{Coordinator, CoordinatorOutput, one_round};
use crate::active::{Queued, RowRouting, Submitted, blocks};
use crate::fence::FenceReport;
use crate::message::MultiWork;
use lockstep_types::{Failure, PartitionId, TransactionId};

/// Why a transaction ends that cannot be ordered again.
const LEADER_LOST: &str = "VOLTDB ERROR: the leader of a partition that takes part has changed. \
                           Everything is undone; the call can be repeated.";

impl<O, C: Clone> Coordinator<O, C> {
    /// Another copy of a partition leads, and has reported what its log has: opens the stream to
    /// it, with how that ends, and with which decisions it is to acknowledge.
    pub(super) fn reopen(
        &mut self,
        report: &FenceReport,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let partition = report.partition;
        let first = outputs.len();
        // From the last to the first: nothing runs again that is aborted next, and those that go
        // to the front of the queue keep their order.
        for transaction in self.initiator.undecided_at(partition).into_iter().rev() {
            if !self.keeps_answer(transaction, partition) {
                self.order_after_loss(transaction, outputs);
            }
        }
        self.initiator.reopen(partition, report.epoch);
        // What was sent to the leader before must not arrive at the new one.
        let kept = |output: &CoordinatorOutput<O, C>| match output {
            CoordinatorOutput::Send(message) => message.partition != partition,
            _ => true,
        };
        let sent = outputs.split_off(first);
        outputs.extend(sent.into_iter().filter(kept));
        let awaited = self.awaited.iter().filter(|(_, awaited)| awaited.awaits(partition));
        let mut acknowledge: Vec<TransactionId> = awaited.map(|(one, _)| *one).collect();
        acknowledge.extend(self.initiator.unacknowledged_by(partition));
        // An answer may wait for what holds back those after it.
        acknowledge.sort_unstable();
        acknowledge.dedup();
        self.send_remembered(report, acknowledge, outputs);
        self.ask_one(partition, outputs);
        // What was held back until others had answered may wait for nobody any more.
        self.send_ready_late(outputs);
    }

    /// The fault of an answer to a read that counts although its leader is lost.
    fn keeps_answer(&mut self, transaction: TransactionId, partition: PartitionId) -> bool {
        if !self.faults.keep_old_answers() {
            return false;
        }
        let writes = match self.one_rounds.get(transaction) {
            Some(one_round) => one_round.writes_at(partition),
            None => {
                let active = &self.active[&transaction];
                let logged = active.logged.iter().any(|logged| logged.partition == partition);
                logged || active.writers.contains(&partition)
            }
        };
        !writes && self.initiator.keep_answer(transaction, partition)
    }

    fn order_after_loss(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        if self.one_rounds.contains(transaction) {
            let addressed = self.initiator.abandon(transaction);
            self.late.retain(|(late, _)| *late != transaction);
            let ended = self.one_rounds.remove(transaction).expect("it is in progress");
            let (origin, call) = ended.into_call();
            let voters = one_round::voters(&call, &addressed).to_vec();
            let acknowledge = self.repeat(transaction, &voters, Queued::OneRound(origin, call));
            send_decision((transaction, &Decision::Abort), acknowledge, addressed, outputs);
            return;
        }
        let active = self.active.get(&transaction).expect("it is in progress");
        if matches!(active.call.work, MultiWork::Schema(_)) || blocks(&active.call.work) {
            return self.abandon(transaction, Failure::graceful(LEADER_LOST), outputs);
        }
        let needed = self.initiator.participants(transaction);
        let addressed = self.initiator.abandon(transaction);
        let mut active = *self.active.remove(&transaction).expect("it is in progress");
        if active.row_routing == RowRouting::Found {
            active.call.home = None;
        }
        let (enlargements, begun_us) = (active.enlargements, Some(active.begun_us));
        let submitted = Box::new(Submitted { call: active.call, needed, enlargements, begun_us });
        let acknowledge = self.repeat(transaction, &active.writers, Queued::Planned(submitted));
        send_decision((transaction, &Decision::Abort), acknowledge, addressed, outputs);
        assert!(!self.active.contains_key(&transaction), "it begins under another id");
    }
}
