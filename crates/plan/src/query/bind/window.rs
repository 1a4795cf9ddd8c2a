//! Window functions.

use super::aggregate::result_type;
use super::function::aggregate_of;
use super::{BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::relation::{FrameBound, SortKey, WindowCall, WindowFrame, WindowFunction};
use lockstep_plan_ir::{AggregateFunction, Expression};
use lockstep_sql::ast::{self, FrameUnit, FunctionCall, SortDirection, Span, Window};
use lockstep_types::SqlType;

impl Binder<'_> {
    /// A call with OVER: a column of the row of window values.
    pub(super) fn window_call(
        &mut self,
        call: &FunctionCall,
        window: &Window,
        span: Span,
    ) -> Result<Expression, PlanError> {
        // While its parts are bound, further window functions have no place.
        let windows = self.scopes.last_mut().and_then(|scope| scope.windows.take());
        let Some(mut windows) = windows else {
            let message = "window functions are allowed in the select list and ORDER BY only";
            return Err(PlanError::at(span, message));
        };
        let bound = self.window_parts(call, window, span);
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
        span: Span,
    ) -> Result<WindowCall, PlanError> {
        if call.distinct || call.filter.is_some() {
            let message = "DISTINCT and FILTER are not allowed in window functions";
            return Err(PlanError::at(span, message));
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let bound = self.expression(argument)?;
            if is_untyped(&bound) {
                return Err(PlanError::at(argument.span, CAST_NEEDED));
            }
            arguments.push(bound);
        }
        let (function, sql_type) = window_function(call, &arguments, span)?;
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
        let frame = window.frame.as_ref().map(|frame| self.frame(frame)).transpose()?;
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

    fn frame(&mut self, frame: &ast::WindowFrame) -> Result<WindowFrame, PlanError> {
        let rows = match frame.unit {
            FrameUnit::Rows => true,
            FrameUnit::Range => false,
            FrameUnit::Groups => {
                return Err(PlanError::at(frame.span, "GROUPS frames are not supported yet"));
            }
        };
        let mut bound = |bound: &ast::FrameBound| {
            Ok(match bound {
                ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
                ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
                ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
                ast::FrameBound::Preceding(n) => FrameBound::Preceding(self.frame_size(n)?),
                ast::FrameBound::Following(n) => FrameBound::Following(self.frame_size(n)?),
            })
        };
        let start = bound(&frame.start)?;
        let end = bound(&frame.end)?;
        Ok(WindowFrame { rows, start, end })
    }

    fn frame_size(&mut self, expression: &ast::Expression) -> Result<Expression, PlanError> {
        let mut bound = self.expression(expression)?;
        self.give_type(&mut bound, SqlType::BigInt);
        if !bound.sql_type.is_integer() {
            return Err(PlanError::at(expression.span, BAD_OPERATION));
        }
        Ok(bound)
    }
}

/// The key of an ORDER BY item. NULLs are the least; NULLS FIRST and LAST are accepted and, as
/// in VoltDB, without effect.
pub(super) fn sort_key(expression: Expression, item: &ast::OrderItem) -> SortKey {
    let descending = item.direction == SortDirection::Descending;
    SortKey { expression, descending, nulls_first: !descending }
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
        _ => None,
    };
    if let Some((function, wanted)) = plain {
        let numbered = *wanted.end() == 0;
        count(wanted)?;
        return Ok((function, if numbered { SqlType::BigInt } else { first }));
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
    let sql_type =
        result_type(aggregate, first).ok_or_else(|| PlanError::at(span, BAD_OPERATION))?;
    Ok((WindowFunction::Aggregate(aggregate), sql_type))
}
