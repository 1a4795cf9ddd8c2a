//! Functions of text. Positions and lengths count characters, from 1.

use super::{Arguments, Computed};
use crate::cast;
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::{Datum, SqlType};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if matches!(arguments.function, Function::Concat | Function::ConcatOperator) {
        return concatenate(arguments);
    }
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    match arguments.function {
        Function::AddText => concatenate(arguments),
        Function::Char => character(arguments),
        Function::CharLength => Ok(Datum::Int(arguments.text(0)?.chars().count() as i64)),
        Function::OctetLength => match arguments.value(0) {
            Datum::Bytes(bytes) => Ok(Datum::Int(bytes.len() as i64)),
            _ => Ok(Datum::Int(arguments.text(0)?.len() as i64)),
        },
        Function::Left | Function::Right => side(arguments),
        // Only ASCII letters have a case here, as in VoltDB.
        Function::Lower => folded(arguments, |byte| byte.make_ascii_lowercase()),
        Function::Upper => folded(arguments, |byte| byte.make_ascii_uppercase()),
        Function::Overlay => {
            let replacement = arguments.text(1)?;
            let length = match arguments.has(3) {
                true => arguments.integer(3)?,
                false => replacement.chars().count() as i64,
            };
            overlay(arguments, replacement, arguments.integer(2)?, length)
        }
        Function::Insert => {
            overlay(arguments, arguments.text(3)?, arguments.integer(1)?, arguments.integer(2)?)
        }
        Function::Position => {
            let (part, text) = (arguments.text(0)?, arguments.text(1)?);
            Ok(Datum::Int(text.find(part).map_or(0, |at| position_of(text, at))))
        }
        Function::Repeat => repeat(arguments, arguments.text(0)?, arguments.integer(1)?),
        Function::Space => repeat(arguments, " ", arguments.integer(0)?),
        Function::Replace => replace(arguments),
        Function::Substring => substring(arguments),
        _ => trim(arguments),
    }
}

/// The position, from 1, of the character at a byte offset.
pub(super) fn position_of(text: &str, offset: usize) -> i64 {
    text[..offset].chars().count() as i64 + 1
}

/// The byte offset after `count` characters, or the end.
pub(super) fn offset_of(text: &str, count: i64) -> usize {
    let Ok(count) = usize::try_from(count) else { return 0 };
    text.char_indices().nth(count).map_or(text.len(), |(offset, _)| offset)
}

/// Joins all arguments; NULL if one is, or if nothing comes out of it.
fn concatenate<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.result == SqlType::Varbinary {
        return concatenate_bytes(arguments);
    }
    let converts = arguments.function != Function::Concat;
    let mut length = 0;
    let mut null = false;
    for index in 0..arguments.values.len() {
        match arguments.value(index) {
            Datum::Null => null = true,
            Datum::Text(text) => length += text.len(),
            value if converts => {
                let from = arguments.sql_type(index);
                if let Datum::Text(text) = cast::text(arguments.arena, value, from)? {
                    length += text.len();
                }
            }
            _ => return Err(arguments.mistyped(index, SqlType::Varchar)),
        }
    }
    if null || length == 0 {
        return Ok(Datum::Null);
    }
    check_size(length)?;
    let mut joined = String::with_capacity(length);
    for (index, value) in arguments.values.iter().enumerate() {
        if let Datum::Text(text) = cast::text(arguments.arena, *value, arguments.sql_type(index))? {
            joined.push_str(text);
        }
    }
    arguments.new_text(&joined)
}

fn concatenate_bytes<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let mut joined = Vec::new();
    for index in 0..arguments.values.len() {
        match arguments.value(index) {
            Datum::Bytes(bytes) => joined.extend_from_slice(bytes),
            Datum::Null => return Ok(Datum::Null),
            _ => return Err(arguments.mistyped(index, SqlType::Varbinary)),
        }
    }
    check_size(joined.len())?;
    Ok(if joined.is_empty() { Datum::Null } else { Datum::Bytes(arguments.arena.copy(&joined)) })
}

/// No value is longer than a column can be.
pub(super) fn check_size(bytes: usize) -> Result<(), SqlError> {
    if bytes <= MAX_VALUE_BYTES as usize {
        return Ok(());
    }
    Err(SqlError::out_of_range(format!(
        "The result of {bytes} bytes is larger than the maximum size allowed for strings \
         ({MAX_VALUE_BYTES} bytes)."
    )))
}

/// CHAR(code point): empty when there is no such character.
fn character<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let code = u32::try_from(arguments.integer(0)?).ok().and_then(char::from_u32);
    match code {
        Some(character) => arguments.new_text(character.encode_utf8(&mut [0; 4])),
        None => Ok(Datum::Text("")),
    }
}

fn side<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let (text, count) = (arguments.text(0)?, arguments.integer(1)?);
    let name = arguments.function.name();
    if count < 0 {
        let message = format!("The argument to the {name} function is negative");
        return Err(SqlError::argument(message));
    }
    if arguments.function == Function::Left {
        return Ok(Datum::Text(&text[..offset_of(text, count)]));
    }
    let skipped = (text.chars().count() as i64 - count).max(0);
    Ok(Datum::Text(&text[offset_of(text, skipped)..]))
}

fn folded<'a>(arguments: &Arguments<'a, '_>, fold: fn(&mut u8)) -> Computed<'a> {
    let text = arguments.text(0)?;
    let bytes = arguments.arena.copy(text.as_bytes());
    bytes.iter_mut().for_each(fold);
    // ASCII letters become ASCII letters: the text stays valid.
    Ok(Datum::Text(std::str::from_utf8(bytes).unwrap_or(text)))
}

/// The first argument with `length` characters from `start` on replaced.
fn overlay<'a>(
    arguments: &Arguments<'a, '_>,
    replacement: &str,
    start: i64,
    length: i64,
) -> Computed<'a> {
    let text = arguments.text(0)?;
    if start <= 0 {
        return Err(SqlError::argument(format!(
            "data exception -- OVERLAY error, not positive start argument {start}"
        )));
    }
    if length < 0 {
        return Err(SqlError::argument(format!(
            "data exception -- OVERLAY error, negative length argument {length}"
        )));
    }
    let head = offset_of(text, start - 1);
    let tail = head + offset_of(&text[head..], length);
    check_size(text.len() + replacement.len())?;
    arguments.new_text(&[&text[..head], replacement, &text[tail..]].concat())
}

/// REPEAT and SPACE.
fn repeat<'a>(arguments: &Arguments<'a, '_>, text: &str, count: i64) -> Computed<'a> {
    let Ok(count) = usize::try_from(count) else {
        return Err(SqlError::argument("data exception: substring error"));
    };
    if text.len().checked_mul(count).is_none_or(|bytes| bytes > MAX_VALUE_BYTES as usize) {
        let what = match arguments.function {
            Function::Space => "The argument to the SPACE function",
            _ => "The result of the REPEAT function",
        };
        return Err(SqlError::out_of_range(format!(
            "{what} is larger than the maximum size allowed for strings ({MAX_VALUE_BYTES} \
             bytes). Reduce either the string size or repetition count."
        )));
    }
    arguments.new_text(&text.repeat(count))
}

fn replace<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let (text, part, by) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    if part.is_empty() || !text.contains(part) {
        return Ok(Datum::Text(text));
    }
    let count = text.matches(part).count();
    check_size(text.len() - count * part.len() + count.saturating_mul(by.len()))?;
    arguments.new_text(&text.replace(part, by))
}

/// `SUBSTRING(text, start [, length])`: positions before the first count against the length.
fn substring<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let (text, start) = (arguments.text(0)?, arguments.integer(1)?);
    let end = if arguments.has(2) {
        let length = arguments.integer(2)?;
        if length < 0 {
            return Err(SqlError::argument(format!(
                "data exception -- substring error, negative length argument {length}"
            )));
        }
        start.saturating_add(length)
    } else {
        i64::MAX
    };
    let first = start.max(1);
    let head = offset_of(text, first - 1);
    let length = offset_of(&text[head..], end.max(first) - first);
    Ok(Datum::Text(&text[head..head + length]))
}

/// `TRIM(text [, part])`: the whole part is taken off, again and again.
fn trim<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let mut text = arguments.text(0)?;
    let part = if arguments.has(1) { arguments.text(1)? } else { " " };
    if part.is_empty() {
        let message = "data exception -- trim error, invalid trim character length 0";
        return Err(SqlError::argument(message));
    }
    if arguments.function != Function::TrimTrailing {
        text = text.trim_start_matches(part);
    }
    if arguments.function != Function::TrimLeading {
        text = text.trim_end_matches(part);
    }
    Ok(Datum::Text(text))
}
