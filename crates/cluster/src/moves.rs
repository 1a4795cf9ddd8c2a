//! Copies that are moved to other hosts while their partitions go on: a copy is loaded at the new
//! host beside the K + 1 that there are, the leader is transferred there if it is at the host that
//! gives its copy up, and then that one goes.

use crate::apply::Verdict;
use crate::command::Command;
use crate::error::Refusal;
use crate::ids::{Epoch, Incarnation};
use crate::state::{ClusterState, Copy};
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeMap;

/// Before a transfer of the leader that was given up is tried again; twice as long each time.
const TRANSFER_PAUSE_US: u64 = 10_000_000;
/// That is doubled this often at most.
const DOUBLINGS_MAX: u32 = 5;

/// A copy that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyMove {
    /// The host that has it, and gives it up at the end.
    pub from: HostId,
    /// The host that is to have it.
    pub to: HostId,
}

impl ClusterState {
    /// Where the copy of a partition that a host has would be at another host.
    ///
    /// # Errors
    /// It cannot be moved there: the text for the user.
    pub fn plan_move(
        &self,
        partition: PartitionId,
        CopyMove { from, to }: CopyMove,
    ) -> Result<Copy, Refusal> {
        let refused = |text: String| Err(Refusal::Shape(text));
        let state = self.partition(partition).ok_or(Refusal::UnknownPartition(partition))?;
        if let Some(CopyMove { from, to }) = state.moving {
            return refused(format!(
                "a copy of partition {partition} is being moved from host {from} to host {to}: \
                 retry when that has ended"
            ));
        }
        if state.copy_at(from).is_none() {
            return refused(format!(
                "host {from} has no copy of partition {partition} that is in sync"
            ));
        }
        if state.copies.len() != self.shape.copies() || !state.learning.is_empty() {
            return refused(format!(
                "partition {partition} has not all of its {} copies in sync: retry when no copy \
                 is missing or being loaded",
                self.shape.copies()
            ));
        }
        if !self.serves(to) {
            return Err(Refusal::NotServing(to));
        }
        if self.leaves(to) {
            return refused(format!("host {to} is being removed"));
        }
        if state.copy_at(to).is_some() {
            return refused(format!("host {to} has a copy of partition {partition} already"));
        }
        if self.partitions_of(from).count() == 1 && !self.leaves(from) {
            return refused(format!(
                "host {from} has no other copy: a host keeps one, so that its vote counts at a \
                 start of the whole cluster"
            ));
        }
        self.place_at(to).ok_or_else(|| {
            let (sites, each) = (self.shape.sites_per_host, self.shape.partitions_per_site);
            Refusal::Shape(format!(
                "host {to} has no capacity for another copy: each of its {sites} sites has {each} \
                 (partitions_per_site)"
            ))
        })
    }

    /// See [`Command::BeginMove`].
    pub(crate) fn begin_move(
        &mut self,
        partition: PartitionId,
        (from, copy): (HostId, Copy),
        incarnation: Incarnation,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        let moving = CopyMove { from, to: copy.host };
        self.plan_move(partition, moving)?;
        self.check_loaded_at(copy, incarnation)?;
        self.renew(number);
        let state = &mut self.partitions[number];
        state.moving = Some(moving);
        state.learning.push(copy);
        assert!(state.copy_at(copy.host).is_none(), "it is at another host");
        Ok(Verdict::Applied)
    }

    /// See [`Command::EndMove`].
    pub(crate) fn end_move(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        let Some(moving) = self.move_to_end(number) else {
            return Err(Refusal::Shape(format!(
                "no copy of partition {partition} is to be dropped"
            )));
        };
        let state = &self.partitions[number];
        let kept = state.copies.iter().filter(|copy| copy.host != moving.from).copied().collect();
        if state.leader == moving.from {
            return Err(Refusal::Shape(format!(
                "host {} leads partition {partition}",
                moving.from
            )));
        }
        let next = self.epoch.next();
        self.partitions[number].moving = None;
        self.set_copies(number, kept, next);
        self.epoch = next;
        Ok(Verdict::Applied)
    }

    /// The move of a partition's copy, once the new one is in sync beside all others.
    fn move_to_end(&self, number: usize) -> Option<CopyMove> {
        let state = &self.partitions[number];
        let has_all = state.copies.len() > self.shape.copies();
        state.moving.filter(|moving| has_all && state.copy_at(moving.to).is_some())
    }

    /// A move is over when one of its two copies is lost. It is over, too, when the new copy is in
    /// sync and makes up for a third one that was lost meanwhile: then both stay.
    pub(crate) fn end_void_moves(&mut self) {
        let wanted = self.shape.copies();
        for state in &mut self.partitions {
            let Some(CopyMove { from, to }) = state.moving else { continue };
            let is_loaded = state.learning.iter().any(|copy| copy.host == to);
            let is_in_sync = state.copy_at(to).is_some();
            let makes_up = is_in_sync && state.copies.len() + state.learning.len() <= wanted;
            if state.copy_at(from).is_none() || !is_loaded && !is_in_sync || makes_up {
                state.moving = None;
            }
        }
    }
}

/// What the leader of the Raft group remembers of moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// When a transfer of the leader may be tried again, and how often it was.
    transfers: BTreeMap<PartitionId, (u64, u32)>,
}

impl Moves {
    /// What is due for copies whose new place is in sync.
    pub fn due(&mut self, state: &ClusterState, now_us: u64) -> Vec<Command> {
        let mut due = Vec::new();
        for number in 0..state.partitions.len() {
            let partition = PartitionId(number as u32);
            let Some(CopyMove { from, to }) = state.move_to_end(number) else {
                self.transfers.remove(&partition);
                continue;
            };
            let placed = &state.partitions[number];
            let epoch = placed.epoch;
            if placed.leader != from {
                due.push(Command::EndMove { partition, epoch });
                continue;
            }
            let (next_us, tries) = self.transfers.entry(partition).or_default();
            if placed.hand_over.is_none() && now_us >= *next_us {
                *next_us = now_us + (TRANSFER_PAUSE_US << (*tries).min(DOUBLINGS_MAX));
                *tries += 1;
                due.push(Command::BeginHandOver { partition, to, epoch });
            }
        }
        due
    }
}

#[cfg(test)]
mod tests;
