//! The nouns that every part of the server shares: ids, SQL types and values, result tables,
//! invocations and their outcome, and the hash that places a value on a partition.
//!
//! Kept small on purpose: contracts between two crates live beside their owner, not here.

pub mod cron;
pub mod decimal;
pub mod float;
pub mod geography;
pub mod hashing;
pub mod ids;
pub mod outcome;
pub mod parameter;
pub mod sql_type;
pub mod table;
pub mod timestamp;
pub mod value;

pub use cron::Cron;
pub use decimal::Decimal;
pub use hashing::HashRing;
pub use ids::{HostId, IndexId, PartitionId, ReplicaId, TableId, ThreadId, TransactionId};
pub use outcome::{Failure, Outcome, Status};
pub use parameter::{Parameter, ParameterSet};
pub use sql_type::SqlType;
pub use table::{TableBuilder, TableSchema, TableView};
pub use value::{Datum, Value};
