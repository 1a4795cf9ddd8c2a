//! Leaders of partitions, and the coordinator, that move to other hosts: by a transfer in two
//! steps, or at once where the leader is lost.

use crate::apply::Verdict;
use crate::error::Refusal;
use crate::ids::Epoch;
use crate::state::{ClusterState, PartitionState, Previous};
use lockstep_types::{HostId, PartitionId};

impl ClusterState {
    /// The number of a partition that a host follows, at the given epoch.
    fn follower_at(
        &self,
        partition: PartitionId,
        host: HostId,
        epoch: Epoch,
    ) -> Result<usize, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        if !self.serves(host) {
            return Err(Refusal::NotServing(host));
        }
        let state = &self.partitions[number];
        match state.copy_at(host).is_some() && state.leader != host {
            true => Ok(number),
            false => Err(Refusal::Copies(host)),
        }
    }

    pub(crate) fn begin_hand_over(
        &mut self,
        partition: PartitionId,
        to: HostId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.follower_at(partition, to, epoch)?;
        let hand_over = &mut self.partitions[number].hand_over;
        match *hand_over {
            Some(host) if host == to => return Ok(Verdict::Unchanged),
            Some(_) => return Err(Refusal::HandOver(partition)),
            None => *hand_over = Some(to),
        }
        Ok(Verdict::Applied)
    }

    pub(crate) fn complete_hand_over(
        &mut self,
        partition: PartitionId,
        to: HostId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.follower_at(partition, to, epoch)?;
        if self.partitions[number].hand_over != Some(to) {
            return Err(Refusal::HandOver(partition));
        }
        self.epoch = self.epoch.next();
        self.partitions[number].hand_over = None;
        self.partitions[number].lead(to, self.epoch, true);
        Ok(Verdict::Applied)
    }

    pub(crate) fn give_up_hand_over(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        if self.partitions[number].hand_over.take().is_none() {
            return Err(Refusal::HandOver(partition));
        }
        self.epoch = self.epoch.next();
        let leader = self.partitions[number].leader;
        self.partitions[number].lead(leader, self.epoch, false);
        Ok(Verdict::Applied)
    }

    pub(crate) fn move_leader(
        &mut self,
        partition: PartitionId,
        to: HostId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.follower_at(partition, to, epoch)?;
        self.epoch = self.epoch.next();
        self.partitions[number].hand_over = None;
        self.partitions[number].lead(to, self.epoch, false);
        Ok(Verdict::Applied)
    }

    pub(crate) fn move_coordinator(
        &mut self,
        to: HostId,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        if epoch != self.epoch || !self.is_formed() {
            return Err(Refusal::Stale);
        }
        // One without copies may have joined just now, and wait for the coordinator's catalog.
        let has_copy = self.partitions_of(to).next().is_some();
        if !self.serves(to) || !has_copy && to != self.coordinator {
            return Err(Refusal::NotServing(to));
        }
        // One that stays has an epoch, too: no move that was proposed before takes place after it.
        self.epoch = self.epoch.next();
        self.place_coordinator(to);
        Ok(Verdict::Applied)
    }
}

impl PartitionState {
    /// Begins an epoch of the partition.
    pub(crate) fn lead(&mut self, leader: HostId, epoch: Epoch, sealed: bool) {
        assert!(epoch > self.epoch, "the epoch of a partition only grows");
        if leader != self.leader && !sealed {
            self.handed_over_since = epoch;
        }
        self.previous = Some(Previous { epoch: self.epoch, leader: self.leader, sealed });
        self.leader = leader;
        self.epoch = epoch;
    }
}
