//! What runs the procedures of this process's catalogs, and the options that concern sites.

use crate::classes;
use crate::options::{Milliseconds, Options};
use lockstep_exec::procedure::{NativeProcedure, ProcedureCode};
use lockstep_host::catalog::ProcedureRuntime;
use lockstep_jvm::{JavaNonTransactional, JavaSettings};
use lockstep_plan::{Catalog, NativeProcedures, NativeSource, PlanError};
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_plan_ir::procedure::ProcedureKind;
use lockstep_site::{Faults, SiteLimits, StopEverything};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A catalog in force.
pub type HostCatalog = lockstep_host::catalog::HostCatalog<JavaNonTransactional>;
/// A procedure of it, ready to run.
pub type HostProcedure = lockstep_host::catalog::HostProcedure<JavaNonTransactional>;

/// The procedures that are linked into this binary.
#[derive(Clone, Default)]
pub struct NativeRegistry {
    procedures: BTreeMap<String, Arc<dyn NativeProcedure>>,
}

impl NativeRegistry {
    /// Adds a procedure under its own name.
    pub fn register(&mut self, procedure: Arc<dyn NativeProcedure>) {
        self.procedures.insert(procedure.name().to_string(), procedure);
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn NativeProcedure>> {
        self.procedures.get(name)
    }
}

impl ProcedureRuntime for NativeRegistry {
    type Outside = JavaNonTransactional;

    fn code(
        &self,
        plan: &Catalog,
        definition: &ProcedureDefinition,
    ) -> Result<ProcedureCode, PlanError> {
        match &definition.kind {
            ProcedureKind::Native(name) => {
                let missing = || {
                    let text = format!("native procedure {name} is not linked into this binary");
                    PlanError::new(text)
                };
                Ok(ProcedureCode::Native(Arc::clone(self.get(name).ok_or_else(missing)?)))
            }
            ProcedureKind::Java(class) => classes::code(plan, class, definition),
            ProcedureKind::NonTransactional { .. } => Ok(classes::no_code()),
            ProcedureKind::Statements | ProcedureKind::Generated { .. } => {
                Ok(ProcedureCode::Statements)
            }
        }
    }

    fn outside(
        &self,
        plan: &Catalog,
        definition: &ProcedureDefinition,
    ) -> Result<JavaNonTransactional, PlanError> {
        match &definition.kind {
            ProcedureKind::NonTransactional { class, .. } => {
                classes::nontransactional(plan, class, definition)
            }
            _ => Err(PlanError::new(format!("procedure {} is a transaction", definition.name))),
        }
    }
}

impl NativeProcedures for NativeRegistry {
    fn find(&self, name: &str) -> Option<NativeSource> {
        let procedure = self.get(name)?;
        let statement = |s: &(&str, &str)| (s.0.to_string(), s.1.to_string());
        Some(NativeSource {
            parameters: procedure.parameters().to_vec(),
            statements: procedure.statements().iter().map(statement).collect(),
        })
    }
}

/// Whether transactions over several partitions stop all partitions: in builds to compare with.
#[cfg(feature = "faults")]
fn stop_everything(options: &Options) -> StopEverything {
    options.stop_everything
}

#[cfg(not(feature = "faults"))]
fn stop_everything(_: &Options) -> StopEverything {
    StopEverything::Never
}

/// The options that concern sites.
pub fn site_limits(options: &Options) -> SiteLimits {
    SiteLimits {
        held_calls_max: options.max_held_calls.to_usize(),
        speculative_calls_max: options.max_speculative_calls.to_usize(),
        speculative_bytes_max: options.max_speculative_bytes.to_usize(),
        waiting_multi_calls_max: options.max_waiting_multi.to_usize(),
        transaction_timeout: options.transaction_timeout_ms.map(Milliseconds::duration),
        write_timeout: options.write_timeout_ms.map(Milliseconds::duration),
        active_multi_calls_max: options.max_active_multi.to_usize(),
        stop_everything: stop_everything(options),
        result_bytes_max: options.max_response_bytes.to_usize(),
        temporary_bytes_max: options.max_temporary_bytes.to_usize(),
        batch_rows_min: options.min_batch_rows.get(),
        faults: Faults::default(),
        undo_bytes_max: options.max_undo_bytes.get(),
        entry_changes_bytes_max: options.max_entry_changes_bytes.to_usize(),
        digests: options.replica_digests.is_on(),
    }
}

/// How the JVM is started, if it is; `more`: further options for it.
pub fn java_settings(options: &Options, more: &[String]) -> JavaSettings {
    JavaSettings {
        heap_bytes_max: options.java_heap_bytes.get(),
        call_limit: options.java_call_limit_ms.map(Milliseconds::duration),
        stuck_limit: options.java_stuck_limit_ms.duration(),
        nontransactional_threads_max: options.max_nontransactional_threads.to_u32(),
        batch_bytes_max: options.max_java_batch_bytes.get(),
        options: more.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn limits_of_sites_and_of_the_jvm_have_the_durations_of_the_options() {
        let mut options = Options::default();
        let timeouts = ["transaction_timeout_ms=1500", "write_timeout_ms=0"];
        let of_java = ["java_call_limit_ms=0", "java_stuck_limit_ms=2500"];
        for text in timeouts.iter().chain(&of_java) {
            options.set(text).expect("an option within its range");
        }
        let limits = site_limits(&options);
        assert_eq!(limits.transaction_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(limits.write_timeout, None, "0 is no limit");
        let settings = java_settings(&options, &["-Xlog:gc".to_string()]);
        assert_eq!(settings.call_limit, None, "0 is no limit");
        assert_eq!(settings.stuck_limit, Duration::from_millis(2500));
        assert_eq!(settings.options, ["-Xlog:gc"]);
    }
}
