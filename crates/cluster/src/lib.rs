//! The control plane: who is a member, who leads and follows which partition in which epoch, who
//! is suspected, and who holds a lease. The only crate that names the Raft library.
//!
//! Nothing here has a clock, a socket or a thread. Time comes in as microseconds of a monotonic
//! clock that counts suspended time; messages come in and go out as bytes; what must be durable
//! goes out as a value before the messages that depend on it.

mod apply;
mod codec;
mod command;
mod control;
mod detector;
mod error;
mod faults;
mod forms;
mod heartbeat;
mod hosts;
mod ids;
mod kfactor;
mod leaders;
mod leases;
mod log;
mod log_entry;
mod member;
mod message;
mod moves;
mod now;
mod options;
mod placement;
mod raft_core;
mod reload;
mod state;
mod supervisor;

pub use apply::Verdict;
pub use command::Command;
pub use control::{Control, ControlEffects, ControlEvent};
pub use detector::{Detector, Heard, Standing};
pub use error::{ClusterError, FormatError, Refusal};
pub use faults::Faults;
pub use forms::forms;
pub use heartbeat::{Echo, Heartbeat};
pub use ids::{ClusterId, Epoch, HOST_LIMIT, Incarnation, RaftId};
pub use kfactor::KChange;
pub use leases::Leases;
pub use log::RaftLog;
pub use log_entry::{EntryBody, GroupChange, HardState, LogEntry, Persist, Snapshot};
pub use member::{
    DurableChange, Effects, Event, Identity, Member, MemberConfig, Outgoing, ProposalId,
    ProposalOutcome, Restored,
};
pub use message::Agreement;
pub use moves::CopyMove;
pub use now::Now;
pub use options::Options;
pub use placement::{first_placement, partition_count};
pub use state::{
    ClusterState, Copy, HostDescription, HostPlan, HostRecord, HostState, K_MAX, PartitionState,
    Previous, Shape, Vote,
};
