//! The five transactions of TPC-C as native procedures [2.4 to 2.8], and what they share.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub use delivery::Delivery;
pub use new_order::NewOrder;
pub use order_status::OrderStatus;
pub use payment::Payment;
pub use stock_level::StockLevel;

use lockstep_exec::procedure::{BatchResults, NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, Decimal, SqlType};
use std::sync::Arc;

/// All of them, under the names that the schema uses.
pub fn all() -> Vec<Arc<dyn NativeProcedure>> {
    vec![
        Arc::new(NewOrder::new("NewOrder")),
        Arc::new(NewOrder::new("NewOrderRemote")),
        Arc::new(Payment { name: "Payment" }),
        Arc::new(Payment { name: "PaymentRemote" }),
        Arc::new(OrderStatus),
        Arc::new(Delivery::new("Delivery", true)),
        Arc::new(Delivery::new("DeliveryOfDistrict", false)),
        Arc::new(StockLevel),
    ]
}

const fn parameter(sql_type: SqlType) -> ProcedureParameter {
    ProcedureParameter { sql_type, is_array: false }
}

const fn list(sql_type: SqlType) -> ProcedureParameter {
    ProcedureParameter { sql_type, is_array: true }
}

/// A parameter that is a number.
fn number(context: &ProcedureContext<'_>, place: usize) -> Result<i64, ProcedureError> {
    match context.parameter(place) {
        Datum::Int(number) => Ok(number),
        _ => Err(context.abort(format!("parameter {place} is NULL"))),
    }
}

/// The value of a row's column, by the row's place.
fn value<'b>(
    results: &BatchResults<'b>,
    table: usize,
    row: usize,
    column: usize,
) -> Result<Option<Datum<'b>>, ProcedureError> {
    let damaged =
        |error: lockstep_types::table::DecodeError| ProcedureError::Unexpected(error.to_string());
    match results.table(table)?.rows().nth(row) {
        None => Ok(None),
        Some(row) => row.and_then(|row| row.get(column)).map(Some).map_err(damaged),
    }
}

/// A price taken N times.
fn times(price: Datum<'_>, count: i64) -> Option<Datum<'static>> {
    match price {
        Datum::Float(price) => Some(Datum::Float(price * count as f64)),
        Datum::Decimal(price) => {
            let units = price.units().checked_mul(i128::from(count))?;
            Decimal::from_units(units).map(Datum::Decimal)
        }
        _ => None,
    }
}

/// An amount or a rate as a double.
fn as_double(value: Datum<'_>) -> f64 {
    match value {
        Datum::Float(value) => value,
        Datum::Decimal(value) => value.to_f64(),
        _ => 0.0,
    }
}

/// A text that outlives its results: up to 32 bytes, as all texts here that are handed on.
#[derive(Clone, Copy)]
struct ShortText {
    bytes: [u8; 32],
    length: usize,
}

impl ShortText {
    const EMPTY: ShortText = ShortText { bytes: [0; 32], length: 0 };

    fn of(value: Option<Datum<'_>>) -> ShortText {
        let mut text = ShortText::EMPTY;
        if let Some(Datum::Text(value)) = value {
            text.push(value);
        }
        text
    }

    /// Appends what has space.
    fn push(&mut self, text: &str) {
        let end = self.length + text.len();
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(text.as_bytes());
            self.length = end;
            return;
        }
        for character in text.chars() {
            let end = self.length + character.len_utf8();
            let Some(place) = self.bytes.get_mut(self.length..end) else { return };
            character.encode_utf8(place);
            self.length = end;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Of customers with the same last name, ordered by first name, the place of the middle one,
/// rounded up [2.5.2.2].
fn middle(count: u32) -> usize {
    (count as usize).saturating_sub(1) / 2
}
