//! How a cluster begins: hosts greet each other until the first of them knows that all are there,
//! agree, and belong to no cluster. It then makes the Raft group of all of them.
//!
//! An answer names the process that asked. A host that answered takes no more messages of an older
//! process of the one that asked, so what such a process had begun is void.

use super::{DurableChange, Event, Member};
use crate::command::Command;
use crate::detector::offset_us;
use crate::error::ClusterError;
use crate::ids::{ClusterId, RaftId};
use crate::log_entry::{HardState, Snapshot};
use crate::message::{Body, Envelope, Hello, Question};
use crate::now::Now;
use crate::raft_core::RaftCore;
use crate::state::{ClusterState, HostDescription, HostRecord, HostState};
use lockstep_base::random::split_mix;
use lockstep_types::HostId;
use std::collections::{BTreeMap, BTreeSet};

/// The newest hello of a host.
pub(super) struct SeenHello {
    pub id: RaftId,
    pub cluster: Option<ClusterId>,
    pub description: HostDescription,
    /// Whether it answered a hello of this process.
    pub answered: bool,
    pub at_us: u64,
}

impl Member {
    /// Greets all other hosts, until this member has a state that lists it.
    pub(super) fn say_hello(&mut self, now: Now) {
        let now_us = now.us;
        let incarnation = self.config.incarnation;
        let record = self.state.as_ref().and_then(|state| state.hosts.get(&self.host()));
        let listed = record.is_some_and(|record| record.incarnation == incarnation);
        if listed || now_us < self.next_hello_us {
            return;
        }
        self.next_hello_us = now_us + self.config.options.hello_interval_us;
        let mut hosts: BTreeSet<HostId> =
            (0..self.config.agreement.shape.members()).map(HostId).collect();
        hosts.extend(&self.config.added);
        hosts.extend(self.state.iter().flat_map(|state| state.hosts.keys()));
        hosts.remove(&self.host());
        for host in hosts {
            self.send_hello(host, None, now);
        }
    }

    /// A host that was added to the cluster is known from now on.
    pub(crate) fn greet(&mut self, host: HostId) {
        if !self.config.added.contains(&host) {
            self.config.added.push(host);
        }
    }

    fn send_hello(&mut self, to: HostId, answers: Option<Question>, now: Now) {
        let hello = Hello {
            answers,
            sent_us: now.us,
            wall_us: now.wall_us,
            description: self.config.description.clone(),
            agreement: self.config.agreement.clone(),
        };
        self.send(to, None, &Body::Hello(Box::new(hello)));
    }

    pub(super) fn take_hello(&mut self, envelope: Envelope, hello: Hello, now: Now) {
        let host = envelope.from.host();
        let own = &self.config.agreement;
        let with_witness = [host, self.host()].iter().any(|it| own.shape.is_witness(*it));
        if !own.fits(&hello.agreement, with_witness) || hello.description.host != host {
            let found = Box::new(hello.agreement);
            self.effects.events.push(Event::Disagrees { host, found });
            return;
        }
        if self.config.joins && self.identity.cluster.is_none() && envelope.cluster.is_none() {
            // Without an answer no cluster is formed with this host.
            return;
        }
        let own = self.config.incarnation;
        let question = hello.answers.filter(|question| question.incarnation == own);
        if hello.answers.is_none() {
            let incarnation = envelope.incarnation;
            let question = Question { incarnation, sent_us: hello.sent_us };
            self.send_hello(host, Some(question), now);
        }
        let round_trip_us = question.and_then(|question| now.us.checked_sub(question.sent_us));
        let limit_us = self.config.options.clock_offset_max_us;
        let off_us = offset_us(hello.wall_us, now.wall_us, round_trip_us, limit_us);
        if let Some(offset_us) = off_us.filter(|_| !self.config.faults.one_bad_clock()) {
            let limit_us = limit_us as i64;
            let error = ClusterError::ClockOff { host, offset_us, limit_us };
            self.effects.events.push(Event::ClockOff(error));
            self.hellos.remove(&host);
            return;
        }
        let answered = question.is_some();
        let known = self.hellos.get(&host).filter(|known| known.id == envelope.from);
        let answered = answered || known.is_some_and(|known| known.answered);
        let seen = SeenHello {
            id: envelope.from,
            cluster: envelope.cluster,
            description: hello.description,
            answered,
            at_us: now.us,
        };
        self.hellos.insert(host, seen);
    }

    /// The first host begins the cluster, when every other one answered and belongs to none.
    pub(super) fn form_cluster(&mut self, now_us: u64) {
        if self.identity.cluster.is_some() || self.host() != HostId(0) || self.config.joins {
            return;
        }
        let fresh = now_us.saturating_sub(self.config.options.hello_fresh_us);
        let is_ready = |host: &HostId| {
            let seen = self.hellos.get(host);
            seen.is_some_and(|s| s.answered && s.cluster.is_none() && s.at_us >= fresh)
        };
        let members = self.config.agreement.shape.members();
        if !(1..members).map(HostId).all(|host| is_ready(&host)) {
            return;
        }
        let own = HostRecord::joining(self.config.description.clone(), self.config.incarnation);
        let record =
            |seen: &SeenHello| HostRecord::joining(seen.description.clone(), seen.id.joined_in());
        // One that was added to another cluster greets, too.
        let configured = self.hellos.iter().filter(|(host, _)| host.0 < members);
        let mut records: BTreeMap<HostId, HostRecord> =
            configured.map(|(host, seen)| (*host, record(seen))).collect();
        records.insert(HostId(0), own);
        assert_eq!(records.len(), members as usize, "every configured host is listed");
        self.begin(records, now_us);
    }

    fn begin(&mut self, records: BTreeMap<HostId, HostRecord>, now_us: u64) {
        let mut seed = self.config.seed ^ self.config.incarnation.0 ^ now_us;
        let (high, low) = (split_mix(&mut seed).max(1), split_mix(&mut seed));
        let number = u128::from(high) << 64 | u128::from(low);
        let cluster = ClusterId(number.to_be_bytes());
        let agreement = &self.config.agreement;
        let (name, shape) = (agreement.name.clone(), agreement.shape);
        let mut order: Vec<HostId> = records.keys().copied().collect();
        // The first host begins, and a witness is there to vote.
        order.sort_by_key(|host| (host.0 != 0, !shape.is_witness(*host), *host));
        let voters = order.iter().take(super::group::voter_count(shape.members()));
        let voters: BTreeSet<RaftId> = voters.map(|host| records[host].raft_id()).collect();
        let all = records.values().map(HostRecord::raft_id);
        let learners: BTreeSet<RaftId> = all.filter(|id| !voters.contains(id)).collect();
        let mut state = ClusterState::forming(cluster, name, shape, records);
        state.set_votes(&voters, &learners);
        let snapshot = Snapshot {
            index: 1,
            term: 1,
            voters: voters.into_iter().collect(),
            learners: learners.into_iter().collect(),
            state: state.encode(),
        };
        let hard_state = HardState { term: 1, vote: 0, commit: 1 };
        let options = super::core_options(&self.config);
        let (kept, entries) = (Some(snapshot.clone()), Vec::new());
        self.core = RaftCore::new(self.identity.id, &options, kept, entries, hard_state)
            .expect("a log of one snapshot is whole");
        self.bind(Some(cluster));
        self.state = Some(state);
        let snapshot = Some(snapshot);
        let hard_state = Some(hard_state);
        let persist = crate::log_entry::Persist { snapshot, entries: Vec::new(), hard_state };
        self.effects.durable.push(DurableChange::Log(persist));
        self.effects.events.push(Event::StateChanged);
    }

    /// Notices that the cluster that this member belongs to will never be formed. A member with a
    /// state does so when the first voters that are left are no majority: the hosts of the others
    /// greet as processes of no cluster. One without a state does so when the members that could
    /// send it one have been silent for long. A second cluster begins only when every host belongs
    /// to none. A witness also notices that its cluster is over: all hosts greet as processes of no
    /// cluster, and so have nothing of it.
    pub(super) fn give_up_formation(&mut self, now_us: u64) {
        if self.is_over || self.identity.cluster.is_none() {
            return;
        }
        let silent_us = now_us.saturating_sub(self.last_message_us);
        let is_gone = |id: &RaftId| {
            let seen = self.hellos.get(&id.host());
            seen.is_some_and(|s| s.id.joined_in() > id.joined_in() && s.cluster.is_none())
        };
        let over = match &self.state {
            None => silent_us > self.config.options.formation_timeout_us,
            Some(state) if state.is_formed() => {
                let with_data = state.hosts.iter().filter(|(it, _)| !state.shape.is_witness(**it));
                let mut ids = with_data.map(|(_, record)| record.raft_id());
                state.shape.is_witness(self.host()) && ids.all(|id| is_gone(&id))
            }
            Some(_) => {
                let (voters, _) = self.core.group();
                2 * voters.iter().filter(|id| is_gone(id)).count() >= voters.len()
            }
        };
        if over {
            self.is_over = true;
            self.effects.events.push(Event::StartAgain);
        }
    }

    /// As the leader: makes processes members that greeted and are none, the old identity of their
    /// host first. True if something was proposed that has to come to its end first.
    pub(super) fn admit_hosts(&mut self, now_us: u64) -> bool {
        let Some(state) = &self.state else { return false };
        let fresh = now_us.saturating_sub(self.config.options.hello_fresh_us);
        let (voters, learners) = self.core.group();
        for (host, seen) in &self.hellos {
            let record = state.hosts.get(host);
            let is_newer = record.is_none_or(|record| record.incarnation < seen.id.joined_in());
            let bound_elsewhere = seen.cluster.is_some_and(|cluster| cluster != state.id);
            if !is_newer || bound_elsewhere || seen.at_us < fresh {
                continue;
            }
            let incarnation = seen.id.joined_in();
            if let Some(old) = record.filter(|old| old.state != HostState::Added) {
                let lost = Command::HostLost { host: *host, incarnation: old.incarnation };
                if self.would_change(&lost) {
                    self.propose_once(lost, now_us);
                    return true;
                }
                if state.partitions_of(*host).next().is_some() {
                    // The process before it had the last copy of something: it stays out.
                    continue;
                }
                let old_id = old.raft_id();
                if voters.contains(&old_id) || learners.contains(&old_id) {
                    return self.core.propose_change(crate::GroupChange::Remove(old_id));
                }
            }
            let description = seen.description.clone();
            let join = Command::Join { description, incarnation };
            if self.would_change(&join) {
                self.propose_once(join, now_us);
                return true;
            }
        }
        false
    }
}
