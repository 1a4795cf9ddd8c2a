//! Reads `corpus/wire` and renders what its records mean.

use lockstep_types::{Parameter, ParameterSet, TableView};
use lockstep_wire_volt::{Invocation, Login, LoginReply, Response};

/// One captured message.
pub struct Record {
    pub name: String,
    pub bytes: Vec<u8>,
    pub meaning: String,
}

pub fn records(file: &str) -> Vec<Record> {
    let text = match file {
        "login" => include_str!("../../../../corpus/wire/login.txt"),
        "invocations" => include_str!("../../../../corpus/wire/invocations.txt"),
        "parameters" => include_str!("../../../../corpus/wire/parameters.txt"),
        "responses" => include_str!("../../../../corpus/wire/responses.txt"),
        "tables" => include_str!("../../../../corpus/wire/tables.txt"),
        other => panic!("no file {other} in corpus/wire"),
    };
    let mut records = Vec::new();
    let (mut name, mut digits) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(hex) = line.strip_prefix("  ") {
            digits.extend(hex.chars().filter(|c| !c.is_whitespace()));
        } else if let Some(meaning) = line.strip_prefix("= ").or(line.strip_prefix('=')) {
            let bytes = from_hex(&std::mem::take(&mut digits));
            records.push(Record { name: name.clone(), bytes, meaning: meaning.into() });
        } else {
            name = line.to_string();
        }
    }
    assert!(records.len() > 1, "{file} has records");
    records
}

pub fn from_hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2), "whole bytes: {digits}");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

pub fn show_login(body: &[u8]) -> String {
    match Login::decode(body) {
        Err(status) => format!("refused {}", status.code()),
        Ok(login) => format!(
            "version {} {:?} {:?} user {:?} digest {} bytes",
            login.version,
            login.scheme,
            login.service,
            login.user,
            login.digest.len()
        ),
    }
}

pub fn show_reply(body: &[u8]) -> String {
    match LoginReply::decode(body) {
        Err(error) => error.to_string(),
        Ok(reply) => format!(
            "host {} connection {} cluster {} {} build {:?}",
            reply.host_id,
            reply.connection_id,
            reply.cluster_timestamp_ms,
            reply.leader_address,
            reply.build
        ),
    }
}

pub fn show_invocation(body: &[u8]) -> String {
    let call = match Invocation::decode(body) {
        Ok(call) => call,
        Err(rejection) => {
            let handle = rejection.client_handle.map_or("whole".into(), |h| h.to_string());
            return format!("rejected {handle}: {rejection}");
        }
    };
    let parameters: Vec<String> = show_parameters(call.parameters);
    let mut text = format!("{} {} ({})", call.procedure, call.client_handle, parameters.join(", "));
    if let Some(timeout) = call.query_timeout_ms {
        text += &format!(" timeout {timeout} ms");
    }
    if call.all_partition {
        text += " all-partition";
    }
    if let Some(partition) = call.destination_partition {
        text += &format!(" destination {partition}");
    }
    if call.batch_call {
        text += " batch";
    }
    if let Some(priority) = call.priority {
        text += &format!(" priority {priority}");
    }
    if let Some(timeout) = call.request_timeout_us {
        text += &format!(" patience {timeout} us");
    }
    text
}

pub fn show_parameters(parameters: ParameterSet<'_>) -> Vec<String> {
    parameters
        .iter()
        .map(|parameter| match parameter {
            Err(error) => format!("error: {error}"),
            Ok(Parameter::Scalar(sql_type, value)) => format!("{sql_type} {value}"),
            Ok(Parameter::Array(array)) => {
                let elements: Vec<String> = array.iter().map(|e| e.to_string()).collect();
                format!("{} [{}]", array.element_type, elements.join(" "))
            }
            Ok(Parameter::Table(table)) => show_table(&table),
        })
        .collect()
}

pub fn show_table(table: &TableView<'_>) -> String {
    let names = match table.column_names() {
        Ok(names) => names,
        Err(error) => return format!("error: {error}"),
    };
    let column = |(i, name): (usize, &&str)| format!("{name} {}", table.column_type(i));
    let columns: Vec<String> = names.iter().enumerate().map(column).collect();
    let mut text = format!("{}:", columns.join(", "));
    for row in table.rows() {
        let mut values = Vec::new();
        match row.and_then(|row| row.read_into(&mut values)) {
            Err(error) => text += &format!(" error: {error}"),
            Ok(()) => {
                let values: Vec<String> = values.iter().map(|v| v.to_string()).collect();
                text += &format!(" ({})", values.join(", "));
            }
        }
    }
    text
}

pub fn show_response(body: &[u8]) -> String {
    let response = match Response::decode(body) {
        Ok(response) => response,
        Err(error) => return format!("error: {error}"),
    };
    let quoted = |text: Option<&str>| text.map_or(String::new(), |text| format!(" {text:?}"));
    let mut text = format!(
        "{} status {}{} application {}{} after {} ms",
        response.client_handle,
        response.status,
        quoted(response.status_text),
        response.application_status,
        quoted(response.application_text),
        response.round_trip_ms
    );
    for table in response.tables() {
        text += "; ";
        text += &table.map_or_else(|e| format!("error: {e}"), |table| show_table(&table));
    }
    text
}
