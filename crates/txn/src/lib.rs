//! Who decides the order of transactions, and nothing else: no data, no SQL, no clock, no socket.
//!
//! * [`SinglePartitionInitiator`]: one per partition. Numbers the entries of the partition log,
//!   and keeps the order between the partition's own calls and the fragments of multi-partition
//!   transactions, speculating after those that are not decided.
//! * [`MultiPartitionInitiator`]: one per cluster. Gives each multi-partition transaction its
//!   place at all its partitions at once, counts the answers of its rounds, and says which may be
//!   decided.
//! * [`OrderedStream`]: puts the messages from the one to the other back in order, so that
//!   nothing leans on the transport.
//! * [`replica`]: how a partition's log comes to its copies, and how their leader changes.
//!
//! **Why this is strictly serializable.** All partitions run the fragments of multi-partition
//! transactions in the order of one sequencer, one after the other, with their own calls in
//! between: that order is the serial one. A partition goes on after the last fragment of a
//! transaction before its outcome is known, but nothing leaves the partition until the outcome
//! is: not the answer of a write, and not that of a read, because a later call elsewhere could
//! otherwise be seen without it. If the outcome is an abort, the partition undoes everything
//! after that fragment and runs it again, in the same order. A transaction is decided only after
//! every earlier one that shares a partition with it. There is no deadlock: the first undecided
//! transaction of the order waits for nobody.
//!
//! Everything here is a step function: the caller hands in what happened, with the time where
//! it matters, and carries out what comes back. The simulator and the server drive the same code.

mod clock;
pub mod log_entry;
pub mod mp;
pub mod replica;
pub mod sp;
mod stream;

pub use clock::TransactionClock;
pub use log_entry::{EntryHeader, EntryKind, EntryReader, HandedLog, LogBuffer};
pub use mp::{Addressed, MultiPartitionInitiator, RoundProgress};
pub use sp::{Admission, SinglePartitionInitiator};
pub use stream::{OrderedStream, StreamError};
