//! Statistics of procedures: per site, per connection, and over the cluster.

use super::{Row, View, number, small, text};
use crate::statistics::{Extent, ProcedureCounters};
use lockstep_plan_ir::ProcedureKind;
use lockstep_types::Value;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

fn counts(counters: &ProcedureCounters) -> Vec<Value> {
    let calls = counters.invocations;
    let sizes =
        |extent: &Extent| [small(extent.smallest()), small(extent.max), small(extent.mean(calls))];
    let time = &counters.execution_ns;
    let mut row = vec![
        number(calls),
        number(counters.timed),
        number(time.smallest()),
        number(time.max),
        number(time.mean(counters.timed)),
    ];
    row.extend(sizes(&counters.result_bytes));
    row.extend(sizes(&counters.parameter_bytes));
    row.extend([number(counters.aborts), number(counters.failures)]);
    row
}

/// Site and counters of every procedure that was called there.
fn called<'v>(view: &'v View<'_>) -> impl Iterator<Item = Called<'v>> {
    view.replicas().flat_map(|snapshot| {
        let all = snapshot.procedures.iter().zip(&snapshot.statements);
        let called = all.filter(|((_, counters), _)| counters.invocations > 0);
        called.map(move |((name, counters), statements)| Called {
            site: snapshot.site(),
            partition: snapshot.partition(),
            name,
            counters,
            statements,
        })
    })
}

/// A procedure that was called at a site.
struct Called<'v> {
    site: Value,
    partition: Value,
    name: &'v str,
    counters: &'v ProcedureCounters,
    /// What timed calls ran.
    statements: &'v [ProcedureCounters],
}

pub(super) fn procedure(view: &View) -> Vec<Row> {
    let row = |called: Called<'_>| {
        let mut row = vec![called.site, called.partition, text(called.name)];
        row.extend(counts(called.counters));
        row.extend([Value::Int(1), Value::Int(0)]);
        row
    };
    called(view).map(row).collect()
}

/// A row for each procedure and for each of its statements.
pub(super) fn detail(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for Called { site, partition, name, counters, statements: timed } in called(view) {
        let mut add = |statement: &str, counters: &ProcedureCounters| {
            let mut row = vec![site.clone(), partition.clone(), text(name), text(statement)];
            row.extend(counts(counters));
            rows.push(row);
        };
        add("<ALL>", counters);
        let Some(procedure) = view.catalog.procedure(name) else { continue };
        let statements = &procedure.definition.statements;
        let succeeded = counters.invocations.saturating_sub(counters.aborts + counters.failures);
        for (place, (statement, _)) in statements.iter().enumerate() {
            let mut own = timed.get(place).copied().unwrap_or_default();
            own.invocations = match (&procedure.definition.kind, statements.len()) {
                // Native code runs its statements as it likes: as often as timed calls did.
                (ProcedureKind::Native(_) | ProcedureKind::Java(_), _) => {
                    (own.timed * counters.invocations).checked_div(counters.timed).unwrap_or(0)
                }
                (_, 1) => {
                    add(statement, counters);
                    continue;
                }
                // Every call that succeeded ran each once.
                _ => succeeded,
            };
            // Sizes are known of timed calls only.
            own.result_bytes.sum = own.result_bytes.mean(own.timed) * own.invocations;
            if own.invocations > 0 {
                add(statement, &own);
            }
        }
    }
    rows
}

pub(super) fn initiator(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in &view.snapshots {
        for (id, peer, procedure, counters) in &snapshot.initiators {
            rows.push(vec![
                snapshot.site(),
                Value::Int(*id),
                text(peer),
                text(procedure),
                number(counters.invocations),
                small(counters.latency_ms.mean(counters.invocations)),
                small(counters.latency_ms.smallest()),
                small(counters.latency_ms.max),
                number(counters.aborts),
                number(counters.failures),
            ]);
        }
    }
    rows
}

/// Over all sites, with each procedure's share of `weight` in percent, the greatest first.
fn profiled(
    view: &View,
    weight: fn(&ProcedureCounters) -> u64,
) -> Vec<(String, ProcedureCounters, i64)> {
    let mut all: BTreeMap<&str, ProcedureCounters> = BTreeMap::new();
    for (name, counters) in view.replicas().flat_map(|replica| &replica.procedures) {
        if counters.invocations > 0 {
            all.entry(name).or_default().merge(counters);
        }
    }
    let total: u64 = all.values().map(weight).sum();
    let share = |counters: &ProcedureCounters| {
        (weight(counters) * 100).checked_div(total).unwrap_or(0) as i64
    };
    let mut rows: Vec<_> =
        all.into_iter().map(|(name, c)| (name.to_string(), c, share(&c))).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(&row.1)));
    rows
}

/// Estimated time in execution: the timed calls' mean for all.
fn execution_ns(counters: &ProcedureCounters) -> u64 {
    counters.execution_ns.mean(counters.timed).saturating_mul(counters.invocations)
}

pub(super) fn profile(view: &View) -> Vec<Row> {
    let row = |(name, c, share): (String, ProcedureCounters, i64)| {
        vec![
            text(&name),
            Value::Int(share),
            number(c.invocations),
            number(c.execution_ns.mean(c.timed)),
            number(c.execution_ns.smallest()),
            number(c.execution_ns.max),
            number(c.aborts),
            number(c.failures),
        ]
    };
    profiled(view, execution_ns).into_iter().map(row).collect()
}

fn sized(name: &str, share: i64, calls: u64, extent: &Extent) -> Row {
    vec![
        text(name),
        Value::Int(share),
        number(calls),
        number(extent.smallest()),
        number(extent.max),
        number(extent.mean(calls)),
        number(extent.sum / MIB),
    ]
}

pub(super) fn input(view: &View) -> Vec<Row> {
    let row = |(name, c, share): (String, ProcedureCounters, i64)| {
        sized(&name, share, c.invocations, &c.parameter_bytes)
    };
    profiled(view, |c| c.parameter_bytes.sum).into_iter().map(row).collect()
}

pub(super) fn output(view: &View) -> Vec<Row> {
    let row = |(name, c, share): (String, ProcedureCounters, i64)| {
        sized(&name, share, c.invocations, &c.result_bytes)
    };
    profiled(view, |c| c.result_bytes.sum).into_iter().map(row).collect()
}
