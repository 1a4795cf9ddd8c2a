//! The replicas that a thread owns, found by their partition.

use super::following::Following;
use super::gate::Gate;
use super::hand_over::Draining;
use super::loading::LoadingHere;
use super::opening::PendingOpening;
use super::{HostFacts, HostSite};
use crate::catalog::{HostCatalog, site_limits};
use crate::clock;
use crate::log::SiteLog;
use crate::options::MAX_PARTITIONS_PER_SITE;
use crate::statistics::ReplicaStatistics;
use lockstep_host::leading::Leading;
use lockstep_host::loading::CopyLoads;
use lockstep_host::placement::Placement;
use lockstep_txn::replica::ReplicaLimits;
use lockstep_types::{HostId, PartitionId, ReplicaId, ThreadId};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// A replica's position in the list of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u8);

/// In the list of slots by partition: another thread serves the partition.
const ELSEWHERE: u8 = u8::MAX;

const _: () = assert!(MAX_PARTITIONS_PER_SITE < ELSEWHERE as u64, "each replica has a slot");

impl Slot {
    /// The position as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// All slots that a thread can have, in order.
    pub(crate) fn all() -> impl Iterator<Item = Slot> {
        (0..ELSEWHERE).map(Slot)
    }
}

/// Replicas of one thread, as a small set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slots(u32);

const _: () = assert!(MAX_PARTITIONS_PER_SITE <= u32::BITS as u64, "each slot has a bit");

impl Slots {
    /// Adds a replica.
    #[inline]
    pub(super) fn add(&mut self, slot: Slot) {
        self.0 |= 1 << slot.0;
    }

    /// Whether there is one.
    #[inline]
    pub(super) fn has_any(self) -> bool {
        self.0 != 0
    }

    /// Empties the set, and gives what was in it.
    #[inline]
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Slot> + use<> {
        let mut left = std::mem::take(&mut self.0);
        std::iter::from_fn(move || {
            let slot = (left != 0).then(|| Slot(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            slot
        })
    }
}

/// A replica with what belongs to it at its thread.
pub(super) struct Replica {
    /// The partition's data under its initiator.
    pub(super) site: HostSite,
    /// Its end of the command log, if there is one.
    pub(super) log: Option<SiteLog>,
    /// What waits for the log.
    pub(super) gate: Gate,
    /// What is counted of it.
    pub(super) statistics: ReplicaStatistics,
    /// Its stream to its copies, if it is led here and partitions have copies.
    pub(super) leading: Option<Box<Leading>>,
    /// It is led elsewhere: `site` is empty, and its data is here.
    pub(super) following: Option<Box<Following>>,
    /// It is to be led here, and not ready for that yet.
    pub(super) opening: Option<Box<PendingOpening>>,
    /// It is led here, and is to be led elsewhere.
    pub(super) draining: Option<Box<Draining>>,
    /// It is led elsewhere, has no data yet, and is being loaded.
    pub(super) learning: Option<Box<LoadingHere>>,
    /// It is led here: the copies that are loaded from it.
    pub(super) loads: CopyLoads,
}

impl Replica {
    /// A partition that is led here.
    fn leading(
        (facts, placement): (&HostFacts, &Placement),
        (mut site, log): (HostSite, Option<SiteLog>),
        host: HostId,
        catalog: &HostCatalog,
    ) -> Replica {
        let partition = site.partition();
        site.set_stopwatch(clock::stopwatch_for(&facts.callers), clock::monotonic_ns);
        let limits = replica_limits(facts);
        let leading = placement.is_replicated().then(|| {
            let leading = Leading::first((partition, site.log_sequence()), placement, limits);
            Box::new(leading.with_reads_at_copies(facts.options.follower_reads.is_on()))
        });
        // Where the partitions of other hosts are brought back elsewhere, a log has what they gave.
        site.set_followed(leading.is_some() || log.is_some() && placement.hosts().count() > 1);
        // The digest of changes tells its position in the log.
        let is_read = log.is_some() || leading.is_some() || facts.options.replica_digests.is_on();
        site.set_log_kept(is_read);
        if placement.is_replicated() {
            site.remember_outcomes(site_limits(&facts.options).outcomes_kept());
            let threads = placement.followers_of(partition).iter();
            let in_sync: Vec<HostId> = threads.map(|thread| thread.host()).chain([host]).collect();
            site.continue_in_epoch(placement.epoch_of(partition), &in_sync, clock::now_us());
        }
        let followers = leading.as_ref().map(|leading| leading.stream.followers().collect());
        Replica {
            site,
            gate: Gate::new(host, log.as_ref(), followers),
            log,
            statistics: ReplicaStatistics::new(catalog),
            leading,
            following: None,
            opening: None,
            draining: None,
            learning: None,
            loads: CopyLoads::default(),
        }
    }

    /// Its data, whether it is led here or not.
    pub(super) fn data(&self) -> &HostSite {
        match (&self.following, &self.opening) {
            (Some(following), _) => following.follower.site(),
            (None, Some(opening)) => opening.site(),
            (None, None) => &self.site,
        }
    }

    /// Its data for a step of a snapshot; none while it comes to be led here.
    pub(super) fn saved_site(&mut self) -> Option<&mut HostSite> {
        match (&mut self.following, &self.opening) {
            (Some(following), _) => Some(following.follower.saved_site()),
            (None, Some(_)) => None,
            (None, None) => Some(&mut self.site),
        }
    }

    /// Whose copy it is.
    pub(super) fn partition(&self) -> PartitionId {
        self.site.partition()
    }

    /// A partition that is led elsewhere, of which a copy is to be loaded here.
    pub(super) fn learning(
        facts: &HostFacts,
        placed: ReplicaId,
        catalog: &Arc<HostCatalog>,
    ) -> Replica {
        Replica {
            learning: Some(Box::new(LoadingHere::default())),
            ..Replica::given_up(facts, placed.partition, placed.host, catalog)
        }
    }

    /// A copy that does not count, without data.
    pub(super) fn given_up(
        facts: &HostFacts,
        partition: PartitionId,
        host: HostId,
        catalog: &Arc<HostCatalog>,
    ) -> Replica {
        let site = HostSite::new(partition, facts.ring.clone(), &site_limits(&facts.options));
        Replica::following(facts, site, host, catalog)
    }

    /// A partition that is led elsewhere.
    fn following(
        facts: &HostFacts,
        mut site: HostSite,
        host: HostId,
        catalog: &Arc<HostCatalog>,
    ) -> Replica {
        let limits = site_limits(&facts.options);
        site.remember_outcomes(limits.outcomes_kept());
        let empty = HostSite::new(site.partition(), facts.ring.clone(), &limits);
        let backlog_bytes = facts.options.max_copy_backlog_bytes.to_usize();
        Replica {
            site: empty,
            log: None,
            gate: Gate::new(host, None, None),
            statistics: ReplicaStatistics::new(catalog),
            leading: None,
            following: Some(Box::new(Following::new(site, Arc::clone(catalog), backlog_bytes))),
            opening: None,
            draining: None,
            learning: None,
            loads: CopyLoads::default(),
        }
    }
}

/// The limits of streams to copies.
pub(super) fn replica_limits(facts: &HostFacts) -> ReplicaLimits {
    ReplicaLimits { unreceived_bytes: facts.options.max_unreceived_bytes.to_usize() }
}

/// The replicas of a thread: one at least. A thread to which the placement gives none has an empty
/// copy that does not count, as where a copy went out of sync.
pub(super) struct Replicas {
    owned: Box<[Replica]>,
    /// By partition that is led here, its slot; else [`ELSEWHERE`].
    slots: Box<[u8]>,
    /// By partition that has a copy here, led or not, its slot.
    slots_of_copies: Box<[u8]>,
    /// Copies with something to apply.
    pub(super) copies_to_apply: Slots,
}

impl Replicas {
    /// The replicas that the placement gives to a thread: first those that it leads, then those
    /// that it follows, as they were `recovered`, each with its end of the command log, and then
    /// those that are to be loaded.
    pub(super) fn new(
        (facts, placement): (&HostFacts, &Placement),
        thread: ThreadId,
        recovered: Vec<(HostSite, Option<SiteLog>)>,
        catalog: &Arc<HostCatalog>,
    ) -> Replicas {
        let (led, followed) = (placement.led_by(thread), placement.followed_by(thread));
        let learned = placement.learned_by(thread);
        let count = led.len() + followed.len();
        assert_eq!(count, recovered.len(), "a thread gets the replicas that it owns");
        if count == 0 && learned.is_empty() {
            return Replicas::without_copies((facts, placement), catalog);
        }
        let mut slots = vec![ELSEWHERE; facts.partition_count as usize].into_boxed_slice();
        let mut slots_of_copies = slots.clone();
        for (slot, replica) in Slot::all().zip(led.iter().chain(followed).chain(learned)) {
            slots_of_copies[replica.partition.index()] = slot.0;
            if (slot.index()) < led.len() {
                slots[replica.partition.index()] = slot.0;
            }
        }
        let own = |((site, log), placed): ((HostSite, Option<SiteLog>), &ReplicaId)| {
            assert_eq!(site.partition(), placed.partition, "replicas come in their order");
            match slots[placed.partition.index()] {
                ELSEWHERE => Replica::following(facts, site, placed.host, catalog),
                _ => Replica::leading((facts, placement), (site, log), placed.host, catalog),
            }
        };
        let placed = led.iter().chain(followed);
        let to_load = learned.iter().map(|placed| Replica::learning(facts, *placed, catalog));
        let owned = recovered.into_iter().zip(placed).map(own).chain(to_load).collect();
        Replicas { owned, slots, slots_of_copies, copies_to_apply: Slots::default() }
    }

    /// Of a thread without a copy, where one may be loaded later: its first slot has a replica
    /// without data, of a partition that has no copy at this host.
    fn without_copies(
        (facts, placement): (&HostFacts, &Placement),
        catalog: &Arc<HostCatalog>,
    ) -> Replicas {
        let host = placement.host();
        let is_here = |partition: &PartitionId| {
            let followers = placement.followers_of(*partition).iter();
            let copies = followers.chain(placement.learning_of(*partition));
            copies.copied().chain([placement.leader_of(*partition)]).any(|it| it.host() == host)
        };
        let partition = (0..facts.partition_count).map(PartitionId).find(|it| !is_here(it));
        let partition = partition.expect("a host with a free site lacks a partition");
        let mut slots_of_copies = vec![ELSEWHERE; facts.partition_count as usize];
        slots_of_copies[partition.index()] = 0;
        Replicas {
            owned: Box::new([Replica::given_up(facts, partition, host, catalog)]),
            slots: vec![ELSEWHERE; facts.partition_count as usize].into(),
            slots_of_copies: slots_of_copies.into(),
            copies_to_apply: Slots::default(),
        }
    }

    /// The slot of a partition with a copy here.
    #[inline]
    pub(super) fn slot_of_copy(&self, partition: PartitionId) -> Slot {
        let slot = self.slots_of_copies[partition.index()];
        assert_ne!(slot, ELSEWHERE, "copies stay at their site");
        Slot(slot)
    }

    /// Whether a partition has a copy here.
    pub(super) fn has_copy(&self, partition: PartitionId) -> bool {
        self.slots_of_copies[partition.index()] != ELSEWHERE
    }

    /// The slot for another copy: that of the partition itself, or of one that has no copy here any
    /// more. None if it needs one more.
    pub(super) fn slot_for_copy(
        &self,
        partition: PartitionId,
        is_gone: impl Fn(PartitionId) -> bool,
    ) -> Option<Slot> {
        match self.has_copy(partition) {
            true => Some(self.slot_of_copy(partition)),
            false => self.slots().find(|slot| is_gone(self[*slot].partition())),
        }
    }

    /// Another copy, which is led elsewhere, gets a slot: that of an older one, or a new one.
    pub(super) fn place(&mut self, slot: Option<Slot>, replica: Replica) {
        let partition = replica.partition();
        let slot = match slot {
            Some(slot) => {
                let before = std::mem::replace(&mut self[slot], replica).partition();
                self.slots[before.index()] = ELSEWHERE;
                self.slots_of_copies[before.index()] = ELSEWHERE;
                slot
            }
            None => {
                let mut owned = std::mem::take(&mut self.owned).into_vec();
                let slot = Slot::all().nth(owned.len()).expect("a thread has few replicas");
                owned.push(replica);
                self.owned = owned.into();
                slot
            }
        };
        self.slots_of_copies[partition.index()] = slot.0;
        assert!(self.has_copy(partition) && self.slot_of(partition).is_none(), "it follows");
    }

    /// The copy in a slot leads from now on.
    pub(super) fn lead(&mut self, slot: Slot) {
        let partition = self[slot].site.partition();
        self.slots[partition.index()] = slot.0;
    }

    /// A partition is led elsewhere from now on.
    pub(super) fn follow(&mut self, partition: PartitionId) {
        self.slots[partition.index()] = ELSEWHERE;
    }

    /// Whether a partition is led here.
    pub(super) fn has_leaders(&self) -> bool {
        self.slots.iter().any(|slot| *slot != ELSEWHERE)
    }

    /// The slot of a partition, if this thread serves it.
    #[inline]
    pub(super) fn slot_of(&self, partition: PartitionId) -> Option<Slot> {
        let slot = self.slots[partition.index()];
        (slot != ELSEWHERE).then_some(Slot(slot))
    }

    /// Whether answers wait until what they depend on is durable.
    pub(super) fn gate_answers(&self) -> bool {
        self.owned.iter().any(Replica::gates_answers)
    }

    /// The partition of the first one that is led here; any where none is.
    #[inline]
    pub(super) fn near(&self) -> PartitionId {
        match &self.owned[0] {
            Replica { following: None, site, .. } => site.partition(),
            _ => PartitionId(0),
        }
    }

    /// Number of replicas.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.owned.len()
    }

    /// The slots, in order.
    #[inline]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        Slot::all().take(self.owned.len())
    }

    /// The first one: what a thread does for no partition is done there.
    #[inline]
    pub(super) fn first(&mut self) -> &mut Replica {
        &mut self.owned[0]
    }

    #[inline]
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Replica> {
        self.owned.iter()
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Replica> {
        self.owned.iter_mut()
    }
}

impl Index<Slot> for Replicas {
    type Output = Replica;

    #[inline]
    fn index(&self, slot: Slot) -> &Replica {
        &self.owned[slot.index()]
    }
}

impl IndexMut<Slot> for Replicas {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Replica {
        &mut self.owned[slot.index()]
    }
}
