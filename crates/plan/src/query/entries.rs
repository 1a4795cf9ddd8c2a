//! Queries that a global index answers by itself: one row by the whole key of a unique index, and
//! no columns but those that its entries hold. They read the table of the entries instead of the
//! rows, so they run at the partition of the key, alone.

use super::logical::{Body, From, Leaf, LeafKind, Query, Subqueries};
use super::partition::{Values, known_key, known_values, placing_value};
use super::walk;
use crate::catalog::{Catalog, CatalogTable};
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_plan_ir::{Lookup, Node};
use std::sync::Arc;

/// Reads entries in place of rows, if one index has all that a query of one table needs. True if
/// it does.
pub(crate) fn read_entries(
    query: &mut Query,
    subqueries: &mut Subqueries,
    catalog: &Catalog,
) -> bool {
    let Body::Select(select) = &query.body else { return false };
    let From::Leaf(Leaf { slot, kind: LeafKind::Table(table) }) = &select.from else {
        return false;
    };
    let (slot, table) = (*slot, Arc::clone(table));
    let leaf = Leaf { slot, kind: LeafKind::Table(Arc::clone(&table)) };
    let values = known_values(select, &Values::new());
    // Where the partitioning columns are known otherwise, the rows need no index.
    let asks = placing_value(&leaf, &values).is_some_and(|value| Lookup::of(&value).is_some());
    if !asks {
        return false;
    }
    let indexes = table.definition.global_indexes.iter();
    let mut unique = indexes.filter(|index| index.unique && !index.building);
    unique.any(|index| {
        let entries = catalog.tables.values().find(|entry| entry.definition.id == index.entries);
        known_key(&leaf, index, &values).is_some()
            && entries.is_some_and(|entries| replace(query, subqueries, slot, (index, entries)))
    })
}

/// Puts the entries of an index in the place of its table, if they have all columns that are read.
fn replace(
    query: &mut Query,
    subqueries: &mut Subqueries,
    slot: u16,
    (index, entries): (&GlobalIndexDefinition, &Arc<CatalogTable>),
) -> bool {
    let (mut replaced, mut inner) = (query.clone(), subqueries.clone());
    let mut has_all = true;
    walk::change_query(&mut replaced, &mut inner, &mut |expression| {
        if let Node::Column { slot: of, column } = &mut expression.node
            && *of == slot
        {
            match index.entry_column(*column) {
                Some(held) => *column = held,
                None => has_all = false,
            }
        }
        false
    });
    let Body::Select(select) = &mut replaced.body else { return false };
    select.from = From::Leaf(Leaf { slot, kind: LeafKind::Table(Arc::clone(entries)) });
    if has_all {
        (*query, *subqueries) = (replaced, inner);
    }
    has_all
}
