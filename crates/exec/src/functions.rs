//! The built-in functions.

use crate::context::Context;
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use lockstep_plan_ir::{Expression, Function};
use lockstep_types::{Datum, SqlType};

/// Calls a function: evaluates its arguments, then computes.
pub fn call<'a>(
    context: &Context<'a>,
    function: Function,
    arguments: &'a [Expression],
    _result: SqlType,
    frame: &Frame<'a>,
) -> Result<Datum<'a>, SqlError> {
    if function == Function::Now {
        return Ok(Datum::Timestamp(context.now_us));
    }
    for argument in arguments {
        evaluate(argument, context, frame)?;
    }
    Err(SqlError::argument(format!("the function {} is not supported", function.name())))
}
