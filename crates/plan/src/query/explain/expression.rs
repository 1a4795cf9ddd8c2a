//! Expressions and names in explanations.

use crate::catalog::Catalog;
use crate::query::walk;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::relation::{AggregateCall, Join, SetBranch};
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::{Coordinator, Query};
use lockstep_plan_ir::{
    AggregateFunction, Comparison, Execution, Expression, Function, Lookup, Node, Operation,
    Relation, TableDefinition,
};
use lockstep_types::{IndexId, TableId, Value};
use std::collections::BTreeMap;

/// Longest text that stands for a computed column, in bytes.
const MAX_NAME: usize = 80;
/// Longest text of one expression in bytes.
const MAX_BYTES: usize = 2000;

/// What tables and slots are called.
pub(super) struct Names<'c> {
    tables: BTreeMap<TableId, &'c TableDefinition>,
    slots: BTreeMap<u16, TableId>,
    /// What the columns of computed rows are.
    computed: BTreeMap<u16, Vec<String>>,
    /// What the columns of fragments' rows are.
    sent: Vec<Vec<String>>,
}

impl<'c> Names<'c> {
    /// The catalog's tables.
    pub(super) fn new(catalog: &'c Catalog) -> Self {
        let tables = catalog.tables.values().map(|table| &*table.definition);
        Names {
            tables: tables.map(|t| (t.id, t)).collect(),
            slots: BTreeMap::new(),
            computed: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    /// Learns which slots hold rows of which tables.
    pub(super) fn learn(&mut self, execution: &Execution) {
        match execution {
            Execution::Local { operation, .. } => self.learn_operation(operation),
            Execution::Distributed { fragments, coordinator } => {
                fragments.iter().for_each(|f| self.learn_fragment(&f.operation));
                if let Coordinator::Query(query) = coordinator {
                    self.learn_query(query);
                }
            }
            Execution::Shipped { fragments, query, apply, finish, .. } => {
                fragments.iter().for_each(|f| self.learn_fragment(&f.operation));
                self.learn_query(query);
                self.sent = vec![self.texts(query.output.iter())];
                self.learn_operation(apply);
                if let (Some(finish), Operation::Query(applied)) = (finish, apply) {
                    self.sent = vec![self.texts(applied.output.iter())];
                    self.learn_query(&finish.query);
                }
            }
        }
    }

    fn learn_fragment(&mut self, operation: &Operation) {
        self.learn_operation(operation);
        let sent = match operation {
            Operation::Query(query) => self.texts(query.output.iter()),
            _ => Vec::new(),
        };
        self.sent.push(sent);
    }

    /// Short texts of expressions; empty for long ones.
    fn texts<'e>(&self, expressions: impl Iterator<Item = &'e Expression>) -> Vec<String> {
        let short = |text: String| if text.len() > MAX_NAME { String::new() } else { text };
        expressions.map(|expression| short(self.text(expression))).collect()
    }

    fn learn_operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Query(query) => self.learn_query(query),
            Operation::Insert(insert) => self.learn_relation(&insert.source),
            Operation::Update(update) => self.learn_relation(&update.source),
            Operation::Delete(delete) => self.learn_relation(&delete.source),
            Operation::Truncate(_) | Operation::Cover(_) => {}
        }
    }

    fn learn_query(&mut self, query: &Query) {
        self.learn_relation(&query.relation);
    }

    /// As [`Names::learn`], for a part of a plan.
    pub(super) fn learn_relation(&mut self, relation: &Relation) {
        match relation {
            Relation::Scan(scan) => {
                self.slots.insert(scan.slot, scan.table);
            }
            Relation::OneRow | Relation::Working { .. } => {}
            Relation::Receive { slot, fragment, .. } => {
                let sent = self.sent.get(usize::from(*fragment)).cloned().unwrap_or_default();
                self.computed.insert(*slot, sent);
            }
            Relation::Project { input, slot, expressions } => {
                self.learn_relation(input);
                self.computed.insert(*slot, self.texts(expressions.iter()));
            }
            Relation::Aggregate { input, slot, group, calls } => {
                self.learn_relation(input);
                let mut texts = self.texts(group.iter());
                texts.extend(calls.iter().map(|call| self.aggregate(call)));
                self.computed.insert(*slot, texts);
            }
            Relation::Filter { input, .. }
            | Relation::Sort { input, .. }
            | Relation::Limit { input, .. }
            | Relation::Distinct { input, .. }
            | Relation::Window { input, .. } => self.learn_relation(input),
            Relation::Join(join) => {
                let Join { left, right, .. } = &**join;
                self.learn_relation(left);
                self.learn_relation(right);
            }
            Relation::SetOperation { branches, slot, .. } => {
                branches.iter().for_each(|branch| self.learn_branch(branch));
                let first = branches.first().map(|branch| self.texts(branch.output.iter()));
                self.computed.insert(*slot, first.unwrap_or_default());
            }
            Relation::Recursive { base, step, .. } => {
                self.learn_branch(base);
                self.learn_branch(step);
            }
        }
    }

    fn learn_branch(&mut self, branch: &SetBranch) {
        self.learn_relation(&branch.relation);
    }

    /// A table's name; of the entries of a global index, its own.
    pub(super) fn table(&self, table: TableId) -> String {
        let Some(definition) = self.tables.get(&table) else { return format!("table {table}") };
        let of = definition.entries_of.as_ref();
        of.map_or_else(|| definition.name.clone(), |of| of.index_name.clone())
    }

    /// The name of a table's partitioning column, or of several, if it has one.
    pub(super) fn partition_column(&self, table: TableId) -> Option<String> {
        let definition = self.tables.get(&table)?;
        let columns = definition.partition_columns.iter();
        let mut names = columns.map(|&column| column_name(definition, column));
        Some(match (definition.partition_columns.len(), names.next()) {
            (_, None) => return None,
            (1, Some(only)) => format!("{}.{only}", self.table(table)),
            (_, Some(first)) => {
                let all: Vec<String> = std::iter::once(first.to_string())
                    .chain(names.map(|n| n.to_string()))
                    .collect();
                format!("{}.({})", self.table(table), all.join(", "))
            }
        })
    }

    /// The question to a global index that gives a place.
    fn place(&self, place: &Expression) -> String {
        let Some(Lookup { entries, keys }) = Lookup::of(place) else { return String::new() };
        let of = self.tables.get(&entries).and_then(|table| table.entries_of.as_ref());
        let index = of.map_or_else(|| format!("{entries}"), |of| of.index_name.clone());
        format!("what global index {index} has for ({})", self.list(keys))
    }

    /// What a scan reads: a table, or a global index that has all the columns that are needed.
    pub(super) fn scanned(&self, table: TableId) -> String {
        match self.tables.get(&table).and_then(|table| table.entries_of.as_ref()) {
            Some(of) => format!("global index \"{}\" alone", of.index_name),
            None => format!("\"{}\"", self.table(table)),
        }
    }

    /// True for a table that every partition holds.
    pub(super) fn is_replicated(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| t.is_replicated())
    }

    /// An index's name.
    pub(super) fn index(&self, table: TableId, index: IndexId) -> String {
        let definition = self.tables.get(&table).and_then(|t| t.indexes.get(index.index()));
        definition.map_or_else(|| format!("index {index}"), |d| d.name.clone())
    }

    /// A part of an index's key.
    pub(super) fn key(&self, table: TableId, index: IndexId, part: usize) -> String {
        let Some(definition) = self.tables.get(&table) else { return String::new() };
        let key = definition.indexes.get(index.index()).and_then(|i| i.keys.get(part));
        match key {
            Some(IndexKey::Column(column)) => column_name(definition, *column),
            Some(IndexKey::Expression(expression)) => {
                let here = Names {
                    tables: self.tables.clone(),
                    slots: BTreeMap::from([(0, definition.id)]),
                    computed: BTreeMap::new(),
                    sent: Vec::new(),
                };
                here.text(expression)
            }
            None => String::new(),
        }
    }

    /// Several expressions.
    pub(super) fn list(&self, expressions: &[Expression]) -> String {
        let mut text = String::new();
        for (position, expression) in expressions.iter().enumerate() {
            if position > 0 {
                text.push_str(", ");
            }
            if text.len() > MAX_BYTES {
                text.push_str("...");
                break;
            }
            self.write(expression, &mut text);
        }
        text
    }

    /// An expression.
    pub(super) fn text(&self, expression: &Expression) -> String {
        let mut text = String::new();
        self.write(expression, &mut text);
        text
    }

    /// An aggregate call.
    pub(super) fn aggregate(&self, call: &AggregateCall) -> String {
        let distinct = if call.distinct { "DISTINCT " } else { "" };
        let function = call.function.name();
        let name = match (&call.user, call.function) {
            (Some(user), AggregateFunction::User) => user.name.clone(),
            (Some(user), AggregateFunction::UserParts) => format!("parts of {}", user.name),
            (Some(user), _) => format!("merge of {}", user.name),
            (None, _) => function.to_string(),
        };
        match &call.argument {
            None => name,
            Some(argument) => format!("{name}({distinct}{})", self.text(argument)),
        }
    }

    fn write(&self, expression: &Expression, out: &mut String) {
        if out.len() > MAX_BYTES {
            out.push_str("...");
            return;
        }
        match &expression.node {
            Node::Literal(Value::Text(text)) => out.push_str(&format!("'{text}'")),
            Node::Literal(value) => out.push_str(&value.to_string()),
            Node::Parameter(number) => out.push_str(&format!("?{number}")),
            Node::Column { slot, column } => out.push_str(&self.column(*slot, *column)),
            Node::And(list) => self.join(list, " AND ", out),
            Node::Or(list) => self.join(list, " OR ", out),
            Node::Not(operand) => {
                out.push_str("NOT ");
                self.write(operand, out);
            }
            Node::IsNull(operand) => {
                self.write(operand, out);
                out.push_str(" IS NULL");
            }
            Node::Compare(comparison, a, b) => self.infix(a, symbol(*comparison), b, out),
            Node::Arithmetic(operator, a, b) => self.infix(a, sign(*operator), b, out),
            Node::StartsWith(a, b) => self.infix(a, "STARTS WITH", b, out),
            Node::Like { value, pattern, .. } => self.infix(value, "LIKE", pattern, out),
            Node::InList { value, list } => {
                self.write(value, out);
                out.push_str(&format!(" IN ({})", self.list(list)));
            }
            Node::InArray { value, parameter } => {
                self.write(value, out);
                out.push_str(&format!(" IN ?{parameter}"));
            }
            Node::Cast { value, .. } => {
                out.push_str("CAST(");
                self.write(value, out);
                out.push_str(&format!(" AS {})", expression.sql_type));
            }
            Node::Call(Function::PlaceOf, _) => out.push_str(&self.place(expression)),
            Node::Call(Function::PartitionKey, values) => {
                out.push_str(&format!("({})", self.list(values)));
            }
            Node::Call(function, arguments) => {
                out.push_str(&format!("{}({})", function.name(), self.list(arguments)));
            }
            Node::UserCall(function, arguments) => {
                out.push_str(&format!("{}({})", function.name, self.list(arguments)));
            }
            Node::CompareRows(comparison, a, b) => {
                let symbol = symbol(*comparison);
                out.push_str(&format!("({}) {symbol} ({})", self.list(a), self.list(b)));
            }
            Node::Quantified { comparison, quantifier, row, subquery } => {
                let quantifier = match quantifier {
                    Quantifier::Any => " ANY",
                    Quantifier::All => " ALL",
                    Quantifier::Single => "",
                };
                let (row, symbol) = (self.list(row), symbol(*comparison));
                let number = subquery.number;
                out.push_str(&format!("({row}) {symbol}{quantifier} subquery {number}"));
            }
            Node::ScalarSubquery(subquery) => {
                out.push_str(&format!("subquery {}", subquery.number));
            }
            Node::Exists(subquery) => out.push_str(&format!("EXISTS subquery {}", subquery.number)),
            Node::Negate(_) => self.operands("-", expression, out),
            Node::Case { .. } => self.operands("CASE", expression, out),
        }
    }

    fn operands(&self, name: &str, expression: &Expression, out: &mut String) {
        out.push_str(name);
        out.push('(');
        let mut first = true;
        walk::each_child(expression, &mut |child| {
            if !std::mem::take(&mut first) {
                out.push_str(", ");
            }
            self.write(child, out);
        });
        out.push(')');
    }

    fn infix(&self, a: &Expression, symbol: &str, b: &Expression, out: &mut String) {
        out.push('(');
        self.write(a, out);
        out.push_str(&format!(" {symbol} "));
        self.write(b, out);
        out.push(')');
    }

    fn join(&self, list: &[Expression], between: &str, out: &mut String) {
        out.push('(');
        for (position, item) in list.iter().enumerate() {
            if position > 0 {
                out.push_str(between);
            }
            self.write(item, out);
        }
        out.push(')');
    }

    fn column(&self, slot: u16, column: u16) -> String {
        let definition = self.slots.get(&slot).and_then(|table| self.tables.get(table));
        match definition {
            Some(definition) => format!("{}.{}", definition.name, column_name(definition, column)),
            None => match self.computed.get(&slot).and_then(|c| c.get(usize::from(column))) {
                Some(text) if !text.is_empty() => text.clone(),
                _ => format!("#{slot}.{column}"),
            },
        }
    }
}

fn column_name(definition: &TableDefinition, column: u16) -> String {
    let found = definition.columns.get(usize::from(column));
    found.map_or_else(|| format!("column {}", column + 1), |c| c.name.clone())
}

fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Distinct => "IS DISTINCT FROM",
        Comparison::NotDistinct => "IS NOT DISTINCT FROM",
    }
}

fn sign(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::Remainder => "%",
    }
}
