//! CAST, and values brought to the type of a column, branch or result.

use super::literal::{assign_constant, cast_timestamp, constant};
use super::number::{as_float, settle};
use super::{BAD_CONVERSION, Binder, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::{Expression, Node};
use lockstep_sql::ast::{self, DataType, LengthUnit, Span, TypeName};
use lockstep_types::sql_type::{MAX_VALUE_BYTES, MAX_VALUE_CHARACTERS};
use lockstep_types::{Decimal, SqlType, Value};

/// The type of a name.
pub(crate) fn sql_type_of(name: TypeName) -> SqlType {
    match name {
        TypeName::TinyInt => SqlType::TinyInt,
        TypeName::SmallInt => SqlType::SmallInt,
        TypeName::Integer => SqlType::Integer,
        TypeName::BigInt => SqlType::BigInt,
        TypeName::Float => SqlType::Float,
        TypeName::Decimal => SqlType::Decimal,
        TypeName::Varchar => SqlType::Varchar,
        TypeName::Varbinary => SqlType::Varbinary,
        TypeName::Timestamp => SqlType::Timestamp,
        TypeName::Geography => SqlType::Geography,
        TypeName::GeographyPoint => SqlType::GeographyPoint,
    }
}

impl Binder<'_> {
    /// CAST(operand AS type).
    pub(super) fn cast(
        &mut self,
        operand: &ast::Expression,
        data_type: &DataType,
    ) -> Result<Expression, PlanError> {
        let mut value = self.open_expression(operand)?;
        let target = sql_type_of(data_type.name);
        let in_bytes = data_type.unit == LengthUnit::Bytes;
        let length = cast_length(target, data_type, in_bytes)?;
        settle(&mut value, target, operand.span)?;
        self.give_type(&mut value, target);
        if !castable(value.sql_type, target) {
            let message = format!("{BAD_CONVERSION}: {} to {target}", value.sql_type);
            return Err(PlanError::at(operand.span, message));
        }
        if let Some(constant) = constant(&value) {
            check_constant_cast(constant, target, operand.span)?;
            if let (Value::Text(text), SqlType::Timestamp) = (constant, target)
                && let Some(micros) = cast_timestamp(text)
            {
                return Ok(Expression::literal(Value::Timestamp(micros), target));
            }
            if *constant == Value::Null {
                return Ok(Expression::literal(Value::Null, target));
            }
        }
        let node = Node::Cast { value: Box::new(value), length, length_in_bytes: in_bytes };
        Ok(Expression { node, sql_type: target })
    }

    /// Brings the value of an INSERT or SET to its column's kind.
    pub(super) fn assign(
        &mut self,
        mut value: Expression,
        target: SqlType,
        context: &str,
        span: Span,
    ) -> Result<Expression, PlanError> {
        settle(&mut value, target, span)?;
        self.give_type(&mut value, target);
        if let Some(constant) = constant(&value) {
            // A FLOAT constant that is NULL is still not a constant of another kind.
            let is_null_float = value.sql_type == SqlType::Float && *constant == Value::Null;
            if is_null_float && !target.is_number() {
                let kind = target.name().to_ascii_lowercase();
                let message = format!(
                    "Value (NULL) has an invalid format for a constant {kind} value{context}"
                );
                return Err(PlanError::at(span, message));
            }
            let value = assign_constant(constant, target, context, span)?;
            return Ok(Expression::literal(value, target));
        }
        if value.sql_type == SqlType::Boolean {
            let message = format!("{BAD_CONVERSION}: {} to {target}{context}", value.sql_type);
            return Err(PlanError::at(span, message));
        }
        if same_kind(value.sql_type, target) {
            return Ok(value);
        }
        let convertible = assignable(value.sql_type, target);
        if !convertible {
            let message = format!("{BAD_CONVERSION}: {} to {target}{context}", value.sql_type);
            return Err(PlanError::at(span, message));
        }
        Ok(converted(value, target))
    }

    /// Brings values of a set operation or a function to one type, which is the result. Parameters
    /// among numbers hold what a number of the type `wanted` does, too.
    pub(super) fn unify(
        &mut self,
        values: &mut [Expression],
        wanted: SqlType,
        span: Span,
    ) -> Result<SqlType, PlanError> {
        let result = self.unify_open(values, wanted, span)?;
        for value in values {
            settle(value, result, span)?;
        }
        Ok(result)
    }

    /// As [`Binder::unify`], for branches of CASE: those of a DECIMAL may stay open.
    pub(super) fn unify_open(
        &mut self,
        values: &mut [Expression],
        wanted: SqlType,
        span: Span,
    ) -> Result<SqlType, PlanError> {
        let types: Vec<SqlType> = values.iter().map(|value| value.sql_type).collect();
        self.unify_as(values, &types, wanted, span)
    }

    /// As [`Binder::unify_open`], with the values' nominal types.
    pub(super) fn unify_nominal(
        &mut self,
        values: &mut [Expression],
        wanted: SqlType,
        span: Span,
    ) -> Result<SqlType, PlanError> {
        let types: Vec<SqlType> = values.iter().map(|value| self.nominal(value, wanted)).collect();
        self.unify_as(values, &types, wanted, span)
    }

    /// Brings values to the type that `types` give together.
    fn unify_as(
        &mut self,
        values: &mut [Expression],
        types: &[SqlType],
        wanted: SqlType,
        span: Span,
    ) -> Result<SqlType, PlanError> {
        let mut result = SqlType::Null;
        for sql_type in types {
            result = combined(result, *sql_type)
                .ok_or_else(|| super::bad_combination(span, result, *sql_type))?;
        }
        if values.iter().any(is_untyped_parameter) {
            result = widened_to(result, wanted);
        }
        if result == SqlType::Null {
            return Ok(result);
        }
        for value in values.iter_mut() {
            if is_untyped(value) {
                self.give_type(value, result);
            } else if !same_kind(value.sql_type, result) || narrows(value, result) {
                let taken = std::mem::replace(value, Expression::literal(Value::Null, result));
                *value = match constant(&taken) {
                    _ if result == SqlType::Float => as_float(taken, span)?,
                    Some(v) => Expression::literal(assign_constant(v, result, "", span)?, result),
                    None => converted(taken, result),
                };
            } else if constant(value).is_some() {
                value.sql_type = result;
            }
        }
        Ok(result)
    }
}

/// Whether a value that is computed can be beyond the range of an integer type.
fn narrows(value: &Expression, result: SqlType) -> bool {
    constant(value).is_none() && result.is_integer() && value.sql_type > result
}

/// `value` with a conversion around it.
pub(crate) fn converted(value: Expression, target: SqlType) -> Expression {
    let node = Node::Cast { value: Box::new(value), length: 0, length_in_bytes: false };
    Expression { node, sql_type: target }
}

/// True for types whose values are represented alike: all integers are.
pub(crate) fn same_kind(a: SqlType, b: SqlType) -> bool {
    a == b || a.is_integer() && b.is_integer()
}

/// The type of a number that holds values of another number type as well.
pub(super) fn widened_to(sql_type: SqlType, wanted: SqlType) -> SqlType {
    match sql_type.is_number() && wanted.is_number() {
        true => combined(sql_type, wanted).unwrap_or(sql_type),
        false => sql_type,
    }
}

/// True for a parameter whose type nothing has decided.
pub(super) fn is_untyped_parameter(value: &Expression) -> bool {
    is_untyped(value) && matches!(value.node, Node::Parameter(_))
}

/// The type of values of either type, if they go together.
pub(super) fn combined(a: SqlType, b: SqlType) -> Option<SqlType> {
    Some(match (a, b) {
        (SqlType::Null, other) | (other, SqlType::Null) => other,
        (a, b) if a == b => a,
        (a, b) if a.is_number() && b.is_number() => {
            if a == SqlType::Float || b == SqlType::Float {
                SqlType::Float
            } else if a == SqlType::Decimal || b == SqlType::Decimal {
                SqlType::Decimal
            } else {
                a.max(b)
            }
        }
        _ => return None,
    })
}

/// Whether an assignment converts values of one type to another while it runs; a value that has
/// no counterpart fails there.
fn assignable(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (a, b) if a.is_number() && b.is_number() => true,
        (SqlType::Varchar, to) => to.is_number() || to == SqlType::Timestamp,
        (from, SqlType::Varchar) => from != SqlType::Boolean,
        (from, SqlType::Timestamp) => from.is_integer(),
        (SqlType::Timestamp, SqlType::BigInt) => true,
        _ => false,
    }
}

/// Whether there is a CAST between the types.
pub(super) fn castable(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (a, b) if a == b => true,
        (a, b) if a.is_number() && b.is_number() => true,
        (a, SqlType::Varchar) => a.is_number() || a == SqlType::Timestamp || a.is_geographic(),
        (SqlType::Varchar, _) => true,
        _ => false,
    }
}

fn cast_length(target: SqlType, declared: &DataType, in_bytes: bool) -> Result<u32, PlanError> {
    let Some(length) = declared.length else { return Ok(0) };
    let greatest = match target {
        SqlType::Varchar if !in_bytes => u64::from(MAX_VALUE_CHARACTERS),
        SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => u64::from(MAX_VALUE_BYTES),
        _ => return Ok(0),
    };
    if length == 0 || length > greatest {
        let message = format!("{target}({length}) is out of range (1 to {greatest})");
        return Err(PlanError::at(declared.span, message));
    }
    Ok(length as u32)
}

/// Constants that cannot be cast are refused while planning.
fn check_constant_cast(value: &Value, target: SqlType, span: Span) -> Result<(), PlanError> {
    let fail = |message: &str| Err(PlanError::at(span, format!("data exception: {message}")));
    if let Value::Text(text) = value {
        let text = text.trim();
        let number = || {
            Decimal::parse(text).is_ok()
                || text.parse::<f64>().is_ok_and(|v| v.is_finite())
                    && text.bytes().any(|b| b.is_ascii_digit())
        };
        return match target {
            SqlType::Timestamp if cast_timestamp(text).is_none() => fail("invalid datetime format"),
            target if target.is_number() && !number() => fail("invalid character value for cast"),
            _ => Ok(()),
        };
    }
    let Some((least, greatest)) = target.integer_range() else { return Ok(()) };
    let within = match value {
        Value::Int(v) => (least..=greatest).contains(v),
        Value::Float(v) => *v >= least as f64 - 1.0 && *v < greatest as f64 + 1.0,
        Value::Decimal(v) => {
            let whole = v.units() / lockstep_types::decimal::ONE;
            (i128::from(least)..=i128::from(greatest)).contains(&whole)
        }
        _ => true,
    };
    if within { Ok(()) } else { fail("numeric value out of range") }
}
