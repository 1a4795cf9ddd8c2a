//! The syntax tree: what a statement says, before any name is looked up.
//!
//! Every node that a later stage may have to complain about carries a [`Span`]. Names are kept
//! as the catalog will look them up: unquoted names folded to upper case, quoted names as
//! written. Nothing here knows types, tables or functions: those belong to the binder.

mod data_type;
mod ddl;
mod dml;
mod expression;
mod procedure;
mod query;
mod task;

pub use data_type::{DataType, LengthUnit, TypeName};
pub use ddl::{
    AlterAction, AlterStream, AlterTable, ColumnChange, ColumnConstraint, ColumnConstraintKind,
    ColumnDefinition, ConstraintKind, CreateIndex, CreateRole, CreateStream, CreateTable,
    CreateView, DrTable, Drop, ExportAction, ExportClause, ExportDestination, ExportVerb,
    LimitPartitionRows, ObjectKind, PartitionTable, SetOption, TableConstraint, TtlClause, TtlUnit,
    Uniqueness,
};
pub use dml::{Assignment, Delete, Insert, InsertSource, Migrate, Update};
pub use expression::{
    BinaryOperator, CaseBranch, ColumnName, Expression, ExpressionKind, FrameBound, FrameExclusion,
    FrameUnit, FunctionCall, FunctionKeyword, FunctionUnit, Literal, Quantifier, TimeUnit,
    TruthValue, UnaryOperator, Window, WindowFrame,
};
pub use procedure::{
    BodyStatement, CreateFunction, CreateProcedure, FunctionSource, PartitionProcedure,
    ProcedureBody, ProcedureKind, ProcedurePartition,
};
pub use query::{
    CommonTable, JoinCondition, JoinKind, LimitClause, NullsOrder, OrderItem, Query, QueryBody,
    Select, SelectItem, SetOperator, SortDirection, TableAlias, TableReference, TableReferenceKind,
    With,
};
pub use task::{
    AlterTask, AlterTaskAction, CreateTask, TaskErrorAction, TaskInterval, TaskProcedure,
    TaskSchedule, TaskScope, TaskUnit,
};

/// A stretch of the source text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Byte offset of the first character in the text that was given to the parser.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character, in characters.
    pub column: u32,
}

impl Span {
    /// The byte offset just past the stretch.
    pub fn end(self) -> u32 {
        self.offset.saturating_add(self.length)
    }

    /// The stretch from the start of `self` to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { length: last.end().saturating_sub(self.offset), ..self }
    }

    /// The stretch as a byte range of the text that was given to the parser.
    pub fn range(self) -> core::ops::Range<usize> {
        self.offset as usize..self.end() as usize
    }
}

/// The name of a table, column, index, alias, role or function.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name to look up: upper case unless it was quoted.
    pub text: String,
    /// Whether it was written in double quotes.
    pub quoted: bool,
    /// Where it stands.
    pub span: Span,
}

impl Name {
    /// The name to look up.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Names are equal when they look up the same object, wherever they stand.
impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.text == other.text
    }
}

impl Eq for Name {}

/// A name whose case matters although it is not quoted: procedures, classes, targets, users.
/// May hold dots (`pkg.Class`, `T.insert`) and a leading `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseName {
    /// The name as written.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// What a statement is for; decides whether it may share a batch or a procedure with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads only.
    Query,
    /// Changes rows.
    Dml,
    /// Changes the catalog.
    Ddl,
    /// Shows a plan.
    Explain,
}

/// One statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT, with everything that combines SELECTs.
    Query(Box<Query>),
    /// INSERT and UPSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// TRUNCATE TABLE t.
    Truncate(Name),
    /// MIGRATE FROM t.
    Migrate(Box<Migrate>),
    /// EXPLAIN statement.
    Explain {
        /// EXPLAIN ANALYZE: run it and show real rows and times.
        analyze: bool,
        /// What to explain: a query or DML.
        statement: Box<Statement>,
    },
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// ALTER TABLE.
    AlterTable(Box<AlterTable>),
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// CREATE VIEW.
    CreateView(Box<CreateView>),
    /// CREATE STREAM.
    CreateStream(Box<CreateStream>),
    /// ALTER STREAM.
    AlterStream(Box<AlterStream>),
    /// PARTITION TABLE t ON COLUMN c.
    PartitionTable(PartitionTable),
    /// REPLICATE TABLE t.
    ReplicateTable(Name),
    /// PARTITION PROCEDURE p ON TABLE t COLUMN c.
    PartitionProcedure(Box<PartitionProcedure>),
    /// CREATE PROCEDURE.
    CreateProcedure(Box<CreateProcedure>),
    /// CREATE [AGGREGATE] FUNCTION.
    CreateFunction(Box<CreateFunction>),
    /// CREATE ROLE.
    CreateRole(Box<CreateRole>),
    /// CREATE TASK.
    CreateTask(Box<CreateTask>),
    /// ALTER TASK.
    AlterTask(Box<AlterTask>),
    /// DR TABLE.
    DrTable(DrTable),
    /// SET name = value.
    Set(SetOption),
    /// DROP of any kind of object.
    Drop(Box<Drop>),
}

impl Statement {
    /// What the statement is for.
    pub fn kind(&self) -> StatementKind {
        match self {
            Statement::Query(_) => StatementKind::Query,
            Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Truncate(_)
            | Statement::Migrate(_) => StatementKind::Dml,
            Statement::Explain { .. } => StatementKind::Explain,
            _ => StatementKind::Ddl,
        }
    }
}

/// A statement with the text it came from.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// The tree.
    pub statement: Statement,
    /// The text as written, without the closing `;` and surrounding blanks and comments.
    /// Spans in the tree are offsets in the whole text given to the parser: subtract
    /// `span.offset` to index this one.
    pub text: String,
    /// Where the text stands.
    pub span: Span,
    /// How many `?` it holds; they are numbered from 0 in the order they stand. Statements in a
    /// procedure body count for themselves ([`BodyStatement::parameter_count`]).
    pub parameter_count: u32,
}

impl ParsedStatement {
    /// What the statement is for.
    pub fn kind(&self) -> StatementKind {
        self.statement.kind()
    }
}
