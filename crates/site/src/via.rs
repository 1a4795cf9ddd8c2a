//! Calls that are routed by a unique global index: one hop at a partition.
//!
//! A call goes to the partition of the index entry ([`IndexHop::Index`]), which looks the key up
//! and forwards the call to the partition of the row ([`IndexHop::Row`]), where the row is looked
//! up again. So a call touches two partitions, unless the row moves in between. No response is sent
//! on the way; `docs/decisions/2026-11-21-global-index-reads.md` explains why that is correct.

use crate::partition::Site;
use lockstep_exec::SqlError;
use lockstep_exec::lookup::KeyRoute;
use lockstep_txn::EntryHeader;
use lockstep_types::{Datum, PartitionId};

/// What a partition looks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHop {
    /// The index entry, which has the partition of the row.
    Index,
    /// The row.
    Row,
}

/// The result of a lookup at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaStep {
    /// It runs here: the row is here, or there is none.
    Run,
    /// It is forwarded to the partition of the row.
    Forward(PartitionId),
    /// The row is not here any more: the index is looked up again.
    LookUpAgain,
}

/// Where a call goes after a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaNext {
    /// Nowhere: it runs.
    Run,
    /// To the partition of the row.
    Row(PartitionId),
    /// To the partition of the index.
    Index,
    /// To the coordinator, which looks the index up in a transaction: the limit is reached.
    GiveUp,
}

impl ViaStep {
    /// Where a call goes that was forwarded `lookups` times, of `limit` at most.
    #[inline]
    pub fn next(self, lookups: &mut u16, limit: u64) -> ViaNext {
        match self {
            ViaStep::Run => ViaNext::Run,
            ViaStep::Forward(partition) => {
                *lookups = lookups.saturating_add(1);
                ViaNext::Row(partition)
            }
            ViaStep::LookUpAgain if u64::from(*lookups) >= limit => ViaNext::GiveUp,
            ViaStep::LookUpAgain => ViaNext::Index,
        }
    }
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// One hop of a call, when the call is admitted and again when it runs again after an abort.
    /// After [`ViaStep::Run`], the call is the next that runs.
    ///
    /// # Errors
    /// The index was dropped, or the key is of other types.
    #[inline]
    pub fn via_step(
        &mut self,
        header: &EntryHeader,
        hop: IndexHop,
        route: &KeyRoute,
        keys: &[Datum<'_>],
    ) -> Result<ViaStep, SqlError> {
        let database = self.database();
        let here = database.options().partition;
        let mut row = None;
        let step = match hop {
            IndexHop::Index => match database.place_of_key(route, keys)? {
                Some(place) if place != here => ViaStep::Forward(place),
                // What the transaction order has here is the row or its absence.
                _ => ViaStep::Run,
            },
            IndexHop::Row => {
                row = database.row_of_key(route, keys)?;
                match row.is_some() || self.faults.skip_recheck() {
                    true => ViaStep::Run,
                    false => ViaStep::LookUpAgain,
                }
            }
        };
        if step == ViaStep::Run {
            self.database.note_index_route(header.transaction, route, keys, row);
        }
        Ok(step)
    }
}
