//! What a client can send: a stream of frames, the first a login, the others invocations, with
//! every parameter walked to its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_types::{Parameter, ParameterSet};
use lockstep_wire_volt::invocation::{self, CallOptions};
use lockstep_wire_volt::login::MAX_LOGIN_BYTES;
use lockstep_wire_volt::{Invocation, Login, LoginReply, next_frame};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    if let Ok(Some((body, consumed))) = next_frame(rest, MAX_LOGIN_BYTES) {
        if read_login(body) {
            rest = &rest[consumed..];
        }
    }
    while let Ok(Some((body, consumed))) = next_frame(rest, 1 << 20) {
        read_invocation(body);
        rest = &rest[consumed..];
    }
    // The same bytes without a frame, so that the fuzzer need not keep lengths right.
    read_login(bytes);
    read_invocation(bytes);
    let _ = LoginReply::decode(bytes);
});

fn read_login(body: &[u8]) -> bool {
    let Ok(login) = Login::decode(body) else { return false };
    let mut again = Vec::new();
    login.encode(&mut again);
    assert_eq!(&again[4..], body, "a login has one form");
    true
}

fn read_invocation(body: &[u8]) {
    let call = match Invocation::decode(body) {
        Ok(call) => call,
        Err(rejection) => {
            assert!(!rejection.message().is_empty());
            return;
        }
    };
    walk(call.parameters);
    let options = CallOptions {
        query_timeout_ms: call.query_timeout_ms,
        all_partition_destination: call.destination_partition,
        priority: call.priority,
        request_timeout_us: call.request_timeout_us,
    };
    let mut parameters = (call.parameters.count() as i16).to_be_bytes().to_vec();
    parameters.extend_from_slice(call.parameters.bytes());
    let mut again = Vec::new();
    invocation::encode(&mut again, call.procedure, call.client_handle, &options, &parameters);
    let again = Invocation::decode(&again[4..]).expect("what was encoded is sound");
    assert_eq!(again.procedure, call.procedure);
    assert_eq!(again.client_handle, call.client_handle);
    assert_eq!(again.parameters.bytes(), call.parameters.bytes());
    assert_eq!(again.query_timeout_ms, call.query_timeout_ms);
    assert_eq!(again.destination_partition, call.destination_partition);
    assert_eq!(again.priority, call.priority);
    assert_eq!(again.request_timeout_us, call.request_timeout_us);
}

fn walk(parameters: ParameterSet<'_>) {
    let mut walked = 0;
    for parameter in parameters.iter() {
        walked += 1;
        match parameter {
            Ok(Parameter::Scalar(sql_type, value)) => {
                let _ = (sql_type.name(), value.to_string());
            }
            Ok(Parameter::Array(array)) => {
                assert_eq!(array.iter().count(), array.count as usize);
            }
            Ok(Parameter::Table(table)) => lockstep_fuzz::walk_table(&table),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(walked <= parameters.count());
}
