//! A single table brought to the coordinator: filtered and cut to the columns that are needed.

use super::{Place, Planner, columns_of, filtered};
use crate::error::PlanError;
use crate::query::logical::{From, Leaf, LeafKind, Select};
use crate::query::{partition, walk};
use crate::rules::Rule;
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_plan_ir::statement::{Query as PlannedQuery, Target};
use lockstep_plan_ir::{
    AggregateFunction, Comparison, Expression, Node, Relation, TableDefinition,
};
use lockstep_types::SqlType;
use std::collections::BTreeSet;

impl Planner<'_, '_> {
    /// Fetches a table; conjuncts over it alone are tested where its rows are.
    pub(super) fn gather(
        &mut self,
        leaf: &Leaf,
        conjuncts: Vec<Expression>,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let LeafKind::Table(table) = &leaf.kind else { return Ok(Relation::OneRow) };
        let definition = &table.definition;
        let groups = definition.view.as_ref().map_or(0, |view| view.group.len());
        let (there, here): (Vec<Expression>, Vec<Expression>) =
            conjuncts.into_iter().partition(|conjunct| {
                let alone = !walk::any(conjunct, &|e| match e.node {
                    Node::Column { slot, column } => {
                        // Of partial groups only the group's values are final.
                        slot != leaf.slot || definition.is_partial && usize::from(column) >= groups
                    }
                    _ => walk::subquery_of(e).is_some(),
                });
                let reads = walk::slots_read(conjunct, &self.subqueries).contains(&leaf.slot);
                alone && (reads || !definition.is_partial)
            });
        let empty = BTreeSet::new();
        let listed = self.partitions_for(&[leaf], &there, &self.values);
        let scan = self.scan(definition, leaf.slot, &empty, there)?;
        let relation = if definition.is_partial {
            self.merged_groups(leaf.slot, definition, scan)?
        } else {
            let target = match partition::placing_value(leaf, &self.values) {
                _ if !definition.is_partitioned() => Target::One,
                Some(value) if self.uses(Rule::OnePartition) && self.may_route_by(&value) => {
                    Target::Owner(value)
                }
                _ => listed,
            };
            self.columns_needed(leaf.slot, scan, target)?
        };
        let here = self.lower_all(here.iter(), Place::Coordinator, bound)?;
        Ok(filtered(relation, here))
    }

    /// The partitions that hold all rows of a SELECT whose spread sources lie together.
    pub(super) fn partitions_of(&self, select: &Select) -> Target {
        let Some(tied) = partition::colocation(select) else { return Target::All };
        let mut leaves = Vec::new();
        select.from.each_leaf(&mut |leaf| {
            let columns = partition::partition_columns(leaf);
            if !columns.is_empty() && columns.iter().all(|column| tied.contains_key(column)) {
                leaves.push(leaf);
            }
        });
        let joined: &[Expression] = match &select.from {
            From::Inner { conjuncts, .. } => conjuncts,
            _ => &[],
        };
        let conditions: Vec<Expression> = select.filter.iter().chain(joined).cloned().collect();
        let values = partition::known_values(select, &self.values);
        self.partitions_for(&leaves, &conditions, &values)
    }

    /// The partitions of the lists of values that the partitioning columns of sources, which lie
    /// together, must be in.
    fn partitions_for(
        &self,
        leaves: &[&Leaf],
        conditions: &[Expression],
        values: &partition::Values,
    ) -> Target {
        match self.listed_partitions(leaves, conditions) {
            Target::All if self.uses(Rule::GlobalIndexes) => {
                let found = leaves.iter().find_map(|leaf| partition::indexed_place(leaf, values));
                found.map_or(Target::All, |place| Target::Owners(vec![place]))
            }
            listed => listed,
        }
    }

    fn listed_partitions(&self, leaves: &[&Leaf], conditions: &[Expression]) -> Target {
        if !self.uses(Rule::PartitionLists) {
            return Target::All;
        }
        let columns: Vec<Vec<(u16, u16)>> =
            leaves.iter().map(|leaf| partition::partition_columns(leaf)).collect();
        let count = columns.first().map_or(0, Vec::len);
        let mut keys = vec![Vec::new()];
        for number in 0..count {
            // Tied sources have their columns in one order.
            let alike: Vec<(u16, u16)> =
                columns.iter().filter_map(|columns| columns.get(number).copied()).collect();
            let lists = conditions.iter().filter_map(|condition| listed(condition, &alike));
            let Some(values) = lists.min_by_key(Vec::len) else {
                let array = conditions.iter().find_map(|condition| in_array(condition, &alike));
                return array.filter(|_| count == 1).map_or(Target::All, Target::OwnersOfArray);
            };
            if keys.len() * values.len() > MAX_OWNERS {
                return Target::All;
            }
            keys = keys
                .iter()
                .flat_map(|key: &Vec<Expression>| {
                    values.iter().map(move |value| [&key[..], std::slice::from_ref(value)].concat())
                })
                .collect();
        }
        match keys.into_iter().map(partition::placing).collect() {
            Some(owners) if count > 0 => Target::Owners(owners),
            _ => Target::All,
        }
    }

    /// Sends the columns that the statement reads of a table.
    fn columns_needed(
        &mut self,
        slot: u16,
        relation: Relation,
        target: Target,
    ) -> Result<Relation, PlanError> {
        let used = self.used.get(&slot).cloned().unwrap_or_default();
        let columns =
            used.iter().map(|(column, sql_type)| Expression::column(slot, *column, *sql_type));
        self.ship(relation, columns.collect(), target)
    }

    /// A fragment that sends these columns; they are found where it is received.
    pub(super) fn ship(
        &mut self,
        relation: Relation,
        columns: Vec<Expression>,
        target: Target,
    ) -> Result<Relation, PlanError> {
        let received = self.binder.new_slot()?;
        for (position, column) in columns.iter().enumerate() {
            if let Node::Column { slot, column } = column.node {
                self.moved.insert((slot, column), (received, position as u16));
            }
        }
        let mut output = columns;
        if output.is_empty() {
            // Rows count even where no column is read.
            output.push(super::integer(1));
        }
        let types: Vec<SqlType> = output.iter().map(|column| column.sql_type).collect();
        let query = PlannedQuery { relation, output };
        let fragment = self.add_fragment(target, query, &types)?;
        Ok(Relation::Receive { slot: received, fragment, types })
    }

    /// A view whose groups are spread over partitions: groups are merged before anything reads
    /// them.
    fn merged_groups(
        &mut self,
        slot: u16,
        definition: &TableDefinition,
        scan: Relation,
    ) -> Result<Relation, PlanError> {
        let Some(view) = &definition.view else {
            return Err(PlanError::new(format!("{} has no definition", definition.name)));
        };
        // Hidden columns, which nobody reads, stand after those that SQL sees.
        let visible = definition.columns.iter().take(definition.visible_columns.into());
        let types: Vec<SqlType> = visible.map(|c| c.sql_type).collect();
        let output = columns_of(slot, &types);
        let received = self.binder.new_slot()?;
        let query = PlannedQuery { relation: scan, output };
        let fragment = self.add_fragment(Target::All, query, &types)?;
        let input = Relation::Receive { slot: received, fragment, types: types.clone() };
        let mut columns = columns_of(received, &types);
        let aggregates = columns.split_off(view.group.len().min(columns.len()));
        let calls = aggregates.into_iter().zip(&view.aggregates).map(|(column, aggregate)| {
            let function = match aggregate.function {
                function @ (AggregateFunction::Min | AggregateFunction::Max) => function,
                // Hidden exact sums are for the partition that keeps them; nobody reads them here.
                _ if column.sql_type == SqlType::Varbinary => AggregateFunction::Min,
                _ => AggregateFunction::Sum,
            };
            let sql_type = column.sql_type;
            AggregateCall {
                function,
                distinct: false,
                argument: Some(column),
                sql_type,
                user: None,
            }
        });
        let calls = calls.collect();
        Ok(Relation::Aggregate { input: Box::new(input), slot, group: columns, calls })
    }
}

/// Most values by which partitions are told; more are likely to need all of them.
const MAX_OWNERS: usize = 256;

/// The array parameter whose elements are all that one of these columns can be.
fn in_array(condition: &Expression, columns: &[(u16, u16)]) -> Option<u16> {
    match &condition.node {
        Node::InArray { value, parameter } => match value.node {
            Node::Column { slot, column } if columns.contains(&(slot, column)) => Some(*parameter),
            _ => None,
        },
        Node::And(parts) => parts.iter().find_map(|part| in_array(part, columns)),
        _ => None,
    }
}

/// The values that one of some columns must be in, if a condition says so.
fn listed(condition: &Expression, columns: &[(u16, u16)]) -> Option<Vec<Expression>> {
    let fits = |column: &Expression, value: &Expression| {
        let place = match column.node {
            Node::Column { slot, column } => (slot, column),
            _ => return false,
        };
        columns.contains(&place)
            && partition::is_known(value)
            && partition::hashes_alike(column.sql_type, value.sql_type)
    };
    match &condition.node {
        Node::InList { value, list } => {
            list.iter().all(|item| fits(value, item)).then(|| list.clone())
        }
        Node::Compare(Comparison::Equal, a, b) => match (fits(a, b), fits(b, a)) {
            (true, _) => Some(vec![(**b).clone()]),
            (_, true) => Some(vec![(**a).clone()]),
            _ => None,
        },
        Node::Or(parts) => {
            let mut values = Vec::new();
            for part in parts {
                values.extend(listed(part, columns)?);
            }
            Some(values)
        }
        Node::And(parts) => parts.iter().find_map(|part| listed(part, columns)),
        _ => None,
    }
}
