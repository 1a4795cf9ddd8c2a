//! Guards: a statement in a single-partition procedure reads and writes partitioned tables only
//! where a known value of the partitioning column lives at this partition.

use crate::analysis::{has_subquery, is_one_row};
use crate::context::{Context, NoSubqueries};
use crate::database::{Database, owns};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use lockstep_plan_ir::statement::{Execution, Guard, Operation};
use lockstep_plan_ir::{Function, Lookup, Node, Statement};
use lockstep_types::{Datum, TableId};

/// Checks the guards of a statement; `target` is what [`inserted`] says of it.
#[inline(always)]
pub(crate) fn check(
    database: &mut Database,
    statement: &Statement,
    target: Option<TableId>,
    parameters: &[Datum<'_>],
) -> Result<(), SqlError> {
    if statement.guards.is_empty()
        || !database.transaction.single_partition
        || database.options.ring.partition_count() == 1
    {
        return Ok(());
    }
    check_each(database, statement, target, parameters)
}

#[inline(never)]
fn check_each(
    database: &mut Database,
    statement: &Statement,
    target: Option<TableId>,
    parameters: &[Datum<'_>],
) -> Result<(), SqlError> {
    statement
        .guards
        .iter()
        .filter(|guard| Some(guard.table) != target)
        .try_for_each(|guard| check_one(database, statement, guard, parameters))
}

/// The table into which VALUES go: the row itself is checked there, as a constraint.
pub(super) fn inserted(statement: &Statement) -> Option<TableId> {
    match &statement.execution {
        Execution::Local { operation: Operation::Insert(insert), .. }
            if is_one_row(&insert.source) && !insert.values.iter().any(has_subquery) =>
        {
            Some(insert.table)
        }
        _ => None,
    }
}

fn check_one(
    database: &mut Database,
    statement: &Statement,
    guard: &Guard,
    parameters: &[Datum<'_>],
) -> Result<(), SqlError> {
    if guard.local {
        return Ok(());
    }
    let Some(expression) = &guard.value else {
        if database.transaction.addresses_partition {
            return Ok(());
        }
        return Err(unrestricted(statement, guard));
    };
    if let Some(lookup) = Lookup::of(expression) {
        let answers = database.transaction.addresses_partition
            || database.answers_for(&lookup, parameters)?;
        database.misled |= !answers;
        return if answers { Ok(()) } else { Err(not_there(statement, guard)) };
    }
    let value = match &expression.node {
        Node::Parameter(number) => parameters[usize::from(*number)],
        Node::Literal(value) => value.as_datum(),
        _ => {
            let context = Context {
                parameters,
                arena: &database.arena,
                now_us: database.transaction.timestamp_us,
                subqueries: &NoSubqueries,
            };
            evaluate(expression, &context, &Frame::new(&database.arena, 0))?
        }
    };
    if owns(&database.options, &mut database.owned_value, value) {
        return Ok(());
    }
    Err(elsewhere(database, statement, guard, value))
}

#[cold]
fn unrestricted(statement: &Statement, guard: &Guard) -> SqlError {
    SqlError::sql(format!(
        "the statement does not restrict the partitioning column of table {}, so it would see \
         this partition's rows only; restrict the column, make the procedure multi-partition, or \
         declare it WITH LOCAL DATA if these rows are meant (option local_data): {}",
        guard.table_name, statement.text
    ))
}

#[cold]
fn not_there(statement: &Statement, guard: &Guard) -> SqlError {
    SqlError::sql(format!(
        "the statement restricts table {} by a global index to a row that does not live at this \
         partition; create the procedure with PARTITION ON ... VIA GLOBAL INDEX and call it with \
         the key, or make it multi-partition: {}",
        guard.table_name, statement.text
    ))
}

#[cold]
fn elsewhere(
    database: &Database,
    statement: &Statement,
    guard: &Guard,
    value: Datum<'_>,
) -> SqlError {
    let of_several = matches!(
        guard.value.as_ref().map(|value| &value.node),
        Some(Node::Call(Function::PartitionKey, _))
    );
    let restricted = match of_several {
        true => "partitioning columns have values that together make a key".to_string(),
        false => format!("partitioning column is {value}"),
    };
    SqlError::sql(format!(
        "the statement reads or writes table {} where its {restricted}, which \
         lives at partition {}, not at partition {} where the procedure runs: {}",
        guard.table_name,
        database.options.ring.partition_of(value),
        database.options.partition,
        statement.text
    ))
}
