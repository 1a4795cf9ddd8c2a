//! A running digest of what a partition's log entries did: for each statement that changed rows,
//! which statement it was, its parameters, and how many changes it made.
//!
//! Two replicas that execute the same entries have the same digest at the same log position; a
//! procedure that reads a clock or a static variable and stores what it has read makes them
//! differ. Undo restores it with the data, so that it counts only what stays.

use lockstep_base::map::FixedHasher;
use lockstep_storage::UndoMark;
use lockstep_types::Datum;
use std::hash::Hasher;

/// Separates texts from bytes, and both from numbers.
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NULL: u8 = 3;

/// The digest of one partition.
#[derive(Debug)]
pub(crate) struct ChangeDigest {
    hasher: FixedHasher,
    /// For each folded statement that can still be undone: the undo log's position before it, and
    /// the digest there.
    before: Vec<(UndoMark, FixedHasher)>,
}

/// Statements that can be undone at a time, beyond which the list of them grows.
const USUAL_DEPTH: usize = 1024;

impl Default for ChangeDigest {
    fn default() -> ChangeDigest {
        let before = Vec::with_capacity(USUAL_DEPTH);
        ChangeDigest { hasher: FixedHasher::default(), before }
    }
}

impl ChangeDigest {
    /// The present value.
    pub(crate) fn value(&self) -> u64 {
        self.hasher.finish()
    }

    /// A statement has made `changes` changes since `mark`.
    #[inline]
    pub(crate) fn fold(
        &mut self,
        mark: UndoMark,
        statement: u64,
        parameters: &[Datum<'_>],
        changes: u64,
    ) {
        debug_assert!(changes > 0, "what changes nothing is not folded");
        debug_assert!(
            self.before.last().is_none_or(|(before, _)| *before <= mark),
            "statements are folded in their order"
        );
        self.before.push((mark, self.hasher));
        let mut hasher = self.hasher;
        // One step for both: the counts of a statement are small numbers.
        hasher.write_u64(statement ^ changes);
        for value in parameters {
            // What most parameters are, before all else.
            match value {
                Datum::Int(number) => hasher.write_u64(*number as u64),
                other => fold_value(&mut hasher, *other),
            }
        }
        self.hasher = hasher;
    }

    /// A load, or changes of entries of global indexes, were carried out since `mark`: what they
    /// are to the digest, and their bytes.
    pub(crate) fn fold_bytes(&mut self, mark: UndoMark, what: u64, bytes: &[&[u8]]) {
        debug_assert!(
            self.before.last().is_none_or(|(before, _)| *before <= mark),
            "what is folded comes in its order"
        );
        self.before.push((mark, self.hasher));
        self.hasher.write_u64(what);
        for part in bytes {
            self.hasher.write_usize(part.len());
            self.hasher.write(part);
        }
    }

    /// Goes on from a value that was kept with the data.
    pub(crate) fn resume(&mut self, value: u64) {
        assert!(self.before.is_empty(), "nothing that may be undone comes before a kept digest");
        self.hasher = FixedHasher::resumed(value);
        debug_assert_eq!(self.value(), value, "it goes on from there");
    }

    /// What was done since `mark` is logged as images of rows, and is digested as those.
    pub(crate) fn fold_images(&mut self, mark: UndoMark, images: &[u8]) {
        self.rollback_to(mark);
        self.before.push((mark, self.hasher));
        self.hasher.write(images);
    }

    /// Everything so far is final.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.before.clear();
    }

    /// Everything before a mark is final.
    pub(crate) fn commit_to(&mut self, mark: UndoMark) {
        let open = self.before.partition_point(|(before, _)| *before < mark);
        self.before.drain(..open);
    }

    /// Everything since a mark is undone.
    #[inline]
    pub(crate) fn rollback_to(&mut self, mark: UndoMark) {
        while let Some((before, hasher)) = self.before.last()
            && *before >= mark
        {
            self.hasher = *hasher;
            self.before.pop();
        }
    }
}

#[inline]
fn fold_value(hasher: &mut FixedHasher, value: Datum<'_>) {
    match value {
        Datum::Int(number) | Datum::Timestamp(number) => hasher.write_u64(number as u64),
        Datum::Text(text) => {
            hasher.write_u8(TEXT);
            hasher.write(text.as_bytes());
        }
        Datum::Float(number) => hasher.write_u64(number.to_bits()),
        Datum::Null => hasher.write_u8(NULL),
        Datum::Bool(truth) => hasher.write_u8(truth.into()),
        Datum::Decimal(decimal) => fold_wide(hasher, decimal.units()),
        Datum::Bytes(bytes) => {
            hasher.write_u8(BYTES);
            hasher.write(bytes);
        }
        Datum::Point(point) => {
            hasher.write_u64(point.longitude().to_bits());
            hasher.write_u64(point.latitude().to_bits());
        }
    }
}

fn fold_wide(hasher: &mut FixedHasher, number: i128) {
    hasher.write_u64(number as u64);
    hasher.write_u64((number >> 64) as u64);
}

/// A number for a statement: equal wherever its text is.
pub(crate) fn statement_identity(text: &str) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
