//! Probe: a procedure that does what a client library must be able to see: application status
//! and text, several result tables, an abort after a write. Beside it, one procedure that only
//! reads and one that only deletes.

use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// The table that `Probe` writes to.
pub const SCHEMA: &str = "\
CREATE TABLE probe (k BIGINT NOT NULL, PRIMARY KEY (k));
PARTITION TABLE probe ON COLUMN k;
";

/// `Probe(key, application status, application text, abort message)`: inserts the key, sets the
/// status if there is one, then aborts if there is a message. Otherwise it answers with the key
/// and, in a second table, the number of rows with that key.
pub struct Probe;

/// Inserts a key.
pub(crate) const INSERT_TEXT: &str = "INSERT INTO probe (k) VALUES (?);";
const INSERT: usize = 0;
const COUNT: usize = 1;

const fn parameter(sql_type: SqlType) -> ProcedureParameter {
    ProcedureParameter { sql_type, is_array: false }
}

impl NativeProcedure for Probe {
    fn name(&self) -> &str {
        "Probe"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const PARAMETERS: &[ProcedureParameter] = &[
            parameter(SqlType::BigInt),
            parameter(SqlType::TinyInt),
            parameter(SqlType::Varchar),
            parameter(SqlType::Varchar),
        ];
        PARAMETERS
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("insertKey", INSERT_TEXT), ("countKey", "SELECT COUNT(*) AS n FROM probe WHERE k = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let key = context.parameter(0);
        context.queue(INSERT, &[key])?;
        context.execute()?;
        if let Datum::Int(status) = context.parameter(1) {
            let text = match context.parameter(2) {
                Datum::Text(text) => Some(text.to_string()),
                _ => None,
            };
            let status = i8::try_from(status)
                .map_err(|_| context.abort(format!("status {status} is not a TINYINT")))?;
            context.set_application_status(status, text);
        }
        if let Datum::Text(message) = context.parameter(3) {
            return Err(context.abort(message));
        }
        context.queue(COUNT, &[key])?;
        context.execute()?;
        if let Datum::Int(number) = key {
            context.return_scalar(number);
        }
        context.return_result(0)
    }
}

/// `ProbeCount(key)`: how many rows have that key.
pub struct ProbeCount;

impl NativeProcedure for ProbeCount {
    fn name(&self) -> &str {
        "ProbeCount"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const { &[parameter(SqlType::BigInt)] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("countKey", "SELECT COUNT(*) AS n FROM probe WHERE k = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        context.queue(0, &[context.parameter(0)])?;
        context.execute()?;
        context.return_result(0)
    }
}

/// `ProbeClear(key)`: deletes the rows with that key, and does nothing else.
pub struct ProbeClear;

impl NativeProcedure for ProbeClear {
    fn name(&self) -> &str {
        "ProbeClear"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const { &[parameter(SqlType::BigInt)] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("clearKey", "DELETE FROM probe WHERE k = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        context.queue(0, &[context.parameter(0)])?;
        context.execute()?;
        context.return_result(0)
    }
}
