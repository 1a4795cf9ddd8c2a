//! Classes that procedures are made of and that change while the host runs, without a runtime for
//! them: of each version there is one procedure, which leaves the version's number.

use lockstep_exec::procedure::{HostedProcedure, ProcedureCode, ProcedureContext, ProcedureError};
use lockstep_plan::{ClassSource, ClassUse, ProcedureClasses};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_plan_ir::user::{UserAggregate, UserFunction};
use lockstep_types::Datum::Int;
use lockstep_types::{Parameter, SqlType};
use std::any::Any;
use std::sync::Arc;

/// The only class: `(account, number)`, leaves a row with the number of its version.
pub(crate) const STAMP: &str = "Stamp";

/// What the code of a version adds to the number that its statement leaves.
const OF_CODE: i64 = 1_000;

/// A version of the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimClasses(pub(crate) i64);

impl SimClasses {
    /// The jar that has this version.
    pub(crate) fn jar(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The version in a jar.
    pub(crate) fn of_jar(jar: &[u8]) -> Option<SimClasses> {
        Some(SimClasses(i64::from_le_bytes(jar.try_into().ok()?)))
    }
}

impl ProcedureClasses for SimClasses {
    fn procedure(&self, class: &str) -> Result<ClassSource, String> {
        if class != STAMP {
            return Err(format!("there is no class {class}"));
        }
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        let statement = |name: &str, text: String| (name.to_string(), text);
        let version = self.0;
        Ok(ClassSource {
            class_use: ClassUse::Transactional,
            simple_name: STAMP.to_string(),
            parameters: vec![Some(NUMBER), Some(NUMBER)],
            statements: vec![
                statement("leave", format!("INSERT INTO stamps VALUES (?, ?, {version});")),
                statement(
                    "add",
                    "UPDATE stamps SET stamp = stamp + ? WHERE account = ? AND number = ?;"
                        .to_string(),
                ),
            ],
        })
    }

    fn function(&self, _: &str, class: &str, _: &str) -> Result<UserFunction, String> {
        Err(format!("class {class} has no functions"))
    }

    fn aggregate(&self, _: &str, class: &str) -> Result<UserAggregate, String> {
        Err(format!("class {class} is no aggregate"))
    }

    fn list(&self) -> Vec<(String, bool)> {
        vec![(STAMP.to_string(), true)]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The code of a version.
pub(crate) fn code(classes: &dyn ProcedureClasses) -> ProcedureCode {
    let version = classes.as_any().downcast_ref().copied().unwrap_or(SimClasses(0));
    ProcedureCode::Hosted(Arc::new(Stamp(version.0)))
}

struct Stamp(i64);

impl HostedProcedure for Stamp {
    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let mut given = context.given().iter();
        let mut number = || match given.next() {
            Some(Ok(Parameter::Scalar(_, Int(number)))) => Int(number),
            _ => Int(-1),
        };
        let (account, call) = (number(), number());
        context.queue(0, &[account, call])?;
        context.queue(1, &[Int(self.0 * OF_CODE), account, call])?;
        context.execute()?;
        context.return_scalar(self.0 * (OF_CODE + 1));
        Ok(())
    }
}
