//! Values into places with a declared type: a client's parameters into a procedure's or a
//! statement's, and computed values into columns.

mod assign;
mod java;
mod parameter;
mod plain;

pub use assign::assign;
pub(crate) use parameter::{NULL_TEXT, queued_list, statement_parameter, statement_value};
pub use parameter::{procedure_parameter, statement_parameters};
pub(crate) use plain::value_of_type;

use crate::arena::Arena;
use lockstep_base::bytes::ByteReader;
use lockstep_types::table::{read_datum, write_datum};
use lockstep_types::{Datum, SqlType};

/// The elements of an array parameter as a statement holds it (see `Context::parameters`).
/// Nothing for any other value: planned statements ask for elements of array parameters only.
pub fn array_elements(array: Datum<'_>) -> impl Iterator<Item = Datum<'_>> {
    let bytes = match array {
        Datum::Bytes(bytes) => bytes,
        _ => &[],
    };
    let mut reader = ByteReader::new(bytes);
    let element_type = reader.i8().ok().and_then(SqlType::from_code);
    std::iter::from_fn(move || {
        let element_type = element_type?;
        if reader.remaining() == 0 {
            return None;
        }
        read_datum(&mut reader, element_type).ok()
    })
}

/// An array parameter from its elements, which are of the element type.
pub fn array_parameter<'a>(
    arena: &'a Arena,
    element_type: SqlType,
    elements: impl Iterator<Item = Datum<'a>>,
) -> Datum<'a> {
    let mut bytes = vec![element_type.code() as u8];
    for element in elements {
        write_datum(&mut bytes, element_type, element);
    }
    Datum::Bytes(arena.copy(&bytes))
}

/// Bytes of a text of hex digits, two a byte; `None` when it is none.
pub fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    digits.chunks_exact(2).map(byte).collect()
}
