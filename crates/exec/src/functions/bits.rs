//! Functions of the bits of a BIGINT.

use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::Datum;

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let a = arguments.integer(0)?;
    let b = arguments.integer(1)?;
    let result = match arguments.function {
        Function::BitAnd => a & b,
        Function::BitOr => a | b,
        Function::BitXor => a ^ b,
        Function::BitNot => !a,
        Function::BitShiftLeft => shift(b)?.map_or(0, |count| a << count),
        Function::BitShiftRight => shift(b)?.map_or(0, |count| (a as u64 >> count) as i64),
        Function::Bin => return arguments.new_text(&format!("{a:b}")),
        _ => return arguments.new_text(&format!("{a:X}")),
    };
    if result == i64::MIN {
        return Err(SqlError::out_of_range(format!(
            "Application of bitwise function {} would produce INT64_MIN, which is reserved for \
             SQL NULL values.",
            arguments.function.name()
        )));
    }
    Ok(Datum::Int(result))
}

/// How far to shift; `None` shifts everything out.
fn shift(count: i64) -> Result<Option<u32>, SqlError> {
    if count < 0 {
        return Err(SqlError::argument("unsupported negative value for bit shifting"));
    }
    Ok(u32::try_from(count).ok().filter(|count| *count < 64))
}
