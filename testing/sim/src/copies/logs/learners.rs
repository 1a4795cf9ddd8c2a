//! Hosts whose copies do not count: they come back, load their data again, and come in sync.

use super::{Host, Learning, Logs, PREFIX, Role};
use crate::copies::Link;
use crate::copies::logs::CLUSTER;
use crate::copies::logs::store::Store;
use lockstep_durability::command_log::LogEnd;
use lockstep_durability::directory::rejoin;
use lockstep_host::recovery::assembly::{PlaceAmongServing, place_among_serving};
use lockstep_txn::replica::{FollowerStream, Receipts};
use lockstep_types::HostId;

impl Logs {
    /// Whether a partition's leader serves in the epoch of the placement.
    fn serves(&self) -> bool {
        let leader = &self.hosts[self.placement.leader];
        matches!(&leader.role, Role::Leader(leader) if leader.stream.epoch() == self.placement.epoch
            && !leader.stream.is_sealed())
    }

    /// A host that is not in sync goes a step further on its way back.
    pub(super) fn attend(&mut self, number: usize) -> Result<(), String> {
        if self.hosts[number].is_cut_off || !self.serves() {
            return Ok(());
        }
        let id = HostId(number as u32);
        let is_placed = self.hosts[number].role.epoch() == Some(self.placement.epoch);
        match &self.hosts[number].role {
            Role::Down => {
                let place = place_among_serving(id, &self.hosts[number].known, &self.placed());
                // While it is a host of the cluster, it counts for other partitions.
                let is_up = self.placement.up.contains(&id);
                if place == PlaceAmongServing::Out && !is_up {
                    self.join(number)?;
                }
            }
            Role::Waiting => self.load(number),
            Role::Leader(_) | Role::Follower(_) if !is_placed => {
                // The placement went on without it.
                match self.keeps_logs {
                    true => self.discard(number),
                    false => self.cut_one(number),
                }
            }
            Role::Follower(_) if self.hosts[number].learning.is_some() => {
                return self.attend_learner(number);
            }
            Role::Leader(_) | Role::Follower(_) => {}
        }
        Ok(())
    }

    /// A host that is out gives up its directory's data, and begins without.
    pub(super) fn join(&mut self, number: usize) -> Result<(), String> {
        let (disk, placed) = (self.disk(number), self.placed());
        let last_run = self.hosts[number].incarnation;
        let begun = rejoin::begin(&*disk, (PREFIX, CLUSTER), last_run);
        begun.map_err(|error| error.to_string())?;
        self.report.gave_up_data += 1;
        let (settings, faults) = (self.settings(), self.broken.log);
        let host = &mut self.hosts[number];
        host.store = Some(Store::open(disk, settings, (LogEnd::default(), 0), faults)?);
        host.incarnation += 1;
        (host.role, host.known, host.is_joining) = (Role::Waiting, placed, true);
        Ok(())
    }

    /// A copy does not count any more: its memory is discarded, and its log stays.
    pub(super) fn discard(&mut self, number: usize) {
        let placed = self.placed();
        let host = &mut self.hosts[number];
        (host.role, host.learning, host.known) = (Role::Waiting, None, placed);
        host.log.clear();
        self.sealed.remove(&number);
        self.links.retain(|(from, to), _| *from != number && *to != number);
    }

    /// A copy gets the data of its leader, beside its log.
    fn load(&mut self, number: usize) {
        let from = self.placement.leader;
        self.attempts += 1;
        let learning = Learning { attempt: self.attempts, is_kept: false };
        let incarnation = self.hosts[number].incarnation;
        let Host { role: Role::Leader(leader), log, .. } = &mut self.hosts[from] else { return };
        let id = HostId(number as u32);
        if leader.stream.drop_learner(id) {
            leader.gate.copies().drop_copy(id);
        }
        let (end, history) = leader.stream.begin_learner(id, incarnation);
        leader.stream.note_loaded(id);
        let (epoch, data) = (leader.stream.epoch(), log[..end as usize].to_vec());
        let mut copy = FollowerStream::new(epoch, end, history, Receipts::WhenDurable);
        copy.inject(self.broken.streams);
        let host = &mut self.hosts[number];
        host.store.as_mut().expect("it runs").restart(end);
        (host.role, host.log) = (Role::Follower(Box::new(copy)), data);
        host.learning = Some(learning);
        self.links.insert((from, number), Link::default());
        self.report.loaded += 1;
        self.send(from);
    }

    /// A copy that has its data counts once they are kept, and is taken in sync when it has all.
    fn attend_learner(&mut self, number: usize) -> Result<(), String> {
        let is_kept = self.hosts[number].learning.is_some_and(|learning| learning.is_kept);
        let id = HostId(number as u32);
        if !is_kept && self.random.chance(1, 2) {
            // Its host asks for a snapshot that has its data.
            self.save_all();
        }
        let Role::Leader(leader) = &mut self.hosts[self.placement.leader].role else {
            return Ok(());
        };
        if (is_kept || self.broken.count_unkept)
            && let Some(position) = leader.stream.count_learner(id)
        {
            let safe = leader.gate.safe();
            leader.gate.copies().add_copy(id, position.max(safe));
        }
        // The control plane decides that with a majority, which its leader is part of here.
        let is_due = leader.stream.is_in_sync_due(id).is_some();
        if is_due && !self.hosts[self.placement.leader].is_cut_off {
            self.placement.in_sync.push(id);
            self.report.in_sync_again += 1;
            self.change_epoch()?;
        }
        Ok(())
    }

    /// A host is lost whose copy was being loaded.
    pub(super) fn forget_learner(&mut self, number: usize) {
        let (id, from) = (HostId(number as u32), self.placement.leader);
        if self.hosts[number].learning.is_none() || from == number {
            return;
        }
        if let Role::Leader(leader) = &mut self.hosts[from].role
            && leader.stream.drop_learner(id)
        {
            leader.gate.copies().drop_copy(id);
            self.send(from);
        }
    }
}
