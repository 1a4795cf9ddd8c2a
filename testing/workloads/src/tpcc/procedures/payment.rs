//! Payment [2.5].

use super::{ShortText, middle, parameter, value};
use lockstep_exec::procedure::{BatchResults, NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// `Payment(warehouse, district, amount, the customer's warehouse, district, number, last name)`:
/// the customer is the one of the number or, where that is NULL, the middle one of the name.
/// Answers with the warehouse, the district and the customer as they were before.
pub struct Payment {
    /// The name under which it is registered.
    pub name: &'static str,
}

const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const BY_NAME: usize = 2;
const PAY_WAREHOUSE: usize = 3;
const PAY_DISTRICT: usize = 4;
const CUSTOMER: usize = 5;
const PAY_GOOD: usize = 6;
const PAY_BAD: usize = 7;
const HISTORY: usize = 8;

/// Columns of the customer's row.
const CREDIT: usize = 11;
const DATA: usize = 17;
/// The most bytes of a customer's data.
const DATA_BYTES: usize = 500;

impl NativeProcedure for Payment {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const {
            &[
                parameter(SqlType::SmallInt),
                parameter(SqlType::TinyInt),
                parameter(SqlType::Decimal),
                parameter(SqlType::SmallInt),
                parameter(SqlType::TinyInt),
                parameter(SqlType::Integer),
                parameter(SqlType::Varchar),
            ]
        }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            (
                "warehouse",
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse
                 WHERE w_id = ?;",
            ),
            (
                "district",
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district
                 WHERE d_w_id = ? AND d_id = ?;",
            ),
            (
                "byName",
                "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?
                 ORDER BY c_first, c_id;",
            ),
            ("payWarehouse", "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?;"),
            ("payDistrict", "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?;"),
            (
                "customer",
                "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state,
                 c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,
                 c_ytd_payment, c_payment_cnt, c_data FROM customer
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
            ),
            (
                "payGood",
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
                 c_payment_cnt = c_payment_cnt + 1
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
            ),
            (
                "payBad",
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
                 c_payment_cnt = c_payment_cnt + 1, c_data = ?
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
            ),
            (
                "history",
                "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date,
                 h_amount, h_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?);",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let parameters = [0, 1, 2, 3, 4, 5, 6].map(|place| context.parameter(place));
        let [w_id, d_id, amount, c_w_id, c_d_id, given, last] = parameters;
        context.queue(WAREHOUSE, &[w_id])?;
        context.queue(DISTRICT, &[w_id, d_id])?;
        context.queue(PAY_WAREHOUSE, &[amount, w_id])?;
        context.queue(PAY_DISTRICT, &[amount, w_id, d_id])?;
        match given {
            Datum::Null => context.queue(BY_NAME, &[c_w_id, c_d_id, last])?,
            given => context.queue(CUSTOMER, &[c_w_id, c_d_id, given])?,
        }
        let results = context.execute()?;
        let mut history = ShortText::of(results.scalar(0)?);
        history.push("    ");
        history.push(ShortText::of(results.scalar(1)?).as_str());
        let paid = |place| results.scalar(place).map(|count| count == Some(Datum::Int(1)));
        let is_known = paid(2)? && paid(3)?;
        let mut data = [0u8; DATA_BYTES];
        let (mut customer, mut credit) = (given, None);
        if given.is_null() {
            let place = middle(results.row_count(4)?);
            if let Some(Datum::Int(id)) = value(&results, 4, place, 0)? {
                customer = Datum::Int(id);
            }
        } else {
            let ids = [customer, c_d_id, c_w_id, d_id, w_id, amount];
            credit = read_credit(&results, 4, &ids, &mut data)?;
        }
        context.return_result(0)?;
        context.return_result(1)?;
        if !is_known {
            return Err(context.abort(format!("there is no district {w_id}, {d_id}")));
        }
        if given.is_null() {
            context.queue(CUSTOMER, &[c_w_id, c_d_id, customer])?;
            let ids = [customer, c_d_id, c_w_id, d_id, w_id, amount];
            credit = read_credit(&context.execute()?, 0, &ids, &mut data)?;
        }
        context.return_result(if given.is_null() { 0 } else { 4 })?;
        match credit {
            None => {
                let text = format!("there is no customer {customer} of {c_w_id}, {c_d_id}");
                return Err(context.abort(text));
            }
            Some(Credit::Good) => {
                context.queue(PAY_GOOD, &[amount, amount, c_w_id, c_d_id, customer])?;
            }
            Some(Credit::Bad(length)) => {
                let text = Datum::Text(std::str::from_utf8(&data[..length]).unwrap_or_default());
                context.queue(PAY_BAD, &[amount, amount, text, c_w_id, c_d_id, customer])?;
            }
        }
        let date = Datum::Timestamp(context.transaction_time_us());
        let text = Datum::Text(history.as_str());
        context.queue(HISTORY, &[customer, c_d_id, c_w_id, d_id, w_id, date, amount, text])?;
        context.execute().map(|_| ())
    }
}

/// A customer's credit.
enum Credit {
    Good,
    /// With N bytes of data to be written.
    Bad(usize),
}

/// The credit of the customer in a table, and what is written to it; `None` without a customer.
fn read_credit(
    results: &BatchResults<'_>,
    table: usize,
    ids: &[Datum<'_>],
    data: &mut [u8; DATA_BYTES],
) -> Result<Option<Credit>, ProcedureError> {
    if results.row_count(table)? == 0 {
        return Ok(None);
    }
    if value(results, table, 0, CREDIT)? != Some(Datum::Text("BC")) {
        return Ok(Some(Credit::Good));
    }
    let old = match value(results, table, 0, DATA)? {
        Some(Datum::Text(old)) => old,
        _ => "",
    };
    Ok(Some(Credit::Bad(bad_credit_data(ids, old, data))))
}

/// Writes the data of a customer with bad credit: what is paid in front of what was there, cut to
/// what the column takes [2.5.2.2]. Returns the length.
fn bad_credit_data(ids: &[Datum<'_>], old: &str, data: &mut [u8; DATA_BYTES]) -> usize {
    use std::io::Write;
    let mut rest = &mut data[..];
    for (place, id) in ids.iter().enumerate() {
        let separator = if place == 0 { "" } else { " " };
        // What has no room is cut, which is no failure.
        let _ = write!(rest, "{separator}{id}");
    }
    let _ = write!(rest, "|");
    let _ = rest.write_all(old.as_bytes());
    let mut length = DATA_BYTES - rest.len();
    while std::str::from_utf8(&data[..length]).is_err() {
        length -= 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_bad_credit_is_cut_to_its_column() {
        let mut data = [0; DATA_BYTES];
        let ids = [Datum::Int(7), Datum::Int(1)];
        let length = bad_credit_data(&ids, "old", &mut data);
        assert_eq!(&data[..length], b"7 1|old");
        let length = bad_credit_data(&ids, &"é".repeat(400), &mut data);
        assert_eq!((length, std::str::from_utf8(&data[..length]).is_ok()), (500, true));
        let length = bad_credit_data(&[Datum::Int(77)], &"é".repeat(400), &mut data);
        assert_eq!(length, 499);
    }
}
