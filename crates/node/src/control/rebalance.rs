//! How far copies are that move from host to host, because hosts are added or removed or a user has
//! one moved: `@Statistics REBALANCE`. Each host counts the rows that came to it; what is left to
//! move all hosts know from the state of the cluster.

use super::Control;
use crate::clock;
use crate::shard::HostFacts;
use lockstep_base::elapsed::Elapsed;
use lockstep_cluster::ClusterState;
use lockstep_types::{PartitionId, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two looks while copies move.
const LOOK_EVERY_US: u64 = 250_000;

/// Copies that move, or that moved last.
#[derive(Default)]
pub(in crate::control) struct Rebalance {
    looked_us: Option<i64>,
    last: Option<Moves>,
}

/// From the first copy that was to move until none was.
struct Moves {
    began_us: i64,
    ended_us: Option<i64>,
    /// Copies that are left to move, and the most that ever were.
    left: usize,
    most: usize,
    /// By partition, rows and bytes that this host had loaded when it began.
    before: Vec<(u64, u64)>,
    /// The partitions that came here.
    came: BTreeSet<PartitionId>,
}

impl Moves {
    fn new(began_us: i64, facts: &HostFacts) -> Moves {
        let numbers = (0..facts.partition_count).map(PartitionId);
        let before = numbers.map(|of| facts.learned.loaded(of)).collect();
        Moves { began_us, ended_us: None, left: 0, most: 0, before, came: BTreeSet::new() }
    }

    /// Rows and bytes that came here.
    fn moved(&self, facts: &HostFacts) -> (u64, u64) {
        self.came.iter().fold((0, 0), |sum, partition| {
            let (now, before) = (facts.learned.loaded(*partition), self.before[partition.index()]);
            (sum.0 + (now.0 - before.0), sum.1 + (now.1 - before.1))
        })
    }
}

impl Rebalance {
    /// Looks at what moves by a state of the cluster.
    fn look(&mut self, state: &ClusterState, facts: &HostFacts, now_us: i64) {
        self.looked_us = Some(now_us);
        let left = state.copies_to_move();
        let is_over = self.last.as_ref().is_none_or(|moves| moves.ended_us.is_some());
        if left == 0 && is_over {
            return;
        }
        if is_over {
            self.last = Some(Moves::new(now_us, facts));
        }
        let moves = self.last.as_mut().expect("it was set where there was none");
        let comes_here = |partition: &PartitionId| {
            let moving = state.partitions[partition.index()].moving;
            moving.is_some_and(|moving| moving.to == facts.host)
        };
        let numbers = (0..state.partitions.len() as u32).map(PartitionId);
        moves.came.extend(numbers.filter(comes_here));
        (moves.left, moves.most) = (left, moves.most.max(left));
        moves.ended_us = (left == 0).then_some(now_us);
    }

    /// Until copies that move are to be looked at again.
    pub(in crate::control) fn time_left(&self) -> Option<Duration> {
        let is_moving = self.last.as_ref().is_some_and(|moves| moves.ended_us.is_none());
        is_moving.then_some(Duration::from_micros(LOOK_EVERY_US))
    }

    /// The row of this host; none where no copy has moved since it began.
    pub(in crate::control) fn rows(&self, facts: &HostFacts) -> Vec<Vec<Value>> {
        let Some(moves) = &self.last else { return Vec::new() };
        let now_us = clock::now_us();
        let end_us = moves.ended_us.unwrap_or(now_us);
        let elapsed_us = Elapsed::between_us(moves.began_us, end_us).us().max(1);
        let seconds = elapsed_us as f64 / 1e6;
        let (rows, bytes) = moves.moved(facts);
        let done = moves.most - moves.left;
        let remaining_ms = match done {
            0 => 0,
            _ => elapsed_us / 1_000 * moves.left as u64 / done as u64,
        };
        let no_calls = || Value::Float(0.0);
        vec![vec![
            Value::Int(now_us / 1_000),
            Value::Float(100.0 * done as f64 / moves.most.max(1) as f64),
            Value::Int(rows as i64),
            Value::Float(rows as f64 / seconds),
            Value::Int(remaining_ms as i64),
            Value::Float(bytes as f64 / 1e6 / seconds),
            no_calls(),
            no_calls(),
            no_calls(),
            no_calls(),
        ]]
    }
}

impl Control {
    /// Looks at copies that move, at every placement (`now`) and from time to time.
    pub(super) fn attend_to_rebalance(&mut self, now: bool) {
        let now_us = clock::now_us();
        let is_early = |at_us: i64| Elapsed::between_us(at_us, now_us).us() < LOOK_EVERY_US;
        if !now && self.rebalance.looked_us.is_some_and(is_early) {
            return;
        }
        let Ok(state) = self.state_of_cluster() else { return };
        self.rebalance.look(&state, &self.facts, now_us);
    }
}

/// The rows of all hosts as one: rows and rates are added up, and of the rest that of the host
/// counts that is least far.
pub(super) fn add_up(rows: &[Vec<Value>]) -> Option<Vec<Value>> {
    let integer = |row: &[Value], at: usize| match row.get(at) {
        Some(Value::Int(number)) => *number,
        _ => 0,
    };
    let float = |row: &[Value], at: usize| match row.get(at) {
        Some(Value::Float(number)) => *number,
        _ => 0.0,
    };
    let mut sum = rows.first()?.clone();
    for row in &rows[1..] {
        for at in [0, 4] {
            sum[at] = Value::Int(integer(&sum, at).max(integer(row, at)));
        }
        sum[1] = Value::Float(float(&sum, 1).min(float(row, 1)));
        sum[2] = Value::Int(integer(&sum, 2) + integer(row, 2));
        for at in [3, 5] {
            sum[at] = Value::Float(float(&sum, at) + float(row, at));
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_hosts_are_one() {
        let row = |now, percentage, rows, left| {
            let mut row = vec![Value::Float(0.0); 10];
            (row[0], row[1]) = (Value::Int(now), Value::Float(percentage));
            (row[2], row[4]) = (Value::Int(rows), Value::Int(left));
            row[3] = Value::Float(rows as f64);
            row
        };
        let sum = add_up(&[row(5, 50.0, 10, 9), row(7, 40.0, 30, 8)]).unwrap();
        assert_eq!(sum[..4], row(7, 40.0, 40, 9)[..4]);
        assert_eq!(sum[4], Value::Int(9));
        assert_eq!(add_up(&[]), None);
    }
}
