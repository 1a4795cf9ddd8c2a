//! Procedures and user-defined functions.

use super::{CaseName, Name, Span, Statement};

/// CREATE PROCEDURE.
#[derive(Clone, Debug)]
pub struct CreateProcedure {
    /// Plain, DIRECTED or COMPOUND.
    pub kind: ProcedureKind,
    /// Its name. None for FROM CLASS without a name: the class's simple name is taken.
    pub name: Option<CaseName>,
    /// PARTITION ON TABLE, and AND ON TABLE for each further partition.
    pub partitions: Vec<ProcedurePartition>,
    /// ALLOW role, ...
    pub allow: Vec<Name>,
    /// WITH EFFECTS: what calls do is logged as images of rows.
    pub effects: bool,
    /// WITH LOCAL DATA: its statements work on the rows of the call's partition.
    pub local_data: bool,
    /// What it runs.
    pub body: ProcedureBody,
}

/// How a procedure is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcedureKind {
    /// By its PARTITION clause.
    Plain,
    /// DIRECTED: runs at the partitions a caller chooses.
    Directed,
    /// COMPOUND: calls other procedures.
    Compound,
}

/// ON TABLE t COLUMN c [VIA GLOBAL INDEX i] [PARAMETER n], or ON TABLE t COLUMNS (c, ...)
/// [PARAMETERS n, ...].
#[derive(Clone, Debug)]
pub struct ProcedurePartition {
    /// The table.
    pub table: Name,
    /// Its partitioning columns, at least one.
    pub columns: Vec<Name>,
    /// The global index by whose keys the row that says the partition is found.
    pub via: Option<Name>,
    /// Which parameters hold the values of the columns, or of the index's keys, from 0; when none
    /// is written the first ones.
    pub parameters: Vec<u32>,
    /// Where it stands.
    pub span: Span,
}

/// What a procedure runs.
#[derive(Clone, Debug)]
pub enum ProcedureBody {
    /// AS statement, AS BEGIN statement; ... END.
    Statements(Vec<BodyStatement>),
    /// FROM CLASS pkg.Class: a Java class.
    Class(CaseName),
    /// FROM NATIVE name: a Rust type linked into the binary.
    Native(CaseName),
}

/// A statement of a procedure body. Only queries and DML stand in bodies.
#[derive(Clone, Debug)]
pub struct BodyStatement {
    /// The tree; its parameters are numbered from 0 within the statement.
    pub statement: Statement,
    /// Its text, without the closing `;`.
    pub text: String,
    /// Where it stands.
    pub span: Span,
    /// How many `?` it holds. A procedure's parameters are those of its statements, in order.
    pub parameter_count: u32,
}

/// PARTITION PROCEDURE p ON TABLE t COLUMN c [PARAMETER n] [AND ON TABLE ...].
#[derive(Clone, Debug)]
pub struct PartitionProcedure {
    /// The procedure.
    pub procedure: CaseName,
    /// Where it goes.
    pub partitions: Vec<ProcedurePartition>,
}

/// CREATE [AGGREGATE] FUNCTION.
#[derive(Clone, Debug)]
pub struct CreateFunction {
    /// Its name.
    pub name: Name,
    /// What computes it.
    pub source: FunctionSource,
}

/// What computes a user-defined function.
#[derive(Clone, Debug)]
pub enum FunctionSource {
    /// FROM METHOD pkg.Class.method
    Method {
        /// pkg.Class
        class: CaseName,
        /// method
        method: CaseName,
    },
    /// AGGREGATE FUNCTION ... FROM CLASS pkg.Class
    AggregateClass(CaseName),
}
