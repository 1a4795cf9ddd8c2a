//! List-append while hosts are lost: transactions append numbers to lists and read lists, at one
//! partition or at several. What reads saw and the lists at rest give an order of transactions;
//! together with which one was answered before another began, that must have no cycle. See
//! [`crate::lists`], which judges one host so.

use super::judge::{End, Judge, Kind};
use super::{Cluster, FORM_US, READS_AT_REST, TICK_US};
use crate::lists::{cycle, items};
use crate::plans::{Request, Sql};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_types::TableView;
use std::collections::BTreeMap;

pub(super) const SCHEMA: &str = "
CREATE TABLE lists (k BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (k));
PARTITION TABLE lists ON COLUMN k;
";
const APPEND: &str =
    "UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' WHERE k = ?";
const READ: &str = "SELECT items FROM lists WHERE k = ?";
/// Steps of a transaction, at most.
const STEPS_MAX: u64 = 4;

/// What a transaction does to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append(i64),
    Read,
}

/// A transaction, with when it was sent and answered, in events of the run.
#[derive(Debug)]
struct Transaction {
    /// By list.
    steps: Vec<(i64, Step)>,
    begun: u64,
    answered: Option<u64>,
    end: Option<End>,
    /// By read, what it saw.
    reads: Vec<(i64, Vec<i64>)>,
}

impl Transaction {
    fn appends(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.steps.iter().filter_map(|(list, step)| match step {
            Step::Append(value) => Some((*list, *value)),
            Step::Read => None,
        })
    }
}

/// The lists of a run and what transactions did to them.
#[derive(Debug)]
pub(super) struct Lists {
    lists: i64,
    events: u64,
    next_value: i64,
    /// By call.
    transactions: BTreeMap<usize, Transaction>,
    /// By list, what the last read at rest saw.
    at_rest: BTreeMap<i64, Vec<i64>>,
}

impl Lists {
    /// The lists of a seed, where it has some.
    pub(super) fn of_seed(seed: u64, has_lists: bool) -> Option<Lists> {
        let lists = 2 + SeededRandom::new(seed).below(5) as i64;
        let (transactions, at_rest) = (BTreeMap::new(), BTreeMap::new());
        has_lists.then_some(Lists { lists, events: 0, next_value: 1, transactions, at_rest })
    }

    fn draw(&mut self, random: &mut SeededRandom) -> Vec<(i64, Step)> {
        let one = random.below(self.lists as u64) as i64;
        let is_local = random.chance(1, 3);
        let count = 1 + random.below(STEPS_MAX);
        let mut steps = Vec::new();
        for _ in 0..count {
            let list = if is_local { one } else { random.below(self.lists as u64) as i64 };
            let step = match random.chance(1, 2) {
                true => Step::Read,
                false => {
                    self.next_value += 1;
                    Step::Append(self.next_value)
                }
            };
            steps.push((list, step));
        }
        steps
    }

    fn begin(&mut self, call: usize, steps: Vec<(i64, Step)>) -> Request {
        self.events += 1;
        let statement = |(list, step): &(i64, Step)| -> (Sql, Vec<i64>) {
            match step {
                Step::Append(value) => (APPEND.into(), vec![*value, *list]),
                Step::Read => (READ.into(), vec![*list]),
            }
        };
        let request = Request::Statements(steps.iter().map(statement).collect());
        let (begun, reads) = (self.events, Vec::new());
        let transaction = Transaction { steps, begun, answered: None, end: None, reads };
        self.transactions.insert(call, transaction);
        request
    }

    fn end(&mut self, call: usize, end: End) {
        self.events += 1;
        let transaction = self.transactions.get_mut(&call).expect("it was begun");
        transaction.end = Some(end);
        // Of a call whose outcome is not known, nobody knows when it ran, either.
        transaction.answered = Some(self.events).filter(|_| end != End::Unknown);
    }

    fn answer(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        let transaction = self.transactions.get_mut(&call).expect("it was begun");
        let mut reader = ByteReader::new(tables);
        for (list, step) in &transaction.steps {
            let table = TableView::read(&mut reader);
            let table = table.map_err(|error| format!("call {call}, its tables: {error}"))?;
            if *step == Step::Read {
                transaction.reads.push((*list, items(&table)));
            }
        }
        Ok(())
    }

    /// What contradicts an order of the transactions, if anything does.
    fn judge(&self) -> Result<usize, String> {
        let mut writers: BTreeMap<i64, usize> = BTreeMap::new();
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, (call, transaction)) in self.transactions.iter().enumerate() {
            numbers.insert(*call, number);
            self.judge_end(*call, transaction)?;
            writers.extend(transaction.appends().map(|(_, value)| (value, number)));
        }
        let mut edges = Vec::new();
        for (list, values) in &self.at_rest {
            for value in values {
                if !writers.contains_key(value) {
                    return Err(format!("list {list} has {value}, which nobody appended"));
                }
            }
            let pairs = values.windows(2).map(|pair| (writers[&pair[0]], writers[&pair[1]]));
            edges.extend(pairs);
        }
        for (call, transaction) in &self.transactions {
            self.order_reads((numbers[call], transaction), &writers, &mut edges)?;
        }
        self.order_times(&mut edges);
        edges.retain(|(from, to)| from != to);
        match cycle(self.transactions.len(), &edges) {
            None => Ok(edges.len()),
            Some(found) => {
                let all: Vec<_> = self.transactions.iter().collect();
                let found: Vec<_> = found.into_iter().map(|number| all[number]).collect();
                Err(format!("no serial order has these: {found:?}"))
            }
        }
    }

    /// The appends of a transaction are there as it ended.
    fn judge_end(&self, call: usize, transaction: &Transaction) -> Result<(), String> {
        let is_there = |(list, value): (i64, i64)| {
            let times = |values: &Vec<i64>| values.iter().filter(|it| **it == value).count();
            let all: usize = self.at_rest.values().map(times).sum();
            (all, times(&self.at_rest[&list]))
        };
        let found: Vec<(usize, usize)> = transaction.appends().map(is_there).collect();
        let (whole, none) =
            (found.iter().all(|it| *it == (1, 1)), found.iter().all(|it| *it == (0, 0)));
        let holds = match transaction.end {
            Some(End::Done) => whole,
            Some(End::Failed) => none,
            Some(End::Unknown) => whole || none,
            None => false,
        };
        match holds {
            true => Ok(()),
            false => Err(format!("call {call} left {found:?} of its appends: {transaction:?}")),
        }
    }

    /// A read comes after the appends that it saw, and before the next one.
    fn order_reads(
        &self,
        (number, transaction): (usize, &Transaction),
        writers: &BTreeMap<i64, usize>,
        edges: &mut Vec<(usize, usize)>,
    ) -> Result<(), String> {
        for (list, seen) in &transaction.reads {
            let values = &self.at_rest[list];
            if !values.starts_with(seen) {
                return Err(format!("{transaction:?} saw {seen:?} of {values:?}"));
            }
            edges.extend(seen.last().map(|last| (writers[last], number)));
            edges.extend(values.get(seen.len()).map(|next| (number, writers[next])));
        }
        Ok(())
    }

    /// What was answered before another transaction began comes before that.
    fn order_times(&self, edges: &mut Vec<(usize, usize)>) {
        let all: Vec<&Transaction> = self.transactions.values().collect();
        for (first, earlier) in all.iter().enumerate() {
            let Some(answered) = earlier.answered else { continue };
            let later = all.iter().enumerate().filter(|(_, it)| it.begun > answered);
            edges.extend(later.map(|(second, _)| (first, second)));
        }
    }
}

impl Judge {
    /// The rows of the lists, where the run has them.
    pub(super) fn load_lists(&mut self) -> Vec<(usize, Request)> {
        let count = self.lists.as_ref().map_or(0, |it| it.lists);
        let insert: Sql = "INSERT INTO lists VALUES (?, '')".into();
        let one = |list| {
            let call = self.begin(Kind::Load);
            (call, Request::Statements(vec![(insert.clone(), vec![list])]))
        };
        (0..count).map(one).collect()
    }

    /// A client's transaction, where the run has lists and it is their turn.
    pub(super) fn call_lists(&mut self, random: &mut SeededRandom) -> Option<(usize, Request)> {
        let lists = self.lists.as_mut().filter(|_| random.chance(1, 2))?;
        let steps = lists.draw(random);
        Some(self.begin_lists(steps))
    }

    fn begin_lists(&mut self, steps: Vec<(i64, Step)>) -> (usize, Request) {
        let call = self.begin(Kind::Lists);
        let lists = self.lists.as_mut().expect("the run has lists");
        (call, lists.begin(call, steps))
    }

    /// A transaction has ended.
    pub(super) fn lists_ended(&mut self, call: usize, end: End) {
        self.lists.as_mut().expect("the run has lists").end(call, end);
    }

    /// A transaction was answered with these tables.
    pub(super) fn lists_answered(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        self.lists.as_mut().expect("the run has lists").answer(call, tables)
    }

    /// Takes the lists as the transactions since a call have read them, each of them one list.
    fn take_lists(&mut self, first: usize) {
        let Some(lists) = &mut self.lists else { return };
        let read = lists.transactions.range(first..).flat_map(|(_, it)| it.reads.clone());
        lists.at_rest = read.collect();
    }
}

impl Cluster {
    /// At rest the lists are read, and all transactions have an order.
    pub(super) fn judge_lists(&mut self) -> Result<(), String> {
        let Some(count) = self.judge.lists.as_ref().map(|it| it.lists) else { return Ok(()) };
        for attempt in 0..READS_AT_REST {
            let first = self.judge.next_call();
            let serving = self.serving();
            for list in 0..count {
                let call = self.judge.begin_lists(vec![(list, Step::Read)]);
                self.call_at(serving[attempt % serving.len()], call);
            }
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                return Err("a read of a list at rest is not answered".to_string());
            }
            if self.judge.are_done_since(first) {
                self.judge.take_lists(first);
                let lists = self.judge.lists.as_ref().expect("the run has lists");
                self.report.edges += lists.judge()? as u64;
                return Ok(());
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Err("reads of lists at rest fail".to_string())
    }
}
