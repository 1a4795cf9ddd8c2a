//! Calls that a unique global index leads to their row: one step at a partition.
//!
//! A call goes to the partition of the index's entries ([`ViaLeg::Index`]), which looks the key up
//! and hands the call on to the partition of the row ([`ViaLeg::Row`]), where the row is looked
//! for again. So a call touches two partitions, unless the row moves in between. Nothing is
//! answered on the way: why that is right stands in
//! `docs/decisions/2026-11-21-global-index-reads.md`.

use crate::partition::Site;
use lockstep_exec::SqlError;
use lockstep_exec::lookup::KeyRoute;
use lockstep_txn::EntryHeader;
use lockstep_types::{Datum, PartitionId};

/// What a partition is to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaLeg {
    /// The index's entry, which says where the row is.
    Index,
    /// The row.
    Row,
}

/// What becomes of a call at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaStep {
    /// It runs here: the row is here, or there is none.
    Run,
    /// It goes on to the partition of the row.
    HandOn(PartitionId),
    /// The row is not here any more: the index is to be asked again.
    AskAgain,
}

/// Where a call goes behind a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaNext {
    /// Nowhere: it runs.
    Run,
    /// To a partition that looks for the row.
    Row(PartitionId),
    /// To the partition of the index.
    Index,
    /// To the coordinator, which asks the index in a transaction: it was asked as often as may be.
    GiveUp,
}

impl ViaStep {
    /// Where a call goes now that was handed on `lookups` times, of `limit` at most.
    #[inline]
    pub fn next(self, lookups: &mut u16, limit: u64) -> ViaNext {
        match self {
            ViaStep::Run => ViaNext::Run,
            ViaStep::HandOn(partition) => {
                *lookups = lookups.saturating_add(1);
                ViaNext::Row(partition)
            }
            ViaStep::AskAgain if u64::from(*lookups) >= limit => ViaNext::GiveUp,
            ViaStep::AskAgain => ViaNext::Index,
        }
    }
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// One step of a call. To be asked when the call is admitted, and again when it runs again
    /// behind an abort. Where it says [`ViaStep::Run`], the call is to run next.
    ///
    /// # Errors
    /// The index is gone, or the key is of other types.
    #[inline]
    pub fn via_step(
        &mut self,
        header: &EntryHeader,
        leg: ViaLeg,
        route: &KeyRoute,
        keys: &[Datum<'_>],
    ) -> Result<ViaStep, SqlError> {
        let database = self.database();
        let here = database.options().partition;
        let mut row = None;
        let step = match leg {
            ViaLeg::Index => match database.place_of_key(route, keys)? {
                Some(place) if place != here => ViaStep::HandOn(place),
                // What the transaction order has here is the row or its absence.
                _ => ViaStep::Run,
            },
            ViaLeg::Row => {
                row = database.row_of_key(route, keys)?;
                match row.is_some() || self.faults.skip_recheck() {
                    true => ViaStep::Run,
                    false => ViaStep::AskAgain,
                }
            }
        };
        if step == ViaStep::Run {
            self.database.led_by(header.transaction, route, keys, row);
        }
        Ok(step)
    }
}
