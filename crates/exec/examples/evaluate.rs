//! Nanoseconds per evaluation of a few expressions over a computed row and over a table's row:
//! `cargo run --release -p lockstep-exec --example evaluate`.

#![allow(clippy::disallowed_types, reason = "a measurement needs a clock")]
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use lockstep_exec::arena::Arena;
use lockstep_exec::context::{Context, NoSubqueries};
use lockstep_exec::evaluate::{evaluate, is_true};
use lockstep_exec::frame::{Frame, Slot};
use lockstep_plan_ir::expression::{Arithmetic, Comparison};
use lockstep_plan_ir::{Expression, Function, Node};
use lockstep_types::{Datum, SqlType, Value};
use std::hint::black_box;
use std::time::Instant;

fn column(column: u16) -> Expression {
    Expression::column(0, column, SqlType::BigInt)
}

fn int(value: i64) -> Expression {
    Expression::literal(Value::Int(value), SqlType::BigInt)
}

fn boolean(node: Node) -> Expression {
    Expression { node, sql_type: SqlType::Boolean }
}

fn compared(comparison: Comparison, left: Expression, right: Expression) -> Expression {
    boolean(Node::Compare(comparison, Box::new(left), Box::new(right)))
}

fn plus(left: Expression, right: Expression) -> Expression {
    let node = Node::Arithmetic(Arithmetic::Add, Box::new(left), Box::new(right));
    Expression { node, sql_type: SqlType::BigInt }
}

fn main() {
    let text = Expression::column(0, 3, SqlType::Varchar);
    let length = Node::Call(Function::CharLength, vec![text.clone()]);
    let like = Node::Like {
        value: Box::new(text),
        pattern: Box::new(Expression::literal(Value::Text("%wor%".into()), SqlType::Varchar)),
        escape: None,
    };
    let key = || compared(Comparison::Equal, column(0), Expression::parameter(0, SqlType::BigInt));
    let expressions = [
        ("column", column(0)),
        ("column = ?", key()),
        ("column + 1", plus(column(0), int(1))),
        (
            "column = ? AND column < 9 AND column > column + 1",
            boolean(Node::And(vec![
                key(),
                compared(Comparison::Less, column(1), int(9)),
                compared(Comparison::Greater, column(2), plus(column(1), int(1))),
            ])),
        ),
        ("CHAR_LENGTH(text)", Expression { node: length, sql_type: SqlType::BigInt }),
        ("text LIKE '%wor%'", boolean(like)),
    ];
    let arena = Arena::new();
    let context = Context {
        parameters: &[Datum::Int(5)],
        arena: &arena,
        now_us: 0,
        subqueries: &NoSubqueries,
    };
    let row = [Datum::Int(5), Datum::Int(7), Datum::Int(100), Datum::Text("hello world")];
    let frame = Frame::new(&arena, 1);
    frame.bind(0, Slot::Values(&row));
    const ROUNDS: u32 = 5_000_000;
    for (name, expression) in &expressions {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let _ = black_box(evaluate(black_box(expression), &context, &frame));
        }
        println!("{:8.2} ns  {name}", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
        if expression.sql_type == SqlType::Boolean {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let _ = black_box(is_true(black_box(expression), &context, &frame));
            }
            let each = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
            println!("{each:8.2} ns  {name} (as a condition)");
        }
    }
}
