//! What is wrong with a history, if anything is.

use super::answers::{items, values};
use super::{Expected, Form, Lists, Report, Transaction};
use crate::plans::Request;
use crate::walk::{SHARED, Step};
use crate::world::FAILED;
use lockstep_base::bytes::ByteReader;
use lockstep_types::{PartitionId, TableView};
use std::collections::BTreeMap;

impl Lists {
    /// Everything was answered; finds what contradicts a serial order.
    pub(super) fn judge(mut self) -> Result<Report, String> {
        let before = self.transactions.len();
        if let Some(number) = self.transactions.iter().position(|t| t.open) {
            return Err(format!(
                "transaction {number} was never answered: {:?}; {}",
                self.transactions[number],
                self.world.unrest()
            ));
        }
        if let Some(change) = self.requested.values().next() {
            return Err(format!("schema change {change:?} was never answered"));
        }
        if !self.world.is_idle() {
            return Err("the host does not come to rest".to_string());
        }
        let messages = self.world.judge_messages()?;
        let finals = self.finals(before)?;
        let mut places = BTreeMap::new();
        for (key, list) in &finals {
            for value in list {
                if places.insert(*value, *key).is_some() {
                    return Err(format!("value {value} was appended twice"));
                }
            }
        }
        let mut report = Report {
            schema_changes: self.schema_changes,
            snapshots: self.snapshots,
            built: self.built,
            beside: [self.beside.made, self.beside.refused, self.beside.given_up],
            one_round: self.world.one_round_calls,
            planned_again: self.world.planned_again,
            messages,
            hops: self.world.hops as usize,
            given_up: self.world.given_up as usize,
            copies: self.world.copy_counts(),
            trace: self.world.trace,
            ..Report::default()
        };
        let mut writers = BTreeMap::new();
        for number in 0..before {
            self.judge_end(number, &places, &mut report)?;
            for value in values(&self.transactions[number].steps) {
                writers.insert(value, number);
            }
        }
        self.judge_lookups(&mut report)?;
        self.judge_puts(before, &mut report)?;
        self.judge_grown(before)?;
        let edges = self.edges(&finals, &writers)?;
        report.edges = edges.len();
        match cycle(before, &edges) {
            Some(cycle) => Err(format!("no serial order has these: {cycle:?}")),
            None => Ok(report),
        }
    }

    /// The lists at the end; that of all partitions must be the same at each.
    fn finals(&mut self, number: usize) -> Result<BTreeMap<i64, Vec<i64>>, String> {
        let mut finals = BTreeMap::new();
        for key in 0..self.keys {
            let read = self.read.clone();
            self.world.call(number, &[(&read, &[key])]);
            finals.insert(key, self.last_read()?);
        }
        for partition in 0..self.world.partition_count() {
            let read = Request::At(PartitionId(partition), self.read_shared.clone());
            self.world.request(number, read);
            let copy = self.last_read()?;
            if let Some(first) = finals.get(&SHARED)
                && *first != copy
            {
                return Err(format!("partition {partition} has {copy:?}, the first {first:?}"));
            }
            finals.insert(SHARED, copy);
        }
        Ok(finals)
    }

    fn last_read(&mut self) -> Result<Vec<i64>, String> {
        self.world.settle();
        let answer = self.world.take_answers().pop().ok_or("the last read has no answer")?;
        if let Some(failure) = answer.outcome.failure {
            return Err(format!("the last read failed: {failure:?}"));
        }
        let table = TableView::read(&mut ByteReader::new(&answer.tables));
        table.map(|table| items(&table)).map_err(|error| error.to_string())
    }

    /// A transaction ended as it had to, and its appends are there or not.
    fn judge_end(
        &mut self,
        number: usize,
        places: &BTreeMap<i64, i64>,
        report: &mut Report,
    ) -> Result<(), String> {
        let (fails, expires) = (self.fails, self.expires);
        let transaction = &mut self.transactions[number];
        if matches!(transaction.form, Form::Put(_)) {
            return Ok(());
        }
        let wrong =
            |what: &str, t: &Transaction| Err(format!("transaction {number} {what}: {t:?}"));
        let values = values(&transaction.steps);
        if transaction.gone {
            report.gone += 1;
            transaction.committed = values.first().is_some_and(|value| places.contains_key(value));
        }
        for value in &values {
            if places.contains_key(value) != transaction.committed {
                return wrong(&format!("and its value {value} contradict"), transaction);
            }
        }
        for step in &transaction.steps {
            let (Step::Append(_, value) | Step::AppendShared(value)) = step else { continue };
            let key = if let Step::Append(key, _) = step { *key } else { SHARED };
            if transaction.committed && places[value] != key {
                return wrong(&format!("wrote {value} elsewhere"), transaction);
            }
        }
        if transaction.gone {
            return Ok(());
        }
        let Some(failure) = &transaction.failure else {
            report.committed += 1;
            return match transaction.expected == Expected::Abort {
                true => wrong("had to fail", transaction),
                false => Ok(()),
            };
        };
        let cut =
            failure == FAILED && fails || failure.contains("transaction_timeout_ms") && expires;
        report.cut_off += usize::from(cut);
        report.aborted += usize::from(!cut);
        let left = failure.contains("declares the partitions");
        match transaction.expected {
            _ if cut => Ok(()),
            Expected::Commit => wrong("had to commit", transaction),
            Expected::Either if !left => wrong("failed for another reason", transaction),
            _ => Ok(()),
        }
    }

    /// A list that is looked up by the index costs messages to the partition of its entry and its
    /// own, unless it moves meanwhile.
    fn judge_lookups(&self, report: &mut Report) -> Result<(), String> {
        for (number, transaction) in self.transactions.iter().enumerate() {
            let Some(key) = self.looked_up(transaction) else { continue };
            let visited = self.world.census.visited_count(number);
            if visited > 2 && !self.moves(key, transaction) {
                return Err(format!(
                    "transaction {number} looked one list up and met {visited} partitions: \
                     {transaction:?}"
                ));
            }
            report.lookups += 1;
            report.led += usize::from(matches!(transaction.form, Form::Led(_)));
        }
        Ok(())
    }

    /// The only list of a transaction that finds it by the index.
    fn looked_up(&self, transaction: &Transaction) -> Option<i64> {
        let common = match transaction.form {
            Form::Led(key) => return Some(key),
            Form::AdHoc if self.indexed && !self.world.shape().stop_everything.is_on() => {
                transaction.steps.first().and_then(key_of)?
            }
            _ => return None,
        };
        transaction.steps.iter().all(|step| key_of(step) == Some(common)).then_some(common)
    }

    /// Whether a list may have moved while a transaction was in progress. What has failed is undone
    /// at partitions only when they hear of it.
    fn moves(&self, key: i64, transaction: &Transaction) -> bool {
        self.transactions.iter().any(|other| {
            let moves =
                other.steps.iter().any(|step| matches!(step, Step::Move(k, _) if *k == key));
            let before = other.committed
                && other.answered.is_some_and(|answered| answered < transaction.begun);
            let behind = transaction.answered.is_some_and(|answered| answered < other.begun);
            moves && !before && !behind
        })
    }

    /// Who must come before whom.
    fn edges(
        &self,
        finals: &BTreeMap<i64, Vec<i64>>,
        writers: &BTreeMap<i64, usize>,
    ) -> Result<Vec<(usize, usize)>, String> {
        let mut edges = Vec::new();
        for list in finals.values() {
            edges.extend(list.windows(2).map(|pair| (writers[&pair[0]], writers[&pair[1]])));
        }
        for (number, transaction) in self.transactions.iter().enumerate() {
            for (key, seen) in &transaction.reads {
                let list = &finals[key];
                if !list.starts_with(seen) {
                    return Err(format!("transaction {number} saw {seen:?} of {list:?}"));
                }
                if let Some(last) = seen.last() {
                    edges.push((writers[last], number));
                }
                if let Some(next) = list.get(seen.len()) {
                    edges.push((number, writers[next]));
                }
            }
        }
        // The one that was answered before another began comes before it.
        for (first, earlier) in self.transactions.iter().enumerate() {
            for (second, later) in self.transactions.iter().enumerate() {
                if earlier.answered.is_some_and(|answered| answered < later.begun) {
                    edges.push((first, second));
                }
            }
        }
        edges.retain(|(from, to)| from != to);
        Ok(edges)
    }
}

/// The list that a step reads or appends to.
fn key_of(step: &Step) -> Option<i64> {
    match step {
        Step::Read(key) | Step::Append(key, _) => Some(*key),
        _ => None,
    }
}

/// Nodes that are left when those without predecessors are taken away one by one: a cycle is
/// among them.
pub(crate) fn cycle(nodes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut successors = vec![Vec::new(); nodes];
    let mut incoming = vec![0usize; nodes];
    for (from, to) in edges {
        successors[*from].push(*to);
        incoming[*to] += 1;
    }
    let mut free: Vec<usize> = (0..nodes).filter(|node| incoming[*node] == 0).collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        for next in &successors[node] {
            incoming[*next] -= 1;
            if incoming[*next] == 0 {
                free.push(*next);
            }
        }
    }
    (taken < nodes).then(|| (0..nodes).filter(|node| incoming[*node] > 0).take(12).collect())
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn cycles_are_found() {
        assert_eq!(cycle(3, &[(0, 1), (1, 2), (0, 2)]), None);
        assert_eq!(cycle(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]), Some(vec![1, 2, 3]));
    }
}
