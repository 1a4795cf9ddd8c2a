//! BETWEEN, IN over values, LIKE and STARTS WITH.

use super::expression::{boolean, negated_if};
use super::literal::constant;
use super::operator::widened;
use super::{BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_plan_ir::{Comparison, Expression, Node};
use lockstep_sql::ast::{self, ExpressionKind, Span};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// `a BETWEEN low AND high`: two comparisons.
    pub(super) fn between(
        &mut self,
        operand: &ast::Expression,
        low: &ast::Expression,
        high: &ast::Expression,
        symmetric: bool,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let mut value = self.open_expression(operand)?;
        let low_value = self.open_expression(low)?;
        let high_value = self.open_expression(high)?;
        if is_untyped(&value) {
            self.give_type(&mut value, widened(low_value.sql_type));
            self.give_type(&mut value, widened(high_value.sql_type));
        }
        let mut range = |from: &Expression, to: &Expression| {
            let least = Comparison::GreaterOrEqual;
            let first = self.compare(least, value.clone(), from.clone(), low.span)?;
            let greatest = Comparison::LessOrEqual;
            let second = self.compare(greatest, value.clone(), to.clone(), high.span)?;
            Ok::<_, PlanError>(boolean(Node::And(vec![first, second])))
        };
        let mut test = range(&low_value, &high_value)?;
        if symmetric {
            let mirrored = range(&high_value, &low_value)?;
            test = boolean(Node::Or(vec![test, mirrored]));
        }
        Ok(negated_if(negated, test))
    }

    /// `a IN (x, y, ...)`, also for rows.
    pub(super) fn in_list(
        &mut self,
        operand: &ast::Expression,
        list: &[ast::Expression],
        negated: bool,
        span: Span,
    ) -> Result<Expression, PlanError> {
        if let ExpressionKind::Row(_) = &operand.kind {
            let mut tests = Vec::with_capacity(list.len());
            for item in list {
                tests.push(self.comparison(Comparison::Equal, operand, item, span)?);
            }
            let test = match tests.pop() {
                Some(only) if tests.is_empty() => only,
                last => {
                    tests.extend(last);
                    boolean(Node::Or(tests))
                }
            };
            return Ok(negated_if(negated, test));
        }
        let mut value = self.open_expression(operand)?;
        let mut values = Vec::with_capacity(list.len());
        for item in list {
            let mut element = self.open_expression(item)?;
            if constant(&element) == Some(&Value::Null) && !is_untyped(&value) {
                element.sql_type = value.sql_type;
            } else {
                self.harmonize(&mut value, &mut element, item.span)?;
            }
            values.push(element);
        }
        if is_untyped(&value) {
            return Err(PlanError::at(operand.span, CAST_NEEDED));
        }
        let test = boolean(Node::InList { value: Box::new(value), list: values });
        Ok(negated_if(negated, test))
    }

    /// `a IN ?`.
    pub(super) fn in_parameter(
        &mut self,
        operand: &ast::Expression,
        parameter: &ast::Expression,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let value = self.expression(operand)?;
        if is_untyped(&value) {
            return Err(PlanError::at(operand.span, CAST_NEEDED));
        }
        let ExpressionKind::Parameter(number) = parameter.kind else {
            return Err(PlanError::at(parameter.span, "IN takes a list, a subquery or ?"));
        };
        let Some(entry) = self.parameters.get_mut(number as usize) else {
            return Err(PlanError::at(parameter.span, "parameters are not allowed here"));
        };
        *entry = Some(StatementParameter { sql_type: value.sql_type, is_array: true });
        let node = Node::InArray { value: Box::new(value), parameter: number as u16 };
        Ok(negated_if(negated, boolean(node)))
    }

    /// `a LIKE pattern [ESCAPE c]`.
    pub(super) fn like(
        &mut self,
        operand: &ast::Expression,
        pattern: &ast::Expression,
        escape: Option<&ast::Expression>,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let value = self.text_operand(operand)?;
        let pattern_value = self.text_operand(pattern)?;
        let escape = match escape {
            None => None,
            Some(escape) => {
                if constant(&pattern_value).is_none() {
                    let message = "ESCAPE not supported with non-constant LIKE pattern";
                    return Err(PlanError::at(escape.span, message));
                }
                Some(self.escape(escape)?)
            }
        };
        let node = Node::Like { value: Box::new(value), pattern: Box::new(pattern_value), escape };
        Ok(negated_if(negated, boolean(node)))
    }

    fn escape(&mut self, expression: &ast::Expression) -> Result<char, PlanError> {
        let bound = self.expression(expression)?;
        if let Some(Value::Text(text)) = constant(&bound) {
            let mut characters = text.chars();
            if let (Some(only), None) = (characters.next(), characters.next()) {
                return Ok(only);
            }
        }
        Err(PlanError::at(expression.span, "data exception: invalid escape character"))
    }

    /// `a STARTS WITH prefix`.
    pub(super) fn starts_with(
        &mut self,
        operand: &ast::Expression,
        prefix: &ast::Expression,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let value = self.text_operand(operand)?;
        let prefix = self.text_operand(prefix)?;
        let node = Node::StartsWith(Box::new(value), Box::new(prefix));
        Ok(negated_if(negated, boolean(node)))
    }

    fn text_operand(&mut self, expression: &ast::Expression) -> Result<Expression, PlanError> {
        let mut bound = self.expression(expression)?;
        if is_untyped(&bound) && constant(&bound).is_some() {
            return Err(PlanError::at(expression.span, CAST_NEEDED));
        }
        self.give_type(&mut bound, SqlType::Varchar);
        if bound.sql_type != SqlType::Varchar {
            return Err(super::bad_type(expression.span, BAD_OPERATION, bound.sql_type, "VARCHAR"));
        }
        Ok(bound)
    }
}
