//! An index over columns while it is built beside changes of rows, see `table/cover.rs`.

use super::{Index, KeyEvaluator, KeyWriter};
use crate::error::StorageError;
use crate::row::RowRef;

/// The key of an index over columns that is being built.
struct ColumnKeys {
    columns: Box<[usize]>,
}

impl KeyEvaluator for ColumnKeys {
    fn evaluate(
        &mut self,
        row: RowRef<'_>,
        key: &mut KeyWriter<'_, '_, '_>,
    ) -> Result<bool, StorageError> {
        self.columns.iter().try_for_each(|column| key.push(row.column(*column)))?;
        Ok(true)
    }
}

impl Index {
    /// The rows below a number are in the index, at first none. Its key goes by an evaluator
    /// meanwhile, where the number is looked at: other indexes know nothing of it.
    pub(crate) fn begin_covering(&mut self) {
        assert_eq!(self.entries(), 0, "an index that is built beside changes begins empty");
        let columns = self.columns.clone().expect("an index over columns is built beside changes");
        self.evaluator = Some(Box::new(ColumnKeys { columns }));
        self.covered = 0;
    }

    /// The index holds all rows.
    pub(crate) fn end_covering(&mut self) {
        if self.is_covering() {
            self.evaluator = None;
            self.covered = u32::MAX;
        }
    }

    /// Whether it is an index over columns that does not hold all rows yet.
    pub(crate) fn is_covering(&self) -> bool {
        self.columns.is_some() && self.evaluator.is_some()
    }

    /// Changes of rows below a number change the index.
    pub(crate) fn cover_to(&mut self, covered: u32) {
        assert!(self.is_covering(), "only an index that is being built covers some rows");
        self.covered = covered;
    }
}
