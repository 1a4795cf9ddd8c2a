//! The replicas that a thread owns, found by their partition.

use super::gate::Gate;
use super::{HostFacts, HostSite};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::log::SiteLog;
use crate::options::MAX_PARTITIONS_PER_SITE;
use crate::statistics::ReplicaStatistics;
use lockstep_host::placement::Placement;
use lockstep_types::{PartitionId, ReplicaId, ThreadId};
use std::ops::{Index, IndexMut};

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
}

/// The replicas of a thread: one at least.
pub(super) struct Replicas {
    owned: Box<[Replica]>,
    /// By partition, its slot here or [`ELSEWHERE`].
    slots: Box<[u8]>,
}

impl Replicas {
    /// The replicas that the placement gives to a thread, in its order, each with its end of the
    /// command log.
    pub(super) fn new(
        (facts, placement): (&HostFacts, &Placement),
        thread: ThreadId,
        recovered: Vec<(HostSite, Option<SiteLog>)>,
        catalog: &HostCatalog,
    ) -> Replicas {
        let placed = placement.led_by(thread);
        assert_eq!(placed.len(), recovered.len(), "a thread gets the replicas that it owns");
        assert!(!placed.is_empty(), "a thread owns a replica at least");
        let mut slots = vec![ELSEWHERE; facts.partition_count as usize].into_boxed_slice();
        for (slot, replica) in Slot::all().zip(placed) {
            slots[replica.partition.index()] = slot.0;
        }
        let own = |((mut site, log), placed): ((HostSite, Option<SiteLog>), &ReplicaId)| {
            assert_eq!(site.partition(), placed.partition, "replicas come in their order");
            site.set_stopwatch(clock::stopwatch_for(&facts.callers), clock::monotonic_ns);
            let statistics = ReplicaStatistics::new(catalog);
            let gate = Gate::new(placed.host, log.as_ref());
            Replica { site, log, gate, statistics }
        };
        Replicas { owned: recovered.into_iter().zip(placed).map(own).collect(), slots }
    }

    /// The slot of a partition, if this thread serves it.
    #[inline]
    pub(super) fn slot_of(&self, partition: PartitionId) -> Option<Slot> {
        let slot = self.slots[partition.index()];
        (slot != ELSEWHERE).then_some(Slot(slot))
    }

    /// The slot of a partition that this thread serves.
    #[inline]
    pub(super) fn slot_here(&self, partition: PartitionId) -> Slot {
        self.slot_of(partition).expect("senders ask the placement who serves a partition")
    }

    /// Whether answers wait until what they depend on is durable.
    pub(super) fn gate_answers(&self) -> bool {
        self.owned.iter().any(Replica::gates_answers)
    }

    /// The partition of the first one.
    #[inline]
    pub(super) fn near(&self) -> PartitionId {
        self.owned[0].site.partition()
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
