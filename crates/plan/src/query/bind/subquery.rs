//! Subqueries within expressions.

use super::expression::{boolean, negated_if};
use super::number::settle;
use super::operator::{comparison_of, widened};
use super::{Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use crate::query::logical::Query;
use lockstep_plan_ir::expression::{Quantifier, Subquery};
use lockstep_plan_ir::{Comparison, Expression, Node, Relation};
use lockstep_sql::ast::{self, BinaryOperator, ExpressionKind, QueryBody, SelectItem, Span};
use lockstep_types::SqlType;

impl Binder<'_> {
    /// Binds a subquery and keeps it; the result stands for it in expressions.
    fn subquery(&mut self, query: &ast::Query) -> Result<(Subquery, Vec<SqlType>), PlanError> {
        self.subquery_for(query, Vec::new())
    }

    /// As [`Binder::subquery`], for columns of the types `wanted`.
    fn subquery_for(
        &mut self,
        query: &ast::Query,
        wanted: Vec<SqlType>,
    ) -> Result<(Subquery, Vec<SqlType>), PlanError> {
        if !self.rules.subqueries {
            return Err(PlanError::at(query.span, super::NO_SUBQUERIES));
        }
        let bound = self.query_for(query, wanted)?;
        let types = bound.types();
        let number = self.keep(bound)?;
        Ok((number, types))
    }

    fn keep(&mut self, query: Query) -> Result<Subquery, PlanError> {
        let number = self.new_number()?;
        self.subqueries.insert(number, query);
        let relation = Relation::OneRow;
        Ok(Subquery { relation, output: Vec::new(), uncorrelated: false, number })
    }

    /// `(SELECT ...)` as a value.
    pub(super) fn scalar_subquery(
        &mut self,
        query: &ast::Query,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        if let Some(parameter) = lone_parameter(query) {
            return self.wanted_expression(parameter, wanted);
        }
        let (subquery, types) = self.subquery_for(query, vec![wanted])?;
        let [sql_type] = types[..] else {
            let message = "Scalar subquery can have only one output column";
            return Err(PlanError::at(query.span, message));
        };
        if sql_type == SqlType::Null {
            return Err(PlanError::at(query.span, CAST_NEEDED));
        }
        Ok(Expression { node: Node::ScalarSubquery(Box::new(subquery)), sql_type })
    }

    /// EXISTS.
    pub(super) fn exists(&mut self, query: &ast::Query) -> Result<Expression, PlanError> {
        let (subquery, _) = self.subquery(query)?;
        Ok(boolean(Node::Exists(Box::new(subquery))))
    }

    /// `a IN (SELECT ...)`: `= ANY`.
    pub(super) fn in_subquery(
        &mut self,
        operand: &ast::Expression,
        query: &ast::Query,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let test = self.quantify(Comparison::Equal, Quantifier::Any, operand, query)?;
        Ok(negated_if(negated, test))
    }

    /// `a op ANY|ALL (SELECT ...)`.
    pub(super) fn quantified(
        &mut self,
        operand: &ast::Expression,
        operator: BinaryOperator,
        quantifier: ast::Quantifier,
        query: &ast::Query,
    ) -> Result<Expression, PlanError> {
        let comparison = comparison_of(operator)
            .ok_or_else(|| PlanError::at(operand.span, "ANY and ALL need a comparison"))?;
        let quantifier = match quantifier {
            ast::Quantifier::All => Quantifier::All,
            _ => Quantifier::Any,
        };
        self.quantify(comparison, quantifier, operand, query)
    }

    fn quantify(
        &mut self,
        comparison: Comparison,
        quantifier: Quantifier,
        operand: &ast::Expression,
        query: &ast::Query,
    ) -> Result<Expression, PlanError> {
        let mut row = self.row_of(operand)?;
        // Parameters in VALUES take the types of what they are compared with.
        let wanted = match &query.body {
            QueryBody::Values(_) => row.iter().map(|value| widened(value.sql_type)).collect(),
            _ => Vec::new(),
        };
        let (subquery, types) = self.subquery_for(query, wanted)?;
        self.match_row(&mut row, &types, operand.span)?;
        let subquery = Box::new(subquery);
        Ok(boolean(Node::Quantified { comparison, quantifier, row, subquery }))
    }

    /// `(a, b) op (SELECT x, y ...)`: the subquery gives at most one row.
    pub(super) fn compare_row_with_subquery(
        &mut self,
        comparison: Comparison,
        row: &ast::Expression,
        query: &ast::Query,
    ) -> Result<Expression, PlanError> {
        self.quantify(comparison, Quantifier::Single, row, query)
    }

    /// `(SELECT x, y ...) op (SELECT v, w ...)`: each gives at most one row.
    pub(super) fn compare_subqueries(
        &mut self,
        comparison: Comparison,
        left: &ast::Query,
        right: &ast::Query,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let mut row = self.columns_of_subquery(left)?;
        let (subquery, types) = self.subquery(right)?;
        self.match_row(&mut row, &types, span)?;
        let (quantifier, subquery) = (Quantifier::Single, Box::new(subquery));
        Ok(boolean(Node::Quantified { comparison, quantifier, row, subquery }))
    }

    /// The columns of a subquery of at most one row, each as a subquery of its own.
    fn columns_of_subquery(&mut self, query: &ast::Query) -> Result<Vec<Expression>, PlanError> {
        if !self.rules.subqueries {
            return Err(PlanError::at(query.span, super::NO_SUBQUERIES));
        }
        let mut columns = Vec::new();
        loop {
            let mut bound = self.query(query)?;
            let width = bound.output.len();
            let column = bound.output.swap_remove(columns.len());
            let sql_type = column.expression.sql_type;
            bound.output = vec![column];
            let subquery = Box::new(self.keep(bound)?);
            columns.push(Expression { node: Node::ScalarSubquery(subquery), sql_type });
            if columns.len() == width {
                return Ok(columns);
            }
        }
    }

    fn row_of(&mut self, operand: &ast::Expression) -> Result<Vec<Expression>, PlanError> {
        match &operand.kind {
            ExpressionKind::Row(items) => items.iter().map(|e| self.open_expression(e)).collect(),
            _ => Ok(vec![self.open_expression(operand)?]),
        }
    }

    fn match_row(
        &mut self,
        row: &mut [Expression],
        types: &[SqlType],
        span: Span,
    ) -> Result<(), PlanError> {
        if row.len() != types.len() {
            return Err(PlanError::at(span, "row column count mismatch"));
        }
        for (value, other) in row.iter_mut().zip(types) {
            settle(value, *other, span)?;
            self.give_type(value, widened(*other));
            let numbers = value.sql_type.is_number() && other.is_number();
            if is_untyped(value) {
                return Err(PlanError::at(span, CAST_NEEDED));
            }
            if value.sql_type != *other && !numbers {
                return Err(super::bad_combination(span, value.sql_type, *other));
            }
        }
        Ok(())
    }
}

/// Whether a query may have several columns, as far as its text shows.
pub(super) fn may_be_row(query: &ast::Query) -> bool {
    let mut body = &query.body;
    loop {
        body = match body {
            QueryBody::Parenthesized(inner) => &inner.body,
            QueryBody::SetOperation { left, .. } => left,
            QueryBody::Values(rows) => return rows.iter().any(|row| row.len() > 1),
            QueryBody::Select(select) => {
                return !matches!(select.items[..], [SelectItem::Expression { .. }]);
            }
        };
    }
}

/// The parameter that is all of `(VALUES ?)`, which is the same as the parameter alone.
fn lone_parameter(query: &ast::Query) -> Option<&ast::Expression> {
    let QueryBody::Values(rows) = &query.body else { return None };
    let plain = query.with.is_none() && query.order_by.is_empty() && query.limit.is_empty();
    match &rows[..] {
        [row] if plain => match &row[..] {
            [value] if matches!(value.kind, ExpressionKind::Parameter(_)) => Some(value),
            _ => None,
        },
        _ => None,
    }
}
