//! Three members that exchange messages, some of them changed on the way.

use super::*;
use crate::ids::{ClusterId, Incarnation};
use crate::state::{ClusterState, Shape};
use lockstep_base::random::SeededRandom;
use lockstep_types::HostId;
use std::collections::BTreeMap;

fn id(host: u32) -> RaftId {
    RaftId::new(HostId(host), Incarnation(1)).expect("in range")
}

fn state() -> Vec<u8> {
    let shape = Shape { hosts: 3, witnesses: 0, sites_per_host: 1, partitions_per_site: 1, k: 0 };
    ClusterState::forming(ClusterId([1; 16]), "test".into(), shape, BTreeMap::new()).encode()
}

struct Group {
    cores: Vec<RaftCore>,
    queue: Vec<(RaftId, RaftId, Vec<u8>)>,
    random: SeededRandom,
    applied: Vec<Vec<Vec<u8>>>,
}

impl Group {
    fn new(seed: u64) -> Group {
        let options = CoreOptions {
            election_ticks: 8,
            heartbeat_ticks: 2,
            message_bytes_max: 1 << 16,
            inflight_messages_max: 8,
            uncommitted_bytes_max: 1 << 20,
            seed,
        };
        let voters = vec![id(0), id(1), id(2)];
        let snapshot = Snapshot { index: 1, term: 1, voters, learners: vec![], state: state() };
        let hard_state = HardState { term: 1, vote: 0, commit: 1 };
        let core = |host| {
            let snapshot = Some(snapshot.clone());
            RaftCore::new(id(host), &options, snapshot, Vec::new(), hard_state).expect("whole")
        };
        let cores = (0..3).map(core).collect();
        let (queue, random) = (Vec::new(), SeededRandom::new(seed));
        Group { cores, queue, random, applied: vec![Vec::new(); 3] }
    }

    /// One step of each member, with a proposal now and then.
    fn step(&mut self) {
        for host in 0..3 {
            self.cores[host].tick();
            if self.random.chance(1, 6) {
                self.cores[host].propose(vec![self.random.below(256) as u8; 9]);
            }
            let effects = self.cores[host].take_effects();
            for committed in effects.committed {
                match committed {
                    Committed::Proposal(bytes) => self.applied[host].push(bytes),
                    Committed::Snapshot(_) => self.applied[host].clear(),
                    Committed::Group { .. } => {}
                }
            }
            let from = id(host as u32);
            let messages = effects.messages.into_iter().map(|(to, bytes)| (from, to, bytes));
            self.queue.extend(messages);
            if self.random.chance(1, 30) && self.cores[host].applied_since_snapshot() > 0 {
                self.cores[host].compact(state());
            }
        }
        for (from, to, bytes) in std::mem::take(&mut self.queue) {
            if !self.random.chance(1, 20) {
                let taken = self.cores[to.host().0 as usize].receive(from, &bytes);
                assert_eq!(taken, Ok(()));
            }
        }
    }
}

#[test]
fn members_apply_the_same_proposals_and_the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut group = Group::new(seed);
        (0..300).for_each(|_| group.step());
        (group.applied, group.cores[0].term())
    };
    for seed in 0..10 {
        let (applied, term) = run(seed);
        assert!(applied.iter().any(|applied| applied.len() > 10), "seed {seed}");
        assert_eq!(run(seed), (applied, term), "the library's own random source is not used");
    }
}

#[test]
fn a_changed_message_is_refused_or_taken_and_the_member_never_panics() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..600 {
        let mut group = Group::new(seed);
        let steps = 20 + group.random.below(60);
        (0..steps).for_each(|_| group.step());
        for host in 0..3 {
            let effects = group.cores[host].take_effects();
            for (to, bytes) in effects.messages {
                for _ in 0..4 {
                    let mut changed = bytes.clone();
                    let at = group.random.below(changed.len() as u64) as usize;
                    changed[at] = group.random.below(256) as u8;
                    let from = id(host as u32);
                    match group.cores[to.host().0 as usize].receive(from, &changed) {
                        Ok(()) => taken += 1,
                        Err(_) => refused += 1,
                    }
                    let length = group.random.below(bytes.len() as u64) as usize;
                    let cut = group.cores[to.host().0 as usize].receive(from, &bytes[..length]);
                    assert!(cut.is_err(), "a message that is cut is refused");
                }
            }
            group.cores[host].take_effects();
        }
    }
    assert!(refused > 200 && taken > 200, "{refused} {taken}");
}

#[test]
fn a_term_and_a_vote_are_durable_before_a_message_has_them_and_a_commit_index_needs_no_sync() {
    let (mut saved, mut durable) = (0, [(1, 0); 3]);
    let mut group = Group::new(5);
    for _ in 0..200 {
        for (host, durable) in durable.iter_mut().enumerate() {
            group.cores[host].tick();
            let effects = group.cores[host].take_effects();
            for persist in &effects.persists {
                if let Some(hard_state) = persist.hard_state {
                    *durable = (hard_state.term, hard_state.vote);
                }
            }
            saved += usize::from(effects.persists.is_empty() && !effects.committed.is_empty());
            for (to, bytes) in effects.messages {
                let message = decode_message(&bytes).expect("it is whole");
                let pre_vote = message.msg_type == MessageType::MsgRequestPreVote
                    || message.msg_type == MessageType::MsgRequestPreVoteResponse;
                assert!(pre_vote || message.term <= durable.0, "{message:?}");
                let yes =
                    message.msg_type == MessageType::MsgRequestVoteResponse && !message.reject;
                assert!(!yes || durable.1 == to.number(), "a vote is durable");
                group.queue.push((id(host as u32), to, bytes));
            }
            if group.random.chance(1, 4) {
                group.cores[host].propose(vec![1; 9]);
            }
        }
        for (from, to, bytes) in std::mem::take(&mut group.queue) {
            let taken = group.cores[to.host().0 as usize].receive(from, &bytes);
            assert_eq!(taken, Ok(()));
        }
    }
    assert!(saved > 10, "{saved} commits without a sync");
}
