//! Relations: where rows come from.

use crate::expression::{Comparison, Expression, Subquery};
use crate::function::AggregateFunction;
use crate::user::UserAggregate;
use lockstep_types::{IndexId, SqlType, TableId};
use std::sync::Arc;

/// Produces frames; see the crate's head for slots.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    /// One frame that binds nothing.
    OneRow,
    /// The rows of a table.
    Scan(Scan),
    /// The rows that a fragment sent, of all partitions one after the other in partition order.
    /// In a fragment that received shipped rows, number 0 are those.
    Receive {
        /// The slot that each row is bound to.
        slot: u16,
        /// Which fragment of the statement.
        fragment: u16,
        /// Its column types.
        types: Vec<SqlType>,
    },
    /// Those frames for which the predicate is true.
    Filter {
        /// The input.
        input: Box<Relation>,
        /// BOOLEAN.
        predicate: Expression,
    },
    /// Binds a computed row.
    Project {
        /// The input.
        input: Box<Relation>,
        /// The slot of the new row.
        slot: u16,
        /// Its columns.
        expressions: Vec<Expression>,
    },
    /// Pairs of frames.
    Join(Box<Join>),
    /// One row per group: the group's values, then one value per call. Without group
    /// expressions there is exactly one row, also for no input.
    Aggregate {
        /// The input.
        input: Box<Relation>,
        /// The slot of the group's row.
        slot: u16,
        /// What groups are made by; NULLs are one group.
        group: Vec<Expression>,
        /// The aggregates.
        calls: Vec<AggregateCall>,
    },
    /// Ordered, optionally cut. All slots of the input stay bound, and ties keep their order.
    Sort {
        /// The input.
        input: Box<Relation>,
        /// From the most significant on.
        keys: Vec<SortKey>,
        /// At most this many frames, after the offset.
        limit: Option<Expression>,
        /// Frames left out at the beginning.
        offset: Option<Expression>,
    },
    /// Cut without an order.
    Limit {
        /// The input.
        input: Box<Relation>,
        /// At most this many frames, after the offset.
        limit: Option<Expression>,
        /// Frames left out at the beginning.
        offset: Option<Expression>,
    },
    /// The first frame of each set whose row in `slot` has equal values (NULL equals NULL).
    Distinct {
        /// The input.
        input: Box<Relation>,
        /// The slot compared; bound to a computed row.
        slot: u16,
    },
    /// Set operation over branches of equal width; binds the result row to `slot`.
    SetOperation {
        /// Which one.
        operator: SetOperator,
        /// Keep duplicates.
        all: bool,
        /// The branches, at least two, applied from the left.
        branches: Vec<SetBranch>,
        /// The slot of the result's rows.
        slot: u16,
    },
    /// Adds window functions over partitions of the input: binds a row with one value per call
    /// to `slot`; the input's slots stay bound. Frames come out by partition, then order.
    Window {
        /// The input.
        input: Box<Relation>,
        /// The slot of the calls' values.
        slot: u16,
        /// The calls; each with its own partitioning and order.
        calls: Vec<WindowCall>,
    },
    /// A recursive common table: the base's rows, then the step's over and over, each time
    /// reading the rows of the previous round through [`Relation::Working`], until none come.
    Recursive {
        /// Number of the common table within the statement.
        number: u16,
        /// The first rows.
        base: Box<SetBranch>,
        /// The rows that follow from those of the previous round.
        step: Box<SetBranch>,
        /// Keep duplicates (UNION ALL) or drop rows seen before.
        all: bool,
        /// The slot of the result's rows.
        slot: u16,
    },
    /// The previous round's rows of the recursive common table with that number.
    Working {
        /// Number of the common table within the statement.
        number: u16,
        /// The slot that each row is bound to.
        slot: u16,
    },
}

/// A branch of a set operation.
#[derive(Debug, Clone, PartialEq)]
pub struct SetBranch {
    /// Its rows.
    pub relation: Relation,
    /// Its columns.
    pub output: Vec<Expression>,
}

/// UNION, INTERSECT, EXCEPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "a variant is the SQL operator of its name")]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

/// The rows of a table, found in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The slot that each row is bound to.
    pub slot: u16,
    /// The table.
    pub table: TableId,
    /// How rows are found.
    pub access: Access,
    /// What the access does not ensure; must be true.
    pub filter: Option<Expression>,
}

/// How a scan finds rows. Key expressions do not read the scan's own slot; they are of the key
/// column's kind, and integers may be wider than the column.
#[derive(Debug, Clone, PartialEq)]
pub enum Access {
    /// All rows, in slot order.
    Full,
    /// Through an index, in its order.
    Index {
        /// The index.
        index: IndexId,
        /// Values of the key's first columns. A NULL finds nothing, unless the same place in
        /// `null_matches` is true.
        equal: Vec<Expression>,
        /// Per equal value: NULL finds NULL (for IS NULL and IS NOT DISTINCT FROM).
        null_matches: Vec<bool>,
        /// Range of the next key column. A range without lower bound leaves NULLs out.
        lower: Option<KeyBound>,
        /// See `lower`.
        upper: Option<KeyBound>,
        /// From the upper end down.
        reverse: bool,
        /// True when `equal` covers the whole key of a unique index: at most one row.
        at_most_one: bool,
    },
    /// Through an index, once for each value of the list for the first key column
    /// (duplicates in the list count once), in the list's order.
    IndexList {
        /// The index.
        index: IndexId,
        /// The values.
        list: KeyList,
    },
}

/// The values of an [`Access::IndexList`].
#[derive(Debug, Clone, PartialEq)]
pub enum KeyList {
    /// Expressions.
    Values(Vec<Expression>),
    /// An array parameter.
    Array(u16),
    /// The rows of an uncorrelated subquery of one column.
    Subquery(Box<Subquery>),
}

/// One end of a key range.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyBound {
    /// The value; NULL finds nothing.
    pub value: Expression,
    /// Whether the value itself is within.
    pub inclusive: bool,
}

/// A join of two relations.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Inner or outer.
    pub kind: JoinKind,
    /// Read first; its slots are bound while the right side runs.
    pub left: Relation,
    /// Run per left frame (nested loop) or once (hash).
    pub right: Relation,
    /// For [`JoinMethod::Hash`]: equal values of both sides. NULL matches nothing.
    pub method: JoinMethod,
    /// What else must be true of a pair (in an outer join: to count as a match).
    pub condition: Option<Expression>,
    /// Slots of the left side, to be unbound (all NULL) for right and full joins.
    pub left_slots: Vec<u16>,
    /// Slots of the right side, to be unbound (all NULL) for left and full joins.
    pub right_slots: Vec<u16>,
}

/// How pairs are found.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinMethod {
    /// The right side runs for each left frame and may read its slots.
    NestedLoop,
    /// The right side runs once, into a hash table.
    Hash {
        /// Key over the left frame.
        left: Vec<Expression>,
        /// Key over the right frame.
        right: Vec<Expression>,
    },
}

/// Which frames a join keeps without a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "a variant is the SQL join of its name")]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Left frames that have a partner, once; right slots stay unbound.
    Semi,
    /// Left frames that have none; right slots stay unbound.
    Anti,
}

/// One aggregate of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Which one.
    pub function: AggregateFunction,
    /// DISTINCT values only.
    pub distinct: bool,
    /// The argument; none for COUNT(*).
    pub argument: Option<Expression>,
    /// Type of the result.
    pub sql_type: SqlType,
    /// The function of users that it is; none for a built-in one.
    pub user: Option<Arc<UserAggregate>>,
}

/// One window function.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCall {
    /// Which one.
    pub function: WindowFunction,
    /// Arguments.
    pub arguments: Vec<Expression>,
    /// PARTITION BY.
    pub partition: Vec<Expression>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// Frame; `None` is the default (RANGE UNBOUNDED PRECEDING to CURRENT ROW with an order,
    /// the whole partition without).
    pub frame: Option<WindowFrame>,
    /// Type of the result.
    pub sql_type: SqlType,
}

/// The functions that a window may compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "a variant is the SQL function of its name")]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Ntile,
    PercentRank,
    CumeDist,
    Aggregate(AggregateFunction),
}

/// ROWS, RANGE or GROUPS between two bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowFrame {
    /// What the bounds count.
    pub unit: FrameUnit,
    /// First row.
    pub start: FrameBound,
    /// Last row.
    pub end: FrameBound,
    /// Rows between the bounds that are left out.
    pub exclusion: FrameExclusion,
}

/// What the bounds of a window frame count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Distances between the values of the one key.
    Range,
    /// Groups of rows that the order does not tell apart.
    Groups,
}

/// EXCLUDE of a window frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameExclusion {
    /// Nothing is left out.
    Nothing,
    /// The current row.
    CurrentRow,
    /// The current row and those that the order does not tell from it.
    Group,
    /// Those that the order does not tell from the current row, but not that row.
    Ties,
}

/// A bound of a window frame.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "a variant is the SQL bound of its name")]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expression),
    CurrentRow,
    Following(Expression),
    UnboundedFollowing,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// The value.
    pub expression: Expression,
    /// From the greatest down.
    pub descending: bool,
    /// NULLs first; by default that is so ascending (NULL is the lowest) and not descending.
    pub nulls_first: bool,
}

impl Relation {
    /// The relations that this one reads, in the order in which they are first run.
    pub fn inputs(&self) -> Vec<&Relation> {
        match self {
            Relation::OneRow
            | Relation::Scan(_)
            | Relation::Receive { .. }
            | Relation::Working { .. } => Vec::new(),
            Relation::Filter { input, .. }
            | Relation::Project { input, .. }
            | Relation::Aggregate { input, .. }
            | Relation::Sort { input, .. }
            | Relation::Limit { input, .. }
            | Relation::Distinct { input, .. }
            | Relation::Window { input, .. } => vec![&**input],
            Relation::Join(join) => vec![&join.left, &join.right],
            Relation::SetOperation { branches, .. } => {
                branches.iter().map(|branch| &branch.relation).collect()
            }
            Relation::Recursive { base, step, .. } => vec![&base.relation, &step.relation],
        }
    }

    /// This relation and all below it: each before its inputs, which come from left to right.
    /// Relations within expressions are not listed.
    pub fn operators(&self) -> Vec<&Relation> {
        let mut operators = vec![self];
        for input in self.inputs() {
            operators.extend(input.operators());
        }
        operators
    }

    /// The scan that an aggregate of these parts only counts, where the table or the index knows
    /// the number of the rows without a visit to each.
    pub fn counted_scan<'r>(
        input: &'r Relation,
        group: &[Expression],
        calls: &[AggregateCall],
    ) -> Option<&'r Scan> {
        let is_count = |call: &AggregateCall| call.function == AggregateFunction::CountStar;
        let Relation::Scan(scan) = input else { return None };
        let is_known = scan.filter.is_none()
            && matches!(scan.access, Access::Full | Access::Index { at_most_one: false, .. });
        (is_known && group.is_empty() && calls.iter().all(is_count)).then_some(scan)
    }
}

impl Comparison {
    /// The comparison with its sides exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}
