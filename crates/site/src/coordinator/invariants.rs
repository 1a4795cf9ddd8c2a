//! What holds between the coordinator, its initiator and what it keeps of each transaction.

use super::one_round::SPARE_LISTS;
use super::{Coordinator, MAX_ENLARGEMENTS};
use crate::active::Active;
use crate::message::MultiWork;
use lockstep_types::{PartitionId, TransactionId};

impl<O, C: Clone> Coordinator<O, C> {
    /// Checks what holds between two events. Visits all transactions in progress.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        self.initiator.check_invariants();
        for transaction in self.initiator.in_progress() {
            let known = usize::from(self.active.contains_key(&transaction))
                + usize::from(self.one_rounds.contains(transaction));
            let is_decided = self.initiator.is_deciding(transaction);
            assert!(
                known == 1 || known == 0 && is_decided,
                "what is ordered is in progress, or decided and not in all logs"
            );
        }
        for (transaction, active) in &self.active {
            assert!(self.initiator.has(*transaction), "{transaction:?} is ordered");
            self.check_active(*transaction, active);
        }
        self.check_one_rounds();
        for (transaction, awaited) in &self.awaited {
            assert!(
                !self.initiator.has(*transaction) || self.initiator.is_deciding(*transaction),
                "an answer that waits is of one that is decided"
            );
            assert!(self.awaits_durable_decisions, "answers wait for logs where there are logs");
            assert!(awaited.can_come(), "the acknowledgements that an answer waits for can come");
        }
        let repeated = self.awaited.values().filter(|awaited| awaited.is_repetition()).count();
        assert_eq!(repeated, self.initiator.set_aside_count(), "calls set aside are counted");
        assert!(
            !self.is_idle() || self.late.is_empty() && self.active.is_empty(),
            "an idle coordinator holds nothing back"
        );
    }

    fn check_active(&self, transaction: TransactionId, active: &Active<O, C>) {
        let round = self.initiator.round_of(transaction);
        assert_eq!(round, Some(active.rounds), "both count the rounds of {transaction:?}");
        let deciding = self.initiator.is_deciding(transaction);
        assert_eq!(active.finished.is_some(), deciding, "the outcome is known when it is decided");
        assert!(
            !deciding || matches!(active.call.work, MultiWork::Schema(_)),
            "only changes of the catalog are acknowledged before they are answered"
        );
        assert!(active.enlargements <= MAX_ENLARGEMENTS + 1, "the last attempt takes all");
        let all = self.ring.partition_count() as usize;
        assert!(active.partition_count as usize <= all, "partitions take part once");
        let answers = &active.answers;
        assert!(answers.is_empty() || answers.len() == all, "a round has an answer a partition");
        let participants = self.initiator.participants(transaction);
        let takes_part = |partition: PartitionId| participants.binary_search(&partition).is_ok();
        assert!(active.writers.iter().all(|w| takes_part(*w)), "who writes takes part");
        let unanswered = self.initiator.unanswered(transaction);
        for (partition, answer) in answers.iter().enumerate() {
            let partition = PartitionId(partition as u32);
            assert!(answer.is_none() || takes_part(partition), "only participants answer");
        }
        assert!(
            deciding || answers.is_empty() || unanswered.len() >= self.missing(active, transaction),
            "an answer that came is kept, or awaited again"
        );
        assert!(
            active.rounds > 0 || answers.is_empty() && active.writers.is_empty(),
            "nothing is answered or voted on before the first round"
        );
        assert!(
            !matches!(active.call.work, MultiWork::Schema(_)) || participants.len() == all,
            "a change of the catalog is made everywhere"
        );
    }

    /// Partitions of the round that neither answered nor owe an answer, and those that owe one.
    fn missing(&self, active: &Active<O, C>, transaction: TransactionId) -> usize {
        let in_round = self.initiator.in_round(transaction);
        in_round.filter(|partition| active.answers[partition.index()].is_none()).count()
    }

    fn check_one_rounds(&self) {
        for (transaction, one_round) in self.one_rounds.iter() {
            assert!(self.initiator.has(transaction), "{transaction:?} is ordered");
            assert!(!self.active.contains_key(&transaction), "it is of one kind");
            assert!(!self.initiator.is_deciding(transaction), "it ends with its decision");
            let partitions = self.initiator.participants(transaction);
            one_round.check_invariants(&partitions);
        }
        assert!(
            self.late.iter().is_sorted_by(|a, b| a.0 < b.0),
            "what is held back is in the order of the transactions"
        );
        for (transaction, _) in &self.late {
            let near = self.near.expect("only the coordinator's own partition is served last");
            assert!(self.one_rounds.contains(*transaction), "a held part is of one in progress");
            let unanswered = self.initiator.unanswered(*transaction);
            assert!(unanswered.contains(&near), "who was not addressed owes its answer");
        }
        assert!(self.spare.is_within(SPARE_LISTS), "kept lists are empty and within their limit");
    }

    /// Messages to a partition so far, and the number of its run.
    pub fn sent_to(&self, partition: PartitionId) -> (u64, u64) {
        self.initiator.sent_to(partition)
    }
}
