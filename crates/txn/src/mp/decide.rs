//! How transactions end in their turn: which one is the next to be decided, who hears it, and who
//! comes to the front of the queues of its partitions.

use super::active::{Active, Participant, Participants, Stage};
use super::{Addressed, MultiPartitionInitiator, RoundProgress, SPARE_LISTS, address};
use lockstep_types::{PartitionId, TransactionId};

impl<C> MultiPartitionInitiator<C> {
    /// The first transaction whose last round is complete and that no earlier one holds back.
    pub fn next_decidable(&self) -> Option<TransactionId> {
        self.decidable.last().copied()
    }

    /// Whether a transaction's current round is its last one: its partitions run what comes after
    /// it.
    pub fn is_in_last_round(&self, transaction: TransactionId) -> bool {
        self.get(transaction).is_some_and(|active| active.stage == Stage::Last)
    }

    /// The transaction is decided: who must hear it. With `acknowledged`, it is over only when
    /// every participant has said that it heard ([`Self::acknowledge`]).
    pub fn decide(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        acknowledged: bool,
    ) -> Vec<Addressed> {
        let mut addressed = Vec::new();
        self.decide_into(transaction, commit, acknowledged, &mut addressed);
        addressed
    }

    /// [`Self::decide`], with the addresses in a list that is empty.
    pub fn decide_into(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        acknowledged: bool,
        addressed: &mut Vec<Addressed>,
    ) {
        assert!(addressed.is_empty(), "the list is given empty");
        if !commit {
            self.void_answers(transaction);
        }
        forget_decidable(&mut self.decidable, transaction);
        if acknowledged {
            return self.decide_until_heard(transaction, addressed);
        }
        // It is over: it is looked up once.
        let active = self.active.remove(transaction);
        let active = active.expect("a decision belongs to a transaction");
        active.check_decision();
        if active.waits_for > 0 {
            self.check_earlier(transaction, &active);
        }
        let (sent, runs, epochs) = (&mut self.sent, &self.runs, &self.epochs);
        let participants = active.participants.iter();
        addressed.extend(participants.map(|p| address(sent, runs, epochs, p.partition)));
        self.leave(transaction, active);
    }

    /// Checks that all before a transaction at its partitions is decided, and not acknowledged yet:
    /// what ends before its last round has run after each of these decisions.
    #[cold]
    fn check_earlier(&self, transaction: TransactionId, active: &Active) {
        for participant in active.participants.iter() {
            let queue = self.queues[participant.partition.index()].iter();
            for earlier in queue.take_while(|queued| **queued != transaction) {
                let is_decided = self.is_deciding(*earlier);
                assert!(is_decided, "every earlier transaction of its partitions is decided");
            }
        }
    }

    /// Decides one that is over when every participant has heard it.
    fn decide_until_heard(&mut self, transaction: TransactionId, addressed: &mut Vec<Addressed>) {
        let active = self.active.get_mut(transaction);
        let active = active.expect("a decision belongs to a transaction");
        active.check_decision();
        assert_eq!(active.waits_for, 0, "every earlier transaction of its partitions is decided");
        if active.round == 0 {
            self.active.remove(transaction);
            return;
        }
        let decision = |p: &mut Participant| {
            p.outstanding = true;
            address(&mut self.sent, &self.runs, &self.epochs, p.partition)
        };
        addressed.extend(active.participants.iter_mut().map(decision));
        active.stage = Stage::Deciding;
        active.outstanding = active.participants.len();
        debug_assert!(active.outstanding > 0, "who took part in its rounds hears of the decision");
    }

    /// An abort begins a run of its partitions: what later transactions got there is void.
    pub(super) fn void_answers(&mut self, transaction: TransactionId) {
        let active = self.get(transaction).expect("it is in progress");
        // Where it was not sent, none after it was sent either.
        let addressed = active.participants.iter().filter(|participant| !participant.late);
        let partitions: Vec<PartitionId> =
            addressed.map(|participant| participant.partition).collect();
        for partition in partitions {
            self.runs[partition.index()] += 1;
            let run = self.runs[partition.index()];
            let queue = &self.queues[partition.index()];
            let place = queue.iter().position(|queued| *queued == transaction);
            let place = place.expect("it is in the queue of a participant");
            for later in queue.iter().skip(place + 1) {
                let active =
                    self.active.get_mut(*later).expect("a transaction in a queue is in progress");
                assert!(active.waits_for > 0, "nothing is decided after what is undecided");
                let place = active.place(partition).expect("it is in the queue of a participant");
                let participant = &mut active.participants[place];
                participant.least_run = run;
                active.outstanding += usize::from(participant.in_round);
                active.outstanding -= usize::from(participant.outstanding);
                participant.outstanding = participant.in_round;
            }
        }
    }

    /// The transaction is over, and not among those in progress any more: the next one comes to the
    /// front.
    pub(super) fn leave(&mut self, transaction: TransactionId, active: Active) {
        debug_assert!(self.get(transaction).is_none(), "what is over is not in progress");
        debug_assert!(!self.decidable.contains(&transaction), "what is over was decided");
        for participant in active.participants.iter() {
            let queue = &mut self.queues[participant.partition.index()];
            if queue.front() != Some(&transaction) {
                let place = queue.iter().position(|queued| *queued == transaction);
                queue.remove(place.expect("it is in the queue of a participant"));
                // None comes to the front when one that is not there leaves.
                continue;
            }
            queue.pop_front();
            let Some(next) = queue.front() else { continue };
            let active =
                self.active.get_mut(*next).expect("a transaction in a queue is in progress");
            debug_assert!(active.waits_for > 0, "who was not at the front waited there");
            active.waits_for -= 1;
            if active.is_decidable() {
                note_decidable(&mut self.decidable, *next);
            }
        }
        if let Participants::Many(mut list) = active.participants
            && self.spare_participants.len() < SPARE_LISTS
        {
            list.clear();
            self.spare_participants.push(list);
        }
    }

    /// A participant heard the decision.
    pub fn acknowledge(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
    ) -> RoundProgress {
        let Some(active) = self.active.get_mut(transaction) else { return RoundProgress::Stale };
        if active.stage != Stage::Deciding || !active.settle(partition, u64::MAX) {
            return RoundProgress::Stale;
        }
        if !active.is_complete() {
            return RoundProgress::Pending;
        }
        let active = self.active.remove(transaction).expect("it was looked at");
        self.leave(transaction, active);
        RoundProgress::Complete
    }
}

/// Lists a transaction at its place, unless it is listed.
pub(super) fn note_decidable(decidable: &mut Vec<TransactionId>, transaction: TransactionId) {
    // There is hardly ever more than one.
    let place = decidable.partition_point(|listed| *listed > transaction);
    if decidable.get(place) != Some(&transaction) {
        decidable.insert(place, transaction);
    }
}

/// Takes a transaction off the list, if it is listed: most often it is the first in order.
pub(super) fn forget_decidable(decidable: &mut Vec<TransactionId>, transaction: TransactionId) {
    match decidable.last() == Some(&transaction) {
        true => drop(decidable.pop()),
        false => decidable.retain(|listed| *listed != transaction),
    }
    debug_assert!(!decidable.contains(&transaction), "a transaction is listed once");
}
