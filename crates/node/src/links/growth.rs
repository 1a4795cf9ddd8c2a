//! Links to hosts that are added to the cluster while this one runs, and the end of those to hosts
//! that are removed.

use super::membership::Membership;
use super::peer::Peer;
use super::{ClusterMembership, Links, limits};
use lockstep_cluster::HostState;
use lockstep_link::{HostIdentity, LimitError};
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The other hosts that the options of a start name, by number.
///
/// # Errors
/// A name is too long for a link.
pub(super) fn first_peers(
    identity: &HostIdentity,
    membership: &ClusterMembership,
) -> Result<Vec<Option<Box<Peer>>>, LimitError> {
    let numbers = membership.added.iter().map(|(host, _)| host.0 + 1);
    let count = numbers.max().unwrap_or(0).max(membership.addresses.len() as u32);
    let peer = |host: HostId| {
        // Without a port: that of a host that was removed since.
        let is_other = |address: &SocketAddr| host != membership.host && address.port() != 0;
        let address = membership.address_of(host).filter(is_other);
        address
            .map(|address| Peer::new(identity.clone(), host, Some(address), limits()).map(Box::new))
            .transpose()
    };
    (0..count).map(HostId).map(peer).collect()
}

impl Membership {
    /// The first host with data, by number: what it says of the cluster counts at its start.
    pub(super) fn first_host(&self) -> HostId {
        self.state().and_then(|state| state.data_hosts().next()).unwrap_or(HostId(0))
    }

    /// The hosts with data that are listed, each with whether no process of it has joined yet.
    pub(super) fn listed(&self) -> BTreeMap<HostId, bool> {
        let Some(state) = self.state() else { return BTreeMap::new() };
        let is_added = |host| state.hosts[&host].state == HostState::Added;
        state.data_hosts().map(|host| (host, is_added(host))).collect()
    }
}

impl Links {
    /// The cluster may list other hosts than before: those are linked with this one.
    pub(super) fn link_hosts(&mut self) {
        let Some(state) = self.members.state().filter(|it| it.epoch.0 > self.linked_epoch) else {
            return;
        };
        self.linked_epoch = state.epoch.0;
        let own = self.membership.host;
        let listed: Vec<(HostId, String)> = state
            .hosts
            .iter()
            .filter(|(host, _)| **host != own)
            .map(|(host, record)| (*host, record.description.internal_address.clone()))
            .collect();
        let is_listed = |host: HostId| listed.iter().any(|(listed, _)| *listed == host);
        for place in &mut self.peers {
            if let Some(peer) = place.as_mut().filter(|peer| !is_listed(peer.host())) {
                tracing::warn!(host = %peer.host(), "a host is not of the cluster any more");
                peer.go_out(&self.watch);
                *place = None;
            }
        }
        for (host, address) in listed {
            // Hosts may have other addresses for each other: the options of this one count.
            let named = self.membership.address_of(host).filter(|address| address.port() != 0);
            let Some(address) = named.or_else(|| address.parse().ok()) else { continue };
            match self.peers.get_mut(host.0 as usize).and_then(Option::as_mut) {
                Some(peer) => peer.listens_at(address),
                None => self.add_peer(host, Some(address)),
            }
        }
    }

    /// A host connects. Before this one knows the cluster it may be one that was added: this one
    /// takes part through it, and hears where it listens later.
    pub(super) fn expect_unlisted(&mut self, host: HostId) {
        let is_known = self.peers.get(host.0 as usize).is_some_and(Option::is_some);
        let may_be_added = host.0 < HostId::LIMIT && host.0 >= self.members.shape().members();
        if !is_known && may_be_added && self.members.state().is_none() {
            self.add_peer(host, None);
        }
    }

    fn add_peer(&mut self, host: HostId, address: Option<SocketAddr>) {
        let place = host.0 as usize;
        match Peer::new(self.identity.clone(), host, address, limits()) {
            Ok(peer) => {
                if place >= self.peers.len() {
                    self.peers.resize_with(place + 1, || None);
                }
                tracing::info!(%host, ?address, "a host is linked with this one");
                self.members.control().greet(host);
                self.peers[place] = Some(Box::new(peer));
            }
            Err(error) => tracing::error!(%host, %error, "a host cannot be linked with this one"),
        }
    }
}
