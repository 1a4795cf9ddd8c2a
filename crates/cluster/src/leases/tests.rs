//! Who holds a lease, and when a new leader opens a partition.

use super::*;
use crate::command::Command;
use crate::ids::ClusterId;
use crate::state::{HostDescription, HostRecord, Shape};
use crate::{RaftId, Verdict};

const LEASE: u64 = 150_000;

fn state(hosts: u32, k: u8) -> ClusterState {
    let shape = Shape { hosts, witnesses: 0, sites_per_host: 2, partitions_per_site: 1, k };
    let record = |host: u32| {
        let description = HostDescription {
            host: HostId(host),
            name: String::new(),
            internal_address: String::new(),
            client_address: String::new(),
            admin_address: String::new(),
            directory: String::new(),
            placement_group: String::new(),
            release: 1,
        };
        (HostId(host), HostRecord::joining(description, Incarnation(1)))
    };
    let hosts: BTreeMap<_, _> = (0..hosts).map(record).collect();
    let voters: BTreeSet<RaftId> = hosts.values().map(HostRecord::raft_id).collect();
    let mut state = ClusterState::forming(ClusterId([1; 16]), "test".into(), shape, hosts);
    state.set_votes(&voters, &BTreeSet::new());
    assert_eq!(state.apply(&Command::Form, Faults::default()), Verdict::Applied);
    state
}

fn leases(host: HostId, state: &ClusterState, now_us: u64) -> Leases {
    let mut leases =
        Leases::new(host, Incarnation(1), Options::default(), Faults::default(), now_us);
    leases.install(state, now_us);
    leases
}

/// A partition with its leader and its followers.
fn roles(state: &ClusterState, partition: u32) -> (PartitionId, HostId, Vec<HostId>) {
    let known = &state.partitions[partition as usize];
    (PartitionId(partition), known.leader, known.followers().collect())
}

#[test]
fn a_leader_needs_every_in_sync_follower_and_a_majority_of_the_voters() {
    let state = state(5, 1);
    let (partition, leader, followers) = roles(&state, 0);
    let mut leases = leases(leader, &state, 0);
    let others: Vec<HostId> =
        (0..5).map(HostId).filter(|host| *host != leader && !followers.contains(host)).collect();
    let now_us = 500_000;
    assert!(!leases.holds(partition, now_us));
    leases.take(followers[0], now_us - 1_000, Epoch(1));
    assert!(!leases.holds(partition, now_us), "two voters of five");
    leases.take(others[0], now_us - 2_000, Epoch(1));
    assert!(leases.holds(partition, now_us));
    // The older one of the two ends it, less the allowance for drift.
    let until_us = now_us - 2_000 + LEASE - Options::default().drift_allowance_us();
    assert_eq!(leases.held_until_us(partition), Some(until_us));
    assert!(leases.holds(partition, until_us - 1) && !leases.holds(partition, until_us));
    // A majority without the follower is not enough.
    let now_us = 900_000;
    others.iter().for_each(|host| leases.take(*host, now_us, Epoch(1)));
    assert!(!leases.holds(partition, now_us + 1));
}

#[test]
fn a_sole_copy_needs_the_majority_alone_and_a_single_host_nobody() {
    let state = state(3, 0);
    let (partition, leader, _) = roles(&state, 0);
    let mut leases = leases(leader, &state, 0);
    assert!(!leases.holds(partition, 500_000));
    let other = HostId((leader.0 + 1) % 3);
    leases.take(other, 499_000, Epoch(1));
    assert!(leases.holds(partition, 500_000));
    let alone = self::state(1, 0);
    let mut leases = self::leases(HostId(0), &alone, 0);
    assert!(!leases.holds(PartitionId(0), LEASE - 1), "an earlier process may have granted");
    assert!(leases.holds(PartitionId(0), LEASE) && leases.holds(PartitionId(0), u64::MAX - 1));
    assert!(leases.seal(PartitionId(0), LEASE));
    assert!(!leases.holds(PartitionId(0), LEASE));
    leases.suspend(true);
    assert!(!leases.holds(PartitionId(1), LEASE));
}

#[test]
fn grants_count_from_the_epoch_of_the_partition_to_that_of_this_host() {
    let mut state = state(3, 2);
    let (partition, leader, followers) = roles(&state, 0);
    let mut leases = leases(leader, &state, 0);
    let now_us = 1_000_000;
    // A follower that is ahead may know of another leader.
    followers.iter().for_each(|host| leases.take(*host, now_us, Epoch(2)));
    assert!(!leases.holds(partition, now_us));
    let epoch = state.partitions[0].epoch;
    let out = Command::OutOfSync { partition, host: followers[1], epoch };
    assert_eq!(state.apply(&out, Faults::default()), Verdict::Applied);
    leases.install(&state, now_us);
    assert!(leases.holds(partition, now_us), "the epoch that it was ahead by arrived");
    // A grant of before the partition's epoch is of another configuration.
    let later_us = now_us + 1_000_000;
    followers.iter().for_each(|host| leases.take(*host, later_us, Epoch(1)));
    assert!(!leases.holds(partition, later_us));
}

#[test]
fn a_new_leader_waits_until_the_grants_have_ended_that_it_gave() {
    let mut state = state(3, 2);
    let (partition, old, followers) = roles(&state, 0);
    let (host, now_us) = (followers[0], 1_000_000);
    let mut leases = leases(host, &state, 0);
    assert!(leases.give(old, Incarnation(1), now_us), "counted from the receipt");
    assert!(!leases.give(old, Incarnation(2), now_us + 5_000), "another process");
    let epoch = state.partitions[0].epoch;
    let to = host;
    assert_eq!(
        state.apply(&Command::MoveLeader { partition, to, epoch }, Faults::default()),
        Verdict::Applied
    );
    assert_eq!(leases.open_after_us(partition), None, "it does not lead yet");
    leases.install(&state, now_us + 20_000);
    assert_eq!(leases.open_after_us(partition), Some(now_us + LEASE));
    // A state without a new epoch for the partition changes nothing.
    state.apply(&Command::CatalogVersion(5), Faults::default());
    leases.install(&state, now_us + 30_000);
    assert_eq!(leases.open_after_us(partition), Some(now_us + LEASE));
    // A follower that goes out does not begin the wait again.
    let epoch = state.partitions[0].epoch;
    let out = Command::OutOfSync { partition, host: followers[1], epoch };
    state.apply(&out, Faults::default());
    leases.install(&state, now_us + 40_000);
    assert_eq!(leases.open_after_us(partition), Some(now_us + LEASE));
}

#[test]
fn the_leases_of_all_older_leaders_have_ended_before_a_partition_is_opened() {
    let mut state = state(3, 2);
    let (partition, first, followers) = roles(&state, 0);
    let (second, third) = (followers[0], followers[1]);
    let now_us = 1_000_000;
    let mut leases = leases(third, &state, 0);
    let mut new_copy = self::leases(third, &state, 0);
    leases.give(first, Incarnation(1), now_us);
    let lead = |state: &mut ClusterState, to| {
        let epoch = state.partitions[0].epoch;
        let command = Command::MoveLeader { partition, to, epoch };
        assert_eq!(state.apply(&command, Faults::default()), Verdict::Applied);
    };
    lead(&mut state, second);
    leases.install(&state, now_us + 1_000);
    lead(&mut state, third);
    leases.install(&state, now_us + 2_000);
    assert_eq!(leases.open_after_us(partition), Some(now_us + LEASE), "the first one's lease");
    // A copy that came after the first leader's time knows nothing of its leases.
    let epoch = state.partitions[0].epoch;
    lead(&mut state, second);
    let out = Command::OutOfSync { partition, host: third, epoch: Epoch(epoch.0 + 1) };
    assert_eq!(state.apply(&out, Faults::default()), Verdict::Applied);
    new_copy.install(&state, now_us);
    let copy = state.partitions[0].copies[0];
    let thread = copy.thread;
    let copy = crate::Copy { host: third, thread };
    state.partitions[0].learning.push(copy);
    let command = Command::InSync {
        partition,
        copy,
        incarnation: state.hosts[&third].incarnation,
        epoch: state.epoch,
    };
    assert_eq!(state.apply(&command, Faults::default()), Verdict::Applied);
    new_copy.install(&state, now_us);
    lead(&mut state, third);
    new_copy.install(&state, now_us);
    assert_eq!(new_copy.open_after_us(partition), None);
    new_copy.note_epochs(|_| state.epoch, now_us);
    assert!(new_copy.open_after_us(partition).is_some_and(|at_us| at_us >= now_us + LEASE));
}

#[test]
fn a_sealed_transfer_opens_at_once_and_unseals_when_it_is_given_up() {
    let mut state = state(3, 2);
    let (partition, old, followers) = roles(&state, 0);
    let (to, now_us) = (followers[0], 1_000_000);
    let (mut from_leases, mut to_leases) = (leases(old, &state, 0), leases(to, &state, 0));
    let epoch = state.partitions[0].epoch;
    let run = |state: &mut ClusterState, command| {
        assert_eq!(state.apply(&command, Faults::default()), Verdict::Applied);
    };
    run(&mut state, Command::BeginHandOver { partition, to, epoch });
    from_leases.install(&state, now_us);
    followers.iter().for_each(|host| from_leases.take(*host, now_us, Epoch(1)));
    assert!(from_leases.holds(partition, now_us), "until it seals");
    assert!(!to_leases.seal(partition, now_us), "it does not lead");
    assert!(!from_leases.seal(partition, LEASE - 1), "it is not open");
    assert!(from_leases.seal(partition, now_us));
    assert!(!from_leases.holds(partition, now_us));
    let mut given_up = state.clone();
    run(&mut given_up, Command::GiveUpHandOver { partition, epoch });
    run(&mut state, Command::CompleteHandOver { partition, to, epoch });
    to_leases.give(old, Incarnation(1), now_us);
    to_leases.install(&state, now_us + 1_000);
    assert_eq!(to_leases.open_after_us(partition), Some(now_us + 1_000));
    from_leases.install(&given_up, now_us + 1_000);
    followers.iter().for_each(|host| from_leases.take(*host, now_us, Epoch(2)));
    assert!(from_leases.holds(partition, now_us + 1_000));
}

#[test]
fn a_leader_that_missed_epochs_waits_for_a_majority_and_the_time_of_a_lease() {
    let mut state = state(3, 2);
    let (partition, old, followers) = roles(&state, 0);
    let mut leases = leases(followers[0], &state, 0);
    for to in [followers[1], followers[0]] {
        let epoch = state.partitions[0].epoch;
        state.apply(&Command::MoveLeader { partition, to, epoch }, Faults::default());
    }
    let now_us = 1_000_000;
    leases.install(&state, now_us);
    assert_eq!(leases.open_after_us(partition), None);
    leases.note_epochs(|_| Epoch(2), now_us);
    assert_eq!(leases.open_after_us(partition), None, "the others have an older epoch");
    let epoch_of = |host| if host == old { Epoch(3) } else { Epoch(2) };
    leases.note_epochs(epoch_of, now_us + 7_000);
    let opens_us = leases.open_after_us(partition).expect("two of three have it");
    assert!(opens_us >= now_us + 7_000 + LEASE);
    leases.note_epochs(|_| Epoch(3), now_us + 90_000);
    assert_eq!(leases.open_after_us(partition), Some(opens_us), "the wait begins once");
}

#[test]
fn the_allowance_covers_the_drift_of_both_clocks() {
    let options = Options::default();
    let length_us = options.lease_us - options.drift_allowance_us();
    for rate_ppm in [0, 100, options.clock_drift_ppm] {
        // The leader's clock is slow, the follower's fast.
        let leader_true_us = length_us as f64 / (1.0 - rate_ppm as f64 / 1e6);
        let follower_true_us = options.lease_us as f64 / (1.0 + rate_ppm as f64 / 1e6);
        assert!(leader_true_us <= follower_true_us, "{rate_ppm} ppm");
    }
}
