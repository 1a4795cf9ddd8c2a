//! What the thread of the links does with what the control plane decides: the end of the formation,
//! a new placement, a host that is lost, and the end of this host.

use super::follower_logs::FollowerLogs;
use super::peer::Peer;
use super::{Formed, Links, SiteLogs};
use crate::message::Envelope;
use lockstep_cluster::{Copy, HostState, Outgoing, PartitionState};
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_types::{HostId, PartitionId};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Links {
    /// Carries out what the control plane has decided.
    pub(super) fn attend_to_members(&mut self) -> io::Result<()> {
        self.members.tick();
        self.link_hosts();
        self.place_first();
        if self.formed.is_some() && self.members.is_joining() && self.agrees_with_all() {
            self.members.propose_host_up();
        }
        if self.formed.is_some() && self.is_formed() {
            match self.begin_with_placement() {
                Ok(begun) => {
                    self.members.begin_serving();
                    self.tell_formed(Ok(begun));
                }
                Err(problem) => return self.end(problem),
            }
        }
        self.watch_start()?;
        if let Err(problem) = self.install_placement() {
            return self.end(problem);
        }
        self.tell_moves();
        for Outgoing { to, bytes } in self.members.take_messages() {
            if let Some(peer) = self.peers.get_mut(to.0 as usize).and_then(Option::as_mut) {
                peer.send_datagram(&bytes);
            }
        }
        match self.members.take_end() {
            None => Ok(()),
            Some((Some(host), problem)) => self.lose(host, &problem),
            Some((None, problem)) => self.end(problem),
        }
    }

    /// Tells hosts with which this one takes part again that it knows.
    pub(super) fn send_owed_terms(&mut self) {
        let said = self.said();
        for number in 0..self.peers.len() {
            let owes = |peer: &&mut Box<Peer>| peer.other.owes_epoch();
            let Some(peer) = self.peers[number].as_mut().filter(owes) else { continue };
            let sent = peer.send_terms((&self.membership.terms, said), self.now);
            if let Err(problem) = sent {
                let host = peer.host();
                tracing::error!(%host, problem, "the host is cut off");
                self.cut_off(host);
            }
        }
    }

    /// Ends the session with a host. With copies, one of the two goes out for it.
    pub(super) fn cut_off(&mut self, host: HostId) {
        if let Some(peer) = self.peers.get_mut(host.0 as usize).and_then(Option::as_mut) {
            peer.link.end_session();
            peer.close(&self.watch);
        }
    }

    /// Whether the cluster is formed, and this host connected with all that take part.
    fn is_formed(&self) -> bool {
        let peer = |host: HostId| self.peers.get(host.0 as usize).and_then(Option::as_ref);
        self.members.is_formed(|host| peer(host).is_some_and(|peer| peer.agrees()))
    }

    /// Whether this host is connected with all that take part.
    fn agrees_with_all(&self) -> bool {
        let state = self.members.state();
        let up = state.into_iter().flat_map(|state| &state.hosts);
        let mut up = up.filter(|(_, record)| record.state == HostState::Up).map(|(host, _)| *host);
        let peer = |host: HostId| self.peers.get(host.0 as usize).and_then(Option::as_ref);
        let own = self.membership.host;
        up.all(|host| host == own || peer(host).is_some_and(|peer| peer.agrees()))
    }

    /// The cluster is formed: the host begins with a placement, the first one, or that of an
    /// earlier run in its new epoch.
    ///
    /// # Errors
    /// The cluster was not started with all of its hosts.
    fn begin_with_placement(&mut self) -> Result<Formed, String> {
        if self.members.is_witness() {
            let (placement, logs) = (self.facts.placement(), SiteLogs::new());
            return Ok(Formed { placement, logs, joins: false });
        }
        let brought_back = self.members.take_brought_back();
        if self.members.is_restored()
            && let Some(state) = self.members.state()
        {
            // Each copy begins where its log ends: nobody has opened an epoch of it since all took
            // part again, which waits for the report of each copy in sync. Other hosts may be ahead
            // with partitions that have no copy here. A witness or a host without copies may have
            // been lost or have joined meanwhile, and a copy here may be out of sync: what was
            // brought back of it is void.
            let own = self.membership.host;
            let Some(record) = state.hosts.get(&own) else {
                return Err("the host was removed from the cluster".to_string());
            };
            let resumed_in = record.up_since;
            let is_own = |copies: &[Copy]| copies.iter().any(|copy| copy.host == own);
            let is_new = |(was_own, partition): (&bool, &PartitionState)| {
                partition.epoch != resumed_in && is_own(&partition.copies) && !*was_own
            };
            if brought_back.iter().zip(&state.partitions).any(is_new) {
                return Err(
                    "a host was lost while the cluster started: stop all hosts, and start \
                            all of them again"
                        .to_string(),
                );
            }
            let mut placement = ClusterPlacement::of_state(state);
            let is_behind = placement.step_back(own, resumed_in.0);
            let placement = Placement::of_cluster(own, &placement);
            self.facts.set_placement(Arc::new(placement));
            if !is_behind {
                // Else the newest one follows at once.
                self.members.take_epoch();
            }
        }
        if self.members.has_joined()
            && let Some(state) = self.members.take_epoch()
        {
            let placement = ClusterPlacement::of_state(state);
            let placement = Placement::of_cluster(self.membership.host, &placement);
            if placement.epoch() > self.facts.placement().epoch() {
                self.facts.set_placement(Arc::new(placement));
            }
            let created_ms = self.peers.iter().flatten().find_map(|peer| peer.created_ms);
            if let Some(created_ms) = created_ms {
                self.facts.cluster_created_ms.store(created_ms, Ordering::Relaxed);
            }
        }
        self.follow_peers(&self.facts.placement());
        self.begin_copies()?;
        let (placement, logs) = (self.facts.placement(), std::mem::take(&mut self.led_logs));
        Ok(Formed { placement, logs, joins: self.members.has_joined() })
    }

    /// A new cluster is formed: the placement groups of all hosts are known now, from which the
    /// first placement follows.
    fn place_first(&mut self) {
        let is_new = self.formed.is_some() && self.membership.terms.placement_groups;
        let state = self.members.state().filter(|state| is_new && state.is_formed());
        let begins_elsewhere = self.members.is_restored() || self.members.has_joined();
        if let Some(state) = state.filter(|_| !begins_elsewhere) {
            let first = ClusterPlacement::first_of_state(state);
            let first = Placement::of_cluster(self.membership.host, &first);
            if first.epoch() == self.facts.placement().epoch() {
                self.facts.set_first_placement(first);
            }
        }
    }

    /// The placement is known with which the host begins.
    pub(super) fn begin_copies(&mut self) -> Result<(), String> {
        let placement = self.facts.placement();
        let logs = std::mem::take(&mut self.waiting_logs);
        let (led, followed) = FollowerLogs::begin(logs, &placement);
        let starts = followed.starts();
        if let Some(receipts) = followed.receipts() {
            self.copies.write_logs(receipts);
        }
        (self.led_logs, self.logs) = (led, followed);
        self.copies.begin(&placement, &starts, &mut self.sends)
    }

    /// Tells the threads of another placement.
    ///
    /// # Errors
    /// The cluster does not begin with the placement that this host has begun with.
    fn install_placement(&mut self) -> Result<(), String> {
        if self.members.is_witness() {
            return Ok(());
        }
        if self.formed.is_some() && (self.members.is_restored() || self.members.may_join()) {
            return Ok(());
        }
        let has_copies = self.members.has_copies();
        let Some(state) = self.members.take_epoch() else { return Ok(()) };
        let placement =
            Placement::of_cluster(self.membership.host, &ClusterPlacement::of_state(state));
        let current = self.facts.placement();
        if !has_copies || placement.epoch() <= current.epoch() {
            return match placement.epoch() == current.epoch() && placement != *current {
                true => Err("the hosts of the cluster place its partitions in other ways: start \
                             all of them with the same release"
                    .to_string()),
                false => Ok(()),
            };
        }
        for peer in self.peers.iter_mut().flatten() {
            if !placement.is_up(peer.host()) && current.is_up(peer.host()) {
                tracing::error!(host = %peer.host(), epoch = placement.epoch(), "a host is lost");
                peer.go_out(&self.watch);
            }
        }
        self.follow_peers(&placement);
        // Before the placement: openings of epochs that it ends. A site that has heard of its end
        // would open such an epoch, and miss the opening of the next one.
        self.send_all();
        self.copies.follow_placement(&placement, &mut self.sends);
        let dropped = self.copies.take_dropped();
        let leaves = self.facts.departure.has_begun();
        let state = self.members.state();
        let has_all = |of: PartitionId| {
            state.is_some_and(|it| it.partitions[of.index()].copies.len() >= it.shape.copies())
        };
        for (partition, epoch) in dropped.into_iter().filter(|_| !leaves) {
            match has_all(partition) {
                true => tracing::info!(%partition, epoch, "the copy of this host is given up"),
                false => tracing::error!(%partition, epoch, "the copy of this host is out of sync"),
            }
        }
        let placement = Arc::new(placement);
        self.facts.set_placement(Arc::clone(&placement));
        for thread in placement.sites().chain([placement.control_thread()]) {
            self.outbox.send(thread, Envelope::Placement(Arc::clone(&placement)));
        }
        // After the placement: openings of epochs that it begins.
        self.send_all();
        Ok(())
    }

    /// Hosts that take part again, or with which this one does, are heard again, and get messages.
    fn follow_peers(&mut self, placement: &Placement) {
        for peer in self.peers.iter_mut().flatten() {
            let host = peer.host();
            if placement.both_up_since(host).is_some_and(|since| peer.other.take_part(since)) {
                tracing::warn!(%host, epoch = placement.epoch(), "a host takes part again");
                self.members.not_cut_off(host);
            }
        }
    }

    /// Tells the sites which leaders are to be moved, after the placement that they are of.
    fn tell_moves(&mut self) {
        let has_sites = self.formed.is_none() && !self.members.is_witness();
        let Some(moves) = self.members.take_moves().filter(|_| has_sites) else { return };
        let moves: Arc<[PlannedMove]> = moves.into();
        for thread in self.facts.placement().sites() {
            self.outbox.send(thread, Envelope::Moves(Arc::clone(&moves)));
        }
    }

    /// Whether a host was heard of lately, once the cluster is formed. With copies the control
    /// plane decides that.
    pub(super) fn check_heard(&mut self, number: usize) -> Result<(), String> {
        let timeout = self.facts.options.host_timeout_ms;
        let is_exempt = self.formed.is_some() || self.members.has_copies();
        let Some(peer) = self.peers[number].as_mut().filter(|_| !is_exempt) else {
            return Ok(());
        };
        match peer.unheard(self.now).us() > timeout.us() as u64 {
            false => Ok(()),
            true => Err(format!(
                "nothing was heard of it for {} ms (option host_timeout_ms)",
                timeout.get()
            )),
        }
    }

    /// The cluster is lost with a host.
    pub(super) fn lose(&mut self, host: HostId, problem: &str) -> io::Result<()> {
        let problem = format!("{} is lost: {problem}", self.members.named(host));
        match self.formed.is_some() {
            true => self.end(problem),
            false => self.end(format!("{problem}; with one copy of each partition the host stops")),
        }
    }

    /// This host cannot go on, unless it stops anyway.
    pub(super) fn end(&mut self, problem: String) -> io::Result<()> {
        if self.facts.drain.has_begun() {
            return Ok(());
        }
        match self.formed.is_some() {
            true => {
                // The other hosts get the terms of this one, and so know why.
                self.write_peers();
                self.tell_formed(Err(problem.clone()));
            }
            false => tracing::error!("{problem}"),
        }
        Err(io::Error::other(problem))
    }

    fn tell_formed(&mut self, result: Result<Formed, String>) {
        if let Some(formed) = self.formed.take() {
            // Nobody waits any more where the start was given up.
            let _ = formed.send(result);
        }
    }
}
