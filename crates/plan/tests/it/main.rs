//! Planning through its public surface.

mod query;
mod schema;
