//! Reads at a copy, of a bounded staleness.
//!
//! From time to time the copy asks its leader how far the log is ([`CopyMessage::AskPosition`]).
//! The leader answers like a read: with the entry that a read would depend on, once that is safe
//! and if it holds the lease by then. Once the copy has applied that entry, its data has everything
//! that was answered before it asked. How long ago that was is the staleness, by the clock of the
//! copy's host alone. A copy that hears nothing is stale soon, and its calls go to the leader.
//!
//! Nothing is read that could be lost: a copy that answers reads applies only what all copies have
//! ([`crate::copies::Copies::answer_reads`]). Nothing is read of a transaction of which an entry is
//! not applied.
//!
//! [`CopyMessage::AskPosition`]: super::codec::CopyMessage::AskPosition

use super::Follower;
use lockstep_site::Site;
use lockstep_txn::EntryHeader;
use lockstep_txn::sp::first_entry;
use lockstep_types::TransactionId;
use std::collections::VecDeque;

/// In the time in which what a leader has answered is too old, the copy asks this often.
const ASKS_A_BOUND: u64 = 4;

/// Answers that wait until their entries are applied: as many as are not too old, and one more.
const ANSWERS_MAX: usize = ASKS_A_BOUND as usize + 1;

/// What a copy knows of its staleness.
#[derive(Debug, Default)]
pub(super) struct Staleness {
    /// When the leader was asked last.
    asked_us: Option<u64>,
    /// Times of asking, and the entries that have everything up to then; both ascend.
    answers: VecDeque<(u64, u64)>,
    /// The data has everything that was answered before this time.
    current_us: Option<u64>,
}

impl Staleness {
    /// The leader says that all that was answered before a time is in the entries up to `position`.
    fn answered(&mut self, asked_us: u64, position: u64) {
        if Some(asked_us) > self.asked_us {
            // Nothing was asked at that time: data would be taken for newer than it is.
            return;
        }
        let is_known = |(at_us, entry): &(u64, u64)| *at_us >= asked_us || *entry > position;
        // Of two leaders, the later one may have been asked first.
        if self.answers.back().is_some_and(is_known) || self.current_us >= Some(asked_us) {
            return;
        }
        if self.answers.len() == ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((asked_us, position));
        assert!(self.answers.len() <= ANSWERS_MAX, "few answers wait");
        debug_assert!(self.answers.iter().is_sorted(), "answers come in the order of asking");
    }

    /// What was asked before a time says nothing any more.
    fn forget_before(&mut self, time_us: u64) {
        while self.answers.pop_front_if(|(asked_us, _)| *asked_us < time_us).is_some() {}
    }

    /// Entries are applied up to one.
    fn applied(&mut self, done: u64) {
        while let Some((asked_us, _)) = self.answers.pop_front_if(|(_, entry)| *entry <= done) {
            assert!(self.current_us < Some(asked_us), "what is applied makes the data newer");
            self.current_us = Some(asked_us);
        }
    }
}

impl<H, A, C: Clone> Follower<H, A, C> {
    /// Whether the leader is to be asked now how far the log is, because there are reads: their
    /// staleness is to be `bound_us` at most. Times are of a clock that never goes backwards.
    pub fn asks_position(&mut self, bound_us: u64, now_us: u64) -> bool {
        assert!(bound_us > 0, "data that is not stale at all is with the leader");
        let is_recent = |at_us: u64| now_us.saturating_sub(at_us) < bound_us / ASKS_A_BOUND;
        let asks = !self.staleness.asked_us.is_some_and(is_recent);
        if asks {
            self.staleness.asked_us = Some(now_us);
        }
        asks
    }

    /// The leader has answered: all that was answered before the copy asked at this time is in the
    /// entries up to `position`, which are safe.
    pub fn note_position(&mut self, asked_us: u64, position: u64) {
        self.staleness.answered(asked_us, position);
    }

    /// Whether the copy can answer a read now with data that is at most `bound_us` old: how old, in
    /// microseconds.
    pub fn staleness_us(&mut self, bound_us: u64, now_us: u64) -> Option<u64> {
        self.staleness.forget_before(now_us.saturating_sub(bound_us));
        self.staleness.applied(self.done);
        let staleness_us = now_us.saturating_sub(self.staleness.current_us?);
        let is_readable = self.stopped_at.is_none() && self.verdicts.are_whole();
        (is_readable && staleness_us <= bound_us).then_some(staleness_us)
    }

    /// Runs a call that only reads, with the limits of the host.
    pub fn read<T>(
        &mut self,
        now_us: i64,
        run: impl FnOnce(&mut Site<H, A, C>, &EntryHeader) -> T,
    ) -> T {
        assert!(self.verdicts.are_whole(), "no transaction is applied in part");
        let site = &mut self.runner.site;
        let before = site.database().change_digest();
        // No log has it, and nobody waits for its number.
        let header = first_entry(TransactionId::new(now_us / 1000, 0, self.partition));
        site.begin_read();
        let answer = run(site, &header);
        site.end_read();
        assert_eq!(site.database().change_digest(), before, "a read changes nothing");
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a copy that asked for the last time then.
    fn asked_until(asked_us: u64) -> Staleness {
        Staleness { asked_us: Some(asked_us), ..Staleness::default() }
    }

    #[test]
    fn an_answer_to_what_was_not_asked_says_nothing() {
        let mut staleness = asked_until(100);
        staleness.answered(101, 1);
        staleness.answered(u64::MAX, 1);
        staleness.applied(9);
        assert_eq!(staleness.current_us, None);
        let mut staleness = Staleness::default();
        staleness.answered(1, 1);
        assert!(staleness.answers.is_empty(), "nothing was asked");
    }

    #[test]
    fn an_answer_that_is_too_old_does_not_stand_in_the_way_of_later_ones() {
        let mut staleness = asked_until(1_000);
        staleness.answered(100, u64::MAX);
        staleness.answered(500, 7);
        assert_eq!(staleness.answers.len(), 1);
        staleness.forget_before(200);
        staleness.answered(600, 7);
        staleness.applied(7);
        assert_eq!(staleness.current_us, Some(600));
    }

    #[test]
    fn data_is_as_old_as_the_question_whose_answer_is_applied() {
        let mut staleness = asked_until(1_000);
        staleness.answered(100, 7);
        staleness.applied(6);
        assert_eq!(staleness.current_us, None, "entry 7 is missing");
        staleness.answered(130, 9);
        staleness.applied(8);
        assert_eq!(staleness.current_us, Some(100));
        staleness.applied(9);
        assert_eq!(staleness.current_us, Some(130));
        staleness.answered(120, 9);
        staleness.applied(9);
        assert_eq!(staleness.current_us, Some(130), "a late answer makes nothing older");
    }

    #[test]
    fn a_copy_that_lags_keeps_few_answers() {
        let mut staleness = asked_until(1_000);
        for at in 1..100 {
            staleness.answered(at, at);
            assert!(staleness.answers.len() <= ANSWERS_MAX);
        }
        staleness.applied(98);
        assert_eq!(staleness.current_us, Some(98));
    }

    #[test]
    fn an_earlier_leader_says_nothing_new() {
        let mut staleness = asked_until(1_000);
        staleness.answered(100, 50);
        staleness.answered(110, 40);
        assert_eq!(staleness.answers, [(100, 50)]);
    }
}
