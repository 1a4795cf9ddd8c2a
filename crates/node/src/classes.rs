//! The Java classes of a catalog: what the planner asks of them, and the code of their procedures.

use lockstep_exec::procedure::{HostedProcedure, ProcedureCode, ProcedureContext, ProcedureError};
use lockstep_jvm::{ClassKind, JavaClasses, JavaNonTransactional, JavaProcedure, JavaSettings};
use lockstep_plan::{Catalog, ClassSource, ClassUse, PlanError, ProcedureClasses};
use lockstep_plan_ir::{ProcedureDefinition, UserAggregate, UserFunction};
use std::any::Any;
use std::sync::Arc;

/// Classes in the JVM of this process, as the planner sees them.
#[derive(Debug)]
struct HostClasses(Arc<JavaClasses>);

impl ProcedureClasses for HostClasses {
    fn procedure(&self, class: &str) -> Result<ClassSource, String> {
        let found = self.0.describe(class).map_err(|error| error.message)?;
        let class_use = match found.kind {
            ClassKind::Procedure => ClassUse::Transactional,
            ClassKind::NonTransactional => ClassUse::NonTransactional,
            ClassKind::Compound => ClassUse::Compound,
            ClassKind::Other | ClassKind::Aggregate => {
                return Err(format!(
                    "Class {class} is no procedure: it does not extend VoltProcedure"
                ));
            }
        };
        // A join order that a statement states is a hint: the planner finds one by itself, from
        // what the tables hold, and the result is the same.
        let statements = found.statements.into_iter();
        let named = statements.map(|statement| (statement.name, statement.text)).collect();
        Ok(ClassSource {
            class_use,
            simple_name: found.simple_name,
            parameters: found.parameters,
            statements: named,
        })
    }

    fn function(&self, name: &str, class: &str, method: &str) -> Result<UserFunction, String> {
        lockstep_jvm::scalar_function(&self.0, name, class, method).map_err(|error| error.message)
    }

    fn aggregate(&self, name: &str, class: &str) -> Result<UserAggregate, String> {
        lockstep_jvm::aggregate_function(&self.0, name, class).map_err(|error| error.message)
    }

    fn list(&self) -> Vec<(String, bool)> {
        let is_procedure = |kind| {
            matches!(kind, ClassKind::Procedure | ClassKind::NonTransactional | ClassKind::Compound)
        };
        let classes = self.0.list().iter();
        classes.map(|class| (class.name.clone(), is_procedure(class.kind))).collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The classes of a catalog, if they are in this process.
fn of_catalog(catalog: &Catalog) -> Option<&Arc<JavaClasses>> {
    let classes = catalog.classes.as_ref()?.as_any().downcast_ref::<HostClasses>()?;
    Some(&classes.0)
}

/// The jar of all classes of a catalog, if it has any.
pub(crate) fn jar(catalog: &Catalog) -> Option<Arc<[u8]>> {
    of_catalog(catalog).map(|classes| Arc::clone(classes.jar()))
}

/// The classes of a catalog, changed: see [`JavaClasses::change`]. With `initialize`, the static
/// initializers of those that are added have to succeed.
pub(crate) fn change(
    catalog: &Catalog,
    settings: &JavaSettings,
    jar: Option<&[u8]>,
    removed: Option<&str>,
    initialize: bool,
) -> Result<Arc<dyn ProcedureClasses>, String> {
    let present = of_catalog(catalog).map(|classes| &**classes);
    let changed = JavaClasses::change(settings, present, jar, removed);
    let changed = changed.map_err(|error| error.message)?;
    if let (true, Some(jar)) = (initialize, jar) {
        changed.initialize(jar).map_err(|error| error.message)?;
    }
    Ok(Arc::new(HostClasses(Arc::new(changed))))
}

fn loaded<'c>(catalog: &'c Catalog, class: &str) -> Result<&'c Arc<JavaClasses>, PlanError> {
    let missing = || PlanError::new(format!("Cannot load class for procedure: {class}"));
    of_catalog(catalog).ok_or_else(missing)
}

/// What runs the calls of a Java procedure.
pub(crate) fn code(
    catalog: &Catalog,
    class: &str,
    definition: &ProcedureDefinition,
) -> Result<ProcedureCode, PlanError> {
    let classes = loaded(catalog, class)?;
    let procedure = JavaProcedure::new(classes, class, definition);
    let procedure = procedure.map_err(|error| PlanError::new(error.message))?;
    Ok(ProcedureCode::Hosted(Arc::new(procedure)))
}

/// What runs the calls of a procedure that is no transaction.
pub(crate) fn nontransactional(
    catalog: &Catalog,
    class: &str,
    definition: &ProcedureDefinition,
) -> Result<JavaNonTransactional, PlanError> {
    let procedure = JavaNonTransactional::new(loaded(catalog, class)?, class, definition);
    procedure.map_err(|error| PlanError::new(error.message))
}

/// The code of such a procedure at a partition, where none of its calls should come.
pub(crate) fn no_code() -> ProcedureCode {
    struct NoCode;
    impl HostedProcedure for NoCode {
        fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
            Err(ProcedureError::Unexpected(format!(
                "procedure {} is no transaction, and was called as one",
                context.procedure_name()
            )))
        }
    }
    ProcedureCode::Hosted(Arc::new(NoCode))
}
