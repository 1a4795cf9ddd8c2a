//! The coordinator takes over from one that was lost, and hears of leaders that are new to it. See
//! [`crate::fence`].

use super::confirm::Confirmations;
use super::{Coordinator, CoordinatorOutput, numbered};
use crate::fence::{ChangeId, EndedChange, FenceReport, KnownOutcome, OutcomeMemory, decide};
use crate::message::ToPartition;
use lockstep_types::{PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// How far a coordinator is that takes over.
pub(super) enum TakeOver {
    /// It begins transactions.
    None,
    /// Partitions are to report.
    Collecting { reports: BTreeMap<PartitionId, FenceReport> },
    /// These partitions are to carry out what was decided.
    Resolving { awaited: BTreeSet<PartitionId>, changes: Vec<EndedChange> },
    /// It has ended; nobody has asked for the changes yet.
    Ended(Vec<EndedChange>),
}

impl TakeOver {
    /// Whether transactions may begin.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        matches!(self, TakeOver::None)
    }
}

impl<O, C: Clone> Coordinator<O, C> {
    /// From now on the coordinator remembers as many decisions, for new leaders of partitions.
    /// Partitions and copies must remember as many ([`crate::Site::remember_outcomes`]), which are
    /// more than can be in progress.
    pub fn remember_outcomes(&mut self, limit: usize) {
        let partition_count = self.ring.partition_count();
        self.confirmations = Confirmations::of(limit, self.active_max, partition_count);
        self.outcomes = OutcomeMemory::new(limit);
    }

    /// It takes over from another coordinator, in an epoch of the cluster: it takes calls, and
    /// begins none before all partitions have reported and have carried out what it decides.
    ///
    /// # Panics
    /// It has begun a transaction, or the epoch is none that follows another one.
    pub fn take_over(&mut self, epoch: u64) {
        assert!(
            epoch > 0 && self.initiator.is_idle(),
            "it takes over before its first transaction"
        );
        for partition in self.all_partitions() {
            self.initiator.begin_stream(partition, epoch);
        }
        assert!(
            self.outcomes.limit() > 0,
            "a coordinator that takes over remembers what it decides"
        );
        self.take_over = TakeOver::Collecting { reports: BTreeMap::new() };
    }

    /// Whether it takes over, and begins nothing yet.
    pub fn is_taking_over(&self) -> bool {
        !self.take_over.is_over()
    }

    /// The leader of a partition is lost. As long as reports are collected, that of the next leader
    /// is waited for; in any other case the next one reports in time.
    pub fn leader_lost(&mut self, partition: PartitionId) {
        if let TakeOver::Collecting { reports } = &mut self.take_over {
            reports.remove(&partition);
        }
    }

    /// Once after a coordinator took over: how the last change of the catalog, or beginning of a
    /// snapshot, ended that any partition has seen. It is in force everywhere, or nowhere. Calls
    /// that waited begin with [`Coordinator::begin_waiting`].
    pub fn take_over_ended(&mut self) -> Option<Vec<EndedChange>> {
        if !matches!(self.take_over, TakeOver::Ended(_)) {
            return None;
        }
        match std::mem::replace(&mut self.take_over, TakeOver::None) {
            TakeOver::Ended(changes) => Some(changes),
            _ => unreachable!("it was looked at"),
        }
    }

    /// Begins what waits and may begin.
    pub fn begin_waiting(&mut self, now_us: i64, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        self.now_us = now_us;
        self.begin(now_us, outputs);
    }

    /// The epoch of the stream to a partition.
    pub fn epoch_of(&self, partition: PartitionId) -> u64 {
        self.initiator.epoch_of(partition)
    }

    /// A leader reports that is new to this coordinator, or to which this one is new.
    pub(super) fn fenced(
        &mut self,
        report: FenceReport,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let (partition, epoch) = (report.partition, self.initiator.epoch_of(report.partition));
        let count = self.ring.partition_count() as usize;
        let TakeOver::Collecting { reports } = &mut self.take_over else {
            match self.initiator.sent_to(partition) {
                _ if report.epoch > epoch => self.reopen(&report, outputs),
                // Only where all is decided before all have reported.
                (0, _) if epoch > 0 && report.epoch == epoch => {
                    self.send_remembered(&report, Vec::new(), outputs);
                }
                // It is repeated, or late.
                _ => {}
            }
            return;
        };
        // A leader before may have reported in this epoch, or in an earlier one.
        if report.epoch < epoch {
            return;
        }
        self.initiator.begin_stream(partition, report.epoch);
        reports.insert(partition, report);
        let hasty = self.faults.decide_before_fence() && reports.len() + 1 == count;
        if reports.len() == count || hasty {
            let reports = std::mem::take(reports);
            self.resolve_all(&reports, outputs);
        }
    }

    /// All partitions have reported: decides everything.
    fn resolve_all(
        &mut self,
        reports: &BTreeMap<PartitionId, FenceReport>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let mut known: BTreeMap<TransactionId, KnownOutcome> = BTreeMap::new();
        for report in reports.values() {
            self.initiator.advance_past(report.last);
            self.catalog_version = self.catalog_version.max(report.catalog_version);
            known.extend(report.outcomes.iter().map(|one| (one.transaction, one.clone())));
        }
        let decided = decide(reports, self.faults);
        known.extend(decided.into_iter().map(|outcome| (outcome.transaction, outcome)));
        // A copy that comes to lead later may lack what its leader had heard.
        self.outcomes.grow(known.len());
        for KnownOutcome { transaction, commits, writers } in known.values() {
            self.outcomes.note(*transaction, *commits, || writers.clone());
        }
        let changes = reports.values().filter_map(|report| report.change.clone());
        let last: Option<ChangeId> = changes.max_by_key(|change| change.transaction);
        let mut changes = Vec::new();
        if let Some(change) = last
            && let Some(outcome) = known.get(&change.transaction)
        {
            let committed = outcome.commits;
            if committed {
                self.catalog_version = self.catalog_version.max(change.catalog_version);
            }
            changes.push(EndedChange { change, committed });
        }
        for report in reports.values() {
            self.send_remembered(report, Vec::new(), outputs);
        }
        let awaited = self.all_partitions().into_iter().collect();
        self.take_over = TakeOver::Resolving { awaited, changes };
    }

    /// Sends a partition the decisions on what it has reported. What is not known to be committed
    /// is aborted: no caller has heard otherwise.
    pub(super) fn send_remembered(
        &mut self,
        report: &FenceReport,
        acknowledge: Vec<TransactionId>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let decision = |transaction: TransactionId| {
            let known = self.outcomes.of(transaction).cloned();
            known.unwrap_or(KnownOutcome { transaction, commits: false, writers: None })
        };
        let undecided = report.undecided.iter().map(|one| decision(one.transaction));
        let (decisions, acknowledge) = (undecided.collect(), acknowledge.into());
        let address = self.initiator.address_notice(report.partition);
        assert_eq!(address.number, 1, "a stream begins with what is decided");
        let message = ToPartition::Resolve { decisions, acknowledge };
        outputs.push(CoordinatorOutput::Send(numbered(address, message)));
    }

    /// A partition has carried out what was decided.
    pub(super) fn resolved(&mut self, partition: PartitionId) {
        if let TakeOver::Resolving { awaited, changes } = &mut self.take_over {
            awaited.remove(&partition);
            if awaited.is_empty() {
                self.take_over = TakeOver::Ended(std::mem::take(changes));
            }
        }
    }
}
