//! Constants: from text to values, and from one type to another while planning.

use super::number::{decimal_of, float, float_value, negated_open, number, settle};
use super::{BAD_CONVERSION, CAST_NEEDED};
use crate::error::PlanError;
use lockstep_plan_ir::schema::DefaultValue;
use lockstep_plan_ir::{Expression, Node};
use lockstep_sql::ast::{self, ExpressionKind, Literal, Span, UnaryOperator};
use lockstep_types::decimal::ONE;
use lockstep_types::geography::read_polygon;
use lockstep_types::{Decimal, SqlType, Value, timestamp};

/// The expression of a literal; that of a number may be open.
pub(super) fn literal(literal: &Literal, span: Span) -> Result<Expression, PlanError> {
    let (value, sql_type) = match literal {
        Literal::Integer(text) => match text.parse::<i64>() {
            Ok(value) => (Value::Int(value), integer_type(value)),
            Err(_) => return Ok(number(text)),
        },
        Literal::Decimal(text) => return Ok(number(text)),
        Literal::Null => (Value::Null, SqlType::Null),
        Literal::Boolean(value) => (Value::Bool(*value), SqlType::Boolean),
        Literal::Float(text) => (float(text, span)?, SqlType::Float),
        Literal::String(text) => (Value::Text(text.as_str().into()), SqlType::Varchar),
        Literal::Hex(digits) => (Value::Bytes(hex(digits, span)?), SqlType::Varbinary),
        Literal::Timestamp(text) => (time(text, span)?, SqlType::Timestamp),
        Literal::Date(text) => (time(text, span)?, SqlType::Timestamp),
    };
    Ok(Expression::literal(value, sql_type))
}

/// INTEGER if the value fits, else BIGINT.
pub(super) fn integer_type(value: i64) -> SqlType {
    if i32::try_from(value).is_ok_and(|v| v > i32::MIN) {
        SqlType::Integer
    } else {
        SqlType::BigInt
    }
}

/// A DECIMAL from text, rounded at 12 decimals.
pub(super) fn decimal(text: &str, span: Span) -> Result<Decimal, PlanError> {
    decimal_of(text).map_err(|message| PlanError::at(span, message))
}

fn hex(digits: &str, span: Span) -> Result<Box<[u8]>, PlanError> {
    if digits.len() % 2 == 1 {
        let message = format!("malformed binary string: X'{digits}' has an odd digit");
        return Err(PlanError::at(span, message));
    }
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits
        .as_bytes()
        .chunks(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .map(Vec::into_boxed_slice)
        .ok_or_else(|| PlanError::at(span, format!("malformed binary constant: X'{digits}'")))
}

fn time(text: &str, span: Span) -> Result<Value, PlanError> {
    timestamp::parse(text).map(Value::Timestamp).ok_or_else(|| {
        PlanError::at(span, format!("data exception: invalid datetime format: '{text}'"))
    })
}

/// A timestamp constant with blanks around it, or with a day past the end of its month, which
/// counts on into the next.
pub(super) fn lenient_timestamp(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(micros) = timestamp::parse(text) {
        return Some(micros);
    }
    let day: i64 = text.get(8..10)?.parse().ok().filter(|day| (29..=31).contains(day))?;
    let first = format!("{}01{}", text.get(..8)?, text.get(10..)?);
    timestamp::parse(&first)?.checked_add((day - 1) * timestamp::DAY_US)
}

/// A timestamp constant of CAST: digits after the sixth of the fraction are cut off. Days that a
/// month lacks are refused, unlike in constants of INSERT.
pub(super) fn cast_timestamp(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.get(20..).is_some_and(|f| f.bytes().all(|b| b.is_ascii_digit()));
    let cut = if digits { text.get(..26).unwrap_or(text) } else { text };
    timestamp::parse(cut)
}

/// A hex constant as BIGINT: up to 16 digits, two's complement.
fn bytes_to_integer(bytes: &[u8], span: Span) -> Result<i64, PlanError> {
    if bytes.is_empty() || bytes.len() > 8 {
        return Err(PlanError::at(
            span,
            "As hex integer literals, at most 16 digits (and at least one) are allowed",
        ));
    }
    let value = bytes.iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
    Ok(value as i64)
}

/// A hex constant as a BIGINT value: X'8000000000000000' is NULL, the number that stands for it.
///
/// # Errors
/// More than 16 digits, or none.
pub(super) fn hex_integer(bytes: &[u8], span: Span) -> Result<Value, PlanError> {
    Ok(integer_or_null(bytes_to_integer(bytes, span)?))
}

fn integer_or_null(value: i64) -> Value {
    if value == i64::MIN { Value::Null } else { Value::Int(value) }
}

/// The value of a literal node.
pub(super) fn constant(expression: &Expression) -> Option<&Value> {
    match &expression.node {
        Node::Literal(value) => Some(value),
        _ => None,
    }
}

/// Brings a constant to another type for an assignment to a column (`context` names it).
///
/// Integers keep their value whatever the width: the range is the executor's to check, but
/// constants that cannot fit are refused here, as VoltDB does.
pub(super) fn assign_constant(
    value: &Value,
    target: SqlType,
    context: &str,
    span: Span,
) -> Result<Value, PlanError> {
    let invalid = || {
        let kind = target.name().to_ascii_lowercase();
        let message =
            format!("Value ({value}) has an invalid format for a constant {kind} value{context}");
        PlanError::at(span, message)
    };
    if target.is_integer() {
        return assign_integer(value, target, context, span).ok_or_else(invalid)?;
    }
    Ok(match (value, target) {
        (Value::Null, _) => Value::Null,
        (Value::Bytes(v), _)
            if matches!(target, SqlType::Float | SqlType::Decimal | SqlType::Timestamp)
                && bytes_to_integer(v, span)? == i64::MIN =>
        {
            Value::Null
        }
        (Value::Float(v), SqlType::Float) => float_value(*v),
        (Value::Decimal(_), SqlType::Decimal)
        | (Value::Text(_), SqlType::Varchar)
        | (Value::Bytes(_), SqlType::Varbinary)
        | (Value::Timestamp(_), SqlType::Timestamp)
        | (Value::Point(_), SqlType::GeographyPoint) => value.clone(),
        (Value::Bytes(v), SqlType::Geography) if read_polygon(v).is_ok() => value.clone(),
        (Value::Int(v), SqlType::Float) => Value::Float(*v as f64),
        (Value::Decimal(v), SqlType::Float) => Value::Float(v.to_f64()),
        (Value::Text(v), SqlType::Float) => float(v.trim(), span).map_err(|_| invalid())?,
        (Value::Bytes(v), SqlType::Float) => Value::Float(bytes_to_integer(v, span)? as f64),
        (Value::Int(v), SqlType::Decimal) => Value::Decimal(Decimal::from_integer(*v)),
        (Value::Float(v), SqlType::Decimal) => {
            Value::Decimal(Decimal::parse(&format!("{v:.12}")).map_err(|_| invalid())?)
        }
        (Value::Text(v), SqlType::Decimal) => {
            Value::Decimal(decimal(v.trim(), span).map_err(|_| invalid())?)
        }
        (Value::Bytes(v), SqlType::Decimal) => {
            Value::Decimal(Decimal::from_integer(bytes_to_integer(v, span)?))
        }
        (Value::Text(v), SqlType::Timestamp) => {
            Value::Timestamp(lenient_timestamp(v).ok_or_else(invalid)?)
        }
        (Value::Int(v), SqlType::Timestamp) => Value::Timestamp(*v),
        (Value::Bytes(v), SqlType::Timestamp) => Value::Timestamp(bytes_to_integer(v, span)?),
        (Value::Text(v), SqlType::Varbinary) => Value::Bytes(hex(v, span).map_err(|_| invalid())?),
        _ => return Err(invalid()),
    })
}

/// `None` if the value is none for an integer; the inner error is about its range.
fn assign_integer(
    value: &Value,
    target: SqlType,
    context: &str,
    span: Span,
) -> Option<Result<Value, PlanError>> {
    let number = match value {
        Value::Null => return Some(Ok(Value::Null)),
        Value::Int(v) => *v,
        Value::Text(text) => text.trim().parse().ok()?,
        Value::Bytes(bytes) => match hex_integer(bytes, span) {
            Ok(Value::Int(v)) => v,
            null_or_error => return Some(null_or_error),
        },
        _ => return None,
    };
    let (least, greatest) = target.integer_range()?;
    // The value just below the range is the sentinel of NULL; BIGINT's is left to execution.
    if (least..=greatest).contains(&number) || target == SqlType::BigInt {
        return Some(Ok(Value::Int(number)));
    }
    let message = format!("Constant value overflows/underflows {target} type.{context}");
    Some(Err(PlanError::at(span, message)))
}

/// Binds a column's DEFAULT: a literal, with a sign or not, brought to the column's type
/// (not checked against its range and length), NULL, or NOW.
///
/// # Errors
/// What is no constant, or none of that type.
pub(crate) fn bind_default(
    sql_type: SqlType,
    expression: &ast::Expression,
) -> Result<DefaultValue, PlanError> {
    bind_value(sql_type, expression, true)
}

/// Binds an argument of a task's procedure as [`bind_default`] does, but refuses numbers that are
/// not of the parameter's kind.
///
/// # Errors
/// As for [`bind_default`].
pub(crate) fn bind_argument(
    sql_type: SqlType,
    expression: &ast::Expression,
) -> Result<DefaultValue, PlanError> {
    bind_value(sql_type, expression, false)
}

fn bind_value(
    sql_type: SqlType,
    expression: &ast::Expression,
    lenient: bool,
) -> Result<DefaultValue, PlanError> {
    let (kind, negative) = match &expression.kind {
        ExpressionKind::Unary { operator, operand } => {
            (&operand.kind, *operator == UnaryOperator::Minus)
        }
        kind => (kind, false),
    };
    match kind {
        ExpressionKind::Literal(text) => {
            let mut bound = literal(text, expression.span)?;
            if negative && let Some(opposite) = negated_open(&bound) {
                bound = opposite;
                settle(&mut bound, sql_type, expression.span)?;
            } else {
                settle(&mut bound, sql_type, expression.span)?;
                let value = constant(&bound).cloned().unwrap_or(Value::Null);
                let value = if negative { negated(&value, expression.span)? } else { value };
                bound = Expression::literal(value, bound.sql_type);
            }
            let value = constant(&bound).cloned().unwrap_or(Value::Null);
            if value == Value::Null {
                return Ok(DefaultValue::None);
            }
            let value = match lenient {
                true => default_constant(value, text, negative, sql_type),
                false => value,
            };
            let value = assign_constant(&value, sql_type, "", expression.span)?;
            Ok(DefaultValue::Constant(value))
        }
        ExpressionKind::Function(call)
            if matches!(call.name.as_str(), "NOW" | "CURRENT_TIMESTAMP")
                && call.arguments.is_empty()
                && !negative =>
        {
            if sql_type == SqlType::Timestamp {
                Ok(DefaultValue::Now)
            } else {
                Err(PlanError::at(expression.span, BAD_CONVERSION))
            }
        }
        ExpressionKind::Parameter(_) => Err(PlanError::at(expression.span, CAST_NEEDED)),
        _ => Err(PlanError::at(
            expression.span,
            "unexpected token: DEFAULT takes a constant or CURRENT_TIMESTAMP only",
        )),
    }
}

/// A DEFAULT for a column that takes it in another form: integers take the part before the point
/// of a number, text what was written of a number, the digits of a FLOAT as Java writes them, and
/// the hex digits of bytes.
fn default_constant(value: Value, written: &Literal, negative: bool, target: SqlType) -> Value {
    let sign = if negative { "-" } else { "" };
    match (&value, written, target) {
        (Value::Decimal(number), ..) if target.is_integer() => {
            i64::try_from(number.units() / ONE).map_or(value, Value::Int)
        }
        (Value::Float(number), ..) if target.is_integer() => match number.trunc() {
            // Casts of what is beyond 64 bits would end at their greatest number.
            whole if whole.abs() < i64::MAX as f64 => Value::Int(whole as i64),
            _ => value,
        },
        (_, Literal::Integer(text) | Literal::Decimal(text), SqlType::Varchar) => {
            Value::Text(format!("{sign}{text}").into())
        }
        (Value::Float(number), _, SqlType::Varchar) => Value::Text(float_text(*number).into()),
        (Value::Bytes(bytes), _, SqlType::Varchar) => {
            Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
        }
        _ => value,
    }
}

/// A FLOAT as the text of a DEFAULT: `12.5E0`, `1.0E10`, as Java writes it, with an exponent.
fn float_text(number: f64) -> String {
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return format!("{number:?}E0");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// Minus a number constant.
pub(super) fn negated(value: &Value, span: Span) -> Result<Value, PlanError> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(v) => match v.checked_neg() {
            Some(v) => Ok(Value::Int(v)),
            None => Ok(Value::Decimal(Decimal::from_raw(-Decimal::from_integer(*v).units()))),
        },
        Value::Float(v) => Ok(float_value(-v)),
        Value::Decimal(v) => {
            let units = -v.units();
            // 9223372036854775808 is a DECIMAL, its negative the sentinel of BIGINT.
            Ok(Value::Decimal(Decimal::from_raw(units)))
        }
        Value::Bytes(bytes) => Ok(integer_or_null(bytes_to_integer(bytes, span)?.wrapping_neg())),
        _ => Err(PlanError::at(span, super::BAD_OPERATION)),
    }
}
