//! Functions whose result is one of their arguments: COALESCE, NULLIF, GREATEST, LEAST.

use super::cast::{is_untyped_parameter, widened_to};
use super::expression::boolean;
use super::operator::widened;
use super::{BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::{Comparison, Expression, Function, Node};
use lockstep_sql::ast::{FunctionCall, Span};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// GREATEST and LEAST: of values of one type, as in COALESCE.
    pub(super) fn extreme(
        &mut self,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        self.check_count(call, 1, 1024)?;
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(self.wanted_expression(argument, wanted)?);
        }
        let sql_type = self.unify(&mut values, wanted, span)?;
        match sql_type {
            SqlType::Null => return Err(PlanError::at(span, CAST_NEEDED)),
            SqlType::Boolean => return Err(PlanError::at(span, BAD_OPERATION)),
            _ => {}
        }
        let greatest = call.name.as_str() == "GREATEST";
        let function = if greatest { Function::Greatest } else { Function::Least };
        Ok(Expression { node: Node::Call(function, values), sql_type })
    }

    /// COALESCE, and IFNULL and NVL with two values.
    pub(super) fn coalesce(
        &mut self,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let two = call.name.as_str() != "COALESCE";
        let (least, greatest) = if two { (2, 2) } else { (1, 1024) };
        self.check_count(call, least, greatest)?;
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(self.wanted_expression(argument, wanted)?);
        }
        self.unify_nominal(&mut values, wanted, span)?;
        if is_untyped(&values[0]) {
            return Err(PlanError::at(span, CAST_NEEDED));
        }
        let last = values.len() - 1;
        let conditions = values[..last].iter().map(|value| {
            let is_null = boolean(Node::IsNull(Box::new(value.clone())));
            boolean(Node::Not(Box::new(is_null)))
        });
        let conditions = conditions.collect();
        self.searched_case(conditions, values, wanted, span)
    }

    /// NULLIF.
    pub(super) fn null_if(
        &mut self,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        self.check_count(call, 2, 2)?;
        let mut a = self.wanted_expression(&call.arguments[0], wanted)?;
        let mut b = self.open_expression(&call.arguments[1])?;
        if is_untyped_parameter(&a) && !is_untyped(&b) {
            let sql_type = widened_to(widened(b.sql_type), wanted);
            self.give_type(&mut a, sql_type);
        }
        self.harmonize(&mut a, &mut b, span)?;
        let equal = self.compare(Comparison::Equal, a.clone(), b, span)?;
        let null = Expression::literal(Value::Null, self.nominal(&a, wanted));
        self.searched_case(vec![equal], vec![null, a], wanted, span)
    }
}
