//! Copies that partitions lack: who loads them, and what makes way for them.

use super::*;
use crate::ids::Incarnation;
use crate::kfactor::tests::{formed, load_all, run};
use crate::{HostState, Verdict};

/// Three hosts with two sites each, K = 1, without the copies that are named: partition, host.
fn without(dropped: &[(u32, u32)]) -> ClusterState {
    let mut state = formed(2, 1, &[0, 0, 0]);
    for &(partition, host) in dropped {
        let partition = PartitionId(partition);
        let epoch = state.partitions[partition.index()].epoch;
        let command = Command::OutOfSync { partition, host: HostId(host), epoch };
        assert_eq!(run(&mut state, &command), Verdict::Applied);
    }
    state
}

fn hosts_of(state: &ClusterState, number: usize) -> Vec<u32> {
    state.partitions[number].copies.iter().map(|copy| copy.host.0).collect()
}

fn other_host_of(state: &ClusterState, partition: u32, host: u32) -> u32 {
    let hosts = hosts_of(state, partition as usize);
    hosts.into_iter().find(|other| *other != host).expect("K = 1")
}

/// A host comes back while a copy of another host is out of sync: what it gets leaves a place
/// for the copy that it does not get.
#[test]
fn a_host_that_comes_back_leaves_no_partition_without_a_place() {
    let whole = formed(2, 1, &[0, 0, 0]);
    for lost in 0..3 {
        for partition in 0..3 {
            let copies = hosts_of(&whole, partition as usize);
            for host in copies.iter().copied().filter(|_| !copies.contains(&lost)) {
                let mut state = without(&[(partition, host)]);
                let (host, incarnation) = (HostId(lost), Incarnation(1));
                let gone = Command::HostLost { host, incarnation };
                assert_eq!(run(&mut state, &gone), Verdict::Applied);
                let back = Command::HostUp { host, incarnation };
                assert_eq!(run(&mut state, &back), Verdict::Applied);
                load_all(&mut state);
                let options = Options { reload_after_us: 1, ..Options::default() };
                let mut reloads = Reloads::default();
                for now_us in 0..10 {
                    if let Some(due) = reloads.due(&state, |_| true, &options, now_us) {
                        assert!(matches!(due, Command::BeginLoading { .. }), "{due:?}");
                        assert_eq!(run(&mut state, &due), Verdict::Applied);
                        load_all(&mut state);
                    }
                }
                let is_whole = |number: usize| hosts_of(&state, number).len() == 2;
                assert!((0..3).all(is_whole), "{lost} {partition}: {state:?}");
            }
        }
    }
}

/// The sites with capacity are at the host that has the partition: a copy of another one goes
/// there, and makes way.
#[test]
fn a_copy_is_moved_where_a_partition_has_no_place_otherwise() {
    let whole = formed(2, 1, &[0, 0, 0]);
    // Partition 2 is at one host alone, and both others are full.
    let kept = hosts_of(&whole, 2)[0];
    let lost = other_host_of(&whole, 2, kept);
    let mut state = without(&[(2, lost)]);
    let moved = (0..2).find(|of| {
        let hosts = hosts_of(&state, *of as usize);
        hosts.contains(&kept) && !hosts.contains(&lost)
    });
    let moved = moved.expect("each two hosts have one partition");
    let out = Command::OutOfSync {
        partition: PartitionId(moved),
        host: HostId(kept),
        epoch: state.partitions[moved as usize].epoch,
    };
    assert_eq!(run(&mut state, &out), Verdict::Applied);
    let copy = state.place_at(HostId(lost)).expect("it gave one up");
    let begin = Command::BeginLoading {
        partition: PartitionId(moved),
        copy,
        incarnation: Incarnation(1),
        epoch: state.partitions[moved as usize].epoch,
    };
    assert_eq!(run(&mut state, &begin), Verdict::Applied);
    load_all(&mut state);
    assert_eq!((state.places_for_copy(PartitionId(2)), hosts_of(&state, 2)), (vec![], vec![kept]));
    let options = Options { reload_after_us: 5, ..Options::default() };
    let mut reloads = Reloads::default();
    assert_eq!(reloads.due(&state, |_| true, &options, 0), None, "it may be over soon");
    assert_eq!(reloads.due(&state, |host| host.0 != kept, &options, 5), None);
    assert_eq!(reloads.due(&state, |_| true, &options, 6), None);
    let due = reloads.due(&state, |_| true, &options, 11).expect("it is due");
    assert!(matches!(due, Command::BeginMove { copy, .. } if copy.host.0 == kept), "{due:?}");
    assert_eq!(run(&mut state, &due), Verdict::Applied);
    assert_eq!(reloads.due(&state, |_| true, &options, 50), None, "one at a time");
    load_all(&mut state);
    let mut moves = crate::moves::Moves::default();
    for now_us in 0..10 {
        for command in moves.due(&state, now_us) {
            run(&mut state, &command);
            if let Command::BeginHandOver { partition, to, epoch } = command {
                run(&mut state, &Command::CompleteHandOver { partition, to, epoch });
            }
        }
    }
    let due = (100..200).find_map(|now_us| reloads.due(&state, |_| true, &options, now_us));
    assert_eq!(run(&mut state, &due.expect("it has a place")), Verdict::Applied);
    load_all(&mut state);
    assert!((0..3).all(|number| hosts_of(&state, number).len() == 2), "{state:?}");
    assert!(state.hosts.values().all(|record| record.state == HostState::Up));
}
