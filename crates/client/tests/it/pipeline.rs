//! Many calls in flight on one thread.

use crate::stub;
use lockstep_client::{
    Call, ClientError, Completion, ConnectOptions, ConnectionIndex, ParameterWriter, Pipeline,
};
use lockstep_types::Datum;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(100);

fn echo(value: i64) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(value);
    parameters
}

fn value(completion: &Completion<'_>) -> i64 {
    let response = completion.result.as_ref().expect("a response");
    match response.tables().next().unwrap().unwrap().scalar().unwrap() {
        Some(Datum::Int(value)) => value,
        other => panic!("a BIGINT: {other:?}"),
    }
}

/// Polls until nothing is in flight.
fn drain(pipeline: &mut Pipeline, mut each: impl FnMut(&Completion<'_>)) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while pipeline.in_flight() > 0 {
        assert!(Instant::now() < deadline, "{} calls in flight", pipeline.in_flight());
        pipeline.poll(STEP, |completion, _| each(&completion)).unwrap();
    }
}

#[test]
fn every_call_of_a_closed_loop_completes_with_its_own_answer() {
    const CALLS: u64 = 20_000;
    let server = stub::start(777);
    let mut pipeline = Pipeline::new(&ConnectOptions::default()).unwrap();
    let mut submitted = 0;
    for _ in 0..4 {
        let connection = pipeline.connect(&server.address).unwrap();
        for _ in 0..16 {
            let parameters = echo(submitted as i64);
            let call = Call::new("Echo", parameters.bytes(), Instant::now());
            pipeline.submit(connection, &Call { context: submitted, ..call }).unwrap();
            submitted += 1;
        }
    }
    let mut seen = vec![false; CALLS as usize];
    let mut parameters = ParameterWriter::default();
    while pipeline.in_flight() > 0 {
        pipeline
            .poll(STEP, |completion, outgoing| {
                assert_eq!(value(&completion), completion.context as i64);
                assert!(!std::mem::replace(&mut seen[completion.context as usize], true));
                if submitted < CALLS {
                    parameters.clear();
                    parameters.bigint(submitted as i64);
                    let call = Call::new("Echo", parameters.bytes(), completion.completed_at);
                    outgoing.submit(&Call { context: submitted, ..call }).unwrap();
                    submitted += 1;
                }
            })
            .unwrap();
    }
    assert!(seen.into_iter().all(|seen| seen));
}

#[test]
fn a_batch_larger_than_the_socket_takes_is_written_in_parts() {
    let server = stub::start(0);
    let options = ConnectOptions { max_in_flight: 400, ..ConnectOptions::default() };
    let mut pipeline = Pipeline::new(&options).unwrap();
    let connection = pipeline.connect(&server.address).unwrap();
    let mut parameters = ParameterWriter::default();
    parameters.text(&"x".repeat(100_000));
    for _ in 0..400 {
        let call = Call::new("EchoText", parameters.bytes(), Instant::now());
        pipeline.submit(connection, &call).unwrap();
    }
    let call = Call::new("EchoText", parameters.bytes(), Instant::now());
    let error = pipeline.submit(connection, &call).unwrap_err();
    assert!(matches!(error, ClientError::LimitReached { limit: 400, .. }), "{error}");
    let mut answered = 0;
    drain(&mut pipeline, |completion| {
        assert!(completion.result.as_ref().is_ok_and(|response| response.is_success()));
        answered += 1;
    });
    assert_eq!(answered, 400);
}

#[test]
fn calls_on_a_lost_connection_complete_as_lost_and_others_go_on() {
    let server = stub::start(0);
    let mut pipeline = Pipeline::new(&ConnectOptions::default()).unwrap();
    let lost = pipeline.connect(&server.address).unwrap();
    let kept = pipeline.connect(&server.address).unwrap();
    let parameters = echo(9);
    for (connection, procedure) in
        [(lost, "Mute"), (lost, "Echo"), (lost, "Hang up"), (lost, "Echo"), (kept, "Echo")]
    {
        let call = Call::new(procedure, parameters.bytes(), Instant::now());
        pipeline.submit(connection, &call).unwrap();
    }
    let (mut answered, mut failed) = (Vec::new(), 0);
    drain(&mut pipeline, |completion| match &completion.result {
        Ok(_) => answered.push(completion.connection),
        Err(error) => {
            assert!(error.is_connection_lost(), "{error}");
            failed += 1;
        }
    });
    answered.sort();
    assert_eq!((answered, failed), (vec![lost, kept], 3));
    assert!(!pipeline.is_open(lost) && pipeline.is_open(kept));
    let call = Call::new("Echo", parameters.bytes(), Instant::now());
    assert!(pipeline.submit(lost, &call).is_err());
    pipeline.reconnect(lost).unwrap();
    pipeline.submit(lost, &call).unwrap();
    let mut after = 0;
    drain(&mut pipeline, |completion| after += value(completion));
    assert_eq!(after, 9);
}

#[test]
fn a_call_that_expired_frees_its_slot_and_its_late_answer_is_dropped() {
    let server = stub::start(0);
    let options = ConnectOptions { max_in_flight: 1, ..ConnectOptions::default() };
    let mut pipeline = Pipeline::new(&options).unwrap();
    let connection = pipeline.connect(&server.address).unwrap();
    let (first, second) = (echo(1), echo(2));
    let started_at = Instant::now();
    // Answered only after the next call, by when it has expired.
    pipeline.submit(connection, &Call::new("Swap", first.bytes(), started_at)).unwrap();
    pipeline.poll(Duration::ZERO, |_, _| panic!("nothing is answered")).unwrap();
    let mut expired = 0;
    let now = started_at + Duration::from_secs(9);
    pipeline.expire(now, Duration::from_secs(10), |_, _| expired += 1);
    assert_eq!(expired, 0);
    let now = started_at + Duration::from_secs(11);
    pipeline.expire(now, Duration::from_secs(10), |completion, _| {
        assert!(matches!(completion.result, Err(ClientError::TimedOut { .. })));
        assert_eq!(completion.latency, Duration::from_secs(11));
        expired += 1;
    });
    assert_eq!(expired, 1);
    let now = Instant::now();
    pipeline.submit(connection, &Call::new("Echo", second.bytes(), now)).unwrap();
    let mut values = Vec::new();
    drain(&mut pipeline, |completion| values.push(value(completion)));
    pipeline.submit(connection, &Call::new("Echo", first.bytes(), now)).unwrap();
    drain(&mut pipeline, |completion| values.push(value(completion)));
    assert_eq!(values, [2, 1]);
    assert_eq!(connection, ConnectionIndex(0));
}
