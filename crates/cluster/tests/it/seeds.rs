//! Random faults: everything that a seed decides, and that each injected fault is caught.

use crate::world::{Setup, World};
use lockstep_base::random::SeededRandom;
use lockstep_cluster::{Faults, Options, Shape};
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds of a test run.
const SEEDS: u64 = 2_000;
/// How long faults go on, and how long the cluster has to agree after them.
const CHAOS_US: u64 = 2_500_000;
const AGREE_US: u64 = 10_000_000;

fn options(random: &mut SeededRandom) -> Options {
    Options {
        site_suspect_after_us: 400_000,
        resume_wait_us: 500_000,
        proposal_timeout_us: 1_000_000,
        compact_entries: [4, 16, 256][random.below(3) as usize],
        ..Options::default()
    }
}

fn setup(seed: u64, faults: Faults) -> Setup {
    let random = &mut SeededRandom::new(seed ^ 0x5e7);
    let shapes =
        [(1, 0, 0), (2, 1, 1), (3, 0, 1), (3, 0, 2), (3, 0, 0), (4, 0, 1), (5, 0, 2), (7, 0, 1)];
    // Small clusters are most of them: they run faster, and their faults are as many.
    let pick = random.below(shapes.len() as u64).min(random.below(shapes.len() as u64) + 1);
    let (hosts, witnesses, k) = shapes[pick as usize];
    // As many replicas as the copies divide.
    let sites_per_host =
        if hosts == 3 && k == 1 || hosts == 7 || hosts == 5 { u16::from(k) + 1 } else { 1 };
    let shape = Shape { hosts, witnesses, sites_per_host, partitions_per_site: 1, k };
    Setup { shape, disk: random.chance(1, 2), faults, options: options(random) }
}

/// Runs a seed; panics if a judge objects. Gives what was seen.
fn run(seed: u64, faults: Faults) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(seed, setup(seed, faults));
    let early = world.random.chance(1, 4);
    if !early {
        let formed = |world: &World| world.newest_state().is_some_and(|state| state.is_formed());
        assert!(world.run_until(3_000_000, &formed), "seed {seed}: no cluster is formed");
    }
    let end_us = world.now_us + CHAOS_US;
    while world.now_us < end_us {
        disturb(&mut world);
        let pause_us = 20_000 + world.random.below(250_000);
        world.run_until(world.now_us + pause_us, &|_| false);
    }
    world.heal();
    world.busy = false;
    let limit_us = world.now_us + AGREE_US;
    let agreed = world.run_until(limit_us, &is_at_rest);
    assert!(agreed, "seed {seed}: no agreement in time; {}", describe(&world));
    world.judge.saw("seeds");
    std::mem::take(&mut world.judge.seen)
}

fn describe(world: &World) -> String {
    let states = world.hosts.iter().map(|host| {
        let control = host.control.as_ref();
        let state = control.and_then(|control| control.state());
        let hosts = state.map(|state| {
            let of = |(host, r): (&HostId, &lockstep_cluster::HostRecord)| {
                format!("{host}: {:?} {:?} {}.{}", r.state, r.vote, r.joined_in, r.incarnation)
            };
            state.hosts.iter().map(of).collect::<Vec<_>>()
        });
        let member = control.map(|control| control.member());
        format!(
            "\n  host {}: {:?} leader {:?} term {:?} epoch {:?} {:?} missing {:?} {hosts:?}",
            host.id,
            member.map(|member| (member.identity(), member.incarnation())),
            member.map(|member| member.leader()),
            member.map(|member| member.term()),
            state.map(|state| state.epoch),
            control.map(|control| control.standing()),
            state.map(|state| &state.missing),
        )
    });
    states.collect()
}

/// Everybody has the same state, in which all hosts are up that can be, and all leaders hold their
/// leases.
fn is_at_rest(world: &World) -> bool {
    if has_lost_data(world) {
        return true;
    }
    let mut states = world.hosts.iter().map(|host| host.control.as_ref().and_then(|c| c.state()));
    let Some(Some(first)) = states.next() else { return false };
    if !first.is_formed() || !states.all(|state| state == Some(first)) {
        return false;
    }
    let up = |host: &HostId| first.hosts[host].state == lockstep_cluster::HostState::Up;
    let all_up = first.hosts.keys().all(up) && first.missing.is_empty();
    // A copy that went out of sync at a host that runs is not loaded again before the next loss.
    let copies = first.partitions.iter().all(|p| p.learning.is_empty());
    let voters = first.voters().count();
    let expected = [0, 1, 1, 3, 3, 5, 5, 5][first.shape.members() as usize];
    let led = first.partitions.iter().enumerate().all(|(number, partition)| {
        let host = world.host(partition.leader);
        let partition = lockstep_types::PartitionId(number as u32);
        let control = host.control.as_ref().expect("all hosts run");
        control.holds_lease(partition, world.local(host).us)
    });
    all_up && copies && voters == expected && led
}

/// A process without a disk ended that had the last copy of a partition: it stays lost.
fn has_lost_data(world: &World) -> bool {
    let Some(state) = world.newest_state().filter(|_| !world.setup.disk) else { return false };
    let is_gone = |host: &HostId| {
        let runs = world.host(*host).control.as_ref().map(|control| control.member().incarnation());
        runs != Some(state.hosts[host].incarnation)
    };
    state.partitions.iter().any(|p| p.copies.iter().all(|copy| is_gone(&copy.host)))
}

/// One random fault.
fn disturb(world: &mut World) {
    let members = u64::from(world.setup.shape.members());
    let host = HostId(world.random.below(members) as u32);
    let other = HostId(world.random.below(members) as u32);
    let for_us = 20_000 + world.random.below(600_000);
    match world.random.below(16) {
        0..=2 => {
            if world.setup.disk || world.can_lose_memory_of(host) {
                world.judge.saw("crashes");
                if world.setup.disk && world.random.chance(1, 2) {
                    world.crash_at_next_write(host);
                } else {
                    world.crash(host);
                }
            }
        }
        3..=5 => {
            for id in (0..members as u32).map(HostId) {
                world.start(id);
            }
        }
        6 | 7 => {
            world.judge.saw("pauses");
            world.pause(host, for_us);
        }
        8 | 9 => {
            world.judge.saw("cuts of one direction");
            world.cut(host, other, for_us);
        }
        10 | 11 => {
            world.judge.saw("cuts of a host");
            for id in (0..members as u32).map(HostId) {
                world.cut(host, id, for_us);
                world.cut(id, host, for_us);
            }
        }
        12 => world.lost_of_thousand = [0, 0, 20, 300][world.random.below(4) as usize],
        13 => world.delay_us_max = [1_000, 5_000, 60_000][world.random.below(3) as usize],
        14 => {
            world.judge.saw("sites that stand still");
            world.stick_site(host, 2 * for_us);
        }
        _ => {
            let others_right = world.hosts.iter().all(|host| world.wall_offset(host).0 == 0);
            let offset_us = if others_right { 60_000_000 } else { 0 };
            world.set_wall_offset(host, offset_us);
        }
    }
}

#[test]
fn seeds_keep_every_rule_and_agree_once_faults_stop() {
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        for (what, count) in run(seed, Faults::default()) {
            *seen.entry(what).or_default() += count;
        }
    }
    // Counters with minimums: the seeds reach what they are for.
    for (what, least_per_seed) in [
        ("crashes", 1),
        ("lives", 4),
        ("epochs", 4),
        ("leases held", 500),
        ("leaders of the Raft group", 4),
        ("changes of standing", 4),
    ] {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count >= least_per_seed * SEEDS, "{what}: {seen:?}");
    }
    for what in ["pauses", "cuts of one direction", "cuts of a host", "clocks that are off"] {
        assert!(seen.get(what).is_some_and(|count| *count > SEEDS / 8), "{what}: {seen:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in 0..30 {
        assert_eq!(run(seed, Faults::default()), run(seed, Faults::default()), "seed {seed}");
    }
}

/// Seeds until one is caught, at most.
const FAULT_SEEDS: u64 = 2_000;

fn caught(faults: Faults, words: &[&str]) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (0..FAULT_SEEDS).find_map(|seed| {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, faults)));
        let panic = result.err()?;
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        words.iter().any(|word| text.contains(word)).then_some(text)
    });
    std::panic::set_hook(hook);
    assert!(found.is_some(), "{faults:?} is not caught by {FAULT_SEEDS} seeds");
}

#[test]
fn serving_after_the_lease_is_caught() {
    let faults = Faults { serve_after_lease: true, ..Faults::default() };
    caught(faults, &["hold the lease"]);
}

#[test]
fn a_raft_identity_that_is_used_again_is_caught() {
    let faults = Faults { reuse_raft_id: true, ..Faults::default() };
    caught(faults, &["two placements in epoch", "refused a message", "went from epoch"]);
}

#[test]
fn a_clock_that_is_off_is_caught() {
    let faults = Faults { one_bad_clock: true, ..Faults::default() };
    caught(faults, &["whose clock is off"]);
}

#[test]
fn a_copy_dropped_without_an_epoch_is_caught() {
    let faults = Faults { shrink_without_epoch: true, ..Faults::default() };
    caught(faults, &["two placements in epoch"]);
}

#[test]
#[ignore = "takes minutes: the seeds after those of every run"]
fn many_more_seeds() {
    for seed in SEEDS..50_000 {
        run(seed, Faults::default());
    }
}
