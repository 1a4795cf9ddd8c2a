//! A witness: the third vote beside two hosts. It is the thread of the links with the control
//! plane, and nothing else: no sites, no data, no port for clients.

use super::begin::{JoinStart, join_cluster};
use super::facts::host_facts;
use super::{ServerConfiguration, TestSettings, listen, wire};
use crate::catalog::NativeRegistry;
use crate::links::{ClusterMembership, RaftStart, SiteLogs};
use crate::log::Data;
use crate::mailbox::Outbox;
use crate::message::Envelope;
use crate::options::Options;
use crate::shard::HostFacts;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What a witness is started with.
#[derive(Clone)]
pub struct WitnessConfiguration {
    /// Where it and the hosts are, and on what they agree
    /// ([`crate::links::ClusterTerms::of_witness`]).
    pub membership: ClusterMembership,
    /// The limits. The times of the control plane are those of the hosts.
    pub options: Options,
    /// Its directory, where hosts have some. It has the votes of the witness and what the hosts
    /// agree on, and no data.
    pub data: Option<Data>,
}

/// A running witness. Dropping it stops it.
pub struct Witness {
    facts: Arc<HostFacts>,
    /// The thread of the links; none once it was stopped.
    links: Option<JoinHandle<io::Result<()>>>,
    main_outbox: Outbox<Envelope>,
    address: SocketAddr,
    /// Keeps the directory locked.
    _data: Option<Data>,
}

impl Witness {
    /// Starts a witness; its vote counts when this returns.
    ///
    /// # Errors
    /// The port cannot be bound, the directory cannot be used, or the hosts do not agree with it:
    /// the text for the user.
    pub fn start(configuration: WitnessConfiguration) -> io::Result<Witness> {
        let WitnessConfiguration { mut membership, options, data } = configuration;
        membership.check_witness(data.as_ref(), &options).map_err(io::Error::other)?;
        membership.terms.durability = data.as_ref().map(|data| data.durability);
        let address = membership.own_address();
        let listener = listen(address)?;
        let raft = match &data {
            Some(data) => RaftStart::open(data, &membership).map_err(io::Error::other)?.0,
            None => RaftStart::default(),
        };
        let facts = Arc::new(facts(&membership, options, data.clone())?);
        // Nobody reads what is for the threads before that of the links.
        let links = facts.placement().links_thread();
        let (mut wiring, main_outbox) = wire(&facts, links.index() + 1)?;
        let start = JoinStart {
            cluster: (membership, listener),
            wiring: wiring.pop(),
            sites: Vec::new(),
            raft,
            logs: SiteLogs::new(),
        };
        let ((links, _), _) = join_cluster(start, &facts)?;
        Ok(Witness { facts, links: Some(links), main_outbox, address, _data: data })
    }

    /// Where hosts connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to do when the witness has ended by an error: the caller of this stops it. The first
    /// one given stays.
    pub fn on_end(&self, action: impl Fn() + Send + Sync + 'static) {
        let _ = self.facts.on_shutdown.set(Box::new(action));
    }

    /// Stops the witness.
    ///
    /// # Errors
    /// It had ended with an error before.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop_thread()
    }

    fn stop_thread(&mut self) -> io::Result<()> {
        let Some(links) = self.links.take() else { return Ok(()) };
        self.facts.drain.begin(0);
        self.main_outbox.send(self.facts.placement().links_thread(), Envelope::Stop);
        self.main_outbox.flush();
        let panicked = |_| Err(io::Error::other("the thread of the links panicked"));
        links.join().unwrap_or_else(panicked)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Err(error) = self.stop_thread() {
            tracing::error!(%error, "the witness did not stop cleanly");
        }
    }
}

/// What the thread of the links knows: as that of a host without sites and clients.
fn facts(
    membership: &ClusterMembership,
    options: Options,
    data: Option<Data>,
) -> io::Result<HostFacts> {
    let address = membership.own_address();
    let configuration = ServerConfiguration {
        sites: 0,
        for_tests: TestSettings::default(),
        client: address,
        admin: address,
        options,
        natives: NativeRegistry::default(),
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data,
        cluster: Some(membership.clone()),
    };
    host_facts(&configuration, address, address)
}
