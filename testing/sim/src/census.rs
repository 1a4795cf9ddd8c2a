//! Counts the messages that each transaction costs, and holds them against what is documented
//! (`docs/decisions/2026-11-20-speculation-and-messages.md`): of n participants and r rounds, at
//! most n fragments and n answers a round, and n decisions. Repeats by the network do not count;
//! an answer that an abort made void is given again, in a later run of its partition.
//!
//! Also notes which partitions each call of a client had to do with, however often it was ordered.

use lockstep_site::{FromPartition, Numbered, ToPartition};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// The messages of one transaction.
#[derive(Debug, Default)]
struct Messages {
    /// Round and partition of each message with fragments.
    fragments: BTreeSet<(u32, PartitionId)>,
    /// Round, partition and run of each answer.
    answers: BTreeSet<(u32, PartitionId, u64)>,
    decisions: BTreeSet<PartitionId>,
    acknowledged: BTreeSet<PartitionId>,
    committed: bool,
    is_schema: bool,
    /// What the sets do not show.
    twice: Option<&'static str>,
}

/// Counts messages of all transactions.
#[derive(Debug, Default)]
pub struct Census {
    transactions: BTreeMap<TransactionId, Messages>,
    /// Per call, the partitions that got messages for it.
    visited: BTreeMap<usize, BTreeSet<PartitionId>>,
    /// Some answers wait until a partition has acknowledged a decision.
    awaits_decisions: bool,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transactions that the coordinator took through rounds.
    pub transactions: u64,
    /// Transactions with one round.
    pub one_round: u64,
    /// Their participants.
    pub participants: u64,
    /// Their messages, answers that were given again left out.
    pub messages: u64,
    /// Answers that were given again.
    pub answered_again: u64,
}

impl Census {
    /// Of a coordinator some of whose answers wait for acknowledgements, or none.
    pub(crate) fn new(awaits_decisions: bool) -> Census {
        Census { awaits_decisions, ..Census::default() }
    }

    /// The procedure number under which a call's fragments travel, for them to be distinguished.
    pub(crate) fn mark_of(call: usize) -> u32 {
        u32::try_from(call).ok().and_then(|call| call.checked_add(1)).unwrap_or(0)
    }

    /// A call came to a partition.
    pub(crate) fn count_visit(&mut self, call: usize, partition: PartitionId) {
        self.visited.entry(call).or_default().insert(partition);
    }

    /// Calls with these numbers begin only now.
    pub(crate) fn forget_visits(&mut self) {
        self.visited.clear();
    }

    /// How many partitions got messages for a call.
    pub(crate) fn visited_count(&self, call: usize) -> usize {
        self.visited.get(&call).map_or(0, BTreeSet::len)
    }

    pub(crate) fn count_message(&mut self, message: &Numbered<u64>) {
        let partition = message.partition;
        match &message.message {
            ToPartition::Fragments(tasks) => {
                if let Some(call) = (tasks.procedure_number as usize).checked_sub(1) {
                    self.count_visit(call, partition);
                }
                self.count_fragments(tasks.transaction, tasks.round, partition, false);
            }
            ToPartition::OneRound { transaction, .. } => {
                self.count_fragments(*transaction, 1, partition, false);
            }
            ToPartition::Build { transaction, round, .. }
            | ToPartition::Schema { transaction, round, .. } => {
                self.count_fragments(*transaction, *round, partition, true);
            }
            ToPartition::Resolve { .. } | ToPartition::Confirm { .. } => {}
            ToPartition::Decision { transaction, commit, .. } => {
                let counted = self.transactions.entry(*transaction).or_default();
                counted.committed = *commit;
                if !counted.decisions.insert(partition) {
                    counted.twice = Some("the decision");
                }
            }
        }
    }

    fn count_fragments(
        &mut self,
        transaction: TransactionId,
        round: u32,
        partition: PartitionId,
        is_schema: bool,
    ) {
        let counted = self.transactions.entry(transaction).or_default();
        counted.is_schema = is_schema;
        if !counted.fragments.insert((round, partition)) {
            counted.twice = Some("fragments of a round");
        }
    }

    pub(crate) fn count_answer(&mut self, message: &FromPartition) {
        let (transaction, answered) = match message {
            FromPartition::Answer(answer) => {
                (answer.transaction, (answer.round, answer.partition, answer.run))
            }
            FromPartition::OneRound { partition, transaction, run, .. } => {
                (*transaction, (1, *partition, *run))
            }
            FromPartition::Fenced(_)
            | FromPartition::Resolved { .. }
            | FromPartition::Confirmed { .. } => return,
            FromPartition::Acknowledged { partition, transaction, .. } => {
                let counted = self.transactions.entry(*transaction).or_default();
                if !counted.acknowledged.insert(*partition) {
                    counted.twice = Some("an acknowledgement");
                }
                return;
            }
        };
        let counted = self.transactions.entry(transaction).or_default();
        if !counted.answers.insert(answered) {
            counted.twice = Some("an answer");
        }
    }

    /// Nothing is in progress any more: every transaction cost what it may.
    ///
    /// # Errors
    /// The first one that cost more, or whose participants were not all told.
    pub fn judge(&self) -> Result<Totals, String> {
        let mut totals = Totals::default();
        for (transaction, counted) in &self.transactions {
            counted
                .judge(&mut totals, self.awaits_decisions)
                .map_err(|what| format!("messages of {transaction:?}: {what}: {counted:?}"))?;
        }
        Ok(totals)
    }
}

impl Messages {
    fn judge(&self, totals: &mut Totals, awaits_decisions: bool) -> Result<(), String> {
        if let Some(what) = self.twice {
            return Err(format!("{what} twice"));
        }
        let first = self
            .fragments
            .iter()
            .map_while(|(round, partition)| (*round == 1).then_some(*partition));
        let participants: BTreeSet<PartitionId> = first.collect();
        if participants != self.decisions {
            return Err("who took part hears the decision, and nobody else".to_string());
        }
        if !self.fragments.iter().all(|(_, partition)| participants.contains(partition)) {
            return Err("a later round met somebody new".to_string());
        }
        let answered: BTreeSet<(u32, PartitionId)> =
            self.answers.iter().map(|(round, partition, _)| (*round, *partition)).collect();
        if !answered.is_subset(&self.fragments) {
            return Err("an answer without a question".to_string());
        }
        if self.committed && answered != self.fragments {
            return Err("committed without all answers".to_string());
        }
        let acknowledged = !self.acknowledged.is_empty();
        let is_odd = self.is_schema && !acknowledged || acknowledged && !awaits_decisions;
        if self.committed && self.is_schema != acknowledged && is_odd {
            return Err("a schema change is acknowledged, and nothing else".to_string());
        }
        let rounds = self.fragments.last().map_or(0, |(round, _)| *round);
        totals.transactions += 1;
        totals.answered_again += (self.answers.len() - answered.len()) as u64;
        let messages = self.fragments.len() + answered.len() + self.decisions.len();
        if rounds == 1 && !self.is_schema {
            totals.one_round += 1;
            totals.participants += participants.len() as u64;
            totals.messages += messages as u64;
        }
        let most = (2 * rounds as usize + 1) * participants.len();
        match messages <= most {
            true => Ok(()),
            false => Err(format!("{messages}, not at most {most}")),
        }
    }
}
