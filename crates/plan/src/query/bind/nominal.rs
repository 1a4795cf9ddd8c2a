//! The types that decide the type of a CASE.
//!
//! VoltDB gives the value of CASE, COALESCE, IFNULL, NVL and NULLIF the type that its SQL parser
//! works out, and that has other rules for arithmetic and SUM than the result columns have: the
//! sum of two INTEGERs is an INTEGER there, and the product of a BIGINT and an INTEGER a DECIMAL.
//! This is the *nominal* type of an expression. Programs read such columns with getters for one
//! type, so that the types are kept.

use super::Binder;
use super::cast::combined;
use crate::query::logical::Output;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_plan_ir::{AggregateFunction, Expression, Function, Node, TableDefinition};
use lockstep_types::SqlType;
use std::collections::BTreeMap;

/// Nominal types of columns by slot and position, where they differ from the columns' types.
pub(super) type NominalColumns = BTreeMap<(u16, u16), SqlType>;

impl Binder<'_> {
    /// The nominal type of an expression for a value of the type `wanted`. With one, parameters
    /// keep the type that they got from it; else an integer has that of the other operand.
    pub(super) fn nominal(&self, expression: &Expression, wanted: SqlType) -> SqlType {
        match &expression.node {
            Node::Arithmetic(operator, a, b) if *operator != Arithmetic::Remainder => {
                let (x, y) = (self.nominal(a, wanted), self.nominal(b, wanted));
                let follows = |operand: &Expression| {
                    wanted == SqlType::Null
                        && operand.sql_type.is_integer()
                        && matches!(operand.node, Node::Parameter(_))
                };
                let (x, y) = match (follows(a), follows(b)) {
                    (true, _) => (y, y),
                    (_, true) => (x, x),
                    _ => (x, y),
                };
                arithmetic_type(*operator, x, y).unwrap_or(expression.sql_type)
            }
            Node::Negate(operand) => self.nominal(operand, wanted),
            Node::Call(Function::Abs | Function::Ceiling | Function::Floor, arguments) => {
                let first = arguments.first();
                first.map_or(expression.sql_type, |argument| self.nominal(argument, wanted))
            }
            Node::Column { slot, column } => {
                let known = self.nominal_columns.get(&(*slot, *column)).copied();
                known.unwrap_or(expression.sql_type)
            }
            Node::ScalarSubquery(subquery) => {
                let query = self.subqueries.get(&subquery.number);
                let column = query.and_then(|query| query.output.first());
                column.map_or(expression.sql_type, |c| self.nominal(&c.expression, SqlType::Null))
            }
            _ => expression.sql_type,
        }
    }

    /// Notes the nominal types of result columns, which are read as the columns of `slot`.
    pub(super) fn note_nominal(&mut self, slot: u16, output: &[Output]) {
        for (position, column) in output.iter().enumerate() {
            let nominal = self.nominal(&column.expression, SqlType::Null);
            self.note_column(slot, position, column.expression.sql_type, nominal);
        }
    }

    /// The nominal type of values that are brought to one type; none without any type.
    pub(super) fn nominal_together(&self, values: &[Expression]) -> Option<SqlType> {
        let types = values.iter().map(|value| self.nominal(value, SqlType::Null));
        let together = types.reduce(|a, b| combined(a, b).unwrap_or(a));
        together.filter(|sql_type| *sql_type != SqlType::Null)
    }

    /// Notes the nominal types of GROUP BY's values.
    pub(super) fn note_groups(&mut self, slot: u16, group: &[Expression]) {
        for (position, value) in group.iter().enumerate() {
            let nominal = self.nominal(value, SqlType::Null);
            self.note_column(slot, position, value.sql_type, nominal);
        }
    }

    /// Notes the nominal type of an aggregate.
    pub(super) fn note_aggregate(&mut self, slot: u16, column: u16, call: &AggregateCall) {
        let argument = call.argument.as_ref().map(|e| self.nominal(e, SqlType::Null));
        let nominal = argument.and_then(|argument| aggregate_type(call.function, argument));
        let nominal = nominal.unwrap_or(call.sql_type);
        self.note_column(slot, usize::from(column), call.sql_type, nominal);
    }

    /// Notes the nominal types of a view's columns.
    pub(super) fn note_view(&mut self, slot: u16, table: &TableDefinition) {
        let Some(view) = &table.view else { return };
        // Slots in the view's definition are those of its own tables, not of this query: columns of
        // tables have no other nominal type than their own.
        let of_query = std::mem::take(&mut self.nominal_columns);
        let groups = view.group.iter().map(|value| Some(self.nominal(value, SqlType::Null)));
        let aggregates = view.aggregates.iter().map(|aggregate| {
            let argument = aggregate.argument.as_ref()?;
            aggregate_type(aggregate.function, self.nominal(argument, SqlType::Null))
        });
        let nominal: Vec<Option<SqlType>> = groups.chain(aggregates).collect();
        self.nominal_columns = of_query;
        let visible = table.columns.iter().take(usize::from(table.visible_columns));
        for (position, (column, nominal)) in visible.zip(nominal).enumerate() {
            let nominal = nominal.unwrap_or(column.sql_type);
            self.note_column(slot, position, column.sql_type, nominal);
        }
    }

    /// Notes the nominal type of a column.
    pub(super) fn note_column(
        &mut self,
        slot: u16,
        position: usize,
        sql_type: SqlType,
        nominal: SqlType,
    ) {
        if let Ok(column) = u16::try_from(position)
            && nominal != sql_type
        {
            self.nominal_columns.insert((slot, column), nominal);
        }
    }
}

/// The nominal type of arithmetic: `*` adds the widths of integers, all else has the wider type.
fn arithmetic_type(operator: Arithmetic, a: SqlType, b: SqlType) -> Option<SqlType> {
    let wider = combined(a, b).filter(|wider| wider.is_number())?;
    let (Some(x), Some(y)) = (width_bits(a), width_bits(b)) else { return Some(wider) };
    if operator != Arithmetic::Multiply {
        return Some(wider);
    }
    Some(match x + y {
        ..=32 => SqlType::Integer,
        33..=64 => SqlType::BigInt,
        _ => SqlType::Decimal,
    })
}

/// The nominal type of an aggregate over an argument of a nominal type, where it follows from that.
fn aggregate_type(function: AggregateFunction, argument: SqlType) -> Option<SqlType> {
    use AggregateFunction::{Average, Max, Min, Sum};
    match (function, argument) {
        (Sum, SqlType::BigInt) => Some(SqlType::Decimal),
        (Sum, argument) if argument.is_integer() => Some(SqlType::BigInt),
        (Sum | Average | Min | Max, argument) => Some(argument),
        _ => None,
    }
}

/// The width of an integer type.
fn width_bits(sql_type: SqlType) -> Option<u32> {
    Some(match sql_type {
        SqlType::TinyInt => 8,
        SqlType::SmallInt => 16,
        SqlType::Integer => 32,
        SqlType::BigInt => 64,
        _ => return None,
    })
}
