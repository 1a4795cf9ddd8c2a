//! The built-in functions.
//!
//! Arguments come in the order of the function-call form: `POSITION(part, text)`, `TRIM(text
//! [, part])`, `OVERLAY(text, replacement, start [, length])`, `INSERT(text, start, length,
//! replacement)`, `TIME_WINDOW(unit, count, time [, 'START' | 'END'])`. Units are literals.

mod bits;
mod datetime;
mod format;
pub(crate) mod geography;
mod internet;
mod json;
mod numeric;
mod pattern;
mod text;
mod text_extras;
mod time_window;
mod time_zone;

use crate::arena::Arena;
use crate::context::Context;
use crate::error::SqlError;
use crate::evaluate::evaluate_in;
use crate::frame::Frame;
use lockstep_plan_ir::{Expression, Function};
use lockstep_types::hashing::CompositeKey;
use lockstep_types::timestamp::{MAX_VALID_US, MIN_VALID_US};
use lockstep_types::{Datum, Decimal, SqlType};
use std::cmp::Ordering;

/// What a function gives.
pub(crate) type Computed<'a> = Result<Datum<'a>, SqlError>;

/// Most functions have no more arguments than this; longer lists go to the arena.
const FEW: usize = 4;

/// Calls a function: evaluates its arguments, then computes. Text that it makes is put into
/// `arena`.
///
/// # Errors
/// An argument of the wrong type or out of the function's range, in VoltDB's words.
pub(crate) fn call<'a: 's, 's>(
    arena: &'s Arena,
    context: &Context<'a>,
    function: Function,
    expressions: &'a [Expression],
    result: SqlType,
    frame: &Frame<'a>,
) -> Computed<'s> {
    let mut few = [Datum::Null; FEW];
    let values = match few.get_mut(..expressions.len()) {
        Some(values) => values,
        None => arena.fill(expressions.len(), Datum::Null),
    };
    for (value, expression) in values.iter_mut().zip(expressions) {
        *value = evaluate_in(arena, expression, context, frame)?;
    }
    let arguments = Arguments { function, values, expressions, result, arena };
    compute(context, &arguments)
}

fn compute<'a>(context: &Context<'_>, arguments: &Arguments<'a, '_>) -> Computed<'a> {
    use Function::*;
    match arguments.function {
        Abs | Ceiling | Floor | Exp | Ln | Log10 | Power | Sqrt | Round | Pi | Sin | Cos | Tan
        | Cot | Csc | Sec | Degrees | Radians | Sign | TruncateNumber | ArcSine | ArcCosine
        | ArcTangent | ArcTangent2 | HyperbolicSine | HyperbolicCosine | HyperbolicTangent
        | CubeRoot => numeric::call(arguments),
        Greatest | Least => Ok(extreme(arguments)),
        Ascii | PadLeft | PadRight | Reverse | InitialCapitals | SplitPart | Translate
        | ConcatWithSeparator => text_extras::call(arguments),
        BitAnd | BitOr | BitXor | BitNot | BitShiftLeft | BitShiftRight | Bin | Hex => {
            bits::call(arguments)
        }
        Char | CharLength | OctetLength | Concat | ConcatOperator | AddText | Left | Right
        | Lower | Upper | Overlay | Insert | Position | Repeat | Replace | Space | Substring
        | TrimBoth | TrimLeading | TrimTrailing => text::call(arguments),
        RegexpPosition => pattern::position(arguments),
        FormatCurrency | Str => format::call(arguments),
        Now => Ok(Datum::Timestamp(context.now_us)),
        MinValidTimestamp => Ok(Datum::Timestamp(MIN_VALID_US)),
        MaxValidTimestamp => Ok(Datum::Timestamp(MAX_VALID_US)),
        FormatTimestamp => time_zone::format(arguments),
        TimeWindow => time_window::call(arguments),
        DateAdd | DateDiff | FromUnixTime | SinceEpoch | ToTimestamp | TruncateTimestamp
        | IsValidTimestamp | Year | Quarter | Month | DayOfMonth | DayOfWeek | DayOfYear
        | WeekOfYear | Weekday | Hour | Minute | Second => datetime::call(arguments),
        Field | ArrayElement | ArrayLength | SetField => json::call(arguments),
        InetAton | InetNtoa | Inet6Aton | Inet6Ntoa => internet::call(arguments),
        PointFromText | PolygonFromText | ValidPolygonFromText | Contains | NumInteriorRings
        | NumPoints | Latitude | Longitude | Centroid | Area | Distance | DistanceWithin
        | AsText | IsValid | IsInvalidReason | MakeValidPolygon => geography::call(arguments),
        SqlError => Err(raised(arguments)),
        PlaceOf => Err(crate::error::SqlError::sql(
            "a place is asked of its global index before a statement runs, not computed",
        )),
        PartitionKey => {
            let key = CompositeKey::of(arguments.values.iter().copied());
            Ok(Datum::Bytes(arguments.arena.copy(key.bytes())))
        }
    }
}

/// The arguments of one call, evaluated, with access by the type that a function takes.
pub(crate) struct Arguments<'a, 'v> {
    /// The function that is called.
    pub(crate) function: Function,
    /// The arguments' values.
    pub(crate) values: &'v [Datum<'a>],
    expressions: &'a [Expression],
    /// The type of the result.
    pub(crate) result: SqlType,
    /// Memory for text.
    pub(crate) arena: &'a Arena,
}

impl<'a> Arguments<'a, '_> {
    /// An argument's value; NULL when it was left out.
    pub(crate) fn value(&self, index: usize) -> Datum<'a> {
        self.values.get(index).copied().unwrap_or(Datum::Null)
    }

    /// Whether an argument was given.
    pub(crate) fn has(&self, index: usize) -> bool {
        index < self.values.len()
    }

    /// Whether any argument is NULL.
    pub(crate) fn any_null(&self) -> bool {
        self.values.iter().any(|value| value.is_null())
    }

    /// An argument's static type.
    pub(crate) fn sql_type(&self, index: usize) -> SqlType {
        self.expressions.get(index).map_or(SqlType::Null, |expression| expression.sql_type)
    }

    /// A text argument; NULL is empty (functions test for NULL first).
    pub(crate) fn text(&self, index: usize) -> Result<&'a str, SqlError> {
        match self.value(index) {
            Datum::Text(text) => Ok(text),
            Datum::Null => Ok(""),
            _ => Err(self.mistyped(index, SqlType::Varchar)),
        }
    }

    /// An integer argument; NULL is zero.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, SqlError> {
        self.integer_as(index, SqlType::BigInt)
    }

    /// An integer argument that messages call `wanted`.
    pub(crate) fn integer_as(&self, index: usize, wanted: SqlType) -> Result<i64, SqlError> {
        match self.value(index) {
            Datum::Int(value) => Ok(value),
            Datum::Null => Ok(0),
            _ => Err(self.mistyped(index, wanted)),
        }
    }

    /// A DECIMAL argument; other numbers are refused.
    pub(crate) fn decimal(&self, index: usize) -> Result<Decimal, SqlError> {
        match self.value(index) {
            Datum::Decimal(value) => Ok(value),
            _ => Err(self.mistyped(index, SqlType::Decimal)),
        }
    }

    /// A timestamp argument.
    pub(crate) fn timestamp(&self, index: usize) -> Result<i64, SqlError> {
        match self.value(index) {
            Datum::Timestamp(value) => Ok(value),
            _ => Err(self.mistyped(index, SqlType::Timestamp)),
        }
    }

    /// The error of an argument that is of no type that the function takes.
    #[cold]
    pub(crate) fn mistyped(&self, index: usize, wanted: SqlType) -> SqlError {
        let from = match self.sql_type(index) {
            SqlType::Null => self.value(index).natural_type(),
            sql_type => sql_type,
        };
        SqlError::cannot_cast(from, wanted)
    }

    /// A text result, in the arena.
    pub(crate) fn new_text(&self, text: &str) -> Computed<'a> {
        Ok(Datum::Text(self.arena.copy_text(text)))
    }
}

/// GREATEST and LEAST: NULLs do not count unless there is nothing else.
fn extreme<'a>(arguments: &Arguments<'a, '_>) -> Datum<'a> {
    let wanted = match arguments.function {
        Function::Greatest => Ordering::Greater,
        _ => Ordering::Less,
    };
    let given = arguments.values.iter().copied().filter(|value| !value.is_null());
    let best = given.reduce(|best, value| match value.sort_order(best) == wanted {
        true => value,
        false => best,
    });
    best.unwrap_or(Datum::Null)
}

#[cold]
fn raised(arguments: &Arguments<'_, '_>) -> SqlError {
    let fallback = "Specific error code specified by user invocation of SQL_ERROR";
    if arguments.has(1) {
        return match (arguments.integer(0), arguments.text(1)) {
            (Ok(_), Ok(message)) => SqlError::coded(crate::error::state::RAISED, message),
            (Err(error), _) | (_, Err(error)) => error,
        };
    }
    let message = match arguments.value(0) {
        Datum::Text(message) => message,
        _ => fallback,
    };
    SqlError::coded(crate::error::state::RAISED, message)
}

#[cfg(test)]
mod tests;
