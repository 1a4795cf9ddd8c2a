//! Plans as text: one step a line, each input indented below the step that reads it.

mod expression;
mod json;
mod place;

use super::estimate::Estimator;
use crate::catalog::Catalog;
use crate::planning::Planning;
use expression::Names;
use lockstep_plan_ir::expression::Subquery;
use lockstep_plan_ir::relation::{Join, JoinKind, JoinMethod, KeyList, SetBranch, SortKey};
use lockstep_plan_ir::statement::{Coordinator, Fragment, Query, Target};
use lockstep_plan_ir::{
    Access, Execution, Expression, Node, Operation, Relation, Scan, Statement, TableDefinition,
};
use lockstep_types::TableId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Longest explanation in bytes; the rest is cut off.
const MAX_BYTES: usize = 256 << 10;
/// What scans of a table and of an index are called, and those that only count.
const SCANS: [&str; 2] = ["SEQUENTIAL SCAN", "INDEX SCAN"];
const COUNTS: [&str; 2] = ["TABLE COUNT", "INDEX COUNT"];
/// Deepest indentation.
const MAX_DEPTH: usize = 120;

/// What an explanation is made from besides the plan.
pub struct Explaining<'e> {
    /// The schema that the plan was made with.
    pub catalog: &'e Catalog,
    /// Where the estimates come from.
    pub planning: &'e Planning,
    /// The statement is part of a procedure that runs at one partition.
    pub in_procedure: bool,
    /// The partition of a partitioning value, where it can be told without parameters.
    pub partition_of: &'e dyn Fn(&Expression) -> Option<u32>,
    /// What the operators did at each place that has counted: at the partitions in their order,
    /// then at the coordinator. As [`Statement::operators`] lists them. Empty if it did not run.
    pub counts: &'e [Vec<OperatorCount>],
}

/// What an operator did at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperatorCount {
    /// Rows that it gave, over all its runs.
    pub rows: u64,
    /// How often it ran.
    pub runs: u64,
    /// Time, with that of the operators below.
    pub nanoseconds: u64,
}

/// The plan of a statement as text: one step a line, its inputs indented below it.
pub fn explain(statement: &Statement, explaining: &Explaining<'_>) -> String {
    let mut text = String::new();
    for Step { depth, text: step } in steps(statement, explaining) {
        text.extend(std::iter::repeat_n(' ', depth));
        text.push_str(&step);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// The plan of a statement as a JSON object: `SQL` is the statement, `PLAN` the array of its
/// steps. A step has its text as `STEP`, and as `INPUTS` the steps indented below it in the text,
/// if there are any.
pub fn explain_json(statement: &Statement, explaining: &Explaining<'_>) -> String {
    json::write(&statement.text, &steps(statement, explaining))
}

/// A line of a plan.
struct Step {
    depth: usize,
    text: String,
}

/// The lines of a plan in their order.
fn steps(statement: &Statement, explaining: &Explaining<'_>) -> Vec<Step> {
    let execution = &statement.execution;
    let mut writer = Writer::new(statement, explaining);
    writer.line(0, "RETURN RESULTS TO STORED PROCEDURE");
    match execution {
        Execution::Local { operation, routing } => {
            let place = match routing {
                Some(value) => writer.owner(operation, value),
                None if explaining.in_procedure => {
                    "at the partition of the procedure's call".to_string()
                }
                None => ANY_ONE.to_string(),
            };
            writer.line(1, &place);
            writer.local_data(&statement.guards);
            writer.operation(1, operation);
        }
        Execution::Distributed { fragments, coordinator } => {
            match coordinator {
                Coordinator::Query(query) => writer.query(1, query),
                Coordinator::SumCounts => writer.line(1, "SUM of the partitions' counts"),
                Coordinator::SameCount => {
                    writer.line(1, "COUNT of one partition: replicated, the same at all");
                }
            }
            writer.fragments(fragments);
        }
        Execution::Shipped { fragments, query, apply, finish: Some(finish), .. } => {
            writer.query(1, &finish.query);
            writer.line(1, "AT ALL PARTITIONS, with the shipped rows");
            writer.operation(2, apply);
            writer.line(1, "SHIP rows to all partitions");
            writer.query(2, query);
            writer.fragments(fragments);
        }
        Execution::Shipped { fragments, query, partition_columns, apply, .. } => {
            let columns: Vec<String> =
                partition_columns.iter().map(|column| (column + 1).to_string()).collect();
            let towards = match columns.as_slice() {
                [] => "to all partitions".to_string(),
                [column] => format!("to the owner of column {column}"),
                several => format!("to the owner of columns {}", several.join(", ")),
            };
            writer.line(1, &format!("APPLY shipped rows, {towards}"));
            writer.operation(2, apply);
            writer.line(1, "SHIP rows");
            writer.query(2, query);
            writer.fragments(fragments);
        }
    }
    writer.steps
}

const ANY_ONE: &str = "at any one partition, because only replicated tables are read";

struct Writer<'e> {
    names: Names<'e>,
    explaining: &'e Explaining<'e>,
    estimator: Estimator<'e>,
    /// Numbers of the operators by address.
    numbers: BTreeMap<usize, usize>,
    /// Where each fragment runs.
    targets: Vec<Target>,
    steps: Vec<Step>,
    /// Bytes of the text so far.
    bytes: usize,
}

impl<'e> Writer<'e> {
    fn new(statement: &Statement, explaining: &'e Explaining<'e>) -> Self {
        let mut names = Names::new(explaining.catalog);
        names.learn(&statement.execution);
        let mut estimator = Estimator::new(explaining.planning);
        estimator.record();
        let operators = statement.operators();
        let tables = explaining.catalog.tables.values();
        let tables: BTreeMap<_, _> = tables.map(|t| (t.definition.id, &t.definition)).collect();
        for operator in &operators {
            learn_scan(&mut estimator, &tables, operator);
        }
        let fragments: &[Fragment] = match &statement.execution {
            Execution::Local { .. } => &[],
            Execution::Distributed { fragments, .. } => fragments,
            Execution::Shipped { fragments, .. } => fragments,
        };
        let mut roots: Vec<&Relation> =
            fragments.iter().filter_map(|fragment| fragment.operation.relation()).collect();
        match &statement.execution {
            Execution::Local { operation, .. } => roots.extend(operation.relation()),
            Execution::Distributed { coordinator: Coordinator::Query(query), .. } => {
                roots.push(&query.relation);
            }
            Execution::Distributed { .. } => {}
            Execution::Shipped { query, apply, .. } => {
                roots.push(&query.relation);
                roots.extend(apply.relation());
            }
        }
        for root in roots {
            estimator.rows(root, fragments);
        }
        if let Execution::Shipped { apply, finish: Some(finish), .. } = &statement.execution {
            let (operation, result) = (apply.clone(), finish.sent.clone());
            let sent = [Fragment { target: Target::All, operation, result }];
            estimator.rows(&finish.query.relation, &sent);
        }
        let numbers = operators.into_iter().map(address).zip(0..).collect();
        let targets = fragments.iter().map(|fragment| fragment.target.clone()).collect();
        Writer { names, explaining, estimator, numbers, targets, steps: Vec::new(), bytes: 0 }
    }
}

fn learn_scan(
    estimator: &mut Estimator<'_>,
    tables: &BTreeMap<TableId, &Arc<TableDefinition>>,
    operator: &Relation,
) {
    let Relation::Scan(scan) = operator else { return };
    let Some(definition) = tables.get(&scan.table) else { return };
    estimator.learn_table(scan.slot, definition);
    match &scan.filter {
        Some(Expression { node: Node::And(parts), .. }) => {
            estimator.learn_conditions(parts.iter());
        }
        filter => estimator.learn_conditions(filter.iter()),
    }
}

fn address(relation: &Relation) -> usize {
    std::ptr::from_ref(relation).addr()
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        if self.bytes > MAX_BYTES {
            return;
        }
        let depth = depth.min(MAX_DEPTH);
        self.bytes += depth + text.len() + 1;
        self.steps.push(Step { depth, text: text.to_string() });
    }

    /// A line about an operator, with how many rows it gives.
    fn step(&mut self, depth: usize, relation: &Relation, text: &str) {
        let mut line = text.to_string();
        let estimated = self.estimator.recorded(relation);
        if let Some(rows) = estimated {
            let rows = rows.round().max(0.0) as u64;
            let _ = write!(line, " (about {rows} row{}", if rows == 1 { "" } else { "s" });
        }
        let number = self.numbers.get(&address(relation));
        let counts = self.explaining.counts.iter();
        let counts: Vec<OperatorCount> = number
            .map(|number| counts.filter_map(|place| place.get(*number).copied()).collect())
            .unwrap_or_default();
        if !counts.is_empty() {
            line.push_str(if estimated.is_some() { "; " } else { " (" });
            line.push_str(&real(&counts));
        }
        if estimated.is_some() || !counts.is_empty() {
            line.push(')');
        }
        self.line(depth, &line);
    }

    fn fragments(&mut self, fragments: &[Fragment]) {
        for (number, fragment) in fragments.iter().enumerate() {
            let place = match &fragment.target {
                Target::All => self.why_all(&fragment.operation),
                Target::One => ANY_ONE.to_string(),
                Target::Owner(value) => self.owner(&fragment.operation, value),
                Target::Owners(values) => self.owners(&fragment.operation, values),
                Target::OwnersOfArray(parameter) => {
                    self.owners_of_array(&fragment.operation, *parameter)
                }
            };
            self.line(0, &format!("FRAGMENT {number} {place}"));
            self.operation(1, &fragment.operation);
        }
    }

    fn operation(&mut self, depth: usize, operation: &Operation) {
        match operation {
            Operation::Query(query) => self.query(depth, query),
            Operation::Insert(insert) => {
                let verb = if insert.upsert.is_some() { "UPSERT" } else { "INSERT" };
                let name = self.names.table(insert.table);
                self.line(depth, &format!("{verb} into \"{name}\""));
                if insert.source != Relation::OneRow {
                    self.relation(depth + 1, &insert.source);
                }
                self.subqueries(depth + 1, insert.values.iter());
            }
            Operation::Update(update) => {
                let name = self.names.table(update.table);
                self.line(depth, &format!("UPDATE \"{name}\""));
                self.relation(depth + 1, &update.source);
                self.subqueries(depth + 1, update.assignments.iter().map(|(_, value)| value));
            }
            Operation::Delete(delete) => {
                let name = self.names.table(delete.table);
                self.line(depth, &format!("DELETE from \"{name}\""));
                self.relation(depth + 1, &delete.source);
            }
            Operation::Truncate(table) => self.truncate(depth, *table),
            Operation::Cover(cover) => {
                let name = self.names.table(cover.table);
                self.line(depth, &format!("BUILD GLOBAL INDEX of \"{name}\""));
            }
        }
    }

    fn truncate(&mut self, depth: usize, table: TableId) {
        let name = self.names.table(table);
        self.line(depth, &format!("TRUNCATE TABLE \"{name}\""));
    }

    fn query(&mut self, depth: usize, query: &Query) {
        self.relation(depth, &query.relation);
        self.subqueries(depth, query.output.iter());
    }

    fn relation(&mut self, depth: usize, relation: &Relation) {
        match relation {
            Relation::OneRow => self.step(depth, relation, "ONE ROW"),
            Relation::Scan(scan) => self.scan(depth, relation, scan, SCANS),
            Relation::Receive { fragment, .. } => {
                let text = self.receive(*fragment);
                self.step(depth, relation, &text);
            }
            Relation::Filter { input, predicate } => {
                let text = self.names.text(predicate);
                self.step(depth, relation, &format!("FILTER by {text}"));
                self.subqueries(depth + 1, std::iter::once(predicate));
                self.relation(depth + 1, input);
            }
            Relation::Project { input, expressions, .. } => {
                self.step(depth, relation, &format!("PROJECT {} columns", expressions.len()));
                self.subqueries(depth + 1, expressions.iter());
                self.relation(depth + 1, input);
            }
            Relation::Join(join) => self.join(depth, relation, join),
            Relation::Aggregate { input, group, calls, .. } => {
                let texts = calls.iter().map(|call| self.names.aggregate(call));
                let texts = texts.collect::<Vec<String>>();
                let kind = match group.is_empty() {
                    true => "AGGREGATION".to_string(),
                    false => format!("Hash AGGREGATION by {}", self.names.list(group)),
                };
                self.step(depth, relation, &format!("{kind} ops: {}", texts.join(", ")));
                match Relation::counted_scan(input, group, calls) {
                    Some(scan) => self.scan(depth + 1, input, scan, COUNTS),
                    None => self.relation(depth + 1, input),
                }
            }
            Relation::Sort { input, keys, limit, offset } => {
                let keys = self.keys(keys);
                let cut = self.cut(limit.as_ref(), offset.as_ref());
                self.step(depth, relation, &format!("ORDER BY (SORT) {keys}{cut}"));
                self.relation(depth + 1, input);
            }
            Relation::Limit { input, limit, offset } => {
                let cut = self.cut(limit.as_ref(), offset.as_ref());
                self.step(depth, relation, cut.trim_start());
                self.relation(depth + 1, input);
            }
            Relation::Distinct { input, .. } => {
                self.step(depth, relation, "DISTINCT");
                self.relation(depth + 1, input);
            }
            Relation::SetOperation { operator, all, branches, .. } => {
                let all = if *all { " ALL" } else { "" };
                let text = format!("{operator:?}{all}").to_ascii_uppercase();
                self.step(depth, relation, &text);
                branches.iter().for_each(|branch| self.branch(depth + 1, branch));
            }
            Relation::Window { input, calls, .. } => {
                let text = format!("WINDOW FUNCTION AGGREGATION: {} calls", calls.len());
                self.step(depth, relation, &text);
                self.relation(depth + 1, input);
            }
            Relation::Recursive { number, base, step, .. } => {
                let text = format!("RECURSIVE common table {number}: first rows, then");
                self.step(depth, relation, &text);
                self.branch(depth + 1, base);
                self.branch(depth + 1, step);
            }
            Relation::Working { number, .. } => {
                self.step(depth, relation, &format!("PREVIOUS ROUND of common table {number}"));
            }
        }
    }

    fn receive(&self, fragment: u16) -> String {
        let from = match self.targets.get(usize::from(fragment)) {
            Some(Target::All) | None => "ALL PARTITIONS",
            Some(Target::Owners(_) | Target::OwnersOfArray(_)) => "SOME PARTITIONS",
            Some(Target::One | Target::Owner(_)) => "ONE PARTITION",
        };
        format!("RECEIVE FROM {from} of fragment {fragment}")
    }

    fn branch(&mut self, depth: usize, branch: &SetBranch) {
        self.relation(depth, &branch.relation);
        self.subqueries(depth + 1, branch.output.iter());
    }

    /// A scan, with what it is called over the table and over an index.
    fn scan(&mut self, depth: usize, relation: &Relation, scan: &Scan, kinds: [&str; 2]) {
        let [of_table, of_index] = kinds;
        let source = self.names.scanned(scan.table);
        let line = match &scan.access {
            Access::Full => format!("{of_table} of {source}"),
            Access::Index { index, equal, lower, upper, reverse, at_most_one, .. } => {
                let index_name = self.names.index(scan.table, *index);
                let mut parts = Vec::new();
                for (position, value) in equal.iter().enumerate() {
                    let key = self.names.key(scan.table, *index, position);
                    parts.push(format!("({key} = {})", self.names.text(value)));
                }
                let key = self.names.key(scan.table, *index, equal.len());
                let ends = [(lower, '>'), (upper, '<')];
                for (bound, sign) in ends {
                    if let Some(bound) = bound {
                        let equals = if bound.inclusive { "=" } else { "" };
                        let value = self.names.text(&bound.value);
                        parts.push(format!("({key} {sign}{equals} {value})"));
                    }
                }
                let how = match (at_most_one, parts.is_empty(), lower.is_none() && upper.is_none())
                {
                    (true, ..) => " uniquely match ",
                    (_, true, _) => " for sort order",
                    (_, _, true) => " range-scan on ",
                    _ => " range-scan covering ",
                };
                let reverse = if *reverse { " reverse" } else { "" };
                let parts = parts.join(" AND ");
                format!("{of_index} of {source} using \"{index_name}\"{reverse}{how}{parts}")
            }
            Access::IndexList { index, list } => {
                let index_name = self.names.index(scan.table, *index);
                let key = self.names.key(scan.table, *index, 0);
                let list = match list {
                    KeyList::Values(values) => format!("({})", self.names.list(values)),
                    KeyList::Array(parameter) => format!("?{parameter}"),
                    KeyList::Subquery(_) => "a subquery".to_string(),
                };
                format!("INDEX SCAN of {source} using \"{index_name}\" for each {key} IN {list}")
            }
        };
        self.step(depth, relation, &line);
        if let Some(filter) = &scan.filter {
            let text = self.names.text(filter);
            self.line(depth + 1, &format!("filter by {text}"));
            self.subqueries(depth + 1, std::iter::once(filter));
        }
        self.key_subqueries(depth + 1, &scan.access);
    }

    fn key_subqueries(&mut self, depth: usize, access: &Access) {
        match access {
            Access::Index { equal, lower, upper, .. } => {
                let ends = lower.iter().chain(upper).map(|bound| &bound.value);
                self.subqueries(depth, equal.iter().chain(ends));
            }
            Access::IndexList { list: KeyList::Subquery(subquery), .. } => {
                self.subquery(depth, subquery);
            }
            Access::IndexList { .. } | Access::Full => {}
        }
    }

    fn join(&mut self, depth: usize, relation: &Relation, join: &Join) {
        let kind = match join.kind {
            JoinKind::Inner => "INNER",
            JoinKind::Left => "LEFT OUTER",
            JoinKind::Right => "RIGHT OUTER",
            JoinKind::Full => "FULL OUTER",
            JoinKind::Semi => "SEMI",
            JoinKind::Anti => "ANTI",
        };
        let (method, keys) = match &join.method {
            JoinMethod::NestedLoop if is_lookup(&join.right) => ("NEST LOOP INDEX", String::new()),
            JoinMethod::NestedLoop => ("NEST LOOP", String::new()),
            JoinMethod::Hash { left, right } => {
                let keys = left
                    .iter()
                    .zip(right)
                    .map(|(a, b)| format!("{} = {}", self.names.text(a), self.names.text(b)));
                ("HASH", format!(" on {}", keys.collect::<Vec<_>>().join(" AND ")))
            }
        };
        self.step(depth, relation, &format!("{method} {kind} JOIN{keys}"));
        if let Some(condition) = &join.condition {
            let text = self.names.text(condition);
            self.line(depth + 1, &format!("filter by {text}"));
            self.subqueries(depth + 1, std::iter::once(condition));
        }
        self.relation(depth + 1, &join.left);
        self.relation(depth + 1, &join.right);
    }

    fn keys(&self, keys: &[SortKey]) -> String {
        let keys = keys.iter().map(|key| {
            let direction = if key.descending { " DESC" } else { "" };
            format!("{}{direction}", self.names.text(&key.expression))
        });
        keys.collect::<Vec<_>>().join(", ")
    }

    fn cut(&self, limit: Option<&Expression>, offset: Option<&Expression>) -> String {
        let mut text = String::new();
        if let Some(limit) = limit {
            text.push_str(&format!(" LIMIT {}", self.names.text(limit)));
        }
        if let Some(offset) = offset {
            text.push_str(&format!(" OFFSET {}", self.names.text(offset)));
        }
        text
    }

    /// The subqueries within expressions, below the step that evaluates them.
    fn subqueries<'e>(&mut self, depth: usize, expressions: impl Iterator<Item = &'e Expression>) {
        for expression in expressions {
            self.subqueries_of(depth, expression);
        }
    }

    fn subqueries_of(&mut self, depth: usize, expression: &Expression) {
        let found: Option<&Subquery> = match &expression.node {
            Node::ScalarSubquery(subquery) | Node::Exists(subquery) => Some(subquery),
            Node::Quantified { subquery, .. } => Some(subquery),
            _ => None,
        };
        if let Some(subquery) = found {
            self.subquery(depth, subquery);
        }
        super::walk::each_child(expression, &mut |child| self.subqueries_of(depth, child));
    }

    fn subquery(&mut self, depth: usize, subquery: &Subquery) {
        let how = if subquery.uncorrelated { "once" } else { "for each row" };
        self.line(depth, &format!("subquery {}, evaluated {how}:", subquery.number));
        self.names.learn_relation(&subquery.relation);
        self.relation(depth + 1, &subquery.relation);
        self.subqueries(depth + 1, subquery.output.iter());
    }
}

fn is_lookup(relation: &Relation) -> bool {
    matches!(relation, Relation::Scan(Scan { access: Access::Index { .. }, .. }))
}

/// What an operator did: rows and times of several places in their order.
fn real(counts: &[OperatorCount]) -> String {
    /// More places than this are summed up.
    const TOLD: usize = 8;
    let ran: Vec<&OperatorCount> = counts.iter().filter(|count| count.runs > 0).collect();
    if ran.is_empty() {
        return "not run".to_string();
    }
    let list = |value: &dyn Fn(&OperatorCount) -> String| {
        ran.iter().map(|count| value(count)).collect::<Vec<_>>().join(" + ")
    };
    let runs: u64 = ran.iter().map(|count| count.runs).sum();
    let again = match runs > ran.len() as u64 {
        true => format!(", {runs} runs"),
        false => String::new(),
    };
    let micros = |count: &OperatorCount| (count.nanoseconds / 1000).to_string();
    if ran.len() > TOLD {
        let rows: u64 = ran.iter().map(|count| count.rows).sum();
        let longest = ran.iter().map(|count| count.nanoseconds / 1000).max().unwrap_or(0);
        let places = ran.len();
        return format!("gave {rows} rows at {places} places, {longest} us at most{again}");
    }
    format!("gave {} rows in {} us{again}", list(&|count| count.rows.to_string()), list(&micros))
}

/// The table that an operation changes.
fn written_table(operation: &Operation) -> Option<TableId> {
    match operation {
        Operation::Query(_) => None,
        Operation::Insert(insert) => Some(insert.table),
        Operation::Update(update) => Some(update.table),
        Operation::Delete(delete) => Some(delete.table),
        Operation::Truncate(table) => Some(*table),
        Operation::Cover(cover) => Some(cover.table),
    }
}

/// The first table of an operation whose rows are spread over partitions.
pub(crate) fn spread_table_of(catalog: &Catalog, operation: &Operation) -> Option<TableId> {
    spread_table(&Names::new(catalog), operation)
}

fn spread_table(names: &Names<'_>, operation: &Operation) -> Option<TableId> {
    let scanned = operation.relation().into_iter().flat_map(Relation::operators);
    let scanned = scanned.filter_map(|operator| match operator {
        Relation::Scan(scan) => Some(scan.table),
        _ => None,
    });
    written_table(operation).into_iter().chain(scanned).find(|table| !names.is_replicated(*table))
}
