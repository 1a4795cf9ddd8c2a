//! Indexes: what a key is made of, and the tree that fits its form.

mod covering;
mod definition;
pub(crate) mod fill;
mod recent;

pub use definition::{IndexDefinition, KeyEvaluator, KeySource, KeyWriter};

use crate::btree::{BytesKey, Tree};
use crate::error::StorageError;
use crate::key::{Exactness, KeyEncoder, KeyFault, KeyForm, KeyPart, KeyShape};
use crate::key_buffer::{KeyBuffer, KeyPool};
use crate::layout::{Field, TableLayout};
use crate::row::{RowId, RowRef};
use lockstep_types::{Datum, SqlType};
use recent::RecentRows;
use std::ops::Bound;

/// A tree of the form that the key needs.
pub(crate) enum AnyTree {
    Word(Tree<u64, false>),
    UniqueWord(Tree<u64, true>),
    Double(Tree<u128, false>),
    UniqueDouble(Tree<u128, true>),
    Bytes(Tree<BytesKey, false>),
    UniqueBytes(Tree<BytesKey, true>),
}

/// Runs one expression on whichever tree it is.
macro_rules! each_tree {
    ($any:expr, $tree:ident => $body:expr) => {
        match $any {
            AnyTree::Word($tree) => $body,
            AnyTree::UniqueWord($tree) => $body,
            AnyTree::Double($tree) => $body,
            AnyTree::UniqueDouble($tree) => $body,
            AnyTree::Bytes($tree) => $body,
            AnyTree::UniqueBytes($tree) => $body,
        }
    };
}
pub(crate) use each_tree;

/// One index of a table.
pub struct Index {
    name: Box<str>,
    unique: bool,
    columns: Option<Box<[usize]>>,
    reads: Box<[usize]>,
    evaluator: Option<Box<dyn KeyEvaluator>>,
    /// With an evaluator: only rows below this number are in the index.
    covered: u32,
    pub(crate) shape: KeyShape,
    pub(crate) pool: KeyPool,
    pub(crate) tree: AnyTree,
    recent: RecentRows,
}

/// The number of a key whose index entry was prefetched.
#[derive(Debug, Clone, Copy)]
pub struct PrefetchedKey(u128);

/// The key of a row.
enum RowKey<'a> {
    /// The row is not in the partial index.
    Absent,
    Word(u64),
    Double(u128),
    Bytes(KeyBuffer<'a>),
}

impl PartialEq for RowKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (RowKey::Absent, RowKey::Absent) => true,
            (RowKey::Word(a), RowKey::Word(b)) => a == b,
            (RowKey::Double(a), RowKey::Double(b)) => a == b,
            (RowKey::Bytes(a), RowKey::Bytes(b)) => a.bytes() == b.bytes(),
            _ => false,
        }
    }
}

/// A change of an index that did not happen.
#[derive(Debug)]
pub(crate) enum IndexFault {
    Duplicate(RowId),
    Evaluation(StorageError),
}

/// A place in key order that a bound stands for.
pub(crate) struct Edge<'a> {
    pub(crate) key: EdgeKey<'a>,
    /// After all entries that equal or begin with the key, instead of before them.
    pub(crate) after: bool,
}

/// The key of an edge, in the form of its index.
pub(crate) enum EdgeKey<'a> {
    Word(u64),
    Double(u128),
    Bytes(KeyBuffer<'a>),
}

#[cold]
fn key_fault(fault: KeyFault, index: &str, shape: &KeyShape) -> StorageError {
    match fault {
        KeyFault::TypeMismatch(column) => StorageError::TypeMismatch {
            place: index.into(),
            column,
            expected: shape.parts[column].sql_type,
        },
        KeyFault::TooManyParts(given) => StorageError::KeyParts {
            index: index.into(),
            expected: shape.parts.len(),
            given: given + 1,
        },
    }
}

fn new_tree(form: KeyForm, unique: bool) -> AnyTree {
    match (form, unique) {
        (KeyForm::Word, false) => AnyTree::Word(Tree::new()),
        (KeyForm::Word, true) => AnyTree::UniqueWord(Tree::new()),
        (KeyForm::DoubleWord, false) => AnyTree::Double(Tree::new()),
        (KeyForm::DoubleWord, true) => AnyTree::UniqueDouble(Tree::new()),
        (KeyForm::Bytes, false) => AnyTree::Bytes(Tree::new()),
        (KeyForm::Bytes, true) => AnyTree::UniqueBytes(Tree::new()),
    }
}

impl Index {
    /// An empty index over rows of `layout`.
    pub(crate) fn new(
        definition: IndexDefinition,
        layout: &TableLayout,
        table: &str,
    ) -> Result<Index, StorageError> {
        let IndexDefinition { name, unique, source } = definition;
        let unsupported = |column, sql_type| StorageError::UnsupportedType { column, sql_type };
        let check = |column: &usize| match layout.fields.get(*column) {
            Some(field) => Ok(*field),
            None => Err(StorageError::NoSuchColumn { table: table.into(), column: *column }),
        };
        let (parts, columns, reads, evaluator) = match source {
            KeySource::Columns(columns) => {
                let part = |column| {
                    let field: Field = check(column)?;
                    KeyPart::new(field.sql_type, Some(field))
                        .ok_or(unsupported(*column, field.sql_type))
                };
                let parts = columns.iter().map(part).collect::<Result<Vec<_>, _>>()?;
                (parts, Some(columns.clone().into()), columns, None)
            }
            KeySource::Computed { types, reads, evaluator } => {
                reads.iter().try_for_each(|column| check(column).map(drop))?;
                let part = |(position, sql_type): (usize, &SqlType)| {
                    KeyPart::new(*sql_type, None).ok_or(unsupported(position, *sql_type))
                };
                let parts = types.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
                (parts, None, reads, Some(evaluator))
            }
        };
        let shape = KeyShape::new(parts);
        let tree = new_tree(shape.form, unique);
        let pool = KeyPool::default();
        let (reads, covered) = (reads.into(), u32::MAX);
        let recent = RecentRows::new();
        Ok(Index { name, unique, columns, reads, evaluator, covered, shape, pool, tree, recent })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if no two rows have the same key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// The columns that make the key; `None` for computed keys.
    pub fn columns(&self) -> Option<&[usize]> {
        self.columns.as_deref()
    }

    /// The columns that decide the key and whether a row is in the index.
    pub fn reads(&self) -> &[usize] {
        &self.reads
    }

    /// Whether each live row of the table has an entry: neither a part of the rows only, nor an
    /// index that is still being built.
    pub(crate) fn holds_all_rows(&self) -> bool {
        self.evaluator.is_none()
    }

    /// Types of the key parts.
    pub fn key_types(&self) -> impl ExactSizeIterator<Item = SqlType> + '_ {
        self.shape.parts.iter().map(|part| part.sql_type)
    }

    /// How keys are held.
    pub fn form(&self) -> KeyForm {
        self.shape.form
    }

    /// Number of entries.
    #[inline]
    pub fn entries(&self) -> u64 {
        each_tree!(&self.tree, tree => tree.len())
    }

    /// Bytes of the index's nodes and long keys.
    pub fn allocated_bytes(&self) -> usize {
        each_tree!(&self.tree, tree => tree.allocated_bytes()) + self.pool.allocated_bytes()
    }

    /// Takes the entries out, leaving the index empty.
    pub(crate) fn take_tree(&mut self) -> AnyTree {
        std::mem::replace(&mut self.tree, new_tree(self.shape.form, self.unique))
    }

    /// The key of a row.
    ///
    /// # Safety
    /// `slot` holds a row of the index's table, whose fields are `fields`.
    unsafe fn row_key<'p>(
        shape: &KeyShape,
        evaluator: Option<&mut Box<dyn KeyEvaluator>>,
        pool: &'p KeyPool,
        name: &str,
        (slot, fields): (*const u8, &[Field]),
    ) -> Result<RowKey<'p>, StorageError> {
        let mut buffer = KeyBuffer::new(pool);
        let Some(evaluator) = evaluator else {
            // SAFETY: passed on.
            return Ok(unsafe {
                match shape.form {
                    KeyForm::Word => RowKey::Word(shape.word_from_slot(slot)),
                    KeyForm::DoubleWord => RowKey::Double(shape.double_from_slot(slot)),
                    KeyForm::Bytes => {
                        shape.bytes_from_slot(slot, &mut buffer);
                        RowKey::Bytes(buffer)
                    }
                }
            });
        };
        let mut encoder = KeyEncoder::new(shape, &mut buffer);
        let mut writer = KeyWriter { encoder: &mut encoder, index: name };
        // SAFETY: passed on; the row is not used after the call.
        if !evaluator.evaluate(unsafe { RowRef::new(slot, fields) }, &mut writer)? {
            return Ok(RowKey::Absent);
        }
        let given = encoder.parts();
        if given != shape.parts.len() {
            let expected = shape.parts.len();
            return Err(StorageError::KeyParts { index: name.into(), expected, given });
        }
        if encoder.exactness() != Exactness::Exact {
            let message = format!("a value is out of range for the key of index {name}");
            return Err(StorageError::KeyExpression { message: message.into() });
        }
        let number = encoder.number(false);
        Ok(match shape.form {
            KeyForm::Word => RowKey::Word(number as u64),
            KeyForm::DoubleWord => RowKey::Double(number),
            KeyForm::Bytes => RowKey::Bytes(buffer),
        })
    }

    /// Adds a row. On an error nothing has changed.
    ///
    /// # Safety
    /// `slot` holds a row of the index's table, whose fields are `fields`.
    #[inline]
    pub(crate) unsafe fn insert_row(
        &mut self,
        slot: *const u8,
        fields: &[Field],
        row: RowId,
    ) -> Result<(), IndexFault> {
        let row_id = row.0;
        let result = if self.evaluator.is_none() {
            let shape = &self.shape;
            // SAFETY: passed on; the shape has the form that the tree has.
            unsafe {
                match &mut self.tree {
                    AnyTree::UniqueWord(tree) => tree.insert(shape.word_from_slot(slot), row_id),
                    AnyTree::Word(tree) => tree.insert(shape.word_from_slot(slot), row_id),
                    AnyTree::UniqueDouble(tree) => {
                        tree.insert(shape.double_from_slot(slot), row_id)
                    }
                    AnyTree::Double(tree) => tree.insert(shape.double_from_slot(slot), row_id),
                    AnyTree::Bytes(_) | AnyTree::UniqueBytes(_) => {
                        return self.insert_any(slot, fields, row);
                    }
                }
            }
        } else if row_id >= self.covered {
            return Ok(());
        } else {
            // SAFETY: passed on.
            return unsafe { self.insert_any(slot, fields, row) };
        };
        result.map_err(|existing| IndexFault::Duplicate(RowId(existing)))
    }

    /// # Safety
    /// As for `insert_row`.
    unsafe fn insert_any(
        &mut self,
        slot: *const u8,
        fields: &[Field],
        row: RowId,
    ) -> Result<(), IndexFault> {
        let Index { shape, evaluator, pool, name, tree, .. } = self;
        // SAFETY: passed on.
        let key = unsafe { Self::row_key(shape, evaluator.as_mut(), pool, name, (slot, fields)) }
            .map_err(IndexFault::Evaluation)?;
        insert_key(tree, &key, row)
    }

    /// Removes a row. A computed key that now fails counts as absent: it failed before.
    ///
    /// # Safety
    /// As for `insert_row`.
    #[inline]
    pub(crate) unsafe fn remove_row(&mut self, slot: *const u8, fields: &[Field], row: RowId) {
        let Index { shape, evaluator, covered, pool, name, tree, .. } = self;
        let removed = if evaluator.is_none() {
            // SAFETY: passed on; the shape has the form that the tree has.
            unsafe {
                match tree {
                    AnyTree::UniqueWord(tree) => tree.remove(shape.word_from_slot(slot), row.0),
                    AnyTree::Word(tree) => tree.remove(shape.word_from_slot(slot), row.0),
                    AnyTree::UniqueDouble(tree) => tree.remove(shape.double_from_slot(slot), row.0),
                    AnyTree::Double(tree) => tree.remove(shape.double_from_slot(slot), row.0),
                    tree @ (AnyTree::Bytes(_) | AnyTree::UniqueBytes(_)) => {
                        let mut key = KeyBuffer::new(pool);
                        shape.bytes_from_slot(slot, &mut key);
                        remove_key(tree, &RowKey::Bytes(key), row)
                    }
                }
            }
        } else if row.0 >= *covered {
            return;
        } else {
            // SAFETY: passed on.
            match unsafe { Self::row_key(shape, evaluator.as_mut(), pool, name, (slot, fields)) } {
                Ok(key) => remove_key(tree, &key, row),
                Err(_) => false,
            }
        };
        debug_assert!(removed, "a live row is in its indexes");
    }

    /// Moves a row from the key of one slot to that of another. On an error nothing has changed.
    ///
    /// # Safety
    /// As for `insert_row`, for both slots.
    pub(crate) unsafe fn replace_row(
        &mut self,
        old: *const u8,
        new: *const u8,
        fields: &[Field],
        row: RowId,
    ) -> Result<(), IndexFault> {
        let Index { shape, evaluator, covered, pool, name, tree, .. } = self;
        // Mostly a key column is assigned the value it has.
        let unchanged = evaluator.is_none()
            && match shape.form {
                // SAFETY: passed on.
                KeyForm::Word => unsafe { shape.word_from_slot(old) == shape.word_from_slot(new) },
                // SAFETY: passed on.
                KeyForm::DoubleWord => unsafe {
                    shape.double_from_slot(old) == shape.double_from_slot(new)
                },
                KeyForm::Bytes => false,
            };
        if unchanged || (evaluator.is_some() && row.0 >= *covered) {
            return Ok(());
        }
        // SAFETY: passed on.
        let (old, new) = unsafe {
            (
                Self::row_key(shape, evaluator.as_mut(), pool, name, (old, fields))
                    .map_err(IndexFault::Evaluation)?,
                Self::row_key(shape, evaluator.as_mut(), pool, name, (new, fields))
                    .map_err(IndexFault::Evaluation)?,
            )
        };
        if old != new {
            insert_key(tree, &new, row)?;
            let removed = remove_key(tree, &old, row);
            debug_assert!(removed, "a live row is in its indexes");
        }
        Ok(())
    }

    /// The row with this key; of a non-unique index, the first.
    ///
    /// # Errors
    /// `KeyParts` unless the key has all parts; `TypeMismatch`.
    #[inline]
    pub fn get(&self, key: &[Datum<'_>]) -> Result<Option<RowId>, StorageError> {
        match &self.tree {
            AnyTree::UniqueWord(tree) => {
                if let Some(number) = self.shape.single_integer(key) {
                    return Ok(tree.get(number).map(RowId));
                }
                if let Some((number, 0)) = self.shape.word_of(key) {
                    return Ok(tree.get(number).map(RowId));
                }
            }
            AnyTree::UniqueDouble(tree) => {
                if let Some((number, 0)) = self.shape.double_of(key) {
                    return Ok(tree.get(number).map(RowId));
                }
            }
            AnyTree::Word(tree) => {
                if let Some(number) = self.shape.single_integer(key) {
                    return Ok(tree.get(number).map(RowId));
                }
            }
            _ => {}
        }
        self.get_any(key)
    }

    /// As `get`, for the unique key of one integer; `None` for any other.
    #[inline(always)]
    pub(crate) fn get_integer(&self, key: i64) -> Option<Option<RowId>> {
        let AnyTree::UniqueWord(tree) = &self.tree else { return None };
        let number = self.shape.single_integer(&[Datum::Int(key)])?;
        Some(tree.get_expected(number).map(RowId))
    }

    /// Prepares the memory for a `get_integer` that is to come.
    #[inline(always)]
    pub(crate) fn prefetch_integer(&self, key: i64) {
        if let AnyTree::UniqueWord(tree) = &self.tree
            && let Some(number) = self.shape.single_integer(&[Datum::Int(key)])
        {
            tree.expect(number);
        }
    }

    /// Prefetches for a later `get`, in a large index on integers; `None` in any other.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[Datum<'_>]) -> Option<PrefetchedKey> {
        match &self.tree {
            AnyTree::UniqueWord(tree) => match self.shape.word_of(key) {
                Some((number, 0)) => {
                    tree.prefetch(number).then_some(PrefetchedKey(u128::from(number)))
                }
                _ => None,
            },
            AnyTree::UniqueDouble(tree) => match self.shape.double_of(key) {
                Some((number, 0)) => tree.prefetch(number).then_some(PrefetchedKey(number)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The row of a prefetched key.
    #[inline]
    pub(crate) fn prefetched_row(&self, PrefetchedKey(number): PrefetchedKey) -> Option<RowId> {
        match &self.tree {
            AnyTree::UniqueWord(_) => self.get_word(number as u64),
            AnyTree::UniqueDouble(tree) => tree.get(number).map(RowId),
            _ => None,
        }
    }

    fn get_any(&self, key: &[Datum<'_>]) -> Result<Option<RowId>, StorageError> {
        if key.len() != self.shape.parts.len() {
            let (expected, given) = (self.shape.parts.len(), key.len());
            return Err(StorageError::KeyParts { index: self.name.clone(), expected, given });
        }
        let mut buffer = KeyBuffer::new(&self.pool);
        let mut encoder = KeyEncoder::new(&self.shape, &mut buffer);
        for value in key {
            encoder.push(*value).map_err(|fault| key_fault(fault, &self.name, &self.shape))?;
        }
        if encoder.exactness() != Exactness::Exact {
            return Ok(None);
        }
        let number = encoder.number(false);
        let row = match &self.tree {
            AnyTree::Word(tree) => tree.get(number as u64),
            AnyTree::UniqueWord(tree) => tree.get(number as u64),
            AnyTree::Double(tree) => tree.get(number),
            AnyTree::UniqueDouble(tree) => tree.get(number),
            AnyTree::Bytes(tree) => tree.get(buffer.probe(false)),
            AnyTree::UniqueBytes(tree) => tree.get(buffer.probe(false)),
        };
        Ok(row.map(RowId))
    }

    /// The edge of a bound by the fast path of key encoding.
    #[inline]
    fn common_edge(&self, key: &[Datum<'_>], after: bool) -> Option<Edge<'_>> {
        if let Some(number) = self.shape.single_integer(key) {
            return Some(Edge { key: EdgeKey::Word(number), after });
        }
        let key = match self.shape.form {
            KeyForm::Word => {
                let (number, missing) = self.shape.word_of(key)?;
                let fill = u64::MAX.unbounded_shl(missing);
                let low = number.unbounded_shl(missing);
                EdgeKey::Word(if after { low | !fill } else { low })
            }
            KeyForm::DoubleWord => {
                let (number, missing) = self.shape.double_of(key)?;
                let fill = u128::MAX.unbounded_shl(missing);
                let low = number.unbounded_shl(missing);
                EdgeKey::Double(if after { low | !fill } else { low })
            }
            KeyForm::Bytes => return None,
        };
        Some(Edge { key, after })
    }

    /// The edges around all keys that begin with `key`.
    #[inline]
    pub(crate) fn edges_of(
        &self,
        key: &[Datum<'_>],
    ) -> Result<(Option<Edge<'_>>, Option<Edge<'_>>), StorageError> {
        if let Some(lower) = self.common_edge(key, false) {
            return Ok((Some(lower), self.common_edge(key, true)));
        }
        let bound = Bound::Included(key);
        Ok((self.edge(bound, false)?, self.edge(bound, true)?))
    }

    /// The edge of a bound; `None` when it bounds nothing.
    pub(crate) fn edge(
        &self,
        bound: Bound<&[Datum<'_>]>,
        upper: bool,
    ) -> Result<Option<Edge<'_>>, StorageError> {
        let (key, included) = match bound {
            Bound::Unbounded | Bound::Included([]) => return Ok(None),
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        if let Some(edge) = self.common_edge(key, included == upper) {
            return Ok(Some(edge));
        }
        let mut buffer = KeyBuffer::new(&self.pool);
        let mut encoder = KeyEncoder::new(&self.shape, &mut buffer);
        for value in key {
            encoder.push(*value).map_err(|fault| key_fault(fault, &self.name, &self.shape))?;
        }
        let after = match encoder.exactness() {
            Exactness::Exact => included == upper,
            Exactness::Below => false,
            Exactness::Above | Exactness::Longer => true,
        };
        let number = encoder.number(after);
        let key = match self.shape.form {
            KeyForm::Word => EdgeKey::Word(number as u64),
            KeyForm::DoubleWord => EdgeKey::Double(number),
            KeyForm::Bytes => EdgeKey::Bytes(buffer),
        };
        Ok(Some(Edge { key, after }))
    }
}

fn insert_key(tree: &mut AnyTree, key: &RowKey<'_>, row: RowId) -> Result<(), IndexFault> {
    let result = match (tree, key) {
        (AnyTree::Word(tree), RowKey::Word(key)) => tree.insert(*key, row.0),
        (AnyTree::UniqueWord(tree), RowKey::Word(key)) => tree.insert(*key, row.0),
        (AnyTree::Double(tree), RowKey::Double(key)) => tree.insert(*key, row.0),
        (AnyTree::UniqueDouble(tree), RowKey::Double(key)) => tree.insert(*key, row.0),
        (AnyTree::Bytes(tree), RowKey::Bytes(key)) => tree.insert(key.probe(false), row.0),
        (AnyTree::UniqueBytes(tree), RowKey::Bytes(key)) => tree.insert(key.probe(false), row.0),
        (_, RowKey::Absent) => Ok(()),
        _ => unreachable!("a key has the form of its index's tree"),
    };
    result.map_err(|existing| IndexFault::Duplicate(RowId(existing)))
}

/// True if the entry was there, or the key is absent.
fn remove_key(tree: &mut AnyTree, key: &RowKey<'_>, row: RowId) -> bool {
    match (tree, key) {
        (AnyTree::Word(tree), RowKey::Word(key)) => tree.remove(*key, row.0),
        (AnyTree::UniqueWord(tree), RowKey::Word(key)) => tree.remove(*key, row.0),
        (AnyTree::Double(tree), RowKey::Double(key)) => tree.remove(*key, row.0),
        (AnyTree::UniqueDouble(tree), RowKey::Double(key)) => tree.remove(*key, row.0),
        (AnyTree::Bytes(tree), RowKey::Bytes(key)) => tree.remove(key.probe(false), row.0),
        (AnyTree::UniqueBytes(tree), RowKey::Bytes(key)) => tree.remove(key.probe(false), row.0),
        (_, RowKey::Absent) => true,
        _ => unreachable!("a key has the form of its index's tree"),
    }
}
