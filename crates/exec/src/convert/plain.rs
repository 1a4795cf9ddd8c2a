//! Parameters that clients send in the declared type, which are taken over as they are.

use super::NULL_TEXT;
use crate::arena::Arena;
use lockstep_base::bytes::ByteReader;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::parameter::ARRAY;
use lockstep_types::table::read_datum;
use lockstep_types::{Datum, SqlType};

/// The value at the beginning of `bytes`, if it is of the declared type or an integer where one is
/// declared, and what follows it.
#[inline(always)]
pub(crate) fn value_of_type<'a>(
    wanted: ProcedureParameter,
    bytes: &'a [u8],
    arena: &'a Arena,
) -> Option<(Datum<'a>, &'a [u8])> {
    let (code, rest) = bytes.split_first()?;
    let code = *code as i8;
    if wanted.is_array {
        return list_of_type(wanted.sql_type, code, rest, arena);
    }
    if code != wanted.sql_type.code() {
        // Clients send small numbers as INTEGER; their range is tested when they are assigned.
        let is_integer = code == SqlType::Integer.code() && wanted.sql_type.is_integer();
        return if is_integer { integer(rest) } else { None };
    }
    match wanted.sql_type {
        SqlType::BigInt => {
            let (number, behind) = rest.split_first_chunk()?;
            let number = i64::from_be_bytes(*number);
            Some((if number == i64::MIN { Datum::Null } else { Datum::Int(number) }, behind))
        }
        SqlType::Integer => integer(rest),
        // What clients send of a polygon is to be completed.
        SqlType::Geography => None,
        _ => {
            let mut reader = ByteReader::new(rest);
            let value = match read_datum(&mut reader, wanted.sql_type).ok()? {
                Datum::Text(NULL_TEXT) => Datum::Null,
                value => value,
            };
            Some((value, reader.rest()))
        }
    }
}

#[inline(always)]
fn integer(bytes: &[u8]) -> Option<(Datum<'_>, &[u8])> {
    let (number, behind) = bytes.split_first_chunk()?;
    let number = i32::from_be_bytes(*number);
    Some((if number == i32::MIN { Datum::Null } else { Datum::Int(number.into()) }, behind))
}

/// A list of integers of exactly the declared type: its elements are taken over as they are.
#[inline]
fn list_of_type<'a>(
    wanted: SqlType,
    code: i8,
    bytes: &'a [u8],
    arena: &'a Arena,
) -> Option<(Datum<'a>, &'a [u8])> {
    let (element, rest) = bytes.split_first()?;
    // The count of an array of TINYINT is of another width.
    let is_plain = wanted.is_integer() && wanted != SqlType::TinyInt;
    if code != ARRAY || *element as i8 != wanted.code() || !is_plain {
        return None;
    }
    let (count, rest) = rest.split_first_chunk()?;
    let count = usize::try_from(i16::from_be_bytes(*count)).ok()?;
    let (elements, behind) = rest.split_at_checked(count * wanted.fixed_bytes()?)?;
    let list = arena.fill(1 + elements.len(), *element);
    list[1..].copy_from_slice(elements);
    Some((Datum::Bytes(list), behind))
}
