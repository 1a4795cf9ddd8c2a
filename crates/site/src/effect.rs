//! What a partition gives back to its surroundings.

use crate::counts::FragmentRun;
use crate::message::FromPartition;
use lockstep_txn::EntryHeader;

/// What a partition asks its surroundings to do.
pub enum PartitionEffect<H, A, C> {
    /// Deliver a message to the coordinator.
    Send(FromPartition),
    /// A transaction's fragments ran, or it stopped the partition: to be counted.
    Ran(FragmentRun),
    /// A schema change is in force here: this is the catalog from now on.
    CatalogInForce(C),
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
