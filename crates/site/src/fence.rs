//! Another coordinator takes over: what partitions report to it, and what it makes of that.
//!
//! A coordinator is placed in an epoch of the cluster; the streams of messages between it and the
//! leaders of partitions are of that epoch, or of a later one in which the leader changed. Messages
//! in both directions name the epoch of their stream, and one of another epoch is not taken.
//!
//! **When the coordinator is lost**, alone or with leaders of partitions:
//!
//! 0. Where partitions have copies, all remember decisions from the beginning on
//!    ([`crate::SiteLimits::outcomes_kept`]).
//! 1. The surroundings of the new coordinator make one ([`crate::Coordinator::new`]), tell it the
//!    catalog in force at its thread ([`crate::Coordinator::go_on_behind`]), and that it takes over
//!    ([`crate::Coordinator::take_over`]). It takes calls, and begins none.
//! 2. Each leader is fenced, whether anything is undecided there or not: [`crate::Site::fence`]
//!    with the epoch of the placement that names the new coordinator. It takes nothing more of the
//!    coordinator before, and sends a [`FenceReport`] as any other message to the coordinator: when
//!    what it depends on is safe. A copy that is to lead reports the same of its log
//!    (`lockstep_host::follower::Promotion`).
//! 3. The reports go to [`crate::Coordinator::receive`]. When those of all partitions are there, it
//!    decides what is undecided ([`decide`]), sends each partition the decisions on what that has
//!    reported ([`crate::ToPartition::Resolve`], the first message of each stream), and begins
//!    transactions when all have carried them out.
//! 4. What was decided on changes of the catalog and on beginnings of snapshots is given back then
//!    ([`crate::Coordinator::take_over_ended`]), for the thread that has prepared them. The callers
//!    of the coordinator before get from their own threads that the outcome is not known.
//!
//! **When only the leader of a partition is lost**, its copy reports in the same way, with the
//! epoch in which it leads; the coordinator orders again what was in progress there and decides the
//! rest by what it remembers. A leader that is lost while a coordinator collects reports, or before
//! it has carried out the decisions, changes nothing: the report of the next one takes its place.
//!
//! **Why a decision is final.** A transaction is committed when every partition that votes has a
//! yes in its log that is safe and not void, or when somebody remembers its commit. A coordinator
//! commits only then, and tells a client of a commit only then: so each of them finds the same,
//! whatever the one before had sent. A yes is void when a transaction that wrote before it there is
//! aborted: the coordinator before had not decided it, because it decides in order. A partition
//! remembers outcomes ([`OutcomeMemory`]) because another one may not have heard of them.
//!
//! An abort of what a partition has not logged is remembered by its leader alone, and by the copy
//! that this becomes when it steps down. Another leader reports without it, and where nobody has
//! logged anything of the transaction, its end is then a commit that changes nothing. The first
//! leader may lead again later: the two outcomes differ and mean the same.

use crate::limits::Faults;
use crate::message::Writers;
use lockstep_txn::log_entry::{Vote, WriterRound};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Outcomes that a partition, a copy and the coordinator remember where partitions have copies:
/// more than transactions can be in progress. The coordinator begins no more of them while a
/// partition may need what would be forgotten.
pub const OUTCOMES_KEPT: usize = 1 << 13;

/// What was decided on a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOutcome {
    /// Which.
    pub transaction: TransactionId,
    /// It is committed; else it is aborted.
    pub commits: bool,
    /// With a commit, the partitions that logged something of it, unless its last round names them.
    /// Empty where nobody did ([`KnownOutcome::changed_nothing`]).
    pub writers: Option<Writers>,
}

impl KnownOutcome {
    /// Whether a coordinator that took over ended a transaction that nobody had logged: a commit so
    /// that what ran after it stays, and the same as an abort otherwise.
    fn changed_nothing(&self) -> bool {
        self.commits && self.writers.as_ref().is_some_and(|writers| writers.is_empty())
    }
}

/// What a partition's log has of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedRound {
    /// The last round that it has.
    pub round: u32,
    /// The vote that counts; none where rounds were to come, or the vote is void.
    pub vote: Vote,
}

/// A transaction that is undecided at a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedTransaction {
    /// Which.
    pub transaction: TransactionId,
    /// What the log has of it, if it wrote here.
    pub logged: Option<LoggedRound>,
    /// The partitions that vote in its last round, where that has come.
    pub voters: Vec<PartitionId>,
}

/// A change of the catalog, or the beginning of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeId {
    /// Its transaction.
    pub transaction: TransactionId,
    /// The version of the catalog that it makes; of a snapshot, the version in force.
    pub catalog_version: u64,
    /// A snapshot begins, and the catalog stays: what its taker wrote to the log.
    pub snapshot: Option<Arc<[u8]>>,
}

/// How a change ended that was in progress when its coordinator was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedChange {
    /// Which.
    pub change: ChangeId,
    /// It is in force at all partitions; else at none.
    pub committed: bool,
}

/// What a partition reports to a coordinator that is new to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceReport {
    /// Whose.
    pub partition: PartitionId,
    /// The epoch of the stream that it waits for.
    pub epoch: u64,
    /// What is undecided, in order.
    pub undecided: Vec<UndecidedTransaction>,
    /// What it remembers of decisions.
    pub outcomes: Vec<KnownOutcome>,
    /// The last change of the catalog, or beginning of a snapshot, decided or not.
    pub change: Option<ChangeId>,
    /// The version of the catalog in force.
    pub catalog_version: u64,
    /// The last transaction of a coordinator that it has seen.
    pub last: TransactionId,
}

/// The decisions of the last transactions, up to a limit.
#[derive(Debug, Default)]
pub struct OutcomeMemory {
    outcomes: VecDeque<KnownOutcome>,
    limit: usize,
}

impl OutcomeMemory {
    /// Remembers as many; none with 0.
    pub fn new(limit: usize) -> OutcomeMemory {
        OutcomeMemory { outcomes: VecDeque::new(), limit }
    }

    /// How many are remembered.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Remembers more of them.
    pub(crate) fn grow(&mut self, by: usize) {
        self.limit += by;
    }

    /// A transaction is decided.
    #[inline]
    pub fn note(
        &mut self,
        transaction: TransactionId,
        commits: bool,
        writers: impl FnOnce() -> Option<Writers>,
    ) {
        if self.limit == 0 {
            return;
        }
        if self.outcomes.len() == self.limit {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(KnownOutcome { transaction, commits, writers: writers() });
        debug_assert!(self.outcomes.len() <= self.limit, "what is remembered is limited");
    }

    /// What is remembered, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = &KnownOutcome> {
        self.outcomes.iter()
    }

    /// What was decided on a transaction, if it is remembered.
    pub fn of(&self, transaction: TransactionId) -> Option<&KnownOutcome> {
        self.outcomes.iter().rev().find(|outcome| outcome.transaction == transaction)
    }
}

/// Decides what partitions report as undecided, in the order of the transactions. See the module.
pub fn decide(reports: &BTreeMap<PartitionId, FenceReport>, faults: Faults) -> Vec<KnownOutcome> {
    let mut known: BTreeMap<TransactionId, &KnownOutcome> = BTreeMap::new();
    let mut undecided: BTreeMap<TransactionId, Vec<(PartitionId, &UndecidedTransaction)>> =
        BTreeMap::new();
    for (partition, report) in reports {
        for outcome in &report.outcomes {
            let before = known.entry(outcome.transaction).or_insert(outcome);
            let means_the_same = before.commits == outcome.commits
                || before.changed_nothing()
                || outcome.changed_nothing();
            assert!(means_the_same, "a decision is final: {before:?} and {outcome:?}");
            if before.changed_nothing() || before.writers.is_none() && !outcome.changed_nothing() {
                *before = outcome;
            }
        }
        for one in &report.undecided {
            undecided.entry(one.transaction).or_default().push((*partition, one));
        }
    }
    let changes: BTreeSet<TransactionId> =
        reports.values().filter_map(|report| Some(report.change.as_ref()?.transaction)).collect();
    let mut decided = Vec::with_capacity(undecided.len());
    // Partitions where something was aborted: what ran there after it is void.
    let mut void = BTreeSet::new();
    for (transaction, parts) in undecided {
        let outcome = match known.get(&transaction) {
            Some(outcome) => (*outcome).clone(),
            // A change is committed when its coordinator has said so, and not before.
            None if changes.contains(&transaction) => {
                KnownOutcome { transaction, commits: false, writers: None }
            }
            None => decide_one(transaction, &parts, &void, faults),
        };
        if !outcome.commits && !faults.trust_logged_yes() {
            void.extend(parts.iter().map(|(partition, _)| *partition));
        }
        decided.push(outcome);
    }
    decided
}

/// Decides a transaction that nobody remembers as decided.
fn decide_one(
    transaction: TransactionId,
    parts: &[(PartitionId, &UndecidedTransaction)],
    void: &BTreeSet<PartitionId>,
    faults: Faults,
) -> KnownOutcome {
    let voters = parts.iter().map(|(_, part)| &part.voters).find(|voters| !voters.is_empty());
    let says_yes = |voter: &PartitionId| {
        let part = parts.iter().find(|(partition, _)| partition == voter);
        part.is_some_and(|(_, part)| part.logged.is_some_and(|logged| logged.vote == Vote::Yes))
    };
    let is_void = parts.iter().any(|(partition, _)| void.contains(partition));
    let commits = !is_void
        && match voters {
            Some(voters) if faults.decide_before_fence() => {
                // Who has not reported is taken for somebody who agrees.
                let reported = |voter: &&PartitionId| parts.iter().any(|(one, _)| one == *voter);
                voters.iter().filter(reported).all(says_yes)
            }
            Some(voters) => voters.iter().all(says_yes),
            // It has written nothing: what ran after it stays as it is.
            None => parts.iter().all(|(_, part)| part.logged.is_none()),
        };
    let writers = match (commits, voters) {
        (true, Some(voters)) => unnamed_writers(parts, voters),
        (true, None) => Some(Writers::default()),
        (false, _) => None,
    };
    KnownOutcome { transaction, commits, writers }
}

/// The partitions that logged something; none where the last round names them.
fn unnamed_writers(
    parts: &[(PartitionId, &UndecidedTransaction)],
    voters: &[PartitionId],
) -> Option<Writers> {
    let logged = |(partition, part): &(PartitionId, &UndecidedTransaction)| {
        let LoggedRound { round, .. } = part.logged?;
        Some(WriterRound { partition: *partition, round })
    };
    let writers: Vec<WriterRound> = parts.iter().filter_map(logged).collect();
    let are_named = writers.iter().all(|writer| voters.contains(&writer.partition));
    if are_named { None } else { Some(Writers::new(writers)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);
    const C: PartitionId = PartitionId(2);

    fn id(number: u32) -> TransactionId {
        TransactionId::new(1_700_000_000_000, number, PartitionId::MULTI)
    }

    fn wrote(number: u32, vote: Vote, voters: &[PartitionId]) -> UndecidedTransaction {
        let logged = Some(LoggedRound { round: 1, vote });
        UndecidedTransaction { transaction: id(number), logged, voters: voters.to_vec() }
    }

    fn read(number: u32, voters: &[PartitionId]) -> UndecidedTransaction {
        UndecidedTransaction { transaction: id(number), logged: None, voters: voters.to_vec() }
    }

    fn knows(number: u32, commits: bool) -> KnownOutcome {
        KnownOutcome { transaction: id(number), commits, writers: None }
    }

    type Parts = (Vec<UndecidedTransaction>, Vec<KnownOutcome>);

    fn decided(parts: &[Parts], faults: Faults) -> Vec<(u32, bool)> {
        let report = |(number, (undecided, outcomes)): (u32, &Parts)| {
            let (partition, change) = (PartitionId(number), None);
            let (undecided, outcomes) = (undecided.clone(), outcomes.clone());
            let (epoch, catalog_version, last) = (2, 1, id(9));
            let report = FenceReport {
                partition,
                epoch,
                undecided,
                outcomes,
                change,
                catalog_version,
                last,
            };
            (partition, report)
        };
        let reports: BTreeMap<_, _> = (0..).zip(parts).map(report).collect();
        let number = |id: TransactionId| (0..10).find(|number| self::id(*number) == id);
        let outcomes = decide(&reports, faults).into_iter();
        outcomes
            .map(|outcome| (number(outcome.transaction).expect("a test's"), outcome.commits))
            .collect()
    }

    #[test]
    fn only_what_every_voter_said_yes_to_is_committed() {
        let both = [A, B];
        let parts = [
            (
                vec![
                    wrote(1, Vote::Yes, &both),
                    wrote(2, Vote::Yes, &[A, C]),
                    wrote(3, Vote::None, &[]),
                ],
                vec![],
            ),
            (vec![wrote(1, Vote::Yes, &both)], vec![]),
            // The second has not arrived at C, or has not run there.
            (vec![read(4, &[])], vec![]),
        ];
        let expected = [(1, true), (2, false), (3, false), (4, true)];
        assert_eq!(decided(&parts, Faults::default()), expected);
    }

    #[test]
    fn a_no_and_an_abort_that_somebody_remembers_count() {
        let both = [A, B];
        let parts = [
            (
                vec![
                    wrote(1, Vote::Yes, &both),
                    wrote(2, Vote::No, &[A]),
                    wrote(5, Vote::Yes, &[A]),
                ],
                vec![],
            ),
            (vec![], vec![knows(1, false), knows(3, true)]),
            (vec![wrote(3, Vote::None, &[])], vec![]),
        ];
        let expected = [(1, false), (2, false), (3, true), (5, false)];
        assert_eq!(decided(&parts, Faults::default()), expected);
    }

    #[test]
    fn a_yes_after_what_is_aborted_is_void() {
        let parts = [
            (vec![wrote(1, Vote::Yes, &[A, C]), wrote(2, Vote::Yes, &[A, B])], vec![]),
            (vec![wrote(2, Vote::Yes, &[A, B]), wrote(3, Vote::Yes, &[B])], vec![]),
            (vec![], vec![]),
        ];
        // The first lacks a yes of C; the second ran after it at A, the third after that at B.
        assert_eq!(decided(&parts, Faults::default()), [(1, false), (2, false), (3, false)]);
    }

    #[test]
    fn what_only_read_lets_those_after_it_commit() {
        let parts = [
            (vec![read(1, &[]), wrote(2, Vote::Yes, &[A, B])], vec![]),
            (vec![wrote(2, Vote::Yes, &[A, B])], vec![knows(1, true)]),
        ];
        assert_eq!(decided(&parts, Faults::default()), [(1, true), (2, true)]);
    }

    #[test]
    fn an_abort_of_what_nobody_logged_may_be_remembered_beside_its_end_without_effect() {
        // Another leader of B had reported without the abort, and nobody had logged anything.
        let ended = decided(&[(vec![read(1, &[])], vec![]), (vec![], vec![])], Faults::default());
        assert_eq!(ended, [(1, true)]);
        let nothing =
            KnownOutcome { transaction: id(1), commits: true, writers: Some(Writers::default()) };
        for outcomes in [[nothing.clone(), knows(1, false)], [knows(1, false), nothing]] {
            let [first, second] = outcomes.map(|outcome| (vec![], vec![outcome]));
            let parts = [first, second, (vec![read(1, &[])], vec![])];
            assert_eq!(decided(&parts, Faults::default()), [(1, false)]);
        }
    }

    #[test]
    #[should_panic(expected = "a decision is final")]
    fn a_commit_and_an_abort_of_one_transaction_end_the_host() {
        let parts = [(vec![], vec![knows(1, true)]), (vec![], vec![knows(1, false)])];
        decided(&parts, Faults::default());
    }

    #[test]
    fn only_the_last_outcomes_are_remembered() {
        let mut memory = OutcomeMemory::new(2);
        (0..3).for_each(|number| memory.note(id(number), number != 1, || None));
        assert_eq!(memory.all().cloned().collect::<Vec<_>>(), [knows(1, false), knows(2, true)]);
        assert!(memory.of(id(0)).is_none() && memory.of(id(2)).is_some_and(|one| one.commits));
    }
}
