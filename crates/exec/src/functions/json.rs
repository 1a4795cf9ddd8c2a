//! FIELD, SET_FIELD, ARRAY_ELEMENT and ARRAY_LENGTH over JSON in text.

mod document;
mod path;

use super::{Arguments, Computed};
use crate::error::{SqlError, state};
use document::Document;
use lockstep_plan_ir::Function;
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::{Datum, SqlType};
use path::{Purpose, Step};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.value(0).is_null() {
        return Ok(Datum::Null);
    }
    let text = arguments.text(0)?;
    match arguments.function {
        Function::Field => {
            let path = required(arguments, 1, "path")?;
            let document = parse(text)?;
            if document == Document::Null {
                return Ok(Datum::Null);
            }
            match path::get(&document, &path::parse(path, Purpose::Get)?) {
                Some(found) => shown(arguments, found),
                None => Ok(Datum::Null),
            }
        }
        Function::SetField => {
            let path = required(arguments, 1, "path")?;
            let new = required(arguments, 2, "value")?;
            let mut document = parse(text)?;
            // No text at all is the JSON null.
            let new = if new.is_empty() { Document::Null } else { parse(new)? };
            path::set(&mut document, &path::parse(path, Purpose::Set)?, new)?;
            written(arguments, &document)
        }
        Function::ArrayLength => Ok(match parse(text)? {
            Document::Array(elements) => Datum::Int(elements.len() as i64),
            _ => Datum::Null,
        }),
        _ => {
            let index = arguments.integer_as(1, SqlType::Integer)?;
            let document = parse(text)?;
            let found = match (arguments.value(1), usize::try_from(index)) {
                (Datum::Int(_), Ok(index)) => path::get(&document, &[Step::Element(index)]),
                _ => None,
            };
            found.map_or(Ok(Datum::Null), |found| shown(arguments, found))
        }
    }
}

fn parse(text: &str) -> Result<Document, SqlError> {
    Document::parse(text).map_err(|fault| {
        SqlError::coded(state::INVALID_PARAMETER, format!("Invalid JSON * {fault}"))
    })
}

/// An argument that must not be NULL, unlike the document.
fn required<'a>(
    arguments: &Arguments<'a, '_>,
    index: usize,
    what: &str,
) -> Result<&'a str, SqlError> {
    if arguments.value(index).is_null() {
        let name = arguments.function.name();
        return Err(SqlError::argument(format!("Invalid {name} {what} argument (SQL null)")));
    }
    arguments.text(index)
}

/// A value as FIELD gives it: text without quotes, null as NULL, all else as JSON.
fn shown<'a>(arguments: &Arguments<'a, '_>, found: &Document) -> Computed<'a> {
    match found {
        Document::Null => Ok(Datum::Null),
        Document::Text(text) => arguments.new_text(text),
        other => written(arguments, other),
    }
}

fn written<'a>(arguments: &Arguments<'a, '_>, document: &Document) -> Computed<'a> {
    let mut text = String::new();
    document.write(&mut text);
    if text.len() > MAX_VALUE_BYTES as usize {
        return Err(SqlError::out_of_range(format!(
            "the JSON of {} bytes is larger than the maximum size allowed for strings \
             ({MAX_VALUE_BYTES} bytes)",
            text.len()
        )));
    }
    arguments.new_text(&text)
}
