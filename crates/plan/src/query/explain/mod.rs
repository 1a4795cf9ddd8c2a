//! Plans as text: one step a line, each input indented below the step that reads it.

mod expression;

use crate::catalog::Catalog;
use expression::Names;
use lockstep_plan_ir::expression::Subquery;
use lockstep_plan_ir::relation::{Join, JoinKind, JoinMethod, KeyList, SetBranch, SortKey};
use lockstep_plan_ir::statement::{Coordinator, Fragment, Query, Target};
use lockstep_plan_ir::{Access, Execution, Expression, Node, Operation, Relation, Scan};
use lockstep_types::TableId;

/// Longest explanation in bytes; the rest is cut off.
const MAX_BYTES: usize = 256 << 10;

/// The text of a plan.
pub(crate) fn explain(catalog: &Catalog, execution: &Execution, in_procedure: bool) -> String {
    let mut writer = Writer { names: Names::new(catalog), text: String::new() };
    writer.names.learn(execution);
    match execution {
        Execution::Local { operation, routing } => {
            writer.line(0, "RETURN RESULTS TO STORED PROCEDURE");
            let place = match routing {
                Some(value) => format!(
                    "at one partition: the owner of {}, which fixes the partitioning column",
                    writer.names.text(value)
                ),
                None if in_procedure => "at the partition of the procedure's call".to_string(),
                None => "at any one partition: only replicated tables are read".to_string(),
            };
            writer.line(1, &place);
            writer.operation(1, operation);
        }
        Execution::Distributed { fragments, coordinator } => {
            writer.line(0, "RETURN RESULTS TO STORED PROCEDURE");
            match coordinator {
                Coordinator::Query(query) => writer.query(1, query),
                Coordinator::SumCounts => writer.line(1, "SUM of the partitions' counts"),
                Coordinator::SameCount => {
                    writer.line(1, "COUNT of one partition: replicated, the same at all");
                }
            }
            writer.fragments(fragments);
        }
        Execution::Shipped { fragments, query, partition_column, apply, .. } => {
            writer.line(0, "RETURN RESULTS TO STORED PROCEDURE");
            let towards = match partition_column {
                Some(column) => format!("to the owner of column {}", column + 1),
                None => "to all partitions".to_string(),
            };
            writer.line(1, &format!("APPLY shipped rows, {towards}"));
            writer.operation(2, apply);
            writer.line(1, "SHIP rows");
            writer.query(2, query);
            writer.fragments(fragments);
        }
    }
    writer.text.truncate(writer.text.trim_end().len());
    writer.text
}

struct Writer<'c> {
    names: Names<'c>,
    text: String,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        if self.text.len() > MAX_BYTES {
            return;
        }
        self.text.extend(std::iter::repeat_n(' ', depth.min(120)));
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn fragments(&mut self, fragments: &[Fragment]) {
        for (number, fragment) in fragments.iter().enumerate() {
            let place = match &fragment.target {
                Target::All => self.why_all(&fragment.operation),
                Target::One => "at any one partition: only replicated tables".to_string(),
                Target::Owner(value) => {
                    format!("at one partition: the owner of {}", self.names.text(value))
                }
            };
            self.line(0, &format!("FRAGMENT {number} {place}"));
            self.operation(1, &fragment.operation);
        }
    }

    /// Why an operation runs at all partitions.
    fn why_all(&self, operation: &Operation) -> String {
        let written = match operation {
            Operation::Query(_) => None,
            Operation::Insert(insert) => Some(insert.table),
            Operation::Update(update) => Some(update.table),
            Operation::Delete(delete) => Some(delete.table),
            Operation::Truncate(table) => Some(*table),
        };
        let reason = match written {
            Some(table) if self.names.is_replicated(table) => "each holds the table",
            _ => "no one value fixes the partitioning column",
        };
        format!("at all partitions: {reason}")
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
            Relation::OneRow => self.line(depth, "ONE ROW"),
            Relation::Scan(scan) => self.scan(depth, scan),
            Relation::Receive { fragment, .. } => {
                self.line(depth, &format!("RECEIVE FROM ALL PARTITIONS of fragment {fragment}"));
            }
            Relation::Filter { input, predicate } => {
                let text = self.names.text(predicate);
                self.line(depth, &format!("FILTER by {text}"));
                self.subqueries(depth + 1, std::iter::once(predicate));
                self.relation(depth + 1, input);
            }
            Relation::Project { input, expressions, .. } => {
                self.line(depth, &format!("PROJECT {} columns", expressions.len()));
                self.subqueries(depth + 1, expressions.iter());
                self.relation(depth + 1, input);
            }
            Relation::Join(join) => self.join(depth, join),
            Relation::Aggregate { input, group, calls, .. } => {
                let calls: Vec<String> =
                    calls.iter().map(|call| self.names.aggregate(call)).collect();
                let kind = if group.is_empty() {
                    "AGGREGATION".to_string()
                } else {
                    format!("Hash AGGREGATION by {}", self.names.list(group))
                };
                self.line(depth, &format!("{kind} ops: {}", calls.join(", ")));
                self.relation(depth + 1, input);
            }
            Relation::Sort { input, keys, limit, offset } => {
                let keys = self.keys(keys);
                let cut = self.cut(limit.as_ref(), offset.as_ref());
                self.line(depth, &format!("ORDER BY (SORT) {keys}{cut}"));
                self.relation(depth + 1, input);
            }
            Relation::Limit { input, limit, offset } => {
                let cut = self.cut(limit.as_ref(), offset.as_ref());
                self.line(depth, cut.trim_start());
                self.relation(depth + 1, input);
            }
            Relation::Distinct { input, .. } => {
                self.line(depth, "DISTINCT");
                self.relation(depth + 1, input);
            }
            Relation::SetOperation { operator, all, branches, .. } => {
                let all = if *all { " ALL" } else { "" };
                let name = format!("{operator:?}").to_ascii_uppercase();
                self.line(depth, &format!("{name}{all}"));
                branches.iter().for_each(|branch| self.branch(depth + 1, branch));
            }
            Relation::Window { input, calls, .. } => {
                self.line(depth, &format!("WINDOW FUNCTION AGGREGATION: {} calls", calls.len()));
                self.relation(depth + 1, input);
            }
            Relation::Recursive { number, base, step, .. } => {
                self.line(depth, &format!("RECURSIVE common table {number}: first rows, then"));
                self.branch(depth + 1, base);
                self.branch(depth + 1, step);
            }
            Relation::Working { number, .. } => {
                self.line(depth, &format!("PREVIOUS ROUND of common table {number}"));
            }
        }
    }

    fn branch(&mut self, depth: usize, branch: &SetBranch) {
        self.relation(depth, &branch.relation);
        self.subqueries(depth + 1, branch.output.iter());
    }

    fn scan(&mut self, depth: usize, scan: &Scan) {
        let name = self.names.table(scan.table);
        let line = match &scan.access {
            Access::Full => format!("SEQUENTIAL SCAN of \"{name}\""),
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
                format!("INDEX SCAN of \"{name}\" using \"{index_name}\"{reverse}{how}{parts}")
            }
            Access::IndexList { index, list } => {
                let index_name = self.names.index(scan.table, *index);
                let key = self.names.key(scan.table, *index, 0);
                let list = match list {
                    KeyList::Values(values) => format!("({})", self.names.list(values)),
                    KeyList::Array(parameter) => format!("?{parameter}"),
                    KeyList::Subquery(_) => "a subquery".to_string(),
                };
                format!("INDEX SCAN of \"{name}\" using \"{index_name}\" for each {key} IN {list}")
            }
        };
        self.line(depth, &line);
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

    fn join(&mut self, depth: usize, join: &Join) {
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
        self.line(depth, &format!("{method} {kind} JOIN{keys}"));
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
