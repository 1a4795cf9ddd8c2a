//! Queries back to text.

use super::{Joined, when};
use crate::ast::{
    Expression, JoinCondition, JoinKind, LimitClause, Name, NullsOrder, OrderItem, Query,
    QueryBody, Select, SelectItem, SortDirection, TableAlias, TableReference, TableReferenceKind,
};
use core::fmt::{self, Display, Formatter};

impl Display for Query {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.with {
            write!(formatter, "WITH {}", when(with.recursive, "RECURSIVE "))?;
            for (index, table) in with.tables.iter().enumerate() {
                let columns = Columns(&table.columns);
                let comma = when(index > 0, ", ");
                write!(formatter, "{comma}{}{columns} AS ({})", table.name, table.query)?;
            }
            formatter.write_str(" ")?;
        }
        self.body.fmt(formatter)?;
        if !self.order_by.is_empty() {
            write!(formatter, " ORDER BY {}", Joined(&self.order_by, ", "))?;
        }
        self.limit.fmt(formatter)
    }
}

impl Display for LimitClause {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if let Some(limit) = &self.limit {
            write!(formatter, " LIMIT {limit}")?;
        }
        match &self.offset {
            Some(offset) => write!(formatter, " OFFSET {offset}"),
            None => Ok(()),
        }
    }
}

impl Display for QueryBody {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            QueryBody::Select(select) => select.fmt(formatter),
            QueryBody::SetOperation { operator, all, left, right, .. } => {
                let (operator, all) = (operator.as_str(), when(*all, " ALL"));
                write!(formatter, "{left} {operator}{all} {right}")
            }
            QueryBody::Parenthesized(query) => write!(formatter, "({query})"),
            QueryBody::Values(rows) => write_rows(formatter, rows),
        }
    }
}

/// `VALUES (...), (...)`
fn write_rows(formatter: &mut Formatter<'_>, rows: &[Vec<Expression>]) -> fmt::Result {
    formatter.write_str("VALUES ")?;
    for (index, row) in rows.iter().enumerate() {
        write!(formatter, "{}({})", when(index > 0, ", "), Joined(row, ", "))?;
    }
    Ok(())
}

impl Display for Select {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let distinct = when(self.distinct, "DISTINCT ");
        write!(formatter, "SELECT {distinct}{}", Joined(&self.items, ", "))?;
        if !self.from.is_empty() {
            write!(formatter, " FROM {}", Joined(&self.from, ", "))?;
        }
        if let Some(condition) = &self.selection {
            write!(formatter, " WHERE {condition}")?;
        }
        if !self.group_by.is_empty() {
            write!(formatter, " GROUP BY {}", Joined(&self.group_by, ", "))?;
        }
        match &self.having {
            Some(condition) => write!(formatter, " HAVING {condition}"),
            None => Ok(()),
        }
    }
}

impl Display for SelectItem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SelectItem::Star(_) => formatter.write_str("*"),
            SelectItem::TableStar(table) => write!(formatter, "{table}.*"),
            SelectItem::Expression { expression, alias: None } => expression.fmt(formatter),
            SelectItem::Expression { expression, alias: Some(alias) } => {
                write!(formatter, "{expression} AS {alias}")
            }
        }
    }
}

impl Display for OrderItem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let descending = when(self.direction == SortDirection::Descending, " DESC");
        let nulls = match self.nulls {
            None => "",
            Some(NullsOrder::First) => " NULLS FIRST",
            Some(NullsOrder::Last) => " NULLS LAST",
        };
        write!(formatter, "{}{descending}{nulls}", self.expression)
    }
}

impl Display for TableReference {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TableReferenceKind::Table { name, alias } => {
                write!(formatter, "{name}{}", Alias(alias.as_ref()))
            }
            TableReferenceKind::Derived { query, alias } => {
                write!(formatter, "({query}){}", Alias(alias.as_ref()))
            }
            TableReferenceKind::Join { left, right, kind, condition } => {
                let natural = when(matches!(condition, JoinCondition::Natural), "NATURAL ");
                // INNER says nothing.
                let kind = match kind {
                    JoinKind::Inner => "JOIN",
                    other => other.as_str(),
                };
                write!(formatter, "{left} {natural}{kind} ")?;
                match right.kind {
                    TableReferenceKind::Join { .. } => write!(formatter, "({right})")?,
                    _ => right.fmt(formatter)?,
                }
                match condition {
                    JoinCondition::None | JoinCondition::Natural => Ok(()),
                    JoinCondition::On(condition) => write!(formatter, " ON {condition}"),
                    JoinCondition::Using(columns) => {
                        write!(formatter, " USING ({})", Joined(columns, ", "))
                    }
                }
            }
        }
    }
}

/// ` AS alias (columns)`, if there is an alias.
struct Alias<'a>(Option<&'a TableAlias>);

impl Display for Alias<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(alias) => write!(formatter, " AS {}{}", alias.name, Columns(&alias.columns)),
        }
    }
}

/// ` (columns)`, if there are any.
struct Columns<'a>(&'a [Name]);

impl Display for Columns<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => Ok(()),
            false => write!(formatter, " ({})", Joined(self.0, ", ")),
        }
    }
}
