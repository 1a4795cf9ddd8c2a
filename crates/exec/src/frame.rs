//! The rows that an expression reads: numbered slots, each with the current row of a table, a
//! computed row, or nothing.

use lockstep_base::arena::Arena;
use lockstep_storage::{RowId, RowRef};
use lockstep_types::Datum;
use std::cell::Cell;

/// What a slot of a frame holds.
#[derive(Clone, Copy)]
pub enum Slot<'a> {
    /// Nothing: all columns are NULL (the missing side of an outer join).
    Unbound,
    /// A row of a table, read in place, with its number there.
    Row(RowRef<'a>, RowId),
    /// A computed row.
    Values(&'a [Datum<'a>]),
    /// A computed row in a buffer that the next row overwrites: what keeps it must copy it.
    Buffer(&'a [Cell<Datum<'a>>]),
}

/// The slots of a statement. A frame is a reference: copies share their slots, and relations
/// rebind slots while expressions read them in turn.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    slots: &'a [Cell<Slot<'a>>],
}

impl<'a> Frame<'a> {
    /// A frame of `slot_count` unbound slots, in the arena.
    pub fn new(arena: &'a Arena, slot_count: usize) -> Frame<'a> {
        let slots = arena.fill(slot_count, Slot::Unbound);
        Frame { slots: Cell::from_mut(slots).as_slice_of_cells() }
    }

    /// Number of slots.
    pub fn slot_count(self) -> usize {
        self.slots.len()
    }

    /// Binds a slot. Slots are numbered by the planner, below [`Frame::slot_count`].
    #[inline]
    pub fn bind(self, slot: u16, row: Slot<'a>) {
        self.slots[usize::from(slot)].set(row);
    }

    /// What a slot holds.
    #[inline]
    pub fn slot(self, slot: u16) -> Slot<'a> {
        self.slots[usize::from(slot)].get()
    }

    /// A column of the row in a slot; NULL when the slot is unbound.
    #[inline]
    pub fn column(self, slot: u16, column: u16) -> Datum<'a> {
        match self.slot(slot) {
            Slot::Row(row, _) => row.column(usize::from(column)),
            Slot::Values(values) => values[usize::from(column)],
            Slot::Buffer(cells) => cells[usize::from(column)].get(),
            Slot::Unbound => Datum::Null,
        }
    }
}
