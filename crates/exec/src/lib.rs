//! Executes plans at one site.
//!
//! - [`Database`] is one site's data with the transaction that runs on it; schema changes are
//!   prepared beside what is there and swapped in ([`Database::prepare_change`]).
//! - [`PreparedStatement`] is a plan that sites share; [`statement::execute`] runs it and appends
//!   exactly one result table, or leaves data and output as they were. Work on one row by its key
//!   takes a path of its own (`statement/fast`); everything else runs through `query` (relations,
//!   pushed frame by frame, over large tables in batches) and `change` (rows, constraints, views).
//! - [`load::load_rows`] inserts the rows of a bulk load without a statement for each.
//! - [`watch`] is how a host stops statements and counts what their operators do.
//! - [`distributed`] runs statements over several partitions: fragments, then the coordinator.
//! - [`PreparedProcedure`] and [`NativeProcedure`] are stored procedures: whole at a site, or
//!   round by round at the coordinator ([`procedure`]).
//!
//! Below these, bottom up: `error` (how execution fails), `frame` and `context` (what an
//! expression reads), `arithmetic`, `cast`, `functions`, `aggregate` (what SQL values do),
//! `evaluate` (expressions), `convert` (values into parameters and columns).

pub mod aggregate;
pub mod arena;
pub mod arithmetic;
pub mod cast;
pub mod context;
pub mod convert;
pub mod error;
pub mod evaluate;
pub mod frame;
pub mod functions;
mod geography;

mod analysis;
mod change;
pub mod database;
mod digest;
pub mod distributed;
pub mod entries;
mod images;
pub mod load;
pub mod lookup;
pub mod procedure;
mod query;
mod schema_change;
pub mod snapshot;
pub mod statement;
mod statistics;
pub mod watch;

pub use database::{Database, DatabaseOptions, TransactionContext};
pub use error::SqlError;
pub use procedure::{
    NativeProcedure, PreparedProcedure, ProcedureContext, ProcedureError, routing_value,
};
pub use statement::PreparedStatement;
pub use statistics::{IndexStatistics, TableStatistics};
