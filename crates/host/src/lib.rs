//! What a host decides, as functions of what it is given: no clock, socket, file or thread in
//! here. The server's threads call it, and so does the simulator.
//!
//! So far: the catalog in force, where calls go, what becomes of them at their partition and at the
//! coordinator, when what a partition reports is released, how the schema changes, which rows
//! expire, which calls tasks make when, which snapshots begin when, how a log is replayed,
//! how a leader sends its log, how a follower applies that, how copies begin a new epoch, and how a
//! leader is moved.

pub mod catalog;
pub mod cluster_placement;
pub mod codec;
pub mod coordinator;
pub mod copies;
pub mod destination;
pub mod expiry;
pub mod failures;
pub mod follower;
pub mod gate;
pub mod hand_over;
pub mod index_hops;
pub mod leading;
pub mod learning;
pub mod load;
pub mod loading;
pub mod names;
pub mod other_host;
pub mod partition;
pub mod placement;
pub mod recovery;
pub mod routing;
pub mod routing_values;
pub mod schema;
pub mod serving;
pub mod several;
pub mod snapshots;
pub mod statement_cache;
pub mod statements;
pub mod tasks;
pub mod unavailable;

/// The clock of a host, as it was read at the beginning of a round.
pub trait HostTime {
    /// The time, microseconds since 1970.
    fn now_us(&self) -> i64;
}
