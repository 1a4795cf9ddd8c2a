//! The statement that builds a global index, step by step. It has a text, because a log keeps
//! statements as text, and nobody can send it.

use crate::catalog::{Catalog, GlobalIndexBuild};
use lockstep_plan_ir::statement::{Coordinator, Cover, Fragment, IndexUpkeep, Target};
use lockstep_plan_ir::{Execution, Operation, Statement};
use lockstep_types::TableSchema;

const BEGIN: &str = "BUILD GLOBAL INDEX OF ";
const MIDDLE: &str = " BY ROWS: ";

/// See [`Catalog::cover`].
pub(crate) fn cover(build: &GlobalIndexBuild, rows: u32) -> Statement {
    let result = TableSchema::modified_tuples();
    let operation = Operation::Cover(Cover { table: build.table, rows });
    let fragment = Fragment { target: Target::All, operation, result: result.clone() };
    Statement {
        text: format!("{BEGIN}{}{MIDDLE}{rows}", build.table_name),
        parameters: Vec::new(),
        result,
        read_only: false,
        execution: Execution::Distributed {
            fragments: vec![fragment],
            coordinator: Coordinator::SumCounts,
        },
        guards: Vec::new(),
        slot_count: 0,
        subquery_count: 0,
        ordered: true,
        upkeep: IndexUpkeep::Collected,
        needs_entries: false,
    }
}

/// See [`Catalog::cover_of_text`].
pub(crate) fn cover_of_text(catalog: &Catalog, text: &str) -> Option<Statement> {
    let (table_name, rows) = text.strip_prefix(BEGIN)?.rsplit_once(MIDDLE)?;
    let definition = &catalog.tables.get(table_name)?.definition;
    let index = definition.global_indexes.iter().find(|index| index.building)?;
    let build = GlobalIndexBuild {
        index: index.name.clone(),
        table_name: table_name.to_string(),
        table: definition.id,
    };
    Some(cover(&build, rows.parse().ok()?))
}
