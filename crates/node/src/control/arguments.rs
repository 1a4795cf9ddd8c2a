//! Checks of the arguments of system procedures: against the table's row before the handler has the
//! call, and those of the procedures about snapshots, which have rules and texts of their own.

use super::operations::is_null;
use super::system::text_parameter;
use lockstep_plan::system_procedures::{ParameterKind, SystemProcedure};
use lockstep_types::{Datum, Failure, Parameter, SqlType};
use lockstep_wire_volt::Invocation;

/// What the nonces of snapshots begin with that a call gave no nonce for.
pub(super) const UNNAMED: &str = "MANUAL";

/// Holds the arguments of a call against those of the table's row.
///
/// # Errors
/// There are too few or too many, or one is of another type. NULL is of every type.
pub(super) fn check(
    procedure: &SystemProcedure,
    invocation: &Invocation<'_>,
) -> Result<(), Failure> {
    let (name, count) = (procedure.name, invocation.parameters.count());
    let longest = procedure.forms.last().map_or(0, |form| form.len());
    let Some(form) = procedure.form(count) else {
        return Err(Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} EXPECTS {longest} PARAMS, BUT RECEIVED {count}"
        )));
    };
    for (number, ((_, kind), parameter)) in
        form.iter().zip(invocation.parameters.iter()).enumerate()
    {
        let given = match parameter {
            Ok(parameter) if takes(*kind, &parameter) => continue,
            Ok(parameter) => described(&parameter),
            Err(error) => error.to_string(),
        };
        let wanted = kind.name();
        return Err(Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} TYPE ERROR FOR PARAMETER {number}: the value ({given}) \
             is not a match for the target parameter type: {wanted}"
        )));
    }
    Ok(())
}

/// Whether a parameter of a kind takes a value. An integer may be given as a text of its digits.
fn takes(kind: ParameterKind, parameter: &Parameter<'_>) -> bool {
    use ParameterKind::{Any, BigInt, Bytes, Integer, Rows, TextOrInteger, TinyInt, Values};
    let is_hex = |text: &str| {
        text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match (kind, parameter) {
        (Any | Values, _) | (_, Parameter::Scalar(_, Datum::Null)) => true,
        (ParameterKind::Text | TextOrInteger, Parameter::Scalar(_, Datum::Text(_))) => true,
        (TextOrInteger, Parameter::Scalar(sql_type, Datum::Int(_))) => sql_type.is_integer(),
        (TinyInt | Integer | BigInt, Parameter::Scalar(sql_type, Datum::Int(value))) => {
            sql_type.is_integer() && is_within(kind, *value)
        }
        (TinyInt | Integer | BigInt, Parameter::Scalar(_, Datum::Text(text))) => {
            text.trim().parse().is_ok_and(|value| is_within(kind, value))
        }
        (Bytes, Parameter::Scalar(_, Datum::Bytes(_))) => true,
        (Bytes, Parameter::Scalar(_, Datum::Text(text))) => is_hex(text),
        (Bytes, Parameter::Array(array)) => array.element_type == SqlType::TinyInt,
        (ParameterKind::Texts, Parameter::Array(array)) => array.element_type == SqlType::Varchar,
        (Rows, Parameter::Table(_)) => true,
        _ => false,
    }
}

fn is_within(kind: ParameterKind, value: i64) -> bool {
    let range = kind.sql_type().and_then(SqlType::integer_range);
    range.is_none_or(|(least, greatest)| (least..=greatest).contains(&value))
}

/// A parameter as an error names it.
fn described(parameter: &Parameter<'_>) -> String {
    match parameter {
        Parameter::Scalar(_, value) => value.to_string(),
        Parameter::Array(array) => format!("an array of {}", array.element_type.name()),
        Parameter::Table(_) => "a table".to_string(),
    }
}

/// Checks the arguments of `@SnapshotScan`: one folder. What is wrong is answered as a table.
pub(super) fn scan(invocation: &Invocation<'_>) -> Result<(), String> {
    let count = invocation.parameters.count();
    if count != 1 {
        return Err(format!(
            "Incorrect number of arguments to @SnapshotScan (expects 1, received {count})"
        ));
    }
    match (text_parameter(invocation, 0), invocation.parameters.get(0)) {
        (Some(""), _) => Err("Provided path was null or the empty string".to_string()),
        (Some(_), _) => Ok(()),
        (None, given) => {
            let given = match given {
                Some(Ok(Parameter::Scalar(_, Datum::Null))) => "null".to_string(),
                Some(Ok(parameter)) => described(&parameter),
                _ => "?".to_string(),
            };
            Err(format!(
                "First argument to @SnapshotScan must be a valid STRING path, instead was {given}"
            ))
        }
    }
}

/// Checks the arguments of `@SnapshotDelete`: folders and as many nonces, then how the folders are
/// meant. What is wrong is answered as a table.
pub(super) fn delete(invocation: &Invocation<'_>) -> Result<(), String> {
    let count = invocation.parameters.count();
    if count < 2 {
        return Err(format!("@SnapshotDelete expects 2 or 3 arguments, received {count}"));
    }
    let paths = texts(invocation, 0, "path")?;
    let nonces = texts(invocation, 1, "nonce")?;
    match paths.cmp(&nonces) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err("A path must be provided for every nonce".to_string()),
        std::cmp::Ordering::Less => Err("A nonce must be provided for every path".to_string()),
    }
}

/// How many texts an array has, none of which may be empty.
fn texts(invocation: &Invocation<'_>, index: usize, what: &str) -> Result<usize, String> {
    let array = match invocation.parameters.get(index) {
        Some(Ok(Parameter::Array(array))) => array,
        _ if is_null(invocation, index) => return Err(format!("No {what}s supplied")),
        _ => return Err(format!("The {what}s must be an array of texts")),
    };
    let mut count = 0;
    for element in array.iter() {
        match element {
            Datum::Text(text) if !text.trim().is_empty() => count += 1,
            Datum::Text(_) | Datum::Null => {
                return Err(format!("A {what} was null or the empty string"));
            }
            _ => return Err(format!("The {what}s must be an array of texts")),
        }
    }
    if count == 0 { Err(format!("No {what}s supplied")) } else { Ok(count) }
}

/// Checks the arguments of `@SnapshotSave`: none, a text of JSON, or a folder, a nonce and whether
/// to wait.
pub(super) fn save(invocation: &Invocation<'_>) -> Result<(), String> {
    let count = invocation.parameters.count();
    let names = match count {
        0 => return Ok(()),
        1 => &["JSON blob"][..],
        3 => &["path", "nonce", "blocking"],
        _ => {
            return Err(format!(
                "Invalid number of parameters, {count}. @SnapshotSave allows, 0, 1, or 3 \
                 parameters."
            ));
        }
    };
    if let Some(missing) = (0..count).find(|index| is_null(invocation, *index)) {
        return Err(format!("@SnapshotSave {} is null", names[missing]));
    }
    match text_parameter(invocation, 1) {
        Some(nonce) if nonce.contains(['-', ',']) || nonce.starts_with(UNNAMED) => Err(format!(
            "Provided nonce {nonce} contains a prohibited character (- or ,) or starts with \
             {UNNAMED}"
        )),
        _ => Ok(()),
    }
}

/// Checks the arguments of `@SnapshotRestore`: a text of JSON, or a folder and a nonce.
pub(super) fn restore(invocation: &Invocation<'_>) -> Result<(), String> {
    match invocation.parameters.count() {
        1 | 2 => Ok(()),
        count => Err(format!(
            "@SnapshotRestore supports a single json document parameter or two parameters (path, \
             nonce), {count} parameters provided"
        )),
    }
}
