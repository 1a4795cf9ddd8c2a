//! What calls of snapshot procedures ask for: positional parameters, or one of JSON.

use super::schedule::automatic;
use crate::control::system::text_parameter;
use crate::json;
use lockstep_durability::snapshot::{ContentKind, check_nonce};
use lockstep_types::{Datum, Failure, Parameter};
use lockstep_wire_volt::Invocation;
use serde_json::{Map, Value};

/// Which tables of the schema or of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ChosenTables {
    /// Only these; all if there are none.
    only: Option<Vec<String>>,
    /// None of these.
    skipped: Vec<String>,
}

impl ChosenTables {
    /// Whether all are meant.
    pub(super) fn is_all(&self) -> bool {
        self.only.is_none() && self.skipped.is_empty()
    }

    /// Whether a table is among them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name))
            && !self.skipped.iter().any(|one| one == name)
    }

    /// The names that were given.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        self.only.iter().flatten().chain(&self.skipped).map(String::as_str)
    }
}

/// What to save or to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotRequest {
    /// The directory; none: that of the host.
    pub(super) path: Option<String>,
    pub(super) nonce: String,
    pub(super) content: ContentKind,
    pub(super) blocking: bool,
    pub(super) tables: ChosenTables,
}

/// Reads the parameters of `@SnapshotSave` or `@SnapshotRestore`; `None` for a call without any.
pub(super) fn read(invocation: &Invocation<'_>) -> Result<Option<SnapshotRequest>, Failure> {
    let name = invocation.procedure;
    let request = match invocation.parameters.count() {
        0 => return Ok(None),
        1 => {
            let text = text_parameter(invocation, 0).ok_or_else(|| {
                Failure::graceful(format!("The only parameter of {name} must be a text of JSON"))
            })?;
            let request = from_json(text, name == "@SnapshotSave");
            request.map_err(|problem| Failure::graceful(format!("{name}: {problem}")))?
        }
        2 | 3 => positional(invocation)?,
        count => {
            return Err(Failure::graceful(format!(
                "{name} takes a directory, a nonce and, for @SnapshotSave, 1 or 0 for blocking, or \
                 one text of JSON; it received {count} parameters"
            )));
        }
    };
    check_nonce(&request.nonce).map_err(Failure::graceful)?;
    Ok(Some(request))
}

fn positional(invocation: &Invocation<'_>) -> Result<SnapshotRequest, Failure> {
    let name = invocation.procedure;
    let wrong =
        |what: &str, place: usize| Failure::graceful(format!("{name}: parameter {place} {what}"));
    let path = text_parameter(invocation, 0).ok_or_else(|| wrong("must be a directory", 0))?;
    let nonce = text_parameter(invocation, 1).ok_or_else(|| wrong("must be a nonce", 1))?;
    let blocking = match invocation.parameters.get(2) {
        None => false,
        Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => number != 0,
        Some(Ok(Parameter::Scalar(_, Datum::Text(text)))) => text != "0",
        Some(_) => return Err(wrong("must be 1 for a blocking save, else 0", 2)),
    };
    Ok(SnapshotRequest {
        path: Some(path.to_string()),
        nonce: nonce.to_string(),
        content: ContentKind::Native,
        blocking,
        tables: ChosenTables::default(),
    })
}

/// Reads the parameter of JSON. Without a directory and a nonce, the host may choose both for a
/// snapshot that is saved, as for VoltDB's `voltadmin save` without arguments.
pub(super) fn from_json(given: &str, may_choose: bool) -> Result<SnapshotRequest, String> {
    let object =
        json::object(given).map_err(|error| format!("the parameter is no JSON object: {error}"))?;
    let nonce = text(&object, "nonce")?;
    let path = match text(&object, "uripath")? {
        None => text(&object, "path")?.map(str::to_string),
        Some(uri) => match uri.strip_prefix("file://") {
            Some(path) => Some(percent_decoded(path)?),
            None => return Err(format!("uripath '{uri}' does not begin with file://")),
        },
    };
    let nonce = match (nonce, &path) {
        (Some(nonce), _) => nonce.to_string(),
        (None, None) if may_choose => automatic("SAVE").nonce,
        (None, _) => return Err("the key nonce is missing".to_string()),
    };
    let content = match text(&object, "format")? {
        None | Some("native") => ContentKind::Native,
        Some("csv") => ContentKind::Csv,
        Some(other) => return Err(format!("format '{other}' is neither native nor csv")),
    };
    let blocking = match object.get("block") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(block)) => *block,
        Some(Value::String(text)) if text == "true" || text == "false" => text == "true",
        Some(other) => return Err(format!("block is {other}, neither true nor false")),
    };
    let only = names(&object, "tables")?;
    let skipped = names(&object, "skiptables")?.unwrap_or_default();
    if only.is_some() && !skipped.is_empty() {
        return Err("tables and skiptables exclude each other".to_string());
    }
    Ok(SnapshotRequest { path, nonce, content, blocking, tables: ChosenTables { only, skipped } })
}

/// What [`from_json`] reads.
pub(super) fn to_json(request: &SnapshotRequest) -> String {
    let SnapshotRequest { path, nonce, content, blocking, tables } = request;
    let ChosenTables { only, skipped } = tables;
    let object = serde_json::json!({
        "path": path,
        "nonce": nonce,
        "format": content.word(),
        "block": blocking,
        "tables": only,
        "skiptables": skipped,
    });
    object.to_string()
}

/// The path of a URI, in which some characters are written as `%` and two digits.
fn percent_decoded(path: &str) -> Result<String, String> {
    let wrong = || format!("uripath has an escape in '{path}' that is not of UTF-8");
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| (*after.get(at)? as char).to_digit(16);
        match (*first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            (b'%', ..) => return Err(wrong()),
            (byte, ..) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn text<'o>(object: &'o Map<String, Value>, key: &str) -> Result<Option<&'o str>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{key} is {other}, no text")),
    }
}

/// A list of names, or names with commas between them.
fn names(object: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    let name = |name: &str| name.trim().to_ascii_uppercase();
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.split(',').map(name).collect())),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(name(text)),
                other => Err(format!("{key} has {other} in it, no name of a table")),
            })
            .collect::<Result<_, _>>()
            .map(Some),
        Some(other) => Err(format!("{key} is {other}, no list of tables")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_requests_are_read() {
        let from_json = |text| from_json(text, false);
        let request = from_json(
            "{\"uripath\": \"file:///tmp/a%20b%C3%A4\", \"nonce\": \"N\", \"format\": \"csv\", \
             \"block\": true, \"tables\": [\"a\", \"B\"]}",
        );
        let request = request.expect("sound");
        assert_eq!(request.path.as_deref(), Some("/tmp/a bä"));
        assert!(request.blocking && request.content == ContentKind::Csv);
        assert!(request.tables.has("A") && request.tables.has("B") && !request.tables.has("C"));
        let skipping = from_json("{\"nonce\": \"N\", \"skiptables\": \"a,b\"}").expect("sound");
        assert!(!skipping.tables.has("A") && skipping.tables.has("C"));
        for (text, problem) in [
            ("[]", "no JSON object"),
            ("{", "no JSON object"),
            ("{}", "nonce is missing"),
            ("{\"nonce\": 5}", "nonce is 5, no text"),
            ("{\"nonce\": \"N\", \"uripath\": \"/tmp\"}", "does not begin with file://"),
            ("{nonce:N,uripath:\"file:///a%2\"}", "has an escape in '/a%2'"),
            ("{nonce:N,uripath:\"file:///a%ff\"}", "has an escape in '/a%ff'"),
            ("{\"nonce\": \"N\", \"format\": \"xml\"}", "neither native nor csv"),
            ("{\"nonce\": \"N\", \"block\": 7}", "neither true nor false"),
            ("{\"nonce\": \"N\", \"tables\": [7]}", "no name of a table"),
            ("{\"nonce\": \"N\", \"tables\": [], \"skiptables\": \"a\"}", "exclude each other"),
        ] {
            let error = from_json(text).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn requests_of_voltdbs_tool_are_read() {
        let save = from_json("{block:false,format:\"native\"}", true).expect("sound");
        assert!(save.path.is_none() && !save.blocking && !save.nonce.is_empty());
        let save = "{uripath:\"file:///tmp/s\",nonce:\"N\",block:true,format:\"csv\",\
                    tables:['A', 'B']}";
        let save = from_json(save, true).expect("sound");
        assert!(save.blocking && save.tables.has("B") && !save.tables.has("C"));
        let restore = "{path:\"/tmp/s\",nonce:\"N\",hashinator:\"false\",skiptables: ['A']}";
        let restore = from_json(restore, false).expect("sound");
        assert_eq!((restore.path.as_deref(), restore.nonce.as_str()), (Some("/tmp/s"), "N"));
        assert!(!restore.tables.has("A"));
        for (text, may_choose) in [("{block:true}", false), ("{path:\"/tmp\"}", true)] {
            let error = from_json(text, may_choose).expect_err(text);
            assert!(error.contains("nonce is missing"), "{error}");
        }
    }
}
