//! What a partition gives back to its surroundings.

use crate::counts::FragmentRun;
use crate::message::FromPartition;
use lockstep_storage::SnapshotTable;
use lockstep_txn::EntryHeader;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;

/// What a partition asks its surroundings to do.
pub enum PartitionEffect<H, A, C> {
    /// Deliver a message to the coordinator.
    Send(FromPartition),
    /// A transaction's fragments ran, or it stopped the partition: to be counted.
    Ran(FragmentRun),
    /// A schema change is in force here: this is the catalog from now on.
    CatalogInForce(C),
    /// A snapshot has begun here: [`crate::Site::snapshot_step`] gives it bit by bit.
    SnapshotBegun(Box<SnapshotBegun>),
    /// The answer of a call that ran speculatively may go.
    Answer(H, A),
}

/// A call that waited and runs now.
#[derive(Debug)]
pub enum Ready<H> {
    /// To be run and answered.
    Run(H, EntryHeader),
    /// To be run; the answer is to be kept ([`crate::Site::keep`]).
    Speculate(H, EntryHeader),
}

/// What there is to say of a snapshot that has begun at a partition.
#[derive(Debug)]
pub struct SnapshotBegun {
    /// The transaction at which it stands.
    pub transaction: TransactionId,
    /// Who orders the entries of the partition's log.
    pub source: LogSource,
    /// The number of the last entry whose effect the snapshot has.
    pub sequence: u64,
    /// The digest of changes up to there; 0 where none is kept.
    pub digest: u64,
    /// The last transaction id that the partition had given.
    pub last: TransactionId,
    /// The tables, in the order of their numbers.
    pub tables: Vec<SnapshotTable>,
}
