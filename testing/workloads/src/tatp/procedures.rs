//! The transactions of TATP that decide something, as native procedures.

use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};
use std::sync::Arc;

/// All of them, under the names that the schema uses.
pub fn all() -> Vec<Arc<dyn NativeProcedure>> {
    vec![
        Arc::new(UpdateSubscriberData),
        Arc::new(SubscriberAtPartition),
        Arc::new(InsertCallForwarding { name: "InsertCallForwarding", by_number: false }),
        Arc::new(InsertCallForwarding { name: "InsertCallForwardingByNumber", by_number: true }),
        Arc::new(DeleteCallForwardingByNumber),
    ]
}

/// What takes a transaction back that finds nothing to do.
pub const NOTHING_THERE: &str = "there is no such row";

const fn parameter(sql_type: SqlType) -> ProcedureParameter {
    ProcedureParameter { sql_type, is_array: false }
}
const BIGINT: ProcedureParameter = parameter(SqlType::BigInt);
const TINYINT: ProcedureParameter = parameter(SqlType::TinyInt);
const TEXT: ProcedureParameter = parameter(SqlType::Varchar);

const BY_NUMBER: (&str, &str) = ("byNumber", "SELECT s_id FROM subscriber WHERE sub_nbr = ?;");

/// The id of the subscriber with a number; [`BY_NUMBER`] is statement 0.
fn id_of(
    context: &mut ProcedureContext<'_>,
    number: Datum<'_>,
) -> Result<Datum<'static>, ProcedureError> {
    context.queue(0, &[number])?;
    match context.execute()?.scalar(0)? {
        Some(Datum::Int(id)) => Ok(Datum::Int(id)),
        _ => Err(context.abort(NOTHING_THERE)),
    }
}

/// `UpdateSubscriberData(subscriber, bit, facility, data)`: changes both rows or none.
struct UpdateSubscriberData;

impl NativeProcedure for UpdateSubscriberData {
    fn name(&self) -> &str {
        "UpdateSubscriberData"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const { &[BIGINT, TINYINT, TINYINT, parameter(SqlType::SmallInt)] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("bit", "UPDATE subscriber SET bit_1 = ? WHERE s_id = ?;"),
            ("data", "UPDATE special_facility SET data_a = ? WHERE s_id = ? AND sf_type = ?;"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let [id, bit, facility, data] = [0, 1, 2, 3].map(|place| context.parameter(place));
        context.queue(0, &[bit, id])?;
        context.queue(1, &[data, id, facility])?;
        let results = context.execute()?;
        if results.scalar(1)? != Some(Datum::Int(1)) {
            return Err(context.abort(NOTHING_THERE));
        }
        context.return_result(0)
    }
}

/// `SubscriberAtPartition(key of a partition, number)`: the subscriber, if that partition has it.
struct SubscriberAtPartition;

impl NativeProcedure for SubscriberAtPartition {
    fn name(&self) -> &str {
        "SubscriberAtPartition"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const { &[BIGINT, TEXT] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[BY_NUMBER]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let number = context.parameter(1);
        context.queue(0, &[number])?;
        context.execute()?;
        context.return_result(0)
    }
}

/// `InsertCallForwarding(subscriber or its number, facility, start, end, number)`: adds a
/// forwarding if the subscriber has the facility. One that is there already violates the key.
struct InsertCallForwarding {
    name: &'static str,
    by_number: bool,
}

impl NativeProcedure for InsertCallForwarding {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        match self.by_number {
            true => const { &[TEXT, TINYINT, TINYINT, TINYINT, TEXT] },
            false => const { &[BIGINT, TINYINT, TINYINT, TINYINT, TEXT] },
        }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            BY_NUMBER,
            ("facilities", "SELECT sf_type FROM special_facility WHERE s_id = ?;"),
            (
                "insert",
                "INSERT INTO call_forwarding (s_id, sf_type, start_time, end_time, numberx)
                 VALUES (?, ?, ?, ?, ?);",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let [given, facility, start, end, number] =
            [0, 1, 2, 3, 4].map(|place| context.parameter(place));
        let id = if self.by_number { id_of(context, given)? } else { given };
        context.queue(1, &[id])?;
        let mut rows = context.execute()?.table(0)?.rows();
        let is_there = rows.any(|row| row.is_ok_and(|row| row.get(0) == Ok(facility)));
        if !is_there {
            return Err(context.abort(NOTHING_THERE));
        }
        context.queue(2, &[id, facility, start, end, number])?;
        context.execute()?;
        context.return_result(0)
    }
}

/// `DeleteCallForwardingByNumber(number, facility, start)`.
struct DeleteCallForwardingByNumber;

impl NativeProcedure for DeleteCallForwardingByNumber {
    fn name(&self) -> &str {
        "DeleteCallForwardingByNumber"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const { &[TEXT, TINYINT, TINYINT] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            BY_NUMBER,
            (
                "delete",
                "DELETE FROM call_forwarding WHERE s_id = ? AND sf_type = ? AND start_time = ?;",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let [number, facility, start] = [0, 1, 2].map(|place| context.parameter(place));
        let id = id_of(context, number)?;
        context.queue(1, &[id, facility, start])?;
        context.execute()?;
        context.return_result(0)
    }
}
