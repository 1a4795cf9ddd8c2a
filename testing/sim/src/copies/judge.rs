//! What a run of the copies did, and what must hold of it.

use super::{Copies, OPENING, Role};
use lockstep_txn::replica::ReplicaFaults;
use std::collections::BTreeSet;

/// What runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Numbers that were answered.
    pub answered: u64,
    /// Numbers whose leader went, with nothing known of them.
    pub unknown: u64,
    /// Epochs that began after a leader was lost, and by a hand-over.
    pub epochs: [u64; 2],
    /// Hand-overs that were given up.
    pub given_up: u64,
    /// Messages of epochs that were over, which were refused.
    pub refused: u64,
    /// Entries that were sent again after a reconnect.
    pub resumed: u64,
    /// Copies that had to discard entries.
    pub diverged: u64,
    /// How often a leader had to wait for its followers.
    pub held_back: u64,
}

impl Report {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Report) {
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.epochs.iter_mut().zip(other.epochs).for_each(|(sum, count)| *sum += count);
        self.given_up += other.given_up;
        self.refused += other.refused;
        self.resumed += other.resumed;
        self.diverged += other.diverged;
        self.held_back += other.held_back;
    }
}

impl Copies {
    /// The leader has everything that was answered, once.
    pub(super) fn check_answered(&self, leader: usize) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (_, number) in self.hosts[leader].log.iter().filter(|(_, number)| *number != OPENING) {
            if !seen.insert(*number) {
                return Err(format!("host {leader} has {number} twice"));
            }
        }
        let lost =
            self.answered.iter().find(|number| **number != OPENING && !seen.contains(number));
        lost.map_or(Ok(()), |number| {
            Err(format!("{number} was answered, and host {leader} lacks it"))
        })
    }

    /// Checks what holds between two steps.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.faults != ReplicaFaults::default() {
            return Ok(());
        }
        for (number, host) in self.hosts.iter().enumerate() {
            let end = match &host.role {
                Role::Leader(leader) => {
                    leader.stream.check_invariants();
                    leader.gate.check_invariants();
                    leader.stream.end()
                }
                Role::Follower(copy) => {
                    copy.check_invariants();
                    copy.end()
                }
                Role::Waiting(_) | Role::Down => continue,
            };
            if host.log.len() as u64 != end {
                return Err(format!("host {number} has {} entries, not {end}", host.log.len()));
            }
        }
        Ok(())
    }

    /// Faults stop: the copies become equal, and everything is answered.
    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        self.hosts.iter_mut().for_each(|host| host.is_cut_off = false);
        for _ in 0..2 {
            self.change_epoch(0)?;
        }
        let leader = self.placement.leader.0 as usize;
        for _ in 0..5_000 {
            (0..self.hosts.len()).for_each(|host| self.sync(host));
            self.end_round(leader);
            self.deliver()?;
        }
        self.check_answered(leader)?;
        let Role::Leader(state) = &self.hosts[leader].role else {
            return Err("nobody leads".to_string());
        };
        if !state.gate.is_idle() {
            return Err("what was logged is not answered once faults stop".to_string());
        }
        for host in &self.placement.in_sync {
            let (one, other) = (&self.hosts[leader].log, &self.hosts[host.0 as usize].log);
            if one != other {
                let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
                return Err(format!(
                    "hosts {leader} and {host} differ after entry {same}: {:?} and {:?}",
                    one.get(same),
                    other.get(same)
                ));
            }
        }
        if self.placement.in_sync.len() != self.hosts.len() {
            return Err("a copy is out of sync once faults stop".to_string());
        }
        self.report.answered = self.answered.len() as u64;
        Ok(())
    }
}
