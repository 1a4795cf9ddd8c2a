//! How a table's rows are found: the choice of an index.

use super::bind::same_kind;
use super::estimate::Estimator;
use super::partition::is_known;
use super::physical::{SCANNED_ROW, SEEK};
use super::walk;
use crate::planning::Planning;
use crate::rules::Rule;
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::relation::{KeyBound, KeyList};
use lockstep_plan_ir::schema::{IndexDefinition, IndexKey};
use lockstep_plan_ir::{Access, Comparison, Expression, Node, TableDefinition};
use lockstep_types::{IndexId, SqlType};
use std::collections::{BTreeMap, BTreeSet};

/// A way to the rows, with the conjuncts that it makes unnecessary.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// The way.
    pub(crate) access: Access,
    /// Positions of conjuncts that it ensures.
    pub(crate) ensured: BTreeSet<usize>,
    /// How good it is: less is better.
    pub(crate) rank: Rank,
    /// What it costs to run it once.
    pub(crate) cost: f64,
}

impl Path {
    /// Whether it finds at most one row.
    pub(crate) fn is_unique(&self) -> bool {
        self.rank == Rank::One
    }
}

/// A scan of a table costs as if it had at least N rows: it may grow while the plan is kept.
const LEAST_ROWS: f64 = 16.0;

/// Goodness of a path; the least is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// At most one row.
    One,
    /// Equal to a whole key, or to this many columns: the more the better.
    Equal(std::cmp::Reverse<u16>),
    /// One row or few for each value of a list.
    List,
    /// A range with both ends.
    Between,
    /// A range with one end.
    HalfOpen,
    /// All rows.
    All,
}

/// Subqueries of one column that give the same for all rows of a statement: number and type.
pub(crate) type Constant = BTreeMap<u16, SqlType>;

/// The table's place in the query.
pub(crate) struct Target<'t> {
    /// The table.
    pub(crate) table: &'t TableDefinition,
    /// Its slot.
    pub(crate) slot: u16,
    /// Slots whose rows are there when this table is read.
    pub(crate) bound: &'t BTreeSet<u16>,
    /// The subqueries that may serve as keys.
    pub(crate) constant: &'t Constant,
    /// The rules in force and what is known of the data.
    pub(crate) planning: &'t Planning,
    /// Knows how many rows a path finds.
    pub(crate) estimator: &'t Estimator<'t>,
}

/// The best way to rows for which all conjuncts (over this table and the bound slots) hold.
pub(crate) fn choose(target: &Target<'_>, conjuncts: &[&Expression]) -> Path {
    let cost = target.estimator.table_rows(target.slot).max(LEAST_ROWS) * SCANNED_ROW;
    let mut best = Path { access: Access::Full, ensured: BTreeSet::new(), rank: Rank::All, cost };
    if !target.planning.uses(Rule::IndexAccess) {
        return best;
    }
    for (position, index) in target.table.indexes.iter().enumerate() {
        if index.building {
            continue;
        }
        let Some(implied) = predicate_conjuncts(target, index, conjuncts) else { continue };
        let id = IndexId(position as u16);
        for mut path in paths(target, id, index, conjuncts) {
            path.ensured.extend(&implied);
            if path.rank == Rank::One {
                return path;
            }
            let seeks = match &path.access {
                Access::IndexList { list: KeyList::Values(values), .. } => values.len() as f64,
                _ => 1.0,
            };
            path.cost = SEEK * seeks + target.estimator.found(target.slot, &path.access);
            let better = path.cost < best.cost || path.cost == best.cost && path.rank < best.rank;
            if better {
                best = path;
            }
        }
    }
    best
}

/// For a partial index: the conjuncts that its predicate ensures; `None` if it may lack rows.
fn predicate_conjuncts(
    target: &Target<'_>,
    index: &IndexDefinition,
    conjuncts: &[&Expression],
) -> Option<BTreeSet<usize>> {
    let mut ensured = BTreeSet::new();
    let Some(predicate) = &index.predicate else { return Some(ensured) };
    let parts: Vec<&Expression> = match &predicate.node {
        Node::And(parts) => parts.iter().collect(),
        _ => vec![predicate],
    };
    for part in parts {
        let moved = at_slot(part, target.slot);
        match conjuncts.iter().position(|conjunct| **conjunct == moved) {
            Some(position) => {
                ensured.insert(position);
            }
            None if conjuncts.iter().any(|conjunct| rejects_null(conjunct, &moved)) => {}
            None => return None,
        }
    }
    Some(ensured)
}

/// An expression over slot 0 as one over another slot.
pub(crate) fn at_slot(expression: &Expression, slot: u16) -> Expression {
    let mut moved = expression.clone();
    walk::each_planned(&mut moved, &mut |node| {
        if let Node::Column { slot: own, .. } = &mut node.node {
            *own = slot;
        }
    });
    moved
}

/// True when `part` is `x IS NOT NULL` and the conjunct is not true for a NULL `x`.
fn rejects_null(conjunct: &Expression, part: &Expression) -> bool {
    let Node::Not(inner) = &part.node else { return false };
    let Node::IsNull(value) = &inner.node else { return false };
    match &conjunct.node {
        Node::Compare(Comparison::Distinct | Comparison::NotDistinct, ..) => false,
        Node::Compare(_, a, b) => a == value || b == value,
        Node::InList { value: tested, .. } | Node::InArray { value: tested, .. } => tested == value,
        Node::Like { value: tested, .. } | Node::StartsWith(tested, _) => tested == value,
        _ => false,
    }
}

fn key_of(target: &Target<'_>, index: &IndexDefinition, part: usize) -> Option<Expression> {
    Some(match index.keys.get(part)? {
        IndexKey::Column(column) => {
            let sql_type = target.table.columns[usize::from(*column)].sql_type;
            Expression::column(target.slot, *column, sql_type)
        }
        IndexKey::Expression(expression) => at_slot(expression, target.slot),
    })
}

/// True when a value is known before the table's row is.
fn is_bound(target: &Target<'_>, value: &Expression) -> bool {
    !walk::any(value, &|e| match &e.node {
        Node::Column { slot, .. } => !target.bound.contains(slot),
        Node::ScalarSubquery(subquery) => !target.constant.contains_key(&subquery.number),
        _ => walk::subquery_of(e).is_some(),
    })
}

/// An equality for a key part: its conjunct, value, and whether NULL matches NULL.
fn equality(
    target: &Target<'_>,
    key: &Expression,
    conjuncts: &[&Expression],
) -> Option<(usize, Expression, bool)> {
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let (a, b, null_matches) = match &conjunct.node {
            Node::Compare(Comparison::Equal, a, b) => (&**a, &**b, false),
            Node::Compare(Comparison::NotDistinct, a, b) => (&**a, &**b, true),
            Node::IsNull(value) if **value == *key => {
                let null = Expression::literal(lockstep_types::Value::Null, key.sql_type);
                return Some((position, null, true));
            }
            Node::InList { value, list } if list.len() == 1 => (&**value, &list[0], false),
            _ => continue,
        };
        for (mine, other) in [(a, b), (b, a)] {
            if mine == key && same_kind(key.sql_type, other.sql_type) && is_bound(target, other) {
                return Some((position, other.clone(), null_matches));
            }
        }
    }
    None
}

/// Whether at most one row here has a whole key of an index: it refuses others, or a global unique
/// index over the same columns does everywhere.
fn is_unique(target: &Target<'_>, definition: &IndexDefinition) -> bool {
    let holds = |column: &u16| definition.keys.contains(&IndexKey::Column(*column));
    let mut global = target.table.global_indexes.iter().filter(|i| i.unique && !i.building);
    definition.unique
        || global.any(|index| {
            index.keys().len() == definition.keys.len() && index.keys().iter().all(holds)
        })
}

fn paths(
    target: &Target<'_>,
    index: IndexId,
    definition: &IndexDefinition,
    conjuncts: &[&Expression],
) -> Vec<Path> {
    let mut equal = Vec::new();
    let mut null_matches = Vec::new();
    let mut ensured = BTreeSet::new();
    while let Some(key) = key_of(target, definition, equal.len()) {
        let Some((position, value, nulls)) = equality(target, &key, conjuncts) else { break };
        equal.push(value);
        null_matches.push(nulls);
        ensured.insert(position);
    }
    let whole = equal.len() == definition.keys.len();
    let mut found = Vec::new();
    let ranges = target.planning.uses(Rule::IndexRanges);
    let (lower, upper) = match key_of(target, definition, equal.len()) {
        Some(key) if ranges => range(target, &key, conjuncts, &mut ensured),
        _ => (None, None),
    };
    let count = equal.len() as u16;
    let at_most_one = whole && is_unique(target, definition);
    let rank = match (&lower, &upper) {
        _ if at_most_one => Rank::One,
        _ if count > 0 => {
            let extra = u16::from(whole) + u16::from(lower.is_some() || upper.is_some());
            Rank::Equal(std::cmp::Reverse(count * 2 + extra))
        }
        (Some(_), Some(_)) => Rank::Between,
        (None, None) => Rank::All,
        _ => Rank::HalfOpen,
    };
    if rank != Rank::All {
        let reverse = false;
        let access =
            Access::Index { index, equal, null_matches, lower, upper, reverse, at_most_one };
        found.push(Path { access, ensured, rank, cost: SEEK });
    }
    found.extend(list_path(target, index, definition, conjuncts));
    found
}

/// `key IN (...)` on the first part of a key.
fn list_path(
    target: &Target<'_>,
    index: IndexId,
    definition: &IndexDefinition,
    conjuncts: &[&Expression],
) -> Option<Path> {
    if !target.planning.uses(Rule::IndexLists) {
        return None;
    }
    let key = key_of(target, definition, 0)?;
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let list = match &conjunct.node {
            Node::InList { value, list } if **value == key && list.len() > 1 => {
                let fits = |e: &Expression| {
                    is_bound(target, e) && same_kind(e.sql_type, key.sql_type) && is_known(e)
                };
                if !list.iter().all(fits) {
                    continue;
                }
                KeyList::Values(list.clone())
            }
            Node::InArray { value, parameter } if **value == key => KeyList::Array(*parameter),
            Node::Quantified {
                comparison: Comparison::Equal,
                quantifier: Quantifier::Any,
                row,
                subquery,
            } if row[..] == [key.clone()]
                && target
                    .constant
                    .get(&subquery.number)
                    .is_some_and(|sql_type| same_kind(*sql_type, key.sql_type)) =>
            {
                KeyList::Subquery(subquery.clone())
            }
            _ => continue,
        };
        let access = Access::IndexList { index, list };
        return Some(Path {
            access,
            ensured: BTreeSet::from([position]),
            rank: Rank::List,
            cost: SEEK,
        });
    }
    None
}

/// The range of a key part: the first lower and upper bound there are.
fn range(
    target: &Target<'_>,
    key: &Expression,
    conjuncts: &[&Expression],
    ensured: &mut BTreeSet<usize>,
) -> (Option<KeyBound>, Option<KeyBound>) {
    let (mut lower, mut upper) = (None, None);
    for (position, conjunct) in conjuncts.iter().enumerate() {
        for (comparison, value) in bounds(key, conjunct) {
            if !same_kind(key.sql_type, value.sql_type) || !is_bound(target, value) {
                continue;
            }
            let inclusive =
                matches!(comparison, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
            let end = match comparison {
                Comparison::Greater | Comparison::GreaterOrEqual => &mut lower,
                Comparison::Less | Comparison::LessOrEqual => &mut upper,
                _ => continue,
            };
            if end.is_none() {
                *end = Some(KeyBound { value: value.clone(), inclusive });
                if matches!(conjunct.node, Node::Compare(..)) {
                    ensured.insert(position);
                }
            }
        }
    }
    (lower, upper)
}

/// The comparisons `key op value` that a conjunct is, or that follow from a BETWEEN within.
fn bounds<'e>(key: &Expression, conjunct: &'e Expression) -> Vec<(Comparison, &'e Expression)> {
    match &conjunct.node {
        Node::Compare(comparison, a, b) if **a == *key => vec![(*comparison, &**b)],
        Node::Compare(comparison, a, b) if **b == *key => vec![(comparison.mirrored(), &**a)],
        _ => Vec::new(),
    }
}
