//! Hosts that are added and removed: what moves, when it ends, and what is refused.

use super::*;
use crate::kfactor::tests::{formed, load_all, run};
use lockstep_types::ThreadId;

/// Three hosts with two sites each, K = 1, and capacity for as many copies again.
fn with_capacity(groups: &[u32]) -> ClusterState {
    let mut state = formed(2, 1, groups);
    state.shape.partitions_per_site = 2;
    state
}

fn add(state: &mut ClusterState) -> HostId {
    let (address, epoch) = (format!("10.0.0.{}:3021", state.numbers), state.epoch);
    let host = state.plan_addition(&address).expect("it can be added");
    let command = Command::AddHost { host, internal_address: address, epoch };
    assert_eq!(run(state, &command), Verdict::Applied);
    host
}

/// A process of the host joins and takes part.
fn join(state: &mut ClusterState, host: HostId, group: &str) {
    let description = HostDescription {
        name: format!("host{host}"),
        placement_group: group.to_string(),
        ..state.hosts[&host].description.clone()
    };
    let incarnation = Incarnation(2);
    assert_eq!(run(state, &Command::Join { description, incarnation }), Verdict::Applied);
    assert_eq!(run(state, &Command::HostUp { host, incarnation }), Verdict::Applied);
}

fn plan(state: &mut ClusterState, host: HostId, plan: HostPlan) -> Verdict {
    let epoch = state.epoch;
    run(state, &Command::PlanHost { host, plan, epoch })
}

/// What the leader of the Raft group proposes is carried out, until that is nothing any more. The
/// greatest number of copies that were moved at a time.
fn carry_out(state: &mut ClusterState, limit: usize) -> usize {
    let mut moves = crate::moves::Moves::default();
    let mut most = 0;
    for _ in 0..1_000 {
        let serving: Vec<HostId> = state.data_hosts().filter(|host| state.serves(*host)).collect();
        let may_load = |host: HostId| serving.contains(&host);
        let mut due = moves.due(state, u64::MAX / 2);
        due.extend(state.resizing(may_load, limit));
        let mut has_changed = false;
        for command in due {
            has_changed |= run(state, &command) == Verdict::Applied;
            if let Command::BeginHandOver { partition, to, epoch } = command {
                let complete = Command::CompleteHandOver { partition, to, epoch };
                assert_eq!(run(state, &complete), Verdict::Applied);
            }
        }
        let moving = state.partitions.iter().filter(|it| it.moving.is_some()).count();
        assert!(moving <= limit, "{moving} copies are moved at a time");
        most = most.max(moving);
        load_in_sync(state);
        if !has_changed {
            return most;
        }
    }
    panic!("it goes on for ever: {state:?}")
}

fn load_in_sync(state: &mut ClusterState) {
    for number in 0..state.partitions.len() {
        for copy in state.partitions[number].learning.clone() {
            let epoch = state.partitions[number].epoch;
            let incarnation = state.hosts[&copy.host].incarnation;
            let partition = PartitionId(number as u32);
            let in_sync = Command::InSync { partition, copy, incarnation, epoch };
            assert_eq!(run(state, &in_sync), Verdict::Applied);
        }
    }
}

fn counts(state: &ClusterState) -> Vec<(usize, usize)> {
    let hosts = state.data_hosts();
    hosts.map(|host| (state.partitions_of(host).count(), state.leaders_at(host))).collect()
}

fn refusal(state: &ClusterState, host: u32) -> String {
    state.check_removal(HostId(host)).expect_err("it is refused").to_string()
}

#[test]
fn a_host_that_is_added_gets_its_share_of_copies_and_leaders() {
    let mut state = formed(4, 1, &[0, 0, 0]);
    let host = add(&mut state);
    assert_eq!((host, state.hosts[&host].state), (HostId(3), HostState::Added));
    assert_eq!(state.resizing(|_| true, 2), [], "no process has joined");
    assert_eq!(state.copies_to_move(), 0, "there is nowhere to move them to");
    join(&mut state, host, "rack-0");
    assert_eq!(state.copies_to_move(), 3, "its share of twelve");
    assert_eq!(carry_out(&mut state, 2), 2);
    assert_eq!(state.copies_to_move(), 0);
    assert_eq!(counts(&state), [(3, 1), (3, 2), (3, 2), (3, 1)]);
    assert_eq!(state.hosts[&host].plan, HostPlan::Stays);
    let next = add(&mut state);
    assert_eq!(next, HostId(4));
    join(&mut state, next, "rack-0");
    carry_out(&mut state, 1);
    assert!(counts(&state).iter().all(|(copies, _)| (2..=3).contains(copies)));
    assert!(counts(&state).iter().all(|(_, leaders)| *leaders > 0), "{:?}", counts(&state));
}

#[test]
fn a_host_of_another_rack_takes_copies_apart_first() {
    let mut state = formed(2, 1, &[0, 0, 1]);
    let sharing = |state: &ClusterState| {
        let shares = |of: &PartitionId| {
            let copies = &state.partitions[of.index()].copies;
            copies.iter().all(|copy| state.copies_in_group_of(*of, copy.host) > 1)
        };
        (0..state.partitions.len() as u32).map(PartitionId).filter(shares).count()
    };
    assert_eq!(sharing(&state), 1, "two hosts of one rack have a partition");
    let host = add(&mut state);
    join(&mut state, host, "rack-1");
    carry_out(&mut state, 2);
    assert_eq!(sharing(&state), 0, "{state:?}");
}

#[test]
fn a_host_that_is_removed_gives_its_copies_away_and_goes() {
    let mut state = with_capacity(&[0, 0, 0]);
    assert_eq!(plan(&mut state, HostId(0), HostPlan::Leaves), Verdict::Applied);
    assert!(refusal(&state, 1).contains("host 0 is being removed"));
    assert!(state.plan_k(0).is_err_and(|why| why.to_string().contains("is being removed")));
    carry_out(&mut state, 1);
    assert_eq!(counts(&state)[0], (0, 0));
    assert_eq!(state.coordinator, HostId(0), "the host itself moves the coordinator");
    let epoch = state.epoch;
    let remove = |epoch| Command::RemoveHost { host: HostId(0), epoch };
    assert!(matches!(run(&mut state, &remove(epoch)), Verdict::Refused(_)));
    let moved = Command::MoveCoordinator { to: HostId(1), epoch };
    assert_eq!(run(&mut state, &moved), Verdict::Applied);
    assert_eq!(state.resizing(|_| true, 1), [], "it takes part until it has stopped");
    let lost = Command::HostLost { host: HostId(0), incarnation: Incarnation(1) };
    assert_eq!(run(&mut state, &lost), Verdict::Applied);
    let epoch = state.epoch;
    assert_eq!(state.resizing(|_| true, 1), [remove(epoch)]);
    assert_eq!(run(&mut state, &remove(epoch)), Verdict::Applied);
    assert_eq!(state.data_hosts().collect::<Vec<_>>(), [HostId(1), HostId(2)]);
    // A process of it cannot join any more, and its number is not given again.
    let description = formed(2, 1, &[0, 0]).hosts[&HostId(0)].description.clone();
    let join = Command::Join { description, incarnation: Incarnation(9) };
    let verdict = run(&mut state, &join);
    assert_eq!(verdict, Verdict::Refused(Refusal::UnknownHost(HostId(0))));
    assert_eq!(add(&mut state), HostId(3));
}

#[test]
fn a_removal_can_be_cancelled() {
    let mut state = with_capacity(&[0, 0, 0]);
    assert_eq!(plan(&mut state, HostId(1), HostPlan::Leaves), Verdict::Applied);
    let begun = state.resizing(|_| true, 2);
    assert_eq!(begun.len(), 2);
    assert_eq!(run(&mut state, &begun[0]), Verdict::Applied);
    assert_eq!(plan(&mut state, HostId(1), HostPlan::Stays), Verdict::Applied);
    assert_eq!(state.resizing(|_| true, 2), [], "what has begun comes to its end alone");
    assert_eq!(plan(&mut state, HostId(2), HostPlan::Leaves), Verdict::Applied);
}

#[test]
fn a_host_that_was_added_by_mistake_goes_at_once() {
    let mut state = with_capacity(&[0, 0, 0]);
    let host = add(&mut state);
    let address = state.hosts[&host].description.internal_address.clone();
    let error = state.plan_addition(&address).expect_err("it is listed").to_string();
    assert!(error.contains("the address of host 3, which was added and has not"), "{error}");
    assert_eq!(plan(&mut state, host, HostPlan::Leaves), Verdict::Applied);
    carry_out(&mut state, 2);
    assert_eq!(state.data_hosts().count(), 3);
}

#[test]
fn what_the_cluster_cannot_do_without_is_not_removed() {
    let full = formed(2, 1, &[0, 0, 0]);
    let error = refusal(&full, 2);
    assert!(error.contains("that is 4 copies, and 3 partitions with 2 copies have 6"), "{error}");
    let mut crowded = formed(2, 1, &[0, 0, 0]);
    let last = add(&mut crowded);
    join(&mut crowded, last, "rack-0");
    // Only the first host has capacity left, and a copy of the partition in question.
    let placed = [([0, 3], 0), ([1, 2], 0), ([1, 2], 1)];
    for (partition, (hosts, site)) in crowded.partitions.iter_mut().zip(placed) {
        let copy = |host| Copy { host: HostId(host), thread: ThreadId(site) };
        partition.copies = hosts.map(copy).to_vec();
    }
    let error = refusal(&crowded, 3);
    assert!(error.contains("capacity for 6 copies, but where there is some"), "{error}");
    let two = formed(2, 1, &[0, 0]);
    assert!(refusal(&two, 0).contains("1 hosts would be left, and K = 1 needs 2"));
    let mut lost = with_capacity(&[0, 0, 0]);
    for host in [0, 1].map(HostId) {
        let incarnation = Incarnation(1);
        assert_eq!(run(&mut lost, &Command::HostLost { host, incarnation }), Verdict::Applied);
    }
    assert!(refusal(&lost, 1).contains("has the only copy of partition"));
    assert_eq!(refusal(&lost, 7), "the cluster has no host 7");
    let alone = formed(2, 0, &[0, 0, 0]);
    assert!(refusal(&alone, 0).contains("--kfactor 0"));
    assert!(alone.plan_addition("10.0.0.9:1").is_err());
    assert!(full.plan_addition("").is_err());
}

#[test]
fn a_host_that_leaves_gets_no_copies() {
    let mut state = with_capacity(&[0, 0, 0, 0]);
    let lost = Command::HostLost { host: HostId(3), incarnation: Incarnation(1) };
    assert_eq!(run(&mut state, &lost), Verdict::Applied);
    assert_eq!(plan(&mut state, HostId(0), HostPlan::Leaves), Verdict::Applied);
    let lacking = (0..state.partitions.len() as u32).map(PartitionId);
    let mut places = lacking.flat_map(|of| state.places_for_copy(of));
    assert!(places.all(|copy| copy.host != HostId(0)));
    let partition = (0..4).map(PartitionId).find(|of| {
        let placed = &state.partitions[of.index()];
        placed.copies.len() == 2 && placed.copy_at(HostId(0)).is_none()
    });
    if let Some(partition) = partition {
        let from = state.partitions[partition.index()].leader;
        let moved = CopyMove { from, to: HostId(0) };
        assert!(state.plan_move(partition, moved).is_err());
    }
    load_all(&mut state);
}

#[test]
fn a_leader_that_was_transferred_twice_has_lost_nothing() {
    let mut state = with_capacity(&[0, 0, 0]);
    let first = state.partitions[0].epoch;
    assert_eq!(state.partitions[0].handed_over_since, first);
    let partition = PartitionId(0);
    for _ in 0..2 {
        let epoch = state.partitions[0].epoch;
        let to = state.partitions[0].followers().next().expect("K = 1");
        let steps = [
            Command::BeginHandOver { partition, to, epoch },
            Command::CompleteHandOver { partition, to, epoch },
        ];
        steps.iter().for_each(|step| assert_eq!(run(&mut state, step), Verdict::Applied));
    }
    assert_eq!(state.partitions[0].handed_over_since, first);
    let to = state.partitions[0].followers().next().expect("K = 1");
    let epoch = state.partitions[0].epoch;
    let taken_over = Command::MoveLeader { partition, to, epoch };
    assert_eq!(run(&mut state, &taken_over), Verdict::Applied);
    assert_eq!(state.partitions[0].handed_over_since, state.partitions[0].epoch);
}
