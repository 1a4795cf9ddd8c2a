//! Functions of text that PostgreSQL has and VoltDB has not. Positions count characters, from 1.

use super::text::{check_size, offset_of};
use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::Datum;
use lockstep_types::sql_type::MAX_VALUE_BYTES;

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.function == Function::ConcatWithSeparator {
        return joined(arguments);
    }
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let text = arguments.text(0)?;
    match arguments.function {
        Function::Ascii => {
            Ok(Datum::Int(text.chars().next().map_or(0, |first| i64::from(u32::from(first)))))
        }
        Function::PadLeft | Function::PadRight => padded(arguments, text),
        Function::Reverse => arguments.new_text(&text.chars().rev().collect::<String>()),
        Function::InitialCapitals => initial_capitals(arguments, text),
        Function::SplitPart => split_part(arguments, text),
        _ => translated(arguments, text),
    }
}

/// LPAD and RPAD: the text brought to a number of characters.
fn padded<'a>(arguments: &Arguments<'a, '_>, text: &'a str) -> Computed<'a> {
    let wanted = arguments.integer(1)?.max(0);
    let fill = if arguments.has(2) { arguments.text(2)? } else { " " };
    let length = text.chars().count() as i64;
    if wanted <= length || fill.is_empty() {
        return Ok(Datum::Text(&text[..offset_of(text, wanted)]));
    }
    let missing = usize::try_from(wanted - length).unwrap_or(usize::MAX);
    // Every character takes a byte at least: no more than a value may have are made.
    check_size(text.len().saturating_add(missing))?;
    let filling: String =
        fill.chars().cycle().take(missing.min(MAX_VALUE_BYTES as usize)).collect();
    check_size(text.len() + filling.len())?;
    match arguments.function {
        Function::PadLeft => arguments.new_text(&[&filling, text].concat()),
        _ => arguments.new_text(&[text, &filling].concat()),
    }
}

/// INITCAP: ASCII letters at the beginning of words in upper case, all others in lower case.
fn initial_capitals<'a>(arguments: &Arguments<'a, '_>, text: &str) -> Computed<'a> {
    let mut within_word = false;
    let capitals = text.chars().map(|character| {
        let first = !within_word;
        within_word = character.is_alphanumeric();
        if first { character.to_ascii_uppercase() } else { character.to_ascii_lowercase() }
    });
    let capitals: String = capitals.collect();
    arguments.new_text(&capitals)
}

/// SPLIT_PART(text, separator, number): empty when there are fewer parts; a negative number
/// counts from the end.
fn split_part<'a>(arguments: &Arguments<'a, '_>, text: &'a str) -> Computed<'a> {
    let (separator, number) = (arguments.text(1)?, arguments.integer(2)?);
    let place = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let Some(skipped) = place.checked_sub(1) else {
        return Err(SqlError::argument("SPLIT_PART counts parts from 1 on, not 0"));
    };
    let part = match separator.is_empty() {
        true if skipped == 0 => Some(text),
        true => None,
        false if number > 0 => text.split(separator).nth(skipped),
        false => text.rsplit(separator).nth(skipped),
    };
    Ok(Datum::Text(part.unwrap_or("")))
}

/// TRANSLATE(text, from, to): each character of `from` becomes the one at its place in `to`, or
/// goes if there is none.
fn translated<'a>(arguments: &Arguments<'a, '_>, text: &str) -> Computed<'a> {
    let from: Vec<char> = arguments.text(1)?.chars().collect();
    let to: Vec<char> = arguments.text(2)?.chars().collect();
    let characters = text.chars().filter_map(|character| {
        match from.iter().position(|known| *known == character) {
            Some(place) => to.get(place).copied(),
            None => Some(character),
        }
    });
    let result: String = characters.collect();
    check_size(result.len())?;
    arguments.new_text(&result)
}

/// CONCAT_WS(separator, text, ...): NULLs among the texts are left out.
fn joined<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let Datum::Text(separator) = arguments.value(0) else { return Ok(Datum::Null) };
    let mut result = String::new();
    let mut first = true;
    for index in 1..arguments.values.len() {
        if arguments.value(index).is_null() {
            continue;
        }
        if !first {
            result.push_str(separator);
        }
        first = false;
        let text = arguments.text(index)?;
        check_size(result.len().saturating_add(text.len()))?;
        result.push_str(text);
    }
    arguments.new_text(&result)
}
