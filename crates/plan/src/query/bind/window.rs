//! Window functions.

use super::aggregate::{keeps_type, only_where, result_type};
use super::function::aggregate_of;
use super::{BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use crate::query::walk;
use lockstep_plan_ir::relation::{
    FrameBound, FrameExclusion, FrameUnit, SortKey, WindowCall, WindowFrame, WindowFunction,
};
use lockstep_plan_ir::{AggregateFunction, Expression, Node};
use lockstep_sql::ast::{self, FunctionCall, NullsOrder, SortDirection, Span, Window};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// A call with OVER, for a value of the type `wanted`: a column of the row of window values.
    pub(super) fn window_call(
        &mut self,
        call: &FunctionCall,
        window: &Window,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        // While its parts are bound, further window functions have no place.
        let windows = self.scopes.last_mut().and_then(|scope| scope.windows.take());
        let Some(mut windows) = windows else {
            let message = "window functions are allowed in the select list and ORDER BY only";
            return Err(PlanError::at(span, message));
        };
        let bound = self.window_parts(call, window, wanted, span);
        let result = bound.map(|bound| {
            let sql_type = bound.sql_type;
            let known = windows.calls.iter().position(|known| *known == bound);
            let position = known.unwrap_or_else(|| {
                windows.calls.push(bound);
                windows.calls.len() - 1
            });
            Expression::column(windows.slot, position as u16, sql_type)
        });
        if windows.calls.len() > super::MAX_COLUMNS {
            return Err(PlanError::at(span, "too many window functions (max is 1024)"));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.windows = Some(windows);
        }
        result
    }

    fn window_parts(
        &mut self,
        call: &FunctionCall,
        window: &Window,
        wanted: SqlType,
        span: Span,
    ) -> Result<WindowCall, PlanError> {
        if call.distinct {
            let message = "DISTINCT is not allowed in window functions";
            return Err(PlanError::at(span, message));
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (place, argument) in call.arguments.iter().enumerate() {
            let counts = place == 1 || call.name.as_str() == "NTILE";
            let is_value = !counts && aggregate_of(&call.name.text).is_none_or(keeps_type);
            let wanted = if is_value { wanted } else { SqlType::Null };
            let mut bound = self.settled_expression(argument, wanted)?;
            if counts {
                self.give_type(&mut bound, SqlType::BigInt);
            } else if let (2, Some(first)) = (place, arguments.first()) {
                let first: &Expression = first;
                let sql_type = first.sql_type;
                self.give_type(&mut bound, sql_type);
            }
            if is_untyped(&bound) {
                return Err(PlanError::at(argument.span, CAST_NEEDED));
            }
            arguments.push(bound);
        }
        let (mut function, sql_type) = window_function(call, &arguments, span)?;
        if let Some(condition) = &call.filter {
            function = self.filtered_window(function, &mut arguments, condition)?;
        }
        if let (WindowFunction::Lag | WindowFunction::Lead, [value, _, otherwise]) =
            (function, &mut arguments[..])
        {
            let given = otherwise.clone();
            *otherwise = self.assign(given, value.sql_type, "", span)?;
        }
        let mut partition = Vec::with_capacity(window.partition_by.len());
        for expression in &window.partition_by {
            partition.push(self.expression(expression)?);
        }
        let order = self.window_order(&window.order_by)?;
        let ranks = matches!(function, WindowFunction::Rank | WindowFunction::DenseRank);
        if ranks && order.is_empty() {
            let message = format!("{} needs an ORDER BY in its OVER clause", call.name.text);
            return Err(PlanError::at(span, message));
        }
        let frame = window.frame.as_ref().map(|frame| self.frame(frame, &order)).transpose()?;
        Ok(WindowCall { function, arguments, partition, order, frame, sql_type })
    }

    fn window_order(&mut self, items: &[ast::OrderItem]) -> Result<Vec<SortKey>, PlanError> {
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let expression = self.expression(&item.expression)?;
            if is_untyped(&expression) {
                return Err(PlanError::at(item.expression.span, CAST_NEEDED));
            }
            keys.push(sort_key(expression, item));
        }
        Ok(keys)
    }

    /// FILTER of an aggregate with a window: only rows for which it is true count.
    fn filtered_window(
        &mut self,
        function: WindowFunction,
        arguments: &mut Vec<Expression>,
        condition: &ast::Expression,
    ) -> Result<WindowFunction, PlanError> {
        let WindowFunction::Aggregate(aggregate) = function else {
            let message = "FILTER is allowed for aggregates only";
            return Err(PlanError::at(condition.span, message));
        };
        let filter = self.filter_condition(condition)?;
        let (value, aggregate) = match arguments.pop() {
            Some(value) => (value, aggregate),
            None => {
                let one = Expression::literal(Value::Int(1), SqlType::Integer);
                (one, AggregateFunction::Count)
            }
        };
        arguments.push(only_where(filter, value));
        Ok(WindowFunction::Aggregate(aggregate))
    }

    fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        order: &[SortKey],
    ) -> Result<WindowFrame, PlanError> {
        check_frame(frame, order)?;
        let unit = match frame.unit {
            ast::FrameUnit::Rows => FrameUnit::Rows,
            ast::FrameUnit::Range => FrameUnit::Range,
            ast::FrameUnit::Groups => FrameUnit::Groups,
        };
        let exclusion = match frame.exclusion {
            ast::FrameExclusion::NoOthers => FrameExclusion::Nothing,
            ast::FrameExclusion::CurrentRow => FrameExclusion::CurrentRow,
            ast::FrameExclusion::Group => FrameExclusion::Group,
            ast::FrameExclusion::Ties => FrameExclusion::Ties,
        };
        // The distance of a RANGE is of the key's kind; rows and groups are counted.
        let distance = match (frame.unit, order) {
            (ast::FrameUnit::Range, [key]) => Some(key.expression.sql_type),
            _ => None,
        };
        let mut bound = |bound: &ast::FrameBound| {
            Ok(match bound {
                ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
                ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
                ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
                ast::FrameBound::Preceding(n) => {
                    FrameBound::Preceding(self.frame_size(n, distance)?)
                }
                ast::FrameBound::Following(n) => {
                    FrameBound::Following(self.frame_size(n, distance)?)
                }
            })
        };
        let start = bound(&frame.start)?;
        let end = bound(&frame.end)?;
        Ok(WindowFrame { unit, start, end, exclusion })
    }

    fn frame_size(
        &mut self,
        expression: &ast::Expression,
        distance: Option<SqlType>,
    ) -> Result<Expression, PlanError> {
        let mut bound = self.expression(expression)?;
        let constant = |e: &Expression| {
            !matches!(e.node, Node::Column { .. }) && walk::subquery_of(e).is_none()
        };
        if walk::any(&bound, &|e| !constant(e)) {
            let message = "the bounds of a window frame cannot read columns or subqueries";
            return Err(PlanError::at(expression.span, message));
        }
        let fraction = matches!(distance, Some(SqlType::Float | SqlType::Decimal));
        self.give_type(&mut bound, distance.filter(|_| fraction).unwrap_or(SqlType::BigInt));
        if !(bound.sql_type.is_integer() || fraction && bound.sql_type.is_number()) {
            return Err(PlanError::at(expression.span, BAD_OPERATION));
        }
        Ok(bound)
    }
}

/// The key of an ORDER BY item. NULLs are the least unless NULLS FIRST or LAST says otherwise
/// (which VoltDB reads and ignores).
pub(super) fn sort_key(expression: Expression, item: &ast::OrderItem) -> SortKey {
    let descending = item.direction == SortDirection::Descending;
    let nulls_first = match item.nulls {
        Some(nulls) => nulls == NullsOrder::First,
        None => !descending,
    };
    SortKey { expression, descending, nulls_first }
}

/// Refuses frames that mean nothing.
fn check_frame(frame: &ast::WindowFrame, order: &[SortKey]) -> Result<(), PlanError> {
    use ast::FrameBound as Bound;
    let refuse = |message: &str| Err(PlanError::at(frame.span, message));
    let place = |bound: &Bound| match bound {
        Bound::UnboundedPreceding => 0,
        Bound::Preceding(_) => 1,
        Bound::CurrentRow => 2,
        Bound::Following(_) => 3,
        Bound::UnboundedFollowing => 4,
    };
    let (start, end) = (place(&frame.start), place(&frame.end));
    if start == 4 || end == 0 || start > end {
        return refuse("a window frame cannot end before it starts");
    }
    let counts = [&frame.start, &frame.end]
        .iter()
        .any(|bound| matches!(bound, Bound::Preceding(_) | Bound::Following(_)));
    match frame.unit {
        ast::FrameUnit::Groups if order.is_empty() => {
            refuse("GROUPS needs an ORDER BY in its OVER clause")
        }
        ast::FrameUnit::Range if counts => match order {
            [key] if key.expression.sql_type.is_number() => Ok(()),
            [key] if key.expression.sql_type == SqlType::Timestamp => Ok(()),
            [key] => Err(PlanError::at(
                frame.span,
                format!(
                    "{BAD_OPERATION}: RANGE with a distance orders by a number or TIMESTAMP, not \
                     {}",
                    key.expression.sql_type
                ),
            )),
            _ => refuse("RANGE with a distance needs exactly one expression in ORDER BY"),
        },
        _ => Ok(()),
    }
}

fn window_function(
    call: &FunctionCall,
    arguments: &[Expression],
    span: Span,
) -> Result<(WindowFunction, SqlType), PlanError> {
    let count = |wanted: std::ops::RangeInclusive<usize>| {
        if wanted.contains(&arguments.len()) {
            return Ok(());
        }
        let message = format!("{} has a wrong number of arguments", call.name.text);
        Err(PlanError::at(span, message))
    };
    let first = arguments.first().map_or(SqlType::Null, |argument| argument.sql_type);
    let plain = match call.name.as_str() {
        "ROW_NUMBER" => Some((WindowFunction::RowNumber, 0..=0)),
        "RANK" => Some((WindowFunction::Rank, 0..=0)),
        "DENSE_RANK" => Some((WindowFunction::DenseRank, 0..=0)),
        "LAG" => Some((WindowFunction::Lag, 1..=3)),
        "LEAD" => Some((WindowFunction::Lead, 1..=3)),
        "FIRST_VALUE" => Some((WindowFunction::FirstValue, 1..=1)),
        "LAST_VALUE" => Some((WindowFunction::LastValue, 1..=1)),
        "NTH_VALUE" => Some((WindowFunction::NthValue, 2..=2)),
        "NTILE" => Some((WindowFunction::Ntile, 1..=1)),
        "PERCENT_RANK" => Some((WindowFunction::PercentRank, 0..=0)),
        "CUME_DIST" => Some((WindowFunction::CumeDist, 0..=0)),
        _ => None,
    };
    if let Some((function, wanted)) = plain {
        use WindowFunction as F;
        count(wanted)?;
        // Which row, and how many parts.
        let number = match function {
            F::Lag | F::Lead | F::NthValue => arguments.get(1),
            F::Ntile => arguments.first(),
            _ => None,
        };
        if number.is_some_and(|number| !number.sql_type.is_integer()) {
            return Err(PlanError::at(span, BAD_OPERATION));
        }
        let sql_type = match function {
            F::PercentRank | F::CumeDist => SqlType::Float,
            F::RowNumber | F::Rank | F::DenseRank | F::Ntile => SqlType::BigInt,
            _ => first,
        };
        return Ok((function, sql_type));
    }
    let aggregate = match aggregate_of(&call.name.text) {
        Some(AggregateFunction::ApproximateCountDistinct) | None => {
            let message = format!("Unsupported window function {}", call.name.text);
            return Err(PlanError::at(span, message));
        }
        Some(aggregate) => aggregate,
    };
    if call.star && aggregate == AggregateFunction::Count {
        return Ok((WindowFunction::Aggregate(AggregateFunction::CountStar), SqlType::BigInt));
    }
    count(1..=1)?;
    let sql_type = result_type(aggregate, first).ok_or_else(|| {
        PlanError::at(span, format!("{BAD_OPERATION}: {} of {first}", call.name.text))
    })?;
    Ok((WindowFunction::Aggregate(aggregate), sql_type))
}
