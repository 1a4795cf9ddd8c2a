//! A host in the test's process, on free loopback ports.

use crate::configuration::Configuration;
use lockstep_client::{ClientError, ConnectOptions, Connection, ParameterWriter};
use lockstep_durability::directory::{ClusterFile, initialize};
use lockstep_env::memory::{MemoryDisk, Survival, UnsyncedWrite};
use lockstep_node::ReplicaDigest;
use lockstep_node::log::{Data, Durability, directory};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, TestSettings, local_cluster};
use lockstep_types::{Datum, SqlType, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that copies may take until they have applied all that was answered.
const REST_PATIENCE: Duration = Duration::from_secs(60);

/// A running host; dropping it stops it.
pub struct TestHost {
    server: Server,
    /// The other hosts of its cluster.
    others: Vec<Server>,
}

/// A host's directory in memory.
pub struct MemoryDirectory {
    disk: MemoryDisk,
    cluster: ClusterFile,
}

impl MemoryDirectory {
    /// The directory of a new host with N partitions.
    pub fn new(partitions: u32) -> MemoryDirectory {
        let disk = MemoryDisk::new();
        let cluster = directory::new_cluster(partitions);
        initialize(&disk, cluster).expect("a disk in memory can be written");
        MemoryDirectory { disk, cluster }
    }

    /// What a power cut at this moment would leave; `survival` says what of writes that were not
    /// synced.
    pub fn after_power_cut(
        &self,
        survival: impl FnMut(&UnsyncedWrite<'_>) -> Survival,
    ) -> MemoryDirectory {
        MemoryDirectory { disk: self.disk.survivor(survival), cluster: self.cluster }
    }

    /// The disk.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    fn data(&self) -> Data {
        Data {
            disk: Arc::new(self.disk.clone()),
            cluster: self.cluster,
            durability: Durability::Sync,
            progress: Arc::default(),
            lock: None,
        }
    }
}

fn host_configuration(
    sites: u32,
    options: Options,
    data: Option<Data>,
    sends_bytes: bool,
) -> ServerConfiguration {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::test_procedures() {
        natives.register(procedure);
    }
    ServerConfiguration {
        sites,
        // Nothing may take a partition for its thread.
        for_tests: TestSettings { first_partition_at: u32::from(sites > 2), sends_bytes },
        client: any_port,
        admin: any_port,
        options,
        natives,
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data,
        cluster: None,
    }
}

impl TestHost {
    /// Starts a host with this many sites, each of one partition, and default options.
    ///
    /// # Errors
    /// The system has no port or thread left.
    pub fn start(sites: u32) -> io::Result<TestHost> {
        TestHost::start_with(sites, Options::default())
    }

    /// Starts a host with options.
    ///
    /// # Errors
    /// As for [`TestHost::start`].
    pub fn start_with(sites: u32, options: Options) -> io::Result<TestHost> {
        TestHost::start_at(sites, options, None)
    }

    /// Starts a host as a configuration of the corpus says.
    ///
    /// # Errors
    /// As for [`TestHost::start`].
    pub fn start_in(configuration: &Configuration) -> io::Result<TestHost> {
        let of_host = || {
            let (sites, options) = (configuration.sites, configuration.options());
            host_configuration(sites, options, None, configuration.sends_bytes)
        };
        if configuration.hosts == 1 {
            return Ok(TestHost { server: Server::start(of_host())?, others: Vec::new() });
        }
        let members = local_cluster::members(configuration.hosts, configuration.kfactor, of_host)?;
        let mut servers =
            local_cluster::start(members).into_iter().collect::<io::Result<Vec<Server>>>()?;
        let server = servers.pop().expect("a cluster has hosts");
        Ok(TestHost { server, others: servers })
    }

    /// Starts a host on a directory: with what is in it.
    ///
    /// # Errors
    /// As for [`TestHost::start`], or the directory cannot be recovered.
    pub fn start_on(options: Options, directory: &MemoryDirectory) -> io::Result<TestHost> {
        let data = directory.data();
        let sites = data.cluster.partition_count / options.partitions_per_site.to_u32();
        TestHost::start_at(sites, options, Some(data))
    }

    fn start_at(sites: u32, options: Options, data: Option<Data>) -> io::Result<TestHost> {
        let server = Server::start(host_configuration(sites, options, data, false))?;
        Ok(TestHost { server, others: Vec::new() })
    }

    /// Stops the host and gives a hash of each partition's data.
    ///
    /// # Errors
    /// A thread had ended with an error before.
    pub fn stop_with_digests(self) -> io::Result<Vec<u64>> {
        self.server.stop_with_digests()
    }

    /// Stops all hosts of the cluster, once its copies have applied all that was answered, and
    /// compares the rows of each partition's copies.
    ///
    /// # Errors
    /// Which partitions have copies that differ, with how far each copy came; or a thread had ended
    /// with an error.
    pub fn stop_and_compare_copies(self) -> Result<(), String> {
        if !self.others.is_empty() {
            self.await_copies()?;
        }
        let mut copies: BTreeMap<usize, BTreeSet<(u64, u64)>> = BTreeMap::new();
        for server in std::iter::once(self.server).chain(self.others) {
            let digests = server.stop_with_replica_digests().map_err(|error| error.to_string())?;
            let here = (0..).zip(digests).filter(|(_, digest)| *digest != ReplicaDigest::default());
            for (partition, digest) in here {
                copies.entry(partition).or_default().insert((digest.content, digest.position));
            }
        }
        let contents = |of: &BTreeSet<(u64, u64)>| {
            of.iter().map(|(content, _)| *content).collect::<BTreeSet<u64>>().len()
        };
        copies.retain(|_, of| contents(of) > 1);
        let partition = |(number, of): (&usize, &BTreeSet<(u64, u64)>)| {
            let ends: Vec<u64> = of.iter().map(|(_, position)| *position).collect();
            format!("the copies of partition {number}, which end at {ends:?}, have other rows")
        };
        match copies.is_empty() {
            true => Ok(()),
            false => Err(copies.iter().map(partition).collect::<Vec<_>>().join("; ")),
        }
    }

    /// Waits until no copy has received something that it has not applied: a call is answered when
    /// its copies have it in their logs, before they apply it.
    fn await_copies(&self) -> Result<(), String> {
        let mut connection = self.connect().map_err(|error| error.to_string())?;
        let mut parameters = ParameterWriter::default();
        parameters.text("COPIES").scalar(SqlType::TinyInt, Datum::Int(0));
        let begun = Instant::now();
        loop {
            let copies = connection.call("@Statistics", &parameters);
            let tables = copies.and_then(|copies| copies.tables());
            let tables = tables.map_err(|error| error.to_string())?;
            let table = tables.first().ok_or("@Statistics COPIES has no table")?;
            let column = table.names.iter().position(|name| name == "UNAPPLIED_BYTES");
            let column = column.ok_or("@Statistics COPIES has no UNAPPLIED_BYTES")?;
            if table.rows.iter().all(|row| row[column] == Value::Int(0)) {
                return Ok(());
            }
            if begun.elapsed() > REST_PATIENCE {
                return Err(format!("the copies do not come to rest: {:?}", table.rows));
            }
        }
    }

    /// The host.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// A new connection to the client port.
    ///
    /// # Errors
    /// The host refuses it.
    pub fn connect(&self) -> Result<Connection, ClientError> {
        let address = self.server.client_address().to_string();
        Connection::connect(&address, &ConnectOptions::default())
    }
}
