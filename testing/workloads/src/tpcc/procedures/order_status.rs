//! Order-Status [2.6].

use super::{middle, parameter, value};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// `OrderStatus(warehouse, district, customer, last name)`: the customer, its last order and its
/// lines. Where the number is NULL it is the middle customer of the name.
pub struct OrderStatus;

const CUSTOMER: usize = 0;
const BY_NAME: usize = 1;
const LAST_ORDER: usize = 2;
const LINES: usize = 3;

impl NativeProcedure for OrderStatus {
    fn name(&self) -> &str {
        "OrderStatus"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const {
            &[
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
                "customer",
                "SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
            ),
            (
                "byName",
                "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?
                 ORDER BY c_first, c_id;",
            ),
            (
                "lastOrder",
                "SELECT o_id, o_carrier_id, o_entry_d FROM orders
                 WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1;",
            ),
            (
                "lines",
                "SELECT ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d
                 FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let [w_id, d_id, given, last] = [0, 1, 2, 3].map(|place| context.parameter(place));
        let mut customer = given;
        if given.is_null() {
            context.queue(BY_NAME, &[w_id, d_id, last])?;
            let results = context.execute()?;
            let count = results.row_count(0)?;
            if let Some(Datum::Int(id)) = value(&results, 0, middle(count), 0)? {
                customer = Datum::Int(id);
            }
        }
        context.queue(CUSTOMER, &[w_id, d_id, customer])?;
        context.queue(LAST_ORDER, &[w_id, d_id, customer])?;
        let results = context.execute()?;
        if results.row_count(0)? == 0 {
            let text = format!("there is no customer {customer} of {w_id}, {d_id}");
            return Err(context.abort(text));
        }
        let order = match results.scalar(1)? {
            Some(Datum::Int(order)) => Datum::Int(order),
            _ => Datum::Null,
        };
        context.return_result(0)?;
        context.return_result(1)?;
        context.queue(LINES, &[w_id, d_id, order])?;
        context.execute()?;
        context.return_result(0)
    }
}
