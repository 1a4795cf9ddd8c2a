//! Scenarios that are written out: each names the rule that it shows.

use crate::world::{Setup, World};
use lockstep_base::random::SeededRandom;
use lockstep_cluster::{
    Command, Control, Epoch, Faults, HostState, Incarnation, Options, ProposalId, ProposalOutcome,
    Shape, Standing, Vote,
};
use lockstep_types::{HostId, PartitionId};

fn shape(hosts: u32, witnesses: u32, k: u8) -> Shape {
    Shape { hosts, witnesses, sites_per_host: u16::from(k) + 1, partitions_per_site: 1, k }
}

/// A cluster that is formed and at rest, in which nothing happens by itself.
fn formed(seed: u64, shape: Shape, disk: bool) -> World {
    let options = Options { resume_wait_us: 500_000, ..Options::default() };
    let mut world = World::new(seed, Setup { shape, disk, faults: Faults::default(), options });
    world.busy = false;
    assert!(world.run_until(3_000_000, &all_held), "seed {seed}: the cluster is not formed");
    world
}

/// Whether every partition is led by a running host that holds its lease.
fn all_held(world: &World) -> bool {
    let Some(state) = world.newest_state().filter(|state| state.is_formed()) else { return false };
    (0..)
        .zip(&state.partitions)
        .all(|(number, partition)| holds(world, partition.leader, PartitionId(number)))
}

fn holds(world: &World, host: HostId, partition: PartitionId) -> bool {
    let host = world.host(host);
    let control = host.control.as_ref();
    control.is_some_and(|control| control.holds_lease(partition, world.local(host).us))
}

fn control(world: &World, host: HostId) -> &Control {
    world.host(host).control.as_ref().expect("it runs")
}

fn raft_leader(world: &World) -> HostId {
    let leads = |host: &&crate::world::Host| {
        host.control.as_ref().is_some_and(|control| control.member().leads())
    };
    world.hosts.iter().find(leads).expect("one leads").id
}

fn wait(world: &mut World, for_us: u64, done: &dyn Fn(&World) -> bool) -> u64 {
    let (from_us, until_us) = (world.now_us, world.now_us + for_us);
    assert!(world.run_until(until_us, done), "it does not happen in {for_us} us");
    world.now_us - from_us
}

fn isolate(world: &mut World, host: HostId, for_us: u64) {
    for other in (0..world.setup.shape.members()).map(HostId).filter(|other| *other != host) {
        world.cut(host, other, for_us);
        world.cut(other, host, for_us);
    }
}

#[test]
fn a_killed_host_is_lost_and_its_partitions_are_served_again_in_half_a_second() {
    let mut slowest_us = 0;
    for seed in 0..40 {
        let mut world = formed(seed, shape(3, 0, 1), true);
        // Every other seed kills the leader of the Raft group, which takes an election more.
        let leader = raft_leader(&world);
        let victim = if seed % 2 == 0 { leader } else { HostId((leader.0 + 1) % 3) };
        world.crash(victim);
        let lost = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            state.hosts[&victim].state == HostState::Down && all_held(world)
        };
        slowest_us = slowest_us.max(wait(&mut world, 2_000_000, &lost));
        let state = world.newest_state().expect("it is formed");
        assert!(state.partitions.iter().all(|p| p.leader != victim));
    }
    assert!(slowest_us < 800_000, "the slowest took {slowest_us} us");
}

#[test]
fn a_host_that_leaves_is_lost_at_once_and_nothing_waits_for_an_election_after_it() {
    let (mut slowest_us, mut longest_us) = (0, 0);
    for seed in 0..40 {
        let mut world = formed(seed, shape(3, 0, 1), seed % 3 == 0);
        let leader = raft_leader(&world);
        let leaves = if seed % 2 == 0 { leader } else { HostId((leader.0 + 1) % 3) };
        let placed = world.newest_state().expect("it is formed").clone();
        // Leaders move before a host leaves: what others lead is served all the time.
        let is_served = |world: &World| {
            let partitions = (0..).map(PartitionId).zip(&placed.partitions);
            let mut others = partitions.filter(|(_, it)| it.leader != leaves);
            others.all(|(number, it)| holds(world, it.leader, number))
        };
        world.leave(leaves);
        let is_lost = |world: &World| {
            world.newest_state().expect("it is formed").hosts[&leaves].state == HostState::Down
        };
        slowest_us = slowest_us.max(wait(&mut world, 2_000_000, &is_lost));
        let until_us = world.now_us + 1_000_000;
        while world.run_until(until_us, &|world: &World| !is_served(world)) {
            longest_us = longest_us.max(wait(&mut world, 1_000_000, &is_served));
        }
        assert!(all_held(&world), "seed {seed}");
        assert_ne!(raft_leader(&world), leaves, "seed {seed}: another host leads the group");
        world.crash(leaves);
        let epoch = world.newest_state().expect("it is formed").epoch;
        // The others serve all the time, and have nothing to find out.
        let fails = |world: &World| !all_held(world);
        assert!(!world.run_until(world.now_us + 1_000_000, &fails), "seed {seed}");
        assert_eq!(world.newest_state().expect("it is formed").epoch, epoch, "seed {seed}");
    }
    assert!(slowest_us < 50_000, "the slowest took {slowest_us} us: a suspicion takes 200 ms");
    assert!(longest_us < 10_000, "what others lead was not served for {longest_us} us");
}

#[test]
fn a_host_without_which_there_is_no_majority_does_not_leave() {
    let mut world = formed(3, shape(2, 0, 1), false);
    world.leave(HostId(0));
    let lost = |world: &World| {
        let state = world.newest_state().expect("it is formed");
        state.hosts[&HostId(0)].state == HostState::Down
    };
    assert!(!world.run_until(world.now_us + 1_000_000, &lost), "it has the only vote");
    assert!(all_held(&world));
}

#[test]
fn a_host_that_is_cut_off_says_minority_and_gives_up_its_leases_before_another_one_serves() {
    for seed in 0..20 {
        let mut world = formed(seed, shape(3, 0, 2), false);
        let victim = raft_leader(&world);
        isolate(&mut world, victim, 10_000_000);
        // That two hosts never hold one lease is checked at each step.
        let minority = |world: &World| control(world, victim).standing() == Standing::Minority;
        assert!(wait(&mut world, 1_000_000, &minority) <= 400_000);
        assert!(control(&world, victim).leases().led().iter().all(|p| !holds(&world, victim, *p)));
        wait(&mut world, 1_500_000, &all_held);
        let epoch = |world: &World| control(world, victim).state().map(|state| state.epoch);
        assert!(epoch(&world) < world.newest_state().map(|state| state.epoch), "seed {seed}");
    }
}

#[test]
fn a_cut_in_one_direction_is_a_loss_like_any_other() {
    for seed in 0..20 {
        let mut world = formed(seed, shape(3, 0, 1), true);
        let leader = raft_leader(&world);
        let (a, b) = (HostId((leader.0 + 1) % 3), HostId((leader.0 + 2) % 3));
        // a does not hear the leader; or two followers are apart in one direction.
        let (from, to) = if seed % 2 == 0 { (leader, a) } else { (a, b) };
        world.cut(from, to, 10_000_000);
        let settled = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            let down = state.hosts.values().filter(|r| r.state == HostState::Down).count();
            down == 1 && all_held(world)
        };
        wait(&mut world, 3_000_000, &settled);
    }
}

#[test]
fn a_process_that_lost_its_raft_state_joins_under_another_identity() {
    for seed in 0..10 {
        let mut world = formed(seed, shape(3, 0, 1), false);
        let victim = HostId((seed % 3) as u32);
        let old = control(&world, victim).member().identity().id;
        world.crash(victim);
        // It is back before anybody suspects it.
        world.run_until(world.now_us + 50_000, &|_| false);
        world.start(victim);
        let back = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            let record = &state.hosts[&victim];
            let full = state.partitions.iter().all(|p| p.copies.len() == 2);
            record.vote == Vote::Voter && record.state == HostState::Up && full && all_held(world)
        };
        wait(&mut world, 5_000_000, &back);
        let new = control(&world, victim).member().identity().id;
        assert!(new > old && new.joined_in() == Incarnation(2));
        let (state, epoch) = (world.newest_state().expect("it is formed"), Epoch(1));
        assert!(state.epoch > epoch, "its copies went out and came back");
    }
}

#[test]
fn a_process_that_is_started_beside_a_host_that_runs_changes_nothing() {
    for seed in 0..6 {
        let mut world = formed(seed, shape(3, 0, 1), seed < 3);
        let before = world.newest_state().expect("it is formed").clone();
        let leader = raft_leader(&world);
        let host = HostId((seed % 3) as u32);
        world.start_beside(host, 2_000_000);
        let after = world.newest_state().expect("it is formed");
        assert_eq!(*after, before, "seed {seed}: members, votes and copies are as before");
        assert_eq!(raft_leader(&world), leader, "seed {seed}");
        // The running one is still heard by all: what it proposes is done.
        let epoch = after.epoch;
        world.propose(host, Command::CatalogVersion(after.catalog_version + 1));
        let done = |world: &World| {
            let known = |host| control(world, HostId(host)).state().map(|it| it.catalog_version);
            (0..3).all(|host| known(host) == Some(before.catalog_version + 1))
        };
        wait(&mut world, 1_000_000, &done);
        assert_eq!(world.newest_state().map(|state| state.epoch), Some(epoch));
    }
}

#[test]
fn a_cluster_that_stopped_as_a_whole_resumes_with_all_its_copies() {
    for seed in 0..10 {
        let mut world = formed(seed, shape(3, 0, 1), true);
        let before = world.newest_state().expect("it is formed").clone();
        (0..3).for_each(|host| world.crash(HostId(host)));
        let mut random = SeededRandom::new(seed);
        for host in 0..3 {
            let pause_us = random.below(100_000);
            world.run_until(world.now_us + pause_us, &|_| false);
            world.start(HostId(host));
        }
        wait(&mut world, 5_000_000, &all_held);
        let after = world.newest_state().expect("it is formed");
        for (was, is) in before.partitions.iter().zip(&after.partitions) {
            assert_eq!(was.copies, is.copies, "no copy is loaded again");
            assert!(is.epoch > was.epoch, "processes begin their work in a new epoch");
        }
        assert!(after.hosts.values().all(|record| record.incarnation == Incarnation(2)));
    }
}

#[test]
fn two_hosts_and_a_witness_survive_the_loss_of_any_one_of_the_three() {
    for victim in (0..3).map(HostId) {
        let mut world = formed(7, shape(2, 1, 1), true);
        let state = world.newest_state().expect("it is formed");
        assert_eq!(state.voters().count(), 3);
        assert_eq!(state.partitions_of(HostId(2)).count(), 0, "a witness has no data");
        world.crash(victim);
        let lost = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            state.hosts[&victim].state == HostState::Down && all_held(world)
        };
        wait(&mut world, 3_000_000, &lost);
        world.start(victim);
        let back = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            let up = state.hosts.values().all(|record| record.state == HostState::Up);
            up && state.partitions.iter().all(|p| p.copies.len() == 2) && all_held(world)
        };
        wait(&mut world, 5_000_000, &back);
    }
}

#[test]
fn a_witness_begins_again_with_hosts_that_have_lost_everything() {
    let mut world = formed(7, shape(2, 1, 1), false);
    let before = world.newest_state().expect("it is formed").id;
    for host in [HostId(0), HostId(1)] {
        world.crash(host);
    }
    for host in [HostId(0), HostId(1)] {
        world.start(host);
    }
    let again = |world: &World| {
        let state = control(world, HostId(2)).state();
        state.is_some_and(|state| state.id != before && state.is_formed()) && all_held(world)
    };
    wait(&mut world, 5_000_000, &again);
}

#[test]
fn at_most_five_members_vote_and_a_learner_takes_the_seat_of_a_lost_voter() {
    let mut world = formed(3, shape(7, 0, 1), true);
    let votes = |world: &World, vote| {
        let state = world.newest_state().expect("it is formed");
        let hosts = state.hosts.iter().filter(move |(_, record)| record.vote == vote);
        hosts.map(|(host, _)| host.0).collect::<Vec<u32>>()
    };
    assert_eq!(votes(&world, Vote::Voter), [0, 1, 2, 3, 4]);
    assert_eq!(votes(&world, Vote::Learner), [5, 6]);
    world.crash(HostId(2));
    let replaced = |world: &World| votes(world, Vote::Voter) == [0, 1, 3, 4, 5];
    wait(&mut world, 3_000_000, &replaced);
    assert_eq!(votes(&world, Vote::Learner), [2, 6]);
}

#[test]
fn a_host_whose_clock_is_a_minute_ahead_is_put_out_and_not_the_others() {
    let mut world = formed(5, shape(3, 0, 1), true);
    world.set_wall_offset(HostId(1), 60_000_000);
    let lost = |world: &World| {
        let state = world.newest_state().expect("it is formed");
        state.hosts[&HostId(1)].state == HostState::Down && all_held(world)
    };
    wait(&mut world, 3_000_000, &lost);
    let minority = |world: &World| control(world, HostId(1)).standing() != Standing::Majority;
    wait(&mut world, 1_000_000, &minority);
}

#[test]
fn no_cluster_is_formed_with_a_host_whose_clock_is_off() {
    for (host, offset_us) in [(1, 60_000_000), (0, 60_000_000), (2, 1_100_000)] {
        let options = Options::default();
        let setup = Setup { shape: shape(3, 0, 1), disk: true, faults: Faults::default(), options };
        let mut world = World::new(3, setup);
        world.set_wall_offset(HostId(host), offset_us);
        assert!(!world.run_until(2_000_000, &|world| world.newest_state().is_some()));
        assert!(world.judge.seen.contains_key("greetings with clocks off"), "it is reported");
        world.set_wall_offset(HostId(host), 0);
        wait(&mut world, 3_000_000, &all_held);
    }
}

#[test]
fn a_site_that_stands_still_costs_its_host_the_leases_and_then_the_copies() {
    for victim in (0..3).map(HostId) {
        let mut world = formed(11, shape(3, 0, 1), true);
        world.stick_site(victim, 20_000_000);
        let lost = |world: &World| {
            let state = world.newest_state().expect("it is formed");
            state.hosts[&victim].state == HostState::Down && all_held(world)
        };
        let took_us = wait(&mut world, 4_000_000, &lost);
        assert!(took_us > 900_000, "a statement may keep a site for a while");
    }
}

#[test]
fn a_proposal_is_applied_once_wherever_it_is_made_and_however_often_it_is_sent() {
    for seed in 0..20 {
        let mut world = formed(seed, shape(3, 0, 1), true);
        world.lost_of_thousand = 300;
        let mut expected = Vec::new();
        for round in 0..15u64 {
            let host = HostId((round % 3) as u32);
            let command = Command::CatalogVersion(round + 1);
            expected.push((host, world.propose(host, command)));
            let pause_us = 50_000 + world.random.below(100_000);
            world.run_until(world.now_us + pause_us, &|_| false);
        }
        world.lost_of_thousand = 0;
        world.run_until(world.now_us + 6_000_000, &|_| false);
        let ended: Vec<(HostId, ProposalId)> =
            world.judge.ended.iter().map(|(host, id, _)| (*host, *id)).collect();
        for proposal in &expected {
            let times = ended.iter().filter(|ended| *ended == proposal).count();
            assert_eq!(times, 1, "seed {seed}: {proposal:?} ended {times} times");
        }
    }
}

#[test]
fn a_proposal_of_a_host_that_is_cut_off_ends_as_unknown_in_time() {
    let mut world = formed(9, shape(3, 0, 1), true);
    let host = HostId((raft_leader(&world).0 + 1) % 3);
    isolate(&mut world, host, 20_000_000);
    let id = world.propose(host, Command::CatalogVersion(7));
    let is_unknown =
        |world: &World| world.judge.ended.contains(&(host, id, ProposalOutcome::Unknown));
    let took_us = wait(&mut world, 5_500_000, &is_unknown);
    assert!(took_us > 4_500_000, "{took_us}");
}

#[test]
fn a_planned_transfer_lets_a_partition_stand_still_for_milliseconds_only() {
    for seed in 0..20 {
        let mut world = formed(seed, shape(3, 0, 2), true);
        let partition = PartitionId(0);
        let known = world.newest_state().expect("it is formed").partitions[0].clone();
        let (from, to) = (known.leader, known.followers().next().expect("K = 2"));
        world.propose(from, Command::BeginHandOver { partition, to, epoch: known.epoch });
        let sealed = |world: &World| !holds(world, from, partition);
        wait(&mut world, 1_000_000, &sealed);
        let still_us = wait(&mut world, 1_000_000, &|world| all_held(world));
        assert!(still_us < 40_000, "seed {seed}: {still_us} us");
        let state = world.newest_state().expect("it is formed");
        assert_eq!(state.partitions[0].leader, to, "seed {seed}");
    }
}

#[test]
fn damaged_messages_are_refused_and_change_nothing_else() {
    for seed in 0..60 {
        let mut world = formed(seed, shape(3, 0, 1), seed % 2 == 0);
        world.damage_of_thousand = 200;
        world.judge.expects_refusals = true;
        world.run_until(world.now_us + 1_000_000, &|_| false);
        assert!(world.judge.refused > 0, "seed {seed}: nothing was refused");
    }
}
