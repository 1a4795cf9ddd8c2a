//! Frames that an operator keeps: the content of chosen slots, copied out of buffers.

use super::Run;
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::relation::{Join, JoinKind, Relation};
use lockstep_types::Datum;

/// Saved frames, all of the same slots.
pub(super) struct SavedFrames<'a> {
    slots: Vec<u16>,
    contents: Vec<Slot<'a>>,
    count: usize,
}

impl<'a> SavedFrames<'a> {
    /// Nothing saved yet of the slots that `relation` binds.
    pub(super) fn of(relation: &Relation) -> SavedFrames<'a> {
        let mut slots = Vec::new();
        bound_slots(relation, &mut slots);
        SavedFrames { slots, contents: Vec::new(), count: 0 }
    }

    /// Number of frames.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Saves the current frame.
    pub(super) fn push(&mut self, run: &Run<'_, 'a>) -> Result<(), SqlError> {
        run.charge(self.slots.len() * size_of::<Slot<'_>>())?;
        for &slot in &self.slots {
            self.contents.push(run.keep_slot(slot));
        }
        self.count += 1;
        Ok(())
    }

    /// Makes a saved frame the current one.
    #[inline]
    pub(super) fn restore(&self, run: &Run<'_, 'a>, number: usize) {
        let width = self.slots.len();
        let contents = &self.contents[number * width..(number + 1) * width];
        for (&slot, &content) in self.slots.iter().zip(contents) {
            run.frame.bind(slot, content);
        }
    }

    /// Keeps only the frames with these numbers, in this order.
    pub(super) fn retain(&mut self, numbers: impl Iterator<Item = usize>) {
        let width = self.slots.len();
        let mut kept = Vec::with_capacity(self.contents.len() / 2);
        let mut count = 0;
        for number in numbers {
            kept.extend_from_slice(&self.contents[number * width..(number + 1) * width]);
            count += 1;
        }
        self.contents = kept;
        self.count = count;
    }
}

impl<'a> Run<'_, 'a> {
    /// The content of a slot in a form that lives as long as the statement.
    #[inline]
    pub(super) fn keep_slot(&self, slot: u16) -> Slot<'a> {
        match self.frame.slot(slot) {
            Slot::Buffer(cells) => Slot::Values(self.keep_cells(cells)),
            content => content,
        }
    }

    /// A copy of a buffered row that lives as long as the statement.
    pub(super) fn keep_cells(&self, cells: &[std::cell::Cell<Datum<'a>>]) -> &'a [Datum<'a>] {
        let kept = self.context.arena.fill(cells.len(), Datum::Null);
        for (value, cell) in kept.iter_mut().zip(cells) {
            *value = cell.get();
        }
        kept
    }
}

/// The slots that are bound when a relation pushes a frame.
pub(super) fn bound_slots(relation: &Relation, slots: &mut Vec<u16>) {
    match relation {
        Relation::OneRow => {}
        Relation::Scan(scan) => slots.push(scan.slot),
        Relation::Receive { slot, .. }
        | Relation::Aggregate { slot, .. }
        | Relation::SetOperation { slot, .. }
        | Relation::Recursive { slot, .. }
        | Relation::Working { slot, .. } => slots.push(*slot),
        Relation::Filter { input, .. }
        | Relation::Sort { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. } => bound_slots(input, slots),
        Relation::Project { input, slot, .. } | Relation::Window { input, slot, .. } => {
            bound_slots(input, slots);
            slots.push(*slot);
        }
        Relation::Join(join) => {
            let Join { kind, left, right, .. } = &**join;
            bound_slots(left, slots);
            if !matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                bound_slots(right, slots);
            }
        }
    }
}
