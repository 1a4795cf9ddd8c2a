//! Changes of a table's indexes for which its rows stay where they are: indexes that go, and those
//! that are built while rows change.

use super::PreparedChange;
use crate::change::layout_and_indexes;
use crate::database::Database;
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::IndexDefinition;
use lockstep_storage::IndexDefinition as StoredIndex;
use lockstep_storage::MAX_INDEXES;
use lockstep_types::IndexId;

/// What happens to the index at a position, the steps before it taken.
pub(super) enum IndexStep {
    /// It goes.
    Remove(IndexId),
    /// It holds all rows now.
    Complete(IndexId),
    /// A new one comes after the others, empty.
    Add(StoredIndex),
}

impl Database {
    /// The steps from a table's indexes to those of a new definition, if only such are needed that
    /// leave the rows alone.
    pub(super) fn steps_in_place(
        &self,
        new: &TableDefinition,
        prepared: &PreparedChange,
    ) -> Option<Vec<IndexStep>> {
        if prepared.replacements.contains_key(&new.id) || new.view.is_some() {
            return None;
        }
        let old = self.definition(new.id)?;
        if old.columns.len() != new.columns.len() || new.indexes.len() > MAX_INDEXES {
            return None;
        }
        let mut steps = Vec::new();
        let mut place = 0;
        for before in &old.indexes {
            let position = IndexId(place as u16);
            match new.indexes.get(place) {
                Some(after) if is_same(before, after) => {
                    if before.building && !after.building {
                        steps.push(IndexStep::Complete(position));
                    }
                    place += 1;
                }
                _ => steps.push(IndexStep::Remove(position)),
            }
        }
        if !new.indexes[place..].iter().all(|index| index.building) {
            return None;
        }
        let (_, stored) = layout_and_indexes(new).ok()?;
        steps.extend(stored.into_iter().skip(place).map(IndexStep::Add));
        Some(steps)
    }

    /// Takes the steps of a change that is in force now, before its definition is.
    pub(super) fn change_in_place(&mut self, new: &TableDefinition, steps: Vec<IndexStep>) {
        let building = |definition: &TableDefinition| {
            definition.global_indexes.iter().any(|index| index.building)
        };
        let was_building = self.definition(new.id).is_some_and(|old| building(old));
        let table = self.tables.get_mut(new.id).expect("its rows stay where they are");
        match (was_building, building(new)) {
            (false, true) => table.begin_covering(),
            (true, false) => table.end_covering(),
            _ => {}
        }
        for step in steps {
            let done = match step {
                IndexStep::Remove(index) => table.remove_index(index),
                IndexStep::Complete(index) => table.complete_index(index),
                IndexStep::Add(index) => table.add_covering_index(index).map(drop),
            };
            done.expect("the steps were found by the indexes that are there");
        }
    }
}

fn is_same(a: &IndexDefinition, b: &IndexDefinition) -> bool {
    a.name == b.name && a.keys == b.keys && a.unique == b.unique && a.predicate == b.predicate
}
