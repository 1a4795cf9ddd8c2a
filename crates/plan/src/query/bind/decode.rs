//! DECODE: the result that belongs to the first key that a value equals.

use super::cast::widened_to;
use super::literal::constant;
use super::number::settle;
use super::operator::widened;
use super::{Binder, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::{Comparison, Expression, Node};
use lockstep_sql::ast::{FunctionCall, Span};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// `DECODE(value, key, result [, key, result ...] [, otherwise])`. NULL equals NULL. The type
    /// is that of the first result, and the other results are cast to it. A value without a type
    /// takes that of the first value of its kind that has one, VARCHAR if those differ.
    pub(super) fn decode(
        &mut self,
        call: &FunctionCall,
        wanted_type: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        self.check_count(call, 3, 1024)?;
        let mut keys = Vec::new();
        let mut results = Vec::new();
        let last = call.arguments.len() - 1;
        for (position, argument) in call.arguments.iter().enumerate() {
            let is_result = position > 0 && (position % 2 == 0 || position == last);
            match is_result {
                true => results.push(self.wanted_expression(argument, wanted_type)?),
                false => keys.push(self.open_expression(argument)?),
            }
        }
        self.infer(&mut keys, SqlType::Null);
        self.infer(&mut results, wanted_type);
        let mut keys = keys.into_iter();
        let Some(value) = keys.next() else {
            return Err(PlanError::at(span, "DECODE has no value"));
        };
        let mut conditions = Vec::with_capacity(results.len());
        for key in keys {
            conditions.push(match constant(&key) {
                Some(Value::Null) => is_null(value.clone()),
                _ => self.compare(Comparison::NotDistinct, value.clone(), key, span)?,
            });
        }
        let wanted = results.first().map_or(SqlType::Varchar, |first| first.sql_type);
        for result in &mut results {
            self.bring(result, wanted, span)?;
        }
        self.case_of(conditions, results, wanted_type, span)
    }

    /// Gives what has no type the one that the others have, widened to `wanted`.
    fn infer(&mut self, values: &mut [Expression], wanted: SqlType) {
        let mut inferred = SqlType::Null;
        for value in values.iter().filter(|value| !is_untyped(value)) {
            inferred = match inferred {
                SqlType::Null => value.sql_type,
                other if same_group(other, value.sql_type) => other,
                _ => SqlType::Varchar,
            };
        }
        if inferred == SqlType::Null {
            inferred = SqlType::Varchar;
        }
        for value in values {
            self.give_type(value, widened_to(widened(inferred), wanted));
        }
    }

    /// Brings a result to the type of the first one.
    fn bring(
        &mut self,
        result: &mut Expression,
        wanted: SqlType,
        span: Span,
    ) -> Result<(), PlanError> {
        settle(result, wanted, span)?;
        let from = result.sql_type;
        if constant(result) == Some(&Value::Null) {
            result.sql_type = wanted;
        }
        let wider = from.is_integer() && wanted.is_integer() && from <= wanted;
        if from == wanted || wider || result.sql_type == wanted {
            return Ok(());
        }
        if !super::cast::castable(from, wanted) {
            return Err(super::bad_combination(span, wanted, from));
        }
        let taken = std::mem::replace(result, Expression::literal(Value::Null, wanted));
        *result = super::cast::converted(taken, wanted);
        Ok(())
    }
}

fn is_null(value: Expression) -> Expression {
    super::expression::boolean(Node::IsNull(Box::new(value)))
}

/// Whether values of the two types can be compared.
fn same_group(a: SqlType, b: SqlType) -> bool {
    a == b || a.is_number() && b.is_number()
}
