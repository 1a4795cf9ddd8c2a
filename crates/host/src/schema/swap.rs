//! `@SwapTables`: two tables of the same shape exchange their contents, as a schema change does:
//! at all partitions or nowhere.

use lockstep_plan::{Catalog, CatalogTable};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::{GlobalIndexDefinition, IndexDefinition};
use lockstep_site::TableSwap;
use lockstep_types::{Failure, TableId};
use std::sync::Arc;

const PREFIX: &str = "SQL error while compiling query:";

/// Which tables exchange their contents.
///
/// # Errors
/// One is not there, or they are of different shapes.
pub(super) fn table_swap(
    catalog: &Catalog,
    first: &str,
    second: &str,
) -> Result<TableSwap, Failure> {
    let first = swapped_table(catalog, first)?;
    let second = swapped_table(catalog, second)?;
    let (first, second) = (&first.definition, &second.definition);
    check_shapes(catalog, first, second)?;
    let mut pairs = vec![(first.id, second.id)];
    pairs.extend(pairs_of_entries(first, second));
    Ok(TableSwap { pairs, replicated: first.is_replicated() })
}

/// Whether the entries of two global indexes are of the same shape.
fn same_entries(a: &GlobalIndexDefinition, b: &GlobalIndexDefinition) -> bool {
    (a.unique, &a.columns, a.key_count) == (b.unique, &b.columns, b.key_count)
        && !a.building
        && !b.building
}

/// The tables of the entries of two tables' global indexes, each with its equal: an index has one
/// equal of its own among those of the other table.
fn pairs_of_entries(a: &TableDefinition, b: &TableDefinition) -> Vec<(TableId, TableId)> {
    let mut others: Vec<&Arc<GlobalIndexDefinition>> = b.global_indexes.iter().collect();
    let mut pairs = Vec::new();
    for index in &a.global_indexes {
        if let Some(place) = others.iter().position(|other| same_entries(index, other)) {
            pairs.push((index.entries, others.swap_remove(place).entries));
        }
    }
    pairs
}

/// Says which global indexes have no equal.
fn compare_global_indexes(a: &TableDefinition, b: &TableDefinition, reasons: &mut Vec<String>) {
    let pairs = pairs_of_entries(a, b);
    let paired = |entries| pairs.iter().any(|(x, y)| *x == entries || *y == entries);
    for (one, other) in [(a, b), (b, a)] {
        for index in one.global_indexes.iter().filter(|index| !paired(index.entries)) {
            reasons.push(format!(
                "{} has a global index {} that {} has no equal of: create one there, or drop it",
                one.name, index.name, other.name
            ));
        }
    }
}

fn swapped_table<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c CatalogTable, Failure> {
    let name = name.trim().to_ascii_uppercase();
    let found = catalog.table(&name);
    let table = found
        .ok_or_else(|| Failure::graceful(format!("{PREFIX} TABLE object not found: {name}")))?;
    if table.definition.view.is_some() {
        return Err(Failure::graceful(format!("{PREFIX} Illegal to modify a materialized view.")));
    }
    if table.definition.entries_of.is_some() {
        return Err(Failure::graceful(format!(
            "{PREFIX} {name} holds the entries of a global index: swap the indexed tables."
        )));
    }
    Ok(table)
}

/// Says all that keeps two tables from being exchanged.
fn check_shapes(
    catalog: &Catalog,
    first: &TableDefinition,
    second: &TableDefinition,
) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    if first.id == second.id {
        reasons.push("a table cannot be exchanged with itself".to_string());
    }
    compare_partitioning(first, second, &mut reasons);
    compare_columns(first, second, &mut reasons);
    compare_indexes(first, second, &mut reasons);
    compare_global_indexes(first, second, &mut reasons);
    for table in [first, second] {
        let views: Vec<&str> =
            table.dependent_views.iter().filter_map(|view| name_of(catalog, view.view)).collect();
        if !views.is_empty() {
            reasons.push(format!("{} is referenced in views ({})", table.name, views.join(", ")));
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = reasons.iter().map(|reason| format!("\n - {reason}")).collect();
    Err(Failure::graceful(format!(
        "{PREFIX} Swapping tables {} and {} failed for the following reason(s):{}",
        first.name,
        second.name,
        lines.concat()
    )))
}

fn name_of(catalog: &Catalog, id: TableId) -> Option<&str> {
    let found = catalog.tables.values().find(|table| table.definition.id == id);
    found.map(|table| table.definition.name.as_str())
}

fn compare_partitioning(a: &TableDefinition, b: &TableDefinition, reasons: &mut Vec<String>) {
    match (a.is_partitioned(), b.is_partitioned()) {
        _ if a.partition_columns == b.partition_columns => {}
        (true, true) => {
            reasons.push("the tables are partitioned on different columns".to_string());
        }
        _ => reasons.push("one table is partitioned and the other is not".to_string()),
    }
}

fn compare_columns(a: &TableDefinition, b: &TableDefinition, reasons: &mut Vec<String>) {
    if a.columns.len() != b.columns.len() {
        reasons.push(format!(
            "the tables have different numbers of columns ({} and {})",
            a.columns.len(),
            b.columns.len()
        ));
        return;
    }
    for (a, b) in a.columns.iter().zip(&b.columns) {
        if a.name != b.name {
            reasons.push(format!("columns {} and {} have different names", a.name, b.name));
        }
        let shape = |column: &lockstep_plan_ir::schema::ColumnDefinition| {
            // Whether a column takes NULL is held against each row that moves into it.
            (column.sql_type, column.length, column.length_in_bytes)
        };
        if shape(a) != shape(b) {
            reasons.push(format!("column {} has different types or sizes", a.name));
        }
    }
}

fn compare_indexes(a: &TableDefinition, b: &TableDefinition, reasons: &mut Vec<String>) {
    if a.primary_key.is_some() != b.primary_key.is_some() {
        let reason = "one table has a PRIMARY KEY constraint and the other does not";
        return reasons.push(reason.to_string());
    }
    let same = |a: &IndexDefinition, b: &IndexDefinition| {
        a.keys == b.keys
            && a.unique == b.unique
            && a.predicate == b.predicate
            && a.assume_unique == b.assume_unique
    };
    for (one, other) in [(a, b), (b, a)] {
        for index in &one.indexes {
            if !other.indexes.iter().any(|candidate| same(index, candidate)) {
                reasons.push(format!(
                    "{} has an index {} that {} has no equal of",
                    one.name, index.name, other.name
                ));
            }
        }
    }
}
