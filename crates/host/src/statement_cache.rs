//! Statements that log entries and messages name, found in the catalog in force or planned as
//! they were planned before.

use crate::catalog::{HostCatalog, HostProcedure};
use crate::schema::codec::decode_saved_planning;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_plan::{PlanContext, Planning, RuleSet, plan_statement_with};
use lockstep_plan_ir::lookup::question;
use lockstep_site::codec::StatementId;
use lockstep_sql::ast::Statement;
use lockstep_sql::{Limits, parse_batch};
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
    planning: Option<Box<[u8]>>,
}

/// Statements of the catalog in force that were planned before.
#[derive(Debug, Default)]
pub struct StatementCache {
    plans: BTreeMap<PlanKey, Arc<PreparedStatement>>,
}

/// What statements are planned with.
pub struct StatementSources<'a, O> {
    /// The catalog in force.
    pub catalog: &'a HostCatalog<O>,
    /// Limits of the parser.
    pub limits: &'a Limits,
    /// Number of partitions.
    pub partition_count: u32,
}

impl StatementCache {
    /// Another catalog is in force.
    pub fn forget(&mut self) {
        self.plans.clear();
    }

    /// The statement that is named, or its text, planned as before.
    ///
    /// # Errors
    /// There is none, or it cannot be planned: why.
    pub fn statement<O>(
        &mut self,
        id: &StatementId<'_>,
        sources: &StatementSources<'_, O>,
    ) -> Result<Arc<PreparedStatement>, String> {
        match id {
            StatementId::Procedure { name, number } => {
                statement_of(sources.catalog, name, *number as usize)
            }
            StatementId::Question { entries, key } => {
                let origin = StatementOrigin::Question { entries: *entries };
                let asked = PreparedStatement::new(Arc::new(question(*entries, key)));
                Ok(Arc::new(asked.with_origin(origin)))
            }
            StatementId::Text { text, single_partition, rules_off, planning } => {
                let key = PlanKey {
                    text: (*text).to_string(),
                    single_partition: *single_partition,
                    rules_off: *rules_off,
                    planning: planning.map(Box::from),
                };
                if let Some(found) = self.plans.get(&key) {
                    return Ok(Arc::clone(found));
                }
                let planned = Arc::new(plan(&key, sources)?);
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

/// The procedure of a name.
///
/// # Errors
/// There is none.
#[inline]
pub fn procedure<'a, O>(
    catalog: &'a HostCatalog<O>,
    name: &str,
) -> Result<&'a HostProcedure<O>, String> {
    catalog.procedure(name).ok_or_else(|| no_procedure(name))
}

#[cold]
fn no_procedure(name: &str) -> String {
    format!("there is no procedure {name}")
}

/// A statement of a procedure, by its number.
///
/// # Errors
/// There is no such procedure, or no such statement of it.
pub fn statement_of<O>(
    catalog: &HostCatalog<O>,
    name: &str,
    number: usize,
) -> Result<Arc<PreparedStatement>, String> {
    let procedure = procedure(catalog, name)?;
    procedure
        .prepared
        .statements()
        .get(number)
        .cloned()
        .ok_or_else(|| format!("there is no statement {number} of procedure {name}"))
}

/// Plans a text as it was planned before.
fn plan<O>(key: &PlanKey, sources: &StatementSources<'_, O>) -> Result<PreparedStatement, String> {
    let PlanKey { text, single_partition, rules_off, planning } = key;
    let StatementSources { catalog, limits, partition_count } = *sources;
    let refused = |error: String| format!("the statement \"{text}\" has no plan: {error}");
    // A step of building an index is no SQL, and neither is what deletes expired rows.
    let own = catalog.plan.cover_of_text(text);
    if let Some(own) = own.or_else(|| catalog.plan.expire_of_text(text)) {
        return Ok(PreparedStatement::for_partitions(own, partition_count));
    }
    let mut parsed = parse_batch(text, limits).map_err(|error| refused(error.to_string()))?;
    let [statement] = parsed.as_mut_slice() else {
        return Err(refused(format!("it is {} statements", parsed.len())));
    };
    // EXPLAIN ANALYZE runs what it explains.
    if let Statement::Explain { statement: explained, .. } = &statement.statement {
        statement.statement = (**explained).clone();
    }
    let planned_with = match planning {
        Some(bytes) => decode_saved_planning(bytes)?,
        None => catalog.plan.planning.clone(),
    };
    let planned_with = Planning { disabled_rules: RuleSet::from_bits(*rules_off), ..planned_with };
    let context = match single_partition {
        true => PlanContext::SinglePartition,
        false => PlanContext::MultiPartition,
    };
    let planned = plan_statement_with(&catalog.plan, &planned_with, statement, context)
        .map_err(|error| refused(error.message))?;
    let prepared = match single_partition {
        true => PreparedStatement::new(Arc::new(planned)),
        false => PreparedStatement::for_partitions(planned, partition_count),
    };
    Ok(prepared.with_origin(StatementOrigin::Text {
        single_partition: *single_partition,
        rules_off: *rules_off,
        planning: planning.as_deref().map(Arc::from),
    }))
}
