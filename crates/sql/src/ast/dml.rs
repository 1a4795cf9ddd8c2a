//! Statements that change rows.

use super::{ColumnName, Expression, LimitClause, Name, OrderItem, Query, Span, With};

/// INSERT and UPSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// WITH: common tables for the query that gives the rows.
    pub with: Option<With>,
    /// UPSERT: update the row if its primary key exists.
    pub upsert: bool,
    /// The target.
    pub table: Name,
    /// The listed columns; none when no list was written.
    pub columns: Option<Vec<Name>>,
    /// Where rows come from.
    pub source: InsertSource,
}

/// Where inserted rows come from.
#[derive(Clone, Debug)]
pub enum InsertSource {
    /// VALUES (e, ...) [, (e, ...)]: one row or more. Values may be
    /// [`super::ExpressionKind::Default`].
    Values(Vec<Vec<Expression>>),
    /// A query.
    Query(Box<Query>),
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// WITH: common tables for subqueries.
    pub with: Option<With>,
    /// The target.
    pub table: Name,
    /// [AS] alias.
    pub alias: Option<Name>,
    /// SET, one or more.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub selection: Option<Expression>,
    /// ORDER BY: which rows come under the limit.
    pub order_by: Vec<OrderItem>,
    /// LIMIT and OFFSET.
    pub limit: LimitClause,
}

/// column = value.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The column, maybe qualified by the table or its alias.
    pub column: ColumnName,
    /// The value; may be [`super::ExpressionKind::Default`].
    pub value: Expression,
    /// Where it stands.
    pub span: Span,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// WITH: common tables for subqueries.
    pub with: Option<With>,
    /// The target.
    pub table: Name,
    /// [AS] alias.
    pub alias: Option<Name>,
    /// WHERE.
    pub selection: Option<Expression>,
    /// ORDER BY: which rows come under the limit.
    pub order_by: Vec<OrderItem>,
    /// LIMIT and OFFSET.
    pub limit: LimitClause,
}

/// MIGRATE FROM t [WHERE].
#[derive(Clone, Debug)]
pub struct Migrate {
    /// The table.
    pub table: Name,
    /// WHERE.
    pub selection: Option<Expression>,
}
