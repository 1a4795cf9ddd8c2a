//! Every captured message means what is written beside it, and encodes back to the same bytes.

use crate::corpus::{self, Record, records};
use lockstep_base::bytes::ByteReader;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::outcome::{Outcome, Status};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Failure, Parameter, ParameterSet, TableView};
use lockstep_wire_volt::invocation::{self, CallOptions, RepeatedCall};
use lockstep_wire_volt::{
    Invocation, Login, LoginReply, LoginStatus, Response, login, next_frame, response,
};

fn body(record: &Record) -> &[u8] {
    let frame = next_frame(&record.bytes, 1000).expect("a sound length");
    let (body, consumed) = frame.unwrap_or_else(|| panic!("{} is cut off", record.name));
    assert_eq!(consumed, record.bytes.len(), "{}", record.name);
    body
}

#[test]
fn logins() {
    for record in records("login") {
        let body = body(&record);
        let mut encoded = Vec::new();
        if record.name.starts_with("reply") {
            assert_eq!(corpus::show_reply(body), record.meaning, "{}", record.name);
            if let Ok(reply) = LoginReply::decode(body) {
                reply.encode(&mut encoded);
            } else {
                let status = LoginStatus::from_code(body[1] as i8).expect("a known status");
                encoded.extend(login::refusal(status));
            }
        } else {
            assert_eq!(corpus::show_login(body), record.meaning, "{}", record.name);
            let Ok(login) = Login::decode(body) else { continue };
            login.encode(&mut encoded);
        }
        assert_eq!(encoded, record.bytes, "{}", record.name);
    }
}

#[test]
fn invocations() {
    let mut encoded_back = 0;
    for record in records("invocations") {
        assert_eq!(corpus::show_invocation(body(&record)), record.meaning, "{}", record.name);
        let Ok(call) = Invocation::decode(body(&record)) else { continue };
        let options = CallOptions {
            query_timeout_ms: call.query_timeout_ms,
            all_partition_destination: call.destination_partition,
            priority: call.priority,
            request_timeout_us: call.request_timeout_us,
        };
        let mut parameters = (call.parameters.count() as i16).to_be_bytes().to_vec();
        parameters.extend_from_slice(call.parameters.bytes());
        let mut encoded = Vec::new();
        invocation::encode(&mut encoded, call.procedure, call.client_handle, &options, &parameters);
        assert_eq!(corpus::show_invocation(&encoded[4..]), {
            record.meaning.replace(" batch", "")
        });
        encoded_back += usize::from(encoded == record.bytes);
        // A repeated call has the same bytes, each time with its own parameters.
        let mut calls = RepeatedCall::new(call.procedure, call.client_handle, &options);
        for number in [7, 8] {
            calls.parameters().bigint(number).text("again");
            let mut parameters = ParameterWriter::default();
            parameters.bigint(number).text("again");
            let (handle, name) = (call.client_handle, call.procedure);
            encoded.clear();
            invocation::encode(&mut encoded, name, handle, &options, parameters.bytes());
            assert_eq!(calls.frame(), encoded);
        }
    }
    assert_eq!(encoded_back, 7, "messages of the versions that we write keep their bytes");
}

#[test]
fn parameters() {
    for record in records("parameters") {
        let mut bytes = vec![0, 1];
        bytes.extend_from_slice(&record.bytes);
        let set = ParameterSet::new(&bytes).expect("a count");
        assert_eq!(corpus::show_parameters(set), [record.meaning], "{}", record.name);
        let mut writer = ParameterWriter::default();
        match set.get(0) {
            Some(Ok(Parameter::Scalar(sql_type, value))) => {
                writer.scalar(sql_type, value);
            }
            Some(Ok(Parameter::Array(array))) => {
                writer.array(array.element_type, &array.iter().collect::<Vec<_>>());
            }
            Some(Ok(Parameter::Table(_))) => {
                writer.table(&record.bytes[1..]);
            }
            _ => continue,
        }
        assert_eq!(writer.bytes(), bytes, "{}", record.name);
    }
}

#[test]
fn tables() {
    for record in records("tables") {
        let mut reader = ByteReader::new(&record.bytes);
        let table = TableView::read(&mut reader).expect("a table");
        assert_eq!(corpus::show_table(&table), record.meaning, "{}", record.name);
        assert_eq!(reader.remaining(), 0, "{}", record.name);
    }
}

#[test]
fn responses() {
    for record in records("responses") {
        assert_eq!(corpus::show_response(body(&record)), record.meaning, "{}", record.name);
        let read = Response::decode(body(&record)).expect("a response");
        let mut outcome = Outcome::success(read.table_count);
        outcome.application_status = read.application_status;
        outcome.application_text = read.application_text.map(str::to_string);
        let mut success_text = read.status_text;
        if !read.is_success() {
            let message = success_text.take().unwrap_or_default();
            outcome.failure = Some(Failure::new(Status::UserAbort, message));
        }
        let tables = tables_of(&record, &read);
        let mut out = b"before".to_vec();
        let start = response::begin(&mut out);
        out.extend_from_slice(tables);
        let handle = read.client_handle;
        let round_trip = Elapsed::from_ms(read.round_trip_ms as u64);
        response::finish_with_text(&mut out, start, handle, &outcome, success_text, round_trip);
        assert_eq!(out[6..], record.bytes, "{}", record.name);
        if success_text.is_none() {
            out.truncate(start);
            response::begin(&mut out);
            out.extend_from_slice(tables);
            response::finish(&mut out, start, handle, &outcome, round_trip);
            assert_eq!(out[6..], record.bytes, "{}", record.name);
        }
    }
}

/// The bytes of a captured response's tables: what stands after everything else.
fn tables_of<'a>(record: &'a Record, read: &Response<'_>) -> &'a [u8] {
    let texts = [read.status_text, read.application_text];
    let texts: usize = texts.iter().flatten().map(|text| 4 + text.len()).sum();
    &record.bytes[response::PREFIX_BYTES + texts..]
}
