//! Stock-Level [2.8].

use super::parameter;
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// `StockLevel(warehouse, district, threshold)`: of the items of the district's last 20 orders, how
/// many have less in stock than the threshold.
pub struct StockLevel;

const NEXT_ORDER: usize = 0;
const LOW: usize = 1;

/// Orders that are looked at.
const ORDERS: i64 = 20;

impl NativeProcedure for StockLevel {
    fn name(&self) -> &str {
        "StockLevel"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const {
            &[
                parameter(SqlType::SmallInt),
                parameter(SqlType::TinyInt),
                parameter(SqlType::Integer),
            ]
        }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("nextOrder", "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?;"),
            (
                "low",
                "SELECT COUNT(DISTINCT ol_i_id) FROM order_line, stock
                 WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= ?
                 AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?;",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let [w_id, d_id, threshold] = [0, 1, 2].map(|place| context.parameter(place));
        context.queue(NEXT_ORDER, &[w_id, d_id])?;
        let next = match context.execute()?.scalar(0)? {
            Some(Datum::Int(next)) => next,
            _ => return Err(context.abort(format!("there is no district {w_id}, {d_id}"))),
        };
        let (below, from) = (Datum::Int(next), Datum::Int(next - ORDERS));
        context.queue(LOW, &[w_id, d_id, below, from, w_id, threshold])?;
        context.execute()?;
        context.return_result(0)
    }
}
