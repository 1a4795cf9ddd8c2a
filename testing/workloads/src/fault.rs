//! Fault: a procedure with a defect, for tests of what a host does then.

use crate::probe;
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::SqlType;

/// `Fault(key)`: inserts the key into the table of `Probe` and panics, on its site's thread.
pub struct Fault;

/// What it says.
pub const WORDS: &str = "a defect that a test put here";

impl NativeProcedure for Fault {
    fn name(&self) -> &str {
        "Fault"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const KEY: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const { &[KEY] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("insert", probe::INSERT_TEXT)]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        context.queue(0, &[context.parameter(0)])?;
        context.execute()?;
        panic!("{WORDS}");
    }
}
