//! Values that a global index has to be asked for: where the rows of a key live.
//!
//! A statement that restricts the key of a global index, and not the partitioning columns, runs
//! where the index says. Its plan names the partition by *places*: each stands for the value of a
//! partitioning column in the index's entries for a key. The one that routes the statement asks the
//! index first ([`Lookup`]); nothing else evaluates a place.

use crate::expression::{Expression, Node};
use crate::function::Function;
use crate::relation::Relation;
use crate::statement::{Execution, IndexUpkeep, Operation, Query, Statement, StatementParameter};
use lockstep_types::{SqlType, TableId, TableSchema, Value};

/// A question to a global index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lookup<'e> {
    /// The table of the index's entries.
    pub entries: TableId,
    /// The whole key: literals and parameters.
    pub keys: &'e [Expression],
}

/// The place of a key's rows: the value that column `column` of the entries has for the key.
pub fn place(entries: TableId, column: u16, sql_type: SqlType, keys: &[Expression]) -> Expression {
    let number = |number: i64| Expression::literal(Value::Int(number), SqlType::BigInt);
    let mut parts = vec![number(entries.0.into()), number(column.into())];
    parts.extend_from_slice(keys);
    Expression { node: Node::Call(Function::PlaceOf, parts), sql_type }
}

/// The question to a unique global index where the row with a key lives, as a statement whose
/// parameters are the key: for transactions that have to know that first. It is only asked, never
/// run.
pub fn question(entries: TableId, key_types: &[SqlType]) -> Statement {
    let key = |(number, sql_type): (usize, &SqlType)| Expression {
        node: Node::Parameter(number as u16),
        sql_type: *sql_type,
    };
    let keys: Vec<Expression> = key_types.iter().enumerate().map(key).collect();
    let place = place(entries, key_types.len() as u16, SqlType::BigInt, &keys);
    let parameter =
        |sql_type: &SqlType| StatementParameter { sql_type: *sql_type, is_array: false };
    let operation = Operation::Query(Query { relation: Relation::OneRow, output: Vec::new() });
    let no_columns: [(&str, SqlType); 0] = [];
    Statement {
        text: "where the row of a key lives".to_string(),
        parameters: key_types.iter().map(parameter).collect(),
        result: TableSchema::new(&no_columns),
        read_only: true,
        execution: Execution::Local { operation, routing: Some(place) },
        guards: Vec::new(),
        slot_count: 0,
        subquery_count: 0,
        ordered: false,
        upkeep: IndexUpkeep::None,
        needs_entries: false,
    }
}

impl Lookup<'_> {
    /// What has to be asked before it is known where rows with this partitioning value live: the
    /// value is a place, or a key of several places of one index. Any other value needs no
    /// question.
    pub fn of(value: &Expression) -> Option<Lookup<'_>> {
        match &value.node {
            Node::Call(Function::PartitionKey, parts) => Lookup::of(parts.first()?),
            Node::Call(Function::PlaceOf, parts) => {
                let [Expression { node: Node::Literal(Value::Int(entries)), .. }, _, keys @ ..] =
                    parts.as_slice()
                else {
                    return None;
                };
                Some(Lookup { entries: TableId(u32::try_from(*entries).ok()?), keys })
            }
            _ => None,
        }
    }
}
