//! Procedures as the catalog keeps them, their statements planned.

use crate::statement::{Coordinator, Execution, IndexUpkeep, Statement};
use lockstep_types::{SqlType, TableId};
use std::sync::Arc;

/// A stored procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcedureDefinition {
    /// The name that clients call (case sensitive, except of generated ones).
    pub name: String,
    /// Where its code is.
    pub kind: ProcedureKind,
    /// How its calls find their partition; `None` is a multi-partition procedure.
    pub partitioning: Option<ProcedurePartitioning>,
    /// The partitions of a multi-partition procedure that declares them, each by a column and a
    /// parameter; empty: those that its statements turn out to need.
    pub declared: Vec<ProcedurePartitioning>,
    /// Its parameters.
    pub parameters: Vec<ProcedureParameter>,
    /// Its statements: with their names, planned at creation and again after schema changes.
    pub statements: Vec<(String, Arc<Statement>)>,
    /// True when no statement writes.
    pub read_only: bool,
    /// WITH EFFECTS: its calls at a partition need not do the same when they are repeated, so the
    /// log has what they did.
    pub effects: bool,
}

impl ProcedureDefinition {
    /// True when calls run at one partition.
    pub fn is_single_partition(&self) -> bool {
        self.partitioning.is_some()
    }

    /// True for a procedure that runs at no partition, but makes calls.
    pub fn is_nontransactional(&self) -> bool {
        matches!(self.kind, ProcedureKind::NonTransactional { .. })
    }

    /// True for one that makes its calls in stages.
    pub fn is_compound(&self) -> bool {
        matches!(self.kind, ProcedureKind::NonTransactional { compound: true, .. })
    }

    /// True when it says which partitions it is for, and changes replicated tables, which are at
    /// all.
    pub fn changes_replicated(&self) -> bool {
        let says = self.partitioning.is_some() || !self.declared.is_empty();
        let replicated = |statement: &Statement| match &statement.execution {
            Execution::Local { .. } => false,
            Execution::Distributed { coordinator, .. } => *coordinator == Coordinator::SameCount,
            Execution::Shipped { replicated, .. } => *replicated && !statement.read_only,
        };
        says && self.statements.iter().any(|(_, statement)| replicated(statement))
    }

    /// True when a statement changes rows that have entries in global indexes, so that a call may
    /// need other partitions than that of its statements.
    pub fn keeps_global_indexes(&self) -> bool {
        self.statements.iter().any(|(_, statement)| statement.upkeep != IndexUpkeep::None)
    }
}

/// Where a procedure's code is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcedureKind {
    /// Its statements, one after the other; one result table each. Parameters go to the
    /// statements in order.
    Statements,
    /// A Rust type linked into the binary, by its registered name.
    Native(String),
    /// A Java class that was loaded, by its name with packages.
    Java(String),
    /// A Java class whose procedure is no transaction, but makes calls that are.
    NonTransactional {
        /// The class's name with packages.
        class: String,
        /// In stages, each of which makes calls and gets their answers.
        compound: bool,
    },
    /// Generated for a table: `TABLE.insert` and so on; runs like `Statements`.
    Generated {
        /// The table.
        table: TableId,
        /// `insert`, `update`, `upsert`, `delete` or `select`.
        verb: &'static str,
    },
}

/// How calls of a single-partition procedure find their partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcedurePartitioning {
    /// By the hash of a parameter.
    Column {
        /// The table whose partitioning it follows.
        table: String,
        /// Its partitioning column.
        column: String,
        /// That column's type.
        column_type: SqlType,
        /// The parameter, from 0.
        parameter: u16,
    },
    /// By the hash of several parameters together.
    Columns {
        /// The table whose partitioning it follows.
        table: String,
        /// Its partitioning columns, in their order.
        columns: Vec<RoutingColumn>,
    },
    /// By a row that a unique global index finds: where the row lives.
    Via {
        /// The table with the row.
        table: String,
        /// The global index.
        index: String,
        /// The table of its entries.
        entries: TableId,
        /// Its key columns with the parameters that hold their values.
        columns: Vec<RoutingColumn>,
    },
    /// Directed: only called at a given partition, through an all-partition call.
    Directed,
}

/// One of several partitioning columns with the parameter that holds its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingColumn {
    /// The column.
    pub column: String,
    /// Its type.
    pub column_type: SqlType,
    /// The parameter, from 0.
    pub parameter: u16,
}

/// A parameter of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcedureParameter {
    /// The declared type, which the client's value is converted to.
    pub sql_type: SqlType,
    /// An array of that type.
    pub is_array: bool,
}
