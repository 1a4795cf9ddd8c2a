//! SELECT and what combines SELECTs.

use super::{Expression, Name, Span};

/// A whole query: common tables, a body, order and limit.
#[derive(Clone, Debug)]
pub struct Query {
    /// WITH.
    pub with: Option<With>,
    /// SELECT or a set operation.
    pub body: QueryBody,
    /// ORDER BY of the whole.
    pub order_by: Vec<OrderItem>,
    /// LIMIT, OFFSET, FETCH FIRST, TOP, `SELECT LIMIT off n`: all end up here.
    pub limit: LimitClause,
    /// Where it stands.
    pub span: Span,
}

/// How many rows, from which on.
#[derive(Clone, Debug, Default)]
pub struct LimitClause {
    /// LIMIT n. An integer literal or a parameter.
    pub limit: Option<Box<Expression>>,
    /// OFFSET n. An integer literal or a parameter.
    pub offset: Option<Box<Expression>>,
}

impl LimitClause {
    /// Whether neither is given.
    pub fn is_empty(&self) -> bool {
        self.limit.is_none() && self.offset.is_none()
    }
}

/// WITH [RECURSIVE].
#[derive(Clone, Debug)]
pub struct With {
    /// RECURSIVE was written.
    pub recursive: bool,
    /// The common tables, one or more.
    pub tables: Vec<CommonTable>,
}

/// name [(columns)] AS (query).
#[derive(Clone, Debug)]
pub struct CommonTable {
    /// Its name.
    pub name: Name,
    /// Its column names; empty when not written.
    pub columns: Vec<Name>,
    /// Its query.
    pub query: Box<Query>,
    /// Where it stands.
    pub span: Span,
}

/// A SELECT, a set operation or a query in parentheses.
#[derive(Clone, Debug)]
pub enum QueryBody {
    /// SELECT ...
    Select(Box<Select>),
    /// left UNION right.
    SetOperation {
        /// Which.
        operator: SetOperator,
        /// ALL: duplicates stay.
        all: bool,
        /// Where the operator stands.
        operator_span: Span,
        /// Left branch.
        left: Box<QueryBody>,
        /// Right branch.
        right: Box<QueryBody>,
    },
    /// (query) as a branch, with an order and limit of its own. A branch `SELECT TOP n ...`
    /// that is not the whole query is brought into this form too.
    Parenthesized(Box<Query>),
    /// VALUES (e, ...) [, (e, ...)]: one row or more.
    Values(Vec<Vec<Expression>>),
}

/// Set operators. INTERSECT binds tighter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// UNION
    Union,
    /// INTERSECT
    Intersect,
    /// EXCEPT
    Except,
}

impl SetOperator {
    /// The operator's name, in upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        }
    }
}

/// One SELECT.
#[derive(Clone, Debug)]
pub struct Select {
    /// DISTINCT.
    pub distinct: bool,
    /// The select list, one item or more.
    pub items: Vec<SelectItem>,
    /// FROM; empty if there is none (which VoltDB refuses). Items are cross-joined.
    pub from: Vec<TableReference>,
    /// WHERE.
    pub selection: Option<Expression>,
    /// GROUP BY.
    pub group_by: Vec<Expression>,
    /// HAVING.
    pub having: Option<Expression>,
    /// Where it stands.
    pub span: Span,
}

/// An item of the select list.
#[derive(Clone, Debug)]
pub enum SelectItem {
    /// `*`
    Star(Span),
    /// `t.*`
    TableStar(Name),
    /// An expression.
    Expression {
        /// The expression.
        expression: Expression,
        /// [AS] alias.
        alias: Option<Name>,
    },
}

/// Something to select from.
#[derive(Clone, Debug)]
pub struct TableReference {
    /// What.
    pub kind: TableReferenceKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of a table reference.
#[derive(Clone, Debug)]
pub enum TableReferenceKind {
    /// A table, view, stream or common table.
    Table {
        /// Its name.
        name: Name,
        /// [AS] alias.
        alias: Option<TableAlias>,
    },
    /// (query) alias.
    Derived {
        /// The query.
        query: Box<Query>,
        /// [AS] alias; VoltDB requires it.
        alias: Option<TableAlias>,
    },
    /// left JOIN right.
    Join {
        /// Left side.
        left: Box<TableReference>,
        /// Right side.
        right: Box<TableReference>,
        /// Which join.
        kind: JoinKind,
        /// ON or USING.
        condition: JoinCondition,
    },
}

/// Alias with optional column names.
#[derive(Clone, Debug)]
pub struct TableAlias {
    /// The alias.
    pub name: Name,
    /// alias (c1, c2, ...); empty when not written.
    pub columns: Vec<Name>,
}

/// Kinds of join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// [INNER] JOIN
    Inner,
    /// LEFT [OUTER] JOIN
    Left,
    /// RIGHT [OUTER] JOIN
    Right,
    /// FULL [OUTER] JOIN
    Full,
    /// CROSS JOIN
    Cross,
}

impl JoinKind {
    /// The join's keywords.
    pub fn as_str(self) -> &'static str {
        match self {
            JoinKind::Inner => "INNER JOIN",
            JoinKind::Left => "LEFT JOIN",
            JoinKind::Right => "RIGHT JOIN",
            JoinKind::Full => "FULL JOIN",
            JoinKind::Cross => "CROSS JOIN",
        }
    }
}

/// What joins the rows.
#[derive(Clone, Debug)]
pub enum JoinCondition {
    /// Nothing: a cross join.
    None,
    /// ON condition.
    On(Box<Expression>),
    /// USING (columns).
    Using(Vec<Name>),
    /// NATURAL JOIN: USING all columns that both sides have.
    Natural,
}

/// An item of ORDER BY.
#[derive(Clone, Debug)]
pub struct OrderItem {
    /// What to order by.
    pub expression: Expression,
    /// ASC (the default) or DESC.
    pub direction: SortDirection,
    /// NULLS FIRST or LAST if written. VoltDB ignores it.
    pub nulls: Option<NullsOrder>,
}

/// Ascending or descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDirection {
    /// ASC
    Ascending,
    /// DESC
    Descending,
}

/// Where nulls go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullsOrder {
    /// NULLS FIRST
    First,
    /// NULLS LAST
    Last,
}
