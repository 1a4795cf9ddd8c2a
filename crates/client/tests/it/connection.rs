//! Blocking calls.

use crate::stub;
use lockstep_client::{CallOptions, ClientError, ConnectOptions, Connection, ParameterWriter};
use lockstep_types::Value;
use lockstep_wire_volt::LoginStatus;
use lockstep_wire_volt::login::ReplyError;
use std::time::Duration;

fn quick() -> ConnectOptions {
    ConnectOptions { call_timeout: Duration::from_millis(200), ..ConnectOptions::default() }
}

fn echo(value: i64) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(value);
    parameters
}

fn only_value(response: &lockstep_client::OwnedResponse) -> Value {
    response.tables().unwrap()[0].rows[0][0].clone()
}

#[test]
fn calls_are_answered_however_the_answers_are_cut() {
    for piece in [0, 1, 3, 1000] {
        let server = stub::start(piece);
        let options = ConnectOptions::default();
        let mut connection = Connection::connect(&server.address, &options).unwrap();
        assert_eq!(connection.identity().build, "stub");
        for value in [0, -1, i64::MAX] {
            let response = connection.call("Echo", &echo(value)).unwrap();
            assert_eq!(only_value(&response), Value::Int(value));
        }
        // The stub pushes a notice after the answer to -1.
        assert!(connection.take_notices().catalog_changed);
        assert!(!connection.take_notices().catalog_changed);
    }
}

#[test]
fn a_response_larger_than_the_buffer_arrives_whole() {
    let server = stub::start(0);
    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let text = "long text ".repeat(90_000);
    let mut parameters = ParameterWriter::default();
    parameters.text(&text);
    let response = connection.call("EchoText", &parameters).unwrap();
    assert_eq!(only_value(&response), Value::Text(text.as_str().into()));

    let options = ConnectOptions { max_response_bytes: 1000, ..quick() };
    let mut connection = Connection::connect(&server.address, &options).unwrap();
    let error = connection.call("EchoText", &parameters).unwrap_err();
    assert!(matches!(&error, ClientError::Protocol(text) if text.contains("1000")), "{error}");
}

#[test]
fn responses_in_another_order_find_their_calls() {
    let server = stub::start(1);
    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let plain = CallOptions::default();
    let swap = connection.submit("Swap", echo(1).bytes(), &plain).unwrap();
    let first = connection.submit("Echo", echo(1).bytes(), &plain).unwrap();
    let second = connection.submit("Echo", echo(2).bytes(), &plain).unwrap();
    let refused = connection.wait(swap).unwrap();
    assert_eq!(refused.view().status_text, Some("Procedure Swap was not found"));
    assert_eq!(only_value(&connection.wait(second).unwrap()), Value::Int(2));
    assert_eq!(only_value(&connection.wait(first).unwrap()), Value::Int(1));
    assert!(connection.wait(first).is_err(), "a response is given out once");
}

#[test]
fn a_refused_call_is_a_response_and_a_failed_result() {
    let server = stub::start(0);
    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let response = connection.call("Fail", &ParameterWriter::default()).unwrap();
    assert_eq!((response.view().status, response.view().status_text), (-2, Some("as asked")));
    let error = response.tables().unwrap_err();
    assert_eq!(error.to_string(), "status -2: as asked");
}

#[test]
fn a_call_without_answer_times_out_and_the_connection_goes_on() {
    let server = stub::start(0);
    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let error = connection.call("Mute", &echo(1)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    assert_eq!(only_value(&connection.call("Echo", &echo(5)).unwrap()), Value::Int(5));
}

#[test]
fn lost_connections_and_refused_logins_are_told_apart() {
    let server = stub::start(0);
    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let error = connection.call("Hang up", &echo(1)).unwrap_err();
    assert!(error.is_connection_lost(), "{error}");

    let mut connection = Connection::connect(&server.address, &quick()).unwrap();
    let error = connection.call("Garbage", &echo(1)).unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");

    let options = ConnectOptions { user: "nobody".into(), ..quick() };
    let error = Connection::connect(&server.address, &options).err().unwrap();
    let expected = ReplyError::Refused(LoginStatus::AuthenticationFailure);
    assert!(matches!(error, ClientError::Login { error, .. } if error == expected));

    let error = Connection::connect("127.0.0.1:1", &quick()).err().unwrap();
    assert!(matches!(error, ClientError::Io { action: "connect to", .. }), "{error}");
}

#[test]
fn calls_in_flight_are_limited() {
    let server = stub::start(0);
    let options = ConnectOptions { max_in_flight: 2, ..quick() };
    let mut connection = Connection::connect(&server.address, &options).unwrap();
    let plain = CallOptions::default();
    connection.submit("Mute", echo(1).bytes(), &plain).unwrap();
    connection.submit("Mute", echo(1).bytes(), &plain).unwrap();
    let error = connection.submit("Mute", echo(1).bytes(), &plain).unwrap_err();
    assert!(matches!(error, ClientError::LimitReached { limit: 2, .. }), "{error}");
}
