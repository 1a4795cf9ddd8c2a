//! What a host or a witness is started with as a member of a cluster.

use super::durable;
use super::terms::{ClusterTerms, KFACTOR_MAX};
use crate::log::Data;
use crate::options::Options;
use crate::server::ServerConfiguration;
use lockstep_types::HostId;
use socket2::Socket;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a host knows of its cluster when it starts.
#[derive(Debug, Clone)]
pub struct ClusterMembership {
    /// The host. A witness has the number after those of the hosts.
    pub host: HostId,
    /// By host, where it listens for the others; its own address too, and that of the witness as
    /// the last one. Without a port: that of a host that was removed.
    pub addresses: Vec<SocketAddr>,
    /// Where hosts listen that were added to the cluster after it was made, as far as the options
    /// of the start name them; itself if it is one of them.
    pub added: Vec<(HostId, SocketAddr)>,
    /// What the hosts agree on.
    pub terms: ClusterTerms,
    /// It joins a cluster that runs, in place of a host that is lost, and takes part in no new one.
    /// One with a directory that the cluster needs starts with that all the same.
    pub rejoins: bool,
    /// Its placement group: hosts of one group may fail together, such as those of a rack, and
    /// copies of a partition are at hosts of different groups where that can be had.
    pub placement_group: String,
    /// Keeps other sockets from the port of this host until it listens there; in tests.
    pub reservation: Option<Arc<Socket>>,
}

/// The placement group of hosts that name none.
pub const DEFAULT_PLACEMENT_GROUP: &str = "0";

/// The most bytes of the name of a placement group.
pub const PLACEMENT_GROUP_BYTES_MAX: usize = 64;

/// Whether a text can be the name of a placement group.
///
/// # Errors
/// It is empty, too long, or has characters that do not print.
pub fn check_placement_group(name: &str) -> Result<(), String> {
    let (bytes, limit) = (name.len(), PLACEMENT_GROUP_BYTES_MAX);
    if bytes == 0 || bytes > limit {
        return Err(format!("the name of a placement group has 1 to {limit} bytes, not {bytes}"));
    }
    match name.chars().find(|character| character.is_control() || character.is_whitespace()) {
        Some(character) => Err(format!(
            "the name of a placement group has {character:?}: letters, digits and punctuation \
             are allowed"
        )),
        None => Ok(()),
    }
}

impl ClusterMembership {
    /// Where this host listens for the others.
    pub fn own_address(&self) -> SocketAddr {
        self.address_of(self.host).expect("it was checked that this host has an address")
    }

    /// Where a host or witness listens for the others, as far as the options of the start name it.
    pub fn address_of(&self, host: HostId) -> Option<SocketAddr> {
        let made = self.addresses.get(host.0 as usize).copied();
        let added = || self.added.iter().find(|(added, _)| *added == host);
        made.or_else(|| added().map(|(_, address)| *address))
    }

    /// Whether the host was added to the cluster after that was made.
    pub fn is_added(&self) -> bool {
        self.host.0 >= self.terms.shape().members()
    }

    /// Whether it is a witness.
    pub fn is_witness(&self) -> bool {
        self.terms.shape().is_witness(self.host)
    }

    /// Whether a host can be started as this member.
    ///
    /// # Errors
    /// What does not fit: the text for the user.
    pub(crate) fn check(&self, configuration: &ServerConfiguration) -> Result<(), String> {
        self.check_members()?;
        let ClusterTerms { hosts, sites, partitions_per_site, kfactor, .. } = self.terms;
        if self.address_of(self.host).is_none() || self.is_witness() {
            return Err(format!("host {} is none of the {hosts} hosts", self.host));
        }
        if self.is_added() && !self.rejoins {
            return Err(format!(
                "host {} was added to a cluster that runs: it is started with --rejoin",
                self.host
            ));
        }
        if kfactor > KFACTOR_MAX {
            return Err(format!("K is 0 to {KFACTOR_MAX}, not {kfactor}"));
        }
        if self.rejoins && kfactor == 0 {
            return Err("--rejoin is for clusters with --kfactor 1 or 2: with one copy of each \
                        partition a cluster stops with any of its hosts"
                .to_string());
        }
        self.terms.partition_count()?;
        configuration.options.control_plane(kfactor).map_err(|error| error.to_string())?;
        assert_eq!(sites, configuration.sites, "the terms are those of the host");
        let each = configuration.options.partitions_per_site.to_u32();
        assert_eq!(partitions_per_site, each, "the terms are those of the host");
        check_placement_group(&self.placement_group)?;
        durable::check_directory(configuration.data.as_ref(), &self.terms)
    }

    /// Whether a witness can be started as this member.
    ///
    /// # Errors
    /// What does not fit: the text for the user.
    pub(crate) fn check_witness(
        &self,
        data: Option<&Data>,
        options: &Options,
    ) -> Result<(), String> {
        self.check_members()?;
        if !self.is_witness() {
            let hosts = self.terms.hosts;
            return Err(format!("{} is the number of one of the {hosts} hosts", self.host));
        }
        if let Some(data) = data.filter(|data| !data.cluster.is_witness) {
            return Err(format!("{} is the directory of a host", data.disk.shown("")));
        }
        options.control_plane(self.terms.kfactor).map(drop).map_err(|error| error.to_string())
    }

    fn check_members(&self) -> Result<(), String> {
        let (known, members) = (self.addresses.len(), self.terms.shape().members());
        if known != members as usize || members > HostId::LIMIT {
            return Err(format!(
                "a cluster of {members} hosts and witnesses has an address for each, not {known}, \
                 and {} of them at most",
                HostId::LIMIT
            ));
        }
        for (number, (host, address)) in self.added.iter().enumerate() {
            if host.0 < members || host.0 >= HostId::LIMIT {
                return Err(format!(
                    "{host} is no number of a host that was added to a cluster of {members} hosts \
                     and witnesses: those are {members} to {}",
                    HostId::LIMIT - 1
                ));
            }
            let mut others = self.added[..number].iter();
            if others.any(|(other, at)| other == host || at == address)
                || self.addresses.contains(address)
            {
                return Err(format!("host {host} at {address} is named twice"));
            }
        }
        self.terms.check_witnesses()
    }
}
