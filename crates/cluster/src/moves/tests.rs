//! Moves of copies, one step after the other, and what ends them.

use super::*;
use crate::kfactor::tests::{formed, load_all, run};

fn begin(state: &ClusterState, partition: u32, from: u32, to: u32) -> Command {
    let partition = PartitionId(partition);
    let moving = CopyMove { from: HostId(from), to: HostId(to) };
    let copy = state.plan_move(partition, moving).expect("it can be moved there");
    let epoch = state.partitions[partition.index()].epoch;
    let incarnation = Incarnation(1);
    Command::BeginMove { partition, from: moving.from, copy, incarnation, epoch }
}

fn refusal(state: &ClusterState, partition: u32, from: u32, to: u32) -> String {
    let moving = CopyMove { from: HostId(from), to: HostId(to) };
    let planned = state.plan_move(PartitionId(partition), moving);
    planned.expect_err("it cannot be moved there").to_string()
}

/// Three hosts with two sites each, K = 1: each has two of the three partitions, and capacity.
fn with_capacity() -> ClusterState {
    let mut state = formed(2, 1, &[0, 0, 0]);
    state.shape.partitions_per_site = 2;
    state
}

/// A partition, its leader, its follower, and the host without a copy.
fn placed(state: &ClusterState, number: u32) -> (u32, u32, u32) {
    let partition = &state.partitions[number as usize];
    let follower = partition.followers().next().expect("K = 1");
    let has_none = |host: &u32| partition.copy_at(HostId(*host)).is_none();
    (partition.leader.0, follower.0, (0..3).find(has_none).expect("K = 1"))
}

#[test]
fn a_leader_moves_with_its_copy_in_four_steps() {
    let mut state = with_capacity();
    let (leader, follower, to) = placed(&state, 0);
    let command = begin(&state, 0, leader, to);
    assert_eq!(run(&mut state, &command), Verdict::Applied);
    let mut moves = Moves::default();
    assert_eq!(moves.due(&state, 0), [], "it is being loaded");
    assert!(state.plan_k(0).is_err_and(|refusal| refusal.to_string().contains("being moved")));
    load_all(&mut state);
    assert_eq!(state.partitions[0].copies.len(), 3, "one more for a while");
    let partition = PartitionId(0);
    let epoch = state.partitions[0].epoch;
    let early = run(&mut state, &Command::EndMove { partition, epoch });
    assert!(matches!(early, Verdict::Refused(_)), "a leader keeps its copy");
    let transfer = Command::BeginHandOver { partition, to: HostId(to), epoch };
    assert_eq!(moves.due(&state, 1), vec![transfer.clone()]);
    assert_eq!(run(&mut state, &transfer), Verdict::Applied);
    // It is given up, and tried again later.
    assert_eq!(run(&mut state, &Command::GiveUpHandOver { partition, epoch }), Verdict::Applied);
    assert_eq!(moves.due(&state, 2), []);
    let epoch = state.partitions[0].epoch;
    let again = Command::BeginHandOver { partition, to: HostId(to), epoch };
    assert_eq!(moves.due(&state, 1 + TRANSFER_PAUSE_US), vec![again.clone()]);
    assert_eq!(run(&mut state, &again), Verdict::Applied);
    let complete = Command::CompleteHandOver { partition, to: HostId(to), epoch };
    assert_eq!(run(&mut state, &complete), Verdict::Applied);
    let epoch = state.partitions[0].epoch;
    let end = Command::EndMove { partition, epoch };
    assert_eq!(moves.due(&state, 2 + TRANSFER_PAUSE_US), vec![end.clone()]);
    assert_eq!(run(&mut state, &end), Verdict::Applied);
    let placed = &state.partitions[0];
    let hosts: Vec<u32> = placed.copies.iter().map(|copy| copy.host.0).collect();
    let mut expected = vec![follower, to];
    expected.sort_unstable();
    assert_eq!((hosts, placed.leader.0, placed.moving), (expected, to, None));
    assert_eq!(run(&mut state, &end), Verdict::Refused(Refusal::Stale));
    assert_eq!(moves.due(&state, 3 + TRANSFER_PAUSE_US), []);
}

#[test]
fn a_move_ends_when_one_of_its_hosts_is_lost() {
    let lost = |host: u32| Command::HostLost { host: HostId(host), incarnation: Incarnation(1) };
    for (which, is_loaded) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut state = with_capacity();
        let (leader, follower, to) = placed(&state, 1);
        let command = begin(&state, 1, follower, to);
        assert_eq!(run(&mut state, &command), Verdict::Applied);
        if is_loaded {
            load_all(&mut state);
        }
        run(&mut state, &lost([follower, to][which]));
        let placed = &state.partitions[1];
        assert_eq!((placed.moving, placed.leader.0), (None, leader));
        let in_sync = [[1, 2], [2, 2]][usize::from(is_loaded)][which];
        assert_eq!(placed.copies.len(), in_sync, "{which} {is_loaded}");
    }
    // Another copy is lost meanwhile: the new one makes up for it, and the old one stays.
    let mut state = with_capacity();
    let (leader, follower, to) = placed(&state, 2);
    let command = begin(&state, 2, follower, to);
    run(&mut state, &command);
    run(&mut state, &lost(leader));
    assert!(state.partitions[2].moving.is_some());
    load_all(&mut state);
    let placed = &state.partitions[2];
    assert_eq!((placed.copies.len(), placed.moving, placed.leader.0), (2, None, follower));
    assert_eq!(Moves::default().due(&state, 0), []);
}

#[test]
fn a_move_that_cannot_be_is_refused() {
    let mut state = with_capacity();
    let (leader, follower, to) = placed(&state, 0);
    for (partition, from, to, text) in [
        (9, leader, to, "the cluster has no partition 9"),
        (0, to, leader, "has no copy of partition 0 that is in sync"),
        (0, leader, follower, "has a copy of partition 0 already"),
        (0, leader, 7, "host 7 is not up"),
    ] {
        let found = refusal(&state, partition, from, to);
        assert!(found.contains(text), "{found}");
    }
    let full = formed(2, 1, &[0, 0, 0]);
    assert!(refusal(&full, 0, leader, to).contains("no capacity for another copy: each of its 2"));
    let command = begin(&state, 0, leader, to);
    run(&mut state, &command);
    assert!(refusal(&state, 0, follower, to).contains("is being moved from host"));
    load_all(&mut state);
    let mut small = formed(1, 0, &[0, 0]);
    small.shape.partitions_per_site = 2;
    assert!(refusal(&small, 0, 0, 1).contains("has no other copy"));
}
