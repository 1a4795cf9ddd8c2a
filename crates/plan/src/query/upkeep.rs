//! What a statement means for the entries of global indexes.

use super::bind::dml::{BoundChange, BoundInsert};
use super::partition::is_known;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_plan_ir::statement::{IndexUpkeep, KnownEntry};
use lockstep_plan_ir::{Execution, Operation, Relation, TableDefinition};

/// INSERT and UPSERT. The entries of one row whose values are literals and parameters are known.
pub(super) fn of_insert(insert: &BoundInsert, execution: &Execution) -> IndexUpkeep {
    let table = &insert.table.definition;
    if table.global_indexes.is_empty() {
        return IndexUpkeep::None;
    }
    let Execution::Local { operation: Operation::Insert(planned), .. } = execution else {
        return IndexUpkeep::Collected;
    };
    let one_row = matches!(planned.source, Relation::OneRow);
    // What makes room for a row removes others.
    // Of an index that is built, the rows that it holds already have entries.
    let built = table.global_indexes.iter().any(|index| index.building);
    if !one_row || planned.upsert.is_some() || table.row_limit_purge.is_some() || built {
        return IndexUpkeep::Collected;
    }
    let known = |index: &GlobalIndexDefinition| {
        let values = index.columns.iter().map(|column| {
            let value = planned.values.get(usize::from(*column))?;
            is_known(value).then(|| value.clone())
        });
        let values: Option<Vec<_>> = values.collect();
        let (entries, key_count) = (index.entries, index.key_count);
        values.map(|values| KnownEntry { entries, values, key_count })
    };
    let entries: Option<Vec<KnownEntry>> =
        table.global_indexes.iter().map(|index| known(index)).collect();
    entries.map_or(IndexUpkeep::Collected, IndexUpkeep::Known)
}

/// UPDATE (with assignments) and DELETE. An UPDATE of columns that no index holds means nothing.
pub(super) fn of_change(change: &BoundChange, is_update: bool) -> IndexUpkeep {
    let holds = |index: &GlobalIndexDefinition| {
        let mut assigned = change.assignments.iter();
        !is_update || assigned.any(|(column, _)| index.columns.contains(column))
    };
    match change.table.definition.global_indexes.iter().any(|index| holds(index)) {
        true => IndexUpkeep::Collected,
        false => IndexUpkeep::None,
    }
}

/// TRUNCATE empties the indexes, too.
pub(super) fn of_truncate(table: &TableDefinition) -> IndexUpkeep {
    match table.global_indexes.as_slice() {
        [] => IndexUpkeep::None,
        indexes => IndexUpkeep::Truncated(indexes.iter().map(|index| index.entries).collect()),
    }
}
