//! Views over several tables: the joined rows that one source row takes part in are found by the
//! plan's delta query and added to, or taken from, their groups.

use super::Writer;
use super::views::{Contribution, Direction, Upkeep, apply};
use crate::context::Context;
use crate::database::{no_such_table, table_of};
use crate::error::SqlError;
use crate::frame::{Frame, Slot};
use crate::query::{Executor, Flow, Run};
use lockstep_plan_ir::schema::{JoinedView, ViewDefinition};
use lockstep_storage::RowId;
use lockstep_types::{Datum, TableId, Value};
use std::sync::Arc;

impl Writer<'_> {
    pub(super) fn change_joined(
        &mut self,
        view: &Arc<ViewDefinition>,
        source: TableId,
        row: RowId,
        direction: Direction,
        mut upkeep: Option<&mut Upkeep>,
    ) -> Result<(), SqlError> {
        let Some(joined) = &view.joined else { return Ok(()) };
        let rows = self.joined_rows(joined, source, row)?;
        for values in rows {
            let Some(target) = self.tables.get_mut(view.view) else {
                return Err(no_such_table(view.view));
            };
            let data: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
            let (group, arguments) = data.split_at(view.group.len().min(data.len()));
            let arguments = spread(view, arguments);
            let contribution = Contribution { group, arguments: &arguments };
            let went = apply(view, target, self.undo, self.arena, contribution, direction)?;
            if let (Some(upkeep), false) = (upkeep.as_deref_mut(), went.is_empty()) {
                upkeep.add(view, went, group, &values);
            }
        }
        Ok(())
    }

    fn joined_rows(
        &self,
        joined: &JoinedView,
        source: TableId,
        row: RowId,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let place = joined.sources.iter().position(|table| *table == source);
        let Some(query) = place.and_then(|place| joined.delta.get(place)) else {
            return Ok(Vec::new());
        };
        let slots = usize::from(joined.slot_count).max(1);
        let settings = self.options.settings(self.watch);
        let executor = Executor::new(self.tables, self.arena, &[], slots, settings);
        let frame = Frame::new(self.arena, slots);
        let Some(stored) = table_of(self.tables, source)?.row(row) else { return Ok(Vec::new()) };
        frame.bind(0, Slot::Row(stored, row));
        let context = Context {
            parameters: &[],
            arena: self.arena,
            now_us: self.transaction.timestamp_us,
            subqueries: &executor,
        };
        let run = Run { executor: &executor, context: &context, frame };
        let mut rows = Vec::new();
        run.run(&query.relation, &mut || {
            let mut values = Vec::with_capacity(query.output.len());
            for expression in &query.output {
                values.push(run.value(expression)?.to_value());
            }
            run.charge(values.len() * size_of::<Value>())?;
            rows.push(values);
            Ok(Flow::Continue)
        })?;
        Ok(rows)
    }
}

/// The delta gives an argument for each aggregate, or only for those that have one.
fn spread<'a>(view: &ViewDefinition, given: &[Datum<'a>]) -> Vec<Datum<'a>> {
    if given.len() == view.aggregates.len() {
        return given.to_vec();
    }
    let mut given = given.iter().copied();
    view.aggregates
        .iter()
        .map(|aggregate| match &aggregate.argument {
            Some(_) => given.next().unwrap_or(Datum::Null),
            None => Datum::Null,
        })
        .collect()
}
