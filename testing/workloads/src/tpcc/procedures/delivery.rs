//! Delivery [2.7].

use super::{number, parameter, value};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType, TableSchema};

/// `Delivery(warehouse, carrier)` delivers the oldest order of each of ten districts,
/// `DeliveryOfDistrict(warehouse, district, carrier)` that of one. Answers with the orders.
pub struct Delivery {
    name: &'static str,
    /// Of the whole warehouse.
    whole: bool,
    orders: TableSchema,
}

const OLDEST: usize = 0;
const ORDER: usize = 1;
const AMOUNT: usize = 2;
const DELETE: usize = 3;
const CARRIER: usize = 4;
const DATE: usize = 5;
const CUSTOMER: usize = 6;

/// Districts of a warehouse.
const DISTRICTS: usize = 10;

impl Delivery {
    /// To be registered under a name, for whole warehouses or for districts.
    pub fn new(name: &'static str, whole: bool) -> Delivery {
        let columns = [("d_id", SqlType::BigInt), ("o_id", SqlType::BigInt)];
        Delivery { name, whole, orders: TableSchema::new(&columns) }
    }
}

impl NativeProcedure for Delivery {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const W_ID: ProcedureParameter = parameter(SqlType::SmallInt);
        const D_ID: ProcedureParameter = parameter(SqlType::TinyInt);
        const CARRIER: ProcedureParameter = parameter(SqlType::Integer);
        match self.whole {
            true => const { &[W_ID, CARRIER] },
            false => const { &[W_ID, D_ID, CARRIER] },
        }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            (
                "oldest",
                "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ?
                 ORDER BY no_o_id LIMIT 1;",
            ),
            ("order", "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?;"),
            (
                "amount",
                "SELECT SUM(ol_amount) FROM order_line
                 WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;",
            ),
            ("delete", "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?;"),
            (
                "carrier",
                "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?;",
            ),
            (
                "date",
                "UPDATE order_line SET ol_delivery_d = ?
                 WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;",
            ),
            (
                "customer",
                "UPDATE customer SET c_balance = c_balance + ?,
                 c_delivery_cnt = c_delivery_cnt + 1
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let w_id = context.parameter(0);
        let (districts, carrier) = match self.whole {
            true => (1..=DISTRICTS as i64, context.parameter(1)),
            false => (number(context, 1)?..=number(context, 1)?, context.parameter(2)),
        };
        for district in districts.clone() {
            context.queue(OLDEST, &[w_id, Datum::Int(district)])?;
        }
        let mut orders = [(Datum::Null, Datum::Null); DISTRICTS];
        let mut count = 0;
        let results = context.execute()?;
        for (place, district) in districts.enumerate() {
            // A district without an order that waits is skipped.
            if let Some(Datum::Int(order)) = results.scalar(place)? {
                orders[count] = (Datum::Int(district), Datum::Int(order));
                count += 1;
            }
        }
        let orders = &orders[..count];
        for (d_id, order) in orders {
            context.queue(ORDER, &[w_id, *d_id, *order])?;
            context.queue(AMOUNT, &[w_id, *d_id, *order])?;
        }
        let mut customers = [(Datum::Null, Datum::Null); DISTRICTS];
        let results = context.execute()?;
        for (place, customer) in customers[..count].iter_mut().enumerate() {
            let id = match results.scalar(2 * place)? {
                Some(Datum::Int(id)) => Datum::Int(id),
                _ => Datum::Null,
            };
            let amount = match value(&results, 2 * place + 1, 0, 0)? {
                Some(Datum::Float(amount)) => Datum::Float(amount),
                Some(Datum::Decimal(amount)) => Datum::Decimal(amount),
                _ => Datum::Null,
            };
            *customer = (id, amount);
        }
        if customers[..count].iter().any(|(id, amount)| id.is_null() || amount.is_null()) {
            return Err(context.abort(format!("an order of warehouse {w_id} has no lines")));
        }
        let date = Datum::Timestamp(context.transaction_time_us());
        for ((d_id, order), (customer, amount)) in orders.iter().zip(&customers) {
            context.queue(DELETE, &[w_id, *d_id, *order])?;
            context.queue(CARRIER, &[carrier, w_id, *d_id, *order])?;
            context.queue(DATE, &[date, w_id, *d_id, *order])?;
            context.queue(CUSTOMER, &[*amount, w_id, *d_id, *customer])?;
        }
        context.execute()?;
        let mut rows = [[Datum::Null; 2]; DISTRICTS];
        for (row, (d_id, order)) in rows.iter_mut().zip(orders) {
            *row = [*d_id, *order];
        }
        context.return_table(&self.orders, rows[..count].iter().map(|row| &row[..]));
        Ok(())
    }
}
