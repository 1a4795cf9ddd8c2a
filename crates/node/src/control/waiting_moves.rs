//! Calls that wait for leaders to be moved: what is to be proposed for one, and how it ends.
//!
//! A move is proposed again while it may have been lost on the way, and never once it has begun or
//! may have been given up. The last proposals are made some time before a call ends, so that none
//! begins a move of which its caller has heard that it failed.

use super::stop_node::StopOf;
use crate::message::Origin;
use lockstep_cluster::{ClusterState, Command, Epoch};
use lockstep_types::{Failure, HostId, PartitionId};

/// Between two proposals of the same move: one may be lost, or be of an epoch that is over.
const PROPOSE_AGAIN_US: i64 = 200_000;
/// How much longer a call waits than one move may take.
const PATIENCE_US: i64 = 2_000_000;
/// How long before the end of a call nothing is proposed any more.
const IN_FLIGHT_US: i64 = 1_000_000;

/// A leader that is to be moved.
struct Wanted {
    partition: PartitionId,
    to: HostId,
    /// Of which epoch the move was proposed.
    proposed: Option<Epoch>,
    has_begun: bool,
}

/// A partition as the control plane has it.
pub(super) struct Placed {
    pub(super) leader: HostId,
    pub(super) epoch: Epoch,
    /// The host to which it is being moved.
    pub(super) hand_over: Option<HostId>,
    /// Whether the wanted host could lead it.
    pub(super) has_copy: bool,
}

impl Placed {
    /// Of a partition that a host is to lead.
    pub(super) fn of(state: &ClusterState, partition: PartitionId, to: HostId) -> Placed {
        let placed = &state.partitions[partition.index()];
        Placed {
            leader: placed.leader,
            epoch: placed.epoch,
            hand_over: placed.hand_over,
            has_copy: state.serves(to) && placed.copy_at(to).is_some(),
        }
    }
}

/// What a call moves leaders for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// Nothing else.
    Move,
    /// A host that is to do nothing for others.
    Drain(HostId),
    /// A host that stops then.
    Stop(StopOf),
}

/// A call that waits.
pub(super) struct WaitingCall {
    pub(super) origin: Origin,
    pub(super) aim: Aim,
    /// The partitions that are still led elsewhere.
    left: Vec<Wanted>,
    /// Why the call fails, when nothing of it is in progress any more.
    failure: Option<Failure>,
    propose_us: i64,
    proposed_us: i64,
    until_us: i64,
    /// Since when all have moved.
    moved_us: Option<i64>,
}

impl WaitingCall {
    /// For partitions and the hosts that are to lead them; one move may take so long.
    pub(super) fn new(
        origin: Origin,
        moves: &[(PartitionId, HostId)],
        ((now_us, limit_us), aim): ((i64, i64), Aim),
    ) -> WaitingCall {
        let wanted = |&(partition, to)| Wanted { partition, to, proposed: None, has_begun: false };
        WaitingCall {
            origin,
            aim,
            left: moves.iter().map(wanted).collect(),
            failure: None,
            propose_us: now_us,
            proposed_us: now_us,
            until_us: now_us + limit_us + PATIENCE_US,
            moved_us: None,
        }
    }

    /// Looks at what has become of the moves; what is to be proposed now.
    pub(super) fn look(
        &mut self,
        placed: impl Fn(PartitionId, HostId) -> Placed,
        now_us: i64,
    ) -> Vec<Command> {
        let WaitingCall { left, failure, until_us, .. } = self;
        left.retain_mut(|wanted| match wanted.look(&placed, now_us > *until_us) {
            Ok(waits) => waits,
            Err(why) => {
                failure.get_or_insert(why);
                false
            }
        });
        let is_due = now_us >= self.propose_us && now_us < self.until_us - IN_FLIGHT_US;
        if self.failure.is_some() || !is_due {
            return Vec::new();
        }
        (self.propose_us, self.proposed_us) = (now_us + PROPOSE_AGAIN_US, now_us);
        let proposals = self.left.iter_mut().map(|wanted| wanted.propose(&placed));
        proposals.flatten().collect()
    }

    /// Everything has moved: whether the time is over in which other hosts may not have heard of
    /// that, and may still send calls to the host that stops.
    pub(super) fn is_known(&mut self, now_us: i64, time_us: i64) -> bool {
        now_us >= *self.moved_us.get_or_insert(now_us) + time_us
    }

    /// How the call ends, if it does.
    pub(super) fn ended(&self, now_us: i64) -> Option<Result<(), Failure>> {
        let failed = self.failure.as_ref().filter(|_| {
            // Others of its moves end first, or those that were proposed just now begin.
            let is_settled = now_us > self.proposed_us + IN_FLIGHT_US;
            self.left.iter().all(|it| !it.has_begun && (is_settled || it.proposed.is_none()))
        });
        match failed {
            Some(failure) => Some(Err(failure.clone())),
            None => (self.left.is_empty() && self.failure.is_none()).then_some(Ok(())),
        }
    }
}

impl Wanted {
    /// What has become of the move: whether it is still waited for.
    ///
    /// # Errors
    /// It has failed.
    fn look(
        &mut self,
        placed: impl Fn(PartitionId, HostId) -> Placed,
        is_late: bool,
    ) -> Result<bool, Failure> {
        let Wanted { partition, to, .. } = *self;
        let Placed { leader, epoch, hand_over, has_copy } = placed(partition, to);
        if leader == to {
            return Ok(false);
        }
        let was_begun = self.has_begun;
        self.has_begun = hand_over == Some(to);
        let why = if !has_copy {
            format!("host {to} has no copy in sync any more")
        } else if is_late || was_begun && !self.has_begun {
            "what is in progress takes longer than hand_over_timeout_ms".to_string()
        } else if !self.has_begun && self.proposed.is_some_and(|proposed| proposed != epoch) {
            "its move was given up, or its copies have changed; the call can be repeated".into()
        } else {
            return Ok(true);
        };
        let text = format!("Partition {partition} is still led by host {leader}: {why}");
        Err(Failure::graceful(text))
    }

    /// The proposal of the move, unless it has begun or another one is in its way.
    fn propose(&mut self, placed: impl Fn(PartitionId, HostId) -> Placed) -> Option<Command> {
        let Wanted { partition, to, .. } = *self;
        let Placed { epoch, hand_over, .. } = placed(partition, to);
        if hand_over.is_some() {
            return None;
        }
        self.proposed = Some(epoch);
        Some(Command::BeginHandOver { partition, to, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::NO_PROCEDURE;
    use crate::own_call::OwnCall;
    use lockstep_types::ThreadId;
    use std::cell::RefCell;

    const NOW_US: i64 = 1_000_000_000;
    const LIMIT_US: i64 = 50_000;

    /// Partitions that host 0 leads, and a call that waits for host 1 to lead them.
    struct World {
        placed: RefCell<Vec<(HostId, u64, Option<HostId>)>>,
        call: WaitingCall,
    }

    impl World {
        fn new(partitions: u32) -> World {
            let origin = Origin {
                thread: ThreadId(0),
                connection: OwnCall::Restore.key(),
                handle: 7,
                arrived_us: NOW_US,
                procedure: NO_PROCEDURE,
                weight: 0,
            };
            let moves: Vec<_> = (0..partitions).map(|it| (PartitionId(it), HostId(1))).collect();
            World {
                placed: RefCell::new(vec![(HostId(0), 3, None); moves.len()]),
                call: WaitingCall::new(origin, &moves, ((NOW_US, LIMIT_US), Aim::Move)),
            }
        }

        fn set(&self, partition: usize, leader: u32, epoch: u64, hand_over: Option<u32>) {
            let placed = (HostId(leader), epoch, hand_over.map(HostId));
            self.placed.borrow_mut()[partition] = placed;
        }

        /// The partitions whose moves are proposed at this time.
        fn look(&mut self, ms: i64) -> Vec<u32> {
            let placed = self.placed.borrow();
            let of = |partition: PartitionId, _| {
                let (leader, epoch, hand_over) = placed[partition.index()];
                Placed { leader, epoch: Epoch(epoch), hand_over, has_copy: true }
            };
            let number = |command| match command {
                Command::BeginHandOver { partition, to: HostId(1), epoch: Epoch(3) } => partition.0,
                other => panic!("{other:?}"),
            };
            self.call.look(of, NOW_US + ms * 1_000).into_iter().map(number).collect()
        }

        /// Why the call has failed at this time; nothing where it waits.
        fn failure(&self, ms: i64) -> Option<String> {
            self.call.ended(NOW_US + ms * 1_000)?.err().map(|failure| failure.message)
        }
    }

    #[test]
    fn a_move_that_was_given_up_is_not_proposed_again() {
        let mut world = World::new(1);
        assert_eq!(world.look(0), [0]);
        assert_eq!(world.look(100), [0; 0], "it is on its way");
        assert_eq!(world.look(200), [0], "it may be lost");
        world.set(0, 0, 3, Some(1));
        assert_eq!(world.look(400), [0; 0], "it has begun");
        world.set(0, 0, 4, None);
        assert_eq!(world.look(600), [0; 0], "it was given up");
        let failure = world.failure(600).expect("it has failed");
        assert!(failure.contains("Partition 0"), "{failure}");
        assert!(failure.contains("hand_over_timeout_ms"), "{failure}");
    }

    #[test]
    fn a_move_that_may_have_begun_and_ended_between_two_looks_is_not_proposed_again() {
        let mut world = World::new(1);
        assert_eq!(world.look(0), [0]);
        world.set(0, 0, 4, None);
        assert_eq!(world.look(300), [0; 0]);
        assert!(world.failure(300).expect("it has failed").contains("given up"));
    }

    #[test]
    fn nothing_is_proposed_shortly_before_a_call_ends() {
        let mut world = World::new(1);
        assert_eq!(world.look(1_000), [0]);
        assert_eq!(world.look(1_060), [0; 0]);
        assert_eq!(world.look(2_040), [0; 0], "it would be in flight when the call fails");
        assert_eq!(world.failure(2_040), None);
        assert_eq!(world.look(2_060), [0; 0]);
        assert!(world.failure(2_060).is_some());
    }

    #[test]
    fn a_call_that_fails_waits_for_those_of_its_moves_that_have_begun() {
        let mut world = World::new(3);
        assert_eq!(world.look(0), [0, 1, 2]);
        (0..2).for_each(|partition| world.set(partition, 0, 3, Some(1)));
        assert_eq!(world.look(20), [0; 0]);
        world.set(0, 0, 4, None);
        assert_eq!(world.look(900), [0; 0], "the call fails: partition 2 is not proposed again");
        assert_eq!(world.failure(900), None, "partition 1 is being moved");
        world.set(1, 1, 5, None);
        assert_eq!(world.look(950), [0; 0]);
        assert_eq!(world.failure(950), None, "the proposal for partition 2 may be on its way");
        assert_eq!(world.look(1_001), [0; 0]);
        assert!(world.failure(1_001).expect("it has failed").contains("Partition 0"));
    }

    #[test]
    fn a_call_ends_well_when_all_leaders_have_moved() {
        let mut world = World::new(2);
        assert_eq!(world.look(0), [0, 1]);
        world.set(0, 1, 4, None);
        assert_eq!(world.look(20), [0; 0]);
        assert!(world.call.ended(NOW_US).is_none());
        world.set(1, 1, 5, None);
        assert_eq!(world.look(40), [0; 0]);
        assert!(matches!(world.call.ended(NOW_US), Some(Ok(()))));
    }
}
