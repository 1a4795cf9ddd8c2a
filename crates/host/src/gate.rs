//! What may be released from a partition, and when.
//!
//! Everything that a partition reports depends on all entries that it has logged by then: its own,
//! and those of whatever it may have read. It is released when the last of them is *safe*, which is
//! when all copies have it that must, and not before what was reported earlier.
//!
//! Which copies those are, and what it means that one has an entry, is for the surroundings: today
//! it is the log of the leader's own host, durable or written.

use lockstep_types::HostId;
use std::collections::VecDeque;

/// Up to which entry the log of a partition is safe: the last one that all copies have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafePosition {
    /// The copies that must have an entry, and up to which entry each has all.
    copies: Vec<(HostId, u64)>,
    safe: u64,
}

impl SafePosition {
    /// Where no copy must have anything, because nothing is kept: everything is safe.
    pub fn everything() -> SafePosition {
        SafePosition { copies: Vec::new(), safe: u64::MAX }
    }

    /// Where the copy of one host must have the entries; it has those up to `position`.
    pub fn of_copy(host: HostId, position: u64) -> SafePosition {
        SafePosition { copies: vec![(host, position)], safe: position }
    }

    /// Where the copies of several hosts must have the entries, with up to which entry each has
    /// all.
    ///
    /// # Panics
    /// There is no copy, or a host has two.
    pub fn of_copies(copies: &[(HostId, u64)]) -> SafePosition {
        let safe = copies.iter().map(|(_, position)| *position).min();
        let safe = safe.expect("there is a copy that must have the entries");
        let position = SafePosition { copies: copies.to_vec(), safe };
        position.check_invariants();
        position
    }

    /// The hosts whose copies must have the entries.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.copies.iter().map(|(host, _)| *host)
    }

    /// The last safe entry.
    #[inline]
    pub fn safe(&self) -> u64 {
        self.safe
    }

    /// A copy has everything up to an entry. Of a host whose copy does not count, and of a position
    /// that the copy has reported before, nothing is to be learned.
    #[inline]
    pub fn advance(&mut self, host: HostId, position: u64) {
        match &mut self.copies[..] {
            [(only, at)] if *only == host => {
                *at = position.max(*at);
                self.safe = *at;
            }
            _ => self.advance_one_of_several(host, position),
        }
    }

    #[cold]
    fn advance_one_of_several(&mut self, host: HostId, position: u64) {
        if let Some((_, at)) = self.copies.iter_mut().find(|(other, _)| *other == host) {
            *at = position.max(*at);
            self.follow_copies();
        }
    }

    /// From now on a further copy must have the entries. It has those up to `position`, everything
    /// that is safe among them.
    ///
    /// # Panics
    /// The host's copy counts already, nothing is kept here, or the copy lacks a safe entry:
    /// something that depends on it may have been released.
    pub fn add_copy(&mut self, host: HostId, position: u64) {
        assert!(!self.copies.is_empty(), "where nothing is kept there are no copies");
        assert!(self.copies.iter().all(|(other, _)| *other != host), "a host has one copy");
        assert!(position >= self.safe, "a copy that counts has all that is safe");
        self.copies.push((host, position));
        self.follow_copies();
    }

    /// From now on the copy of a host need not have the entries. What only it lacked is safe.
    ///
    /// # Panics
    /// It is the only copy that must have them.
    pub fn drop_copy(&mut self, host: HostId) {
        self.copies.retain(|(other, _)| *other != host);
        assert!(!self.copies.is_empty(), "some copy must have an entry that is safe");
        self.follow_copies();
    }

    fn follow_copies(&mut self) {
        let least = self.copies.iter().map(|(_, position)| *position).min();
        let safe = least.expect("there is a copy that must have the entries");
        assert!(safe >= self.safe, "what is safe stays safe");
        self.safe = safe;
    }

    /// Checks what holds between two steps.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        let least = self.copies.iter().map(|(_, position)| *position).min();
        assert_eq!(self.safe, least.unwrap_or(u64::MAX), "the last entry that all copies have");
        for (number, (host, _)) in self.copies.iter().enumerate() {
            let others = &self.copies[number + 1..];
            assert!(others.iter().all(|(other, _)| other != host), "a host has one copy");
        }
    }
}

/// What a partition reports, and which part of it may not be released yet.
#[derive(Debug)]
pub struct Gate<M> {
    safe: SafePosition,
    /// With the entry that each depends on.
    waiting: VecDeque<(u64, M)>,
}

impl<M> Gate<M> {
    /// Of a partition whose log is safe up to here.
    pub fn new(safe: SafePosition) -> Gate<M> {
        Gate { safe, waiting: VecDeque::new() }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The last safe entry.
    #[inline]
    pub fn safe(&self) -> u64 {
        self.safe.safe()
    }

    /// See [`SafePosition::advance`]; then [`Gate::release`] gives what was waiting for it.
    #[inline]
    pub fn advance(&mut self, host: HostId, position: u64) {
        self.safe.advance(host, position);
    }

    /// The copies that must have the entries, for changes of them. [`Gate::release`] gives what
    /// becomes safe by such a change.
    pub fn copies(&mut self) -> &mut SafePosition {
        &mut self.safe
    }

    /// Something is reported that depends on an entry: given back if it may be released at once,
    /// else it waits.
    #[inline]
    pub fn pass(&mut self, entry: u64, message: M) -> Option<M> {
        // What is reported after something that waits, waits with it: the order is kept.
        if entry <= self.safe.safe() && self.waiting.is_empty() {
            return Some(message);
        }
        // The kept answer of a call that ran long ago names the entry of its run; it is released
        // after what was reported since.
        let entry = self.waiting.back().map_or(entry, |(before, _)| entry.max(*before));
        self.waiting.push_back((entry, message));
        None
    }

    /// Something is reported that must wait, for a reason that the surroundings know; else as
    /// [`Gate::pass`].
    pub fn keep(&mut self, entry: u64, message: M) {
        let entry = self.waiting.back().map_or(entry, |(before, _)| entry.max(*before));
        self.waiting.push_back((entry, message));
    }

    /// Whether something that waits may be released.
    #[inline]
    pub fn may_release(&self) -> bool {
        self.waiting.front().is_some_and(|(entry, _)| *entry <= self.safe.safe())
    }

    /// The next message that may be released.
    #[inline]
    pub fn release(&mut self) -> Option<M> {
        let (entry, _) = self.waiting.front()?;
        if *entry > self.safe.safe() {
            return None;
        }
        self.waiting.pop_front().map(|(_, message)| message)
    }

    /// Everything that waits, in order: the partition has handed its lead over, and all copies have
    /// what was logged.
    pub fn into_waiting(self) -> impl Iterator<Item = M> {
        self.waiting.into_iter().map(|(_, message)| message)
    }

    /// Checks what holds between two steps, after everything that may be was released. Visits all
    /// that waits.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        self.safe.check_invariants();
        assert!(
            self.waiting.iter().is_sorted_by_key(|(entry, _)| *entry),
            "what is released later waits for no earlier entry"
        );
        assert!(
            self.waiting.front().is_none_or(|(entry, _)| *entry > self.safe.safe()),
            "nothing waits for an entry that is safe"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_base::random::SeededRandom;
    use std::collections::BTreeMap;

    const LEADER: HostId = HostId(0);

    #[test]
    fn what_is_reported_later_is_released_later_though_it_names_an_earlier_entry() {
        let mut gate = Gate::new(SafePosition::of_copy(LEADER, 5));
        assert_eq!(gate.pass(7, "a vote"), None);
        // The answer of a call that ran before the vote, kept until a decision.
        assert_eq!(gate.pass(6, "a kept answer"), None);
        gate.check_invariants();
        gate.advance(LEADER, 6);
        assert_eq!(gate.release(), None);
        gate.advance(LEADER, 7);
        assert_eq!(gate.release(), Some("a vote"));
        assert_eq!(gate.release(), Some("a kept answer"));
        assert!(gate.is_idle());
    }

    #[test]
    fn everything_is_safe_where_nothing_is_kept() {
        let mut gate = Gate::new(SafePosition::everything());
        assert_eq!(gate.pass(u64::MAX, "an answer"), Some("an answer"));
        gate.advance(LEADER, 3);
        assert_eq!(gate.safe(), u64::MAX);
        gate.check_invariants();
    }

    /// Copies come, go and advance, and messages wait: whatever is released, all copies have what
    /// it depends on; all is released that may be; and the order stays.
    #[test]
    fn nothing_is_released_that_a_copy_lacks_and_nothing_else_waits() {
        for seed in 0..300 {
            let mut random = SeededRandom::new(seed);
            let mut gate = Gate::new(SafePosition::of_copy(LEADER, 0));
            let mut model = BTreeMap::from([(LEADER, 0)]);
            let (mut logged, mut reported, mut expected) = (0, 0, 0);
            for _ in 0..400 {
                let host = HostId(random.below(5) as u32);
                match random.below(6) {
                    0 => logged += random.below(4),
                    1 if !model.contains_key(&host) => {
                        let position = gate.safe() + random.below(logged - gate.safe() + 1);
                        gate.copies().add_copy(host, position);
                        model.insert(host, position);
                    }
                    2 if model.len() > 1 => {
                        gate.copies().drop_copy(host);
                        model.remove(&host);
                    }
                    // Reports may arrive late, and from copies that do not count.
                    3 | 4 => {
                        let position = random.below(logged + 1);
                        gate.advance(host, position);
                        model.entry(host).and_modify(|at| *at = position.max(*at));
                    }
                    _ => {
                        let entry = random.below(logged + 1);
                        if let Some(number) = gate.pass(entry, reported) {
                            assert_eq!(number, expected, "seed {seed}: in order");
                            assert!(model.values().all(|at| *at >= entry), "seed {seed}");
                            expected += 1;
                        }
                        reported += 1;
                    }
                }
                let safe = model.values().min().copied().expect("one copy at least");
                assert_eq!(gate.safe(), safe, "seed {seed}");
                while let Some(number) = gate.release() {
                    assert_eq!(number, expected, "seed {seed}: in order");
                    expected += 1;
                }
                gate.check_invariants();
            }
            if model.insert(LEADER, logged).is_none() {
                gate.copies().add_copy(LEADER, logged);
            }
            for host in model.into_keys().filter(|host| *host != LEADER) {
                gate.copies().drop_copy(host);
            }
            gate.advance(LEADER, logged);
            while gate.release().is_some() {
                expected += 1;
            }
            assert!(gate.is_idle() && expected == reported, "seed {seed}: all is released");
        }
    }

    #[test]
    #[should_panic(expected = "has all that is safe")]
    fn a_copy_that_lacks_what_may_have_been_released_does_not_count() {
        let mut safe = SafePosition::of_copy(LEADER, 5);
        safe.add_copy(HostId(1), 4);
    }

    #[test]
    #[should_panic(expected = "some copy must have an entry")]
    fn the_last_copy_is_not_dropped() {
        SafePosition::of_copy(LEADER, 5).drop_copy(LEADER);
    }
}
