//! Which host a call should go to: what the client learned from the cluster's own tables.
//!
//! A wrong guess costs a hop, never a wrong result: the server routes again.

use crate::ClientError;
use crate::rows::{self, Table};
use lockstep_types::hashing::hash_value;
use lockstep_types::{Datum, Parameter, ParameterSet};
use lockstep_types::{PartitionId, Value};
use lockstep_wire_volt::Response;
use std::collections::BTreeMap;

/// The map from hashes to partitions as a server sent it.
#[derive(Debug, Clone, Default)]
pub struct TokenRing {
    /// Ascending; the first is the smallest integer.
    tokens: Vec<i32>,
    partitions: Vec<u32>,
}

impl TokenRing {
    /// Reads the raw form: a count, then token and partition of each, all 32 bits wide.
    pub fn parse(bytes: &[u8]) -> Result<TokenRing, ClientError> {
        let bad = |what: &str| ClientError::Protocol(format!("the hash ring {what}"));
        let (count, pairs) = bytes.split_first_chunk::<4>().ok_or(bad("has no length"))?;
        let count = usize::try_from(i32::from_be_bytes(*count)).map_err(|_| bad("is negative"))?;
        let (pairs, rest) = pairs.as_chunks::<8>();
        if pairs.len() != count || !rest.is_empty() || count == 0 {
            return Err(bad("has another length than it says"));
        }
        let mut ring = TokenRing::default();
        for &[a, b, c, d, e, f, g, h] in pairs {
            let partition = i32::from_be_bytes([e, f, g, h]);
            ring.tokens.push(i32::from_be_bytes([a, b, c, d]));
            ring.partitions.push(u32::try_from(partition).map_err(|_| bad("is malformed"))?);
        }
        if ring.tokens[0] != i32::MIN || !ring.tokens.is_sorted() {
            return Err(bad("is not in ascending order from the smallest token"));
        }
        Ok(ring)
    }

    /// The partition that a value lives on; `None` without a ring.
    pub fn partition_of(&self, value: Datum<'_>) -> Option<PartitionId> {
        let Some(hash) = hash_value(value) else { return Some(PartitionId(0)) };
        let above = self.tokens.partition_point(|&token| token <= hash);
        let owner = self.partitions.get(above.checked_sub(1)?)?;
        Some(PartitionId(*owner))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcedureRoute {
    Multi,
    ByParameter(usize),
}

/// Where a call should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the host that leads this partition.
    Host(i32),
    /// Any host does as well as any other.
    Any,
}

/// The cluster's partitions, ring and procedures as this client knows them.
#[derive(Debug, Clone, Default)]
pub struct Routing {
    ring: TokenRing,
    leaders: BTreeMap<u32, i32>,
    procedures: BTreeMap<String, ProcedureRoute>,
}

impl Routing {
    /// Takes over the answer of `@Statistics TOPO 0`.
    pub fn read_topology(&mut self, response: &Response<'_>) -> Result<(), ClientError> {
        let tables = rows::tables(response)?;
        let [partitions, ring] = &tables[..] else {
            let count = tables.len();
            return Err(ClientError::Protocol(format!("TOPO has {count} tables instead of 2")));
        };
        let mut leaders = BTreeMap::new();
        for row in &partitions.rows {
            let [Value::Int(partition), _, leader, ..] = &row[..] else {
                return Err(malformed("TOPO"));
            };
            let Value::Text(leader) = leader else { continue };
            let host = leader.split(':').next().and_then(|host| host.parse().ok());
            if let (Ok(partition), Some(host)) = (u32::try_from(*partition), host) {
                leaders.insert(partition, host);
            }
        }
        let ring = match ring.rows.first().map(Vec::as_slice) {
            Some([_, Value::Bytes(bytes), ..]) => TokenRing::parse(bytes)?,
            _ => return Err(malformed("TOPO")),
        };
        (self.ring, self.leaders) = (ring, leaders);
        Ok(())
    }

    /// Takes over the answer of `@SystemCatalog PROCEDURES`.
    pub fn read_procedures(&mut self, response: &Response<'_>) -> Result<(), ClientError> {
        let tables = rows::tables(response)?;
        let table: &Table = tables.first().ok_or(malformed("PROCEDURES"))?;
        let mut procedures = BTreeMap::new();
        for row in &table.rows {
            let (Some(Value::Text(name)), Some(Value::Text(remarks))) = (row.get(2), row.get(6))
            else {
                return Err(malformed("PROCEDURES"));
            };
            let remarks: serde_json::Value =
                serde_json::from_str(remarks).map_err(|_| malformed("PROCEDURES"))?;
            let parameter = remarks["partitionParameter"].as_u64();
            let route = match parameter.and_then(|parameter| usize::try_from(parameter).ok()) {
                Some(parameter) if remarks["singlePartition"] == true => {
                    ProcedureRoute::ByParameter(parameter)
                }
                _ => ProcedureRoute::Multi,
            };
            procedures.insert(name.to_string(), route);
        }
        self.procedures = procedures;
        Ok(())
    }

    /// The host that leads a partition; [`PartitionId::MULTI`] for multi-partition calls.
    pub fn leader_of(&self, partition: PartitionId) -> Option<i32> {
        self.leaders.get(&partition.0).copied()
    }

    /// All hosts that lead something.
    pub fn hosts(&self) -> impl Iterator<Item = i32> {
        let hosts: std::collections::BTreeSet<i32> = self.leaders.values().copied().collect();
        hosts.into_iter()
    }

    /// The partition that a value lives on; `None` before the topology is read.
    pub fn partition_of(&self, value: Datum<'_>) -> Option<PartitionId> {
        self.ring.partition_of(value)
    }

    /// Number of procedures known.
    pub fn procedure_count(&self) -> usize {
        self.procedures.len()
    }

    /// Where a call should go. Unknown and system procedures go anywhere.
    pub fn target(&self, procedure: &str, parameters: ParameterSet<'_>) -> Target {
        let partition = match self.procedures.get(procedure) {
            None => None,
            Some(ProcedureRoute::Multi) => Some(PartitionId::MULTI),
            Some(ProcedureRoute::ByParameter(index)) => match parameters.get(*index) {
                Some(Ok(Parameter::Scalar(_, value))) => self.ring.partition_of(value),
                _ => None,
            },
        };
        partition.and_then(|partition| self.leader_of(partition)).map_or(Target::Any, Target::Host)
    }
}

fn malformed(what: &str) -> ClientError {
    ClientError::Protocol(format!("the {what} answer is malformed"))
}
