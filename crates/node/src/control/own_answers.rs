//! Responses to the transactions that the control thread itself orders.

use lockstep_types::{Datum, Failure, Status};
use lockstep_wire_volt::Response;

/// Bytes of a frame's length.
pub(super) const LENGTH_BYTES: usize = 4;

/// The count in the only row of a response, or why the transaction failed.
pub(super) fn read_count(status: Status, frame: &[u8]) -> Result<i64, Failure> {
    let unreadable = |error: String| Failure::unexpected(format!("an own answer: {error}"));
    let body = frame.get(LENGTH_BYTES..).unwrap_or_default();
    let response = Response::decode(body).map_err(|error| unreadable(error.to_string()))?;
    if !response.is_success() {
        return Err(Failure::new(status, response.status_text.unwrap_or_default()));
    }
    let first = response.tables().next();
    let Some(Ok(table)) = first else { return Err(unreadable("it has no table".to_string())) };
    let mut row = Vec::new();
    for read in table.rows().take(1) {
        let read = read.and_then(|read| read.read_into(&mut row));
        read.map_err(|error| unreadable(error.to_string()))?;
    }
    match row.first() {
        Some(Datum::Int(count)) => Ok(*count),
        _ => Err(unreadable("it has no count".to_string())),
    }
}
