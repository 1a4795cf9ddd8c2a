//! Expressions over a one-row frame.

use super::*;
use crate::arena::Arena;
use crate::context::NoSubqueries;
use crate::frame::Slot;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_types::Value;

/// Evaluates over slot 0 = (1, NULL, 'abc', true) and parameters (5, [1, NULL, 7]).
fn eval(expression: &Expression) -> String {
    let arena = Arena::new();
    let array = [Datum::Int(1), Datum::Null, Datum::Int(7)].into_iter();
    let array = crate::convert::array_parameter(&arena, SqlType::Integer, array);
    let parameters: &[Datum<'_>] = arena.copy(&[Datum::Int(5), array]);
    let context = Context { parameters, arena: &arena, now_us: 0, subqueries: &NoSubqueries };
    let row: &[Datum<'_>] =
        arena.copy(&[Datum::Int(1), Datum::Null, Datum::Text("abc"), Datum::Bool(true)]);
    let frame = Frame::new(&arena, 2);
    frame.bind(0, Slot::Values(row));
    match evaluate(expression, &context, &frame) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn column(column: u16) -> Expression {
    Expression::column(0, column, SqlType::BigInt)
}

fn int(value: i64) -> Expression {
    Expression::literal(Value::Int(value), SqlType::BigInt)
}

fn null() -> Expression {
    Expression::literal(Value::Null, SqlType::BigInt)
}

fn boolean(node: Node) -> Expression {
    Expression { node, sql_type: SqlType::Boolean }
}

fn compared(comparison: Comparison, left: Expression, right: Expression) -> Expression {
    boolean(Node::Compare(comparison, Box::new(left), Box::new(right)))
}

fn not(inner: Expression) -> Expression {
    boolean(Node::Not(Box::new(inner)))
}

#[test]
fn logic_has_three_values() {
    let yes = || compared(Comparison::Equal, column(0), int(1));
    let no = || compared(Comparison::Greater, column(0), int(1));
    let unknown = || compared(Comparison::Less, column(1), int(1));
    for (expression, expected) in [
        (yes(), "TRUE"),
        (no(), "FALSE"),
        (unknown(), "NULL"),
        (not(unknown()), "NULL"),
        (boolean(Node::And(vec![yes(), unknown()])), "NULL"),
        (boolean(Node::And(vec![unknown(), no()])), "FALSE"),
        (boolean(Node::Or(vec![unknown(), yes()])), "TRUE"),
        (boolean(Node::Or(vec![no(), unknown()])), "NULL"),
        (boolean(Node::IsNull(Box::new(column(1)))), "TRUE"),
        (boolean(Node::IsNull(Box::new(Expression::column(1, 7, SqlType::Integer)))), "TRUE"),
        (compared(Comparison::Distinct, column(1), null()), "FALSE"),
        (compared(Comparison::Distinct, column(1), int(1)), "TRUE"),
        (compared(Comparison::NotDistinct, column(0), int(1)), "TRUE"),
        (
            compared(Comparison::Equal, column(0), column(2)),
            "error: Type BIGINT cannot be cast for comparison to type VARCHAR",
        ),
    ] {
        assert_eq!(eval(&expression), expected, "{expression:?}");
    }
}

#[test]
fn lists_with_null_are_never_unknown() {
    let within = |value: Expression, list: Vec<Expression>| {
        boolean(Node::InList { value: Box::new(value), list })
    };
    let array = |value| boolean(Node::InArray { value: Box::new(value), parameter: 1 });
    for (expression, expected) in [
        (within(int(1), vec![int(2), int(1)]), "TRUE"),
        (within(int(1), vec![int(2), null()]), "FALSE"),
        (within(null(), vec![int(2), null()]), "NULL"),
        (array(int(7)), "TRUE"),
        (array(int(2)), "FALSE"),
        (array(null()), "NULL"),
    ] {
        assert_eq!(eval(&expression), expected, "{expression:?}");
    }
}

#[test]
fn rows_compare_from_the_left() {
    let rows = |comparison, left: Vec<Expression>, right: Vec<Expression>| {
        boolean(Node::CompareRows(comparison, left, right))
    };
    use Comparison::*;
    for (expression, expected) in [
        (rows(Equal, vec![int(1), int(2)], vec![int(1), int(2)]), "TRUE"),
        (rows(Equal, vec![null(), int(2)], vec![int(1), int(3)]), "FALSE"),
        (rows(Equal, vec![null(), int(2)], vec![int(1), int(2)]), "NULL"),
        (rows(Less, vec![int(1), int(2)], vec![int(1), int(3)]), "TRUE"),
        (rows(Less, vec![int(1), int(9)], vec![int(2), null()]), "TRUE"),
        (rows(Less, vec![null(), int(9)], vec![int(2), int(1)]), "NULL"),
        (rows(NotDistinct, vec![null(), int(9)], vec![null(), int(9)]), "TRUE"),
        (rows(Distinct, vec![null()], vec![int(2)]), "TRUE"),
    ] {
        assert_eq!(eval(&expression), expected, "{expression:?}");
    }
}

#[test]
fn values_are_computed() {
    let of = |node, sql_type| Expression { node, sql_type };
    let plus = of(
        Node::Arithmetic(
            Arithmetic::Add,
            Box::new(column(0)),
            Box::new(Expression::parameter(0, SqlType::BigInt)),
        ),
        SqlType::BigInt,
    );
    assert_eq!(eval(&plus), "6");
    let case = |otherwise| Node::Case {
        branches: vec![(compared(Comparison::Equal, column(1), int(1)), int(1))],
        otherwise,
    };
    assert_eq!(eval(&of(case(Some(Box::new(int(2)))), SqlType::Decimal)), "2.000000000000");
    assert_eq!(eval(&of(case(None), SqlType::BigInt)), "NULL");
    assert_eq!(eval(&of(Node::Negate(Box::new(column(0))), SqlType::BigInt)), "-1");
    let cast = Node::Cast { value: Box::new(column(0)), length: 1, length_in_bytes: false };
    assert_eq!(eval(&of(cast, SqlType::Varchar)), "1");
    let literal_cast = |value, from, to| {
        let value = Box::new(Expression::literal(value, from));
        eval(&of(Node::Cast { value, length: 0, length_in_bytes: false }, to))
    };
    let written = Value::Decimal(lockstep_types::Decimal::parse("127.9").expect("a number"));
    assert_eq!(literal_cast(written, SqlType::Decimal, SqlType::Varchar), "127.9");
    let hex = Value::Text("0aFF".into());
    assert_eq!(literal_cast(hex, SqlType::Varchar, SqlType::Varbinary), "0AFF");
    let prefix = Expression::literal(Value::Text("ab".into()), SqlType::Varchar);
    let starts = Node::StartsWith(Box::new(column(2)), Box::new(prefix));
    assert_eq!(eval(&boolean(starts)), "TRUE");
}

#[test]
fn conditions_leave_the_statement_s_memory_alone() {
    use lockstep_plan_ir::Function;
    let arena = Arena::new();
    let context = Context { parameters: &[], arena: &arena, now_us: 0, subqueries: &NoSubqueries };
    let frame = Frame::new(&arena, 1);
    let row: &[Datum<'_>] = arena.copy(&[Datum::Null, Datum::Null, Datum::Text("abc")]);
    frame.bind(0, Slot::Values(row));
    let text = Expression::column(0, 2, SqlType::Varchar);
    let upper = Node::Call(Function::Upper, vec![text]);
    let upper = Expression { node: upper, sql_type: SqlType::Varchar };
    let literal = Expression::literal(Value::Text("ABC".into()), SqlType::Varchar);
    let condition = compared(Comparison::Equal, upper, literal);
    let before = arena.used_bytes();
    for _ in 0..1_000 {
        assert_eq!(is_true(&condition, &context, &frame), Ok(true));
    }
    assert_eq!(arena.used_bytes(), before);
}
