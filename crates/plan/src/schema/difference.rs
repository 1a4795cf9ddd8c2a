//! The steps that take sites from one catalog to the next.

use crate::catalog::{Catalog, CatalogTable};
use lockstep_plan_ir::StorageChange;
use lockstep_plan_ir::change::ColumnSource;
use lockstep_types::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The steps, in an order in which each finds what it names: checks, drops (views first), new
/// tables, changed tables, new views, changed views.
pub(super) fn steps(
    old: &Catalog,
    new: &Catalog,
    checks: Vec<StorageChange>,
    columns: &BTreeMap<TableId, Vec<ColumnSource>>,
) -> Vec<StorageChange> {
    let old_tables = by_id(old);
    let new_tables = by_id(new);
    let is_view = |table: &CatalogTable| table.definition.view.is_some();
    let mut steps: Vec<StorageChange> = checks
        .into_iter()
        .filter(|check| match check {
            StorageChange::RequireEmpty { table, .. } => new_tables.contains_key(table),
            _ => true,
        })
        .collect();
    for views in [true, false] {
        for (id, table) in &old_tables {
            if is_view(table) == views && !new_tables.contains_key(id) {
                steps.push(StorageChange::Drop(*id));
            }
        }
    }
    for views in [false, true] {
        let here = || new_tables.iter().filter(move |(_, table)| is_view(table) == views);
        for (id, table) in here() {
            if !old_tables.contains_key(id) {
                steps.push(StorageChange::Create(table.definition.clone()));
            }
        }
        for (id, table) in here() {
            let Some(before) = old_tables.get(id) else { continue };
            let sources = columns.get(id).filter(|sources| moves(sources, before)).cloned();
            if sources.is_some() || !before.is_same(table) {
                steps.push(StorageChange::Alter {
                    definition: table.definition.clone(),
                    columns: sources,
                });
            }
        }
    }
    // A changed layout always says where the columns come from.
    for step in &mut steps {
        let StorageChange::Alter { definition, columns: columns @ None } = step else { continue };
        let before = &old_tables[&definition.id].definition;
        if layout(before) != layout(definition) {
            let sources = (0..definition.columns.len() as u16).map(ColumnSource::Old);
            *columns = Some(sources.collect());
        }
    }
    steps
}

fn by_id(catalog: &Catalog) -> BTreeMap<TableId, &Arc<CatalogTable>> {
    catalog.tables.values().map(|table| (table.definition.id, table)).collect()
}

/// Whether columns come from other places than before.
fn moves(sources: &[ColumnSource], before: &CatalogTable) -> bool {
    let same = |(place, source): (usize, &ColumnSource)| *source == ColumnSource::Old(place as u16);
    sources.len() != before.definition.columns.len() || !sources.iter().enumerate().all(same)
}

/// What rows depend on.
fn layout(
    table: &lockstep_plan_ir::TableDefinition,
) -> Vec<(lockstep_types::SqlType, u32, bool, bool)> {
    let columns = table.columns.iter();
    columns.map(|c| (c.sql_type, c.length, c.length_in_bytes, c.nullable)).collect()
}
