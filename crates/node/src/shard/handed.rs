//! Calls of this thread's connections that are at other hosts. When one of those is lost, nobody
//! knows what has become of a call there: its caller is notified, and an answer that comes later is
//! dropped. A call is never sent again.

use super::Shard;
use crate::connection::{Connection, ConnectionKey};
use crate::message::{ForwardedAnswer, Origin};
use lockstep_base::elapsed::Elapsed;
use lockstep_base::map::FixedHashMap;
use lockstep_host::placement::Placement;
use lockstep_types::{Failure, HostId, Status};
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

/// In the weight of a call: it is noted here.
const NOTED: u16 = 1 << 15;

/// How long calls wait while the host is not connected with a majority.
const CUT_OFF_PATIENCE_US: u64 = 1_000_000;

/// Where a call may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// At one host.
    Host(HostId),
    /// It goes from host to host.
    Anywhere,
}

/// A call, as its connection and its client name it; a client may use a number twice.
type Name = (ConnectionKey, i64);

/// The calls of one name: one almost always, which takes no memory of its own.
enum Named {
    One((At, Origin)),
    /// At least two.
    Several(Vec<(At, Origin)>),
}

impl Named {
    fn add(&mut self, call: (At, Origin)) {
        match self {
            Named::One(first) => *self = Named::Several(vec![*first, call]),
            Named::Several(calls) => calls.push(call),
        }
    }

    /// Takes those that are wanted, in order. What is left, if any is.
    fn take(self, mut takes: impl FnMut(&(At, Origin)) -> bool) -> Option<Named> {
        match self {
            Named::One(call) => (!takes(&call)).then_some(Named::One(call)),
            Named::Several(mut calls) => {
                calls.retain(|call| !takes(call));
                match calls.len() {
                    0 => None,
                    1 => Some(Named::One(calls[0])),
                    _ => Some(Named::Several(calls)),
                }
            }
        }
    }
}

/// The calls that are at other hosts.
#[derive(Default)]
pub(super) struct HandedCalls {
    calls: FixedHashMap<Name, Named>,
}

impl HandedCalls {
    fn note(&mut self, origin: Origin, at: At) {
        let name = (origin.connection, origin.handle);
        match self.calls.entry(name) {
            Entry::Vacant(free) => drop(free.insert(Named::One((at, origin)))),
            Entry::Occupied(mut before) => before.get_mut().add((at, origin)),
        }
    }

    /// An answer has come; false if nobody waits for it any more.
    fn take(&mut self, origin: &Origin) -> bool {
        let name = (origin.connection, origin.handle);
        let Some(calls) = self.calls.remove(&name) else { return false };
        // The answer to a call that has ended as unknown is not that to a later one of its number.
        let mut is_found = false;
        let left = calls.take(|(_, call)| {
            let is_it = !is_found && call.arrived_us == origin.arrived_us;
            is_found |= is_it;
            is_it
        });
        if let Some(left) = left {
            self.calls.insert(name, left);
        }
        is_found
    }

    /// Takes the calls that may be at a host that is lost.
    fn take_lost(&mut self, is_lost: impl Fn(HostId) -> bool) -> Vec<Origin> {
        self.take_if(|at, _| match at {
            At::Host(host) => is_lost(*host),
            At::Anywhere => true,
        })
    }

    /// Takes the calls that may be at some hosts and came up to a time.
    fn take_at(&mut self, hosts: &[HostId], until_us: i64) -> Vec<Origin> {
        let is_there = |at: &At| match at {
            At::Host(host) => hosts.contains(host),
            At::Anywhere => true,
        };
        self.take_if(|at, call| is_there(at) && call.arrived_us <= until_us)
    }

    fn take_if(&mut self, is_lost: impl Fn(&At, &Origin) -> bool) -> Vec<Origin> {
        let mut lost = Vec::new();
        for (name, calls) in std::mem::take(&mut self.calls) {
            let left = calls.take(|(at, origin)| {
                let is_taken = is_lost(at, origin);
                lost.extend(is_taken.then_some(*origin));
                is_taken
            });
            if let Some(left) = left {
                self.calls.insert(name, left);
            }
        }
        // In the order in which they came, as the connections have them.
        lost.sort_by_key(|origin| (origin.arrived_us, origin.handle));
        lost
    }
}

impl Shard {
    /// A call leaves this thread, or waits here: notes those that may be at another host.
    pub(super) fn note_handed(&mut self, origin: Origin, at: At) -> Origin {
        let may_be_elsewhere = match at {
            At::Host(host) => host != self.facts.host,
            At::Anywhere => self.placement.host_count() > 1,
        };
        if !may_be_elsewhere {
            return origin;
        }
        let origin = Origin { weight: origin.weight | NOTED, ..origin };
        self.handed.note(origin, at);
        origin
    }

    /// The answer, unless nobody waits for it any more.
    #[inline]
    pub(super) fn expected_answer(&mut self, answer: ForwardedAnswer) -> Option<ForwardedAnswer> {
        if answer.origin.weight & NOTED == 0 {
            return Some(answer);
        }
        if !self.handed.take(&answer.origin) {
            self.outbox.spare.give_back(answer.frame);
            return None;
        }
        let origin = Origin { weight: answer.origin.weight & !NOTED, ..answer.origin };
        Some(ForwardedAnswer { origin, ..answer })
    }

    /// A call has come back, and is at no other host: who waits for it, unless nobody does any
    /// more.
    pub(super) fn unnote_handed(&mut self, origin: Origin) -> Option<Origin> {
        let is_awaited = origin.weight & NOTED == 0 || self.handed.take(&origin);
        is_awaited.then_some(Origin { weight: origin.weight & !NOTED, ..origin })
    }

    /// Hosts are lost: the callers of what may be there are notified.
    pub(super) fn fail_handed_calls(&mut self, before: &Placement) {
        let lost = self.placement.lost_since(before);
        if lost.contains(&self.facts.host) {
            self.close_unanswered();
            return;
        }
        if lost.is_empty() {
            return;
        }
        let calls = self.handed.take_lost(|host| lost.contains(&host));
        self.end_as_unknown(calls, &lost);
    }

    /// Partitions that hosts lead are unavailable: the callers of what is there since a time are
    /// notified.
    pub(super) fn fail_calls_at(&mut self, hosts: &[HostId], until_us: i64) {
        let calls = self.handed.take_at(hosts, until_us);
        let mut hosts = hosts.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        self.end_as_unknown(calls, &hosts);
    }

    fn end_as_unknown(&mut self, calls: Vec<Origin>, lost: &[HostId]) {
        for origin in calls {
            let origin = Origin { weight: origin.weight & !NOTED, ..origin };
            self.refuse_by_message(origin, &outcome_unknown(lost));
        }
    }

    /// The other hosts go on without this one, or with what it has led: nothing that it has in
    /// progress comes to an end, and what the others have of it is not known. Clients learn that
    /// from the end of the connection, and connect to another host.
    fn close_unanswered(&mut self) {
        let is_waiting = |it: &&Connection| it.unanswered > 0 || it.unread_bytes() > 0;
        let waiting = self.connections.iter().filter(is_waiting);
        let keys: Vec<ConnectionKey> = waiting.map(|connection| connection.key).collect();
        keys.into_iter().for_each(|key| self.close(key));
    }
}

impl Shard {
    /// While the host is not connected with a majority, nobody knows what becomes of the calls that
    /// have begun here: after a while the connections that wait for them are closed.
    pub(super) fn end_cut_off_calls(&mut self) {
        if !self.facts.intake.is_cut_off() {
            self.cut_off_since_us = None;
            return;
        }
        let since_us = *self.cut_off_since_us.get_or_insert(self.now_us);
        if Elapsed::between_us(since_us, self.now_us).us() < CUT_OFF_PATIENCE_US {
            return;
        }
        let waiting = self.connections.iter().filter(|connection| connection.waits_for_host());
        for key in waiting.map(|connection| connection.key).collect::<Vec<_>>() {
            let why = "the host is not connected with a majority of its cluster";
            self.note_refused(key, "connection closed", &why);
            self.facts.dropped_connections.fetch_add(1, Ordering::Relaxed);
            self.close(key);
        }
    }
}

/// What the client of a call gets that was in progress when hosts were lost.
pub(super) fn outcome_unknown(lost: &[HostId]) -> Failure {
    let hosts: Vec<String> = lost.iter().map(HostId::to_string).collect();
    let text = format!(
        "VOLTDB ERROR: host {} was lost while the call was in progress: whether it took effect is \
         not known.",
        hosts.join(", host ")
    );
    Failure::new(Status::ResponseUnknown, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::ThreadId;

    /// A call of one number that came at a time.
    fn origin(arrived_us: i64) -> Origin {
        Origin {
            thread: ThreadId(0),
            connection: ConnectionKey::default(),
            handle: 7,
            arrived_us,
            procedure: 0,
            weight: NOTED,
        }
    }

    #[test]
    fn a_late_answer_is_not_that_to_the_next_call_of_the_same_number() {
        let mut handed = HandedCalls::default();
        handed.note(origin(10), At::Host(HostId(1)));
        let ended = handed.take_at(&[HostId(1)], 10);
        assert_eq!(ended.iter().map(|call| call.arrived_us).collect::<Vec<_>>(), [10]);
        handed.note(origin(20), At::Host(HostId(1)));
        assert!(!handed.take(&origin(10)), "it has ended");
        assert!(handed.take(&origin(20)) && !handed.take(&origin(20)), "answered once");
    }

    #[test]
    fn calls_of_one_number_are_answered_each_once_in_the_order_in_which_they_came() {
        let mut handed = HandedCalls::default();
        for arrived_us in [10, 10, 20, 30] {
            handed.note(origin(arrived_us), At::Host(HostId(1)));
        }
        assert!(handed.take(&origin(20)) && !handed.take(&origin(20)));
        assert!(handed.take(&origin(10)) && handed.take(&origin(10)) && !handed.take(&origin(10)));
        handed.note(origin(25), At::Host(HostId(2)));
        let lost = handed.take_lost(|host| host == HostId(1));
        assert_eq!(lost.iter().map(|call| call.arrived_us).collect::<Vec<_>>(), [30]);
        assert!(handed.take(&origin(25)) && handed.calls.is_empty());
    }

    #[test]
    fn a_call_that_goes_from_host_to_host_may_be_at_one_that_does_not_answer() {
        let mut handed = HandedCalls::default();
        handed.note(origin(10), At::Anywhere);
        assert!(handed.take_at(&[HostId(1)], 9).is_empty(), "it may be on its way");
        assert_eq!(handed.take_at(&[HostId(1)], 10).len(), 1);
    }
}
