//! A host: the threads of its sites, their mailboxes, sockets, options and system procedures.
//!
//! Everything else of the server is a library of pure functions and state; this crate gives it
//! threads, time and bytes. [`Server::start`] assembles a host; `shard` is the thread of a site
//! with its connections, `control` the one thread that parses, plans and answers system
//! procedures.

mod allocator;
mod assembly;
pub mod buffers;
mod callers;
pub mod catalog;
mod classes;
pub mod clock;
pub mod codec;
mod connection;
mod control;
mod crossing;
pub mod embedded;
mod execution;
pub mod host_message;
pub mod inner_load;
pub mod intake;
mod json;
mod line_limit;
pub mod links;
pub mod local_cluster;
pub mod log;
pub mod mailbox;
pub mod message;
pub mod options;
mod own_call;
pub mod recovery;
mod scheduling;
mod server;
mod shard;
pub mod snapshot;
pub mod statistics;
mod threads;
mod ticker;
mod transaction_counters;

pub use allocator::prepare_allocator;
pub use catalog::NativeRegistry;
pub use inner_load::SiteLoad;
pub use lockstep_host::placement::MAX_SITES;
pub use lockstep_plan::system_procedures;
pub use lockstep_plan::{Planning, RULES, Rule, RuleSet};
pub use server::{
    ReplicaDigest, Server, ServerConfiguration, TestSettings, Witness, WitnessConfiguration,
};
