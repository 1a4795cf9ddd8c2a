//! Changes of the schema: what they make, what the log has of them, in which order they are made,
//! and what waits for them.

pub mod change;
pub mod changes;
pub mod codec;
pub mod index_build;
pub mod prepared;
mod swap;

pub use changes::{
    Handled, Requester, SchemaChanges, SchemaHost, Turn, decided, follow, prepared, request,
    request_ddl,
};
