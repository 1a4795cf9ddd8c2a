//! The statement that deletes rows whose time is over. It has a text, because a log keeps
//! statements as text, and nobody can send it. The text names the index, so that replay deletes
//! the same rows whatever other indexes there are.

use crate::catalog::Catalog;
use lockstep_plan_ir::relation::KeyBound;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::{
    Coordinator, Delete, Fragment, IndexUpkeep, StatementParameter, Target,
};
use lockstep_plan_ir::{
    Access, Execution, Expression, Node, Operation, Relation, Scan, Statement, TableDefinition,
};
use lockstep_types::{IndexId, SqlType, TableSchema};

const BEGIN: &str = "EXPIRE ROWS OF ";
const MIDDLE: &str = " BY INDEX ";

/// See [`lockstep_plan_ir::ExpiringTable::by`]; none for an index that does not begin with a time.
pub(crate) fn expire(table: &TableDefinition, index: IndexId) -> Option<Statement> {
    let definition = table.indexes.get(index.index())?;
    let Some(IndexKey::Column(column)) = definition.keys.first() else { return None };
    let is_time = table.columns[usize::from(*column)].sql_type == SqlType::Timestamp;
    if !is_time || definition.predicate.is_some() {
        return None;
    }
    let result = TableSchema::modified_tuples();
    let source = first_rows(table, index);
    let operation = Operation::Delete(Delete { table: table.id, slot: 0, source });
    let execution = match table.is_partitioned() {
        true => Execution::Local { operation, routing: None },
        false => Execution::Distributed {
            fragments: vec![Fragment { target: Target::All, operation, result: result.clone() }],
            coordinator: Coordinator::SameCount,
        },
    };
    let upkeep = match table.global_indexes.is_empty() {
        true => IndexUpkeep::None,
        false => IndexUpkeep::Collected,
    };
    let parameter = |sql_type| StatementParameter { sql_type, is_array: false };
    Some(Statement {
        text: format!("{BEGIN}{}{MIDDLE}{}", table.name, definition.name),
        parameters: vec![parameter(SqlType::Timestamp), parameter(SqlType::BigInt)],
        result,
        read_only: false,
        execution,
        guards: Vec::new(),
        slot_count: 1,
        subquery_count: 0,
        ordered: true,
        upkeep,
        needs_entries: false,
    })
}

/// The rows up to the time of the first parameter, as many as the second one says.
fn first_rows(table: &TableDefinition, index: IndexId) -> Relation {
    let parameter = |number, sql_type| Expression { node: Node::Parameter(number), sql_type };
    let upper = KeyBound { value: parameter(0, SqlType::Timestamp), inclusive: true };
    let access = Access::Index {
        index,
        equal: Vec::new(),
        null_matches: Vec::new(),
        lower: None,
        upper: Some(upper),
        reverse: false,
        at_most_one: false,
    };
    let scan = Scan { slot: 0, table: table.id, access, filter: None };
    Relation::Limit {
        input: Box::new(Relation::Scan(scan)),
        limit: Some(parameter(1, SqlType::BigInt)),
        offset: None,
    }
}

/// See [`Catalog::expire_of_text`].
pub(crate) fn expire_of_text(catalog: &Catalog, text: &str) -> Option<Statement> {
    let (table, index) = text.strip_prefix(BEGIN)?.rsplit_once(MIDDLE)?;
    let definition = &catalog.tables.get(table)?.definition;
    let place = definition.indexes.iter().position(|known| known.name == index)?;
    expire(definition, IndexId(place as u16))
}
