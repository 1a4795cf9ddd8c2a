//! Executes plans at one site.
//!
//! Bottom up: `error` (how execution fails), `frame` (the rows that an expression reads),
//! `arithmetic`, `cast`, `functions`, `aggregate` (what SQL values do), `evaluate` (expressions),
//! `convert` (values into parameters and columns).

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

mod analysis;
mod change;
pub mod database;
pub mod distributed;
pub mod procedure;
mod query;
mod schema_change;
pub mod statement;
mod statistics;

pub use database::{Database, DatabaseOptions, TransactionContext};
pub use error::SqlError;
pub use procedure::{
    NativeProcedure, PreparedProcedure, ProcedureContext, ProcedureError, routing_value,
};
pub use statement::PreparedStatement;
pub use statistics::{IndexStatistics, TableStatistics};
