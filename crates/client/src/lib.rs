//! The Rust client, for tools, tests and benchmarks.
//!
//! - [`Connection`]: one blocking connection; calls one at a time or several in flight.
//! - [`Pipeline`]: many connections with many calls in flight on one thread, without allocation
//!   per call; what load generators use.
//! - [`Cluster`]: a connection to every host, calls routed to the host that leads the partition.
//!
//! Results are read in place with [`Response`]; [`rows`] makes owned values of them.

mod buffer;
pub mod cluster;
pub mod connection;
pub mod error;
pub mod pipeline;
pub mod routing;
pub mod rows;

pub use cluster::Cluster;
pub use connection::{Closer, ConnectOptions, Connection, Identity, OwnedResponse};
pub use error::ClientError;
pub use lockstep_types::parameter::ParameterWriter;
pub use lockstep_wire_volt::Response;
pub use lockstep_wire_volt::invocation::{CallOptions, RepeatedCall};
pub use pipeline::{Call, Completion, ConnectionIndex, Outgoing, Pipeline};
pub use routing::Routing;
