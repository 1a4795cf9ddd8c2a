//! The arguments of system procedures: how many there are and of which types, held against what
//! a procedure declares before its handler sees them.

use super::operations::is_null;
use super::system::text_parameter;
use lockstep_types::{Datum, Failure, Parameter, SqlType};
use lockstep_wire_volt::Invocation;

/// What the nonces of snapshots begin with that a call gave no nonce for.
pub(super) const UNNAMED: &str = "MANUAL";

/// The type of an argument. NULL is of every type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// VARCHAR.
    Text,
    /// An integer of any width, or a text with its digits.
    Integer,
    /// VARCHAR or an integer.
    TextOrInteger,
    /// VARBINARY, an array of bytes, or a text of hexadecimal digits.
    Bytes,
}

/// What the arguments of a procedure must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arguments {
    /// Its handler checks them, or takes any.
    Own,
    /// One for each type; the first number of them must be there.
    Declared(usize, &'static [Kind]),
    /// A folder. What is wrong is answered as a table.
    SnapshotScan,
    /// Folders and, of the same number, nonces, then how the folders are meant. What is wrong is
    /// answered as a table.
    SnapshotDelete,
    /// Nothing, a text of JSON, or a folder, a nonce and whether to wait.
    SnapshotSave,
    /// A text of JSON, or a folder and a nonce.
    SnapshotRestore,
}

/// How a call with wrong arguments is answered.
#[derive(Debug)]
pub(super) enum Refusal {
    /// As a failure.
    Failure(Failure),
    /// As a success with a table ERR_MSG.
    Table(String),
}

impl Arguments {
    /// As many as types, of these types.
    pub(super) const fn declared(kinds: &'static [Kind]) -> Arguments {
        Arguments::Declared(kinds.len(), kinds)
    }

    /// As many as types or fewer.
    pub(super) const fn upto(kinds: &'static [Kind]) -> Arguments {
        Arguments::Declared(0, kinds)
    }

    /// Holds the arguments of a call against these.
    pub(super) fn check(&self, invocation: &Invocation<'_>) -> Result<(), Refusal> {
        let failed = |text| Refusal::Failure(Failure::graceful(text));
        match self {
            Arguments::Own => Ok(()),
            Arguments::Declared(least, kinds) => declared(*least, kinds, invocation),
            Arguments::SnapshotScan => scan(invocation).map_err(Refusal::Table),
            Arguments::SnapshotDelete => delete(invocation).map_err(Refusal::Table),
            Arguments::SnapshotSave => save(invocation).map_err(failed),
            Arguments::SnapshotRestore => restore(invocation).map_err(failed),
        }
    }
}

fn declared(least: usize, kinds: &[Kind], invocation: &Invocation<'_>) -> Result<(), Refusal> {
    let (name, count) = (invocation.procedure, invocation.parameters.count());
    if !(least..=kinds.len()).contains(&count) {
        let expected = kinds.len();
        return Err(Refusal::Failure(Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} EXPECTS {expected} PARAMS, BUT RECEIVED {count}"
        ))));
    }
    for (place, (kind, parameter)) in kinds.iter().zip(invocation.parameters.iter()).enumerate() {
        let given = match parameter {
            Ok(parameter) if kind.takes(&parameter) => continue,
            Ok(parameter) => described(&parameter),
            Err(error) => error.to_string(),
        };
        let wanted = kind.name();
        return Err(Refusal::Failure(Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} TYPE ERROR FOR PARAMETER {place}: the value ({given}) \
             is not a match for the target parameter type: {wanted}"
        ))));
    }
    Ok(())
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Text => "STRING",
            Kind::Integer => "BIGINT",
            Kind::TextOrInteger => "STRING or BIGINT",
            Kind::Bytes => "VARBINARY",
        }
    }

    fn takes(self, parameter: &Parameter<'_>) -> bool {
        let is_hex = |text: &str| {
            text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        match (self, parameter) {
            (_, Parameter::Scalar(_, Datum::Null)) => true,
            (Kind::Text | Kind::TextOrInteger, Parameter::Scalar(_, Datum::Text(_))) => true,
            (Kind::Integer | Kind::TextOrInteger, Parameter::Scalar(sql_type, Datum::Int(_))) => {
                sql_type.is_integer()
            }
            (Kind::Integer, Parameter::Scalar(_, Datum::Text(text))) => {
                text.trim().parse::<i64>().is_ok()
            }
            (Kind::Bytes, Parameter::Scalar(_, Datum::Bytes(_))) => true,
            (Kind::Bytes, Parameter::Scalar(_, Datum::Text(text))) => is_hex(text),
            (Kind::Bytes, Parameter::Array(array)) => array.element_type == SqlType::TinyInt,
            _ => false,
        }
    }
}

/// A parameter as an error names it.
fn described(parameter: &Parameter<'_>) -> String {
    match parameter {
        Parameter::Scalar(_, value) => value.to_string(),
        Parameter::Array(array) => format!("an array of {}", array.element_type.name()),
        Parameter::Table(_) => "a table".to_string(),
    }
}

fn scan(invocation: &Invocation<'_>) -> Result<(), String> {
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

fn delete(invocation: &Invocation<'_>) -> Result<(), String> {
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

fn save(invocation: &Invocation<'_>) -> Result<(), String> {
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

fn restore(invocation: &Invocation<'_>) -> Result<(), String> {
    match invocation.parameters.count() {
        1 | 2 => Ok(()),
        count => Err(format!(
            "@SnapshotRestore supports a single json document parameter or two parameters (path, \
             nonce), {count} parameters provided"
        )),
    }
}
