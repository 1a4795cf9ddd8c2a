//! Statements: queries and DML, with where they run.

use super::{Place, Planner, columns_of};
use crate::catalog::CatalogTable;
use crate::error::PlanError;
use crate::query::PlanContext;
use crate::query::bind::dml::{BoundChange, BoundInsert};
use crate::query::logical::{Body, Distinct, Output, Query, Select, Subqueries};
use crate::query::partition::{self, Placement, Use, Values};
use crate::query::walk;
use crate::rules::Rule;
use lockstep_plan_ir::relation::JoinKind;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::{Coordinator, Delete, Fragment, Guard, Insert, Target, Update};
use lockstep_plan_ir::{
    Comparison, Execution, Expression, Node, Operation, Relation, TableDefinition,
};
use lockstep_types::{SqlType, TableSchema};
use std::collections::BTreeSet;

/// What runs where, and what must hold of the partition.
pub(crate) struct Plan {
    /// What runs where.
    pub(crate) execution: Execution,
    /// For single-partition procedures.
    pub(crate) guards: Vec<Guard>,
}

impl Planner<'_, '_> {
    /// A query.
    pub(crate) fn plan_query(
        &mut self,
        query: &mut Query,
        context: PlanContext,
    ) -> Result<Plan, PlanError> {
        self.learn(query);
        let subqueries = self.subqueries();
        if context == PlanContext::MultiPartition && self.is_spread(query, &subqueries) {
            super::cut::widen_averages(query);
        }
        let query = &*query;
        let mut uses = Vec::new();
        partition::uses(query, &subqueries, &Values::new(), &mut uses);
        let placement = match self.placement(&uses) {
            Placement::One(_) if !self.uses(Rule::OnePartition) => Placement::Many,
            placement => placement,
        };
        let nothing = BTreeSet::new();
        let routing = match (context, placement) {
            (PlanContext::SinglePartition, _) => None,
            (PlanContext::MultiPartition, Placement::Anywhere) => None,
            (PlanContext::MultiPartition, Placement::One(value)) => Some(value),
            (PlanContext::MultiPartition, Placement::Many) => {
                self.note_query(query);
                if let Some(execution) = self.plan_moved(query)? {
                    return Ok(Plan { execution, guards: Vec::new() });
                }
                let mut planned = self.query(query, Place::Coordinator, &nothing)?;
                self.settle(&mut planned);
                let fragments = std::mem::take(&mut self.fragments);
                let coordinator = Coordinator::Query(planned);
                let execution = Execution::Distributed { fragments, coordinator };
                return Ok(Plan { execution, guards: Vec::new() });
            }
        };
        let planned = self.query(query, Place::Here, &nothing)?;
        let guards = guards(context, &uses, None);
        let execution = Execution::Local { operation: Operation::Query(planned), routing };
        Ok(Plan { execution, guards })
    }

    /// INSERT and UPSERT.
    pub(crate) fn plan_insert(
        &mut self,
        insert: &BoundInsert,
        context: PlanContext,
    ) -> Result<Plan, PlanError> {
        self.learn(&insert.source);
        let subqueries = self.subqueries();
        let definition = &insert.table.definition;
        let mut uses = Vec::new();
        partition::uses(&insert.source, &subqueries, &Values::new(), &mut uses);
        let placement = self.placement(&uses);
        check_replicated_write(&insert.table, context)?;
        let value = self.inserted_value(insert);
        let local = context == PlanContext::SinglePartition
            || match (&placement, definition.is_partitioned()) {
                (Placement::Anywhere, false) => true,
                (Placement::Anywhere, true) => value.is_some(),
                (Placement::One(source), true) => value.as_ref() == Some(source),
                _ => false,
            };
        if !local {
            return self.plan_shipped_insert(insert);
        }
        let source = self.query(&insert.source, Place::Here, &BTreeSet::new())?;
        let operation = Operation::Insert(Insert {
            table: definition.id,
            source: source.relation,
            values: source.output,
            upsert: insert.upsert.clone(),
        });
        let guards = guards(context, &uses, Some((&insert.table, value.clone())));
        let execution = match (context, definition.is_partitioned()) {
            (PlanContext::SinglePartition, _) => Execution::Local { operation, routing: None },
            (_, true) => Execution::Local { operation, routing: value },
            (_, false) => everywhere(operation, Coordinator::SameCount),
        };
        Ok(Plan { execution, guards })
    }

    /// What says the partition of all rows of an INSERT, if there is one.
    fn inserted_value(&self, insert: &BoundInsert) -> Option<Expression> {
        let columns = insert.table.definition.partition_columns.iter();
        let values = columns.map(|column| self.inserted_into(insert, *column));
        values.collect::<Option<Vec<Expression>>>().and_then(partition::placing)
    }

    /// The value that an INSERT puts into a column of all its rows.
    fn inserted_into(&self, insert: &BoundInsert, column: u16) -> Option<Expression> {
        let value = &insert.source.output.get(usize::from(column))?.expression;
        if partition::is_known(value) {
            return Some(value.clone());
        }
        if let (Body::Set { branches, slot, .. }, Node::Column { slot: read, column }) =
            (&insert.source.body, &value.node)
            && read == slot
        {
            // Several rows of VALUES: they go together if they have one value.
            let mut values = branches.iter().map(|branch| {
                branch.output.get(usize::from(*column)).map(|output| &output.expression)
            });
            let first = values.next()??;
            let alike = partition::is_known(first) && values.all(|value| value == Some(first));
            return alike.then(|| first.clone());
        }
        let (Body::Select(select), Node::Column { slot, column }) =
            (&insert.source.body, &value.node)
        else {
            return None;
        };
        let values = partition::known_values(select, &Values::new());
        values.get(&(*slot, *column)).filter(|value| partition::is_known(value)).cloned()
    }

    /// Rows from anywhere, sent to the partitions that own them.
    fn plan_shipped_insert(&mut self, insert: &BoundInsert) -> Result<Plan, PlanError> {
        let definition = &insert.table.definition;
        self.note_query(&insert.source);
        let mut query = self.query(&insert.source, Place::Coordinator, &BTreeSet::new())?;
        if self.fragments.is_empty() {
            // Rows that read no table, such as those of VALUES: any partition can make them.
            let whole = self.query(&insert.source, Place::Here, &BTreeSet::new())?;
            query = self.send_whole(whole, &insert.source, Target::One)?;
        }
        self.settle(&mut query);
        // Integers travel in full width: whether they fit their columns is found when they arrive.
        let travels = |sql_type: SqlType| match sql_type.is_integer() {
            true => SqlType::BigInt,
            false => sql_type,
        };
        let columns = definition.columns.iter();
        let types: Vec<SqlType> = columns.map(|column| travels(column.sql_type)).collect();
        let slot = self.binder.new_slot()?;
        let source = Relation::Receive { slot, fragment: 0, types: types.clone() };
        let apply = Operation::Insert(Insert {
            table: definition.id,
            source,
            values: columns_of(slot, &types),
            upsert: insert.upsert.clone(),
        });
        let execution = Execution::Shipped {
            fragments: std::mem::take(&mut self.fragments),
            query,
            types,
            partition_columns: definition.partition_columns.clone(),
            apply,
            replicated: !definition.is_partitioned(),
            finish: None,
        };
        Ok(Plan { execution, guards: Vec::new() })
    }

    /// UPDATE (with assignments) and DELETE.
    pub(crate) fn plan_change(
        &mut self,
        change: &BoundChange,
        is_update: bool,
        context: PlanContext,
    ) -> Result<Plan, PlanError> {
        check_replicated_write(&change.table, context)?;
        self.learn(&change.source);
        let definition = &change.table.definition;
        let subqueries = self.subqueries();
        let mut uses = Vec::new();
        let values = match &change.source.body {
            Body::Select(select) => partition::known_values(select, &Values::new()),
            _ => Values::new(),
        };
        partition::uses(&change.source, &subqueries, &Values::new(), &mut uses);
        for (_, value) in &change.assignments {
            partition::uses_of_subqueries(value, &subqueries, &values, &mut uses);
        }
        let guards = guards(context, &uses, None);
        let single = context == PlanContext::SinglePartition;
        let limited = change.source.limit.is_some() || change.source.offset.is_some();
        let routing = match self.placement(&uses) {
            Placement::One(value) if definition.is_partitioned() => Some(value),
            _ => None,
        };
        let spread = definition.is_partitioned() && routing.is_none() && !single;
        if spread && limited {
            return self.plan_shipped_rows(change, is_update);
        }
        // The first use is the target itself.
        let reads_spread = uses.iter().skip(1).any(|used| !used.table.definition.is_replicated());
        if !single && routing.is_none() && reads_spread {
            return self.plan_shipped_change(change, is_update);
        }
        let operation = self.change_operation(change, is_update)?;
        let execution = if single {
            Execution::Local { operation, routing: None }
        } else if routing.is_some() {
            Execution::Local { operation, routing }
        } else if definition.is_partitioned() {
            let target = match &change.source.body {
                Body::Select(select) => self.partitions_of(select),
                _ => Target::All,
            };
            everywhere_at(target, operation, Coordinator::SumCounts)
        } else {
            everywhere(operation, Coordinator::SameCount)
        };
        Ok(Plan { execution, guards })
    }

    pub(crate) fn change_operation(
        &mut self,
        change: &BoundChange,
        is_update: bool,
    ) -> Result<Operation, PlanError> {
        let nothing = BTreeSet::new();
        let source = self.query(&change.source, Place::Here, &nothing)?.relation;
        let (table, slot) = (change.table.definition.id, change.slot);
        if !is_update {
            return Ok(Operation::Delete(Delete { table, slot, source }));
        }
        let bound = BTreeSet::from([slot]);
        let mut assignments = Vec::with_capacity(change.assignments.len());
        for (column, value) in &change.assignments {
            assignments.push((*column, self.lower(value, Place::Here, &bound)?));
        }
        Ok(Operation::Update(Update { table, slot, source, assignments }))
    }

    /// UPDATE or DELETE with one uncorrelated subquery over spread tables: its rows are sent to
    /// all partitions first.
    fn plan_shipped_change(
        &mut self,
        change: &BoundChange,
        is_update: bool,
    ) -> Result<Plan, PlanError> {
        let subqueries = self.subqueries();
        let mut spread = BTreeSet::new();
        let mut visit = |expression: &Expression| {
            let inner = walk::subquery_of(expression).map(|subquery| subquery.number);
            if let Some(number) = inner
                && let Some(query) = subqueries.get(&number)
            {
                let mut uses = Vec::new();
                partition::uses(query, &subqueries, &Values::new(), &mut uses);
                if uses.iter().any(|used| !used.table.definition.is_replicated()) {
                    spread.insert(number);
                }
            }
        };
        let values = change.assignments.iter().map(|(_, value)| value);
        let conditions = match &change.source.body {
            Body::Select(select) => select.filter.iter().collect(),
            _ => Vec::new(),
        };
        for expression in values.chain(conditions) {
            walk_shallow(expression, &mut visit);
        }
        let mut numbers = spread.into_iter();
        let (Some(number), None) = (numbers.next(), numbers.next()) else {
            return self.plan_shipped_rows(change, is_update);
        };
        let query = &subqueries[&number];
        if !walk::outer_slots(query, &subqueries).is_empty() {
            return self.plan_shipped_rows(change, is_update);
        }
        self.note_query(query);
        let mut shipped = self.query(query, Place::Coordinator, &BTreeSet::new())?;
        self.settle(&mut shipped);
        let types = query.types();
        let slot = self.binder.new_slot()?;
        let received = lockstep_plan_ir::expression::Subquery {
            relation: Relation::Receive { slot, fragment: 0, types: types.clone() },
            output: columns_of(slot, &types),
            uncorrelated: true,
            number,
        };
        self.planned.insert((number, true), received);
        let fragments = std::mem::take(&mut self.fragments);
        let apply = self.change_operation(change, is_update)?;
        let replicated = !change.table.definition.is_partitioned();
        let execution = Execution::Shipped {
            fragments,
            query: shipped,
            types,
            partition_columns: Vec::new(),
            apply,
            replicated,
            finish: None,
        };
        Ok(Plan { execution, guards: Vec::new() })
    }

    /// UPDATE or DELETE whose subqueries need the coordinator: it finds the rows and computes the
    /// new values, which are then applied where the rows are. Equal rows are changed alike, so
    /// rows are told by their values where there is no primary key.
    fn plan_shipped_rows(
        &mut self,
        change: &BoundChange,
        is_update: bool,
    ) -> Result<Plan, PlanError> {
        let definition = &change.table.definition;
        let source = &change.source;
        let Body::Select(select) = &source.body else {
            return Err(PlanError::new("UPDATE and DELETE change the rows of a table"));
        };
        let limited = source.limit.is_some() || source.offset.is_some();
        if limited && primary_key(definition).is_none() {
            return Err(PlanError::new(format!(
                "UPDATE and DELETE with LIMIT or OFFSET over several partitions tell rows by the \
                 primary key, which table {} lacks. Restrict the partitioning column to one value, \
                 or declare a PRIMARY KEY.",
                definition.name
            )));
        }
        let mut types: Vec<SqlType> = definition.columns.iter().map(|c| c.sql_type).collect();
        let mut expressions = columns_of(change.slot, &types);
        for (_, value) in &change.assignments {
            types.push(value.sql_type);
            expressions.push(value.clone());
        }
        let named = |expression| Output { name: String::new(), expression };
        let query = if limited {
            // The first rows over all partitions; no two have one key.
            Query { output: expressions.into_iter().map(named).collect(), ..source.clone() }
        } else {
            let slot = self.binder.new_slot()?;
            let output = columns_of(slot, &types).into_iter().map(named).collect();
            let distinct = Some(Distinct { slot, expressions });
            let body = Body::Select(Select { distinct, ..select.clone() });
            Query { body, output, order: Vec::new(), limit: None, offset: None }
        };
        self.note_query(&query);
        let mut shipped = self.query(&query, Place::Coordinator, &BTreeSet::new())?;
        self.settle(&mut shipped);
        let apply = self.apply_rows(change, is_update, &types)?;
        let execution = Execution::Shipped {
            fragments: std::mem::take(&mut self.fragments),
            query: shipped,
            types,
            partition_columns: definition.partition_columns.clone(),
            apply,
            replicated: !definition.is_partitioned(),
            finish: None,
        };
        Ok(Plan { execution, guards: Vec::new() })
    }

    /// Changes the rows that were shipped, with the new values after their columns.
    fn apply_rows(
        &mut self,
        change: &BoundChange,
        is_update: bool,
        types: &[SqlType],
    ) -> Result<Operation, PlanError> {
        let definition = &change.table.definition;
        let received = self.binder.new_slot()?;
        let slot = self.binder.new_slot()?;
        self.estimator.learn_table(slot, definition);
        let key: Vec<u16> = primary_key(definition)
            .unwrap_or_else(|| (0..definition.columns.len() as u16).collect());
        let conditions = key.into_iter().map(|column| {
            let sql_type = types[usize::from(column)];
            let here = Box::new(Expression::column(slot, column, sql_type));
            let there = Box::new(Expression::column(received, column, sql_type));
            let node = Node::Compare(Comparison::NotDistinct, here, there);
            Expression { node, sql_type: SqlType::Boolean }
        });
        let conditions = conditions.collect();
        let bound = BTreeSet::from([received]);
        let scan = self.scan(definition, slot, &bound, conditions)?;
        let types_received = types.to_vec();
        let rows = Relation::Receive { slot: received, fragment: 0, types: types_received };
        let source = super::join::joined(
            JoinKind::Inner,
            (rows, scan),
            lockstep_plan_ir::relation::JoinMethod::NestedLoop,
            None,
        );
        let table = definition.id;
        if !is_update {
            return Ok(Operation::Delete(Delete { table, slot, source }));
        }
        let first = definition.columns.len();
        let assignments = change.assignments.iter().enumerate().map(|(position, (column, _))| {
            let place = first + position;
            (*column, Expression::column(received, place as u16, types[place]))
        });
        let assignments = assignments.collect();
        Ok(Operation::Update(Update { table, slot, source, assignments }))
    }

    /// TRUNCATE TABLE.
    pub(crate) fn plan_truncate(
        &self,
        table: &CatalogTable,
        context: PlanContext,
        text: &str,
    ) -> Result<Plan, PlanError> {
        if context == PlanContext::SinglePartition {
            return Err(PlanError::new(format!(
                "Single partitioned procedure: has TRUNCATE statement: \"{text}\""
            )));
        }
        let operation = Operation::Truncate(table.definition.id);
        let coordinator = match table.definition.is_partitioned() {
            true => Coordinator::SumCounts,
            false => Coordinator::SameCount,
        };
        Ok(Plan { execution: everywhere(operation, coordinator), guards: Vec::new() })
    }
}

impl Planner<'_, '_> {
    fn is_spread(&self, query: &Query, subqueries: &Subqueries) -> bool {
        let mut uses = Vec::new();
        partition::uses(query, subqueries, &Values::new(), &mut uses);
        matches!(self.placement(&uses), Placement::Many)
    }
}

/// The columns of a table's primary key, if it consists of columns.
fn primary_key(definition: &TableDefinition) -> Option<Vec<u16>> {
    let index = definition.indexes.get(definition.primary_key?.index())?;
    let columns = index.keys.iter().map(|key| match key {
        IndexKey::Column(column) => Some(*column),
        IndexKey::Expression(_) => None,
    });
    columns.collect()
}

/// Visits a node and its operands, without the queries of subqueries.
fn walk_shallow<'e>(expression: &'e Expression, visit: &mut dyn FnMut(&'e Expression)) {
    visit(expression);
    walk::each_child(expression, &mut |child| walk_shallow(child, visit));
}

fn everywhere(operation: Operation, coordinator: Coordinator) -> Execution {
    everywhere_at(Target::All, operation, coordinator)
}

fn everywhere_at(target: Target, operation: Operation, coordinator: Coordinator) -> Execution {
    let result = TableSchema::modified_tuples();
    let fragments = vec![Fragment { target, operation, result }];
    Execution::Distributed { fragments, coordinator }
}

fn check_replicated_write(table: &CatalogTable, context: PlanContext) -> Result<(), PlanError> {
    if context == PlanContext::SinglePartition && table.definition.is_replicated() {
        return Err(PlanError::new(format!(
            "Trying to write to replicated table '{}' in a single-partition procedure.",
            table.definition.name
        )));
    }
    Ok(())
}

/// One guard for each spread table and value.
fn guards(
    context: PlanContext,
    uses: &[Use<'_>],
    written: Option<(&CatalogTable, Option<Expression>)>,
) -> Vec<Guard> {
    if context == PlanContext::MultiPartition {
        return Vec::new();
    }
    let mut guards: Vec<Guard> = Vec::new();
    let read = uses.iter().map(|used| (used.table, used.value.clone()));
    for (table, value) in written.into_iter().chain(read) {
        let definition = &table.definition;
        if definition.is_replicated() {
            continue;
        }
        let table_name = definition.name.clone();
        let guard = Guard { table: definition.id, table_name, value, local: false };
        if !guards.contains(&guard) {
            guards.push(guard);
        }
    }
    guards
}
