//! Orders that indexes give.

use crate::query::access::{Path, Rank, Target, at_slot, choose};
use lockstep_plan_ir::relation::SortKey;
use lockstep_plan_ir::schema::{IndexDefinition, IndexKey};
use lockstep_plan_ir::{Access, Expression};
use lockstep_types::IndexId;
use std::collections::BTreeSet;

/// A way to a table's rows in an order, if an index gives it at no loss: the best path's own
/// index, or any index if all rows are read.
pub(crate) fn ordered_path(
    target: &Target<'_>,
    conjuncts: &[&Expression],
    keys: &[SortKey],
) -> Option<Path> {
    let path = choose(target, conjuncts);
    match &path.access {
        Access::Index { index, equal, at_most_one, .. } => {
            let definition = &target.table.indexes[index.index()];
            let descending = if *at_most_one {
                Some(false)
            } else {
                gives_order(target, definition, equal.len(), keys)
            }?;
            let mut path = path;
            if let Access::Index { reverse, .. } = &mut path.access {
                *reverse = descending;
            }
            Some(path)
        }
        Access::IndexList { .. } => None,
        Access::Full => {
            let indexes = target.table.indexes.iter().enumerate();
            let mut whole =
                indexes.filter(|(_, index)| index.predicate.is_none() && !index.building);
            let (position, descending) = whole.find_map(|(position, index)| {
                gives_order(target, index, 0, keys).map(|descending| (position, descending))
            })?;
            let access = Access::Index {
                index: IndexId(position as u16),
                equal: Vec::new(),
                null_matches: Vec::new(),
                lower: None,
                upper: None,
                reverse: descending,
                at_most_one: false,
            };
            Some(Path { access, ensured: BTreeSet::new(), rank: Rank::All, cost: path.cost })
        }
    }
}

/// Whether an index, after `fixed` key parts that are equal for all rows, has the order of
/// `keys`: from the lower end up (false), or down (true).
fn gives_order(
    target: &Target<'_>,
    index: &IndexDefinition,
    fixed: usize,
    keys: &[SortKey],
) -> Option<bool> {
    let parts: Vec<Expression> = index.keys.iter().map(|key| part(target, key)).collect();
    let descending = keys.first()?.descending;
    let mut next = fixed;
    for key in keys {
        if key.descending != descending || key.nulls_first == descending {
            return None;
        }
        if parts[..next].contains(&key.expression) {
            // Equal for all rows, or ordered already.
            continue;
        }
        if next == parts.len() && index.unique && fixed == 0 {
            // All parts of a unique key: there are no ties left to order.
            return Some(descending);
        }
        if parts.get(next) != Some(&key.expression) {
            return None;
        }
        next += 1;
    }
    Some(descending)
}

fn part(target: &Target<'_>, key: &IndexKey) -> Expression {
    match key {
        IndexKey::Column(column) => {
            let sql_type = target.table.columns[usize::from(*column)].sql_type;
            Expression::column(target.slot, *column, sql_type)
        }
        IndexKey::Expression(expression) => at_slot(expression, target.slot),
    }
}
