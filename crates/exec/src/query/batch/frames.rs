//! Frames, some hundreds at a time: for each slot, rows of a table or columns of computed values.

use super::vector::{Kind, Vector};
use crate::frame::Slot;
use crate::query::Run;
use lockstep_storage::RowBatch;
use lockstep_types::Datum;
use std::cell::Cell;

/// A slot that no expression reads: its values ride along with the frames.
pub(super) const RIDER: u16 = u16::MAX;

/// Frames of the same slots.
#[derive(Clone, Default)]
pub(super) struct Frames<'a> {
    length: usize,
    slots: Vec<(u16, Content<'a>)>,
}

/// What a slot holds in all frames.
#[derive(Clone)]
pub(super) enum Content<'a> {
    Rows(RowBatch<'a>),
    Values(Vec<Vector<'a>>, &'a [Cell<Datum<'a>>]),
}

impl<'a> Frames<'a> {
    /// Without frames, of one slot.
    pub(super) fn of(slot: u16, content: Content<'a>) -> Frames<'a> {
        Frames { length: 0, slots: vec![(slot, content)] }
    }

    /// Without frames, of the same slots as others.
    pub(super) fn like(other: &Frames<'a>) -> Frames<'a> {
        // Others may hold a million frames: their contents are not copied to be thrown away.
        let empty = |(slot, content): &(u16, Content<'a>)| {
            let content = match content {
                Content::Rows(rows) => Content::Rows(rows.like()),
                Content::Values(columns, cells) => {
                    let columns = columns.iter().map(|column| Vector::new(column.kind()));
                    Content::Values(columns.collect(), cells)
                }
            };
            (*slot, content)
        };
        Frames { length: 0, slots: other.slots.iter().map(empty).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn slots(&self) -> &[(u16, Content<'a>)] {
        &self.slots
    }

    pub(super) fn slots_mut(&mut self) -> &mut [(u16, Content<'a>)] {
        &mut self.slots
    }

    /// The place of a slot in [`Frames::slots`].
    pub(super) fn place_of(&self, slot: u16) -> Option<usize> {
        self.slots.iter().position(|(of, _)| *of == slot)
    }

    /// The rows of a table in the first slot, to be filled; `set_length` follows.
    pub(super) fn first_rows(&mut self) -> Option<&mut RowBatch<'a>> {
        match self.slots.first_mut() {
            Some((_, Content::Rows(rows))) => Some(rows),
            _ => None,
        }
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.length = length;
    }

    /// Adds a slot, as long as the others.
    pub(super) fn push_slot(&mut self, slot: u16, content: Content<'a>) {
        self.slots.push((slot, content));
    }

    /// Takes the last slot away.
    pub(super) fn pop_slot(&mut self) -> Option<Content<'a>> {
        self.slots.pop().map(|(_, content)| content)
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0);
        for (_, content) in &mut self.slots {
            if let Content::Rows(rows) = content {
                rows.clear();
            }
        }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
        for (_, content) in &mut self.slots {
            match content {
                Content::Rows(rows) => rows.truncate(length),
                Content::Values(columns, _) => {
                    columns.iter_mut().for_each(|column| column.truncate(length));
                }
            }
        }
    }

    /// Keeps the frames of a selection, which rises.
    pub(super) fn keep(&mut self, selection: &[u32]) {
        if selection.len() == self.length {
            return;
        }
        self.length = selection.len();
        for (_, content) in &mut self.slots {
            match content {
                Content::Rows(rows) => rows.keep(selection),
                Content::Values(columns, _) => {
                    columns.iter_mut().for_each(|column| column.keep(selection));
                }
            }
        }
    }

    /// Appends chosen frames of others, whose slots are some of these in the same order, from
    /// the slot at place `first` on. Frames that the others do not have are NULL there. The
    /// length is set by the caller.
    pub(super) fn gather(&mut self, first: usize, from: &Frames<'a>, selection: &[u32]) {
        for ((_, to), (_, from)) in self.slots[first..].iter_mut().zip(&from.slots) {
            match (to, from) {
                (Content::Rows(to), Content::Rows(from)) => to.gather(from, selection),
                (Content::Values(to, _), Content::Values(from, _)) => {
                    for (to, from) in to.iter_mut().zip(from) {
                        to.gather(from, selection);
                    }
                }
                _ => {}
            }
        }
    }

    /// Appends chosen frames of others of the same slots.
    pub(super) fn append_chosen(&mut self, from: &Frames<'a>, selection: &[u32]) {
        self.gather(0, from, selection);
        self.length += selection.len();
    }

    /// Appends all frames of others of the same slots.
    pub(super) fn append(&mut self, from: &Frames<'a>) {
        for ((_, to), (_, from)) in self.slots.iter_mut().zip(&from.slots) {
            match (to, from) {
                (Content::Rows(to), Content::Rows(from)) => to.append(from),
                (Content::Values(to, _), Content::Values(from, _)) => {
                    to.iter_mut().zip(from).for_each(|(to, from)| to.append(from));
                }
                _ => {}
            }
        }
        self.length += from.length;
    }

    /// Bytes that one frame takes.
    pub(super) fn frame_bytes(&self) -> usize {
        let bytes = |(_, content): &(u16, Content<'a>)| match content {
            Content::Rows(_) => RowBatch::bytes_per_row(),
            Content::Values(columns, _) => columns.iter().map(Vector::value_bytes).sum(),
        };
        self.slots.iter().map(bytes).sum()
    }

    /// The kind of a column; `None` when that is not known.
    pub(super) fn kind(&self, place: usize, column: u16) -> Option<Kind> {
        match &self.slots[place].1 {
            Content::Rows(rows) => Kind::of(rows.column_type(column.into())?),
            Content::Values(columns, _) => Some(columns.get(usize::from(column))?.kind()),
        }
    }

    /// Makes a frame the current one of the run.
    #[inline]
    pub(super) fn bind(&self, run: &Run<'_, 'a>, number: usize) {
        for (slot, content) in &self.slots {
            if *slot == RIDER {
                continue;
            }
            let content = match content {
                Content::Rows(rows) => match rows.row(number) {
                    Some((id, row)) => Slot::Row(row, id),
                    None => Slot::Unbound,
                },
                Content::Values(columns, cells) => {
                    for (cell, column) in cells.iter().zip(columns) {
                        cell.set(column.datum(number));
                    }
                    Slot::Buffer(cells)
                }
            };
            run.frame.bind(*slot, content);
        }
    }
}
