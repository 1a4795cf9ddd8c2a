//! Arithmetic and comparisons: which types go together, and what comes out.

use super::aggregate::any_expression;
use super::cast::{is_untyped_parameter, widened_to};
use super::expression::boolean;
use super::literal::{constant, hex_integer, integer_type, negated};
use super::number::{is_decimal_constant, negated_open, settle};
use super::subquery::may_be_row;
use super::{BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::{Comparison, Expression, Function, Node};
use lockstep_sql::ast::{self, BinaryOperator, ExpressionKind, Span, UnaryOperator};
use lockstep_types::{SqlType, Value, timestamp};

impl Binder<'_> {
    /// `-a` and `+a`.
    pub(super) fn unary(
        &mut self,
        operator: UnaryOperator,
        operand: &ast::Expression,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        // 9223372036854775808 alone is a DECIMAL; with its sign it is within 64 bits, if only
        // as the sentinel of NULL, which execution refuses.
        if let (UnaryOperator::Minus, ExpressionKind::Literal(ast::Literal::Integer(text))) =
            (operator, &operand.kind)
            && text.trim_start_matches('0') == "9223372036854775808"
        {
            return Ok(Expression::literal(Value::Int(i64::MIN), SqlType::BigInt));
        }
        let bound = self.wanted_expression(operand, wanted)?;
        if operator == UnaryOperator::Plus {
            return Ok(bound);
        }
        if let Some(opposite) = negated_open(&bound) {
            return Ok(opposite);
        }
        if let Some(value) = constant(&bound) {
            let value = negated(value, operand.span)?;
            let sql_type = match bound.sql_type {
                SqlType::Varbinary => SqlType::BigInt,
                sql_type => sql_type,
            };
            return Ok(Expression::literal(value, sql_type));
        }
        if is_untyped(&bound) {
            return Err(PlanError::at(operand.span, CAST_NEEDED));
        }
        if !bound.sql_type.is_number() {
            return Err(super::bad_type(operand.span, BAD_OPERATION, bound.sql_type, "a number"));
        }
        let sql_type = bound.sql_type;
        Ok(Expression { node: Node::Negate(Box::new(bound)), sql_type })
    }

    /// Operators with two operands.
    pub(super) fn binary(
        &mut self,
        operator: BinaryOperator,
        left: &ast::Expression,
        right: &ast::Expression,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        if let Some(comparison) = comparison_of(operator) {
            return self.comparison(comparison, left, right, span);
        }
        if operator == BinaryOperator::Concat {
            let (a, b) = (self.open_expression(left)?, self.open_expression(right)?);
            return self.concatenation(a, b, span);
        }
        let a = self.wanted_expression(left, wanted)?;
        let b = self.wanted_expression(right, wanted)?;
        let arithmetic = match operator {
            BinaryOperator::Add => Arithmetic::Add,
            BinaryOperator::Subtract => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            _ => Arithmetic::Remainder,
        };
        self.arithmetic(arithmetic, a, b, wanted, span)
    }

    fn concatenation(
        &mut self,
        mut a: Expression,
        mut b: Expression,
        span: Span,
    ) -> Result<Expression, PlanError> {
        settle(&mut a, SqlType::Decimal, span)?;
        settle(&mut b, SqlType::Decimal, span)?;
        let null = [&a, &b].iter().any(|e| is_untyped(e) && constant(e).is_some());
        if null || is_untyped(&a) && is_untyped(&b) {
            return Err(PlanError::at(span, CAST_NEEDED));
        }
        let bytes = [&a, &b].iter().any(|e| e.sql_type == SqlType::Varbinary);
        let sql_type = if bytes { SqlType::Varbinary } else { SqlType::Varchar };
        self.give_type(&mut a, sql_type);
        self.give_type(&mut b, sql_type);
        for operand in [&a, &b] {
            let fits = match operand.sql_type {
                SqlType::Varbinary => bytes,
                SqlType::Boolean => false,
                _ => !bytes,
            };
            if !fits {
                return Err(super::bad_combination(span, a.sql_type, b.sql_type));
            }
        }
        Ok(Expression { node: Node::Call(Function::ConcatOperator, vec![a, b]), sql_type })
    }

    /// `a op b` for bound operands. A parameter takes the type of the other operand, or of
    /// `wanted` where that holds more.
    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        mut a: Expression,
        mut b: Expression,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let null = [&a, &b].iter().any(|e| is_untyped(e) && constant(e).is_some());
        if null || is_untyped(&a) && is_untyped(&b) {
            return Err(PlanError::at(span, CAST_NEEDED));
        }
        hex_as_integer(&mut a, span)?;
        hex_as_integer(&mut b, span)?;
        let type_a = type_for_parameter(&a, &b, wanted);
        let type_b = type_for_parameter(&b, &a, wanted);
        settle(&mut a, type_b, span)?;
        settle(&mut b, type_a, span)?;
        self.give_type(&mut a, widened_to(widened(type_b), wanted));
        self.give_type(&mut b, widened_to(widened(type_a), wanted));
        let texts = [&a, &b].iter().filter(|e| e.sql_type == SqlType::Varchar).count();
        if operator == Arithmetic::Add && texts > 0 {
            // As for `||`: what is no text becomes one.
            let joins = |e: &Expression| {
                let sql_type = e.sql_type;
                matches!(sql_type, SqlType::Varchar | SqlType::Timestamp) || sql_type.is_number()
            };
            if joins(&a) && joins(&b) {
                let node = Node::Call(Function::AddText, vec![a, b]);
                return Ok(Expression { node, sql_type: SqlType::Varchar });
            }
        }
        if !a.sql_type.is_number() || !b.sql_type.is_number() {
            let both = SqlType::Timestamp;
            return Err(match (a.sql_type, b.sql_type) {
                (a, b) if a == both && b == both => {
                    PlanError::at(span, "interval qualifier missing")
                }
                (a, b) => super::bad_combination(span, a, b),
            });
        }
        if let (Some(Value::Int(x)), Some(Value::Int(y))) = (constant(&a), constant(&b))
            && let Some(folded) = fold(operator, *x, *y, a.sql_type, b.sql_type)
        {
            return Ok(folded);
        }
        let sql_type = result_type(a.sql_type, b.sql_type);
        let node = Node::Arithmetic(operator, Box::new(a), Box::new(b));
        Ok(Expression { node, sql_type })
    }

    /// A comparison of two expressions or rows.
    pub(super) fn comparison(
        &mut self,
        comparison: Comparison,
        left: &ast::Expression,
        right: &ast::Expression,
        span: Span,
    ) -> Result<Expression, PlanError> {
        match (&left.kind, &right.kind) {
            (ExpressionKind::Row(a), ExpressionKind::Row(b)) => {
                self.compare_rows(comparison, a, b, span)
            }
            (ExpressionKind::Row(_), ExpressionKind::Subquery(query)) => {
                self.compare_row_with_subquery(comparison, left, query)
            }
            (ExpressionKind::Subquery(query), ExpressionKind::Row(_)) => {
                self.compare_row_with_subquery(comparison.mirrored(), right, query)
            }
            (ExpressionKind::Subquery(a), ExpressionKind::Subquery(b))
                if may_be_row(a) || may_be_row(b) =>
            {
                self.compare_subqueries(comparison, a, b, span)
            }
            _ => {
                let (a, b) = self.compared(left, right)?;
                self.compare(comparison, a, b, span)
            }
        }
    }

    /// The two sides of a comparison. A FLOAT or DECIMAL on one side is what parameters in
    /// arithmetic on the other side hold.
    fn compared(
        &mut self,
        left: &ast::Expression,
        right: &ast::Expression,
    ) -> Result<(Expression, Expression), PlanError> {
        let has_parameter =
            |side: &ast::Expression| any_expression(side, &mut |e| is_parameter(&e.kind));
        if !self.parameters.is_empty() && has_parameter(left) && !has_parameter(right) {
            let b = self.open_expression(right)?;
            let a = self.wanted_expression(left, fraction(b.sql_type))?;
            return Ok((a, b));
        }
        let a = self.open_expression(left)?;
        let b = self.wanted_expression(right, fraction(a.sql_type))?;
        Ok((a, b))
    }

    fn compare_rows(
        &mut self,
        comparison: Comparison,
        a: &[ast::Expression],
        b: &[ast::Expression],
        span: Span,
    ) -> Result<Expression, PlanError> {
        if a.len() != b.len() {
            return Err(PlanError::at(span, "row column count mismatch"));
        }
        let mut lefts = Vec::with_capacity(a.len());
        let mut rights = Vec::with_capacity(b.len());
        for (left, right) in a.iter().zip(b) {
            let mut x = self.open_expression(left)?;
            let mut y = self.open_expression(right)?;
            self.harmonize(&mut x, &mut y, left.span)?;
            lefts.push(x);
            rights.push(y);
        }
        Ok(boolean(Node::CompareRows(comparison, lefts, rights)))
    }

    /// A comparison of bound operands.
    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        mut a: Expression,
        mut b: Expression,
        span: Span,
    ) -> Result<Expression, PlanError> {
        self.harmonize(&mut a, &mut b, span)?;
        Ok(boolean(Node::Compare(comparison, Box::new(a), Box::new(b))))
    }

    /// Brings two values to be compared to one kind.
    pub(super) fn harmonize(
        &mut self,
        a: &mut Expression,
        b: &mut Expression,
        span: Span,
    ) -> Result<(), PlanError> {
        for operand in [&*a, &*b] {
            if is_untyped(operand) && constant(operand).is_some() {
                return Err(PlanError::at(span, CAST_NEEDED));
            }
        }
        if is_untyped(a) && is_untyped(b) {
            return Err(PlanError::at(span, CAST_NEEDED));
        }
        let (type_a, type_b) = (a.sql_type, b.sql_type);
        settle(a, type_b, span)?;
        settle(b, type_a, span)?;
        self.give_type(a, widened(type_b));
        self.give_type(b, widened(type_a));
        for (operand, other) in [(&mut *a, type_b), (&mut *b, type_a)] {
            if other == SqlType::Timestamp {
                text_as_timestamp(operand, span)?;
            } else if other.is_number() {
                hex_as_integer(operand, span)?;
            }
        }
        let comparable =
            a.sql_type == b.sql_type || a.sql_type.is_number() && b.sql_type.is_number();
        if comparable {
            return Ok(());
        }
        Err(super::bad_combination(span, a.sql_type, b.sql_type))
    }
}

fn is_parameter(kind: &ExpressionKind) -> bool {
    matches!(kind, ExpressionKind::Parameter(_))
}

/// The type itself if it is one of numbers with fractions, else none.
fn fraction(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Float | SqlType::Decimal => sql_type,
        _ => SqlType::Null,
    }
}

/// The type that `operand` gives to a parameter, which `other` may be: a number constant with a
/// point stands for a FLOAT unless another type is wanted.
fn type_for_parameter(operand: &Expression, other: &Expression, wanted: SqlType) -> SqlType {
    let floats =
        wanted == SqlType::Null && is_untyped_parameter(other) && is_decimal_constant(operand);
    if floats { SqlType::Float } else { operand.sql_type }
}

/// The type of arithmetic between two numbers.
fn result_type(a: SqlType, b: SqlType) -> SqlType {
    if a == SqlType::Float || b == SqlType::Float {
        SqlType::Float
    } else if a == SqlType::Decimal || b == SqlType::Decimal {
        SqlType::Decimal
    } else {
        SqlType::BigInt
    }
}

/// The comparison of an operator, if it is one.
pub(super) fn comparison_of(operator: BinaryOperator) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Equal => Comparison::Equal,
        BinaryOperator::NotEqual => Comparison::NotEqual,
        BinaryOperator::Less => Comparison::Less,
        BinaryOperator::LessOrEqual => Comparison::LessOrEqual,
        BinaryOperator::Greater => Comparison::Greater,
        BinaryOperator::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The type that a parameter takes from the other operand.
pub(super) fn widened(sql_type: SqlType) -> SqlType {
    if sql_type.is_integer() { SqlType::BigInt } else { sql_type }
}

/// A hex constant becomes a BIGINT where a number is expected.
fn hex_as_integer(expression: &mut Expression, span: Span) -> Result<(), PlanError> {
    if let Some(Value::Bytes(bytes)) = constant(expression) {
        *expression = Expression::literal(hex_integer(bytes, span)?, SqlType::BigInt);
    }
    Ok(())
}

/// A text constant becomes a TIMESTAMP where one is expected.
fn text_as_timestamp(expression: &mut Expression, span: Span) -> Result<(), PlanError> {
    if let Some(Value::Text(text)) = constant(expression) {
        let Some(micros) = timestamp::parse(text) else {
            return Err(PlanError::at(span, "data exception: invalid datetime format"));
        };
        *expression = Expression::literal(Value::Timestamp(micros), SqlType::Timestamp);
    }
    Ok(())
}

/// Integer arithmetic on constants, where it neither overflows nor divides by zero. `*` gives a
/// BIGINT, the others an INTEGER where the operands are and the result fits.
fn fold(operator: Arithmetic, x: i64, y: i64, a: SqlType, b: SqlType) -> Option<Expression> {
    let value = match operator {
        Arithmetic::Add => x.checked_add(y),
        Arithmetic::Subtract => x.checked_sub(y),
        Arithmetic::Multiply => x.checked_mul(y),
        Arithmetic::Divide => x.checked_div(y),
        Arithmetic::Remainder => x.checked_rem(y),
    }?;
    if value == i64::MIN {
        return None;
    }
    let wide = operator == Arithmetic::Multiply || a == SqlType::BigInt || b == SqlType::BigInt;
    let sql_type = if wide { SqlType::BigInt } else { integer_type(value) };
    Some(Expression::literal(Value::Int(value), sql_type))
}
