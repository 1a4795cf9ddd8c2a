//! Who decides the order of transactions, and nothing else: no data, no SQL, no clock, no socket.
//!
//! * [`SinglePartitionInitiator`]: one per partition. Numbers the entries of the partition log
//!   and holds calls back while a multi-partition transaction is at work there.
//! * [`MultiPartitionInitiator`]: one per cluster. Lets multi-partition transactions run one at a
//!   time, counts the answers of each round, and says who must hear the decision.
//! * [`OrderedStream`]: puts the messages from the one to the other back in order, so that
//!   nothing leans on the transport.
//!
//! **Why this is serializable.** A partition stops for a multi-partition transaction from its
//! first fragment there until the decision, and between the two nothing else runs at that
//! partition: two-phase locking with one lock a partition. Only one multi-partition transaction
//! is under way at a time, so there is no deadlock. Single-partition calls never wait for
//! anything but the transaction that stopped their partition.
//!
//! Everything here is a step function: the caller hands in what happened, with the time where
//! it matters, and carries out what comes back. The simulator and the server drive the same code.

mod clock;
pub mod log_entry;
mod mp;
mod sp;
mod stream;

pub use clock::TransactionClock;
pub use log_entry::{EntryHeader, EntryKind, LogBuffer};
pub use mp::{Addressed, MultiPartitionInitiator, RoundProgress};
pub use sp::{Admission, SinglePartitionInitiator};
pub use stream::{OrderedStream, StreamError};
