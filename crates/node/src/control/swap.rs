//! `@SwapTables`: two tables of the same shape exchange their contents, as a schema change does:
//! at all partitions or nowhere.

use super::change::CatalogChange;
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::intake::Changes;
use lockstep_plan::{Catalog, CatalogTable};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::IndexDefinition;
use lockstep_site::TableSwap;
use lockstep_types::{Failure, TableId};
use lockstep_wire_volt::Invocation;

const PREFIX: &str = "SQL error while compiling query:";

impl Control {
    pub(super) fn swap_tables(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if self.is_changing() {
            self.wait_for_schema(call);
            return Ok(());
        }
        let Some(call) = self.unless_building(call) else { return Ok(()) };
        self.facts.intake.check(Changes::Deletes, call.admin)?;
        let count = invocation.parameters.count();
        let names = (text_parameter(invocation, 0), text_parameter(invocation, 1));
        let (2, (Some(first), Some(second))) = (count, names) else {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @SwapTables (expects 2 table names, received \
                 {count})"
            )));
        };
        self.change_catalog(call.origin, CatalogChange::Swap(first, second))
    }
}

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
    check_shapes(catalog, &first.definition, &second.definition)?;
    Ok(TableSwap {
        first: first.definition.id,
        second: second.definition.id,
        replicated: first.definition.is_replicated(),
    })
}

fn swapped_table<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c CatalogTable, Failure> {
    let name = name.trim().to_ascii_uppercase();
    let found = catalog.table(&name);
    let table = found
        .ok_or_else(|| Failure::graceful(format!("{PREFIX} TABLE object not found: {name}")))?;
    if table.definition.view.is_some() {
        return Err(Failure::graceful(format!("{PREFIX} Illegal to modify a materialized view.")));
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
    for table in [first, second] {
        if let Some(index) = table.global_indexes.first() {
            reasons
                .push(format!("{} has a global index ({}): drop it first", table.name, index.name));
        }
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
            (column.sql_type, column.length, column.length_in_bytes, column.nullable)
        };
        if shape(a) != shape(b) {
            reasons.push(format!("column {} has different types, sizes or nullability", a.name));
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
