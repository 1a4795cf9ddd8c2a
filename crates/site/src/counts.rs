//! What a partition counts of the transactions that ran there.

use lockstep_base::elapsed::Elapsed;
/// A transaction's fragments ran at a partition, or it no longer stops that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FragmentRun {
    /// The number under which the call is counted ([`crate::MultiCall::procedure_number`]).
    pub procedure_number: u32,
    /// Fragments ran; false where only a stop ended.
    pub is_run: bool,
    /// They ran after undecided transactions.
    pub speculative: bool,
    /// They had run before, after a transaction that was aborted.
    pub repeated: bool,
    /// From their arrival until they ran.
    pub waited: Elapsed,
    /// How long the transaction had stopped the partition between its rounds; counted when that
    /// ends.
    pub stopped: Elapsed,
}

/// How often a partition did what, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpeculationCounts {
    /// Calls and fragments that ran after undecided transactions.
    pub speculated: u64,
    /// Calls and fragments that ran again.
    pub repeated: u64,
    /// Transactions that were aborted here.
    pub aborted: u64,
}
