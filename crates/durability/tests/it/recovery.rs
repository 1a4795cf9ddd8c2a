//! Which transactions a log says are committed: cut at every point, with votes that change, with
//! decisions.

use lockstep_durability::recovery::{
    Outcome, PassEnd, Point, PointFinder, PointTarget, Replaced, Survey, SurveyError,
};
use lockstep_txn::log_entry::{
    LogSource, Vote, WriterRound, begin_fragments, put_commit, put_schema,
};
use lockstep_txn::sp::first_entry;
use lockstep_txn::{EntryHeader, EntryKind, LogBuffer};
use lockstep_types::{ParameterSet, PartitionId, TransactionId};

const TIME_MS: i64 = 1_790_000_000_000;
const A: PartitionId = PartitionId(0);
const B: PartitionId = PartitionId(1);

fn multi(ms: i64) -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS + ms, 0, PartitionId::MULTI))
}

fn own(partition: PartitionId, ms: i64) -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS + ms, 0, partition))
}

/// The logs of two partitions, each entry a piece of its own.
struct Logs {
    buffers: [LogBuffer; 2],
    pieces: [Vec<Vec<u8>>; 2],
}

impl Logs {
    fn new() -> Logs {
        let buffers = [A, B].map(|partition| LogBuffer::new(partition, LogSource::of_run(1), 0));
        Logs { buffers, pieces: Default::default() }
    }

    fn add(&mut self, partition: PartitionId, write: impl FnOnce(&mut LogBuffer)) {
        let buffer = &mut self.buffers[partition.index()];
        write(buffer);
        self.pieces[partition.index()].push(buffer.bytes().to_vec());
        buffer.clear();
    }

    fn entry(&mut self, partition: PartitionId, header: &EntryHeader, kind: EntryKind) {
        self.add(partition, |log| log.append(header, kind, &[]));
    }

    fn call(&mut self, partition: PartitionId, ms: i64) {
        let set = ParameterSet::EMPTY;
        self.add(partition, |log| log.command(&own(partition, ms), 0, "P", false, &set));
    }

    fn round(&mut self, partition: PartitionId, ms: i64, round: u32, vote: Vote) {
        let mut body = Vec::new();
        begin_fragments(&mut body, round, vote, &[A, B]);
        self.add(partition, |log| log.append(&multi(ms), EntryKind::Fragments, &body));
    }

    /// A commit that names who logged something of the transaction, and in which round last.
    fn commit(&mut self, partition: PartitionId, ms: i64, writers: &[(PartitionId, u32)]) {
        let mut body = Vec::new();
        let writers = writers.iter();
        put_commit(&mut body, writers.map(|&(partition, round)| WriterRound { partition, round }));
        self.add(partition, |log| log.append(&multi(ms), EntryKind::Commit, &body));
    }

    fn vote(&mut self, partition: PartitionId, ms: i64, vote: Vote) {
        let again = EntryHeader { repeated: true, ..multi(ms) };
        self.add(partition, |log| log.append(&again, EntryKind::Vote, &[vote as u8]));
    }

    /// What the first entries of each log say.
    fn survey(&self, cuts: [usize; 2]) -> Result<Outcome, SurveyError> {
        let mut survey = Survey::new(&[0, 0]);
        for partition in [A, B] {
            for piece in &self.pieces[partition.index()][..cuts[partition.index()]] {
                survey.read(partition, piece)?;
            }
        }
        Ok(survey.finish())
    }

    /// What the logs say, read one after the other in this order, or an entry of each in turn.
    fn read_in(&self, order: &[PartitionId], alternating: bool) -> Outcome {
        let mut survey = Survey::new(&[0, 0]);
        let mut all: Vec<(usize, PartitionId)> = Vec::new();
        for partition in order {
            let count = self.pieces[partition.index()].len();
            all.extend((0..count).map(|at| (at, *partition)));
        }
        if alternating {
            all.sort_by_key(|(at, _)| *at);
        }
        for (at, partition) in all {
            survey.read(partition, &self.pieces[partition.index()][at]).expect("sound");
        }
        survey.finish()
    }

    fn whole(&self) -> Outcome {
        self.survey([self.pieces[0].len(), self.pieces[1].len()]).expect("sound")
    }
}

fn is_committed(outcome: &Outcome, ms: i64) -> bool {
    outcome.replays(A, multi(ms).transaction)
}

#[test]
fn a_transaction_is_committed_when_every_log_has_its_yes() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        logs.call(partition, 1);
        logs.round(partition, 2, 1, Vote::Yes);
        logs.call(partition, 3);
    }
    for a in 0..=3 {
        for b in 0..=3 {
            let outcome = logs.survey([a, b]).expect("sound");
            let has_parts = a >= 2 || b >= 2;
            assert_eq!(is_committed(&outcome, 2), (a >= 2 && b >= 2) || !has_parts, "{a} {b}");
            assert!(outcome.replays(A, own(A, 3).transaction));
            assert_eq!(outcome.tails[1].sequence, b as u64);
        }
    }
    let outcome = logs.whole();
    assert_eq!(outcome.tails[0].transaction, own(A, 3).transaction);
    assert_eq!(outcome.last_multi, multi(2).transaction);
}

#[test]
fn an_abort_anywhere_and_a_changed_vote_undo_a_yes_of_all() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        for ms in [2, 3, 4] {
            logs.round(partition, ms, 1, Vote::Yes);
        }
    }
    logs.round(A, 5, 1, Vote::No);
    logs.round(B, 5, 1, Vote::Yes);
    assert!([2, 3, 4].iter().all(|ms| is_committed(&logs.whole(), *ms)));
    assert!(!is_committed(&logs.whole(), 5));
    logs.entry(B, &multi(2), EntryKind::Abort);
    // After the abort the next one ended otherwise, and the one that failed did not.
    logs.vote(B, 3, Vote::No);
    [4, 5].into_iter().for_each(|ms| logs.vote(B, ms, Vote::Yes));
    logs.vote(A, 5, Vote::Yes);
    let outcome = logs.whole();
    let committed: Vec<bool> = [2, 3, 4, 5].map(|ms| is_committed(&outcome, ms)).to_vec();
    assert_eq!(committed, [false, false, true, true]);
    assert_eq!(outcome.left_out(), 2);
}

/// A partition runs its part again after each abort of an earlier transaction. What counts is the
/// last vote of each partition, whichever came before and however often they changed.
#[test]
fn the_last_vote_of_each_partition_counts() {
    const VOTES: [Vote; 2] = [Vote::Yes, Vote::No];
    let cases = (0..1_u32 << 6).map(|bits| [0, 1, 2, 3, 4, 5].map(|bit| bits >> bit & 1 == 1));
    for case in cases {
        let of = |voter: usize| [0, 1, 2].map(|turn| VOTES[usize::from(case[3 * voter + turn])]);
        for reversed in [false, true] {
            let mut logs = Logs::new();
            for (voter, partition) in [A, B].into_iter().enumerate() {
                let [first, later @ ..] = of(voter);
                logs.round(partition, 2, 1, first);
                later.into_iter().for_each(|vote| logs.vote(partition, 2, vote));
            }
            let order = if reversed { [B, A] } else { [A, B] };
            for alternating in [false, true] {
                let outcome = logs.read_in(&order, alternating);
                let is_yes = [0, 1].iter().all(|voter| of(*voter)[2] == Vote::Yes);
                assert_eq!(is_committed(&outcome, 2), is_yes, "{case:?} {reversed} {alternating}");
            }
        }
    }
}

/// What a partition ran after an aborted transaction runs again, and votes again: until it does,
/// its yes is void.
#[test]
fn a_yes_is_void_from_the_abort_of_what_ran_before_it_to_the_next_vote() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        (2..=5).for_each(|ms| logs.round(partition, ms, 1, Vote::Yes));
    }
    let committed = |logs: &Logs| {
        let of = |outcome: Outcome| [2, 3, 4, 5].map(|ms| is_committed(&outcome, ms));
        let found = of(logs.whole());
        for order in [[A, B], [B, A]] {
            for alternating in [false, true] {
                let other = of(logs.read_in(&order, alternating));
                assert_eq!(other, found, "the logs are read in any order");
            }
        }
        found
    };
    logs.entry(B, &multi(3), EntryKind::Abort);
    assert_eq!(committed(&logs), [true, false, false, false]);
    logs.vote(B, 4, Vote::Yes);
    assert_eq!(committed(&logs), [true, false, true, false]);
    logs.vote(B, 5, Vote::No);
    assert_eq!(committed(&logs), [true, false, true, false]);
    logs.vote(B, 5, Vote::Yes);
    assert_eq!(committed(&logs), [true, false, true, true]);
    let changed = logs.whole().changed_votes;
    assert_eq!((changed.to_no, changed.to_yes_again), (1, 1), "a void yes is no vote");
    // Now A aborts the one before, and has not voted again.
    logs.entry(A, &multi(2), EntryKind::Abort);
    assert_eq!(committed(&logs), [false, false, false, false]);
    // A log with the decision makes up for it.
    logs.entry(B, &multi(4), EntryKind::Commit);
    assert_eq!(committed(&logs), [false, false, true, false]);
}

/// The abort of a transaction is in the log of a partition only if its part was; what ran at
/// another partition is not void there.
#[test]
fn a_yes_is_void_only_at_the_partition_that_ran_it_again() {
    for aborts_at in [A, B] {
        let mut logs = Logs::new();
        logs.round(aborts_at, 2, 1, Vote::No);
        for partition in [A, B] {
            logs.round(partition, 3, 1, Vote::Yes);
        }
        logs.entry(aborts_at, &multi(2), EntryKind::Abort);
        assert!(!is_committed(&logs.whole(), 3));
        logs.vote(aborts_at, 3, Vote::Yes);
        assert!(is_committed(&logs.whole(), 3), "the other one has not to vote again");
    }
}

#[test]
fn a_decision_outlasts_all_votes() {
    for decision in [EntryKind::Commit, EntryKind::Abort] {
        let mut logs = Logs::new();
        logs.round(A, 2, 1, Vote::Yes);
        logs.round(B, 2, 1, Vote::Yes);
        logs.vote(B, 2, Vote::No);
        logs.entry(A, &multi(2), decision);
        for order in [[A, B], [B, A]] {
            let is_commit = decision == EntryKind::Commit;
            assert_eq!(is_committed(&logs.read_in(&order, false), 2), is_commit);
        }
    }
    let mut logs = Logs::new();
    logs.round(A, 2, 1, Vote::Yes);
    logs.round(B, 2, 1, Vote::No);
    logs.entry(A, &multi(2), EntryKind::Abort);
    logs.vote(B, 2, Vote::Yes);
    assert!(!is_committed(&logs.read_in(&[A, B], false), 2));
}

#[test]
fn changed_votes_are_counted() {
    let mut logs = Logs::new();
    for (ms, votes) in [(2, &[Vote::No, Vote::Yes][..]), (3, &[Vote::No]), (4, &[])] {
        logs.round(A, ms, 1, Vote::Yes);
        logs.round(B, ms, 1, Vote::Yes);
        votes.iter().for_each(|vote| logs.vote(B, ms, *vote));
    }
    let changed = logs.whole().changed_votes;
    assert_eq!((changed.to_no, changed.to_yes_again), (2, 1));
}

#[test]
fn what_nobody_votes_on_is_committed_by_one_commit() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        logs.round(partition, 2, 1, Vote::None);
        logs.round(partition, 2, 2, Vote::None);
        let mut body = Vec::new();
        put_schema(&mut body, 1, b"change");
        logs.add(partition, |log| log.append(&multi(3), EntryKind::Schema, &body));
    }
    assert!(!is_committed(&logs.whole(), 2) && !is_committed(&logs.whole(), 3));
    logs.entry(A, &multi(2), EntryKind::Commit);
    logs.entry(B, &multi(3), EntryKind::Commit);
    assert!(is_committed(&logs.whole(), 2) && is_committed(&logs.whole(), 3));
}

/// With asynchronous logs, or logs of several hosts, the end of one may be lost that others have
/// decisions on.
#[test]
fn a_commit_counts_if_every_writer_has_its_last_part() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        logs.round(partition, 2, 1, Vote::None);
        logs.round(partition, 2, 2, Vote::None);
    }
    logs.round(A, 3, 1, Vote::None);
    logs.round(B, 3, 2, Vote::Yes);
    let mut body = Vec::new();
    put_schema(&mut body, 1, b"change");
    for partition in [A, B] {
        logs.add(partition, |log| log.append(&multi(4), EntryKind::Schema, &body));
    }
    for partition in [A, B] {
        logs.entry(partition, &multi(5), EntryKind::Snapshot);
    }
    logs.commit(B, 5, &[(A, 1), (B, 1)]);
    logs.commit(B, 2, &[(A, 2), (B, 2)]);
    logs.commit(B, 3, &[(A, 1), (B, 2)]);
    logs.commit(B, 4, &[(A, 1), (B, 1)]);
    let needed_of_a = [(2, 2), (3, 3), (4, 4), (5, 5)];
    for cut in 0..=logs.pieces[0].len() {
        let outcome = logs.survey([cut, logs.pieces[1].len()]).expect("sound");
        for (ms, needed) in needed_of_a {
            assert_eq!(is_committed(&outcome, ms), cut >= needed, "{ms}, {cut} parts of A");
        }
        let missing = needed_of_a.iter().filter(|(_, needed)| cut < *needed).count();
        assert_eq!(outcome.incomplete(), missing);
    }
    // In whatever order they are read.
    for order in [[A, B], [B, A]] {
        for alternating in [false, true] {
            let outcome = logs.read_in(&order, alternating);
            assert!([2, 3, 4, 5].iter().all(|ms| is_committed(&outcome, *ms)));
            assert_eq!(outcome.incomplete(), 0);
        }
    }
}

/// What the log of one partition says is enough for its own part.
#[test]
fn one_log_is_enough_where_it_has_the_decision() {
    let mut logs = Logs::new();
    for partition in [A, B] {
        (2..=4).for_each(|ms| logs.round(partition, ms, 1, Vote::Yes));
        logs.commit(partition, 2, &[(A, 1), (B, 1)]);
        logs.entry(partition, &multi(3), EntryKind::Abort);
        logs.vote(partition, 4, Vote::Yes);
    }
    let alone = |partition: PartitionId| {
        let mut survey = Survey::of_one(partition, 2, 0);
        for piece in &logs.pieces[partition.index()] {
            survey.read(partition, piece).expect("sound");
        }
        let outcome = survey.finish();
        [2, 3, 4].map(|ms| outcome.replays(partition, multi(ms).transaction))
    };
    assert_eq!(alone(A), [true, false, false], "nothing is decided on the last one");
    assert_eq!(alone(B), alone(A));
    let all = logs.whole();
    assert_eq!([2, 3, 4].map(|ms| is_committed(&all, ms)), [true, false, true]);
}

#[test]
fn withdrawn_calls_are_left_out() {
    let mut logs = Logs::new();
    logs.call(A, 1);
    logs.call(A, 2);
    logs.add(A, |log| {
        let again = EntryHeader { repeated: true, ..own(A, 1) };
        log.append(&again, EntryKind::Withdrawn, &[]);
    });
    let outcome = logs.whole();
    assert!(!outcome.replays(A, own(A, 1).transaction));
    assert!(outcome.replays(A, own(A, 2).transaction));
}

#[test]
fn calls_whose_last_vote_is_a_no_are_left_out() {
    let mut logs = Logs::new();
    let vote = |logs: &mut Logs, partition, ms, vote: Vote| {
        logs.add(partition, |log| {
            log.append(&own(partition, ms), EntryKind::Vote, &[vote as u8]);
        });
    };
    for ms in 1..=4 {
        logs.call(A, ms);
    }
    logs.call(B, 1);
    // It failed, and did not run again; it failed, and then passed; it passed, and then failed.
    vote(&mut logs, A, 1, Vote::No);
    vote(&mut logs, A, 2, Vote::No);
    vote(&mut logs, A, 2, Vote::Yes);
    vote(&mut logs, A, 3, Vote::Yes);
    vote(&mut logs, A, 3, Vote::No);
    let outcome = logs.whole();
    let replayed = [1, 2, 3, 4].map(|ms| outcome.replays(A, own(A, ms).transaction));
    assert_eq!(replayed, [false, true, false, true]);
    assert!(outcome.replays(B, own(B, 1).transaction), "each partition has its own calls");
    assert_eq!(outcome.void_calls(), 2);
    // A log that ends before the last votes.
    let outcome = logs.survey([6, 1]).expect("sound");
    let replayed = [1, 2, 3, 4].map(|ms| outcome.replays(A, own(A, ms).transaction));
    assert_eq!(replayed, [false, false, true, true]);
}

impl Logs {
    fn pass(&self, finder: &mut PointFinder) -> PassEnd {
        for partition in [A, B] {
            for piece in &self.pieces[partition.index()] {
                finder.read(partition, piece).expect("sound");
            }
        }
        finder.end_pass()
    }

    fn point(&self, target: PointTarget) -> Point {
        let mut finder = PointFinder::new(target, 2, Replaced::default());
        loop {
            match self.pass(&mut finder) {
                PassEnd::Again => {}
                PassEnd::Found(point) => return point,
                PassEnd::Unknown(..) => panic!("{target:?} is not there"),
            }
        }
    }
}

#[test]
fn a_point_cuts_each_log_where_the_host_was() {
    let mut logs = Logs::new();
    // B ran the transaction of both, of time 4, after a call of time 6; A before one of time 5.
    logs.call(A, 1);
    logs.round(A, 4, 1, Vote::Yes);
    logs.call(A, 5);
    logs.call(B, 2);
    logs.call(B, 6);
    logs.round(B, 4, 1, Vote::Yes);
    logs.call(B, 7);
    let point = |ms| logs.point(PointTarget::Time(TIME_MS + ms));
    assert_eq!(point(0).cut, [0, 0]);
    assert_eq!((point(0).last, point(0).next), (None, Some(own(A, 1).transaction)));
    assert_eq!(point(1).cut, [1, 0]);
    assert_eq!(point(3).cut, [1, 1]);
    // Without the call before it, B has no part in it, so A has none either.
    assert_eq!((point(4).cut, point(5).cut), (vec![1, 1], vec![1, 1]));
    let at_six = point(6);
    assert_eq!(at_six.cut, [u64::MAX, 3]);
    assert_eq!(
        (at_six.last, at_six.next),
        (Some(own(B, 6).transaction), Some(own(B, 7).transaction))
    );
    assert_eq!(at_six.entries_behind, 1);
    assert_eq!(point(7).cut, [u64::MAX, u64::MAX]);
    // A transaction comes with all that ran before it, although some of that is later by its id.
    let behind = |header: EntryHeader| logs.point(PointTarget::Transaction(header.transaction)).cut;
    assert_eq!(behind(own(B, 2)), [1, 1]);
    assert_eq!(behind(multi(4)), [u64::MAX, 3]);
    assert_eq!(behind(own(A, 5)), [u64::MAX, 3]);
    let mut finder =
        PointFinder::new(PointTarget::Transaction(own(A, 3).transaction), 2, Replaced::default());
    let near = PassEnd::Unknown(Some(own(B, 2).transaction), Some(multi(4).transaction));
    assert_eq!(logs.pass(&mut finder), near);

    // The cut is what replay goes by, and decisions after it count.
    logs.entry(A, &multi(4), EntryKind::Abort);
    let mut survey = Survey::new(&[0, 0]);
    survey.stop_behind(vec![2, 3]);
    for partition in [A, B] {
        for piece in &logs.pieces[partition.index()] {
            survey.read(partition, piece).expect("sound");
        }
    }
    let outcome = survey.finish();
    assert_eq!(outcome.tails.iter().map(|tail| tail.sequence).collect::<Vec<_>>(), [2, 3]);
    assert!(!outcome.is_behind(A, 2) && outcome.is_behind(A, 3) && outcome.is_behind(B, 4));
    assert!(!is_committed(&outcome, 4));
}

#[test]
fn logs_with_gaps_or_of_others_are_refused_and_what_a_snapshot_has_is_passed_over() {
    let mut logs = Logs::new();
    for ms in 1..=4 {
        logs.call(A, ms);
    }
    let pieces = logs.pieces[0].clone();
    let mut survey = Survey::new(&[0, 0]);
    survey.read(A, &pieces[0]).expect("the first");
    let gap = survey.read(A, &pieces[2]).unwrap_err();
    assert_eq!(gap, SurveyError::Gap { partition: A, due: 2, found: 3 });
    assert!(gap.to_string().contains("entry 3 where entry 2 is due"), "{gap}");
    let unexpected = survey.read(B, &pieces[0]).unwrap_err();
    assert_eq!(unexpected, SurveyError::WrongPartition { partition: B, found: A });
    let cut = survey.read(A, &pieces[1][..pieces[1].len() - 1]).unwrap_err();
    assert!(cut.to_string().contains("after entry 1"), "{cut}");
    let mut survey = Survey::new(&[3, 0]);
    survey.read(A, &pieces.concat()).expect("sound");
    let tail = survey.finish().tails[0];
    assert_eq!((tail.sequence, tail.entries), (4, 1));
}
