//! Changes of K: what they place, what they drop, and what is refused.

use super::*;
use crate::command::Command;
use crate::faults::Faults;
use crate::ids::{ClusterId, Incarnation};
use crate::state::{HostDescription, HostRecord};
use lockstep_base::random::SeededRandom;

/// A cluster that is formed; `groups` has the placement group of each host.
pub(crate) fn formed(sites: u16, k: u8, groups: &[u32]) -> ClusterState {
    let shape = Shape {
        hosts: groups.len() as u32,
        witnesses: 0,
        sites_per_host: sites,
        partitions_per_site: 1,
        k,
    };
    let record = |(host, group): (u32, &u32)| {
        let description = HostDescription {
            host: HostId(host),
            name: format!("host{host}"),
            internal_address: String::new(),
            client_address: String::new(),
            admin_address: String::new(),
            directory: String::new(),
            placement_group: format!("rack-{group}"),
            release: 1,
        };
        (HostId(host), HostRecord::joining(description, Incarnation(1)))
    };
    let hosts = (0..).zip(groups).map(record).collect();
    let mut state = ClusterState::forming(ClusterId([7; 16]), "test".into(), shape, hosts);
    assert_eq!(run(&mut state, &Command::Form), Verdict::Applied);
    state
}

pub(crate) fn run(state: &mut ClusterState, command: &Command) -> Verdict {
    assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(command), "it is read as written");
    let verdict = state.apply(command, Faults::default());
    assert_eq!(ClusterState::decode(&state.encode()).as_ref(), Ok(&*state), "so is the state");
    verdict
}

fn change(state: &mut ClusterState, k: u8) -> Verdict {
    let epoch = state.epoch;
    run(state, &Command::ChangeK { k, epoch })
}

fn refusal(state: &mut ClusterState, k: u8) -> String {
    let before = state.clone();
    let verdict = change(state, k);
    assert_eq!(*state, before, "what is refused changes nothing");
    match verdict {
        Verdict::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

/// All copies that are loaded come in sync.
pub(crate) fn load_all(state: &mut ClusterState) {
    for number in (0..state.partitions.len() as u32).map(PartitionId) {
        for copy in state.partitions[number.index()].learning.clone() {
            let epoch = state.partitions[number.index()].epoch;
            let (partition, incarnation) = (number, Incarnation(1));
            let in_sync = Command::InSync { partition, copy, incarnation, epoch };
            assert_eq!(run(state, &in_sync), Verdict::Applied);
        }
    }
}

/// How many copies share their group with another one of their partition.
fn sharing(state: &ClusterState, groups: &[u32]) -> usize {
    let of = |partition: &crate::PartitionState| {
        let copies = partition.copies.iter().chain(&partition.learning);
        let groups: Vec<u32> = copies.map(|copy| groups[copy.host.0 as usize]).collect();
        groups.len() - groups.iter().collect::<BTreeSet<_>>().len()
    };
    state.partitions.iter().map(of).sum()
}

fn check(state: &ClusterState, k: u8) {
    assert_eq!((state.shape.k, state.shape.copies()), (k, usize::from(k) + 1));
    for partition in &state.partitions {
        assert_eq!(partition.copies.len() + partition.learning.len(), usize::from(k) + 1);
    }
    let limit = u32::from(state.shape.partitions_per_site);
    for host in (0..state.shape.hosts).map(HostId) {
        assert!(state.copies_by_site(host).into_iter().all(|count| count <= limit), "{state:?}");
        assert!(state.partitions_of(host).next().is_some(), "host {host} has nothing");
    }
}

#[test]
fn k_goes_down_in_one_epoch_and_up_again_when_the_copies_are_loaded() {
    let mut state = formed(3, 2, &[0, 0, 0]);
    let leaders: Vec<HostId> = state.partitions.iter().map(|it| it.leader).collect();
    assert_eq!(change(&mut state, 1), Verdict::Applied);
    assert_eq!((state.epoch, state.made_k), (Epoch(2), 2));
    check(&state, 1);
    assert!(state.partitions.iter().all(|it| it.epoch == Epoch(2) && it.learning.is_empty()));
    assert!(state.partitions.iter().map(|it| it.leader).eq(leaders), "leaders stay");
    let repeated = run(&mut state, &Command::ChangeK { k: 0, epoch: Epoch(1) });
    assert_eq!(repeated, Verdict::Refused(Refusal::Stale));
    assert_eq!(change(&mut state, 2), Verdict::Applied);
    check(&state, 2);
    let loading = |state: &ClusterState| state.partitions.iter().all(|it| it.learning.len() == 1);
    assert!(loading(&state) && state.partitions.iter().all(|it| it.copies.len() == 2));
    // A copy of an epoch before that one does not come in sync by it.
    let (copy, incarnation) = (state.partitions[0].learning[0], Incarnation(1));
    let late = Command::InSync { partition: PartitionId(0), copy, incarnation, epoch: Epoch(2) };
    assert_eq!(run(&mut state, &late), Verdict::Refused(Refusal::Stale));
    load_all(&mut state);
    check(&state, 2);
    assert!(state.partitions.iter().all(|it| it.copies.len() == 3));
}

#[test]
fn a_smaller_k_ends_a_greater_one_that_is_in_progress() {
    let mut state = formed(3, 2, &[0, 0, 0]);
    assert_eq!(change(&mut state, 1), Verdict::Applied);
    assert_eq!(change(&mut state, 2), Verdict::Applied);
    let before = state.clone();
    assert!(refusal(&mut state, 2).contains("K is 2 already"));
    assert_eq!(change(&mut state, 1), Verdict::Applied);
    check(&state, 1);
    for (was, is) in before.partitions.iter().zip(&state.partitions) {
        assert_eq!(is.copies, was.copies, "copies that are loaded go first");
        assert!(is.learning.is_empty());
    }
}

#[test]
fn what_cannot_be_names_the_value_and_the_limit() {
    let mut state = formed(2, 1, &[0, 0, 0]);
    for (k, text) in [
        (3, "K is 0 to 2, not 3"),
        (1, "K is 1 already"),
        (2, "needs 9 copies of 3 partitions, each at 3 hosts, and 3 hosts x 2 sites x 1"),
    ] {
        let found = refusal(&mut state, k);
        assert!(found.contains(text), "{found}");
    }
    let found = refusal(&mut formed(2, 1, &[0, 0]), 2);
    assert!(found.contains("K = 2 needs 3 hosts, and the cluster has 2"), "{found}");
    let found = refusal(&mut formed(2, 0, &[0, 0]), 1);
    assert!(found.contains("made with --kfactor 0"), "{found}");
    let found = refusal(&mut formed(1, 2, &[0, 0, 0]), 1);
    assert!(found.contains("leaves host 2 without a copy of any of the 1 partitions"), "{found}");
    state.shape.partitions_per_site = 2;
    let lost = Command::HostLost { host: HostId(1), incarnation: Incarnation(1) };
    assert_eq!(run(&mut state, &lost), Verdict::Applied);
    for k in [0, 2] {
        assert!(refusal(&mut state, k).contains("host 1 is not up"));
    }
    let (host, incarnation) = (HostId(1), Incarnation(1));
    assert_eq!(run(&mut state, &Command::HostUp { host, incarnation }), Verdict::Applied);
    assert!(refusal(&mut state, 2).contains("has not all of its 2 copies in sync"));
    load_all(&mut state);
    assert_eq!(change(&mut state, 2), Verdict::Applied);
    check(&state, 2);
}

#[test]
fn a_follower_to_which_a_leader_is_being_moved_keeps_its_copy() {
    let mut state = formed(3, 2, &[0, 0, 0]);
    for number in (0..3).map(PartitionId) {
        let placed = &state.partitions[number.index()];
        let (epoch, to) = (placed.epoch, placed.followers().last().expect("it has two"));
        let begin = Command::BeginHandOver { partition: number, to, epoch };
        assert_eq!(run(&mut state, &begin), Verdict::Applied);
    }
    let moves: Vec<_> = state.partitions.iter().map(|it| it.hand_over).collect();
    assert_eq!(change(&mut state, 1), Verdict::Applied);
    assert!(state.partitions.iter().map(|it| it.hand_over).eq(moves));
}

#[test]
fn copies_are_spread_over_hosts_and_placement_groups() {
    let mut random = SeededRandom::new(7);
    let (mut changed, mut separate) = (0, 0);
    for _ in 0..400 {
        let hosts = 2 + random.below(5) as usize;
        let groups: Vec<u32> = (0..hosts).map(|_| random.below(4) as u32).collect();
        let k = (1 + random.below(2) as u8).min(hosts as u8 - 1);
        // Each host leads one partition at least, whichever K there is.
        let mut state = formed(u16::from(k + 1) * (1 + random.below(2) as u16), k, &groups);
        let room = random.below(3) as u16;
        state.shape.partitions_per_site += room;
        for _ in 0..6 {
            let wanted = random.below(3) as u8;
            let before = state.clone();
            match change(&mut state, wanted) {
                Verdict::Applied => {
                    check(&state, wanted);
                    changed += 1;
                }
                Verdict::Refused(refusal) => {
                    assert_eq!(state, before);
                    let fits = wanted != before.shape.k && u32::from(wanted) < hosts as u32;
                    // There was space for the copies with which the cluster was made.
                    assert!(!fits || wanted > k.max(before.shape.k), "{refusal}: {before:?}");
                }
                other => panic!("{other:?}"),
            }
            load_all(&mut state);
        }
        let different = groups.iter().collect::<BTreeSet<_>>().len();
        if room == 2 && different == hosts {
            assert_eq!(sharing(&state, &groups), 0);
            separate += 1;
        }
    }
    assert!(changed > 500 && separate > 5, "{changed} {separate}");
}

#[test]
fn added_copies_are_in_groups_without_one() {
    let groups = [0, 0, 1, 1, 2, 2];
    let mut state = formed(4, 1, &groups);
    assert_eq!(sharing(&state, &groups), 0);
    state.shape.partitions_per_site = 2;
    assert_eq!(change(&mut state, 2), Verdict::Applied);
    assert_eq!(sharing(&state, &groups), 0, "{state:?}");
    load_all(&mut state);
    assert_eq!(change(&mut state, 1), Verdict::Applied);
    assert_eq!(sharing(&state, &groups), 0);
    check(&state, 1);
}
