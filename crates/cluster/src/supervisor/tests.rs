//! What the Raft leader proposes of hosts that are silent, apart or back.

use super::*;
use crate::detector::Standing;
use crate::faults::Faults;
use crate::ids::{ClusterId, Epoch};
use crate::state::{HostDescription, Shape, Vote};
use lockstep_types::{PartitionId, ThreadId};

const CLUSTER: ClusterId = ClusterId([1; 16]);

fn formed(sites_per_host: u16, k: u8) -> ClusterState {
    let shape = Shape { hosts: 3, witnesses: 0, sites_per_host, partitions_per_site: 1, k };
    let record = |number: u32| {
        let description = HostDescription {
            host: HostId(number),
            name: String::new(),
            internal_address: String::new(),
            client_address: String::new(),
            admin_address: String::new(),
            directory: String::new(),
            placement_group: String::new(),
            release: 1,
        };
        (HostId(number), HostRecord::joining(description, Incarnation(1)))
    };
    let hosts = (0..3).map(record).collect();
    let mut state = ClusterState::forming(CLUSTER, "test".into(), shape, hosts);
    state.apply(&Command::Form, Faults::default());
    state.hosts.values_mut().for_each(|record| record.vote = Vote::Voter);
    assert!(state.is_formed());
    state
}

/// What host 0 proposes of hosts 1 and 2, of which the first one does not hear the other.
fn proposed(state: &ClusterState) -> BTreeSet<HostId> {
    let options = Options::default();
    let detector = |host| {
        let run = Incarnation(1);
        let mut detector = Detector::new(HostId(host), run, 2, options, Faults::default(), 0);
        let others = (0..3).filter(|other| *other != host);
        others.for_each(|other| detector.expect(HostId(other), run, 0));
        detector
    };
    let mut detectors: Vec<Detector> = (0..3).map(detector).collect();
    let (mut supervisor, mut lost) = (Supervisor::default(), BTreeSet::new());
    for now_us in (0..3_000_000).step_by(50_000) {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (2, 1)] {
            let times = (now_us, now_us + 1);
            (0..2).for_each(|site| detectors[from].site_ran(ThreadId(site), now_us));
            let (host, peer) = (HostId(from as u32), HostId(to as u32));
            // Host 2 is heard by host 1 for as long as it takes to be known.
            if (from, to) == (2, 1) && now_us > 200_000 {
                continue;
            }
            let heartbeat = detectors[from].heartbeat(peer, CLUSTER, Epoch(1), true, times);
            detectors[to].take(host, &heartbeat, times);
        }
        let commands = supervisor.proposals(HostId(0), state, &detectors[0], &options, now_us);
        for command in commands {
            if let Command::HostLost { host, .. } = command {
                lost.insert(host);
            }
        }
    }
    lost
}

#[test]
fn a_leader_goes_out_that_cannot_replicate_to_a_host_with_a_last_copy() {
    let (own, other, run) = (HostId(0), HostId(1), Incarnation(1));
    let mut state = formed(2, 1);
    let options = Options::default();
    let mut detector = Detector::new(own, run, 2, options, Faults::default(), 0);
    let mut peer = Detector::new(other, run, 2, options, Faults::default(), 0);
    detector.expect(other, run, 0);
    peer.expect(own, run, 0);
    for times in [(10, 11), (20, 21), (30, 31)] {
        let heartbeat = peer.heartbeat(own, CLUSTER, Epoch(1), true, times);
        detector.take(other, &heartbeat, times);
        let heartbeat = detector.heartbeat(other, CLUSTER, Epoch(1), true, times);
        peer.take(own, &heartbeat, times);
    }
    let lost = |state: &ClusterState, detector: &Detector| {
        let proposed = Supervisor::default().proposals(own, state, detector, &options, 40);
        let lost = proposed.into_iter().filter_map(|command| match command {
            // The third one is not heard here.
            Command::HostLost { host, .. } => Some(host).filter(|host| *host != HostId(2)),
            _ => None,
        });
        lost.collect::<Vec<_>>()
    };
    assert_eq!(lost(&state, &detector), []);
    detector.cut_off(other, run, Epoch(1));
    assert_eq!(lost(&state, &detector), [other], "any of the two can go");
    let mut out = state.clone();
    out.hosts.get_mut(&own).expect("it is configured").state = HostState::Down;
    assert_eq!(lost(&out, &detector), [], "it does not take part itself");
    let command = Command::HostLost { host: HostId(2), incarnation: run };
    state.apply(&command, Faults::default());
    assert!(state.has_last_copy(other) && state.has_last_copy(own));
    assert_eq!(lost(&state, &detector), [other], "one of the two is resumed with its copies");
    let mut resumed = state.clone();
    let command = Command::HostLost { host: other, incarnation: run };
    resumed.apply(&command, Faults::default());
    resumed.apply(&Command::Resume { hosts: vec![(other, run)] }, Faults::default());
    assert_eq!(lost(&resumed, &detector), [], "what was lost before does not count any more");
    // What this host has alone comes to the other one as well.
    for number in 0..state.partitions.len() {
        let copies = &mut state.partitions[number].copies;
        if copies.len() == 1 && copies[0].host == own {
            let partition = &mut state.partitions[number];
            partition.copies[0].host = other;
            partition.leader = other;
        }
    }
    assert!(!state.has_last_copy(own));
    assert_eq!(lost(&state, &detector), [own]);
}

#[test]
fn a_host_that_hears_the_leader_and_suspects_it_goes_out_or_the_leader_does() {
    let (own, other, run) = (HostId(0), HostId(1), Incarnation(1));
    let state = formed(2, 1);
    let options = Options::default();
    let detector = |host| Detector::new(host, run, 0, options, Faults::default(), 0);
    let (mut leader, mut peer) = (detector(own), detector(other));
    leader.expect(other, run, 0);
    peer.expect(own, run, 0);
    // What was on its way from the other host is lost; nothing was from this one.
    peer.cut_off(own, run, Epoch(1));
    let (mut supervisor, mut lost) = (Supervisor::default(), BTreeSet::new());
    for now_us in (0..1_000_000).step_by(50_000) {
        let times = (now_us, now_us + 1);
        let heartbeat = peer.heartbeat(own, CLUSTER, Epoch(1), true, times);
        leader.take(other, &heartbeat, times);
        let heartbeat = leader.heartbeat(other, CLUSTER, Epoch(1), true, times);
        peer.take(own, &heartbeat, times);
        for command in supervisor.proposals(own, &state, &leader, &options, now_us) {
            match command {
                // The third one is not heard.
                Command::HostLost { host, .. } if host != HostId(2) => lost.insert(host),
                _ => false,
            };
        }
    }
    assert_eq!(lost.len(), 1, "{lost:?}");
}

#[test]
fn a_host_with_an_only_copy_is_resumed_although_another_partition_is_lost() {
    let mut state = formed(1, 0);
    let only = |state: &ClusterState, host| state.partitions_of(HostId(host)).count();
    assert_eq!([1, 2].map(|host| only(&state, host)), [1, 1], "each partition has one copy");
    for host in [1, 2] {
        state.hosts.get_mut(&HostId(host)).expect("it is configured").state = HostState::Down;
    }
    let options = Options::default();
    let serving = BTreeSet::from([HostId(0)]);
    let resumed = |state: &ClusterState, connected: &[u32], serving: &BTreeSet<HostId>| {
        let connected = connected.iter().copied().map(HostId).collect();
        let command = Supervisor::default().resume(state, &connected, serving, &options, 0);
        command.map(|command| match command {
            Command::Resume { hosts } => hosts.into_iter().map(|(host, _)| host.0).collect(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(resumed(&state, &[0], &serving), None::<Vec<u32>>);
    assert_eq!(resumed(&state, &[0, 2], &serving), Some(vec![2]), "host 1 may never return");
    // A cluster that starts waits for everything.
    state.hosts.get_mut(&HostId(0)).expect("it is configured").state = HostState::Joining;
    assert_eq!(resumed(&state, &[0, 2], &BTreeSet::new()), None);
    assert_eq!(resumed(&state, &[0, 1, 2], &BTreeSet::new()), Some(vec![0, 1, 2]));
    // A host that lacks another copy of what it has waits with those that need it.
    let mut state = formed(2, 1);
    for host in [1, 2] {
        state.hosts.get_mut(&HostId(host)).expect("it is configured").state = HostState::Down;
    }
    let shared = |p: &PartitionState| p.copies.iter().all(|copy| copy.host != HostId(0));
    assert!(state.partitions.iter().any(shared), "hosts 1 and 2 have one for themselves");
    assert_eq!(resumed(&state, &[0, 2], &serving), None);
    assert_eq!(resumed(&state, &[0, 1, 2], &serving), Some(vec![1, 2]));
}

/// What host 0 proposes when other hosts fall silent, each from a time on.
fn proposed_of_silent(silent_from_us: [u64; 2]) -> Vec<(HostId, u64)> {
    let (state, options, run) = (formed(2, 1), Options::default(), Incarnation(1));
    let detector = |host| Detector::new(HostId(host), run, 2, options, Faults::default(), 0);
    let (mut own, mut peers) = (detector(0), [detector(1), detector(2)]);
    peers.iter_mut().for_each(|peer| peer.expect(HostId(0), run, 0));
    [1, 2].into_iter().for_each(|host| own.expect(HostId(host), run, 0));
    let (mut supervisor, mut lost) = (Supervisor::default(), Vec::new());
    for now_us in (0..2_000_000).step_by(10_000) {
        let times = (now_us, now_us + 1);
        for (number, peer) in peers.iter_mut().enumerate() {
            // The two beat at different times.
            let beats = now_us % 50_000 == 20_000 * number as u64;
            (0..2).for_each(|site| peer.site_ran(ThreadId(site), now_us));
            let host = HostId(number as u32 + 1);
            let heartbeat = own.heartbeat(host, CLUSTER, Epoch(1), true, times);
            peer.take(HostId(0), &heartbeat, times);
            if beats && now_us < silent_from_us[number] {
                let heartbeat = peer.heartbeat(HostId(0), CLUSTER, Epoch(1), true, times);
                own.take(host, &heartbeat, times);
            }
        }
        let (host, voters) = (HostId(0), [0, 1, 2].map(HostId));
        (0..2).for_each(|site| own.site_ran(ThreadId(site), now_us));
        if own.standing(&voters, Epoch(1), now_us) != Standing::Majority {
            continue;
        }
        for command in supervisor.proposals(host, &state, &own, &options, now_us) {
            if let Command::HostLost { host, .. } = command {
                lost.push((host, now_us));
            }
        }
    }
    lost
}

#[test]
fn a_leader_that_hears_nobody_puts_nobody_out() {
    let lost = proposed_of_silent([1_000_000, u64::MAX]);
    assert!(lost.iter().all(|(host, _)| *host == HostId(1)), "{lost:?}");
    assert!(lost.first().is_some_and(|(_, at_us)| *at_us <= 1_200_000), "{lost:?}");
    // The last heartbeat of host 1 came 20 ms before that of host 2.
    assert_eq!(proposed_of_silent([1_000_000, 1_000_000]), []);
    assert_eq!(proposed_of_silent([1_000_000, 1_060_000]), []);
}

#[test]
fn of_two_hosts_that_are_apart_one_goes_out_unless_it_has_a_last_copy() {
    let with_copies = proposed(&formed(2, 1));
    assert_eq!(with_copies.len(), 1, "{with_copies:?}");
    assert!(!with_copies.contains(&HostId(0)), "it hears both");
    assert!(proposed(&formed(1, 0)).is_empty(), "it would be resumed at once, and lost again");
}

/// A copy that differs each time after it was loaded, however long that takes, is loaded at longer
/// and longer intervals, and at the shortest one once it has lasted.
#[test]
fn a_copy_that_does_not_last_is_loaded_at_longer_and_longer_intervals() {
    let (mut state, options, host) = (formed(2, 1), Options::default(), HostId(1));
    let (mut reloads, mut now_us) = (Reloads::default(), 1_000);
    let apply = |state: &mut ClusterState, command: Command| {
        assert_eq!(state.apply(&command, Faults::default()), crate::Verdict::Applied);
    };
    let number = state.partitions.iter().position(|it| it.followers().any(|copy| copy == host));
    let number = number.expect("it follows a leader");
    let partition = PartitionId(number as u32);
    // How long after it went out of sync the copy is loaded; it comes in sync late, and lasts.
    let mut lasts = |state: &mut ClusterState, lasts_us: u64| {
        let epoch = state.partitions[number].epoch;
        apply(state, Command::OutOfSync { partition, host, epoch });
        let since_us = now_us;
        let begins = loop {
            match reloads.due(state, |_| true, &options, now_us) {
                Some(command) => break command,
                None => now_us += 10_000,
            }
        };
        let waited_us = now_us - since_us;
        let Command::BeginLoading { copy, incarnation, .. } = begins else { panic!("{begins:?}") };
        apply(state, begins);
        for _ in 0..1_000 {
            now_us += 100_000;
            assert_eq!(reloads.due(state, |_| true, &options, now_us), None, "it is loaded");
        }
        let epoch = state.partitions[number].epoch;
        apply(state, Command::InSync { partition, copy, incarnation, epoch });
        let in_sync_us = now_us;
        while now_us - in_sync_us < lasts_us {
            now_us += 100_000;
            assert_eq!(reloads.due(state, |_| true, &options, now_us), None, "it is in sync");
        }
        waited_us
    };
    let waited: Vec<u64> = (0..9).map(|_| lasts(&mut state, 500_000)).collect();
    let seconds: Vec<u64> = waited.iter().map(|us| (us + 500_000) / 1_000_000).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    lasts(&mut state, 70_000_000);
    assert!(lasts(&mut state, 0) < 1_500_000, "it had lasted");
}

/// Three partitions that lose their followers one after the other: each gets a copy again, and none
/// takes the only place of another one.
#[test]
fn copies_are_loaded_where_they_leave_others_a_place() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (mut state, options) = (formed(2, 1), Options::default());
        let (mut reloads, mut now_us) = (Reloads::default(), 1_000);
        let mut lost = order.into_iter();
        for _ in 0..100 {
            if let Some(number) = lost.next() {
                let placed = &state.partitions[number];
                let host = placed.followers().next().expect("K = 1");
                let (partition, epoch) = (PartitionId(number as u32), placed.epoch);
                let command = Command::OutOfSync { partition, host, epoch };
                assert_eq!(state.apply(&command, Faults::default()), crate::Verdict::Applied);
            }
            if let Some(begins) = reloads.due(&state, |_| true, &options, now_us) {
                assert_eq!(state.apply(&begins, Faults::default()), crate::Verdict::Applied);
            }
            now_us += 200_000;
        }
        let lacks = |it: &&crate::PartitionState| it.copies.len() + it.learning.len() < 2;
        assert_eq!(state.partitions.iter().find(lacks), None, "{order:?}");
    }
}
