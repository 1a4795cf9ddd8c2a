//! Tables, indexes, views, streams, roles and small settings.

use super::{CaseName, DataType, Delete, Expression, Name, Query, Span};

/// CREATE TABLE.
#[derive(Clone, Debug)]
pub struct CreateTable {
    /// Its name.
    pub name: Name,
    /// EXPORT TO or MIGRATE TO.
    pub export: Option<ExportClause>,
    /// The columns, one or more.
    pub columns: Vec<ColumnDefinition>,
    /// Table constraints. Column constraints stay with their columns.
    pub constraints: Vec<TableConstraint>,
    /// LIMIT PARTITION ROWS.
    pub limit_rows: Option<LimitPartitionRows>,
    /// USING TTL.
    pub ttl: Option<TtlClause>,
}

/// A column of CREATE TABLE or ALTER TABLE.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub data_type: DataType,
    /// DEFAULT: a literal (with a sign), NULL, or NOW / CURRENT_TIMESTAMP and the like.
    pub default: Option<Expression>,
    /// The constraints after it, in order. `NOT NULL` is among them.
    pub constraints: Vec<ColumnConstraint>,
    /// Where it stands.
    pub span: Span,
}

impl ColumnDefinition {
    /// Whether NOT NULL was written.
    pub fn not_null(&self) -> bool {
        self.constraints.iter().any(|c| matches!(c.kind, ColumnConstraintKind::NotNull))
    }
}

/// A constraint written after a column.
#[derive(Clone, Debug)]
pub struct ColumnConstraint {
    /// CONSTRAINT name.
    pub name: Option<Name>,
    /// Which.
    pub kind: ColumnConstraintKind,
    /// Where it stands.
    pub span: Span,
}

/// Constraints of one column.
#[derive(Clone, Debug)]
pub enum ColumnConstraintKind {
    /// NOT NULL
    NotNull,
    /// NULL (says nothing)
    Null,
    /// PRIMARY KEY
    PrimaryKey,
    /// UNIQUE
    Unique,
    /// ASSUMEUNIQUE
    AssumeUnique,
    /// CHECK (condition)
    Check(Box<Expression>),
    /// GENERATED ALWAYS | BY DEFAULT AS IDENTITY [(options)]
    Identity,
    /// REFERENCES table [(columns)]
    References(Name, Vec<Name>),
}

/// A constraint of a table.
#[derive(Clone, Debug)]
pub struct TableConstraint {
    /// CONSTRAINT name.
    pub name: Option<Name>,
    /// Which.
    pub kind: ConstraintKind,
    /// Where it stands.
    pub span: Span,
}

/// Constraints of a table.
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// PRIMARY KEY (columns or expressions)
    PrimaryKey(Vec<Expression>),
    /// UNIQUE (columns or expressions)
    Unique(Vec<Expression>),
    /// ASSUMEUNIQUE (columns or expressions)
    AssumeUnique(Vec<Expression>),
    /// CHECK (condition)
    Check(Box<Expression>),
    /// FOREIGN KEY (columns) REFERENCES table [(columns)]
    ForeignKey {
        /// The referring columns.
        columns: Vec<Name>,
        /// The table referred to.
        table: Name,
        /// Its columns; empty when not written.
        referenced: Vec<Name>,
    },
}

/// LIMIT PARTITION ROWS n [EXECUTE (DELETE ...)], of VoltDB before release 11.
#[derive(Clone, Debug)]
pub struct LimitPartitionRows {
    /// CONSTRAINT name.
    pub name: Option<Name>,
    /// The most rows a partition may hold.
    pub rows: u64,
    /// What makes room.
    pub execute: Option<Box<Delete>>,
    /// The text of that statement.
    pub execute_text: String,
    /// Where it stands.
    pub span: Span,
}

/// EXPORT TO ... or MIGRATE TO ...
#[derive(Clone, Debug)]
pub struct ExportClause {
    /// EXPORT or MIGRATE.
    pub verb: ExportVerb,
    /// TARGET x or TOPIC x.
    pub destination: ExportDestination,
    /// ON INSERT, DELETE, ...; empty when not written.
    pub actions: Vec<ExportAction>,
    /// WITH KEY (columns); empty when not written.
    pub key: Vec<Name>,
    /// WITH VALUE (columns); empty when not written.
    pub value: Vec<Name>,
    /// Where it stands.
    pub span: Span,
}

/// EXPORT or MIGRATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportVerb {
    /// EXPORT TO
    Export,
    /// MIGRATE TO
    Migrate,
}

/// Where exported rows go.
#[derive(Clone, Debug)]
pub enum ExportDestination {
    /// TO TARGET x
    Target(CaseName),
    /// TO TOPIC x
    Topic(CaseName),
}

/// Which changes are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportAction {
    /// INSERT
    Insert,
    /// DELETE
    Delete,
    /// UPDATE_OLD
    UpdateOld,
    /// UPDATE_NEW
    UpdateNew,
    /// UPDATE
    Update,
}

/// USING TTL n [unit] ON COLUMN c [BATCH_SIZE n] [MAX_FREQUENCY n].
#[derive(Clone, Debug)]
pub struct TtlClause {
    /// How long a row lives.
    pub value: u64,
    /// In which unit; seconds by default.
    pub unit: TtlUnit,
    /// The column with the row's time.
    pub column: Name,
    /// Rows deleted at once.
    pub batch_size: Option<u64>,
    /// Runs per second.
    pub max_frequency: Option<u64>,
    /// Where it stands.
    pub span: Span,
}

/// Units of TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlUnit {
    /// SECONDS
    Seconds,
    /// MINUTES
    Minutes,
    /// HOURS
    Hours,
    /// DAYS
    Days,
}

/// ALTER TABLE.
#[derive(Clone, Debug)]
pub struct AlterTable {
    /// The table.
    pub table: Name,
    /// What to change.
    pub action: AlterAction,
    /// Where the action stands.
    pub span: Span,
}

/// ALTER STREAM: a subset of ALTER TABLE's actions, about columns only.
#[derive(Clone, Debug)]
pub struct AlterStream {
    /// The stream.
    pub stream: Name,
    /// What to change.
    pub action: AlterAction,
    /// Where the action stands.
    pub span: Span,
}

/// What ALTER TABLE does.
#[derive(Clone, Debug)]
pub enum AlterAction {
    /// ADD [COLUMN] definition [BEFORE c]
    AddColumn {
        /// The new column.
        column: ColumnDefinition,
        /// The column it comes before.
        before: Option<Name>,
    },
    /// ADD [CONSTRAINT n] ...
    AddConstraint(TableConstraint),
    /// ADD USING TTL ...
    AddTtl(TtlClause),
    /// DROP [COLUMN] c [CASCADE]
    DropColumn {
        /// The column.
        column: Name,
        /// CASCADE.
        cascade: bool,
    },
    /// DROP CONSTRAINT n
    DropConstraint(Name),
    /// DROP PRIMARY KEY
    DropPrimaryKey,
    /// DROP LIMIT PARTITION ROWS
    DropLimitRows,
    /// DROP TTL
    DropTtl,
    /// ALTER [COLUMN] definition [CASCADE]
    RedefineColumn {
        /// The new definition.
        column: ColumnDefinition,
        /// CASCADE.
        cascade: bool,
    },
    /// ALTER [COLUMN] c SET ...
    ChangeColumn {
        /// The column.
        column: Name,
        /// What changes.
        change: ColumnChange,
    },
    /// ALTER EXPORT TO ...
    AlterExport(ExportClause),
    /// ALTER USING TTL ...
    AlterTtl(TtlClause),
    /// ADD LIMIT PARTITION ROWS
    AddLimitRows(LimitPartitionRows),
    /// RENAME TO n
    RenameTo(Name),
    /// ALTER COLUMN c RENAME TO n, RENAME COLUMN c TO n
    RenameColumn {
        /// The column.
        column: Name,
        /// Its new name.
        to: Name,
    },
}

/// What ALTER COLUMN ... SET changes.
#[derive(Clone, Debug)]
pub enum ColumnChange {
    /// SET DEFAULT v
    SetDefault(Expression),
    /// SET NULL
    SetNull,
    /// SET NOT NULL
    SetNotNull,
}

/// What an index promises about its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// Keys may repeat.
    None,
    /// UNIQUE
    Unique,
    /// ASSUMEUNIQUE: checked within each partition only.
    AssumeUnique,
}

/// CREATE INDEX.
#[derive(Clone, Debug)]
pub struct CreateIndex {
    /// UNIQUE or ASSUMEUNIQUE.
    pub uniqueness: Uniqueness,
    /// Its name.
    pub name: Name,
    /// Its table.
    pub table: Name,
    /// The key: columns or expressions.
    pub keys: Vec<Expression>,
    /// WHERE: only rows for which this holds.
    pub selection: Option<Expression>,
    /// GLOBAL: kept apart from the rows, by the key.
    pub global: bool,
    /// INCLUDE: columns kept beside the key of a global index.
    pub included: Vec<Name>,
}

/// CREATE VIEW.
#[derive(Clone, Debug)]
pub struct CreateView {
    /// Its name.
    pub name: Name,
    /// Its column names; empty when not written.
    pub columns: Vec<Name>,
    /// Its query.
    pub query: Box<Query>,
    /// The text of the query.
    pub query_text: String,
}

/// CREATE STREAM.
#[derive(Clone, Debug)]
pub struct CreateStream {
    /// Its name.
    pub name: Name,
    /// PARTITION ON COLUMN c
    pub partition_column: Option<Name>,
    /// EXPORT TO ...
    pub export: Option<ExportClause>,
    /// The columns.
    pub columns: Vec<ColumnDefinition>,
    /// Table constraints (which VoltDB refuses for streams).
    pub constraints: Vec<TableConstraint>,
}

/// PARTITION TABLE t ON COLUMN c, or ON COLUMNS (c, ...).
#[derive(Clone, Debug)]
pub struct PartitionTable {
    /// The table.
    pub table: Name,
    /// The columns whose values decide the partition, at least one.
    pub columns: Vec<Name>,
}

/// CREATE ROLE r [WITH permission, ...].
#[derive(Clone, Debug)]
pub struct CreateRole {
    /// Its name.
    pub name: Name,
    /// Its permissions, as written in upper case.
    pub permissions: Vec<Name>,
}

/// DR TABLE t [DISABLE] | DR TABLE *.
#[derive(Clone, Debug)]
pub struct DrTable {
    /// The table; none for `*`.
    pub table: Option<Name>,
    /// DISABLE.
    pub disable: bool,
}

/// SET name = value.
#[derive(Clone, Debug)]
pub struct SetOption {
    /// The option.
    pub name: Name,
    /// Its value as written.
    pub value: CaseName,
}

/// DROP kind name [IF EXISTS] [CASCADE].
#[derive(Clone, Debug)]
pub struct Drop {
    /// The kind of object.
    pub kind: ObjectKind,
    /// Its name. For procedures as written, for all others folded.
    pub name: CaseName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// CASCADE.
    pub cascade: bool,
}

/// Kinds of object that DROP takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// TABLE
    Table,
    /// INDEX
    Index,
    /// VIEW
    View,
    /// STREAM
    Stream,
    /// PROCEDURE
    Procedure,
    /// FUNCTION
    Function,
    /// AGGREGATE FUNCTION
    AggregateFunction,
    /// ROLE
    Role,
    /// TASK
    Task,
}

impl ObjectKind {
    /// The keywords, in upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Table => "TABLE",
            ObjectKind::Index => "INDEX",
            ObjectKind::View => "VIEW",
            ObjectKind::Stream => "STREAM",
            ObjectKind::Procedure => "PROCEDURE",
            ObjectKind::Function => "FUNCTION",
            ObjectKind::AggregateFunction => "AGGREGATE FUNCTION",
            ObjectKind::Role => "ROLE",
            ObjectKind::Task => "TASK",
        }
    }
}
