//! What is written is read back, and limits hold.

use lockstep_base::elapsed::Elapsed;
use lockstep_types::outcome::NO_APPLICATION_STATUS;
use lockstep_types::{Datum, Failure, Outcome, SqlType, Status, TableBuilder, TableSchema};
use lockstep_wire_volt::{Response, next_frame, response};

fn one_table(out: &mut Vec<u8>, value: i64) {
    let schema = TableSchema::new(&[("", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(value)]);
    table.finish();
}

fn scalars(response: &Response<'_>) -> Vec<i64> {
    let scalar = |table: lockstep_types::TableView<'_>| match table.scalar() {
        Ok(Some(Datum::Int(value))) => value,
        other => panic!("a BIGINT: {other:?}"),
    };
    response.tables().map(|table| scalar(table.expect("a table"))).collect()
}

#[test]
fn responses_follow_each_other_in_one_buffer() {
    let mut out = Vec::new();
    for handle in 0..4i64 {
        let start = response::begin(&mut out);
        one_table(&mut out, handle * 10);
        one_table(&mut out, handle * 10 + 1);
        let mut outcome = Outcome::success(2);
        if handle == 1 {
            outcome.application_status = 5;
            outcome.application_text = Some("note".into());
        }
        if handle == 2 {
            outcome.failure = Some(Failure::graceful("no such row"));
        }
        response::finish(&mut out, start, handle, &outcome, Elapsed::from_ms(3));
    }
    response::write_simple(
        &mut out,
        4,
        Status::UnexpectedFailure,
        Some("Procedure X was not found"),
    );
    response::write_simple(&mut out, 5, Status::Success, None);
    let mut rest = &out[..];
    let mut handles = Vec::new();
    while let Some((body, consumed)) = next_frame(rest, 1000).expect("sound lengths") {
        let read = Response::decode(body).expect("a response");
        handles.push(read.client_handle);
        match read.client_handle {
            1 => {
                assert_eq!(read.application_status, 5);
                assert_eq!(read.application_text, Some("note"));
                assert_eq!(scalars(&read), [10, 11]);
            }
            2 => {
                assert_eq!(read.status, Status::GracefulFailure.code());
                assert_eq!(read.status_text, Some("no such row"));
                assert_eq!((read.table_count, read.tables().count()), (0, 0));
            }
            4 => assert_eq!(read.status_text, Some("Procedure X was not found")),
            5 => assert!(read.is_success() && read.status_text.is_none()),
            handle => {
                assert!(read.is_success());
                assert_eq!(read.application_status, NO_APPLICATION_STATUS);
                assert_eq!(scalars(&read), [handle * 10, handle * 10 + 1]);
                assert_eq!(read.round_trip_ms, 3);
            }
        }
        rest = &rest[consumed..];
    }
    assert_eq!(handles, [0, 1, 2, 3, 4, 5]);
    assert!(rest.is_empty());
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let mut out = Vec::new();
    let text = "é".repeat(response::MAX_TEXT_BYTES);
    response::write_simple(&mut out, 1, Status::GracefulFailure, Some(&format!("x{text}")));
    let read = Response::decode(&out[4..]).expect("a response");
    assert_eq!(read.status_text.map(str::len), Some(response::MAX_TEXT_BYTES - 1));
}

#[test]
fn a_result_over_the_limit_names_both_sizes() {
    assert_eq!(response::check_size(100, 100), Ok(()));
    let failure = response::check_size(101, 100).expect_err("over the limit");
    assert_eq!(failure.status, Status::GracefulFailure);
    assert!(failure.message.contains("101 bytes is over the limit of 100 bytes"));
}
