//! What must hold after every step, whatever happens to hosts and network.

use crate::world::World;
use lockstep_cluster::{
    ClusterId, Control, ControlEvent, Epoch, Event, PartitionState, ProposalId, ProposalOutcome,
};
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeMap;

/// A placement as all members that ever had its epoch must have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Placed {
    partitions: Vec<PartitionState>,
    coordinator: HostId,
}

#[derive(Debug, Default)]
pub struct Judge {
    pub seed: u64,
    placements: BTreeMap<(ClusterId, Epoch), Placed>,
    epochs: BTreeMap<HostId, Epoch>,
    /// What was seen, by name: seeds must reach the interesting states.
    pub seen: BTreeMap<&'static str, u64>,
    /// Proposals that came to their end, with the outcome.
    pub ended: Vec<(HostId, ProposalId, ProposalOutcome)>,
    /// Messages that were refused.
    pub refused: u64,
    /// Messages are damaged, so that some are refused.
    pub expects_refusals: bool,
}

impl Judge {
    pub fn new(seed: u64) -> Judge {
        Judge { seed, ..Judge::default() }
    }

    pub fn begin_life(&mut self, host: HostId) {
        self.epochs.remove(&host);
        self.saw("lives");
    }

    pub fn seen_acting(&mut self, _: HostId) {
        self.saw("acts");
    }

    pub fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub fn take_events(&mut self, host: HostId, control: &Control, events: &[ControlEvent]) {
        for event in events {
            match event {
                ControlEvent::Member(Event::PlacementChanged(_) | Event::StateChanged) => {
                    self.check_placement(host, control);
                }
                ControlEvent::Member(Event::LeaderChanged { leader: Some(_), .. }) => {
                    self.saw("leaders of the Raft group");
                }
                ControlEvent::Member(Event::Refused { reason, .. }) => {
                    let seed = self.seed;
                    assert!(
                        self.expects_refusals,
                        "seed {seed}: {host} refused a message: {reason}"
                    );
                    self.refused += 1;
                }
                ControlEvent::Member(Event::ProposalEnded { id, outcome }) => {
                    self.ended.push((host, *id, outcome.clone()));
                }
                ControlEvent::Member(Event::ClockOff(_)) => self.saw("greetings with clocks off"),
                ControlEvent::ClockOff(_) => self.saw("clocks that are off"),
                ControlEvent::Standing(_) => self.saw("changes of standing"),
                _ => {}
            }
        }
    }

    fn check_placement(&mut self, host: HostId, control: &Control) {
        let Some(state) = control.state() else { return };
        state.check_invariants();
        let seed = self.seed;
        let last = self.epochs.insert(host, state.epoch).unwrap_or_default();
        assert!(last <= state.epoch, "seed {seed}: host {host} went from epoch {last} back");
        let mut partitions = state.partitions.clone();
        partitions.iter_mut().for_each(|partition| partition.hand_over = None);
        let placed = Placed { partitions, coordinator: state.coordinator };
        let key = (state.id, state.epoch);
        if !self.placements.contains_key(&key) {
            self.saw("epochs");
        }
        let first = self.placements.entry(key).or_insert_with(|| placed.clone());
        assert_eq!(*first, placed, "seed {seed}: two placements in epoch {}", state.epoch);
        let Some(before) = self.placements.get(&(state.id, Epoch(state.epoch.0.saturating_sub(1))))
        else {
            return;
        };
        for (was, is) in before.partitions.iter().zip(&placed.partitions) {
            let leader = is.leader;
            assert!(was.copy_at(leader).is_some(), "seed {seed}: {leader} led without a copy");
            let added = is.copies.iter().filter(|copy| was.copy_at(copy.host).is_none());
            assert!(added.count() <= 1, "seed {seed}: copies appeared");
        }
    }

    /// What must hold at any moment of true time.
    pub fn check(&mut self, world: &World) {
        self.check_leases(world);
        self.check_clocks(world);
    }

    /// No two hosts hold the lease of a partition. A host that stands still counts: it would test
    /// its lease when it goes on.
    fn check_leases(&mut self, world: &World) {
        let mut holders: BTreeMap<PartitionId, HostId> = BTreeMap::new();
        for host in &world.hosts {
            let Some(control) = &host.control else { continue };
            let now_us = world.local(host).us;
            for partition in control.leases().led() {
                if !control.leases().holds(partition, now_us) {
                    continue;
                }
                if let Some(other) = holders.insert(partition, host.id) {
                    panic!(
                        "seed {}: at {} us, hosts {other} and {} hold the lease of partition \
                         {partition}",
                        self.seed, world.now_us, host.id
                    );
                }
            }
        }
        *self.seen.entry("leases held").or_default() += holders.len() as u64;
    }

    /// A host whose clock is off by more than the limit is connected with nobody.
    fn check_clocks(&mut self, world: &World) {
        let settled_us = world.now_us.saturating_sub(500_000);
        for host in &world.hosts {
            let (offset_us, since_us) = world.wall_offset(host);
            if offset_us <= 1_500_000 || since_us > settled_us {
                continue;
            }
            for other in world.hosts.iter().filter(|other| other.id != host.id) {
                let Some(control) = &other.control else { continue };
                let (other_us, _) = world.wall_offset(other);
                let now_us = world.local(other).us;
                // After a pause, heartbeats come that were sent when the clock was right.
                let paused = other.paused_until_us + 300_000 > world.now_us;
                let known = control.state().is_some_and(|state| state.is_formed());
                let connected = known && control.detector().is_connected(host.id, now_us);
                assert!(
                    other_us > 0 || paused || !connected,
                    "seed {}: {} accepts host {}, whose clock is off",
                    self.seed,
                    other.id,
                    host.id
                );
            }
        }
    }
}
