//! Responses to the transactions that the control thread itself orders.

use lockstep_types::{Datum, Failure, Status};
use lockstep_wire_volt::Response;

/// Bytes of a frame's length.
pub(super) const LENGTH_BYTES: usize = 4;

/// The count in the only row of a response, or why the transaction failed.
pub(super) fn read_count(status: Status, frame: &[u8]) -> Result<i64, Failure> {
    let body = frame.get(LENGTH_BYTES..).unwrap_or_default();
    let response = Response::decode(body).expect("a site of this host wrote the response");
    if !response.is_success() {
        return Err(Failure::new(status, response.status_text.unwrap_or_default()));
    }
    let table = response.tables().next().expect("a count comes in a table");
    match table.and_then(|table| table.scalar()) {
        Ok(Some(Datum::Int(count))) => Ok(count),
        other => unreachable!("a count is one integer, not {other:?}"),
    }
}
