//! Copies that are to lead: they report what their logs have undecided, wait for the coordinator,
//! and apply the rest.

use super::calls::At;
use super::log::Held;
use super::replicas::{Changes, Copy, Replicas, Replicated};
use super::{Answer, Message, PartitionCall, World};
use lockstep_host::follower::{Applied, Led, Promotion};
use lockstep_host::partition::PartitionHost;
use lockstep_host::recovery::{EntrySources, LoggedChange};
use lockstep_site::{Numbered, PartitionEffect, ToPartition};
use lockstep_sql::Limits;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{FollowerStream, Takeover};
use lockstep_types::PartitionId;

/// A copy that is to lead.
pub(super) struct Promoting {
    pub(super) promotion: Promotion<PartitionCall, Answer, u64>,
    pub(super) version: u64,
    change: Option<LoggedChange>,
    pub(super) takeover: Takeover,
    /// What arrived for the partition, and waits until it has a leader.
    pub(super) waiting: Vec<Message>,
}

impl Promoting {
    pub(super) fn begin(
        copy: Copy,
        epoch: u64,
        takeover: Takeover,
    ) -> Result<(Promoting, FollowerStream), String> {
        let Copy { follower, version, change, stream, .. } = copy;
        let promotion = Promotion::begin(follower, epoch, version);
        let promotion = promotion.map_err(|error| error.to_string())?;
        Ok((Promoting { promotion, version, change, takeover, waiting: Vec::new() }, stream))
    }

    fn apply(&mut self, world: &World, changes: &Changes) -> Result<bool, String> {
        if let Some(change) = self.change.take() {
            let task = changes.get(&(change.catalog_version, change.source.clone()));
            let task = task.ok_or("a change of the catalog was not made")?;
            let changed = self.promotion.change_catalog(&change, task);
            changed.map_err(|error| error.to_string())?;
            self.version = change.catalog_version;
            return Ok(true);
        }
        let before = self.promotion.follower().applied();
        let sources = EntrySources {
            catalog: &world.catalogs[&self.version].host,
            limits: &Limits::default(),
            partition_count: world.ring.partition_count(),
        };
        let applied = world.natives.replay(|| self.promotion.run(&sources));
        if let Applied::Change(change) = applied.map_err(|error| error.to_string())? {
            self.change = Some(change);
        }
        Ok(self.promotion.follower().applied() > before || self.change.is_some())
    }
}

impl Replicas {
    /// A copy that is to lead applies more of what it has; false if there is nothing to be done.
    pub(super) fn apply_rest(
        &mut self,
        world: &World,
        partition: PartitionId,
    ) -> Result<bool, String> {
        let Some(promoting) = &mut self.partitions[partition.index()].promoting else {
            return Ok(false);
        };
        promoting.apply(world, &self.changes)
    }

    /// The partitions whose copies are to lead, and can.
    pub(super) fn ready(&self) -> Option<PartitionId> {
        let is_ready = |replicated: &Replicated| {
            replicated.promoting.as_ref().is_some_and(|promoting| promoting.promotion.is_ready())
        };
        let place = self.partitions.iter().position(is_ready);
        place.map(|place| PartitionId(place as u32))
    }

    /// What waits for leaders.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Message> {
        let promoting = self.partitions.iter().filter_map(|one| one.promoting.as_ref());
        promoting.flat_map(|promoting| &promoting.waiting)
    }

    /// Whether a partition has no leader.
    pub(super) fn is_promoting(&self, partition: PartitionId) -> bool {
        self.partitions[partition.index()].promoting.is_some()
    }

    /// Partitions whose copies are to lead.
    pub(super) fn promoting_count(&self) -> usize {
        self.partitions.iter().filter(|replicated| replicated.promoting.is_some()).count()
    }
}

impl World {
    /// A copy that is to lead goes on; false if none can.
    pub(super) fn step_promotions(&mut self) -> bool {
        let is_due = self.replicas.as_ref().is_some_and(|all| all.promoting_count() > 0);
        let Some(mut replicas) = self.replicas.take_if(|_| is_due) else { return false };
        let count = replicas.partitions.len() as u64;
        let first = replicas.random.below(count);
        let mut applied = false;
        for offset in 0..count {
            let partition = PartitionId(((first + offset) % count) as u32);
            match replicas.apply_rest(self, partition) {
                Ok(done) => applied |= done,
                Err(problem) => {
                    replicas.problem.get_or_insert(problem);
                }
            }
            if applied {
                break;
            }
        }
        let ready = replicas.ready();
        self.replicas = Some(replicas);
        if let Some(partition) = ready {
            self.begin_to_lead(partition);
        }
        applied || ready.is_some()
    }

    /// A copy leads: everything before its epoch is decided and applied.
    fn begin_to_lead(&mut self, partition: PartitionId) {
        let mut replicas = self.replicas.take().expect("there are copies");
        let replicated = replicas.of(partition);
        let promoting = replicated.promoting.take().expect("it was ready");
        let source = LogSource { epoch: replicated.stream.epoch(), incarnation: 1 };
        let (in_sync, version) = (promoting.takeover.in_sync(), promoting.version);
        let Led { mut site, effects, early } =
            promoting.promotion.lead(source, &in_sync, self.now_us);
        site.set_followed(!replicated.copies.is_empty());
        replicated.digest = None;
        self.replicas = Some(replicas);
        self.sites[partition.index()] = site;
        let mut at = At { world: self, partition };
        if at.world.versions[partition.index()] < version {
            at.partition_effect(PartitionEffect::CatalogInForce(version));
        }
        effects.into_iter().for_each(|effect| at.partition_effect(effect));
        self.in_flight.extend(early.into_iter().map(Message::ToPartition));
        self.in_flight.extend(promoting.waiting);
    }

    /// What arrives for a partition without a leader; gives back what does not concern that.
    pub(super) fn keep_for_leader(&mut self, message: Message) -> Option<Message> {
        let Some(replicas) = &mut self.replicas else { return Some(message) };
        let Some(partition) = message.partition() else { return Some(message) };
        let forgets = replicas.broken.forget_outcomes;
        let Some(promoting) = &mut replicas.of(partition).promoting else { return Some(message) };
        match message {
            Message::ToPartition(mut told) => {
                if let Numbered { message: ToPartition::Resolve { decisions, .. }, .. } = &mut told
                    && forgets
                {
                    *decisions = [].into();
                }
                promoting.promotion.take_message(told);
            }
            Message::Fence(_, epoch) => {
                if promoting.promotion.fence(epoch, true) {
                    self.send_report(partition);
                }
            }
            other => promoting.waiting.push(other),
        }
        None
    }

    /// The report of a copy that is to lead is sent when all copies in sync have its log.
    pub(super) fn send_report(&mut self, partition: PartitionId) {
        let replicas = self.replicas.as_mut().expect("there are copies");
        let replicated = replicas.of(partition);
        let promoting = replicated.promoting.as_ref().expect("a copy is to lead");
        let report = Message::FromPartition(promoting.promotion.report());
        let end = promoting.promotion.end();
        if let Some(held) = replicated.gate.pass(end, Held::Message(report)) {
            self.let_go(held);
        }
    }
}
