//! Function calls: plain ones by their signature, and those with a syntax of their own.

use super::cast::is_untyped_parameter;
use super::literal::constant;
use super::number::settle;
use super::operator::widened;
use super::scope::not_found;
use super::signature::{self, Argument, Gives, Signature};
use super::{BAD_CONVERSION, BAD_OPERATION, Binder, CAST_NEEDED, cast, is_untyped};
use crate::catalog::FunctionKind;
use crate::error::PlanError;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::{AggregateFunction, Expression, Function, Node, UserFunction};
use lockstep_sql::ast::{FunctionCall, FunctionKeyword, Span, TimeUnit};
use lockstep_types::{SqlType, Value};
use std::sync::Arc;

impl Binder<'_> {
    /// A function, aggregate or window function call.
    pub(super) fn call(
        &mut self,
        call: &FunctionCall,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        if let Some(window) = &call.over {
            return self.window_call(call, window, wanted, span);
        }
        if let Some(function) = self.aggregate_named(&call.name.text) {
            return self.aggregate_call(&function, call, wanted, span);
        }
        if call.distinct || call.star || call.filter.is_some() {
            return Err(PlanError::at(span, format!("unexpected token in {}", call.name.text)));
        }
        match call.name.as_str() {
            "NOW" | "CURRENT_TIMESTAMP" => {
                self.check_count(call, 0, 0)?;
                Ok(called(Function::Now, Vec::new(), SqlType::Timestamp))
            }
            "EXTRACT" => self.extract(call, span),
            "DATEADD" | "DATEDIFF" | "TRUNCATE" | "SINCE_EPOCH" | "TO_TIMESTAMP"
            | "TIME_WINDOW" => self.with_unit(call, span),
            "TRIM" => self.trim(call),
            "CONCAT" => self.concat(call, span),
            "CONCAT_WS" => self.concat_with_separator(call),
            "GREATEST" | "LEAST" => self.extreme(call, wanted, span),
            "STRPOS" => self.string_position(call),
            "OCTET_LENGTH" => self.octet_length(call),
            "MOD" => self.remainder(call, span),
            "COALESCE" | "IFNULL" | "NVL" => self.coalesce(call, wanted, span),
            "NULLIF" => self.null_if(call, wanted, span),
            "DECODE" => self.decode(call, wanted, span),
            name => match signature::find(name) {
                Some(found) if call.unit.is_none() && call.keyword.is_none() => {
                    self.plain(found, call, wanted)
                }
                _ => match self.catalog.functions.get(name).map(|found| &found.kind) {
                    Some(FunctionKind::Scalar(function)) => self.user_call(function, call),
                    _ => Err(unknown_function(call)),
                },
            },
        }
    }

    /// A call of a scalar function of users.
    fn user_call(
        &mut self,
        function: &Arc<UserFunction>,
        call: &FunctionCall,
    ) -> Result<Expression, PlanError> {
        self.check_user_functions(call)?;
        let count = function.parameters.len();
        self.check_count(call, count, count)?;
        let mut arguments = Vec::with_capacity(count);
        for (argument, sql_type) in call.arguments.iter().zip(&function.parameters) {
            let bound = self.open_expression(argument)?;
            arguments.push(self.user_argument(bound, *sql_type, argument.span)?);
        }
        let node = Node::UserCall(Arc::clone(function), arguments);
        Ok(Expression { node, sql_type: function.sql_type })
    }

    /// Refuses a function of users where the definition of something else would depend on it.
    pub(super) fn check_user_functions(&self, call: &FunctionCall) -> Result<(), PlanError> {
        if self.rules.user_functions {
            return Ok(());
        }
        let message = format!(
            "User-defined functions are not supported in the definition of a materialized view or \
             an index: {}",
            call.name.text
        );
        Err(PlanError::at(call.name.span, message))
    }

    /// An argument in the type that a function of users declares: numbers become wider ones, and
    /// integers also narrower ones, which fails for a value that does not fit.
    pub(super) fn user_argument(
        &mut self,
        mut value: Expression,
        target: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        settle(&mut value, target, span)?;
        self.give_type(&mut value, target);
        let from = value.sql_type;
        if from == target {
            return Ok(value);
        }
        let text = matches!(constant(&value), Some(Value::Text(_)));
        let bytes = matches!(constant(&value), Some(Value::Bytes(_)));
        let fits = match target {
            SqlType::Float => from.is_number(),
            SqlType::Decimal => from.is_integer() || constant(&value).is_some() && from.is_number(),
            SqlType::Timestamp => text,
            _ => target.is_integer() && (from.is_integer() || bytes),
        };
        match (fits, constant(&value).is_some()) {
            (false, _) => Err(super::bad_type(span, BAD_OPERATION, from, &target.to_string())),
            (true, true) => self.assign(value, target, "", span),
            (true, false) => Ok(cast::converted(value, target)),
        }
    }

    pub(super) fn check_count(
        &self,
        call: &FunctionCall,
        least: usize,
        greatest: usize,
    ) -> Result<(), PlanError> {
        if (least..=greatest).contains(&call.arguments.len()) {
            return Ok(());
        }
        let (name, count) = (&call.name.text, call.arguments.len());
        let taken = match least == greatest {
            true => least.to_string(),
            false => format!("{least} to {greatest}"),
        };
        let message = format!("object not found: {name} with {count} arguments (it takes {taken})");
        Err(PlanError::at(call.name.span, message))
    }

    fn plain(
        &mut self,
        found: &Signature,
        call: &FunctionCall,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        let least = found.required.len();
        self.check_count(call, least, least + found.optional.len())?;
        let kinds = found.required.iter().chain(found.optional);
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (position, (argument, kind)) in call.arguments.iter().zip(kinds).enumerate() {
            let wanted = match position == 0 && found.gives == Gives::First {
                true => wanted_argument(found.function, wanted),
                false => SqlType::Null,
            };
            let mut bound = self.wanted_expression(argument, wanted)?;
            if is_untyped_parameter(&bound) && wanted.is_number() {
                self.give_type(&mut bound, wanted);
            }
            // A bare NULL takes the type that the function asks for, where it asks for one.
            let typed = position == 0 && needs_typed_argument(found.function);
            if typed && is_untyped(&bound) && constant(&bound).is_some() {
                return Err(PlanError::at(argument.span, CAST_NEEDED));
            }
            arguments.push(self.argument(bound, *kind, argument.span)?);
        }
        let polygons = arguments.iter().filter(|a| a.sql_type == SqlType::Geography).count();
        if polygons == 2 {
            let message = format!("{BAD_OPERATION}: {} between two polygons", call.name.text);
            return Err(PlanError::at(call.name.span, message));
        }
        let sql_type = match found.gives {
            Gives::Type(sql_type) => sql_type,
            Gives::First => arguments[0].sql_type,
        };
        Ok(called(found.function, arguments, sql_type))
    }

    /// Brings an argument to the kind that the function takes.
    fn argument(
        &mut self,
        mut value: Expression,
        kind: Argument,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let (target, fits): (SqlType, fn(SqlType) -> bool) = match kind {
            Argument::Text => (SqlType::Varchar, |t| t == SqlType::Varchar),
            Argument::Integer => (SqlType::BigInt, SqlType::is_integer),
            Argument::Number | Argument::Float => (SqlType::Float, SqlType::is_number),
            Argument::Decimal => (SqlType::Decimal, SqlType::is_number),
            Argument::Time => (SqlType::Timestamp, |t| t == SqlType::Timestamp),
            Argument::Bytes => (SqlType::Varbinary, |t| t == SqlType::Varbinary),
            Argument::TextOrInteger => {
                (SqlType::Varchar, |t| t == SqlType::Varchar || t.is_integer())
            }
            Argument::Point => (SqlType::GeographyPoint, |t| t == SqlType::GeographyPoint),
            Argument::Polygon => (SqlType::Geography, |t| t == SqlType::Geography),
            Argument::Shape if is_untyped(&value) => {
                return Err(PlanError::at(span, CAST_NEEDED));
            }
            Argument::Shape => (SqlType::Geography, SqlType::is_geographic),
        };
        let exact = if kind == Argument::Number { SqlType::Decimal } else { target };
        settle(&mut value, exact, span)?;
        self.give_type(&mut value, target);
        let hex = value.sql_type == SqlType::Varbinary && kind == Argument::Integer;
        if hex && let Some(Value::Bytes(bytes)) = constant(&value) {
            let number = super::literal::hex_integer(bytes, span)?;
            return Ok(Expression::literal(number, SqlType::BigInt));
        }
        if kind == Argument::Time && matches!(constant(&value), Some(Value::Text(_))) {
            return self.assign(value, SqlType::Timestamp, "", span);
        }
        if !fits(value.sql_type) {
            let message = if kind == Argument::Integer { BAD_CONVERSION } else { BAD_OPERATION };
            return Err(super::bad_type(span, message, value.sql_type, kind.as_str()));
        }
        let exact = matches!(kind, Argument::Float | Argument::Decimal);
        if exact && value.sql_type != target {
            return match constant(&value) {
                Some(_) => self.assign(value, target, "", span),
                None => Ok(cast::converted(value, target)),
            };
        }
        Ok(value)
    }

    fn extract(&mut self, call: &FunctionCall, span: Span) -> Result<Expression, PlanError> {
        self.check_count(call, 1, 1)?;
        let unit = call.unit.ok_or_else(|| PlanError::at(span, "EXTRACT needs a field"))?;
        let function = match unit.unit {
            TimeUnit::Year => Function::Year,
            TimeUnit::Quarter => Function::Quarter,
            TimeUnit::Month => Function::Month,
            TimeUnit::Week | TimeUnit::WeekOfYear => Function::WeekOfYear,
            TimeUnit::Day | TimeUnit::DayOfMonth => Function::DayOfMonth,
            TimeUnit::DayOfWeek => Function::DayOfWeek,
            TimeUnit::DayOfYear => Function::DayOfYear,
            TimeUnit::Weekday => Function::Weekday,
            TimeUnit::Hour => Function::Hour,
            TimeUnit::Minute => Function::Minute,
            TimeUnit::Second => Function::Second,
            TimeUnit::Millisecond | TimeUnit::Microsecond => {
                return Err(PlanError::at(unit.span, "unexpected token: no field of EXTRACT"));
            }
        };
        let mut value = self.expression(&call.arguments[0])?;
        if is_untyped(&value) && constant(&value).is_some() {
            return Err(PlanError::at(call.arguments[0].span, CAST_NEEDED));
        }
        self.give_type(&mut value, SqlType::Timestamp);
        if value.sql_type != SqlType::Timestamp {
            return Err(PlanError::at(call.arguments[0].span, BAD_OPERATION));
        }
        let seconds = function == Function::Second;
        let sql_type = if seconds { SqlType::Decimal } else { SqlType::Integer };
        Ok(called(function, vec![value], sql_type))
    }

    /// Functions whose first argument is a calendar unit.
    fn with_unit(&mut self, call: &FunctionCall, span: Span) -> Result<Expression, PlanError> {
        let unit = call.unit.ok_or_else(|| unknown_function(call))?;
        let name = call.name.as_str();
        use Argument::{Integer, Time};
        let (function, kinds, sql_type): (Function, &[Argument], SqlType) = match name {
            "DATEADD" => (Function::DateAdd, &[Integer, Time], SqlType::Timestamp),
            "DATEDIFF" => (Function::DateDiff, &[Time, Time], SqlType::BigInt),
            "TRUNCATE" => (Function::TruncateTimestamp, &[Time], SqlType::Timestamp),
            "SINCE_EPOCH" => (Function::SinceEpoch, &[Time], SqlType::BigInt),
            "TO_TIMESTAMP" => (Function::ToTimestamp, &[Integer], SqlType::Timestamp),
            _ => (Function::TimeWindow, &[Integer, Time], SqlType::Timestamp),
        };
        if !unit_fits(name, unit.unit) {
            return Err(unknown_function(call));
        }
        self.check_count(call, kinds.len(), kinds.len())?;
        let unit = Value::Text(unit.unit.as_str().into());
        let mut arguments = vec![Expression::literal(unit, SqlType::Varchar)];
        for (argument, kind) in call.arguments.iter().zip(kinds) {
            let bound = self.expression(argument)?;
            arguments.push(self.argument(bound, *kind, argument.span)?);
        }
        if name == "TIME_WINDOW" {
            let end = call.keyword == Some(FunctionKeyword::End);
            let edge = Value::Text(if end { "END" } else { "START" }.into());
            arguments.push(Expression::literal(edge, SqlType::Varchar));
        } else if call.keyword.is_some() {
            return Err(PlanError::at(span, "unexpected token: START or END"));
        }
        Ok(called(function, arguments, sql_type))
    }

    fn trim(&mut self, call: &FunctionCall) -> Result<Expression, PlanError> {
        self.check_count(call, 1, 2)?;
        let function = match call.keyword {
            Some(FunctionKeyword::Leading) => Function::TrimLeading,
            Some(FunctionKeyword::Trailing) => Function::TrimTrailing,
            _ => Function::TrimBoth,
        };
        let mut arguments = Vec::with_capacity(2);
        for argument in &call.arguments {
            let bound = self.expression(argument)?;
            if arguments.is_empty() && is_untyped(&bound) && constant(&bound).is_some() {
                return Err(PlanError::at(argument.span, CAST_NEEDED));
            }
            arguments.push(self.argument(bound, Argument::Text, argument.span)?);
        }
        Ok(called(function, arguments, SqlType::Varchar))
    }

    fn concat(&mut self, call: &FunctionCall, span: Span) -> Result<Expression, PlanError> {
        if call.arguments.len() < 2 {
            return Err(unknown_function(call));
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let mut bound = self.expression(argument)?;
            self.give_type(&mut bound, SqlType::Varchar);
            if bound.sql_type != SqlType::Varchar {
                let message = format!("Type {} can't be cast as VARCHAR", bound.sql_type);
                return Err(PlanError::at(span, message));
            }
            arguments.push(bound);
        }
        Ok(called(Function::Concat, arguments, SqlType::Varchar))
    }

    fn concat_with_separator(&mut self, call: &FunctionCall) -> Result<Expression, PlanError> {
        self.check_count(call, 2, 1024)?;
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let bound = self.expression(argument)?;
            let bound = self.argument(bound, Argument::Text, argument.span);
            arguments.push(bound?);
        }
        Ok(called(Function::ConcatWithSeparator, arguments, SqlType::Varchar))
    }

    /// STRPOS(text, part): POSITION with its arguments exchanged.
    fn string_position(&mut self, call: &FunctionCall) -> Result<Expression, PlanError> {
        self.check_count(call, 2, 2)?;
        let mut arguments = Vec::with_capacity(2);
        for argument in call.arguments.iter().rev() {
            let bound = self.expression(argument)?;
            arguments.push(self.argument(bound, Argument::Text, argument.span)?);
        }
        Ok(called(Function::Position, arguments, SqlType::BigInt))
    }

    fn octet_length(&mut self, call: &FunctionCall) -> Result<Expression, PlanError> {
        self.check_count(call, 1, 1)?;
        let mut value = self.expression(&call.arguments[0])?;
        self.give_type(&mut value, SqlType::Varchar);
        if !matches!(value.sql_type, SqlType::Varchar | SqlType::Varbinary) {
            return Err(PlanError::at(call.arguments[0].span, BAD_OPERATION));
        }
        Ok(called(Function::OctetLength, vec![value], SqlType::BigInt))
    }

    fn remainder(&mut self, call: &FunctionCall, span: Span) -> Result<Expression, PlanError> {
        self.check_count(call, 2, 2)?;
        let mut a = self.expression(&call.arguments[0])?;
        let mut b = self.expression(&call.arguments[1])?;
        if is_untyped(&a) && is_untyped(&b) {
            if [&a, &b].iter().any(|value| constant(value).is_some()) {
                return Err(PlanError::at(span, CAST_NEEDED));
            }
            self.give_type(&mut b, SqlType::BigInt);
        }
        // Each takes the type of the other, integers the widest one.
        let type_b = widened(b.sql_type);
        self.give_type(&mut a, type_b);
        let type_a = widened(a.sql_type);
        self.give_type(&mut b, type_a);
        let integers = a.sql_type.is_integer() && b.sql_type.is_integer();
        let literals =
            [&a, &b].iter().any(|value| constant(value).is_some_and(|v| *v != Value::Null));
        let decimal = SqlType::Decimal;
        let decimals = a.sql_type == decimal && b.sql_type == decimal && !literals;
        if !integers && !decimals {
            return Err(PlanError::at(span, BAD_OPERATION));
        }
        let sql_type = b.sql_type;
        let node = Node::Arithmetic(Arithmetic::Remainder, Box::new(a), Box::new(b));
        Ok(Expression { node, sql_type })
    }
}

/// What the argument of a function that gives its type becomes, where its result is assigned to
/// a column of the type `wanted`. The part of a number before its point, and its sign, may be for
/// an integer column while the number is none.
fn wanted_argument(function: Function, wanted: SqlType) -> SqlType {
    match wanted.is_integer() {
        true if function == Function::Abs => SqlType::BigInt,
        true => SqlType::Null,
        false => wanted,
    }
}

/// Whether a bare NULL as the first argument is refused: nothing says its type, since the
/// function has more than one kind of argument or result in VoltDB's parser.
fn needs_typed_argument(function: Function) -> bool {
    use Function::*;
    matches!(
        function,
        Lower
            | Upper
            | TrimLeading
            | TrimTrailing
            | Substring
            | SqlError
            | Ascii
            | Reverse
            | InitialCapitals
            | Year
            | Quarter
            | Month
            | DayOfMonth
            | DayOfWeek
            | DayOfYear
            | WeekOfYear
            | Weekday
            | Hour
            | Minute
            | Second
    )
}

fn called(function: Function, arguments: Vec<Expression>, sql_type: SqlType) -> Expression {
    Expression { node: Node::Call(function, arguments), sql_type }
}

/// Functions without a signature: aggregates, window functions, those with a syntax of their own.
const NAMES: &[&str] = &[
    "APPROX_COUNT_DISTINCT",
    "AVG",
    "CAST",
    "COALESCE",
    "CONCAT",
    "CONCAT_WS",
    "COUNT",
    "CUME_DIST",
    "CURRENT_TIMESTAMP",
    "DATEADD",
    "DATEDIFF",
    "DECODE",
    "DENSE_RANK",
    "EXTRACT",
    "FIRST_VALUE",
    "GREATEST",
    "IFNULL",
    "LAG",
    "LAST_VALUE",
    "LEAD",
    "LEAST",
    "MAX",
    "MIN",
    "MOD",
    "NOW",
    "NTH_VALUE",
    "NTILE",
    "NULLIF",
    "NVL",
    "OCTET_LENGTH",
    "PERCENT_RANK",
    "RANK",
    "ROW_NUMBER",
    "SINCE_EPOCH",
    "STDDEV",
    "STDDEV_POP",
    "STRPOS",
    "SUM",
    "TIME_WINDOW",
    "TO_TIMESTAMP",
    "TRIM",
    "TRUNCATE",
    "VARIANCE",
    "VAR_POP",
];

/// The names of all functions, aliases included.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    signature::names().chain(NAMES.iter().copied())
}

fn unknown_function(call: &FunctionCall) -> PlanError {
    let name = call.name.as_str();
    if LATER.contains(&name) {
        return PlanError::at(call.name.span, format!("function {name} is not supported yet"));
    }
    not_found(name, name, call.name.span, function_names())
}

/// VoltDB's functions of migrated rows.
const LATER: &[&str] = &["MIGRATING"];

/// Whether a function takes a unit.
fn unit_fits(function: &str, unit: TimeUnit) -> bool {
    let small = matches!(unit, TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond);
    let calendar = matches!(
        unit,
        TimeUnit::Year
            | TimeUnit::Quarter
            | TimeUnit::Month
            | TimeUnit::Day
            | TimeUnit::Hour
            | TimeUnit::Minute
    );
    match function {
        "SINCE_EPOCH" | "TO_TIMESTAMP" => small,
        "TRUNCATE" | "DATEADD" => small || calendar,
        "TIME_WINDOW" => {
            (small || calendar || unit == TimeUnit::Week) && unit != TimeUnit::Microsecond
        }
        _ => small || calendar || unit == TimeUnit::Week,
    }
}

/// The aggregate of a name.
pub(super) fn aggregate_of(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "COUNT" => AggregateFunction::Count,
        "SUM" => AggregateFunction::Sum,
        "AVG" => AggregateFunction::Average,
        "MIN" => AggregateFunction::Min,
        "MAX" => AggregateFunction::Max,
        "VAR_POP" => AggregateFunction::VariancePopulation,
        "VAR_SAMP" | "VARIANCE" => AggregateFunction::VarianceSample,
        "STDDEV_POP" => AggregateFunction::DeviationPopulation,
        "STDDEV_SAMP" | "STDDEV" => AggregateFunction::DeviationSample,
        "APPROX_COUNT_DISTINCT" => AggregateFunction::ApproximateCountDistinct,
        _ => return None,
    })
}
