//! Number constants whose text says more than a DECIMAL holds.
//!
//! Such a constant is a DECIMAL, rounded to 12 decimals, unless a FLOAT is wanted where it stands:
//! then it is the double nearest to its text. Until that is known the constant is *open*: a CAST
//! of its text to DECIMAL. No open constant leaves the binder.

use super::cast::converted;
use super::literal::assign_constant;
use super::{Binder, literal};
use crate::error::PlanError;
use lockstep_plan_ir::{Expression, Node};
use lockstep_sql::ast::{self, Span};
use lockstep_types::decimal::DecimalError;
use lockstep_types::sql_type::NULL_FLOAT;
use lockstep_types::{Decimal, SqlType, Value};

/// The length of the CAST that an open constant is; no other CAST has it.
const OPEN: u32 = u32::MAX;

/// A number with a point, or an integer beyond BIGINT. Open if the double nearest to its text is
/// not the one nearest to its DECIMAL.
pub(super) fn number(text: &str) -> Expression {
    match Decimal::parse_rounded(text) {
        Ok(decimal) if text.parse() == Ok(decimal.to_f64()) => {
            Expression::literal(Value::Decimal(decimal), SqlType::Decimal)
        }
        _ => open(text.to_string()),
    }
}

fn open(text: String) -> Expression {
    let text = Expression::literal(Value::Text(text.into()), SqlType::Varchar);
    let node = Node::Cast { value: Box::new(text), length: OPEN, length_in_bytes: false };
    Expression { node, sql_type: SqlType::Decimal }
}

/// The text of an open constant.
fn open_text(expression: &Expression) -> Option<&str> {
    match &expression.node {
        Node::Cast { value, length: OPEN, .. } => match &value.node {
            Node::Literal(Value::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Minus an open constant.
pub(super) fn negated_open(expression: &Expression) -> Option<Expression> {
    let text = open_text(expression)?;
    Some(open(match text.strip_prefix('-') {
        Some(rest) => rest.to_string(),
        None => format!("-{text}"),
    }))
}

/// Whether the expression is a constant with a point, open or not, or an integer beyond BIGINT.
pub(super) fn is_decimal_constant(expression: &Expression) -> bool {
    matches!(expression.node, Node::Literal(Value::Decimal(_))) || open_text(expression).is_some()
}

/// Whether an open constant is the value, or may be it as the result of a CASE.
fn is_open(expression: &Expression) -> bool {
    match &expression.node {
        Node::Case { branches, otherwise } => {
            branches.iter().any(|(_, result)| is_open(result))
                || otherwise.as_deref().is_some_and(is_open)
        }
        _ => open_text(expression).is_some(),
    }
}

/// Decides an open constant for a place where `wanted` is the type of what it is put together
/// with.
///
/// # Errors
/// A number that the type does not hold.
pub(super) fn settle(
    expression: &mut Expression,
    wanted: SqlType,
    span: Span,
) -> Result<(), PlanError> {
    if !is_open(expression) {
        return Ok(());
    }
    match wanted {
        SqlType::Float => {
            let placeholder = Expression::literal(Value::Null, SqlType::Null);
            let taken = std::mem::replace(expression, placeholder);
            *expression = as_float(taken, span)?;
            Ok(())
        }
        _ => settle_as_decimal(expression, span),
    }
}

fn settle_as_decimal(expression: &mut Expression, span: Span) -> Result<(), PlanError> {
    if let Some(text) = open_text(expression) {
        let value = literal::decimal(text, span)?;
        *expression = Expression::literal(Value::Decimal(value), SqlType::Decimal);
    } else if let Node::Case { branches, otherwise } = &mut expression.node {
        for (_, result) in branches {
            settle_as_decimal(result, span)?;
        }
        if let Some(otherwise) = otherwise {
            settle_as_decimal(otherwise, span)?;
        }
    }
    Ok(())
}

/// A number as FLOAT: constants by their text, also those that are results of a CASE.
///
/// # Errors
/// A constant beyond the range of FLOAT.
pub(super) fn as_float(expression: Expression, span: Span) -> Result<Expression, PlanError> {
    if let Some(text) = open_text(&expression) {
        return Ok(Expression::literal(float(text, span)?, SqlType::Float));
    }
    if let Node::Literal(value) = &expression.node {
        let value = assign_constant(value, SqlType::Float, "", span)?;
        return Ok(Expression::literal(value, SqlType::Float));
    }
    if !is_open(&expression) {
        return Ok(converted(expression, SqlType::Float));
    }
    let node = match expression.node {
        Node::Case { branches, otherwise } => {
            let branches = branches.into_iter().map(|(condition, result)| {
                as_float(result, span).map(|result| (condition, result))
            });
            let branches = branches.collect::<Result<_, _>>()?;
            let otherwise = otherwise.map(|result| as_float(*result, span).map(Box::new));
            Node::Case { branches, otherwise: otherwise.transpose()? }
        }
        other => other,
    };
    Ok(Expression { node, sql_type: SqlType::Float })
}

/// The FLOAT that a text says: NULL from its sentinel downward.
///
/// # Errors
/// Text that is not a number, or one beyond the range of FLOAT.
pub(super) fn float(text: &str, span: Span) -> Result<Value, PlanError> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(float_value(value)),
        _ => Err(PlanError::at(span, format!("{text} is out of the range of FLOAT"))),
    }
}

/// A double as a value: NULL from the sentinel of FLOAT downward.
pub(super) fn float_value(value: f64) -> Value {
    if value <= NULL_FLOAT { Value::Null } else { Value::Float(value) }
}

/// A DECIMAL from text, rounded half away from zero at 12 decimals.
pub(super) fn decimal_of(text: &str) -> Result<Decimal, String> {
    Decimal::parse_rounded(text).map_err(|error| match error {
        DecimalError::TooLarge => {
            "Maximum precision exceeded. Maximum of 26 digits to the left of the decimal point"
                .to_string()
        }
        _ => format!("malformed numeric constant: {text}"),
    })
}

impl Binder<'_> {
    /// Binds an expression, as [`Binder::open_expression`]; constants that are open become
    /// DECIMAL.
    pub(super) fn expression(
        &mut self,
        expression: &ast::Expression,
    ) -> Result<Expression, PlanError> {
        self.settled_expression(expression, SqlType::Null)
    }

    /// As [`Binder::expression`], for a value of the type `wanted` (see
    /// [`Binder::wanted_expression`]).
    pub(super) fn settled_expression(
        &mut self,
        expression: &ast::Expression,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        let mut bound = self.wanted_expression(expression, wanted)?;
        settle(&mut bound, SqlType::Decimal, expression.span)?;
        Ok(bound)
    }
}
