//! How many rows a relation gives, as far as the statistics say.
//!
//! Numbers are those of one place: at a partition, of its share of a spread table. Where nothing
//! is known, usual shares stand in; an estimate is never an answer, only a reason for a plan.

use super::walk;
use crate::planning::{ColumnStatistics, Planning, TableStatistics};
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::relation::{KeyList, SetOperator};
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::{Fragment, Target};
use lockstep_plan_ir::{Access, Comparison, Expression, Node, Relation, Scan, TableDefinition};
use lockstep_types::Value;
use lockstep_types::float::compare_floats;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of a table of which nothing is known. Plans of procedures are made when tables are empty,
/// so that no rows means the same.
const USUAL_ROWS: f64 = 1000.0;
/// Rows with an equal value in a column of which nothing is known.
const USUAL_EQUAL_ROWS: f64 = 10.0;
/// Share of the rows on one side of a value.
const USUAL_RANGE: f64 = 1.0 / 3.0;
/// Share of the rows that some other condition lets through.
const USUAL_SHARE: f64 = 0.25;
/// Rows expected where the statistics, which may be out of date, say that there are none.
const NONE: f64 = 0.1;
/// Elements of an array parameter or of a subquery's column.
const USUAL_LIST: f64 = 10.0;

/// What a slot's rows are.
#[derive(Debug, Clone)]
enum Known<'p> {
    /// Those of a table.
    Table {
        definition: Arc<TableDefinition>,
        statistics: Option<&'p TableStatistics>,
        /// At one place.
        rows: f64,
        /// Partitions that the table is spread over.
        spread: f64,
    },
    /// Computed ones: where each column comes from, if it is a column itself.
    Computed { origins: Vec<Option<(u16, u16)>> },
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Estimator<'p> {
    planning: &'p Planning,
    slots: BTreeMap<u16, Known<'p>>,
    /// Share of a table's rows that constants in the query leave, by column.
    left: BTreeMap<(u16, u16), f64>,
    /// Rows by the address of a relation, once they are asked for.
    recorded: Option<BTreeMap<usize, f64>>,
}

impl<'p> Estimator<'p> {
    /// An estimator that knows of no slot yet.
    pub(crate) fn new(planning: &'p Planning) -> Self {
        Estimator { planning, slots: BTreeMap::new(), left: BTreeMap::new(), recorded: None }
    }

    /// Learns that a slot holds rows of a table.
    pub(crate) fn learn_table(&mut self, slot: u16, definition: &Arc<TableDefinition>) {
        let statistics = &self.planning.statistics;
        let known = statistics.tables.get(&definition.id).filter(|known| known.rows > 0);
        let spread = match definition.is_replicated() {
            true => 1.0,
            false => f64::from(statistics.partitions.max(1)),
        };
        let rows = known.map_or(USUAL_ROWS, |known| (known.rows as f64 / spread).max(1.0));
        let definition = Arc::clone(definition);
        self.slots.insert(slot, Known::Table { definition, statistics: known, rows, spread });
    }

    /// Learns what conditions leave of each column's values.
    pub(crate) fn learn_conditions<'e>(
        &mut self,
        conditions: impl Iterator<Item = &'e Expression>,
    ) {
        let mut by_column: BTreeMap<(u16, u16), Vec<&Expression>> = BTreeMap::new();
        for condition in conditions {
            let column = match &condition.node {
                Node::Compare(_, a, b) => match (&a.node, &b.node) {
                    (Node::Column { .. }, Node::Column { .. }) => continue,
                    (Node::Column { .. }, _) => a,
                    (_, Node::Column { .. }) => b,
                    _ => continue,
                },
                Node::InList { value, .. } | Node::InArray { value, .. } => value,
                _ => continue,
            };
            if let Some(place) = self.origin(column) {
                by_column.entry(place).or_default().push(condition);
            }
        }
        for (place, conditions) in by_column {
            let share = self.share(conditions.into_iter());
            self.left.insert(place, share);
        }
    }

    /// What conditions leave of a column's values.
    fn left(&self, place: (u16, u16)) -> f64 {
        self.left.get(&place).copied().unwrap_or(1.0)
    }

    /// Learns where the columns of a computed row come from.
    fn learn_computed(&mut self, slot: u16, expressions: &[Expression]) {
        let origin = |expression: &Expression| match expression.node {
            Node::Column { slot, column } => Some((slot, column)),
            _ => None,
        };
        let origins = expressions.iter().map(origin).collect();
        self.slots.insert(slot, Known::Computed { origins });
    }

    /// Whether there are statistics of the table in a slot.
    pub(crate) fn is_known(&self, slot: u16) -> bool {
        matches!(self.slots.get(&slot), Some(Known::Table { statistics: Some(_), .. }))
    }

    /// Rows of the table in a slot.
    pub(crate) fn table_rows(&self, slot: u16) -> f64 {
        match self.slots.get(&slot) {
            Some(Known::Table { rows, .. }) => *rows,
            _ => USUAL_ROWS,
        }
    }

    /// The column of a table that an expression is, in the end.
    fn origin(&self, expression: &Expression) -> Option<(u16, u16)> {
        let Node::Column { slot, column } = expression.node else { return None };
        let mut place = (slot, column);
        // Chains are as long as queries are deep; a longer one is not worth following.
        for _ in 0..32 {
            match self.slots.get(&place.0)? {
                Known::Table { .. } => return Some(place),
                Known::Computed { origins } => {
                    let next = (*origins.get(usize::from(place.1))?)?;
                    if next == place {
                        return None;
                    }
                    place = next;
                }
            }
        }
        None
    }

    fn column(&self, (slot, column): (u16, u16)) -> Option<&'p ColumnStatistics> {
        match self.slots.get(&slot)? {
            Known::Table { statistics, .. } => {
                (*statistics)?.columns.get(usize::from(column)).filter(|c| c.distinct > 0)
            }
            Known::Computed { .. } => None,
        }
    }

    /// Distinct values of a column, at one place.
    fn distinct(&self, place: (u16, u16)) -> Option<f64> {
        let Known::Table { definition, rows, spread, .. } = self.slots.get(&place.0)? else {
            return None;
        };
        let key = [IndexKey::Column(place.1)];
        if definition.indexes.iter().any(|index| index.unique && index.keys[..] == key) {
            return Some(*rows);
        }
        let distinct = match self.column(place) {
            Some(column) if definition.partition_columns[..] == [place.1] => {
                column.distinct as f64 / spread
            }
            Some(column) => column.distinct as f64,
            None => rows / USUAL_EQUAL_ROWS,
        };
        Some(distinct.clamp(1.0, *rows))
    }

    /// Share of pairs or rows for which two values are equal.
    fn equal(&self, a: &Expression, b: &Expression) -> f64 {
        let distinct = |e: &Expression| {
            let place = self.origin(e)?;
            Some((self.distinct(place)?, self.left(place)))
        };
        match (distinct(a), distinct(b)) {
            (Some(a), Some(b)) => 1.0 / (a.0 * a.1).max(b.0 * b.1).max(1.0),
            (Some((distinct, _)), None) => self.frequency(a, b).unwrap_or(1.0 / distinct),
            (None, Some((distinct, _))) => self.frequency(b, a).unwrap_or(1.0 / distinct),
            (None, None) => USUAL_EQUAL_ROWS / USUAL_ROWS,
        }
    }

    /// Share of the rows with a value, where it is known to be a frequent one.
    fn frequency(&self, column: &Expression, value: &Expression) -> Option<f64> {
        let Node::Literal(value) = &value.node else { return None };
        let place = self.origin(column)?;
        let bounds = &self.column(place)?.bounds;
        let outside = bounds.first().is_some_and(|least| order(value, least) == Ordering::Less)
            || bounds.last().is_some_and(|most| order(value, most) == Ordering::Greater);
        if outside {
            return Some(NONE / self.table_rows(place.0));
        }
        let same = bounds.iter().filter(|bound| order(bound, value) == Ordering::Equal).count();
        (same > 2).then(|| (same - 1) as f64 / (bounds.len() - 1) as f64)
    }

    /// Share of the rows with a value less than a constant.
    fn below(&self, column: &Expression, value: &Expression) -> Option<f64> {
        let Node::Literal(value) = &value.node else { return None };
        let bounds = &self.column(self.origin(column)?)?.bounds;
        if bounds.len() < 2 {
            return None;
        }
        let steps = (bounds.len() - 1) as f64;
        let place = bounds.partition_point(|bound| order(bound, value) == Ordering::Less);
        if place == 0 || place == bounds.len() {
            return Some(if place == 0 { 0.0 } else { 1.0 });
        }
        let within = match (number(&bounds[place - 1]), number(&bounds[place]), number(value)) {
            (Some(low), Some(high), Some(value)) if high > low && (high - low).is_finite() => {
                (value - low) / (high - low)
            }
            _ => 0.5,
        };
        Some(((place - 1) as f64 + within) / steps)
    }

    /// Share of the rows that conditions let through, all together.
    pub(crate) fn share<'e>(&self, conjuncts: impl Iterator<Item = &'e Expression>) -> f64 {
        let mut share = 1.0;
        // Both ends of a range are one condition.
        let mut ranges: BTreeMap<(u16, u16), (f64, f64)> = BTreeMap::new();
        for conjunct in conjuncts {
            match self.range_end(conjunct) {
                Some((place, comparison, below)) => {
                    let (low, high) = ranges.entry(place).or_insert((0.0, 1.0));
                    match comparison {
                        Comparison::Less | Comparison::LessOrEqual => *high = high.min(below),
                        _ => *low = low.max(below),
                    }
                }
                None => share *= self.condition(conjunct),
            }
        }
        for (place, (low, high)) in ranges {
            let least = self.distinct(place).map_or(0.01, |distinct| 1.0 / distinct);
            share *= (high - low).max(least).min(1.0);
        }
        share
    }

    /// A comparison of a column with a constant whose place among the column's values is known.
    fn range_end(&self, conjunct: &Expression) -> Option<((u16, u16), Comparison, f64)> {
        let Node::Compare(comparison, a, b) = &conjunct.node else { return None };
        let (comparison, column, value) = match (&a.node, &b.node) {
            (Node::Column { .. }, Node::Literal(_)) => (*comparison, a, b),
            (Node::Literal(_), Node::Column { .. }) => (comparison.mirrored(), b, a),
            _ => return None,
        };
        if !matches!(
            comparison,
            Comparison::Less
                | Comparison::LessOrEqual
                | Comparison::Greater
                | Comparison::GreaterOrEqual
        ) {
            return None;
        }
        Some((self.origin(column)?, comparison, self.below(column, value)?))
    }

    fn condition(&self, condition: &Expression) -> f64 {
        match &condition.node {
            Node::Compare(Comparison::Equal | Comparison::NotDistinct, a, b) => self.equal(a, b),
            Node::Compare(Comparison::NotEqual | Comparison::Distinct, a, b) => {
                1.0 - self.equal(a, b)
            }
            Node::Compare(..) | Node::CompareRows(..) => USUAL_RANGE,
            Node::And(parts) => self.share(parts.iter()),
            Node::Or(parts) => {
                1.0 - parts.iter().map(|part| 1.0 - self.condition(part)).product::<f64>()
            }
            Node::Not(inner) => match &inner.node {
                Node::IsNull(_) => 0.9,
                _ => (1.0 - self.condition(inner)).max(0.01),
            },
            Node::IsNull(_) => 0.1,
            Node::InList { value, list } => {
                list.iter().map(|item| self.equal(value, item)).sum::<f64>().min(1.0)
            }
            Node::InArray { value, .. } => self.in_list(value, USUAL_LIST),
            Node::Quantified {
                comparison: Comparison::Equal,
                quantifier: Quantifier::Any,
                row,
                ..
            } => row.first().map_or(USUAL_SHARE, |value| self.in_list(value, USUAL_LIST)),
            Node::Literal(Value::Bool(value)) => f64::from(u8::from(*value)),
            _ => USUAL_SHARE,
        }
    }

    fn in_list(&self, value: &Expression, values: f64) -> f64 {
        let distinct = self.origin(value).and_then(|place| self.distinct(place));
        (values / distinct.unwrap_or(USUAL_ROWS / USUAL_EQUAL_ROWS)).min(0.5)
    }

    /// Distinct rows of some values among N rows.
    fn groups(&self, expressions: &[Expression], rows: f64) -> f64 {
        let mut groups = 1.0;
        for expression in expressions {
            let known = self.origin(expression).and_then(|place| self.distinct(place));
            groups *= known.unwrap_or_else(|| (rows / USUAL_EQUAL_ROWS).max(1.0));
        }
        groups.min(rows.max(1.0))
    }
}

/// The rows of planned relations.
impl Estimator<'_> {
    /// Rows that a relation gives; `fragments` are those that it may receive from. Learns the
    /// slots that it binds.
    pub(crate) fn rows(&mut self, relation: &Relation, fragments: &[Fragment]) -> f64 {
        let rows = self.rows_of(relation, fragments);
        if let Some(recorded) = &mut self.recorded {
            recorded.insert(std::ptr::from_ref(relation).addr(), rows);
        }
        rows
    }

    /// From now on the rows of each relation are kept.
    pub(crate) fn record(&mut self) {
        self.recorded = Some(BTreeMap::new());
    }

    /// The rows of a relation that were kept.
    pub(crate) fn recorded(&self, relation: &Relation) -> Option<f64> {
        self.recorded.as_ref()?.get(&std::ptr::from_ref(relation).addr()).copied()
    }

    fn rows_of(&mut self, relation: &Relation, fragments: &[Fragment]) -> f64 {
        match relation {
            Relation::OneRow => 1.0,
            Relation::Scan(scan) => self.scan_rows(scan),
            Relation::Receive { slot, fragment, .. } => self.received(*slot, *fragment, fragments),
            Relation::Filter { input, predicate } => {
                self.rows(input, fragments) * self.share(std::iter::once(predicate))
            }
            Relation::Project { input, slot, expressions } => {
                let rows = self.rows(input, fragments);
                self.learn_computed(*slot, expressions);
                rows
            }
            Relation::Join(join) => self.join_rows(join, fragments),
            Relation::Aggregate { input, slot, group, .. } => {
                let rows = self.rows(input, fragments);
                self.learn_computed(*slot, group);
                if group.is_empty() { 1.0 } else { self.groups(group, rows) }
            }
            Relation::Sort { input, limit, .. } | Relation::Limit { input, limit, .. } => {
                let rows = self.rows(input, fragments);
                match limit.as_ref().map(|limit| &limit.node) {
                    Some(Node::Literal(Value::Int(limit))) => rows.min(*limit as f64),
                    Some(_) => rows.min(USUAL_LIST),
                    None => rows,
                }
            }
            Relation::Distinct { input, slot } => {
                let rows = self.rows(input, fragments);
                match self.slots.get(slot) {
                    Some(Known::Computed { origins }) => {
                        let columns: Vec<Expression> = (0..origins.len() as u16)
                            .map(|i| Expression::column(*slot, i, lockstep_types::SqlType::Null))
                            .collect();
                        self.groups(&columns, rows)
                    }
                    _ => rows,
                }
            }
            Relation::SetOperation { operator, branches, .. } => {
                let mut each = Vec::with_capacity(branches.len());
                for branch in branches {
                    each.push(self.rows(&branch.relation, fragments));
                }
                let first = each.first().copied().unwrap_or(0.0);
                match operator {
                    SetOperator::Union => each.iter().sum(),
                    SetOperator::Intersect => each.iter().fold(first, |a, b| a.min(*b)),
                    SetOperator::Except => first,
                }
            }
            Relation::Window { input, .. } => self.rows(input, fragments),
            Relation::Recursive { base, step, .. } => {
                let first = self.rows(&base.relation, fragments);
                self.rows(&step.relation, fragments);
                first * USUAL_LIST
            }
            Relation::Working { .. } => USUAL_LIST,
        }
    }

    fn received(&mut self, slot: u16, fragment: u16, fragments: &[Fragment]) -> f64 {
        let Some(sent) = fragments.get(usize::from(fragment)) else { return USUAL_ROWS };
        let lockstep_plan_ir::Operation::Query(query) = &sent.operation else { return 1.0 };
        let rows = self.rows(&query.relation, &[]);
        self.learn_computed(slot, &query.output);
        match sent.target {
            Target::All => rows * f64::from(self.planning.statistics.partitions.max(1)),
            _ => rows,
        }
    }

    fn scan_rows(&self, scan: &Scan) -> f64 {
        let found = self.found(scan.slot, &scan.access);
        let filters = match &scan.filter {
            Some(Expression { node: Node::And(parts), .. }) => self.share(parts.iter()),
            Some(filter) => self.share(std::iter::once(filter)),
            None => 1.0,
        };
        found * filters
    }

    /// Rows that an access visits each time it runs.
    pub(crate) fn found(&self, slot: u16, access: &Access) -> f64 {
        let rows = self.table_rows(slot);
        let Some(Known::Table { definition, .. }) = self.slots.get(&slot) else { return rows };
        let key = |index: &lockstep_types::IndexId, part: usize| {
            definition.indexes.get(index.index()).and_then(|index| match index.keys.get(part)? {
                IndexKey::Column(column) => {
                    let sql_type = definition.columns.get(usize::from(*column))?.sql_type;
                    Some(Expression::column(slot, *column, sql_type))
                }
                IndexKey::Expression(_) => None,
            })
        };
        match access {
            Access::Full => rows,
            Access::Index { at_most_one: true, .. } => 1.0,
            Access::Index { index, equal, lower, upper, .. } => {
                let mut share = 1.0;
                for (part, value) in equal.iter().enumerate() {
                    share *= match key(index, part) {
                        Some(key) => self.equal(&key, value) * self.left_for(&key, value),
                        None => USUAL_EQUAL_ROWS / USUAL_ROWS,
                    };
                }
                share *= match key(index, equal.len()) {
                    Some(key) => self.between(&key, lower.as_ref(), upper.as_ref()),
                    None => [lower, upper].into_iter().flatten().map(|_| USUAL_RANGE).product(),
                };
                (rows * share).max(if equal.is_empty() { 0.0 } else { 1.0_f64.min(rows) })
            }
            Access::IndexList { index, list } => {
                let values = match list {
                    KeyList::Values(values) => values.len() as f64,
                    KeyList::Array(_) | KeyList::Subquery(_) => USUAL_LIST,
                };
                let distinct = key(index, 0)
                    .and_then(|key| self.origin(&key))
                    .and_then(|place| self.distinct(place));
                (values * rows / distinct.unwrap_or(rows / USUAL_EQUAL_ROWS)).min(rows)
            }
        }
    }

    /// What conditions leave of a key column that is compared with another column.
    fn left_for(&self, key: &Expression, value: &Expression) -> f64 {
        match (self.origin(key), self.origin(value)) {
            (Some(place), Some(_)) => self.left(place),
            _ => 1.0,
        }
    }

    fn between(
        &self,
        key: &Expression,
        lower: Option<&lockstep_plan_ir::relation::KeyBound>,
        upper: Option<&lockstep_plan_ir::relation::KeyBound>,
    ) -> f64 {
        let low = lower.map_or(Some(0.0), |bound| self.below(key, &bound.value));
        let high = upper.map_or(Some(1.0), |bound| self.below(key, &bound.value));
        match (low, high) {
            (Some(low), Some(high)) => (high - low).max(0.0),
            (Some(share), None) => (1.0 - share) * USUAL_RANGE,
            (None, Some(share)) => share * USUAL_RANGE,
            (None, None) => lower.iter().chain(&upper).map(|_| USUAL_RANGE).product(),
        }
    }

    fn join_rows(
        &mut self,
        join: &lockstep_plan_ir::relation::Join,
        fragments: &[Fragment],
    ) -> f64 {
        use lockstep_plan_ir::relation::{JoinKind, JoinMethod};
        let left = self.rows(&join.left, fragments);
        let right = self.rows(&join.right, fragments);
        let mut share = self.share(join.condition.iter());
        if let JoinMethod::Hash { left, right } = &join.method {
            share *= left.iter().zip(right).map(|(a, b)| self.equal(a, b)).product::<f64>();
        }
        let pairs = left * right * share;
        match join.kind {
            JoinKind::Inner => pairs,
            JoinKind::Left => pairs.max(left),
            JoinKind::Right => pairs.max(right),
            JoinKind::Full => pairs.max(left).max(right),
            JoinKind::Semi => pairs.min(left),
            JoinKind::Anti => (left - pairs).max(left * 0.1),
        }
    }
}

/// The order of two values of a column; what cannot be compared is equal.
fn order(a: &Value, b: &Value) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => compare_floats(a, b),
        _ => match (a, b) {
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) | Value::Timestamp(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Decimal(value) => Some(value.to_f64()),
        _ => None,
    }
}

/// True when an expression reads a slot.
pub(crate) fn reads(expression: &Expression, slots: &[u16]) -> bool {
    walk::any(expression, &|e| matches!(e.node, Node::Column { slot, .. } if slots.contains(&slot)))
}
