//! Statements of log entries, found or planned again.

use super::partition::Fault;
use crate::catalog::{HostCatalog, HostProcedure};
use lockstep_exec::statement::PreparedStatement;
use lockstep_plan::{PlanContext, Planning, RuleSet, plan_statement_with};
use lockstep_sql::{Limits, parse_batch};
use lockstep_txn::log_entry::StatementSource;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Plans of texts that are kept; all are forgotten when there are more.
const PLANS_KEPT: usize = 4_096;

/// A text with how it was planned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PlanKey {
    text: String,
    single_partition: bool,
    rules_off: u64,
}

/// Statements of the catalog in force that were planned before.
#[derive(Debug, Default)]
pub(super) struct ReplayedPlans {
    plans: BTreeMap<PlanKey, Arc<PreparedStatement>>,
}

impl ReplayedPlans {
    /// Another catalog is in force.
    pub(super) fn forget(&mut self) {
        self.plans.clear();
    }

    /// The statement that an entry names, or its text, planned as before it was logged.
    pub(super) fn statement<O>(
        &mut self,
        source: &StatementSource<'_>,
        catalog: &HostCatalog<O>,
        limits: &Limits,
        partition_count: u32,
    ) -> Result<Arc<PreparedStatement>, Fault> {
        match *source {
            StatementSource::Procedure { name, number } => {
                statement_of(catalog, name, number as usize)
            }
            StatementSource::Text { text, single_partition, rules_off } => {
                let key = PlanKey { text: text.to_string(), single_partition, rules_off };
                if let Some(found) = self.plans.get(&key) {
                    return Ok(Arc::clone(found));
                }
                let planned = Arc::new(plan(&key, catalog, limits, partition_count)?);
                if self.plans.len() >= PLANS_KEPT {
                    self.plans.clear();
                }
                self.plans.insert(key, Arc::clone(&planned));
                assert!(self.plans.len() <= PLANS_KEPT, "kept plans are limited");
                Ok(planned)
            }
        }
    }
}

/// The procedure that an entry names.
#[inline]
pub(super) fn procedure<'a, O>(
    catalog: &'a HostCatalog<O>,
    name: &str,
) -> Result<&'a HostProcedure<O>, Fault> {
    catalog.procedure(name).ok_or_else(|| no_procedure(name))
}

#[cold]
fn no_procedure(name: &str) -> Fault {
    Fault::Unsound(format!("there is no procedure {name}"))
}

/// A statement of a procedure, by its number.
pub(super) fn statement_of<O>(
    catalog: &HostCatalog<O>,
    name: &str,
    number: usize,
) -> Result<Arc<PreparedStatement>, Fault> {
    let procedure = procedure(catalog, name)?;
    procedure.prepared.statements().get(number).cloned().ok_or_else(|| {
        Fault::Unsound(format!("there is no statement {number} of procedure {name}"))
    })
}

/// Plans a text as it was planned before it was logged.
fn plan<O>(
    key: &PlanKey,
    catalog: &HostCatalog<O>,
    limits: &Limits,
    partition_count: u32,
) -> Result<PreparedStatement, Fault> {
    let PlanKey { text, single_partition, rules_off } = key;
    let refused =
        |error: String| Fault::Unsound(format!("the statement \"{text}\" has no plan: {error}"));
    // A step of building an index is no SQL, and neither is what deletes expired rows.
    let own = catalog.plan.cover_of_text(text);
    if let Some(own) = own.or_else(|| catalog.plan.expire_of_text(text)) {
        return Ok(PreparedStatement::for_partitions(own, partition_count));
    }
    let parsed = parse_batch(text, limits).map_err(|error| refused(error.to_string()))?;
    let [statement] = parsed.as_slice() else {
        return Err(refused(format!("it is {} statements", parsed.len())));
    };
    let planning = Planning {
        disabled_rules: RuleSet::from_bits(*rules_off),
        ..catalog.plan.planning.clone()
    };
    let context = match single_partition {
        true => PlanContext::SinglePartition,
        false => PlanContext::MultiPartition,
    };
    let planned = plan_statement_with(&catalog.plan, &planning, statement, context)
        .map_err(|error| refused(error.message))?;
    Ok(match single_partition {
        true => PreparedStatement::new(Arc::new(planned)),
        false => PreparedStatement::for_partitions(planned, partition_count),
    })
}
