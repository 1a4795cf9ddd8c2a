//! What a site must know of a table to keep it: columns, indexes, and the views fed by it.

use crate::expression::Expression;
use crate::function::AggregateFunction;
use crate::statement::Query;
use lockstep_types::{IndexId, SqlType, TableId, Value};
use std::sync::Arc;

/// A table or materialized view as sites keep it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition {
    /// Its place in the sites' table lists.
    pub id: TableId,
    /// Its name, in upper case.
    pub name: String,
    /// Columns, hidden ones of a view last.
    pub columns: Vec<ColumnDefinition>,
    /// Number of columns that SQL sees.
    pub visible_columns: u16,
    /// Indexes; [`IndexId`] is the place in this list.
    pub indexes: Vec<IndexDefinition>,
    /// The primary key among the indexes.
    pub primary_key: Option<IndexId>,
    /// The partitioning columns, in the order of their hashes; none: replicated, or a view that
    /// lacks one of them (see `is_partial`). One column places rows as VoltDB does, several
    /// together by [`lockstep_types::hashing::CompositeKey`].
    pub partition_columns: Vec<u16>,
    /// A view over a partitioned table without all partitioning columns among its groups: every
    /// partition holds partial groups, merged when they are read.
    pub is_partial: bool,
    /// For a view: how it is kept.
    pub view: Option<Arc<ViewDefinition>>,
    /// Views that change when this table does.
    pub dependent_views: Vec<Arc<ViewDefinition>>,
    /// The greatest number of rows per partition (`LIMIT PARTITION ROWS`), if there is one.
    pub row_limit: Option<u32>,
    /// What makes room when a partition holds that many rows, if anything does.
    pub row_limit_purge: Option<Arc<RowLimitPurge>>,
    /// Global indexes, whose entries are other tables.
    pub global_indexes: Vec<Arc<GlobalIndexDefinition>>,
    /// The table holds the entries of a global index.
    pub entries_of: Option<Arc<EntriesOf>>,
}

/// An index over the rows of all partitions. Its entries are a table of their own, partitioned by
/// the key; an entry holds the key, the *place* (the values that partition the rows' table) and
/// the included columns, each column once. A unique index has an entry per row; another one has
/// an entry per distinct values, with the number of rows that have them after the columns.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalIndexDefinition {
    /// Its name.
    pub name: String,
    /// Refuses equal keys in the whole cluster, also of NULLs.
    pub unique: bool,
    /// The table's columns that an entry has, in its order: the key first, then the place, then
    /// included columns.
    pub columns: Vec<u16>,
    /// How many of them are the key.
    pub key_count: u16,
    /// INCLUDE, as declared.
    pub included: Vec<u16>,
    /// The table of the entries.
    pub entries: TableId,
    /// Does not hold the entries of all rows yet, so nothing is found by it: it is built while
    /// rows change.
    pub building: bool,
}

impl GlobalIndexDefinition {
    /// The key: columns of the table.
    pub fn keys(&self) -> &[u16] {
        &self.columns[..usize::from(self.key_count)]
    }

    /// The column of the entries that holds a column of the table.
    pub fn entry_column(&self, column: u16) -> Option<u16> {
        let place = self.columns.iter().position(|held| *held == column)?;
        Some(place as u16)
    }

    /// The name of the local index of the table that leads from the key to its rows, where it has
    /// no other that does.
    pub fn local_index_name(&self) -> String {
        format!("{}#ROWS", self.name)
    }

    /// The column of the entries with the number of rows; none of a unique index.
    pub fn rows_column(&self) -> Option<u16> {
        (!self.unique).then_some(self.columns.len() as u16)
    }
}

/// Whose entries a table holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntriesOf {
    /// The table with the rows.
    pub table: TableId,
    /// Its name.
    pub table_name: String,
    /// The global index.
    pub index_name: String,
    /// Refuses equal keys.
    pub unique: bool,
    /// The first N columns are the key.
    pub key_count: u16,
}

/// `EXECUTE (DELETE ...)` after `LIMIT PARTITION ROWS`, planned to run where the rows are.
#[derive(Debug, Clone, PartialEq)]
pub struct RowLimitPurge {
    /// The statement's text.
    pub text: String,
    /// What it deletes, of the table itself.
    pub delete: crate::statement::Delete,
    /// Number of slots that it uses.
    pub slot_count: u16,
}

impl TableDefinition {
    /// True when every partition holds all rows.
    pub fn is_replicated(&self) -> bool {
        self.partition_columns.is_empty() && !self.is_partial
    }

    /// True when the values of columns say which partition holds a row.
    pub fn is_partitioned(&self) -> bool {
        !self.partition_columns.is_empty()
    }

    /// Whether a column is one of those that say which partition holds a row.
    pub fn places_by(&self, column: usize) -> bool {
        self.partition_columns.iter().any(|&place| usize::from(place) == column)
    }

    /// The names of the partitioning columns, separated by commas.
    pub fn partition_column_names(&self) -> String {
        let names = self.partition_columns.iter();
        let names = names.map(|&place| self.columns[usize::from(place)].name.as_str());
        names.collect::<Vec<&str>>().join(", ")
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Declared length of VARCHAR (characters, or bytes) and VARBINARY (bytes); else 0.
    pub length: u32,
    /// Whether a VARCHAR's length counts bytes.
    pub length_in_bytes: bool,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// The value of columns that INSERT does not list.
    pub default: DefaultValue,
}

impl ColumnDefinition {
    /// The greatest length in bytes of a VARCHAR or VARBINARY value: four a character.
    pub fn max_bytes(&self) -> u32 {
        match (self.sql_type, self.length_in_bytes) {
            (SqlType::Varchar, false) => self.length.saturating_mul(4),
            _ => self.length,
        }
    }
}

/// A column's default.
#[derive(Debug, Clone, PartialEq)]
pub enum DefaultValue {
    /// None declared: NULL, or for NOT NULL columns an error.
    None,
    /// A constant of the column's type.
    Constant(Value),
    /// The transaction's time.
    Now,
}

/// An index or unique constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexDefinition {
    /// Its name.
    pub name: String,
    /// Its key, in order.
    pub keys: Vec<IndexKey>,
    /// Refuses equal keys (also of all-NULL ones). ASSUMEUNIQUE is unique per partition.
    pub unique: bool,
    /// Declared ASSUMEUNIQUE.
    pub assume_unique: bool,
    /// Made by a PRIMARY KEY, UNIQUE or ASSUMEUNIQUE constraint, with its name.
    pub constraint: Option<String>,
    /// Only rows for which this is true (over slot 0, the table's row) are in the index.
    pub predicate: Option<Expression>,
    /// Kept for the upkeep of a view; not listed.
    pub hidden: bool,
    /// Does not hold all rows yet, so nothing is found by it: it is built while rows change.
    pub building: bool,
}

/// One part of an index key.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexKey {
    /// A column.
    Column(u16),
    /// An expression over slot 0, the table's row.
    Expression(Expression),
}

/// How a view over one table is kept: a change of a source row changes one group.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewDefinition {
    /// The view.
    pub view: TableId,
    /// The table that it is computed from.
    pub source: TableId,
    /// Rows that count (over slot 0, the source row).
    pub predicate: Option<Expression>,
    /// Group values (over slot 0). The view's first columns, in this order.
    pub group: Vec<Expression>,
    /// The view's columns after the groups, in order, hidden ones last.
    pub aggregates: Vec<ViewAggregate>,
    /// Which of `aggregates` is COUNT(*): at zero the group's row goes (a hidden one is added
    /// when the view declares none). A view without groups keeps its one row.
    pub count: u16,
    /// The view's unique index over all group columns; none for a view without groups.
    pub group_index: Option<IndexId>,
    /// For views over several tables: the whole query (groups then aggregates), used to compute
    /// the groups again; `group` and `aggregates` then say the kinds only.
    pub joined: Option<Arc<JoinedView>>,
}

/// A view over a join: per source table, how the groups that a change may touch are recomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedView {
    /// All source tables.
    pub sources: Vec<TableId>,
    /// Per source table, the joined rows (groups, then aggregate arguments) that one row of it
    /// takes part in; slot 0 is bound to that row. Number of slots used in `slot_count`.
    pub delta: Vec<Query>,
    /// Number of frame slots of `delta`.
    pub slot_count: u16,
}

/// One aggregate column of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewAggregate {
    /// COUNT(*), COUNT, SUM, MIN or MAX.
    pub function: AggregateFunction,
    /// The argument (over slot 0); none for COUNT(*).
    pub argument: Option<Expression>,
    /// Type of the column.
    pub sql_type: SqlType,
    /// For MIN and MAX: finds the extreme of the group of the row in slot 0 again, after that row
    /// has gone. One row, one column.
    pub recompute: Option<Query>,
    /// Number of frame slots of `recompute`.
    pub recompute_slots: u16,
    /// For SUM of what may be NULL: which of the view's aggregates counts the values that are
    /// not. Once none is left the sum is NULL, not zero.
    pub counted_by: Option<u16>,
    /// For SUM of FLOAT: which of the view's aggregates keeps the sum exactly, in a form of the
    /// executor's. That one is a SUM of the same argument and of type VARBINARY.
    pub kept_by: Option<u16>,
}

/// Bytes of an exact sum of FLOAT at most.
pub const EXACT_SUM_BYTES: u32 = 273;
