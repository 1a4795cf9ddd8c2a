//! Runs plans of inner joins over integers and counts the rows that they touch: those that scans
//! visit, places looked up in indexes, and pairs that joins form.

use lockstep_plan::plan_ir::relation::{Join, JoinKind, JoinMethod, KeyBound, KeyList};
use lockstep_plan::plan_ir::schema::IndexKey;
use lockstep_plan::plan_ir::statement::{Execution, Operation};
use lockstep_plan::plan_ir::{
    Access, Comparison, Expression, Node, Relation, Scan, Statement, TableDefinition,
};
use lockstep_types::{TableId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tables with their rows.
pub type Data = BTreeMap<TableId, (Arc<TableDefinition>, Vec<Vec<i64>>)>;

type Entries = Vec<(Vec<i64>, usize)>;

/// See the module.
pub struct Interpreter<'d> {
    data: &'d Data,
    indexes: BTreeMap<(TableId, usize), Entries>,
    touched: u64,
    limit: u64,
}

/// Rows by slot.
type Frame<'d> = Vec<Option<&'d [i64]>>;

/// The limit is over.
struct Over;

impl<'d> Interpreter<'d> {
    /// Over data.
    pub fn new(data: &'d Data) -> Self {
        let mut indexes = BTreeMap::new();
        for (id, (definition, rows)) in data {
            for (number, index) in definition.indexes.iter().enumerate() {
                let columns = index.keys.iter().map(|key| match key {
                    IndexKey::Column(column) => usize::from(*column),
                    IndexKey::Expression(_) => panic!("indexes are on columns here"),
                });
                let columns: Vec<usize> = columns.collect();
                let key = |row: &Vec<i64>| columns.iter().map(|c| row[*c]).collect::<Vec<i64>>();
                let mut entries: Entries =
                    rows.iter().enumerate().map(|(place, row)| (key(row), place)).collect();
                entries.sort();
                indexes.insert((*id, number), entries);
            }
        }
        Interpreter { data, indexes, touched: 0, limit: 0 }
    }

    /// Rows touched and result rows; `None` once over `limit` rows are touched.
    pub fn run(&mut self, statement: &Statement, limit: u64) -> Option<(u64, u64)> {
        let Execution::Local { operation: Operation::Query(query), .. } = &statement.execution
        else {
            panic!("a local query");
        };
        (self.touched, self.limit) = (0, limit);
        let mut frame: Frame<'d> = vec![None; usize::from(statement.slot_count)];
        let mut rows = 0;
        let done = self.relation(&query.relation, &mut frame, &mut |_, _| {
            rows += 1;
            Ok(())
        });
        done.ok().map(|()| (self.touched, rows))
    }

    fn touch(&mut self) -> Result<(), Over> {
        self.touched += 1;
        if self.touched > self.limit { Err(Over) } else { Ok(()) }
    }

    fn relation(
        &mut self,
        relation: &Relation,
        frame: &mut Frame<'d>,
        sink: &mut dyn FnMut(&mut Self, &mut Frame<'d>) -> Result<(), Over>,
    ) -> Result<(), Over> {
        match relation {
            Relation::OneRow => sink(self, frame),
            Relation::Scan(scan) => self.scan(scan, frame, sink),
            Relation::Filter { input, predicate } => {
                self.relation(input, frame, &mut |me, frame| {
                    if holds(predicate, frame) { sink(me, frame) } else { Ok(()) }
                })
            }
            Relation::Join(join) => self.join(join, frame, sink),
            other => panic!("not among the plans of inner joins: {other:?}"),
        }
    }

    fn scan(
        &mut self,
        scan: &Scan,
        frame: &mut Frame<'d>,
        sink: &mut dyn FnMut(&mut Self, &mut Frame<'d>) -> Result<(), Over>,
    ) -> Result<(), Over> {
        let data: &'d Data = self.data;
        let rows = &data[&scan.table].1;
        for place in self.found(scan, frame)? {
            self.touch()?;
            frame[usize::from(scan.slot)] = Some(&rows[place]);
            if scan.filter.as_ref().is_none_or(|filter| holds(filter, frame)) {
                sink(self, frame)?;
            }
        }
        Ok(())
    }

    fn found(&mut self, scan: &Scan, frame: &Frame<'d>) -> Result<Vec<usize>, Over> {
        let all = self.data[&scan.table].1.len();
        match &scan.access {
            Access::Full => Ok((0..all).collect()),
            Access::Index { index, equal, lower, upper, .. } => {
                self.touch()?;
                let key: Vec<i64> = equal.iter().map(|e| value(e, frame)).collect();
                let within = |bound: &Option<KeyBound>, part: i64, sign: i64| {
                    bound.as_ref().is_none_or(|bound| {
                        let end = value(&bound.value, frame);
                        part * sign > end * sign || bound.inclusive && part == end
                    })
                };
                let entries = &self.indexes[&(scan.table, index.index())];
                let from = entries.partition_point(|(entry, _)| entry[..key.len()] < key[..]);
                let equal = entries[from..].iter().take_while(|e| e.0[..key.len()] == key[..]);
                let inside = equal.filter(|(entry, _)| {
                    let Some(part) = entry.get(key.len()) else { return true };
                    within(lower, *part, 1) && within(upper, *part, -1)
                });
                Ok(inside.map(|(_, place)| *place).collect())
            }
            Access::IndexList { index, list: KeyList::Values(values) } => {
                let mut keys: Vec<i64> = values.iter().map(|e| value(e, frame)).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.iter().try_for_each(|_| self.touch())?;
                let entries = &self.indexes[&(scan.table, index.index())];
                let wanted = entries.iter().filter(|(entry, _)| keys.contains(&entry[0]));
                Ok(wanted.map(|(_, place)| *place).collect())
            }
            other => panic!("not among the plans of inner joins: {other:?}"),
        }
    }

    fn join(
        &mut self,
        join: &Join,
        frame: &mut Frame<'d>,
        sink: &mut dyn FnMut(&mut Self, &mut Frame<'d>) -> Result<(), Over>,
    ) -> Result<(), Over> {
        assert_eq!(join.kind, JoinKind::Inner);
        let passes = |frame: &Frame<'d>| join.condition.as_ref().is_none_or(|c| holds(c, frame));
        let JoinMethod::Hash { left, right } = &join.method else {
            return self.relation(&join.left, frame, &mut |me, frame| {
                me.relation(&join.right, frame, &mut |me, frame| {
                    if passes(frame) { sink(me, frame) } else { Ok(()) }
                })
            });
        };
        let mut build: BTreeMap<Vec<i64>, Vec<Frame<'d>>> = BTreeMap::new();
        self.relation(&join.right, frame, &mut |_, frame| {
            let key = right.iter().map(|e| value(e, frame)).collect();
            build.entry(key).or_default().push(frame.clone());
            Ok(())
        })?;
        self.relation(&join.left, frame, &mut |me, frame| {
            let key: Vec<i64> = left.iter().map(|e| value(e, frame)).collect();
            for partner in build.get(&key).into_iter().flatten() {
                me.touch()?;
                join.right_slots
                    .iter()
                    .for_each(|s| frame[usize::from(*s)] = partner[usize::from(*s)]);
                if passes(frame) {
                    sink(me, frame)?;
                }
            }
            Ok(())
        })
    }
}

fn value(expression: &Expression, frame: &Frame<'_>) -> i64 {
    match &expression.node {
        Node::Literal(Value::Int(value)) => *value,
        Node::Column { slot, column } => {
            frame[usize::from(*slot)].expect("a bound slot")[usize::from(*column)]
        }
        other => panic!("not among the plans of inner joins: {other:?}"),
    }
}

fn holds(expression: &Expression, frame: &Frame<'_>) -> bool {
    match &expression.node {
        Node::And(parts) => parts.iter().all(|part| holds(part, frame)),
        Node::InList { value: tested, list } => {
            let tested = value(tested, frame);
            list.iter().any(|item| value(item, frame) == tested)
        }
        Node::Compare(comparison, a, b) => {
            let (a, b) = (value(a, frame), value(b, frame));
            match comparison {
                Comparison::Equal => a == b,
                Comparison::Less => a < b,
                Comparison::LessOrEqual => a <= b,
                Comparison::Greater => a > b,
                Comparison::GreaterOrEqual => a >= b,
                other => panic!("not among the plans of inner joins: {other:?}"),
            }
        }
        other => panic!("not among the plans of inner joins: {other:?}"),
    }
}
