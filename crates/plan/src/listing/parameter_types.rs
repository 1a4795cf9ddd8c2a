//! The types of a statement's parameters as VoltDB lists them: those of the columns that they
//! meet. Calls take every integer as BIGINT; the listing says which width the column has.

use crate::catalog::Catalog;
use crate::schema::index::walk;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::relation::KeyList;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::Coordinator;
use lockstep_plan_ir::{
    Access, Execution, Expression, Operation, Relation, Scan, Statement, TableDefinition,
};
use lockstep_types::{SqlType, TableId};
use std::collections::BTreeMap;

/// The types of a statement's parameters.
pub(super) fn parameter_types(catalog: &Catalog, statement: &Statement) -> Vec<SqlType> {
    let types = statement.parameters.iter().map(|parameter| parameter.sql_type).collect();
    let mut search = Search { catalog, types, slots: BTreeMap::new(), compared: Vec::new() };
    match &statement.execution {
        Execution::Local { operation, .. } => search.operation(operation),
        Execution::Distributed { fragments, coordinator } => {
            fragments.iter().for_each(|fragment| search.operation(&fragment.operation));
            if let Coordinator::Query(query) = coordinator {
                search.relation(&query.relation);
            }
        }
        Execution::Shipped { fragments, query, apply, finish, .. } => {
            fragments.iter().for_each(|fragment| search.operation(&fragment.operation));
            search.relation(&query.relation);
            search.operation(apply);
            if let Some(finish) = finish {
                search.relation(&finish.query.relation);
            }
        }
    }
    search.finish()
}

struct Search<'a> {
    catalog: &'a Catalog,
    types: Vec<SqlType>,
    /// The tables whose rows slots hold.
    slots: BTreeMap<u16, TableId>,
    /// Parameters compared with columns of slots.
    compared: Vec<(u16, u16, u16)>,
}

impl<'a> Search<'a> {
    fn table(&self, id: TableId) -> Option<&'a TableDefinition> {
        let mut tables = self.catalog.tables.values();
        tables.find(|table| table.definition.id == id).map(|table| &*table.definition)
    }

    /// A value that goes into a column or is compared with it.
    fn meets(&mut self, value: &Expression, table: Option<&TableDefinition>, column: u16) {
        let Node::Parameter(number) = value.node else { return };
        let column = table.and_then(|table| table.columns.get(usize::from(column)));
        self.narrow(number, column.map(|column| column.sql_type));
    }

    fn narrow(&mut self, parameter: u16, column_type: Option<SqlType>) {
        if let (Some(known), Some(column_type)) =
            (self.types.get_mut(usize::from(parameter)), column_type)
            && known.is_integer()
            && column_type.is_integer()
        {
            *known = column_type;
        }
    }

    fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Query(query) => {
                self.relation(&query.relation);
                query.output.iter().for_each(|value| self.expression(value));
            }
            Operation::Insert(insert) => {
                self.relation(&insert.source);
                let table = self.table(insert.table);
                for (column, value) in insert.values.iter().enumerate() {
                    self.meets(value, table, column as u16);
                }
            }
            Operation::Update(update) => {
                self.relation(&update.source);
                let table = self.table(update.table);
                for (column, value) in &update.assignments {
                    self.meets(value, table, *column);
                    self.expression(value);
                }
            }
            Operation::Delete(delete) => self.relation(&delete.source),
            Operation::Truncate(_) | Operation::Cover(_) => {}
        }
    }

    fn relation(&mut self, relation: &Relation) {
        match relation {
            Relation::Scan(scan) => self.scan(scan),
            Relation::Filter { input, predicate } => {
                self.relation(input);
                self.expression(predicate);
            }
            Relation::Join(join) => {
                self.relation(&join.left);
                self.relation(&join.right);
                join.condition.iter().for_each(|condition| self.expression(condition));
            }
            Relation::Project { input, expressions, .. } => {
                self.relation(input);
                expressions.iter().for_each(|value| self.expression(value));
            }
            Relation::Aggregate { input, .. }
            | Relation::Sort { input, .. }
            | Relation::Limit { input, .. }
            | Relation::Distinct { input, .. }
            | Relation::Window { input, .. } => self.relation(input),
            Relation::SetOperation { branches, .. } => {
                branches.iter().for_each(|branch| self.relation(&branch.relation));
            }
            Relation::Recursive { base, step, .. } => {
                self.relation(&base.relation);
                self.relation(&step.relation);
            }
            Relation::OneRow | Relation::Receive { .. } | Relation::Working { .. } => {}
        }
    }

    fn scan(&mut self, scan: &Scan) {
        self.slots.insert(scan.slot, scan.table);
        scan.filter.iter().for_each(|filter| self.expression(filter));
        let table = self.table(scan.table);
        let (index, values) = match &scan.access {
            Access::Full => return,
            Access::Index { index, equal, lower, upper, .. } => {
                // The bounds belong to the key column after the equal ones.
                let mut values: Vec<(usize, &Expression)> = equal.iter().enumerate().collect();
                let bounds = lower.iter().chain(upper).map(|bound| (equal.len(), &bound.value));
                values.extend(bounds);
                (index, values)
            }
            Access::IndexList { index, list } => match list {
                KeyList::Values(values) => (index, values.iter().map(|value| (0, value)).collect()),
                KeyList::Array(parameter) => {
                    if let Some((column, table)) = key_column(table, index.index(), 0) {
                        let column_type = table.columns[usize::from(column)].sql_type;
                        self.narrow(*parameter, Some(column_type));
                    }
                    return;
                }
                KeyList::Subquery(_) => return,
            },
        };
        for (part, value) in values {
            if let Some((column, table)) = key_column(table, index.index(), part) {
                self.meets(value, Some(table), column);
            }
        }
    }

    /// Remembers the comparisons of columns with parameters; slots may be bound later.
    fn expression(&mut self, expression: &Expression) {
        let mut found = Vec::new();
        walk(expression, &mut |part| {
            let (a, b) = match &part.node {
                Node::Compare(_, a, b) => (a, b),
                Node::InArray { value, parameter } => {
                    if let Node::Column { slot, column } = value.node {
                        found.push((*parameter, slot, column));
                    }
                    return;
                }
                _ => return,
            };
            for (a, b) in [(a, b), (b, a)] {
                if let (Node::Column { slot, column }, Node::Parameter(number)) = (&a.node, &b.node)
                {
                    found.push((*number, *slot, *column));
                }
            }
        });
        self.compared.extend(found);
    }

    fn finish(mut self) -> Vec<SqlType> {
        for (parameter, slot, column) in std::mem::take(&mut self.compared) {
            let table = self.slots.get(&slot).and_then(|table| self.table(*table));
            let column = table.and_then(|table| table.columns.get(usize::from(column)));
            self.narrow(parameter, column.map(|column| column.sql_type));
        }
        self.types
    }
}

/// The column that a part of an index's key is, with its table.
fn key_column(
    table: Option<&TableDefinition>,
    index: usize,
    part: usize,
) -> Option<(u16, &TableDefinition)> {
    let table = table?;
    match table.indexes.get(index)?.keys.get(part)? {
        IndexKey::Column(column) => Some((*column, table)),
        IndexKey::Expression(_) => None,
    }
}
