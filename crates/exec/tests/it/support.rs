//! Short builders of schemas, plans and tables.

use lockstep_base::bytes::ByteReader;
use lockstep_exec::statement::execute;
use lockstep_exec::{Database, DatabaseOptions, PreparedStatement, SqlError, TransactionContext};
use lockstep_plan_ir::expression::{Arithmetic, Comparison};
use lockstep_plan_ir::relation::{AggregateCall, Join, JoinKind, JoinMethod, SortKey};
use lockstep_plan_ir::schema::{
    ColumnDefinition, DefaultValue, IndexDefinition, IndexKey, ViewAggregate, ViewDefinition,
};
use lockstep_plan_ir::statement::{
    Delete, Execution, IndexUpkeep, Insert, Operation, Query, StatementParameter, Update,
};
use lockstep_plan_ir::{
    Access, AggregateFunction, Expression, Node, Relation, Scan, Statement, StorageChange,
    TableDefinition,
};
use lockstep_types::{
    Datum, HashRing, IndexId, PartitionId, SqlType, TableId, TableSchema, TableView, TransactionId,
    Value,
};
use std::sync::Arc;

pub fn column(name: &str, sql_type: SqlType) -> ColumnDefinition {
    ColumnDefinition {
        name: name.to_string(),
        sql_type,
        length: if sql_type.is_variable_length() { 50 } else { 0 },
        length_in_bytes: false,
        nullable: true,
        default: DefaultValue::None,
    }
}

pub fn not_null(name: &str, sql_type: SqlType) -> ColumnDefinition {
    ColumnDefinition { nullable: false, ..column(name, sql_type) }
}

pub fn index(name: &str, columns: &[u16], unique: bool) -> IndexDefinition {
    IndexDefinition {
        name: name.to_string(),
        keys: columns.iter().map(|column| IndexKey::Column(*column)).collect(),
        unique,
        assume_unique: false,
        constraint: unique.then(|| name.to_string()),
        predicate: None,
        hidden: false,
        building: false,
    }
}

pub fn table(
    id: u32,
    name: &str,
    columns: Vec<ColumnDefinition>,
    indexes: Vec<IndexDefinition>,
) -> TableDefinition {
    TableDefinition {
        id: TableId(id),
        name: name.to_string(),
        visible_columns: columns.len() as u16,
        columns,
        primary_key: indexes.first().filter(|first| first.unique).map(|_| IndexId(0)),
        indexes,
        partition_columns: Vec::new(),
        is_partial: false,
        view: None,
        dependent_views: Vec::new(),
        row_limit: None,
        row_limit_purge: None,
        global_indexes: Vec::new(),
        entries_of: None,
    }
}

/// A view over one table: groups are columns, aggregates as given.
pub fn view(
    id: u32,
    name: &str,
    source: &mut TableDefinition,
    groups: &[u16],
    aggregates: &[(AggregateFunction, Option<u16>, Option<Query>)],
) -> TableDefinition {
    let source_type = |column: u16| source.columns[usize::from(column)].sql_type;
    let mut columns: Vec<ColumnDefinition> =
        groups.iter().map(|group| source.columns[usize::from(*group)].clone()).collect();
    let mut calls = Vec::new();
    for (function, argument, recompute) in aggregates {
        let sql_type = match (function, argument) {
            (AggregateFunction::CountStar | AggregateFunction::Count, _) | (_, None) => {
                SqlType::BigInt
            }
            (_, Some(argument)) => source_type(*argument),
        };
        columns.push(column(function.name(), sql_type));
        calls.push(ViewAggregate {
            function: *function,
            argument: argument.map(|argument| col(0, argument, source_type(argument))),
            sql_type,
            recompute: recompute.clone(),
            recompute_slots: 4,
            counted_by: counted_by(*function, *argument, aggregates),
            kept_by: None,
        });
    }
    let keys: Vec<u16> = (0..groups.len() as u16).collect();
    let indexes =
        if groups.is_empty() { vec![] } else { vec![index(&format!("{name}_KEY"), &keys, true)] };
    let mut definition = table(id, name, columns, indexes);
    let count = aggregates.iter().position(|call| call.0 == AggregateFunction::CountStar);
    let view = Arc::new(ViewDefinition {
        view: TableId(id),
        source: source.id,
        predicate: None,
        group: groups.iter().map(|group| col(0, *group, source_type(*group))).collect(),
        aggregates: calls,
        count: count.expect("a view counts its rows") as u16,
        group_index: (!groups.is_empty()).then_some(IndexId(0)),
        joined: None,
    });
    definition.view = Some(view.clone());
    source.dependent_views.push(view);
    definition
}

/// The COUNT of a SUM's argument, if the view has one.
fn counted_by(
    function: AggregateFunction,
    argument: Option<u16>,
    aggregates: &[(AggregateFunction, Option<u16>, Option<Query>)],
) -> Option<u16> {
    let counts = |(other, of, _): &(AggregateFunction, Option<u16>, Option<Query>)| {
        *other == AggregateFunction::Count && *of == argument
    };
    let place = aggregates.iter().position(counts)?;
    (function == AggregateFunction::Sum).then_some(place as u16)
}

pub fn col(slot: u16, column: u16, sql_type: SqlType) -> Expression {
    Expression::column(slot, column, sql_type)
}

/// A BIGINT column.
pub fn big(slot: u16, column: u16) -> Expression {
    col(slot, column, SqlType::BigInt)
}

pub fn int(value: i64) -> Expression {
    Expression::literal(Value::Int(value), SqlType::BigInt)
}

pub fn text(value: &str) -> Expression {
    Expression::literal(Value::Text(value.into()), SqlType::Varchar)
}

pub fn parameter(number: u16) -> Expression {
    Expression::parameter(number, SqlType::BigInt)
}

pub fn compare(comparison: Comparison, left: Expression, right: Expression) -> Expression {
    let node = Node::Compare(comparison, Box::new(left), Box::new(right));
    Expression { node, sql_type: SqlType::Boolean }
}

pub fn equal(left: Expression, right: Expression) -> Expression {
    compare(Comparison::Equal, left, right)
}

pub fn add(left: Expression, right: Expression) -> Expression {
    let sql_type = left.sql_type;
    let node = Node::Arithmetic(Arithmetic::Add, Box::new(left), Box::new(right));
    Expression { node, sql_type }
}

pub fn scan(slot: u16, table: u32) -> Relation {
    scan_where(slot, table, None)
}

pub fn scan_where(slot: u16, table: u32, filter: Option<Expression>) -> Relation {
    Relation::Scan(Scan { slot, table: TableId(table), access: Access::Full, filter })
}

/// The row with a unique key.
pub fn lookup(slot: u16, table: u32, key: Vec<Expression>) -> Relation {
    let access = Access::Index {
        index: IndexId(0),
        null_matches: vec![false; key.len()],
        equal: key,
        lower: None,
        upper: None,
        reverse: false,
        at_most_one: true,
    };
    Relation::Scan(Scan { slot, table: TableId(table), access, filter: None })
}

pub fn join(
    kind: JoinKind,
    left: Relation,
    right: Relation,
    slots: (u16, u16),
    on: (Expression, Expression),
    hash: bool,
) -> Relation {
    let condition = (!hash).then(|| equal(on.0.clone(), on.1.clone()));
    let method = if hash {
        JoinMethod::Hash { left: vec![on.0], right: vec![on.1] }
    } else {
        JoinMethod::NestedLoop
    };
    let (left_slots, right_slots) = (vec![slots.0], vec![slots.1]);
    Relation::Join(Box::new(Join { kind, left, right, method, condition, left_slots, right_slots }))
}

pub fn ascending(expression: Expression) -> SortKey {
    SortKey { expression, descending: false, nulls_first: true }
}

pub fn descending(expression: Expression) -> SortKey {
    SortKey { expression, descending: true, nulls_first: false }
}

pub fn call(function: AggregateFunction, argument: Option<Expression>) -> AggregateCall {
    AggregateCall { function, distinct: false, argument, sql_type: SqlType::BigInt, user: None }
}

pub fn query(relation: Relation, output: Vec<Expression>) -> Operation {
    Operation::Query(Query { relation, output })
}

pub fn insert(table: u32, values: Vec<Expression>) -> Operation {
    let (table, source) = (TableId(table), Relation::OneRow);
    Operation::Insert(Insert { table, source, values, upsert: None })
}

pub fn update(table: u32, source: Relation, assignments: Vec<(u16, Expression)>) -> Operation {
    Operation::Update(Update { table: TableId(table), slot: 0, source, assignments })
}

pub fn delete(table: u32, source: Relation) -> Operation {
    Operation::Delete(Delete { table: TableId(table), slot: 0, source })
}

/// A statement of an operation: result columns `C0`, `C1` and so on, BIGINT parameters.
pub fn statement(operation: Operation, parameters: usize) -> Statement {
    let (result, read_only) = match &operation {
        Operation::Query(query) => {
            let columns: Vec<(String, SqlType)> = query
                .output
                .iter()
                .enumerate()
                .map(|(number, expression)| (format!("C{number}"), expression.sql_type))
                .collect();
            (TableSchema::new(&columns), true)
        }
        _ => (TableSchema::modified_tuples(), false),
    };
    Statement {
        text: "a statement".to_string(),
        parameters: vec![
            StatementParameter { sql_type: SqlType::BigInt, is_array: false };
            parameters
        ],
        result,
        read_only,
        execution: Execution::Local { operation, routing: None },
        guards: Vec::new(),
        slot_count: 8,
        subquery_count: 2,
        ordered: false,
        upkeep: IndexUpkeep::None,
        needs_entries: false,
    }
}

pub fn prepared(operation: Operation, parameters: usize) -> PreparedStatement {
    PreparedStatement::new(Arc::new(statement(operation, parameters)))
}

pub fn transaction() -> TransactionContext {
    TransactionContext {
        transaction_id: TransactionId::new(1_700_000_000_000, 0, PartitionId(0)),
        timestamp_us: 1_700_000_000_000_000,
        addresses_partition: false,
        single_partition: true,
        read_only: false,
    }
}

/// A database with these tables: one partition.
pub fn database(tables: Vec<TableDefinition>) -> Database {
    partition(0, 1, tables)
}

pub fn partition(number: u32, count: u32, tables: Vec<TableDefinition>) -> Database {
    let ring = Arc::new(HashRing::new(count));
    let mut database = Database::new(DatabaseOptions::new(PartitionId(number), ring));
    let changes: Vec<_> =
        tables.into_iter().map(|table| StorageChange::Create(Arc::new(table))).collect();
    database.prepare_change(&changes).expect("the schema is right");
    database.commit_change();
    database.begin(&transaction());
    database
}

/// Runs an operation; gives its table as text.
pub fn run(
    database: &mut Database,
    operation: Operation,
    parameters: &[Datum<'_>],
) -> Result<String, SqlError> {
    let prepared = prepared(operation, parameters.len());
    let mut out = Vec::new();
    execute(database, &prepared, parameters, &mut out)?;
    Ok(show(&out))
}

/// Runs an operation that must succeed.
pub fn must(database: &mut Database, operation: Operation) -> String {
    run(database, operation, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// A table's rows: values with blanks between them, rows with ` / `.
pub fn show(bytes: &[u8]) -> String {
    let view = TableView::read(&mut ByteReader::new(bytes)).expect("a table");
    let rows: Vec<String> = view
        .rows()
        .map(|row| {
            let mut values = Vec::new();
            row.expect("a row").read_into(&mut values).expect("values");
            let shown: Vec<String> = values.iter().map(|value| value.to_string()).collect();
            shown.join(" ")
        })
        .collect();
    rows.join(" / ")
}
