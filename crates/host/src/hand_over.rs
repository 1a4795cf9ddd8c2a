//! Leaders that are moved on purpose.
//!
//! What the control plane has begun ([`moves_of`]) every host learns. The coordinator then begins
//! nothing more and, when what it has in progress has ended, notifies the leader of each partition
//! that is to move ([`MovesAtCoordinator`]). The leader lets calls wait until all copies have
//! everything that it logged, and seals its stream ([`Leading::drained`]). Its control plane
//! gives up its lease, and only then is the move completed: the next epoch is led by the other
//! host, to which the calls that waited go.
//!
//! Each of these steps ends with an epoch of the partition, whatever happens: with the one that the
//! move begins, with one that gives it up, or with one in which a host is lost. So nobody has to
//! undo what another one was asked for.
//!
//! The coordinator moves in a simpler way ([`CoordinatorMove`]): it begins nothing more, and when
//! nothing is in progress the control plane is asked for an epoch in which it is at another host.
//! That one takes over as from a coordinator that is lost, so it does not depend on what the one
//! before has seen. The calls that waited go back to the threads where they came in.

use crate::leading::Leading;
use crate::placement::Placement;
use lockstep_cluster::{ClusterState, Command, Epoch};
use lockstep_site::Site;
use lockstep_txn::replica::HandOver;
use lockstep_types::{HostId, PartitionId};

/// A leader that is to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedMove {
    /// Of which partition.
    pub partition: PartitionId,
    /// The host that is to lead.
    pub to: HostId,
    /// The partition's epoch until then.
    pub epoch: u32,
}

/// The moves that have begun, by partition.
pub fn moves_of(state: &ClusterState) -> Vec<PlannedMove> {
    let numbered = (0..).map(PartitionId).zip(&state.partitions);
    let planned = numbered.filter_map(|(partition, placed)| {
        let epoch = u32::try_from(placed.epoch.0).expect("a cluster changes less than 2^32 times");
        placed.hand_over.map(|to| PlannedMove { partition, to, epoch })
    });
    planned.collect()
}

/// The host that is to have the coordinator in place of another one: of those that are up and have
/// copies, the one with the lowest number.
pub fn next_coordinator(state: &ClusterState, host: HostId) -> Option<HostId> {
    let has_copy = |other: &HostId| state.partitions_of(*other).next().is_some();
    let mut others = state.hosts.keys().copied().filter(|other| *other != host);
    others.find(|other| state.serves(*other) && has_copy(other))
}

/// Between two proposals of the same move of the coordinator, microseconds: one may be lost.
const PROPOSE_AGAIN_US: i64 = 200_000;

/// The move of the coordinator to another host.
#[derive(Debug)]
struct CoordinatorMove {
    to: HostId,
    /// The epoch of the cluster in which it was proposed, and when that was done last. It may
    /// take place until the cluster has another epoch.
    proposed: Option<(u64, i64)>,
    /// It is not wanted any more.
    is_given_up: bool,
}

/// The coordinator's part.
#[derive(Debug, Default)]
pub struct MovesAtCoordinator {
    moves: Vec<PlannedMove>,
    /// Those whose leader was not notified yet.
    unnotified: Vec<PlannedMove>,
    /// Partitions that have moved, their new leaders, and the first epoch of the stream to those:
    /// they have not reported yet, and what was sent to them before would be undone.
    moved: Vec<(PartitionId, HostId, u64)>,
    /// The coordinator itself is to move.
    own: Option<CoordinatorMove>,
}

impl MovesAtCoordinator {
    /// These have begun, and none else, in the placement that is in force.
    pub fn set(&mut self, moves: &[PlannedMove], placement: &Placement) {
        let is_over = |planned: &&PlannedMove| {
            let epoch = placement.epoch_of(planned.partition);
            let leader = placement.leader_of(planned.partition).host();
            !moves.contains(planned) && epoch > planned.epoch && leader == planned.to
        };
        let ended = self.moves.iter().filter(is_over);
        self.moved.extend(ended.map(|planned| {
            let epoch = placement.epoch_of(planned.partition);
            (planned.partition, planned.to, u64::from(epoch))
        }));
        let is_new = |planned: &&PlannedMove| !self.moves.contains(planned);
        let mut unnotified: Vec<PlannedMove> = moves.iter().filter(is_new).copied().collect();
        self.unnotified.retain(|planned| moves.contains(planned));
        self.unnotified.append(&mut unnotified);
        self.moves = moves.to_vec();
    }

    /// Another coordinator has notified leaders, or none: this one, which hears of all partitions
    /// before it begins anything, notifies them again.
    pub fn forget_notified(&mut self) {
        self.unnotified.clone_from(&self.moves);
        self.moved.clear();
        self.own = None;
        assert!(self.moved.is_empty(), "a coordinator begins with the reports of all partitions");
    }

    /// The streams to partitions are of these epochs, in the placement that is in force: whether
    /// something may begin again since this was asked last.
    pub fn note_streams(
        &mut self,
        stream_epoch_of: impl Fn(PartitionId) -> u64,
        placement: &Placement,
    ) -> bool {
        let were_awaited = !self.moved.is_empty();
        // One that is lost before it has reported leaves that to another one, or to the leader
        // before, which may not have heard that it led no more, and then has nothing to report.
        self.moved.retain(|(partition, to, epoch)| {
            placement.leader_of(*partition).host() == *to && stream_epoch_of(*partition) < *epoch
        });
        were_awaited && !self.hold_back()
    }

    /// Whether nothing begins.
    pub fn hold_back(&self) -> bool {
        self.own.is_some() || self.do_leaders_move()
    }

    fn do_leaders_move(&self) -> bool {
        !self.moves.is_empty() || !self.moved.is_empty()
    }

    /// The coordinator is to move to another host. It begins nothing from now on.
    pub fn move_coordinator(&mut self, to: HostId) {
        let proposed = self.own.take().and_then(|before| before.proposed);
        self.own = Some(CoordinatorMove { to, proposed, is_given_up: false });
        assert!(self.hold_back(), "a coordinator that is to move begins nothing");
    }

    /// Whether the coordinator is to move, or may have moved: no change of the schema begins.
    pub fn is_coordinator_moving(&self) -> bool {
        self.own.is_some()
    }

    /// The coordinator is to stay, in the epoch that the cluster has as far as is known here. Where
    /// the move was proposed in it, whether it takes place shows with the next epoch, which the
    /// coordinator asks and waits for: what began before would be undone.
    pub fn keep_coordinator(&mut self, epoch: u64) {
        let Some(own) = &mut self.own else { return };
        own.is_given_up = true;
        if own.proposed.is_none_or(|(proposed, _)| proposed != epoch) {
            self.own = None;
        }
        assert!(self.own.as_ref().is_none_or(|own| own.is_given_up), "nobody wants the move");
    }

    /// Another placement is in force, in which the coordinator is here or not. What was proposed
    /// before is void. True if something may begin again.
    pub fn follow_placement(&mut self, is_here: bool) -> bool {
        let Some(own) = &mut self.own else { return false };
        own.proposed = None;
        if !is_here || own.is_given_up {
            self.own = None;
        }
        assert!(self.own.as_ref().is_none_or(|own| own.proposed.is_none()), "it is void");
        is_here && !self.hold_back()
    }

    /// Nothing is in progress: what is to be proposed now to move the coordinator, which waits
    /// until leaders have moved. One that is to stay after all asks for an epoch in which it is
    /// here: the host to which it was to move may be lost, and then none follows by itself.
    pub fn coordinator_proposal(&mut self, placement: &Placement, now_us: i64) -> Option<Command> {
        let may_propose = !self.do_leaders_move();
        let own = self.own.as_mut().filter(|_| may_propose)?;
        let epoch = placement.epoch();
        let waits =
            |(proposed, at_us): (u64, i64)| proposed == epoch && now_us < at_us + PROPOSE_AGAIN_US;
        if own.proposed.is_some_and(waits) {
            return None;
        }
        own.proposed = Some((epoch, now_us));
        let to = if own.is_given_up { placement.host() } else { own.to };
        Some(Command::MoveCoordinator { to, epoch: Epoch(epoch) })
    }

    /// Whether the end of a transaction, or a report, may be what is waited for.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.hold_back()
    }

    /// Whether leaders are to be notified when nothing is in progress any more.
    #[inline]
    pub fn await_quiet(&self) -> bool {
        !self.unnotified.is_empty()
    }

    /// Nothing is in progress: the leaders that are to be notified now. Where `epoch_of` does not
    /// give the epoch of the move, this host does not know its placement yet.
    pub fn take_due(&mut self, epoch_of: impl Fn(PartitionId) -> u32) -> Vec<PlannedMove> {
        let is_due = |planned: &PlannedMove| epoch_of(planned.partition) >= planned.epoch;
        let (due, later) = self.unnotified.drain(..).partition(is_due);
        self.unnotified = later;
        due
    }
}

impl Leading {
    /// A move of this leader begins: none if the copy there is not in sync, or the stream is of
    /// another epoch.
    pub fn begin_hand_over(&self, planned: &PlannedMove) -> Option<HandOver> {
        let is_current = self.stream.epoch() == planned.epoch;
        is_current.then(|| HandOver::begin(planned.to, &self.stream)).flatten()
    }

    /// A leader is to be moved, and takes no calls: seals its stream when nothing is in progress
    /// here, and all copies have everything. `safe` is what they have, `is_idle` that no answer
    /// waits for more. True when it has just been sealed.
    pub fn drained<H, A, C: Clone>(
        &mut self,
        hand_over: &mut HandOver,
        site: &Site<H, A, C>,
        (safe, is_idle): (u64, bool),
    ) -> bool {
        let is_logged = site.waiting_log_bytes() == 0;
        let is_quiet = site.is_idle() && is_logged && is_idle && safe >= self.stream.end();
        hand_over.advance(is_quiet, &mut self.stream).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{ClusterPlacement, PartitionPlacement};
    use lockstep_types::ThreadId;

    /// Two partitions, led by these hosts in these epochs.
    fn placed(partitions: [(u32, u32); 2]) -> Placement {
        placed_in(9, partitions)
    }

    fn placed_in(epoch: u64, partitions: [(u32, u32); 2]) -> Placement {
        let partition = |(leader, epoch): (u32, u32)| PartitionPlacement {
            epoch,
            leader: ThreadId::at(HostId(leader), 0),
            followers: vec![ThreadId::at(HostId(1 - leader), 0)],
            learning: Vec::new(),
            handed_over_since: 1,
        };
        let cluster = ClusterPlacement {
            hosts: 2,
            sites: 1,
            copies: 2,
            up: vec![(HostId(0), 1), (HostId(1), 1)],
            epoch,
            coordinator: HostId(0),
            coordinator_since: 1,
            partitions: partitions.into_iter().map(partition).collect(),
        };
        Placement::of_cluster(HostId(0), &cluster)
    }

    fn planned(partition: u32, epoch: u32) -> PlannedMove {
        PlannedMove { partition: PartitionId(partition), to: HostId(1), epoch }
    }

    #[test]
    fn each_leader_is_notified_once_by_each_coordinator_and_not_before_its_epoch_is_known() {
        let placement = placed([(0, 3), (0, 5)]);
        let mut moves = MovesAtCoordinator::default();
        assert!(!moves.hold_back() && !moves.await_quiet());
        moves.set(&[planned(0, 3), planned(1, 5)], &placement);
        assert!(moves.hold_back() && moves.await_quiet());
        assert_eq!(moves.take_due(|_| 4), [planned(0, 3)]);
        moves.set(&[planned(0, 3), planned(1, 5)], &placement);
        assert_eq!(moves.take_due(|_| 5), [planned(1, 5)], "the other one was notified");
        moves.set(&[planned(1, 5)], &placement);
        assert!(moves.hold_back() && !moves.await_quiet());
        moves.forget_notified();
        assert_eq!(moves.take_due(|_| 5), [planned(1, 5)]);
        moves.set(&[], &placement);
        assert!(!moves.hold_back(), "both were given up");
    }

    fn proposal(to: u32, epoch: u64) -> Option<Command> {
        Some(Command::MoveCoordinator { to: HostId(to), epoch: Epoch(epoch) })
    }

    #[test]
    fn a_coordinator_that_is_to_move_begins_nothing_until_it_is_elsewhere() {
        let in_epoch = |epoch| placed_in(epoch, [(0, 3), (0, 5)]);
        let (seventh, eighth) = (in_epoch(7), in_epoch(8));
        let mut moves = MovesAtCoordinator::default();
        assert_eq!(moves.coordinator_proposal(&seventh, 0), None, "nobody wants it");
        moves.move_coordinator(HostId(1));
        assert!(moves.hold_back() && moves.is_any());
        moves.set(&[planned(0, 3)], &seventh);
        assert_eq!(moves.coordinator_proposal(&seventh, 0), None, "a leader moves first");
        moves.set(&[], &seventh);
        assert_eq!(moves.coordinator_proposal(&seventh, 0), proposal(1, 7));
        assert_eq!(moves.coordinator_proposal(&seventh, 100_000), None, "it is on its way");
        assert_eq!(moves.coordinator_proposal(&seventh, 200_000), proposal(1, 7), "or lost");
        assert!(!moves.follow_placement(true) && moves.hold_back(), "another change was first");
        assert_eq!(moves.coordinator_proposal(&eighth, 200_001), proposal(1, 8));
        assert!(!moves.follow_placement(false) && !moves.hold_back(), "it is elsewhere");
    }

    #[test]
    fn a_coordinator_that_may_have_moved_asks_for_an_epoch_in_which_it_stays() {
        let seventh = placed_in(7, [(0, 3), (0, 5)]);
        let mut moves = MovesAtCoordinator::default();
        moves.move_coordinator(HostId(1));
        moves.keep_coordinator(7);
        assert!(!moves.hold_back(), "nothing was proposed");
        moves.move_coordinator(HostId(1));
        assert_eq!(moves.coordinator_proposal(&seventh, 0), proposal(1, 7));
        moves.keep_coordinator(7);
        assert!(moves.hold_back(), "the move may take place");
        // Host 1 may be lost, and then the move never ends by itself.
        assert_eq!(moves.coordinator_proposal(&seventh, 200_000), proposal(0, 7));
        assert!(moves.follow_placement(true) && !moves.hold_back(), "it did not");
    }

    #[test]
    fn nothing_begins_before_the_new_leader_has_reported() {
        let mut moves = MovesAtCoordinator::default();
        let (before, after) = (placed([(0, 3), (0, 5)]), placed([(1, 7), (0, 5)]));
        moves.set(&[planned(0, 3)], &before);
        moves.set(&[], &after);
        assert!(moves.hold_back() && !moves.note_streams(|_| 3, &after), "the old stream");
        assert!(moves.note_streams(|_| 7, &after) && !moves.hold_back());
        assert!(!moves.note_streams(|_| 7, &after), "it was said");
        moves.set(&[planned(0, 3)], &before);
        moves.set(&[], &after);
        assert!(moves.note_streams(|_| 3, &placed([(0, 8), (0, 5)])), "it is lost");
    }
}
