//! Another host as the links have it: which messages of it are taken, and when it gets some.
//!
//! Two hosts that take part exchange messages in a session. When one of them is put out, the other
//! ends the session, and what was on its way is lost; when it takes part again, both have to begin
//! from there. They hear of that at different times, one perhaps before it hears that the other was
//! out at all. So each says which placement it goes by, at the beginning of a session and when it
//! comes to take part with the other one again. What is sent waits until the other host goes by a
//! placement in which both take part, or by a later one: it ends no session for an earlier one any
//! more. What was said before is void.

use crate::placement::FIRST_EPOCH;
use std::collections::VecDeque;

/// Messages that wait for a host, before all other messages wait, too.
const WAITING_MESSAGES_MAX: usize = 1 << 12;

/// What is between this host and another one; `M` is a message.
#[derive(Debug)]
pub struct OtherHost<M> {
    /// Nothing is sent to it nor taken of it but what is of the control plane: it is lost, or
    /// messages between the hosts are.
    is_out: bool,
    /// The number of the placement since which both take part.
    since: u64,
    /// The placement that the other host goes by, as it said last in this session.
    said_epoch: Option<u64>,
    /// It is to hear which placement this host goes by, and gets no message before.
    owes_epoch: bool,
    /// What is sent when both hosts know that they take part.
    waiting: VecDeque<M>,
}

impl<M> Default for OtherHost<M> {
    fn default() -> OtherHost<M> {
        OtherHost {
            is_out: false,
            since: FIRST_EPOCH,
            said_epoch: None,
            owes_epoch: false,
            waiting: VecDeque::new(),
        }
    }
}

impl<M> OtherHost<M> {
    /// Whether nothing is sent to it.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// The number of the placement since which both hosts take part.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Whether a message of it counts now.
    pub fn is_heard(&self) -> bool {
        // A cluster that begins has one placement, which nobody has to say.
        let is_first = self.since == FIRST_EPOCH;
        !self.is_out && (is_first || self.said_epoch.is_some_and(|said| said >= self.since))
    }

    /// Whether both hosts know that they take part.
    fn is_ready(&self) -> bool {
        self.is_heard() && !self.owes_epoch
    }

    /// A session has begun: the other host is to hear which placement this one goes by.
    pub fn begin_session(&mut self) {
        (self.said_epoch, self.owes_epoch) = (None, true);
        assert!(self.since == FIRST_EPOCH || !self.is_ready(), "a session begins with epochs");
    }

    /// Whether the other host is to hear which placement this one goes by.
    pub fn owes_epoch(&self) -> bool {
        self.owes_epoch
    }

    /// It is on its way to hear that.
    pub fn note_epoch_sent(&mut self) {
        self.owes_epoch = false;
        assert!(self.is_ready() == self.is_heard(), "nothing is owed");
    }

    /// The other host goes by a placement, as it says.
    pub fn hear_epoch(&mut self, epoch: u64) {
        self.said_epoch = Some(epoch);
        assert!(self.is_out || epoch < self.since || self.is_heard(), "it goes by what both know");
    }

    /// Both hosts take part since a placement. True if one of the two was out before: nothing that
    /// was sent then counts.
    pub fn take_part(&mut self, since: u64) -> bool {
        if since <= self.since {
            return false;
        }
        (self.since, self.is_out, self.owes_epoch) = (since, false, true);
        self.waiting.clear();
        assert!(!self.is_ready(), "the other host is to hear of it");
        true
    }

    /// What is sent: given back if it can be sent now. Else it waits; for a host that is out it is
    /// dropped.
    pub fn send(&mut self, message: M) -> Option<M> {
        if self.is_out {
            assert!(self.waiting.is_empty(), "nothing waits for a host that is out");
            return None;
        }
        if self.is_ready() && self.waiting.is_empty() {
            return Some(message);
        }
        self.waiting.push_back(message);
        None
    }

    /// The next message that has waited and can be sent now.
    pub fn next_waiting(&mut self) -> Option<M> {
        match self.is_ready() {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// Whether so much waits that nothing more is to be sent.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MESSAGES_MAX
    }

    /// The session is over. Whether messages are lost with it, and that is news: while the hosts do
    /// not know yet that both take part, none was sent.
    pub fn end_session(&mut self) -> bool {
        let was_ready = self.is_ready();
        self.said_epoch = None;
        if !was_ready {
            return false;
        }
        self.waiting.clear();
        self.is_out = true;
        assert!(!self.is_heard(), "what was lost is not made up for");
        true
    }

    /// The host is lost, or messages of it are for good.
    pub fn go_out(&mut self) {
        (self.is_out, self.said_epoch) = (true, None);
        self.waiting.clear();
        assert!(!self.is_heard(), "it says nothing that counts");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that takes part with another one from the beginning.
    fn connected() -> OtherHost<u32> {
        let mut other = OtherHost::default();
        other.begin_session();
        other.note_epoch_sent();
        other.hear_epoch(FIRST_EPOCH);
        assert_eq!((other.send(1), other.is_heard()), (Some(1), true));
        other
    }

    #[test]
    fn what_is_sent_after_a_return_waits_until_both_hosts_know_of_it() {
        let mut other = connected();
        assert!(!other.take_part(FIRST_EPOCH), "they do already");
        // This host was out, and hears at once that it takes part again in placement 4.
        assert!(other.take_part(4) && !other.take_part(4));
        assert_eq!((other.send(2), other.is_heard()), (None, false));
        other.note_epoch_sent();
        assert_eq!(other.next_waiting(), None, "the other one may have to put this one out yet");
        // It does so: the session ends, and nothing is lost with it.
        assert!(!other.end_session() && !other.is_out());
        other.begin_session();
        other.hear_epoch(3);
        other.note_epoch_sent();
        assert_eq!((other.next_waiting(), other.is_heard()), (None, false));
        other.hear_epoch(4);
        assert_eq!((other.send(3), other.is_heard()), (None, true));
        assert_eq!([other.next_waiting(), other.next_waiting()], [Some(2), Some(3)]);
        assert_eq!(other.send(4), Some(4));
    }

    #[test]
    fn a_session_that_ends_between_hosts_that_take_part_loses_messages_once() {
        let mut other = connected();
        assert!(other.end_session() && other.is_out(), "messages may be lost");
        assert!(!other.end_session(), "that is known");
        other.begin_session();
        other.note_epoch_sent();
        other.hear_epoch(9);
        assert_eq!((other.send(2), other.is_heard()), (None, false), "until one was out");
        assert!(other.take_part(9));
        assert_eq!(other.send(3), None);
        other.note_epoch_sent();
        assert_eq!(other.next_waiting(), Some(3));
    }

    #[test]
    fn nothing_waits_for_a_host_that_is_out_and_not_too_much_for_others() {
        let mut other = connected();
        other.take_part(2);
        (0..WAITING_MESSAGES_MAX as u32).for_each(|it| assert_eq!(other.send(it), None));
        assert!(other.is_full());
        other.go_out();
        assert_eq!((other.is_full(), other.is_out(), other.next_waiting()), (false, true, None));
        assert_eq!(other.send(1), None);
        assert!(other.take_part(3) && !other.is_full());
    }
}
