//! List-append: every transaction appends numbers to lists and reads lists, at one partition or
//! at several. From what the reads saw and the lists at the end follows which transaction came
//! before which; together with who was answered before whom began, that must have no cycle:
//! strict serializability. (The method is that of Elle: Kingsbury and Alvaro, "Elle: Inferring
//! Isolation Anomalies from Experimental Observations", PVLDB 14, 2020.)

use crate::bank::Failure;
use crate::world::{Shape, World};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_exec::PreparedStatement;
use lockstep_site::Faults;
use lockstep_types::{Datum, TableView};
use std::collections::BTreeMap;
use std::sync::Arc;

const SCHEMA: &str = "
CREATE TABLE lists (k BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (k));
PARTITION TABLE lists ON COLUMN k;
";

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append {
        key: i64,
        value: i64,
    },
    Read {
        key: i64,
    },
    /// Violates a key: the whole transaction must leave no trace.
    Break {
        key: i64,
    },
}

/// A transaction, with when it was sent and answered, in steps of the world.
#[derive(Debug, Clone)]
struct Transaction {
    steps: Vec<Step>,
    begun: u64,
    answered: Option<u64>,
    committed: bool,
    /// Per read step, what it saw.
    reads: Vec<(i64, Vec<i64>)>,
}

struct Lists {
    world: World,
    append: Arc<PreparedStatement>,
    read: Arc<PreparedStatement>,
    insert: Arc<PreparedStatement>,
    keys: i64,
    transactions: Vec<Transaction>,
    time: u64,
    next_value: i64,
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Transactions that committed.
    pub committed: usize,
    /// Transactions that were to fail and did.
    pub aborted: usize,
    /// Edges of the graph that was looked at.
    pub edges: usize,
}

/// Runs one seed with so many transactions.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, transactions: usize, faults: Faults) -> Result<Report, Failure> {
    let mut lists = Lists::open(seed, faults);
    let clients = 2 + lists.world.random.below(10) as usize;
    lists.world.repeat_one_in = [0, 5][lists.world.random.below(2) as usize];
    let mut outstanding = 0usize;
    while lists.transactions.len() < transactions {
        let begins = outstanding < clients && lists.world.random.chance(1, 3);
        if begins || !lists.world.step() {
            lists.begin();
            outstanding += 1;
        }
        outstanding -= lists.take_answers();
    }
    lists.world.settle();
    lists.take_answers();
    lists.judge().map_err(|message| Failure { seed, message })
}

impl Lists {
    fn open(seed: u64, faults: Faults) -> Lists {
        let mut random = SeededRandom::new(seed ^ 0x115f);
        let mut shape = Shape::of(1 + random.below(6) as u32);
        shape.active_multi = [1, 2, 64][random.below(3) as usize];
        shape.speculates = random.chance(5, 6);
        shape.faults = faults;
        let mut world = World::new(seed, shape);
        let keys = 2 + random.below(6) as i64;
        world.schema(SCHEMA);
        let insert = world.prepare("INSERT INTO lists VALUES (?, '')");
        for key in 0..keys {
            world.call(0, &[(&insert, &[key])]);
        }
        world.settle();
        world.take_answers();
        Lists {
            append: world.prepare(
                "UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' \
                 WHERE k = ?",
            ),
            read: world.prepare("SELECT items FROM lists WHERE k = ?"),
            insert,
            world,
            keys,
            transactions: Vec::new(),
            time: 0,
            next_value: 1,
        }
    }

    fn begin(&mut self) {
        let random = &mut self.world.random;
        let count = 1 + random.below(4);
        let mut steps = Vec::new();
        for _ in 0..count {
            let key = random.below(self.keys as u64) as i64;
            steps.push(match random.below(40) {
                0 => Step::Break { key },
                1..=20 => {
                    self.next_value += 1;
                    Step::Append { key, value: self.next_value }
                }
                _ => Step::Read { key },
            });
        }
        let number = self.transactions.len();
        let parameters: Vec<Vec<i64>> = steps
            .iter()
            .map(|step| match *step {
                Step::Append { key, value } => vec![value, key],
                Step::Read { key } | Step::Break { key } => vec![key],
            })
            .collect();
        let statements: Vec<(&Arc<PreparedStatement>, &[i64])> = steps
            .iter()
            .zip(&parameters)
            .map(|(step, parameters)| {
                let statement = match step {
                    Step::Append { .. } => &self.append,
                    Step::Read { .. } => &self.read,
                    Step::Break { .. } => &self.insert,
                };
                (statement, parameters.as_slice())
            })
            .collect();
        self.world.call(number, &statements);
        self.time += 1;
        self.transactions.push(Transaction {
            steps,
            begun: self.time,
            answered: None,
            committed: false,
            reads: Vec::new(),
        });
    }

    fn take_answers(&mut self) -> usize {
        let answers = self.world.take_answers();
        let count = answers.len();
        for answer in answers {
            self.time += 1;
            let transaction = &mut self.transactions[answer.call];
            transaction.answered = Some(self.time);
            transaction.committed = answer.outcome.failure.is_none();
            if !transaction.committed {
                continue;
            }
            let mut reader = ByteReader::new(&answer.tables);
            for step in &transaction.steps {
                let Ok(table) = TableView::read(&mut reader) else { break };
                if let Step::Read { key } = step {
                    transaction.reads.push((*key, items(&table)));
                }
            }
        }
        count
    }

    /// Everything was answered; finds what contradicts a serial order.
    fn judge(mut self) -> Result<Report, String> {
        let before = self.transactions.len();
        if let Some(number) = self.transactions.iter().position(|t| t.answered.is_none()) {
            return Err(format!("transaction {number} was never answered"));
        }
        let mut finals = BTreeMap::new();
        for key in 0..self.keys {
            let read = Arc::clone(&self.read);
            self.world.call(before, &[(&read, &[key])]);
            self.world.settle();
            let answer = self.world.take_answers().pop().ok_or("the last read has no answer")?;
            let table = TableView::read(&mut ByteReader::new(&answer.tables));
            finals.insert(key, table.map(|table| items(&table)).map_err(|e| e.to_string())?);
        }
        let mut writers = BTreeMap::new();
        let (mut committed, mut aborted) = (0, 0);
        for (number, transaction) in self.transactions.iter().enumerate() {
            let broken = transaction.steps.iter().any(|step| matches!(step, Step::Break { .. }));
            if broken == transaction.committed {
                return Err(format!("transaction {number} ended wrongly: {transaction:?}"));
            }
            committed += usize::from(transaction.committed);
            aborted += usize::from(!transaction.committed);
            for step in &transaction.steps {
                if let Step::Append { key, value } = *step {
                    let there = finals[&key].contains(&value);
                    if there != transaction.committed {
                        return Err(format!("transaction {number} and its value {value}: {there}"));
                    }
                    writers.insert(value, number);
                }
            }
        }
        let edges = self.edges(&finals, &writers)?;
        match cycle(before, &edges) {
            Some(cycle) => Err(format!("no serial order has these: {cycle:?}")),
            None => Ok(Report { committed, aborted, edges: edges.len() }),
        }
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
        // Whoever was answered before another began comes before it.
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

/// The numbers of the list in a table of one row and column.
fn items(table: &TableView<'_>) -> Vec<i64> {
    let mut values = Vec::new();
    if let Some(Ok(row)) = table.rows().next() {
        let _ = row.read_into(&mut values);
    }
    match values.first() {
        Some(Datum::Text(text)) => text.split(',').filter_map(|item| item.parse().ok()).collect(),
        _ => Vec::new(),
    }
}

/// Nodes that are left when those without predecessors are taken away one by one: a cycle is
/// among them.
fn cycle(nodes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
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
