//! The control plane: who is a member, who leads and follows which partition in which epoch, who
//! is suspected, and who holds a lease. The only crate that names the Raft library.
//!
//! Nothing here has a clock, a socket or a thread. Time comes in as microseconds of a monotonic
//! clock that counts suspended time; messages come in and go out as bytes; what must be durable
//! goes out as a value before the messages that depend on it.

mod apply;
mod codec;
mod command;
mod error;
mod faults;
mod ids;
mod placement;
mod state;

pub use apply::Verdict;
pub use command::Command;
pub use error::{ClusterError, FormatError, Refusal};
pub use faults::Faults;
pub use ids::{ClusterId, Epoch, HOST_LIMIT, Incarnation, RaftId};
pub use placement::{first_placement, partition_count};
pub use state::{
    ClusterState, Copy, HostDescription, HostRecord, HostState, PartitionState, Previous, Shape,
    Vote,
};
