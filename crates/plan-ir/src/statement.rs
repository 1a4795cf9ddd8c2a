//! One planned statement: what runs where, and what comes back.

use crate::expression::Expression;
use crate::relation::Relation;
use lockstep_types::{IndexId, SqlType, TableId, TableSchema};

/// A planned SQL statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The SQL text, as written.
    pub text: String,
    /// Its parameters in order.
    pub parameters: Vec<StatementParameter>,
    /// The columns of its result table.
    pub result: TableSchema,
    /// True for queries.
    pub read_only: bool,
    /// What runs, and at which partitions.
    pub execution: Execution,
    /// For [`Execution::Local`] within a partitioned procedure: what must hold of the partition.
    pub guards: Vec<Guard>,
    /// Number of frame slots, over all parts of the statement.
    pub slot_count: u16,
    /// Number of uncorrelated subqueries and common tables whose rows are kept.
    pub subquery_count: u16,
    /// True when the order of the result's rows is decided by the statement.
    pub ordered: bool,
    /// What it means for the entries of global indexes.
    pub upkeep: IndexUpkeep,
    /// It reads or adds entries of global indexes itself, so it has to find what the statements
    /// before it have changed in them.
    pub needs_entries: bool,
}

/// What a statement means for the entries of global indexes.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexUpkeep {
    /// Nothing.
    None,
    /// It adds these entries, and no others: each is carried out where it lives, beside the
    /// statement.
    Known(Vec<KnownEntry>),
    /// It empties these tables of entries, all of each, beside the statement.
    Truncated(Vec<TableId>),
    /// What it removes and adds is known once it has run.
    Collected,
}

/// An entry of a global index as literals and parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownEntry {
    /// The table of the entries.
    pub entries: TableId,
    /// Its columns, the key first, without the number of rows.
    pub values: Vec<Expression>,
    /// How many of them are the key.
    pub key_count: u16,
}

impl Operation {
    /// Whether more may be kept after it than before.
    fn may_grow(&self) -> bool {
        match self {
            Operation::Query(_) | Operation::Delete(_) | Operation::Truncate(_) => false,
            Operation::Insert(_) | Operation::Update(_) | Operation::Cover(_) => true,
        }
    }
}

impl Statement {
    /// Whether more may be kept after it than before: not when it only reads or deletes rows,
    /// with their entries in indexes and what they add to views.
    pub fn may_grow(&self) -> bool {
        match &self.execution {
            Execution::Local { operation, .. } => operation.may_grow(),
            Execution::Distributed { fragments, .. } => {
                fragments.iter().any(|fragment| fragment.operation.may_grow())
            }
            Execution::Shipped { apply, .. } => apply.may_grow(),
        }
    }

    /// All operators of the statement: of its work, or of its fragments one after the other and
    /// then of what comes after them; each as [`Relation::operators`] lists them. The place in
    /// this list is an operator's number in profiles.
    pub fn operators(&self) -> Vec<&Relation> {
        let mut roots = Vec::new();
        match &self.execution {
            Execution::Local { operation, .. } => roots.extend(operation.relation()),
            Execution::Distributed { fragments, coordinator } => {
                roots.extend(fragments.iter().filter_map(|part| part.operation.relation()));
                if let Coordinator::Query(query) = coordinator {
                    roots.push(&query.relation);
                }
            }
            Execution::Shipped { fragments, query, apply, finish, .. } => {
                roots.extend(fragments.iter().filter_map(|part| part.operation.relation()));
                roots.push(&query.relation);
                roots.extend(apply.relation());
                roots.extend(finish.as_ref().map(|finish| &finish.query.relation));
            }
        }
        roots.into_iter().flat_map(Relation::operators).collect()
    }
}

impl Operation {
    /// Where its rows come from; none of what names no rows.
    pub fn relation(&self) -> Option<&Relation> {
        match self {
            Operation::Query(query) => Some(&query.relation),
            Operation::Insert(insert) => Some(&insert.source),
            Operation::Update(update) => Some(&update.source),
            Operation::Delete(delete) => Some(&delete.source),
            Operation::Truncate(_) | Operation::Cover(_) => None,
        }
    }
}

/// A parameter of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementParameter {
    /// The type that the value is converted to before execution.
    pub sql_type: SqlType,
    /// True for `IN ?`: an array of that type.
    pub is_array: bool,
}

/// What runs where.
#[derive(Debug, Clone, PartialEq)]
pub enum Execution {
    /// Everything at the partition where the transaction runs. For ad hoc statements and
    /// statements of multi-partition procedures, `routing` gives the partitioning value (no
    /// slots; literals and parameters only) that names the partition; `None` means that any
    /// partition will do (replicated tables only) or that the procedure's own routing holds.
    Local {
        /// The work.
        operation: Operation,
        /// The partitioning value.
        routing: Option<Expression>,
    },
    /// Fragments at partitions in one round, then the coordinator's part over what they sent.
    Distributed {
        /// What runs at partitions.
        fragments: Vec<Fragment>,
        /// What is made of it.
        coordinator: Coordinator,
    },
    /// Two rounds: a distributed query whose rows are then shipped to the partitions that own
    /// them and applied there (INSERT ... SELECT across partitions, DML with a subquery over
    /// partitioned tables).
    Shipped {
        /// The first round.
        fragments: Vec<Fragment>,
        /// What the coordinator makes of it: the rows to be shipped.
        query: Query,
        /// Types of the shipped rows.
        types: Vec<SqlType>,
        /// The columns of the shipped rows that decide the partition; none: all rows go to all
        /// partitions.
        partition_columns: Vec<u16>,
        /// What each partition does with its rows ([`Relation::Receive`] of fragment 0).
        apply: Operation,
        /// How the partitions' counts become one: see [`Coordinator`].
        replicated: bool,
        /// For queries: what is made of the rows that `apply` gives.
        finish: Option<Finish>,
    },
}

/// The end of a query that ships rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The columns that each partition sends in the second round.
    pub sent: TableSchema,
    /// The coordinator's part; [`Relation::Receive`] of fragment 0 are those rows.
    pub query: Query,
}

/// The part of a distributed statement that a partition runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragment {
    /// Where.
    pub target: Target,
    /// What.
    pub operation: Operation,
    /// The columns that it sends.
    pub result: TableSchema,
}

/// The partitions of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// All partitions.
    All,
    /// Any one: it reads replicated tables only.
    One,
    /// The partition that owns this value (literals and parameters only).
    Owner(Expression),
    /// The partitions that own these values, at least one (literals and parameters only).
    Owners(Vec<Expression>),
    /// The partitions that own the elements of this array parameter; any one if it has none.
    OwnersOfArray(u16),
}

/// What the coordinator does with the fragments' tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Coordinator {
    /// Runs a query whose leaves are [`Relation::Receive`].
    Query(Query),
    /// DML on partitioned tables: the counts of all partitions add up.
    SumCounts,
    /// DML on a replicated table: every partition reports the same count.
    SameCount,
}

/// The work of one statement at one place.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// SELECT.
    Query(Query),
    /// INSERT and UPSERT.
    Insert(Insert),
    /// UPDATE.
    Update(Update),
    /// DELETE.
    Delete(Delete),
    /// Deletes all rows; counts them.
    Truncate(TableId),
    /// A step of building the global index of a table; counts the rows that it took in.
    Cover(Cover),
}

/// Takes more rows of a table into the indexes of it that are being built. Once there are none
/// left at a partition, the rows to come there are taken in as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The table.
    pub table: TableId,
    /// The most rows, at least one.
    pub rows: u32,
}

/// Rows with the columns that go into the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The rows.
    pub relation: Relation,
    /// The columns, over the relation's frame.
    pub output: Vec<Expression>,
}

/// Inserts rows, or for UPSERT changes those whose primary key is there.
///
/// *Assignment*: a value goes into its column by the executor's checks, not by a cast: integers
/// must be within the column's range, text and bytes within its length, NULL only where allowed.
/// The expression's kind (integer, decimal, text ...) is already the column's.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The table.
    pub table: TableId,
    /// The rows; [`Relation::OneRow`] for VALUES.
    pub source: Relation,
    /// One expression per column of the table, in table order.
    pub values: Vec<Expression>,
    /// For UPSERT.
    pub upsert: Option<Upsert>,
}

/// What UPSERT does with a row that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Upsert {
    /// The primary key.
    pub primary_key: IndexId,
    /// The columns that are set from the new row; others keep their value.
    pub assigned: Vec<u16>,
}

/// Changes rows. All rows are found before the first is changed; expressions see old values.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The table.
    pub table: TableId,
    /// The slot that `source` binds to the rows to be changed.
    pub slot: u16,
    /// The rows.
    pub source: Relation,
    /// Column and new value (see *assignment* at [`Insert`]).
    pub assignments: Vec<(u16, Expression)>,
}

/// Deletes rows. All rows are found before the first is deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The table.
    pub table: TableId,
    /// The slot that `source` binds to the rows to be deleted.
    pub slot: u16,
    /// The rows.
    pub source: Relation,
}

/// A statement in a single-partition procedure reads or writes a partitioned table only where
/// that table's partitioning column has a known value, and that value must live here.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// The table (or partitioned view).
    pub table: TableId,
    /// Its name, for the message.
    pub table_name: String,
    /// The value that the statement restricts the partitioning column to (literals and parameters
    /// only; [`crate::Function::PartitionKey`] of several columns). `None`: the statement is not
    /// restricted, reads whatever rows are here, and so runs only in calls that address each
    /// partition (all-partition calls, directed procedures).
    pub value: Option<Expression>,
    /// The procedure is WITH LOCAL DATA: the statement works on the rows that are here, whatever
    /// the value.
    pub local: bool,
}
