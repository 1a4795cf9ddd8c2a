//! A client of a whole cluster: a connection to each host, each call sent to the host that leads
//! its partition, lost connections made again.

use crate::routing::Target;
use crate::rows;
use crate::{
    CallOptions, ClientError, ConnectOptions, Connection, OwnedResponse, ParameterWriter, Routing,
};
use lockstep_base::bytes::ByteWriter;
use lockstep_types::{ParameterSet, PartitionId, SqlType, Value};
use lockstep_wire_volt::topology::TOPOLOGY_TOPIC;
use std::collections::BTreeMap;

/// How often topology may change while it is being read, before giving up.
const REFRESH_ATTEMPTS: usize = 3;

/// What each partition answered to an all-partition call, in order of partition.
pub type PartitionResponses = Vec<(PartitionId, Result<OwnedResponse, ClientError>)>;

/// A blocking client with a connection to every host that it can reach.
pub struct Cluster {
    options: ConnectOptions,
    /// The addresses given, for when every connection is lost.
    seeds: Vec<String>,
    connections: BTreeMap<i32, Connection>,
    /// Where hosts listen, from the cluster itself or from a connection made.
    addresses: BTreeMap<i32, String>,
    routing: Routing,
    cluster_identity: Option<(i64, i32)>,
    /// The host after which the next call without a target goes.
    last_host: i32,
}

impl Cluster {
    /// Connects to as many of `addresses` as answer, at least one, and discovers the rest.
    pub fn connect(addresses: &[String], options: &ConnectOptions) -> Result<Cluster, ClientError> {
        let mut cluster = Cluster {
            options: options.clone(),
            seeds: addresses.to_vec(),
            connections: BTreeMap::new(),
            addresses: BTreeMap::new(),
            routing: Routing::default(),
            cluster_identity: None,
            last_host: 0,
        };
        cluster.connect_seeds()?;
        cluster.refresh()?;
        Ok(cluster)
    }

    /// What the client knows of the cluster.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// The hosts with a connection.
    pub fn connected_hosts(&self) -> Vec<i32> {
        self.connections.keys().copied().collect()
    }

    /// Calls a procedure at the best host and waits for its response. A call whose connection is
    /// lost is not repeated, because it may have been executed; the next call connects again.
    pub fn call(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
    ) -> Result<OwnedResponse, ClientError> {
        self.heed_notices()?;
        let set = ParameterSet::new(parameters.bytes())
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let host = match self.routing.target(procedure, set) {
            Target::Host(host) if self.ensure_host(host) => host,
            _ => self.any_host()?,
        };
        self.on_host(host, |connection| connection.call(procedure, parameters))
    }

    /// Calls a procedure once at every partition, `parameters` after a partition key where the
    /// procedure takes one, and returns each partition's response in order of partition.
    pub fn call_all_partitions(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
    ) -> Result<PartitionResponses, ClientError> {
        self.heed_notices()?;
        let mut sent = Vec::new();
        for (partition, key) in self.partition_keys()? {
            let host = match self.routing.leader_of(partition) {
                Some(host) if self.ensure_host(host) => host,
                _ => self.any_host()?,
            };
            let options = CallOptions {
                all_partition_destination: Some(partition.0 as i32),
                ..CallOptions::default()
            };
            let bytes = with_key_in_front(key, parameters)?;
            let handle = self.on_host(host, |c| c.submit(procedure, &bytes, &options));
            sent.push((partition, host, handle));
        }
        let wait = |(partition, host, handle): (PartitionId, i32, Result<i64, ClientError>)| {
            let response = handle.and_then(|handle| self.on_host(host, |c| c.wait(handle)));
            (partition, response)
        };
        Ok(sent.into_iter().map(wait).collect())
    }

    /// Reads topology and procedures again and connects to hosts that are new.
    pub fn refresh(&mut self) -> Result<(), ClientError> {
        let mut attempt = 1;
        loop {
            match self.read_cluster() {
                Err(error) if error.is_connection_lost() && attempt < REFRESH_ATTEMPTS => {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn read_cluster(&mut self) -> Result<(), ClientError> {
        let host = self.any_host()?;
        let mut parameters = ParameterWriter::default();
        parameters.text("TOPO").integer(0);
        let topology = self.on_host(host, |c| c.call("@Statistics", &parameters))?;
        self.routing.read_topology(&topology.view())?;
        parameters.clear();
        parameters.text("PROCEDURES");
        let procedures = self.on_host(host, |c| c.call("@SystemCatalog", &parameters))?;
        self.routing.read_procedures(&procedures.view())?;
        let missing = |host: &i32| !self.connections.contains_key(host);
        let missing: Vec<i32> = self.routing.hosts().filter(missing).collect();
        if !missing.is_empty() {
            parameters.clear();
            parameters.text("OVERVIEW");
            let overview = self.on_host(host, |c| c.call("@SystemInformation", &parameters))?;
            self.read_addresses(&overview)?;
            for host in missing {
                self.ensure_host(host);
            }
        }
        Ok(())
    }

    /// Takes `IPADDRESS` and `CLIENTPORT` of every host.
    fn read_addresses(&mut self, overview: &OwnedResponse) -> Result<(), ClientError> {
        let mut ports: BTreeMap<i64, (Option<String>, Option<String>)> = BTreeMap::new();
        for row in overview.tables()?.first().map(|t| t.rows.as_slice()).unwrap_or_default() {
            let [Value::Int(host), Value::Text(key), Value::Text(value), ..] = &row[..] else {
                continue;
            };
            let entry = ports.entry(*host).or_default();
            match &**key {
                "IPADDRESS" => entry.0 = Some(value.to_string()),
                "CLIENTPORT" => entry.1 = Some(value.to_string()),
                _ => {}
            }
        }
        for (host, address) in ports {
            if let (Ok(host), (Some(ip), Some(port))) = (i32::try_from(host), address) {
                let ip = if ip.contains(':') { format!("[{ip}]") } else { ip };
                self.addresses.insert(host, format!("{ip}:{port}"));
            }
        }
        Ok(())
    }

    /// A key for each partition, from the cluster.
    fn partition_keys(&mut self) -> Result<Vec<(PartitionId, i32)>, ClientError> {
        let mut parameters = ParameterWriter::default();
        parameters.text("INTEGER");
        let host = self.any_host()?;
        let response = self.on_host(host, |c| c.call("@GetPartitionKeys", &parameters))?;
        let tables = rows::tables(&response.view())?;
        let bad = || ClientError::Protocol("the @GetPartitionKeys answer is malformed".into());
        let mut keys = Vec::new();
        for row in &tables.first().ok_or_else(bad)?.rows {
            let [Value::Int(partition), Value::Int(key)] = &row[..] else { return Err(bad()) };
            let partition = u32::try_from(*partition).map_err(|_| bad())?;
            keys.push((PartitionId(partition), i32::try_from(*key).map_err(|_| bad())?));
        }
        keys.sort();
        Ok(keys)
    }

    fn connect_seeds(&mut self) -> Result<(), ClientError> {
        let mut reasons = Vec::new();
        for address in self.seeds.clone() {
            if let Err(error) = self.add(&address) {
                reasons.push(error.to_string());
            }
        }
        if self.connections.is_empty() {
            return Err(ClientError::NoServer(reasons.join("; ")));
        }
        Ok(())
    }

    fn add(&mut self, address: &str) -> Result<i32, ClientError> {
        let mut connection = Connection::connect(address, &self.options)?;
        let identity = connection.identity();
        let (host, cluster) =
            (identity.host_id, (identity.cluster_timestamp_ms, identity.leader_address));
        if *self.cluster_identity.get_or_insert(cluster) != cluster {
            return Err(ClientError::Protocol(format!("{address} belongs to another cluster")));
        }
        let mut topic = ParameterWriter::default();
        topic.text(TOPOLOGY_TOPIC);
        // A server that declines sends no notices; routing then stays as it was read.
        connection.call("@Subscribe", &topic)?;
        self.addresses.insert(host, address.to_string());
        self.connections.insert(host, connection);
        Ok(host)
    }

    /// Whether there is a connection to the host, after trying to make one.
    fn ensure_host(&mut self, host: i32) -> bool {
        if self.connections.contains_key(&host) {
            return true;
        }
        let Some(address) = self.addresses.get(&host).cloned() else { return false };
        match self.add(&address) {
            Ok(reached) => reached == host,
            Err(_) => {
                // Found again by the next refresh; until then calls do not wait for it.
                self.addresses.remove(&host);
                false
            }
        }
    }

    /// The connected hosts in turn.
    fn any_host(&mut self) -> Result<i32, ClientError> {
        if self.connections.is_empty() {
            self.connect_seeds()?;
        }
        let mut behind = self.connections.range(self.last_host.saturating_add(1)..);
        let next = behind.next().or_else(|| self.connections.first_key_value());
        self.last_host = *next.expect("at least one host is connected").0;
        Ok(self.last_host)
    }

    fn on_host<T>(
        &mut self,
        host: i32,
        work: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connection = self
            .connections
            .get_mut(&host)
            .ok_or_else(|| ClientError::lost(&format!("host {host}")))?;
        let result = work(connection);
        if result.as_ref().is_err_and(ClientError::is_connection_lost) {
            self.connections.remove(&host);
        }
        result
    }

    fn heed_notices(&mut self) -> Result<(), ClientError> {
        let mut changed = self.connections.is_empty();
        for connection in self.connections.values_mut() {
            let notices = connection.take_notices();
            changed |= notices.topology_changed | notices.catalog_changed;
        }
        if changed { self.refresh() } else { Ok(()) }
    }
}

/// The parameter set with an INTEGER before the others.
fn with_key_in_front(key: i32, parameters: &ParameterWriter) -> Result<Vec<u8>, ClientError> {
    let set = ParameterSet::new(parameters.bytes())
        .map_err(|error| ClientError::Protocol(error.to_string()))?;
    let limit = i16::MAX as usize;
    let count = i16::try_from(set.count() + 1)
        .map_err(|_| ClientError::LimitReached { what: "parameters", limit })?;
    let mut bytes = Vec::with_capacity(parameters.bytes().len() + 5);
    bytes.put_i16(count);
    bytes.put_i8(SqlType::Integer.code());
    bytes.put_i32(key);
    bytes.extend_from_slice(set.bytes());
    Ok(bytes)
}
