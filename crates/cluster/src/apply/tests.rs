//! Commands and their effects on the state, and the byte forms of both.

use super::*;
use crate::error::FormatError;
use crate::ids::ClusterId;
use crate::state::{Previous, Shape};
use lockstep_base::random::SeededRandom;
use lockstep_types::ThreadId;
use std::collections::BTreeMap;

fn description(host: u32) -> HostDescription {
    HostDescription {
        host: HostId(host),
        name: format!("host{host}"),
        internal_address: format!("10.0.0.{host}:3021"),
        client_address: format!("10.0.0.{host}:21212"),
        admin_address: format!("10.0.0.{host}:21211"),
        directory: String::new(),
        placement_group: String::new(),
        release: 1,
    }
}

fn joined(hosts: u32, witnesses: u32, sites: u16, k: u8) -> ClusterState {
    let shape = Shape { hosts, witnesses, sites_per_host: sites, partitions_per_site: 1, k };
    let record = |host| (HostId(host), HostRecord::joining(description(host), Incarnation(1)));
    let hosts: BTreeMap<_, _> = (0..shape.members()).map(record).collect();
    ClusterState::forming(ClusterId([7; 16]), "test".into(), shape, hosts)
}

fn formed(hosts: u32, witnesses: u32, sites: u16, k: u8) -> ClusterState {
    let mut state = joined(hosts, witnesses, sites, k);
    assert_eq!(run(&mut state, Command::Form), Verdict::Applied);
    state
}

fn run(state: &mut ClusterState, command: Command) -> Verdict {
    let encoded = command.encode();
    assert_eq!(Command::decode(&encoded).as_ref(), Ok(&command), "it is read as it was written");
    let verdict = state.apply(&command, Faults::default());
    let decoded = ClusterState::decode(&state.encode());
    assert_eq!(decoded.as_ref(), Ok(&*state), "the state is read as it was written");
    verdict
}

fn lost(host: u32) -> Command {
    Command::HostLost { host: HostId(host), incarnation: Incarnation(1) }
}

#[test]
fn a_cluster_forms_once_when_all_configured_hosts_have_joined() {
    let mut state = joined(3, 1, 2, 1);
    let witness = state.hosts.remove(&HostId(3)).expect("there is a witness");
    let absent = Verdict::Refused(Refusal::Absent(HostId(3)));
    assert_eq!(run(&mut state, Command::Form), absent);
    let (description, incarnation) = (witness.description, Incarnation(5));
    let join = Command::Join { description, incarnation };
    assert_eq!(run(&mut state, join.clone()), Verdict::Applied);
    assert_eq!(run(&mut state, join), Verdict::Unchanged);
    assert_eq!(run(&mut state, Command::Form), Verdict::Applied);
    assert_eq!((state.epoch, state.partitions.len()), (Epoch(1), 3));
    assert!(state.hosts.values().all(|record| record.state == HostState::Up));
    assert!(!state.serves(HostId(3)), "a witness has no data");
    assert_eq!(run(&mut state, Command::Form), Verdict::Refused(Refusal::Phase));
}

#[test]
fn a_lost_host_leaves_its_partitions_to_the_in_sync_copies_in_a_new_epoch() {
    let mut state = formed(3, 0, 2, 1);
    let before = state.clone();
    assert_eq!(run(&mut state, lost(0)), Verdict::Applied);
    assert_eq!((state.epoch, state.coordinator), (Epoch(2), HostId(1)));
    for (was, is) in before.partitions.iter().zip(&state.partitions) {
        let left: Vec<Copy> = was.copies.iter().filter(|c| c.host != HostId(0)).copied().collect();
        assert_eq!(is.copies, left);
        if left == was.copies {
            assert_eq!(is, was, "partitions without a copy there keep their epoch");
        } else {
            let previous = Previous { epoch: Epoch(1), leader: was.leader, sealed: false };
            assert_eq!((is.epoch, is.previous), (Epoch(2), Some(previous)));
            assert!(is.leader == was.leader || was.leader == HostId(0));
        }
    }
    assert_eq!(run(&mut state, lost(0)), Verdict::Unchanged);
    // The loss of a witness is an epoch, too: its seat among the voters may change after that.
    let mut with_witness = formed(2, 1, 1, 1);
    let placed = with_witness.partitions.clone();
    assert_eq!(run(&mut with_witness, lost(2)), Verdict::Applied);
    assert_eq!((with_witness.epoch, with_witness.partitions), (Epoch(2), placed));
    let stale = Command::HostLost { host: HostId(1), incarnation: Incarnation(2) };
    assert_eq!(run(&mut state, stale), Verdict::Refused(Refusal::Stale));
}

#[test]
fn the_last_copy_of_a_partition_is_never_taken_out() {
    let mut state = formed(3, 0, 2, 1);
    assert_eq!(run(&mut state, lost(0)), Verdict::Applied);
    assert_eq!(state.coordinator, HostId(1));
    let placed = state.partitions.clone();
    assert_eq!(run(&mut state, lost(1)), Verdict::Applied);
    assert_eq!((state.epoch, state.coordinator), (Epoch(3), HostId(2)), "the rest goes on");
    for (was, is) in placed.iter().zip(&state.partitions) {
        let mut left: Vec<Copy> = was.copies.clone();
        left.retain(|copy| copy.host != HostId(1) || was.copies.len() == 1);
        assert_eq!(is.copies, left, "of what no other host has the host stays listed");
    }
    let partitions: Vec<PartitionId> = state.partitions_of(HostId(1)).collect();
    assert!(!partitions.is_empty(), "two hosts of three are too many with K = 1");
    assert_eq!(run(&mut state, lost(1)), Verdict::Refused(Refusal::LastCopy(partitions.clone())));
    assert_eq!(state.missing, partitions.iter().copied().collect());
    assert_eq!(state.hosts[&HostId(1)].state, HostState::Down);
    // An administrator can give up what is lost, and nothing else.
    let mut forced = state.clone();
    let copy = Copy { host: HostId(2), thread: ThreadId(0) };
    for partition in (0..3).map(PartitionId) {
        let epoch = forced.partitions[partition.index()].epoch;
        let verdict = run(&mut forced, Command::ForceCopy { partition, copy, epoch });
        match partitions.contains(&partition) {
            true => assert_eq!(verdict, Verdict::Applied),
            false => assert_eq!(verdict, Verdict::Refused(Refusal::NotMissing(partition))),
        }
    }
    assert!(forced.missing.is_empty());
    // A process without memory cannot take the place of the one that had the copies.
    state.set_votes(&BTreeSet::new(), &BTreeSet::new());
    let join = Command::Join { description: description(1), incarnation: Incarnation(2) };
    assert_eq!(run(&mut state, join), Verdict::Refused(Refusal::LastCopy(partitions)));
    // The process that has them on disk can.
    let (host, incarnation) = (HostId(1), Incarnation(2));
    assert_eq!(run(&mut state, Command::Restarted { host, incarnation }), Verdict::Applied);
    let resume = Command::Resume { hosts: vec![(host, incarnation)] };
    assert_eq!(run(&mut state, resume), Verdict::Applied);
    assert!(state.missing.is_empty() && state.epoch == Epoch(4));
    let partition = state.partitions_of(host).next().expect("it has copies");
    let epoch = state.partitions[partition.index()].epoch;
    let alone = state.partitions.iter().position(|p| p.copies.len() == 1).expect("one was lost");
    let (partition, epoch) = match state.partitions[alone].copies.len() {
        1 => (PartitionId(alone as u32), state.partitions[alone].epoch),
        _ => (partition, epoch),
    };
    let host = state.partitions[partition.index()].leader;
    let out = Command::OutOfSync { partition, host, epoch };
    assert_eq!(run(&mut state, out), Verdict::Refused(Refusal::LastCopy(vec![partition])));
}

#[test]
fn a_process_without_raft_state_joins_after_its_old_identity_was_removed() {
    let mut state = formed(3, 0, 2, 1);
    let voters = state.hosts.values().map(HostRecord::raft_id).collect();
    state.set_votes(&voters, &BTreeSet::new());
    let join = Command::Join { description: description(2), incarnation: Incarnation(9) };
    let refused = Verdict::Refused(Refusal::OldIdentity(HostId(2)));
    assert_eq!(run(&mut state, join.clone()), refused);
    let left = voters.into_iter().filter(|id| id.host() != HostId(2)).collect();
    state.set_votes(&left, &BTreeSet::new());
    assert_eq!(run(&mut state, join), Verdict::Applied);
    let record = &state.hosts[&HostId(2)];
    assert_eq!((record.state, record.joined_in), (HostState::Joining, Incarnation(9)));
    assert_eq!(state.partitions_of(HostId(2)).count(), 0, "what it had in memory is lost");
    let old = Command::Join { description: description(2), incarnation: Incarnation(3) };
    assert_eq!(run(&mut state, old), Verdict::Refused(Refusal::Stale));
    // It gets its copies back one by one.
    let copy = Copy { host: HostId(2), thread: ThreadId(0) };
    let partition = PartitionId(0);
    let alone = state.partitions.iter().position(|p| p.copies.len() == 1).expect("it had copies");
    let (number, epoch) = (PartitionId(alone as u32), state.partitions[alone].epoch);
    let incarnation = Incarnation(9);
    let in_sync = Command::InSync { partition: number, copy, incarnation, epoch };
    let down = Verdict::Refused(Refusal::NotServing(HostId(2)));
    assert_eq!(run(&mut state, in_sync.clone()), down);
    let up = Command::HostUp { host: HostId(2), incarnation: Incarnation(9) };
    assert_eq!(run(&mut state, up), Verdict::Applied);
    let learning = |state: &ClusterState| -> Vec<usize> {
        state.partitions.iter().map(|it| it.learning.len()).collect()
    };
    let lacks: Vec<usize> = state.partitions.iter().map(|it| 2 - it.copies.len()).collect();
    assert_eq!(learning(&state), lacks, "it is to load what partitions lack");
    assert_eq!(state.copies_by_site(HostId(2)), [1, 1], "its sites have alike many");
    let of_another_run = match in_sync.clone() {
        Command::InSync { partition, copy, epoch, .. } => {
            Command::InSync { partition, copy, incarnation: Incarnation(8), epoch }
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(run(&mut state, of_another_run), Verdict::Refused(Refusal::Stale));
    let elsewhere =
        Copy { thread: ThreadId(1 - state.partitions[alone].learning[0].thread.0), ..copy };
    let elsewhere = Command::InSync { partition: number, copy: elsewhere, incarnation, epoch };
    assert_eq!(run(&mut state, elsewhere), Verdict::Refused(Refusal::NotLearning(HostId(2))));
    let mut again = state.clone();
    let lost = Command::HostLost { host: HostId(2), incarnation };
    assert_eq!(run(&mut again, lost), Verdict::Applied);
    assert_eq!(learning(&again), vec![0; lacks.len()], "a lost host loads nothing");
    assert_eq!(run(&mut state, in_sync.clone()), Verdict::Applied);
    assert_eq!(state.partitions[alone].learning, []);
    assert_eq!(run(&mut state, in_sync), Verdict::Refused(Refusal::Stale));
    assert_eq!(state.partitions[alone].copies.len(), 2);
    assert!(state.partition(partition).is_some());
}

#[test]
fn a_copy_that_a_partition_lacks_is_loaded_at_a_host_that_stays() {
    let mut state = formed(3, 0, 2, 1);
    let partition = PartitionId(0);
    let at = |state: &ClusterState| state.partitions[0].clone();
    let dropped = *at(&state).copies.iter().find(|it| it.host != at(&state).leader).expect("K = 1");
    let (host, incarnation) = (dropped.host, state.hosts[&dropped.host].incarnation);
    let begin = |state: &ClusterState, copy| Command::BeginLoading {
        partition,
        copy,
        incarnation,
        epoch: at(state).epoch,
    };
    let refused = Verdict::Refused(Refusal::Copies(host));
    let command = begin(&state, dropped);
    assert_eq!(run(&mut state, command), refused, "it lacks none");
    assert_eq!(state.places_for_copy(partition), []);
    let out = |state: &ClusterState| Command::OutOfSync { partition, host, epoch: at(state).epoch };
    let command = out(&state);
    assert_eq!(run(&mut state, command), Verdict::Applied);
    assert_eq!(state.places_for_copy(partition), [dropped], "only that host has capacity");
    let other = Copy { thread: ThreadId(1 - dropped.thread.0), ..dropped };
    let command = begin(&state, other);
    assert_eq!(run(&mut state, command), refused, "that site is full");
    let (command, late) = (begin(&state, dropped), begin(&state, dropped));
    assert_eq!(run(&mut state, command), Verdict::Applied);
    assert_eq!(at(&state).learning, [dropped]);
    assert_eq!(run(&mut state, late), Verdict::Refused(Refusal::Stale));
    // It cannot go on: what was proposed for it is void, and it begins again.
    let epoch = at(&state).epoch;
    let in_sync = Command::InSync { partition, copy: dropped, incarnation, epoch };
    let command = out(&state);
    assert_eq!(run(&mut state, command), Verdict::Applied);
    assert_eq!((at(&state).learning, at(&state).copies.len()), (vec![dropped], 1));
    assert_eq!(run(&mut state, in_sync), Verdict::Refused(Refusal::Stale));
    let epoch = at(&state).epoch;
    let in_sync = Command::InSync { partition, copy: dropped, incarnation, epoch };
    assert_eq!(run(&mut state, in_sync), Verdict::Applied);
    assert_eq!((at(&state).learning, at(&state).copies.len()), (vec![], 2));
}

#[test]
fn a_copy_that_is_not_loaded_any_more_does_not_come_in_sync() {
    let mut state = formed(3, 0, 2, 1);
    let (host, incarnation) = (HostId(2), Incarnation(9));
    run(&mut state, lost(2));
    run(&mut state, Command::Join { description: description(2), incarnation });
    assert_eq!(run(&mut state, Command::HostUp { host, incarnation }), Verdict::Applied);
    let loaded = |state: &ClusterState, other: HostId| {
        let is_there = |it: &PartitionState| it.leader == other && !it.learning.is_empty();
        let number = state.partitions.iter().position(is_there).expect("each has one");
        let PartitionState { learning, epoch, .. } = &state.partitions[number];
        let (partition, copy) = (PartitionId(number as u32), learning[0]);
        Command::InSync { partition, copy, incarnation, epoch: *epoch }
    };
    // It has the last copy of the one partition when the proposal for the other one is on its way.
    let (first, late) = (loaded(&state, HostId(0)), loaded(&state, HostId(1)));
    assert_eq!(run(&mut state, first), Verdict::Applied);
    assert_eq!(run(&mut state, lost(0)), Verdict::Applied);
    let gone = Command::HostLost { host, incarnation };
    run(&mut state, gone);
    let resume = Command::Resume { hosts: vec![(host, incarnation)] };
    assert_eq!(run(&mut state, resume), Verdict::Applied);
    assert_eq!(run(&mut state, late), Verdict::Refused(Refusal::NotLearning(host)));
}

#[test]
fn a_leader_is_transferred_in_two_steps_that_a_change_meanwhile_ends() {
    let mut state = formed(3, 0, 1, 2);
    let partition = PartitionId(0);
    let (leader, epoch) = (state.partitions[0].leader, state.partitions[0].epoch);
    let to = state.partitions[0].followers().next().expect("K = 2");
    let complete = Command::CompleteHandOver { partition, to, epoch };
    let not_begun = Verdict::Refused(Refusal::HandOver(partition));
    assert_eq!(run(&mut state, complete.clone()), not_begun);
    let begin = Command::BeginHandOver { partition, to, epoch };
    assert_eq!(run(&mut state, begin.clone()), Verdict::Applied);
    assert_eq!((state.epoch, state.partitions[0].leader), (Epoch(1), leader));
    assert_eq!(run(&mut state, complete.clone()), Verdict::Applied);
    let previous = Previous { epoch, leader, sealed: true };
    assert_eq!((state.partitions[0].leader, state.partitions[0].previous), (to, Some(previous)));
    assert_eq!(run(&mut state, complete), Verdict::Refused(Refusal::Stale));
    // A transfer that is given up cannot be completed later.
    let (to, epoch) = (leader, state.partitions[0].epoch);
    run(&mut state, Command::BeginHandOver { partition, to, epoch });
    let give_up = Command::GiveUpHandOver { partition, epoch };
    assert_eq!(run(&mut state, give_up), Verdict::Applied);
    let complete = Command::CompleteHandOver { partition, to, epoch };
    assert_eq!(run(&mut state, complete), Verdict::Refused(Refusal::Stale));
    // The target of a transfer leads when the leader is lost meanwhile.
    let (leader, epoch) = (state.partitions[0].leader, state.partitions[0].epoch);
    let to = state.partitions[0].followers().last().expect("K = 2");
    run(&mut state, Command::BeginHandOver { partition, to, epoch });
    run(&mut state, lost(leader.0));
    assert_eq!((state.partitions[0].leader, state.partitions[0].hand_over), (to, None));
}

#[test]
fn all_hosts_of_a_stopped_cluster_resume_what_they_had_and_one_of_a_running_one_does_not() {
    let mut state = formed(3, 0, 2, 1);
    let before = state.partitions.clone();
    let hosts: Vec<_> = (0..3).map(|host| (HostId(host), Incarnation(2))).collect();
    for &(host, incarnation) in &hosts {
        assert_eq!(run(&mut state, Command::Restarted { host, incarnation }), Verdict::Applied);
    }
    assert_eq!(state.missing.len(), 3);
    assert_eq!(run(&mut state, Command::Resume { hosts }), Verdict::Applied);
    for (was, is) in before.iter().zip(&state.partitions) {
        assert_eq!((&was.copies, was.leader, is.epoch), (&is.copies, is.leader, Epoch(2)));
    }
    let (host, incarnation) = (HostId(1), Incarnation(3));
    run(&mut state, Command::Restarted { host, incarnation });
    let resume = Command::Resume { hosts: vec![(host, incarnation)] };
    assert_eq!(run(&mut state, resume.clone()), Verdict::Applied);
    assert_eq!(state.partitions_of(host).count(), 0, "the others went on without it");
    assert_eq!(run(&mut state, resume), Verdict::Refused(Refusal::Stale));
}

#[test]
fn random_commands_keep_the_rules_and_are_read_back() {
    for seed in 0..300 {
        let random = &mut SeededRandom::new(seed);
        let (hosts, k) = *[(1, 0), (2, 1), (3, 1), (3, 2), (4, 1), (6, 2)]
            .get(random.below(6) as usize)
            .expect("one of six");
        let mut state = formed(hosts, u32::from(hosts == 2), 3 * (u16::from(k) + 1), k);
        let mut epochs = vec![state.epoch];
        let mut placements = BTreeMap::from([(state.epoch, state.partitions.clone())]);
        for _ in 0..60 {
            let command = random_command(random, &state);
            run(&mut state, command);
            epochs.push(state.epoch);
            // A begun transfer is not part of the placement.
            let mut placed = state.partitions.clone();
            placed.iter_mut().for_each(|partition| partition.hand_over = None);
            let first = placements.entry(state.epoch).or_insert(placed.clone());
            assert_eq!(*first, placed, "seed {seed}: one placement in each epoch");
        }
        assert!(epochs.is_sorted(), "seed {seed}");
    }
}

fn random_command(random: &mut SeededRandom, state: &ClusterState) -> Command {
    let host = HostId(random.below(u64::from(state.shape.members())) as u32);
    let known = state.hosts[&host].incarnation;
    let incarnation = Incarnation(known.0 + random.below(2));
    let partition = PartitionId(random.below(state.partitions.len() as u64) as u32);
    let at = state.partitions[partition.index()].epoch;
    let epoch = Epoch(at.0 + u64::from(random.chance(1, 10)));
    let to = host;
    match random.below(20) {
        18 => Command::EndMove { partition, epoch },
        19 => {
            let from = HostId(random.below(u64::from(state.shape.hosts)) as u32);
            let copy = Copy { host, thread: ThreadId(random.below(4) as u16) };
            Command::BeginMove { partition, from, copy, incarnation: known, epoch }
        }
        17 => Command::ChangeK { k: random.below(3) as u8, epoch: state.epoch },
        16 => {
            let copy = Copy { host, thread: ThreadId(random.below(4) as u16) };
            Command::BeginLoading { partition, copy, incarnation: known, epoch }
        }
        15 => {
            let thread = ThreadId(random.below(4) as u16);
            Command::ForceCopy { partition, copy: Copy { host, thread }, epoch }
        }
        0 => Command::Join { description: description(host.0), incarnation },
        1 => Command::HostUp { host, incarnation: known },
        2 => Command::Restarted { host, incarnation },
        3 => Command::Resume { hosts: vec![(host, known)] },
        4 => Command::HostLost { host, incarnation: known },
        5 => Command::OutOfSync { partition, host, epoch },
        6..=8 => {
            let loaded = state.partitions[partition.index()].learning.first().copied();
            let any = Copy { host, thread: ThreadId(random.below(4) as u16) };
            let copy = loaded.filter(|_| random.chance(3, 4)).unwrap_or(any);
            let incarnation = state.hosts[&copy.host].incarnation;
            Command::InSync { partition, copy, incarnation, epoch }
        }
        9 => Command::BeginHandOver { partition, to, epoch },
        10 => Command::CompleteHandOver { partition, to, epoch },
        11 => Command::GiveUpHandOver { partition, epoch },
        12 => Command::MoveLeader { partition, to, epoch },
        13 => Command::MoveCoordinator { to, epoch: state.epoch },
        _ => Command::CatalogVersion(random.below(20)),
    }
}

#[test]
fn bytes_that_are_cut_changed_or_too_long_are_errors_and_never_panic() {
    let mut state = formed(3, 1, 2, 1);
    run(&mut state, lost(2));
    let command =
        Command::Join { description: description(1), incarnation: Incarnation(77) }.encode();
    let state = state.encode();
    for (bytes, is_state) in [(&state, true), (&command, false)] {
        let fails = |bytes: &[u8]| match is_state {
            true => ClusterState::decode(bytes).is_err(),
            false => Command::decode(bytes).is_err(),
        };
        for length in 0..bytes.len() {
            assert!(fails(&bytes[..length]), "cut at {length}");
        }
        assert!(fails(&[&bytes[..], &[0]].concat()), "a byte too many");
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = fails(&changed);
            }
        }
    }
    let version = |found| FormatError::Version { what: "a command", found, known: 5 };
    assert_eq!(Command::decode(&[6, 1]), Err(version(6)));
    assert_eq!(Command::decode(&[1, 1]), Err(version(1)));
    for before in 2..5 {
        assert_eq!(Command::decode(&[before, 1]), Ok(Command::Form), "of version {before}");
    }
}

#[test]
fn byte_forms_do_not_change() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let partition = PartitionId(300);
    let (to, epoch) = (HostId(2), Epoch(5));
    let commands = [
        (Command::Form, "0501"),
        (Command::HostLost { host: to, incarnation: Incarnation(9) }, "05060209"),
        (Command::CompleteHandOver { partition, to, epoch }, "050aac020205"),
        (
            Command::InSync {
                partition,
                copy: Copy { host: to, thread: ThreadId(1) },
                incarnation: Incarnation(7),
                epoch,
            },
            "0508ac0202010705",
        ),
        (Command::CatalogVersion(128), "050e8001"),
        (Command::ChangeK { k: 2, epoch }, "05120205"),
        (Command::EndMove { partition, epoch }, "0514ac0205"),
        (Command::AddHost { host: to, internal_address: "a".into(), epoch }, "051502016105"),
        (Command::PlanHost { host: to, plan: HostPlan::Leaves, epoch }, "0516020205"),
        (Command::RemoveHost { host: to, epoch }, "05170205"),
    ];
    for (command, expected) in commands {
        assert_eq!(hex(&command.encode()), expected, "{command:?}");
    }
    let mut state = formed(1, 0, 1, 0);
    state.hosts.get_mut(&HostId(0)).expect("it is there").description = HostDescription {
        host: HostId(0),
        name: "a".into(),
        internal_address: "b".into(),
        client_address: "c".into(),
        admin_address: "d".into(),
        directory: "f".into(),
        placement_group: "e".into(),
        release: 1,
    };
    let expected = "070707070707070707070707070707070704746573740100010100000100016101\
        620163016401660165010101010001000000010101010001000000000000010001000000";
    // The form before, without plans of hosts and numbers.
    let without_plans = "06070707070707070707070707070707070474657374010001010000010001610162\
        0163016401660165010101010100000001010100010000000000000001000000";
    assert_eq!(hex(&state.encode()), expected);
    // The one before, without the K with which the cluster was made.
    let without_made_k = "05070707070707070707070707070707070474657374010001010001000161016201\
        630164016601650101010101000000010101000100000000000001000000";
    // The one before that, without the directories of hosts.
    let before = "04070707070707070707070707070707070474657374010001010001000161016201\
        63016401650101010101000000010101000100000000000001000000";
    let decode = |text: &str| {
        let digit = |at| u8::from_str_radix(&text[at..at + 2], 16);
        let bytes = (0..text.len()).step_by(2).map(digit).collect::<Result<Vec<u8>, _>>();
        ClusterState::decode(&bytes.expect("digits"))
    };
    assert_eq!(decode(expected).as_ref(), Ok(&state));
    assert_eq!(decode(without_plans).as_ref(), Ok(&state));
    assert_eq!(decode(without_made_k).as_ref(), Ok(&state));
    state.hosts.get_mut(&HostId(0)).expect("it is there").description.directory.clear();
    assert_eq!(decode(before), Ok(state));
}
