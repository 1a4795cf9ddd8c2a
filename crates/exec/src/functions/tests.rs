//! Functions called with literals: text in, text out. Answers are those that VoltDB 11.4 gives.
//!
//! A line is `NAME(arguments) => result`. Literals: `5` INTEGER, `5L` BIGINT, `2.5` DECIMAL,
//! `1E0` FLOAT, `'text'`, `X'00'`, `@2020-01-01 00:00:00` TIMESTAMP, `NULL`.

use super::*;
use crate::context::NoSubqueries;
use crate::evaluate::evaluate;
use lockstep_plan_ir::Node;
use lockstep_types::{Value, timestamp};

/// Splits arguments at commas outside quotes.
fn split(arguments: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, character) in arguments.char_indices() {
        match character {
            '\'' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn literal(text: &str) -> Expression {
    let unquoted = |text: &str| text.trim_matches('\'').replace("\\n", "\n");
    let (value, sql_type) = if text == "NULL" {
        (Value::Null, SqlType::Integer)
    } else if let Some(bytes) = text.strip_prefix("X'") {
        let bytes = crate::convert::hex_bytes(bytes.trim_matches('\'')).expect("hex");
        (Value::Bytes(bytes.into()), SqlType::Varbinary)
    } else if text.starts_with('\'') {
        (Value::Text(unquoted(text).into()), SqlType::Varchar)
    } else if let Some(time) = text.strip_prefix('@') {
        (Value::Timestamp(timestamp::parse(time).expect("a time")), SqlType::Timestamp)
    } else if let Some(number) = text.strip_suffix('L') {
        (Value::Int(number.parse().expect("an integer")), SqlType::BigInt)
    } else if text.contains('E') {
        (Value::Float(text.parse().expect("a double")), SqlType::Float)
    } else if text.contains('.') {
        (Value::Decimal(Decimal::parse(text).expect("a decimal")), SqlType::Decimal)
    } else {
        (Value::Int(text.parse().expect("an integer")), SqlType::Integer)
    };
    Expression::literal(value, sql_type)
}

fn answer(name: &str, arguments: &str) -> String {
    let function = Function::ALL.iter().find(|function| function.name() == name);
    let function = *function.unwrap_or_else(|| panic!("no function {name}"));
    let arguments: Vec<Expression> = split(arguments).into_iter().map(literal).collect();
    let bytes = arguments.iter().all(|argument| argument.sql_type == SqlType::Varbinary);
    let concatenates = bytes && function == Function::ConcatOperator;
    let sql_type = if concatenates { SqlType::Varbinary } else { SqlType::Varchar };
    let arena = Arena::new();
    let context =
        Context { parameters: &[], arena: &arena, now_us: 1_000_000, subqueries: &NoSubqueries };
    let call = Expression { node: Node::Call(function, arguments), sql_type };
    match evaluate(&call, &context, &Frame::new(&arena, 0)) {
        Ok(Datum::Text(text)) => format!("'{}'", text.replace('\n', "\\n")),
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {}", error.message().replace("\n ", "")),
    }
}

#[test]
fn functions_answer_as_recorded() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("cases.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (call, expected) = line.split_once(" => ").expect("a call and its result");
        let (name, arguments) = call.split_once('(').expect("a call");
        let actual = answer(name, arguments.strip_suffix(')').expect("a call"));
        count += 1;
        if actual != expected {
            wrong.push(format!("{call}\n  expected {expected}\n  actual   {actual}"));
        }
    }
    assert!(count > 200, "{count} cases");
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
}
