//! What the coordinator has decided lately: a partition whose leader is lost may not have heard it.

use lockstep_site::ToPartition;
use lockstep_txn::log_entry::WriterRound;
use lockstep_types::TransactionId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// It is committed; else it is aborted.
    pub commits: bool,
    /// The partitions that logged something of it, unless its last round named them.
    pub writers: Option<Arc<[WriterRound]>>,
}

/// The decisions that were sent last.
#[derive(Debug)]
pub struct Outcomes {
    decided: BTreeMap<TransactionId, Decided>,
    limit: usize,
}

impl Outcomes {
    /// Remembers this many; they must be as many as can be on their way to the logs of all
    /// participants.
    pub fn new(limit: usize) -> Outcomes {
        assert!(limit > 0, "what is decided is remembered");
        Outcomes { decided: BTreeMap::new(), limit }
    }

    /// The coordinator sends a message.
    pub fn note<C>(&mut self, message: &ToPartition<C>) {
        let ToPartition::Decision { transaction, commit, writers, .. } = message else { return };
        let decided = Decided { commits: *commit, writers: writers.clone() };
        let before = self.decided.insert(*transaction, decided);
        assert!(before.is_none_or(|before| before.commits == *commit), "a decision is final");
        if self.decided.len() > self.limit {
            self.decided.pop_first();
        }
    }

    /// What was decided on a transaction; nothing if it was not, or long ago.
    pub fn of(&self, transaction: TransactionId) -> Option<&Decided> {
        self.decided.get(&transaction)
    }
}
