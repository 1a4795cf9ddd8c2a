//! Planning through its public surface.

mod interpreter;
mod join_order;
mod query;
mod schema;
mod system_procedures;
