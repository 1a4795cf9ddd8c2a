//! Where order meets data: a [`Site`] runs the entries of its partition's log on its tables, and
//! a [`Coordinator`] takes multi-partition transactions through their rounds.
//!
//! Both are driven from outside, one call or message at a time, and never wait: the server's
//! threads and the simulator drive the same code. Messages between the two may be delayed,
//! reordered across partitions and repeated.
//!
//! **Life of a multi-partition transaction.** [`Coordinator::submit`] queues it; `begin` gives it
//! its place in the order of all and asks the procedure for its first batch. `Round` says which
//! fragments go to which partitions; each [`Site::receive`] takes them, [`Site::next`] runs them
//! when it is their turn, and answers. When all answers of a round are in, the coordinator merges
//! them and goes on with the next, until the last. When no earlier transaction is undecided at
//! the same partitions, everybody who took part hears the decision. Meanwhile the partitions have
//! gone on speculatively after the last round: [`Site::keep`] holds the answers back.

mod active;
pub mod codec;
mod coordinator;
mod counts;
mod effect;
mod expiry;
pub mod fence;
mod limits;
mod message;
mod one_round;
mod parameters;
mod partition;
pub mod profile;
mod quiet;
mod round;
mod tables;
mod threaded;
mod via;

pub use coordinator::{Coordinator, CoordinatorOutput, Finished, OneRoundFinished, WaitingCall};
pub use counts::{FragmentRun, SpeculationCounts};
pub use effect::{PartitionEffect, Ready, SnapshotBegun};
pub use expiry::{Expiring, ExpiryBatch, ExpiryCounts, ExpiryPoll, ExpirySchedule, ExpiryUnitId};
pub use limits::{Faults, SiteLimits, StopEverything};
pub use message::{
    AnswerForm, BoundStatement, FragmentPart, FragmentTask, FromPartition, Home, MultiCall,
    MultiWork, Numbered, OneRoundAnswer, RoundAnswer, RoundTasks, SchemaTask, SnapshotStart,
    StatementCall, StatementProfile, TableSwap, TaskEntries, ToPartition, Writers,
};
pub use one_round::{OneRoundCall, OneRoundCalls, OneRoundRequest, write_tables_in_order};
pub use partition::{DecidedLater, Site, SteppedDown};
pub use quiet::change_quiet_sites;
pub use threaded::{FromThread, ToThread};
pub use via::{IndexHop, ViaNext, ViaStep};
