//! What clients read to find their way: where partitions live, how values hash to them, which
//! procedures can be routed, and a key for each partition.
//!
//! Pure functions from plain inputs to tables in the send buffer; who knows the inputs calls
//! them for `@Statistics TOPO`, `@SystemCatalog PROCEDURES`, `@GetPartitionKeys` and the pushes
//! to subscribers.

use lockstep_base::bytes::ByteWriter;
use lockstep_types::hashing::{hash_bytes, hash_integer};
use lockstep_types::{
    Datum, Failure, HashRing, HostId, PartitionId, SqlType, TableBuilder, TableSchema,
};

/// The handle of the ping that clients send on their own; its answer carries it too.
pub const PING_HANDLE: i64 = i64::MAX;
/// The handle of a push that carries the tables of `@Statistics TOPO`.
pub const TOPOLOGY_CHANGED_HANDLE: i64 = i64::MAX - 1;
/// The handle of a push that carries the table of `@SystemCatalog PROCEDURES`.
pub const CATALOG_CHANGED_HANDLE: i64 = i64::MAX - 2;
/// The handle that announces a graceful stop to clients of login version 2; no tables.
pub const GRACEFUL_STOP_HANDLE: i64 = i64::MAX - 3;
/// Handles from here up belong to the protocol: a client never gives one to a call of its own.
pub const FIRST_RESERVED_HANDLE: i64 = i64::MAX - 64;
/// The only topic of `@Subscribe`.
pub const TOPOLOGY_TOPIC: &str = "TOPOLOGY";
/// The name of the ring's kind, exactly as clients compare it.
pub const HASH_TYPE: &str = "ELASTIC";

/// One replica's place: a host and the site in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteAddress {
    /// The host.
    pub host: HostId,
    /// The site's number within the host.
    pub site: u32,
}

impl std::fmt::Display for SiteAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.site)
    }
}

/// Where one partition is. The multi-partition initiator has a row of its own, as
/// [`PartitionId::MULTI`]: clients send multi-partition calls to its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSites {
    /// The partition.
    pub partition: PartitionId,
    /// All its replicas.
    pub sites: Vec<SiteAddress>,
    /// The leader; `None` while there is none, which clients skip.
    pub leader: Option<SiteAddress>,
}

/// How the ring is sent.
#[derive(Debug, Clone, Copy)]
pub enum RingForm<'a> {
    /// The bytes of [`raw_ring`]: what nearly all clients ask for.
    Raw(&'a [u8]),
    /// The text of [`json_ring`], gzip-compressed by the caller: second parameter 1 of
    /// `@Statistics TOPO`.
    CompressedJson(&'a [u8]),
}

/// Appends the two tables of `@Statistics TOPO`. Returns their number.
pub fn write_topology(out: &mut Vec<u8>, partitions: &[PartitionSites], ring: RingForm<'_>) -> u16 {
    let schema = TableSchema::new(&[
        ("Partition", SqlType::Integer),
        ("Sites", SqlType::Varchar),
        ("Leader", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for row in partitions {
        let mut sites: Vec<String> = row.sites.iter().map(SiteAddress::to_string).collect();
        sites.sort();
        let sites = sites.join(", ");
        let leader = row.leader.map(|leader| leader.to_string()).unwrap_or_default();
        let partition = Datum::Int(row.partition.0.into());
        table.row(&schema, &[partition, Datum::Text(&sites), Datum::Text(&leader)]);
    }
    table.finish();
    let schema =
        TableSchema::new(&[("HASHTYPE", SqlType::Varchar), ("HASHCONFIG", SqlType::Varbinary)]);
    let bytes = match ring {
        RingForm::Raw(bytes) | RingForm::CompressedJson(bytes) => bytes,
    };
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Text(HASH_TYPE), Datum::Bytes(bytes)]);
    table.finish();
    2
}

/// The ring as most clients read it: the number of tokens, then token and partition of each, in
/// ascending order; all 32 bits wide.
pub fn raw_ring(ring: &HashRing) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let mut count = 0;
    for (token, partition) in ring.tokens() {
        bytes.put_i32(token);
        bytes.put_i32(partition.0 as i32);
        count += 1;
    }
    bytes.patch_i32(0, count);
    bytes
}

/// The ring as a JSON object from token to partition, for clients that ask for it compressed.
pub fn json_ring(ring: &HashRing) -> String {
    let mut text = String::from("{");
    for (token, partition) in ring.tokens() {
        let comma = if text.len() > 1 { "," } else { "" };
        text.push_str(&format!("{comma}\"{token}\":{partition}"));
    }
    text.push('}');
    text
}

/// How a procedure is routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcedureRouting {
    /// It may touch all partitions.
    Multi,
    /// It runs at the partition that this parameter hashes to.
    ByParameter {
        /// Position of the parameter, from 0.
        parameter: u16,
        /// Type of the partitioning column.
        column_type: SqlType,
    },
    /// It runs wherever an all-partition call sends it.
    Directed,
}

/// One procedure as clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcedureEntry<'a> {
    /// Its name; generated ones such as `VOTES.insert` included, system procedures not.
    pub name: &'a str,
    /// It never writes.
    pub read_only: bool,
    /// Where it runs.
    pub routing: ProcedureRouting,
    /// It makes calls, in stages.
    pub compound: bool,
    /// The command log has what its calls did: told only then, for other clients never heard of it.
    pub effects: bool,
    /// Further members of the JSON text, each with a comma in front.
    pub more: &'a str,
}

impl ProcedureEntry<'_> {
    /// The JSON text of the column REMARKS, which clients parse.
    pub fn remarks(&self) -> String {
        let (read_only, compound) = (self.read_only, self.compound);
        let routing = match self.routing {
            ProcedureRouting::Multi => "\"singlePartition\":false".to_string(),
            ProcedureRouting::ByParameter { parameter, column_type } => format!(
                "\"singlePartition\":true,\"partitionParameter\":{parameter},\
                 \"partitionParameterType\":{}",
                column_type.code()
            ),
            ProcedureRouting::Directed => "\"singlePartition\":true,\"partitionParameter\":-1,\
                 \"partitionParameterType\":-1"
                .to_string(),
        };
        let effects = if self.effects { ",\"effects\":true" } else { "" };
        let more = self.more;
        format!("{{\"readOnly\":{read_only},{routing},\"compound\":{compound}{more}{effects}}}")
    }
}

/// Appends the table of `@SystemCatalog PROCEDURES`, in the order given. Returns the number of
/// tables.
pub fn write_procedures<'a>(
    out: &mut Vec<u8>,
    procedures: impl IntoIterator<Item = ProcedureEntry<'a>>,
) -> u16 {
    let schema = TableSchema::new(&[
        ("PROCEDURE_CAT", SqlType::Varchar),
        ("PROCEDURE_SCHEM", SqlType::Varchar),
        ("PROCEDURE_NAME", SqlType::Varchar),
        ("RESERVED1", SqlType::Varchar),
        ("RESERVED2", SqlType::Varchar),
        ("RESERVED3", SqlType::Varchar),
        ("REMARKS", SqlType::Varchar),
        ("PROCEDURE_TYPE", SqlType::SmallInt),
        ("SPECIFIC_NAME", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for entry in procedures {
        let remarks = entry.remarks();
        let name = Datum::Text(entry.name);
        let null = Datum::Null;
        let remarks = Datum::Text(&remarks);
        table.row(&schema, &[null, null, name, null, null, null, remarks, Datum::Int(0), name]);
    }
    table.finish();
    1
}

/// The type of the keys that `@GetPartitionKeys` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Integers, hashed as 64-bit ones.
    Integer,
    /// Integers as decimal text.
    Text,
    /// Integers as four big-endian bytes.
    Bytes,
}

impl KeyType {
    /// Reads the procedure's parameter: any case, spaces around it ignored.
    pub fn parse(text: &str) -> Result<KeyType, Failure> {
        let text = text.trim();
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        if is("INTEGER") {
            Ok(KeyType::Integer)
        } else if is("STRING") || is("VARCHAR") {
            Ok(KeyType::Text)
        } else if is("VARBINARY") {
            Ok(KeyType::Bytes)
        } else {
            Err(Failure::graceful(format!(
                "Type {text} is not a supported type of partition key, the type of partition key \
                 to return and can be one of INTEGER, STRING or VARCHAR (equivalent), or VARBINARY"
            )))
        }
    }

    fn sql_type(self) -> SqlType {
        match self {
            KeyType::Integer => SqlType::Integer,
            KeyType::Text => SqlType::Varchar,
            KeyType::Bytes => SqlType::Varbinary,
        }
    }
}

/// For each partition, in order, the smallest non-negative integer whose form as `key_type`
/// hashes to it. Costs a few thousand hashes for a thousand partitions: made once per ring.
pub fn partition_keys(ring: &HashRing, key_type: KeyType) -> Vec<i32> {
    let mut keys = vec![None; ring.partition_count() as usize];
    let mut missing = keys.len();
    for candidate in 0..i32::MAX {
        if missing == 0 {
            break;
        }
        let hash = match key_type {
            KeyType::Integer => hash_integer(candidate.into()),
            KeyType::Text => hash_bytes(candidate.to_string().as_bytes()),
            KeyType::Bytes => hash_bytes(&candidate.to_be_bytes()),
        };
        let slot = &mut keys[ring.partition_of_hash(hash).index()];
        if slot.is_none() {
            *slot = Some(candidate);
            missing -= 1;
        }
    }
    keys.into_iter().map(|key| key.unwrap_or_default()).collect()
}

/// Appends the table of `@GetPartitionKeys`: `keys` as [`partition_keys`] gives them. Returns the
/// number of tables.
pub fn write_partition_keys(out: &mut Vec<u8>, key_type: KeyType, keys: &[i32]) -> u16 {
    let schema = TableSchema::new(&[
        ("PARTITION_ID", SqlType::Integer),
        ("PARTITION_KEY", key_type.sql_type()),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for (partition, &key) in keys.iter().enumerate() {
        let partition = Datum::Int(partition as i64);
        match key_type {
            KeyType::Integer => table.row(&schema, &[partition, Datum::Int(key.into())]),
            KeyType::Text => table.row(&schema, &[partition, Datum::Text(&key.to_string())]),
            KeyType::Bytes => table.row(&schema, &[partition, Datum::Bytes(&key.to_be_bytes())]),
        };
    }
    table.finish();
    1
}
