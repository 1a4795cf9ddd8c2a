//! Numbers since the last call that asked for them: what was counted now less what was counted
//! then. Smallest and greatest values stay those since the start.

use crate::statistics::{
    Extent, ProcedureCounters, ReplicaSnapshot, ThreadSnapshot, TransactionCounters,
};
use lockstep_base::map::FixedHashMap;

/// What the last call of a selector with an interval saw.
pub(in crate::control) struct Interval {
    pub(super) snapshots: Vec<ThreadSnapshot>,
    pub(super) taken_ms: i64,
}

/// Takes what was counted at an earlier time off what is counted now.
pub(super) fn subtract(now: &mut [ThreadSnapshot], earlier: &[ThreadSnapshot]) {
    for (now, earlier) in now.iter_mut().zip(earlier) {
        for (now, earlier) in now.replicas.iter_mut().zip(&earlier.replicas) {
            subtract_procedures(now, earlier);
            subtract_transactions(now, earlier);
        }
        subtract_connections(now, earlier);
        less(&mut now.idle.count, earlier.idle.count);
        less_sum(&mut now.idle.slept_ns, &earlier.idle.slept_ns);
        now.idle.squares_ns -= earlier.idle.squares_ns;
        less(&mut now.queue.polled, earlier.queue.polled);
        less_sum(&mut now.queue.waited_us, &earlier.queue.waited_us);
        // A histogram only grows, and both have the same bounds, so this cannot fail.
        now.latency_us.subtract(&earlier.latency_us).unwrap_or_default();
    }
}

fn less(now: &mut u64, earlier: u64) {
    *now = now.saturating_sub(earlier);
}

fn less_sum(now: &mut Extent, earlier: &Extent) {
    less(&mut now.sum, earlier.sum);
}

fn subtract_procedures(now: &mut ReplicaSnapshot, earlier: &ReplicaSnapshot) {
    let before: FixedHashMap<&str, (&ProcedureCounters, &Vec<ProcedureCounters>)> = earlier
        .procedures
        .iter()
        .zip(&earlier.statements)
        .map(|((name, counters), statements)| (name.as_str(), (counters, statements)))
        .collect();
    for ((name, counters), statements) in now.procedures.iter_mut().zip(&mut now.statements) {
        let Some((earlier, earlier_statements)) = before.get(name.as_str()) else { continue };
        // A procedure that was dropped and made again counts from 0.
        if earlier.invocations > counters.invocations {
            continue;
        }
        less_counters(counters, earlier);
        for (statement, earlier) in statements.iter_mut().zip(*earlier_statements) {
            less_counters(statement, earlier);
        }
    }
}

fn subtract_transactions(now: &mut ReplicaSnapshot, earlier: &ReplicaSnapshot) {
    let before: FixedHashMap<&str, &TransactionCounters> =
        earlier.transactions.iter().map(|(name, counters)| (name.as_str(), counters)).collect();
    for (name, counters) in &mut now.transactions {
        if let Some(earlier) = before.get(name.as_str())
            && earlier.executions <= counters.executions
        {
            counters.subtract(earlier);
        }
    }
}

fn less_counters(counters: &mut ProcedureCounters, earlier: &ProcedureCounters) {
    less(&mut counters.invocations, earlier.invocations);
    less(&mut counters.timed, earlier.timed);
    less(&mut counters.aborts, earlier.aborts);
    less(&mut counters.failures, earlier.failures);
    less_sum(&mut counters.execution_ns, &earlier.execution_ns);
    less_sum(&mut counters.result_bytes, &earlier.result_bytes);
    less_sum(&mut counters.parameter_bytes, &earlier.parameter_bytes);
}

fn subtract_connections(now: &mut ThreadSnapshot, earlier: &ThreadSnapshot) {
    let before: FixedHashMap<(i64, &str), _> = earlier
        .initiators
        .iter()
        .map(|(id, _, procedure, counters)| ((*id, procedure.as_str()), counters))
        .collect();
    for (id, _, procedure, counters) in &mut now.initiators {
        let Some(earlier) = before.get(&(*id, procedure.as_str())) else { continue };
        less(&mut counters.invocations, earlier.invocations);
        less(&mut counters.aborts, earlier.aborts);
        less(&mut counters.failures, earlier.failures);
        less_sum(&mut counters.latency_ms, &earlier.latency_ms);
    }
    now.initiators.retain(|(_, _, _, counters)| counters.invocations > 0);
    let before: FixedHashMap<i64, _> =
        earlier.connections.iter().map(|c| (c.id, c.traffic)).collect();
    for connection in &mut now.connections {
        let Some(earlier) = before.get(&connection.id) else { continue };
        let traffic = &mut connection.traffic;
        less(&mut traffic.bytes_read, earlier.bytes_read);
        less(&mut traffic.messages_read, earlier.messages_read);
        less(&mut traffic.bytes_written, earlier.bytes_written);
        less(&mut traffic.messages_written, earlier.messages_written);
    }
}
