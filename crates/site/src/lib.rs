//! Where order meets data: a [`Site`] runs the entries of its partition's log on its tables, and
//! a [`Coordinator`] takes multi-partition transactions through their rounds.
//!
//! Both are driven from outside, one call or message at a time, and never wait: the server's
//! threads and the simulator drive the same code. Messages between the two may be delayed,
//! reordered across partitions and repeated.
//!
//! **Life of a multi-partition transaction.** [`Coordinator::submit`] queues it; when its turn
//! comes, `Coordinator::begin` asks the procedure for its first batch. `Round` says which
//! fragments go to which partitions; each [`Site::receive`] stops its partition, runs the
//! fragments, and answers. When all answers are in, the coordinator merges them and runs the
//! procedure again with the results of all batches so far, until it ends or fails. Then
//! everybody who took part hears the decision, and goes on.

mod coordinator;
mod message;
mod parameters;
mod partition;
mod round;

pub use coordinator::{Coordinator, CoordinatorOutput, Finished};
pub use message::{
    BoundStatement, FragmentPart, FragmentTask, FromPartition, MultiCall, MultiWork, Numbered,
    SchemaTask, StatementCall, TableSwap, ToPartition,
};
pub use partition::{PartitionEffect, Site, SiteLimits};
