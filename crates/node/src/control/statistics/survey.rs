//! What the planner knows of the data: how many rows tables have, and the distribution of the
//! values of their columns. The sites are surveyed at an interval, and nothing waits for them.
//!
//! Counts come with every survey. Rows are sampled only in tables that have grown or shrunk by a
//! fifth since the last sample: some hundred at each site, evenly from all rows. A plan that was
//! made for much smaller or larger tables is dropped.

use crate::catalog::HostCatalog;
use crate::mailbox::Outbox;
use crate::message::Envelope;
use crate::options::Milliseconds;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::codec::SurveyedTable;
use lockstep_host::placement::Placement;
use lockstep_plan::planning::{ColumnStatistics, Statistics, TableStatistics};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_types::{Datum, TableId, ThreadId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Rows looked at, in each table at each site.
const SAMPLED_ROWS: u32 = 400;
/// Values that show how those of a column lie, the least and the greatest among them.
const BOUNDS: usize = 33;
/// Tables with fewer rows than this are all alike to a plan.
const FEW_ROWS: u64 = 200;

/// The surveys of a host.
pub(in crate::control) struct Survey {
    /// None for never.
    interval: Option<Milliseconds>,
    partition_count: u32,
    next_us: i64,
    /// By thread, what has come in of the survey in progress; `None` from those who owe it.
    answers: BTreeMap<ThreadId, Option<Vec<SurveyedTable>>>,
    /// By table: its rows when rows were last sampled, and what they showed.
    columns: BTreeMap<TableId, (u64, Vec<ColumnStatistics>)>,
    /// By table: its rows when plans were last dropped.
    planned_for: BTreeMap<TableId, u64>,
}

/// What a survey found that was not known.
pub(in crate::control) struct Surveyed {
    /// What the planner goes by from now on.
    pub(in crate::control) statistics: Statistics,
    /// Whether plans were made for much smaller or larger tables.
    pub(in crate::control) outdates_plans: bool,
}

impl Survey {
    /// Surveys of a host with this many partitions, at this interval.
    pub(super) fn new(interval: Option<Milliseconds>, partition_count: u32) -> Survey {
        Survey {
            interval,
            partition_count,
            next_us: 0,
            answers: BTreeMap::new(),
            columns: BTreeMap::new(),
            planned_for: BTreeMap::new(),
        }
    }

    /// Until the next survey; `None` when there is nothing to wait for.
    pub(in crate::control) fn time_left(&self, now_us: i64) -> Option<Duration> {
        let left = Elapsed::between_us(now_us, self.next_us).duration();
        self.interval.map(|_| left.max(Duration::from_millis(1)))
    }

    /// Requests a survey from the sites, unless it is too early or one still owes its last answer.
    /// Rows are sampled of tables that have changed much since what is `known` of them.
    pub(super) fn begin_if_due(
        &mut self,
        now_us: i64,
        known: &Statistics,
        placement: &Placement,
        outbox: &mut Outbox<Envelope>,
    ) {
        let Some(interval) = self.interval.filter(|_| now_us >= self.next_us) else { return };
        self.next_us = now_us + interval.us();
        if self.answers.values().any(Option::is_none) {
            return;
        }
        let outdated = known.tables.iter().filter(|(id, table)| self.is_outdated(**id, table.rows));
        let sample: Arc<[TableId]> = outdated.map(|(id, _)| *id).collect();
        self.answers = placement.all_sites().map(|site| (site, None)).collect();
        for thread in placement.all_sites() {
            let sample = Arc::clone(&sample);
            outbox.send(thread, Envelope::Survey { sample, rows: SAMPLED_ROWS });
        }
    }

    /// Whether rows of a table should be sampled again.
    fn is_outdated(&self, table: TableId, rows: u64) -> bool {
        match self.columns.get(&table) {
            None => rows > 0,
            Some((then, _)) => then.abs_diff(rows) * 5 > *then.max(&FEW_ROWS),
        }
    }

    /// Takes a site's answer; with the last one, returns what differs from what is `known`.
    pub(super) fn surveyed(
        &mut self,
        thread: ThreadId,
        tables: Vec<SurveyedTable>,
        catalog: &HostCatalog,
        known: &Statistics,
    ) -> Option<Surveyed> {
        *self.answers.get_mut(&thread)? = Some(tables);
        if self.answers.values().any(Option::is_none) {
            return None;
        }
        let mut by_table: BTreeMap<TableId, Vec<SurveyedTable>> = BTreeMap::new();
        for table in self.answers.values_mut().filter_map(Option::as_mut).flatten() {
            let taken = SurveyedTable { sample: table.sample.take(), ..*table };
            by_table.entry(table.table).or_default().push(taken);
        }
        let statistics = self.take_in(by_table, catalog);
        if statistics == *known {
            return None;
        }
        let outdated = |(id, table): (&TableId, &TableStatistics)| {
            let then = self.planned_for.get(id).copied().unwrap_or(0).max(FEW_ROWS);
            let now = table.rows.max(FEW_ROWS);
            now > then.saturating_mul(2) || then > now.saturating_mul(2)
        };
        let outdates_plans = statistics.tables.iter().any(outdated);
        if outdates_plans {
            let rows = statistics.tables.iter().map(|(id, table)| (*id, table.rows));
            self.planned_for = rows.collect();
        }
        Some(Surveyed { statistics, outdates_plans })
    }

    fn take_in(
        &mut self,
        by_table: BTreeMap<TableId, Vec<SurveyedTable>>,
        catalog: &HostCatalog,
    ) -> Statistics {
        let partitions = self.partition_count;
        let mut statistics = Statistics { partitions, tables: BTreeMap::new() };
        self.columns.retain(|id, _| by_table.contains_key(id));
        for table in catalog.plan.tables.values() {
            let definition = &table.definition;
            let Some(sites) = by_table.get(&definition.id) else { continue };
            let mut sites = sites.as_slice();
            if !definition.is_partitioned() {
                sites = sites.get(..1).unwrap_or(sites);
            }
            let rows = sites.iter().map(|site| site.rows).sum();
            if sites.iter().any(|site| site.sample.is_some()) {
                let sampled: Vec<&Vec<Value>> =
                    sites.iter().filter_map(|site| site.sample.as_ref()).flatten().collect();
                self.columns.insert(definition.id, (rows, describe(definition, rows, &sampled)));
            }
            let columns = self.columns.get(&definition.id);
            let columns = columns.map(|(_, columns)| columns.clone()).unwrap_or_default();
            statistics.tables.insert(definition.id, TableStatistics { rows, columns });
        }
        statistics
    }
}

/// What sampled rows say of a table's columns.
fn describe(table: &TableDefinition, rows: u64, sampled: &[&Vec<Value>]) -> Vec<ColumnStatistics> {
    (0..table.columns.len())
        .map(|place| {
            let mut values: Vec<Datum<'_>> =
                sampled.iter().filter_map(|row| row.get(place)).map(Value::as_datum).collect();
            values.retain(|value| !value.is_null());
            values.sort_by(|a, b| a.sort_order(*b));
            let distinct = match is_unique(table, place) {
                true => rows,
                false => estimate_distinct(&values, rows, sampled.len() as u64),
            };
            ColumnStatistics { distinct, bounds: bounds(&values) }
        })
        .collect()
}

/// Whether no two rows have the same value in a column, by some index over it alone.
fn is_unique(table: &TableDefinition, place: usize) -> bool {
    let alone = |keys: &[IndexKey]| match keys {
        [IndexKey::Column(column)] => usize::from(*column) == place,
        _ => false,
    };
    table.indexes.iter().any(|index| {
        index.unique && !index.assume_unique && index.predicate.is_none() && alone(&index.keys)
    })
}

/// How many distinct values all rows have, judged by those of a sample in order: those seen
/// several times are taken to be all of their kind; each one seen once stands for the square
/// root of the rows that a sampled one stands for (the guaranteed-error estimator).
fn estimate_distinct(ordered: &[Datum<'_>], rows: u64, sampled: u64) -> u64 {
    let (mut seen, mut once) = (0u64, 0u64);
    for group in ordered.chunk_by(|a, b| a.sort_order(*b).is_eq()) {
        seen += 1;
        once += u64::from(group.len() == 1);
    }
    if seen == 0 {
        return 0;
    }
    let stands_for = rows as f64 / sampled.max(1) as f64;
    let estimate = (seen - once) as f64 + stands_for.max(1.0).sqrt() * once as f64;
    (estimate as u64).clamp(seen, rows.max(seen))
}

/// Values at equal steps, the first and the last included.
fn bounds(ordered: &[Datum<'_>]) -> Vec<Value> {
    let Some(last) = ordered.len().checked_sub(1) else { return Vec::new() };
    let steps = last.clamp(1, BOUNDS - 1);
    (0..=steps).map(|step| ordered[step * last / steps].to_value()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(values: &[i64]) -> Vec<Datum<'static>> {
        values.iter().map(|value| Datum::Int(*value)).collect()
    }

    #[test]
    fn bounds_begin_and_end_with_the_extremes() {
        assert_eq!(bounds(&[]), []);
        assert_eq!(bounds(&integers(&[7])), [Value::Int(7), Value::Int(7)]);
        let many: Vec<i64> = (0..1000).collect();
        let found = bounds(&integers(&many));
        assert_eq!(found.len(), BOUNDS);
        assert_eq!((&found[0], &found[BOUNDS - 1]), (&Value::Int(0), &Value::Int(999)));
    }

    #[test]
    fn distinct_values_are_estimated_from_repeats() {
        // Ten values over and over: there are no others.
        let mut few: Vec<i64> = (0..400).map(|n| n % 10).collect();
        few.sort_unstable();
        assert_eq!(estimate_distinct(&integers(&few), 1_000_000, 400), 10);
        // All different: many more are likely.
        let different: Vec<i64> = (0..400).collect();
        assert_eq!(estimate_distinct(&integers(&different), 40_000, 400), 4_000);
        // All rows seen.
        assert_eq!(estimate_distinct(&integers(&different), 400, 400), 400);
        assert_eq!(estimate_distinct(&[], 400, 400), 0);
    }
}
