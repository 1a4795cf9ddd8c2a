//! SELECT, set operations, ORDER BY and LIMIT.

use super::aggregate::Groups;
use super::literal::constant;
use super::number::settle;
use super::scope::{Aggregates, Scope, Source, SourceColumn, Windows};
use super::window::sort_key;
use super::{BAD_OPERATION, Binder};
use crate::error::PlanError;
use crate::query::logical::{Aggregate, Body, Distinct, From, Output, Query, Select, Window};
use crate::query::walk;
use lockstep_plan_ir::relation::{SetOperator, SortKey};
use lockstep_plan_ir::{Expression, Node};
use lockstep_sql::ast::{
    self, ExpressionKind, LimitClause, Literal, Name, OrderItem, QueryBody, SelectItem, Span,
};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// Binds a query with all that belongs to it.
    pub(super) fn query(&mut self, query: &ast::Query) -> Result<Query, PlanError> {
        self.query_for(query, Vec::new())
    }

    /// Binds a query whose columns become values of the types `wanted`.
    pub(super) fn query_for(
        &mut self,
        query: &ast::Query,
        wanted: Vec<SqlType>,
    ) -> Result<Query, PlanError> {
        self.with_items(false, wanted, |binder| binder.inner_query(query))
    }

    /// Binds the query of an INSERT into columns of the types: number constants in its select
    /// list may be open.
    pub(super) fn assigned_query(
        &mut self,
        query: &ast::Query,
        types: Vec<SqlType>,
    ) -> Result<Query, PlanError> {
        self.with_items(true, types, |binder| binder.inner_query(query))
    }

    fn with_items<T>(
        &mut self,
        open: bool,
        types: Vec<SqlType>,
        body: impl FnOnce(&mut Self) -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        let outer_open = std::mem::replace(&mut self.open_items, open);
        let outer_types = std::mem::replace(&mut self.item_types, types);
        let result = body(self);
        self.open_items = outer_open;
        self.item_types = outer_types;
        result
    }

    /// The type of the column that an item of the select list is assigned to.
    fn item_type(&self, position: usize) -> SqlType {
        self.item_types.get(position).copied().unwrap_or(SqlType::Null)
    }

    fn inner_query(&mut self, query: &ast::Query) -> Result<Query, PlanError> {
        self.nested(query.span, |binder| {
            let mark = binder.enter_with(query.with.as_ref())?;
            let bound = binder.ordered(query);
            binder.leave_with(mark);
            bound
        })
    }

    fn ordered(&mut self, query: &ast::Query) -> Result<Query, PlanError> {
        let mut bound = match &query.body {
            QueryBody::Select(select) => self.select(select, &query.order_by)?,
            QueryBody::Parenthesized(inner) => {
                let inner = self.inner_query(inner)?;
                if query.order_by.is_empty() && query.limit.is_empty() {
                    return Ok(inner);
                }
                self.wrapped(inner, &query.order_by)?
            }
            body @ QueryBody::SetOperation { .. } => {
                let set = self.body(body)?;
                self.order_rows(set, &query.order_by)?
            }
            QueryBody::Values(rows) => {
                let values = self.value_rows(rows, query.span)?;
                self.order_rows(values, &query.order_by)?
            }
        };
        bound.limit = self.limit(query.limit.limit.as_deref())?;
        bound.offset = self.limit(query.limit.offset.as_deref())?;
        Ok(bound)
    }

    /// A query without order and limit of its own.
    pub(super) fn body(&mut self, body: &QueryBody) -> Result<Query, PlanError> {
        match body {
            QueryBody::Select(select) => self.select(select, &[]),
            QueryBody::Parenthesized(query) => self.inner_query(query),
            QueryBody::Values(rows) => {
                let span = rows.iter().flatten().next().map(|value| value.span);
                self.value_rows(rows, span.unwrap_or_default())
            }
            QueryBody::SetOperation { operator, all, left, right, operator_span } => {
                let operator = match operator {
                    ast::SetOperator::Union => SetOperator::Union,
                    ast::SetOperator::Intersect => SetOperator::Intersect,
                    ast::SetOperator::Except => SetOperator::Except,
                };
                let mut branches = Vec::new();
                // A chain of the same operator is one operation with many branches.
                let mut chain = vec![&**right];
                let mut rest = &**left;
                while let QueryBody::SetOperation { operator: o, all: a, left, right, .. } = rest
                    && (set_operator(*o), *a) == (operator, *all)
                {
                    chain.push(right);
                    rest = left;
                }
                chain.push(rest);
                for branch in chain.into_iter().rev() {
                    let span = *operator_span;
                    let bound = self.nested(span, |binder| {
                        let types = binder.item_types.clone();
                        binder.with_items(true, types, |binder| binder.body(branch))
                    });
                    branches.push(bound?);
                }
                self.set_operation(operator, *all, branches, SqlType::Null, *operator_span)
            }
        }
    }

    /// A set operation of bound branches. A column in which no branch has a type gets that of the
    /// column that it is assigned to, else `untyped` ([`SqlType::Null`] to refuse it).
    fn set_operation(
        &mut self,
        operator: SetOperator,
        all: bool,
        mut branches: Vec<Query>,
        untyped: SqlType,
        span: Span,
    ) -> Result<Query, PlanError> {
        let width = branches[0].output.len();
        if branches.iter().any(|branch| branch.output.len() != width) {
            let message = "column number mismatch detected in rows of UNION, INTERSECT, EXCEPT, \
                           or VALUES operation";
            return Err(PlanError::at(span, message));
        }
        let slot = self.new_slot()?;
        let mut output = Vec::with_capacity(width);
        for position in 0..width {
            let column = branches.iter().map(|b| b.output[position].expression.clone());
            let mut values: Vec<Expression> = column.collect();
            let nominal = self.nominal_together(&values);
            let wanted = self.item_type(position);
            let sql_type = match self.unify(&mut values, wanted, span)? {
                SqlType::Null if wanted != SqlType::Null => wanted,
                SqlType::Null => untyped,
                sql_type => sql_type,
            };
            if sql_type == SqlType::Null {
                return Err(PlanError::at(span, super::CAST_NEEDED));
            }
            values.iter_mut().for_each(|value| self.give_type(value, sql_type));
            self.note_column(slot, position, sql_type, nominal.unwrap_or(sql_type));
            for (branch, value) in branches.iter_mut().zip(values) {
                branch.output[position].expression = value;
            }
            let expression = Expression::column(slot, position as u16, sql_type);
            output.push(Output { name: branches[0].output[position].name.clone(), expression });
        }
        let body = Body::Set { operator, all, branches, slot };
        Ok(Query { body, output, order: Vec::new(), limit: None, offset: None })
    }

    /// VALUES as a query: the rows' values brought to one type for each column. Parameters and
    /// NULLs without a value that has a type are VARCHAR, as in PostgreSQL.
    fn value_rows(
        &mut self,
        rows: &[Vec<ast::Expression>],
        span: Span,
    ) -> Result<Query, PlanError> {
        let mut branches = Vec::with_capacity(rows.len());
        for row in rows {
            let mut output = Vec::with_capacity(row.len());
            for (position, value) in row.iter().enumerate() {
                let expression = self.wanted_expression(value, self.item_type(position))?;
                output.push(Output { name: String::new(), expression });
            }
            branches.push(one_row(output));
        }
        self.set_operation(SetOperator::Union, true, branches, SqlType::Varchar, span)
    }

    /// A query with an order of its own, to be ordered again.
    fn wrapped(&mut self, inner: Query, order: &[OrderItem]) -> Result<Query, PlanError> {
        let slot = self.new_slot()?;
        self.note_nominal(slot, &inner.output);
        let output = (0..inner.output.len()).map(|position| Output {
            name: inner.output[position].name.clone(),
            expression: Expression::column(
                slot,
                position as u16,
                inner.output[position].expression.sql_type,
            ),
        });
        let output = output.collect();
        let body =
            Body::Set { operator: SetOperator::Union, all: true, branches: vec![inner], slot };
        let query = Query { body, output, order: Vec::new(), limit: None, offset: None };
        self.order_rows(query, order)
    }

    /// ORDER BY over the result of a set operation: its columns by name or position.
    fn order_rows(&mut self, mut query: Query, order: &[OrderItem]) -> Result<Query, PlanError> {
        let slot = match query.body {
            Body::Set { slot, .. } | Body::Recursive { slot, .. } => slot,
            Body::Select(_) => return Ok(query),
        };
        let columns = (0..query.output.len()).map(|position| SourceColumn {
            name: query.column_name(position),
            sql_type: query.output[position].expression.sql_type,
        });
        let source = Source { alias: String::new(), slot, columns: columns.collect() };
        self.scopes.push(Scope::of_source(source));
        let bound = self.order_by(order, &query.output);
        self.scopes.pop();
        query.order = bound?;
        Ok(query)
    }

    /// Binds a SELECT with the ORDER BY that applies to it.
    fn select(&mut self, select: &ast::Select, order: &[OrderItem]) -> Result<Query, PlanError> {
        self.scopes.push(Scope::default());
        let bound = self.select_in_scope(select, order);
        self.scopes.pop();
        bound
    }

    fn select_in_scope(
        &mut self,
        select: &ast::Select,
        order: &[OrderItem],
    ) -> Result<Query, PlanError> {
        let from = self.from(&select.from)?;
        let filter = match &select.selection {
            Some(condition) => self.conjuncts(condition)?,
            None => Vec::new(),
        };
        let group = self.group_by(&select.group_by, &select.items)?;
        let aggregated = !group.is_empty() || select.having.is_some() || {
            let items = select.items.iter().filter_map(|item| match item {
                SelectItem::Expression { expression, .. } => Some(expression),
                _ => None,
            });
            items
                .chain(order.iter().map(|item| &item.expression))
                .any(|item| self.has_aggregate(item))
        };
        let aggregate_slot = self.new_slot()?;
        self.note_groups(aggregate_slot, &group);
        let window_slot = self.new_slot()?;
        let groups = group.len();
        let scope = self.scopes.last_mut().expect("the SELECT's scope");
        if aggregated {
            let calls = Vec::new();
            scope.aggregates =
                Some(Aggregates { slot: aggregate_slot, groups, calls, inside: false });
        }
        scope.windows = Some(Windows { slot: window_slot, calls: Vec::new() });
        let output = self.items(&select.items)?;
        let windows = self.scopes.last_mut().and_then(|scope| scope.windows.take());
        let having = match &select.having {
            Some(condition) => self.conjuncts(condition)?,
            None => Vec::new(),
        };
        let scope = self.scopes.last_mut().expect("the SELECT's scope");
        scope.windows = windows;
        let keys = self.order_by(order, &output)?;
        let scope = self.scopes.last_mut().expect("the SELECT's scope");
        let windows = scope.windows.take().map(|windows| windows.calls).unwrap_or_default();
        let calls = scope.aggregates.take().map(|aggregates| aggregates.calls);
        let aggregate = calls.map(|calls| Aggregate { slot: aggregate_slot, group, calls });
        let window = (!windows.is_empty()).then_some(Window { slot: window_slot, calls: windows });
        let bound = Select { from, filter, aggregate, having, window, distinct: None };
        self.finish_select(bound, output, keys, select)
    }

    /// Brings all that stands after grouping over the groups' rows, and adds DISTINCT.
    fn finish_select(
        &mut self,
        mut select: Select,
        mut output: Vec<Output>,
        mut keys: Vec<SortKey>,
        source: &ast::Select,
    ) -> Result<Query, PlanError> {
        if select.aggregate.as_ref().is_some_and(|aggregate| aggregate.group.is_empty()) {
            // There is one row at most: an order means nothing, whatever it names.
            keys.clear();
        }
        if let Some(aggregate) = &mut select.aggregate {
            let mut groups = Groups::new(aggregate, &select.from);
            for column in &mut output {
                self.over_groups(&mut column.expression, &mut groups)?;
            }
            for conjunct in &mut select.having {
                self.over_groups(conjunct, &mut groups)?;
            }
            for key in &mut keys {
                self.over_groups(&mut key.expression, &mut groups)?;
            }
            for call in select.window.iter_mut().flat_map(|window| &mut window.calls) {
                let order = call.order.iter_mut().map(|key| &mut key.expression);
                let parts = call.arguments.iter_mut().chain(&mut call.partition).chain(order);
                for part in parts {
                    self.over_groups(part, &mut groups)?;
                }
            }
        }
        if source.distinct {
            let slot = self.new_slot()?;
            self.note_nominal(slot, &output);
            let expressions: Vec<Expression> =
                output.iter().map(|column| column.expression.clone()).collect();
            for (position, column) in output.iter_mut().enumerate() {
                let sql_type = column.expression.sql_type;
                column.expression = Expression::column(slot, position as u16, sql_type);
            }
            for key in &mut keys {
                let position = expressions.iter().position(|e| *e == key.expression);
                let Some(position) = position else {
                    return Err(PlanError::at(source.span, "invalid ORDER BY expression"));
                };
                let sql_type = key.expression.sql_type;
                key.expression = Expression::column(slot, position as u16, sql_type);
            }
            select.distinct = Some(Distinct { slot, expressions });
        }
        let body = Body::Select(select);
        Ok(Query { body, output, order: keys, limit: None, offset: None })
    }

    /// The select list.
    fn items(&mut self, items: &[SelectItem]) -> Result<Vec<Output>, PlanError> {
        let mut output = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Star(span) => self.star(*span, &mut output)?,
                SelectItem::TableStar(name) => self.table_star(name, &mut output)?,
                SelectItem::Expression { expression, alias } => {
                    let mut bound =
                        self.wanted_expression(expression, self.item_type(output.len()))?;
                    if !self.open_items {
                        settle(&mut bound, SqlType::Decimal, expression.span)?;
                    }
                    let name = match (alias, &expression.kind) {
                        (Some(alias), _) => alias.text.clone(),
                        // A function without parentheses looks like a column.
                        (None, ExpressionKind::Column(column))
                            if !matches!(bound.node, Node::Call(..)) =>
                        {
                            column.name.text.clone()
                        }
                        _ => String::new(),
                    };
                    output.push(Output { name, expression: bound });
                }
            }
            if output.len() > super::MAX_COLUMNS {
                let message =
                    "The select list has too many columns (max is 1024, option max_columns)";
                return Err(PlanError::new(message));
            }
        }
        Ok(output)
    }

    fn star(&mut self, span: Span, output: &mut Vec<Output>) -> Result<(), PlanError> {
        let scope = self.scopes.last().expect("the SELECT's scope");
        if scope.sources.is_empty() {
            return Err(PlanError::at(span, "unexpected token: * (there is no FROM)"));
        }
        for (name, merged) in &scope.merged {
            output.push(Output { name: name.clone(), expression: merged.clone() });
        }
        for source in &scope.sources {
            for (position, column) in source.columns.iter().enumerate() {
                if scope.merged.iter().any(|(name, _)| *name == column.name) {
                    continue;
                }
                let expression = source.column(position);
                output.push(Output { name: column.name.clone(), expression });
            }
        }
        Ok(())
    }

    fn table_star(&mut self, name: &Name, output: &mut Vec<Output>) -> Result<(), PlanError> {
        let scope = self.scopes.last().expect("the SELECT's scope");
        let Some(source) = scope.sources.iter().find(|source| source.alias == name.text) else {
            return Err(PlanError::at(name.span, format!("object not found: {}", name.text)));
        };
        for (position, column) in source.columns.iter().enumerate() {
            let expression = source.column(position);
            output.push(Output { name: column.name.clone(), expression });
        }
        Ok(())
    }

    /// ORDER BY: positions and aliases of the select list, or expressions.
    pub(super) fn order_by(
        &mut self,
        items: &[OrderItem],
        output: &[Output],
    ) -> Result<Vec<SortKey>, PlanError> {
        let named = output.iter().filter(|column| !column.name.is_empty());
        let aliases = named.map(|column| (column.name.clone(), column.expression.clone()));
        if let Some(scope) = self.scopes.last_mut() {
            scope.aliases = aliases.collect();
        }
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let expression = self.order_expression(&item.expression, output)?;
            match expression.sql_type {
                SqlType::Boolean => {
                    let message = "invalid ORDER BY expression";
                    return Err(PlanError::at(item.expression.span, message));
                }
                SqlType::Null => {
                    return Err(PlanError::at(item.expression.span, super::CAST_NEEDED));
                }
                _ => {}
            }
            keys.push(sort_key(expression, item));
        }
        Ok(keys)
    }

    fn order_expression(
        &mut self,
        expression: &ast::Expression,
        output: &[Output],
    ) -> Result<Expression, PlanError> {
        match &expression.kind {
            ExpressionKind::Literal(Literal::Integer(text)) => {
                let position = text.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                let column = position.and_then(|position| output.get(position));
                return column
                    .map(|column| column.expression.clone())
                    .ok_or_else(|| PlanError::at(expression.span, "invalid ORDER BY expression"));
            }
            ExpressionKind::Column(name) if name.table.is_none() => {
                let column = output.iter().find(|column| column.name == name.name.text);
                if let Some(column) = column {
                    return Ok(column.expression.clone());
                }
            }
            _ => {}
        }
        let bound = self.expression(expression)?;
        if let Some(value) = constant(&bound) {
            let message = format!("ORDER BY cannot contain constant values: {value}");
            return Err(PlanError::at(expression.span, message));
        }
        if walk::any(&bound, &|e| walk::subquery_of(e).is_some()) {
            let message = "ORDER BY clauses with subquery expressions are not allowed.";
            return Err(PlanError::at(expression.span, message));
        }
        Ok(bound)
    }

    /// LIMIT or OFFSET: a constant or a parameter.
    pub(super) fn limit(
        &mut self,
        expression: Option<&ast::Expression>,
    ) -> Result<Option<Expression>, PlanError> {
        let Some(expression) = expression else { return Ok(None) };
        let mut bound = self.expression(expression)?;
        self.give_type(&mut bound, SqlType::BigInt);
        let fits = match &bound.node {
            Node::Literal(Value::Int(value)) => *value >= 0,
            Node::Parameter(_) => bound.sql_type.is_integer(),
            _ => false,
        };
        if !fits {
            let message = format!("{BAD_OPERATION}: ; in LIMIT, OFFSET or FETCH");
            return Err(PlanError::at(expression.span, message));
        }
        Ok(Some(bound))
    }

    /// Order and limit of UPDATE and DELETE.
    pub(super) fn order_and_limit(
        &mut self,
        order: &[OrderItem],
        limit: &LimitClause,
    ) -> Result<RowLimits, PlanError> {
        let keys = self.order_by(order, &[])?;
        let rows = self.limit(limit.limit.as_deref())?;
        let offset = self.limit(limit.offset.as_deref())?;
        Ok(RowLimits { keys, limit: rows, offset })
    }
}

/// A query of one row, which reads no table.
pub(super) fn one_row(output: Vec<Output>) -> Query {
    let body = Body::Select(super::dml::select_of(super::empty_from(), Vec::new()));
    Query { body, output, order: Vec::new(), limit: None, offset: None }
}

/// ORDER BY, LIMIT and OFFSET, bound.
#[derive(Debug)]
pub(crate) struct RowLimits {
    /// ORDER BY.
    pub(crate) keys: Vec<SortKey>,
    /// LIMIT.
    pub(crate) limit: Option<Expression>,
    /// OFFSET.
    pub(crate) offset: Option<Expression>,
}

fn set_operator(operator: ast::SetOperator) -> SetOperator {
    match operator {
        ast::SetOperator::Union => SetOperator::Union,
        ast::SetOperator::Intersect => SetOperator::Intersect,
        ast::SetOperator::Except => SetOperator::Except,
    }
}

/// The sources of a FROM, for callers that need them in order.
pub(super) fn leaves(from: &From) -> Vec<&crate::query::logical::Leaf> {
    let mut leaves = Vec::new();
    from.each_leaf(&mut |leaf| leaves.push(leaf));
    leaves
}
