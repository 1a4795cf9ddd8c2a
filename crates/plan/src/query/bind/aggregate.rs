//! Aggregates, and expressions over the rows of groups.

use super::{BAD_OPERATION, Binder, CAST_NEEDED, cast, is_untyped};
use crate::catalog::FunctionKind;
use crate::error::PlanError;
use crate::query::logical::{From, Leaf, LeafKind};
use crate::query::walk;
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_plan_ir::schema::{IndexDefinition, IndexKey};
use lockstep_plan_ir::{AggregateFunction, Expression, Node, TableDefinition, UserAggregate};
use lockstep_sql::ast::{self, FunctionCall, Span};
use lockstep_types::{SqlType, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which aggregate is called.
#[derive(Debug, Clone)]
pub(super) enum Aggregate {
    /// One of the server's own.
    BuiltIn(AggregateFunction),
    /// One of users.
    User(Arc<UserAggregate>),
}

/// The groups of a SELECT, for what is computed over them.
pub(super) struct Groups<'a> {
    /// GROUP BY and the aggregates.
    aggregate: &'a mut crate::query::logical::Aggregate,
    /// The slots of the SELECT's sources.
    sources: BTreeSet<u16>,
    /// Those among them of which a unique key is grouped: a group has the values of one row.
    determined: BTreeSet<u16>,
}

impl<'a> Groups<'a> {
    /// The groups of the rows of `from`.
    pub(super) fn new(
        aggregate: &'a mut crate::query::logical::Aggregate,
        from: &From,
    ) -> Groups<'a> {
        let mut determined = BTreeSet::new();
        add_determined(from, &aggregate.group, false, &mut determined);
        Groups { aggregate, sources: from.slots().into_iter().collect(), determined }
    }
}

/// Whether the grouped columns hold all columns of a unique index over all rows, so that a group
/// has the values of one row. Such an index takes each key with NULLs once, too.
fn names_one_row(
    table: &TableDefinition,
    index: &IndexDefinition,
    null_extended: bool,
    grouped: &dyn Fn(u16) -> bool,
) -> bool {
    index.unique
        && index.predicate.is_none()
        && !index.building
        && index.keys.iter().all(|key| match key {
            IndexKey::Column(column) => {
                let nullable = table.columns[usize::from(*column)].nullable;
                !(nullable && null_extended) && grouped(*column)
            }
            IndexKey::Expression(_) => false,
        })
}

/// Adds the sources of which a whole primary key or unique key is grouped. Outer joins add rows of
/// NULLs, which a key that may be NULL does not tell from its own row.
fn add_determined(
    from: &From,
    group: &[Expression],
    null_extended: bool,
    determined: &mut BTreeSet<u16>,
) {
    match from {
        From::Leaf(Leaf { slot, kind: LeafKind::Table(table) }) => {
            let definition = &table.definition;
            let grouped = |column: u16| {
                let wanted = Node::Column { slot: *slot, column };
                group.iter().any(|value| value.node == wanted)
            };
            let mut indexes = definition.indexes.iter();
            let known =
                indexes.any(|index| names_one_row(definition, index, null_extended, &grouped));
            if definition.view.is_none() && known {
                determined.insert(*slot);
            }
        }
        From::Leaf(_) => {}
        From::Inner { items, .. } => {
            items.iter().for_each(|item| add_determined(item, group, null_extended, determined));
        }
        From::Outer { full, left, right, .. } => {
            add_determined(left, group, null_extended || *full, determined);
            add_determined(right, group, true, determined);
        }
    }
}

/// The position in the group's row of a column that has one value in each group.
fn determined_column(
    aggregate: &mut crate::query::logical::Aggregate,
    column: &Expression,
) -> Option<u16> {
    let call = AggregateCall {
        function: AggregateFunction::Min,
        distinct: false,
        argument: Some(column.clone()),
        sql_type: column.sql_type,
        user: None,
    };
    let calls = &mut aggregate.calls;
    let position = calls.iter().position(|known| *known == call).unwrap_or_else(|| {
        calls.push(call);
        calls.len() - 1
    });
    u16::try_from(aggregate.group.len() + position).ok()
}

impl Binder<'_> {
    /// The aggregate of a name in upper case.
    pub(super) fn aggregate_named(&self, name: &str) -> Option<Aggregate> {
        match super::function::aggregate_of(name) {
            Some(function) => Some(Aggregate::BuiltIn(function)),
            None => self.user_aggregate(name).cloned().map(Aggregate::User),
        }
    }

    fn user_aggregate(&self, name: &str) -> Option<&Arc<UserAggregate>> {
        match &self.catalog.functions.get(name)?.kind {
            FunctionKind::Aggregate(found) => Some(found),
            FunctionKind::Scalar(_) => None,
        }
    }

    /// A call of an aggregate, for a value of the type `wanted`: a column of the group's row.
    pub(super) fn aggregate_call(
        &mut self,
        function: &Aggregate,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let aggregates = self.scopes.last_mut().and_then(|scope| scope.aggregates.as_mut());
        match aggregates {
            None => {
                return Err(PlanError::at(
                    span,
                    "invalid WHERE expression: aggregates are \
                allowed in the select list, HAVING and ORDER BY only",
                ));
            }
            Some(aggregates) if aggregates.inside => {
                return Err(PlanError::at(span, "aggregates cannot be nested"));
            }
            Some(aggregates) => aggregates.inside = true,
        }
        let bound = self.aggregate_parts(function, call, wanted, span);
        let aggregates = self.scopes.last_mut().and_then(|scope| scope.aggregates.as_mut());
        let aggregates = aggregates.expect("the scope collected aggregates above");
        aggregates.inside = false;
        let bound = bound?;
        let sql_type = bound.sql_type;
        let position = match aggregates.calls.iter().position(|known| *known == bound) {
            Some(position) => position,
            None => {
                aggregates.calls.push(bound.clone());
                aggregates.calls.len() - 1
            }
        };
        let slot = aggregates.slot;
        let column = u16::try_from(aggregates.groups + position)
            .map_err(|_| PlanError::at(span, "too many aggregates (max is 65535)"))?;
        self.note_aggregate(slot, column, &bound);
        Ok(Expression::column(slot, column, sql_type))
    }

    /// Function, argument and result type of an aggregate call. Parameters in the argument hold
    /// what a value of the type `wanted` does where that value is made of arguments.
    pub(super) fn aggregate_parts(
        &mut self,
        function: &Aggregate,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<AggregateCall, PlanError> {
        let function = match function {
            Aggregate::BuiltIn(function) => *function,
            Aggregate::User(user) => return self.user_aggregate_parts(user, call, span),
        };
        let filter = match &call.filter {
            Some(condition) => Some(self.filter_condition(condition)?),
            None => None,
        };
        if call.star {
            // COUNT(DISTINCT *) counts rows as COUNT(*) does: no row is another one.
            if function != AggregateFunction::Count {
                return Err(PlanError::at(span, "unexpected token: *"));
            }
            let sql_type = SqlType::BigInt;
            // COUNT(*) of some rows counts a value that the others do not have.
            let one = Expression::literal(Value::Int(1), SqlType::Integer);
            let argument = filter.map(|filter| only_where(filter, one));
            let function = match argument {
                Some(_) => AggregateFunction::Count,
                None => AggregateFunction::CountStar,
            };
            return Ok(AggregateCall { function, distinct: false, argument, sql_type, user: None });
        }
        let [argument] = &call.arguments[..] else {
            let message = format!("{} takes one argument", call.name.text);
            return Err(PlanError::at(span, message));
        };
        let wanted = if keeps_type(function) { wanted } else { SqlType::Null };
        let bound = self.settled_expression(argument, wanted)?;
        if is_untyped(&bound) {
            return Err(PlanError::at(argument.span, CAST_NEEDED));
        }
        refuse_subqueries(&bound, argument.span)?;
        let sql_type = result_type(function, bound.sql_type).ok_or_else(|| {
            let message = format!("{BAD_OPERATION}: {} of {}", call.name.text, bound.sql_type);
            PlanError::at(argument.span, message)
        })?;
        // The least and the greatest are the same with or without duplicates.
        let extreme = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
        let distinct = call.distinct && !extreme;
        let argument = match filter {
            Some(filter) => only_where(filter, bound),
            None => bound,
        };
        let argument = Some(argument);
        Ok(AggregateCall { function, distinct, argument, sql_type, user: None })
    }

    fn user_aggregate_parts(
        &mut self,
        user: &Arc<UserAggregate>,
        call: &FunctionCall,
        span: Span,
    ) -> Result<AggregateCall, PlanError> {
        self.check_user_functions(call)?;
        // A row that a condition leaves out cannot be told from a NULL, which the function gets.
        if call.filter.is_some() {
            let message = format!("FILTER is not supported with the function {}", call.name.text);
            return Err(PlanError::at(span, message));
        }
        let [argument] = &call.arguments[..] else {
            let message = format!("{} takes one argument", call.name.text);
            return Err(PlanError::at(span, message));
        };
        let bound = self.expression(argument)?;
        // Unlike a scalar function, it takes numbers of all types for a number.
        let numbers = bound.sql_type.is_number() && user.parameter.is_number();
        let bound = match numbers && bound.sql_type != user.parameter {
            true => cast::converted(bound, user.parameter),
            false => self.user_argument(bound, user.parameter, argument.span)?,
        };
        refuse_subqueries(&bound, argument.span)?;
        Ok(AggregateCall {
            function: AggregateFunction::User,
            distinct: call.distinct,
            argument: Some(bound),
            sql_type: user.sql_type,
            user: Some(Arc::clone(user)),
        })
    }

    /// The condition of FILTER (WHERE ...).
    pub(super) fn filter_condition(
        &mut self,
        condition: &ast::Expression,
    ) -> Result<Expression, PlanError> {
        let bound = self.condition(condition, super::expression::NOT_BOOLEAN)?;
        if walk::any(&bound, &|e| walk::subquery_of(e).is_some()) {
            let message = "FILTER conditions with subquery expressions are not allowed";
            return Err(PlanError::at(condition.span, message));
        }
        Ok(bound)
    }

    /// Replaces group expressions by columns of the group's row, and columns that a grouped
    /// primary key determines by an aggregate. What then still reads a table of this SELECT is
    /// neither grouped nor aggregated, and refused.
    pub(super) fn over_groups(
        &mut self,
        expression: &mut Expression,
        groups: &mut Groups<'_>,
    ) -> Result<(), PlanError> {
        let aggregate = &mut *groups.aggregate;
        let mut too_many = false;
        walk::change(expression, &mut self.subqueries, &mut |node| {
            // A literal may equal a grouped literal, but needs no replacing.
            if matches!(node.node, Node::Literal(_)) {
                return true;
            }
            let slot = aggregate.slot;
            if let Some(position) = aggregate.group.iter().position(|grouped| grouped == node) {
                node.node = Node::Column { slot, column: position as u16 };
                return true;
            }
            match node.node {
                Node::Column { slot: source, .. } if groups.determined.contains(&source) => {
                    match determined_column(aggregate, node) {
                        Some(column) => node.node = Node::Column { slot, column },
                        None => too_many = true,
                    }
                    true
                }
                _ => false,
            }
        });
        if too_many {
            return Err(PlanError::new("too many aggregates (max is 65535)"));
        }
        let mut ungrouped = None;
        walk::walk(expression, &self.subqueries, &mut |node| {
            if let Node::Column { slot, column } = node.node
                && groups.sources.contains(&slot)
            {
                ungrouped.get_or_insert((slot, column));
            }
        });
        match ungrouped {
            None => Ok(()),
            Some((slot, column)) => {
                let name = self.column_name(slot, column);
                Err(PlanError::new(format!(
                    "expression not in aggregate or GROUP BY columns: {name}"
                )))
            }
        }
    }

    /// The qualified name of a column in scope, for messages.
    fn column_name(&self, slot: u16, column: u16) -> String {
        let sources = self.scopes.iter().flat_map(|scope| &scope.sources);
        for source in sources {
            if source.slot == slot
                && let Some(found) = source.columns.get(usize::from(column))
            {
                return format!("{}.{}", source.alias, found.name);
            }
        }
        format!("column {}", column + 1)
    }
}

fn refuse_subqueries(argument: &Expression, span: Span) -> Result<(), PlanError> {
    match walk::any(argument, &|e| walk::subquery_of(e).is_some()) {
        false => Ok(()),
        true => Err(PlanError::at(
            span,
            "SQL Aggregate function calls with subquery expression arguments are not allowed.",
        )),
    }
}

/// The value where the condition is true, else NULL, which no aggregate but COUNT(*) counts.
pub(super) fn only_where(condition: Expression, value: Expression) -> Expression {
    let sql_type = value.sql_type;
    let node = Node::Case { branches: vec![(condition, value)], otherwise: None };
    Expression { node, sql_type }
}

/// Whether the aggregate's value is one of its arguments, or their sum or mean.
pub(super) fn keeps_type(function: AggregateFunction) -> bool {
    use AggregateFunction::{Average, Max, Min, Sum};
    matches!(function, Min | Max | Sum | Average)
}

/// The type of an aggregate over arguments of a type; none if it does not take them.
pub(super) fn result_type(function: AggregateFunction, argument: SqlType) -> Option<SqlType> {
    let number = argument.is_number();
    match function {
        AggregateFunction::Count if argument != SqlType::Boolean => Some(SqlType::BigInt),
        AggregateFunction::Min | AggregateFunction::Max if argument != SqlType::Boolean => {
            Some(argument)
        }
        AggregateFunction::Sum if argument.is_integer() => Some(SqlType::BigInt),
        AggregateFunction::Sum | AggregateFunction::Average if number => Some(argument),
        AggregateFunction::VariancePopulation
        | AggregateFunction::VarianceSample
        | AggregateFunction::DeviationPopulation
        | AggregateFunction::DeviationSample
            if number =>
        {
            Some(SqlType::Float)
        }
        AggregateFunction::ApproximateCountDistinct => {
            let fixed =
                argument.is_integer() || matches!(argument, SqlType::Decimal | SqlType::Timestamp);
            fixed.then_some(SqlType::BigInt)
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// True when an aggregate call stands in an expression (those of subqueries do not count).
    pub(super) fn has_aggregate(&self, expression: &ast::Expression) -> bool {
        any_call(expression, &mut |call| {
            call.over.is_none()
                && (super::function::aggregate_of(&call.name.text).is_some()
                    || self.user_aggregate(&call.name.text).is_some())
        })
    }
}

/// Whether a test holds for a function call in an expression (those of subqueries do not count).
pub(crate) fn any_call(
    expression: &ast::Expression,
    test: &mut dyn FnMut(&FunctionCall) -> bool,
) -> bool {
    any_expression(expression, &mut |e| match &e.kind {
        ast::ExpressionKind::Function(call) => test(call),
        _ => false,
    })
}

/// Whether a test holds for an expression or a part of it (those of subqueries do not count).
pub(super) fn any_expression(
    expression: &ast::Expression,
    test: &mut dyn FnMut(&ast::Expression) -> bool,
) -> bool {
    use ast::ExpressionKind as Kind;
    let mut each: Vec<&ast::Expression> = vec![expression];
    while let Some(next) = each.pop() {
        if test(next) {
            return true;
        }
        match &next.kind {
            Kind::Function(call) => {
                each.extend(&call.arguments);
                if let Some(window) = &call.over {
                    each.extend(&window.partition_by);
                    each.extend(window.order_by.iter().map(|item| &item.expression));
                }
            }
            Kind::Unary { operand, .. }
            | Kind::Not(operand)
            | Kind::InSubquery { operand, .. }
            | Kind::InParameter { operand, .. }
            | Kind::IsNull { operand, .. }
            | Kind::IsTruth { operand, .. }
            | Kind::Quantified { operand, .. }
            | Kind::Cast { operand, .. } => each.push(operand),
            Kind::Binary { left, right, .. } | Kind::IsDistinctFrom { left, right, .. } => {
                each.extend([&**left, &**right]);
            }
            Kind::And(list) | Kind::Or(list) | Kind::Row(list) => each.extend(list),
            Kind::Between { operand, low, high, .. } => {
                each.extend([&**operand, &**low, &**high]);
            }
            Kind::InList { operand, list, .. } => {
                each.push(operand);
                each.extend(list);
            }
            Kind::Like { operand, pattern, .. } => each.extend([&**operand, &**pattern]),
            Kind::StartsWith { operand, prefix, .. } => each.extend([&**operand, &**prefix]),
            Kind::Case { operand, branches, otherwise } => {
                each.extend(operand.as_deref());
                each.extend(branches.iter().flat_map(|b| [&b.condition, &b.result]));
                each.extend(otherwise.as_deref());
            }
            _ => {}
        }
    }
    false
}
