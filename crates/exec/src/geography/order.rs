//! An order that is changed at any position, and a sort, both of which take any answers of a
//! comparison without a panic.

use std::cmp::Ordering;

/// Entries of a chunk at most.
const CHUNK_ENTRIES: usize = 512;

/// Numbers in an order that their user decides.
#[derive(Debug, Default)]
pub(super) struct Order {
    chunks: Vec<Vec<usize>>,
}

/// A position in an [`Order`]; changes make it invalid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    chunk: usize,
    entry: usize,
}

impl Order {
    /// The first position that is not `Less`.
    pub(super) fn position(&self, order: impl Fn(usize) -> Ordering) -> Position {
        let is_before = |entry: &usize| order(*entry) == Ordering::Less;
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let entry = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before));
        Position { chunk, entry }
    }

    /// What is at the position.
    pub(super) fn at(&self, at: Position) -> Option<usize> {
        self.chunks.get(at.chunk)?.get(at.entry).copied()
    }

    /// What is at the position or follows it when nothing is: after a removal.
    pub(super) fn at_or_after(&self, at: Position) -> Option<usize> {
        self.at(at).or_else(|| self.chunks.get(at.chunk + 1)?.first().copied())
    }

    /// What precedes the position.
    pub(super) fn before(&self, at: Position) -> Option<usize> {
        match at.entry.checked_sub(1) {
            Some(entry) => self.chunks.get(at.chunk)?.get(entry).copied(),
            None => self.chunks.get(at.chunk.checked_sub(1)?)?.last().copied(),
        }
    }

    pub(super) fn insert(&mut self, at: Position, number: usize) {
        let Some(last) = self.chunks.len().checked_sub(1) else {
            self.chunks.push(vec![number]);
            return;
        };
        let chunk = at.chunk.min(last);
        let entries = &mut self.chunks[chunk];
        let entry = if at.chunk > last { entries.len() } else { at.entry.min(entries.len()) };
        entries.insert(entry, number);
        if entries.len() > CHUNK_ENTRIES {
            let rest = entries.split_off(CHUNK_ENTRIES / 2);
            self.chunks.insert(chunk + 1, rest);
        }
    }

    /// Removes what is at the position. The position then is that of what followed.
    pub(super) fn remove(&mut self, at: Position) {
        self.chunks[at.chunk].remove(at.entry);
        if self.chunks[at.chunk].is_empty() {
            self.chunks.remove(at.chunk);
        }
    }
}

/// A stable merge sort.
pub(super) fn sorted<T>(mut items: Vec<T>, order: impl Fn(&T, &T) -> Ordering + Copy) -> Vec<T> {
    if items.len() < 2 {
        return items;
    }
    let right = sorted(items.split_off(items.len() / 2), order);
    let mut merged = Vec::with_capacity(items.len() + right.len());
    let mut left = sorted(items, order).into_iter().peekable();
    for item in right {
        while let Some(next) = left.next_if(|next| order(next, &item) != Ordering::Greater) {
            merged.push(next);
        }
        merged.push(item);
    }
    merged.extend(left);
    merged
}
