//! The catalog as a host's sites use it: procedures ready to run, found by name, beside the
//! planner's view of the schema. Immutable; a schema change puts a new one in force at each
//! partition's position in its log.

use crate::routing;
use lockstep_base::map::FixedHashMap;
use lockstep_exec::PreparedStatement;
use lockstep_exec::lookup::KeyRoute;
use lockstep_exec::procedure::{PreparedProcedure, ProcedureCode};
use lockstep_exec::statement::StatementOrigin;
use lockstep_plan::{Catalog, PlanError};
use lockstep_plan_ir::lookup::question;
use lockstep_plan_ir::procedure::{ProcedureKind, ProcedurePartitioning, RoutingColumn};
use lockstep_plan_ir::{
    Execution, Expression, Function, Lookup, Node, ProcedureDefinition, TableDefinition,
};
use lockstep_types::{Failure, SqlType, TableId};
use std::sync::Arc;

/// What runs the procedures of a catalog.
pub trait ProcedureRuntime {
    /// The code of a procedure that is no transaction.
    type Outside;

    /// What runs the calls of a procedure at its partitions.
    ///
    /// # Errors
    /// There is no such code.
    fn code(
        &self,
        plan: &Catalog,
        definition: &ProcedureDefinition,
    ) -> Result<ProcedureCode, PlanError>;

    /// The code of a procedure that is no transaction.
    ///
    /// # Errors
    /// There is no such code.
    fn outside(
        &self,
        plan: &Catalog,
        definition: &ProcedureDefinition,
    ) -> Result<Self::Outside, PlanError>;
}

/// How calls of a procedure are routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// To the coordinator.
    Multi,
    /// By the hash of a parameter.
    Parameter {
        /// Which one, from 0.
        index: u16,
        /// The type of the partitioning column.
        column_type: SqlType,
    },
    /// By the hash of several parameters together: see the definition's partitioning.
    Parameters,
    /// To the entries of a global index that say it all: see [`HostProcedure::entry_key`].
    Entries,
    /// To the row that a unique global index finds: see [`HostProcedure::via`].
    Via,
    /// Only to a partition that the call names.
    Directed,
    /// To no partition: it makes calls that go to some. See [`HostProcedure::outside`].
    Outside,
}

/// Routing by a unique global index.
pub struct ViaRoute {
    /// How it is asked.
    pub route: KeyRoute,
    /// Its key columns with the parameters that hold their values.
    pub columns: Vec<RoutingColumn>,
    /// How a transaction asks it; the parameters are the key.
    pub question: Arc<PreparedStatement>,
}

impl ViaRoute {
    fn new(route: KeyRoute, columns: Vec<RoutingColumn>) -> ViaRoute {
        // Values that no row can have are asked for as well.
        let wide = |column: &RoutingColumn| match column.column_type.is_integer() {
            true => SqlType::BigInt,
            false => column.column_type,
        };
        let types: Vec<SqlType> = columns.iter().map(wide).collect();
        let entries = route.entries;
        let question = PreparedStatement::new(Arc::new(question(entries, &types)))
            .with_origin(StatementOrigin::Question { entries });
        ViaRoute { question: Arc::new(question), route, columns }
    }
}

/// A procedure, ready to run.
pub struct HostProcedure<O> {
    /// Its place in the catalog's list and in the statistics.
    pub number: u32,
    /// What the schema says of it.
    pub definition: Arc<ProcedureDefinition>,
    /// Its code.
    pub prepared: Arc<PreparedProcedure>,
    /// Where its calls go.
    pub routing: Routing,
    /// Which global index says where its calls run.
    pub via: Option<ViaRoute>,
    /// Of a procedure whose only statement reads entries of a global index, their key.
    pub entry_key: Option<Vec<RoutingColumn>>,
    /// The code of a procedure that is no transaction.
    pub outside: Option<Arc<O>>,
    /// Its calls change entries of global indexes, which may live elsewhere.
    pub keeps_global_indexes: bool,
    /// It says which partitions it is for, and changes replicated tables at all.
    pub changes_replicated: bool,
}

impl<O> HostProcedure<O> {
    /// Whether its calls may change partitions beside the one that they are routed to.
    #[inline]
    pub fn changes_elsewhere(&self) -> bool {
        self.keeps_global_indexes || self.changes_replicated
    }

    /// Whether its calls cannot be undone and run again: the log has what they did.
    #[inline]
    pub fn runs_once(&self) -> bool {
        self.definition.effects && !self.definition.read_only
    }
}

/// A catalog in force.
pub struct HostCatalog<O> {
    /// The planner's view.
    pub plan: Catalog,
    procedures: Vec<HostProcedure<O>>,
    by_name: FixedHashMap<Box<str>, u32>,
    has_global_indexes: bool,
    changes_elsewhere: bool,
    /// Calls of some procedure are logged by their effects.
    has_effects: bool,
}

impl<O> HostCatalog<O> {
    /// Makes a schema ready to run.
    ///
    /// # Errors
    /// What the runtime says of a procedure without code.
    pub fn new(
        plan: Catalog,
        runtime: &dyn ProcedureRuntime<Outside = O>,
    ) -> Result<HostCatalog<O>, PlanError> {
        let mut procedures = Vec::new();
        let mut by_name = FixedHashMap::default();
        for definition in plan.procedures.values().chain(plan.generated.values()) {
            let number = procedures.len() as u32;
            by_name.insert(definition.name.as_str().into(), number);
            if let ProcedureKind::Generated { .. } = definition.kind {
                by_name.entry(definition.name.to_ascii_uppercase().into()).or_insert(number);
            }
            procedures.push(prepare(number, definition, runtime, &plan)?);
        }
        let mut tables = plan.tables.values();
        let has_global_indexes = tables.any(|t| !t.definition.global_indexes.is_empty());
        let changes_elsewhere =
            has_global_indexes || procedures.iter().any(|procedure| procedure.changes_replicated);
        let has_effects = procedures.iter().any(|procedure| procedure.definition.effects);
        Ok(HostCatalog {
            plan,
            procedures,
            by_name,
            has_global_indexes,
            changes_elsewhere,
            has_effects,
        })
    }

    /// Whether calls of some procedure are logged by their effects.
    #[inline]
    pub fn has_effects(&self) -> bool {
        self.has_effects
    }

    /// Grows by one with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.plan.version
    }

    /// The procedure that a call names: exact, or generated and in any case.
    #[inline]
    pub fn procedure(&self, name: &str) -> Option<&HostProcedure<O>> {
        let number = match self.by_name.get(name) {
            Some(number) => number,
            None if name.contains('.') => self.by_name.get(name.to_ascii_uppercase().as_str())?,
            None => return None,
        };
        Some(&self.procedures[*number as usize])
    }

    /// The procedure that a call names: as a rule it is the one under whose number the thread that
    /// read the call counts it, but the catalog may have changed on the way.
    #[inline]
    pub fn called(&self, number: u32, name: &str) -> Option<&HostProcedure<O>> {
        match self.procedures.get(number as usize) {
            Some(procedure) if procedure.definition.name == name => Some(procedure),
            _ => self.procedure(name),
        }
    }

    /// Whether any table has a global index.
    #[inline]
    pub fn has_global_indexes(&self) -> bool {
        self.has_global_indexes
    }

    /// Whether calls that are routed to one partition may change others as well.
    #[inline]
    pub fn changes_elsewhere(&self) -> bool {
        self.changes_elsewhere
    }

    /// All procedures, in the order of their numbers.
    pub fn procedures(&self) -> &[HostProcedure<O>] {
        &self.procedures
    }
}

fn prepare<O>(
    number: u32,
    definition: &Arc<ProcedureDefinition>,
    runtime: &dyn ProcedureRuntime<Outside = O>,
    plan: &Catalog,
) -> Result<HostProcedure<O>, PlanError> {
    let code = runtime.code(plan, definition)?;
    let via = via_route(plan, definition);
    let entry_key = entry_key(definition);
    let outside = match &definition.kind {
        ProcedureKind::NonTransactional { .. } => {
            Some(Arc::new(runtime.outside(plan, definition)?))
        }
        _ => None,
    };
    let routing = match &definition.partitioning {
        None if outside.is_some() => Routing::Outside,
        None if via.is_some() => Routing::Via,
        None if entry_key.is_some() => Routing::Entries,
        None => Routing::Multi,
        Some(ProcedurePartitioning::Directed) => Routing::Directed,
        Some(ProcedurePartitioning::Columns { .. }) => Routing::Parameters,
        Some(ProcedurePartitioning::Via { .. }) => Routing::Via,
        Some(ProcedurePartitioning::Column { parameter, column_type, .. }) => {
            let column_type = routing::hashed_type(definition, *parameter, *column_type);
            Routing::Parameter { index: *parameter, column_type }
        }
    };
    Ok(HostProcedure {
        number,
        definition: Arc::clone(definition),
        prepared: Arc::new(PreparedProcedure::with_code(Arc::clone(definition), code)),
        routing,
        via,
        entry_key,
        outside,
        keeps_global_indexes: definition.keeps_global_indexes(),
        changes_replicated: definition.changes_replicated(),
    })
}

/// The key of the entries that the only statement of a procedure without a partition reads, if
/// they are at one partition.
fn entry_key(definition: &ProcedureDefinition) -> Option<Vec<RoutingColumn>> {
    let plain = definition.kind == ProcedureKind::Statements
        && definition.partitioning.is_none()
        && definition.declared.is_empty();
    let [(_, statement)] = definition.statements.as_slice() else { return None };
    let Execution::Local { routing: Some(value), .. } = &statement.execution else { return None };
    if !plain || !statement.read_only || !statement.needs_entries || Lookup::of(value).is_some() {
        return None;
    }
    let parts = match &value.node {
        Node::Call(Function::PartitionKey, parts) => parts.as_slice(),
        _ => std::slice::from_ref(value),
    };
    let column = |part: &Expression| match part.node {
        Node::Parameter(parameter)
            if part.sql_type.is_integer() || part.sql_type.is_variable_length() =>
        {
            let column = String::new();
            Some(RoutingColumn { column, column_type: part.sql_type, parameter })
        }
        _ => None,
    };
    parts.iter().map(column).collect()
}

/// The global index that routes a procedure's calls: a declared one, or that of the only
/// statement of a procedure without a partition, if it finds the statement's rows.
fn via_route(plan: &Catalog, definition: &ProcedureDefinition) -> Option<ViaRoute> {
    if let Some(ProcedurePartitioning::Via { entries, columns, .. }) = &definition.partitioning {
        return Some(ViaRoute::new(key_route(plan, *entries)?, columns.clone()));
    }
    let plain = definition.kind == ProcedureKind::Statements
        && definition.partitioning.is_none()
        && definition.declared.is_empty()
        && !definition.keeps_global_indexes();
    let [(_, statement)] = definition.statements.as_slice() else { return None };
    let Execution::Local { routing: Some(value), .. } = &statement.execution else { return None };
    let lookup = Lookup::of(value).filter(|_| plain)?;
    let entries = plan.tables.values().find(|table| table.definition.id == lookup.entries)?;
    let columns = lookup.keys.iter().zip(&entries.definition.columns).map(|(key, column)| {
        let (Node::Parameter(parameter), sql_type) = (&key.node, column.sql_type) else {
            return None;
        };
        let routes = sql_type.is_integer() || sql_type.is_variable_length();
        routes.then(|| RoutingColumn {
            column: column.name.clone(),
            column_type: sql_type,
            parameter: *parameter,
        })
    });
    let route = key_route(plan, lookup.entries)?;
    Some(ViaRoute::new(route, columns.collect::<Option<_>>()?))
}

/// How the global index with a table of entries is asked.
pub fn key_route(plan: &Catalog, entries: TableId) -> Option<KeyRoute> {
    let holds = |table: &&TableDefinition| {
        table.global_indexes.iter().any(|index| index.entries == entries)
    };
    let mut tables = plan.tables.values().map(|table| &*table.definition);
    KeyRoute::of(tables.find(holds)?, entries)
}

/// What a client gets that calls what is not there.
#[cold]
pub fn not_found(procedure: &str) -> Failure {
    Failure::unexpected(format!("Procedure {procedure} was not found"))
}
