//! What an index is made from.

use super::key_fault;
use crate::error::StorageError;
use crate::key::KeyEncoder;
use crate::row::RowRef;
use lockstep_types::{Datum, SqlType};

/// Computes the key of a row for an index on expressions or a partial index.
///
/// Deterministic: the same row gives the same key, always. Called when a row is inserted,
/// deleted, updated in a column that the index reads, and when these are undone.
pub trait KeyEvaluator: Send {
    /// Pushes the parts of the row's key, in order; `false` if the row is not in the index.
    ///
    /// # Errors
    /// `KeyExpression` when an expression fails, which fails the statement; what `push` gave.
    fn evaluate(
        &mut self,
        row: RowRef<'_>,
        key: &mut KeyWriter<'_, '_, '_>,
    ) -> Result<bool, StorageError>;
}

/// Takes the parts of a computed key.
pub struct KeyWriter<'w, 'e, 'b> {
    pub(super) encoder: &'w mut KeyEncoder<'e, 'b>,
    pub(super) index: &'w str,
}

impl KeyWriter<'_, '_, '_> {
    /// Adds the next part of the key.
    ///
    /// # Errors
    /// `TypeMismatch` for a value of another kind than the part's type, `KeyParts` for one part
    /// too many.
    pub fn push(&mut self, value: Datum<'_>) -> Result<(), StorageError> {
        let shape = self.encoder.shape();
        self.encoder.push(value).map_err(|fault| key_fault(fault, self.index, shape))
    }
}

/// Where an index's keys come from.
pub enum KeySource {
    /// Columns of the table, maintained by the table itself.
    Columns(Vec<usize>),
    /// Expressions, or a condition on the rows: the evaluator says.
    Computed {
        /// Types of the key parts.
        types: Vec<SqlType>,
        /// Columns that the evaluator reads: updates of others do not touch the index.
        reads: Vec<usize>,
        /// Computes a row's key.
        evaluator: Box<dyn KeyEvaluator>,
    },
}

/// What to create as an index.
pub struct IndexDefinition {
    /// Name, for errors.
    pub name: Box<str>,
    /// True if no two rows may have the same key. NULL equals NULL here.
    pub unique: bool,
    /// What the keys are made of.
    pub source: KeySource,
}
