//! Limits of sites and of the coordinator, and the faults that tests inject.

use crate::fence::OUTCOMES_KEPT;
use lockstep_exec::watch::{Caller, LimitSource, TimeLimit};
use std::time::Duration;

/// Limits of a site and of the coordinator.
#[derive(Debug, Clone)]
pub struct SiteLimits {
    /// Calls that a partition defers while a multi-partition transaction runs.
    pub held_calls_max: usize,
    /// Calls that a partition runs speculatively after undecided transactions.
    pub speculative_calls_max: usize,
    /// Responses that a partition buffers for them, bytes.
    pub speculative_bytes_max: usize,
    /// Multi-partition calls that wait for their turn.
    pub waiting_multi_calls_max: usize,
    /// Multi-partition transactions in progress at the same time.
    pub active_multi_calls_max: usize,
    /// How long one may take; `None` for as long as it takes.
    pub transaction_timeout: Option<Duration>,
    /// How long the statements of a call that writes may run at a site; `None` for as long as they
    /// take.
    pub write_timeout: Option<Duration>,
    /// Whether multi-partition transactions stop all partitions: for comparison.
    pub stop_everything: StopEverything,
    /// Result tables of one call, bytes.
    pub result_bytes_max: usize,
    /// Intermediate results of one statement, bytes.
    pub temporary_bytes_max: usize,
    /// Tables of fewer rows are not read in batches.
    pub batch_rows_min: u64,
    /// What open transactions may need to be undone, bytes.
    pub undo_bytes_max: u64,
    /// Changes of global indexes' entries that one statement may ask for at a partition, bytes.
    pub entry_changes_bytes_max: usize,
    /// Whether replicas keep a digest of their changes.
    pub digests: bool,
    /// Broken on purpose, to see that checks notice; nothing in a server.
    pub faults: Faults,
}

impl SiteLimits {
    /// How many decisions partitions, copies and the coordinator remember, where partitions have
    /// copies ([`crate::fence`]).
    pub fn outcomes_kept(&self) -> usize {
        self.active_multi_calls_max + OUTCOMES_KEPT
    }

    /// How long the statements of a call that writes may run.
    pub(crate) fn write_limit(&self) -> Option<TimeLimit> {
        limit_of(LimitSource::Write, self.write_timeout)
    }

    /// How long a transaction over several partitions may take, microseconds; 0 for as long as it
    /// takes.
    pub(crate) fn transaction_limit_us(&self) -> i64 {
        let limit_us = self.transaction_timeout.map_or(0, |limit| limit.as_micros());
        i64::try_from(limit_us).unwrap_or(i64::MAX)
    }

    /// How long the parts of a transaction over several partitions may run.
    pub(crate) fn part_limit(&self) -> Option<TimeLimit> {
        limit_of(LimitSource::Transaction, self.transaction_timeout)
    }
}

/// A limit of the host, in whole milliseconds.
fn limit_of(source: LimitSource, timeout: Option<Duration>) -> Option<TimeLimit> {
    let timeout_ms = u32::try_from(timeout?.as_millis()).unwrap_or(u32::MAX);
    Some(TimeLimit { timeout_ms, source, caller: Caller::NONE })
}

/// How multi-partition transactions stop all partitions, if they do: one transaction at a time,
/// and a partition runs nothing else from its part until the decision. To compare with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopEverything {
    /// They do not.
    #[default]
    Never,
    /// As hosts do that know no other way: the coordinator plans each transaction, sends every
    /// partition its fragments, merges the answers, and tells all that it is complete.
    ByFragments,
    /// Calls of one round ([`crate::OneRoundCall`]) go to all partitions as they are, which plan
    /// their parts themselves; the others as [`StopEverything::ByFragments`].
    ByCalls,
}

impl StopEverything {
    /// Whether they stop everything.
    #[inline]
    pub fn is_on(self) -> bool {
        self != StopEverything::Never
    }
}

lockstep_base::faults! {
    /// Ways to break the protocol, for the tests of its checks.
    pub struct Faults {
        /// An abort leaves the changes in place.
        skip_undo,
        /// A call that ran after an undecided transaction is answered at once.
        answer_early,
        /// The coordinator decides without the answer of the last participant.
        drop_vote,
        /// A partition runs the coordinator's messages as they arrive.
        lose_order,
        /// The coordinator goes by answers that an abort made void.
        keep_void_answers,
        /// A partition acts again on a message that arrives twice.
        accept_repeats,
        /// Partitions leave the entries of global indexes as they are.
        skip_index_upkeep,
        /// A call that an index led to a partition runs there, whether its row is there or not.
        skip_recheck,
        /// A transaction that meets a partition outside its set takes all partitions.
        take_everyone,
        /// A step of building a global index takes in rows without their entries.
        lose_build_entries,
        /// Calls that a schema change overtook are ordered again, after those that wait.
        overtaken_go_last,
        /// A call that a schema change overtook runs where it was sent, as it was planned.
        keep_old_plans,
        /// A call that has to wait at its partition is forgotten.
        lose_held_calls,
        /// A host uses the catalog of a schema change that partitions refused.
        use_refused_catalog,
        /// Calls that wait for the end of a schema change are forgotten.
        lose_deferred_calls,
        /// A global index comes into force before all existing rows have entries.
        end_builds_early,
        /// A global index whose build failed is not dropped.
        keep_failed_builds,
        /// Calls in progress of a task are forgotten when it is dropped and created again.
        forget_task_runs,
        /// A new coordinator counts each yes in a log, void or not.
        trust_logged_yes,
        /// A new coordinator decides before all partitions have reported.
        decide_before_fence,
        /// Messages between the coordinator and partitions are taken whatever their epoch is.
        skip_epoch_check,
        /// Answers of a leader that is lost count after another one leads.
        keep_old_answers,
        /// What ran after a commit without votes is decided before a log has that commit.
        decide_past_commits,
        /// What a lost leader took part in is ordered again before a log has its abort.
        repeat_undecided,
    }
}
