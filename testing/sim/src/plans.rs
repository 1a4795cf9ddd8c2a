//! What clients ask for, and how a catalog in force turns it into work for partitions.

use crate::census::Census;
use crate::classes::SimClasses;
use crate::world::CallNumber;
use crate::{classes, power, walk};
use lockstep_exec::PreparedStatement;
use lockstep_exec::procedure::{NativeProcedure, ProcedureCode};
use lockstep_exec::statement::StatementOrigin;
use lockstep_host::catalog::{HostCatalog, HostProcedure, ProcedureRuntime};
use lockstep_host::destination::{Destination, declare_partitions, destination, is_misrouted};
use lockstep_host::index_hops::ViaKey;
use lockstep_host::schema::change::{CatalogChange, ChangeRuntime, PreparedChange, prepare_change};
use lockstep_host::several::{CoordinatorCall, HomeOf, SeveralCall, call_for_coordinator};
use lockstep_host::statements::{
    StatementVia, StatementsDestination, StatementsWay, statements_destination, statements_way,
};
use lockstep_plan::{
    Catalog, NativeProcedures, NativeSource, PlanContext, PlanError, ProcedureClasses,
    plan_statement,
};
use lockstep_plan_ir::procedure::ProcedureKind;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{ProcedureDefinition, TableDefinition};
use lockstep_site::{AnswerForm, BoundStatement, Home, MultiWork, OneRoundCalls, StatementCall};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{
    Datum, HashRing, ParameterSet, PartitionId, SqlType, TableBuilder, TableSchema,
};
use lockstep_wire_volt::Invocation;
use lockstep_wire_volt::invocation::{self, CallOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// The text of a statement.
pub type Sql = Arc<str>;

/// What a client asks for. It is planned with whatever catalog is in force where it arrives.
#[derive(Debug, Clone)]
pub enum Request {
    /// Ad hoc statements with their parameters, one transaction.
    Statements(Vec<(Sql, Vec<i64>)>),
    /// A call of a procedure: its invocation, as a client sends it.
    Procedure(Arc<[u8]>),
    /// Ad hoc statements at a partition that the client names: reads of replicated tables.
    At(PartitionId, Sql),
    /// Rows of a table in bulk, by its first columns; the others get no value.
    Load(&'static str, Vec<Vec<i64>>),
}

/// Work of one catalog version, for one partition.
#[derive(Debug, Clone)]
pub(crate) enum LocalWork {
    /// Statements, and how an index leads the only one to its row.
    Statements(StatementCall, Option<StatementVia>),
    /// A call of a procedure: its invocation.
    Procedure(Arc<[u8]>),
    /// The statement of the table's generated procedure, and a table of rows.
    Load(Arc<PreparedStatement>, Arc<[u8]>),
    /// The same of a procedure that an index leads to its row, the procedure's number, and what
    /// the call is led by.
    Led(Arc<[u8]>, u32, ViaKey),
}

/// Where a request goes.
pub(crate) enum Planned {
    Partition(PartitionId, LocalWork),
    Multi { declared: Vec<PartitionId>, home: Option<Home>, work: MultiWork<u64> },
    Several(CoordinatorCall<CallNumber, u64>),
}

impl Planned {
    /// How bound statements are sent.
    pub(crate) fn of_statements(
        work: StatementCall,
        destination: StatementsDestination,
        ring: &HashRing,
    ) -> Planned {
        match statements_way(ring, &work, destination) {
            StatementsWay::At(partition, via) => {
                Planned::Partition(partition, LocalWork::Statements(work, via))
            }
            StatementsWay::Several(home) => {
                Planned::Multi { declared: Vec::new(), home, work: MultiWork::Statements(work) }
            }
        }
    }
}

/// The invocation of a procedure with a parameter set, as a client sends it.
pub(crate) fn invocation_of(procedure: &str, parameters: &[u8]) -> Arc<[u8]> {
    let mut frame = Vec::new();
    invocation::encode(&mut frame, procedure, 0, &CallOptions::default(), parameters);
    frame[LENGTH_BYTES..].into()
}

/// A call that the workload made.
pub(crate) fn decoded(body: &[u8]) -> Invocation<'_> {
    Invocation::decode(body).expect("the workload writes it")
}

/// A catalog with its procedures ready to run.
pub(crate) struct SimCatalog {
    pub(crate) host: Arc<HostCatalog<NoCode>>,
    /// Statements that were planned before.
    statements: BTreeMap<Sql, Arc<PreparedStatement>>,
}

/// The procedures of the simulator's workloads.
pub(crate) struct Natives {
    named: BTreeMap<String, Arc<dyn NativeProcedure>>,
    is_serving: Arc<AtomicBool>,
}

impl Natives {
    /// The seed is for the one that does not do the same twice.
    pub(crate) fn new(seed: u64) -> Natives {
        let named = |procedure: Arc<dyn NativeProcedure>| (procedure.name().to_string(), procedure);
        let is_serving = Arc::new(AtomicBool::new(false));
        let of_power = power::procedures(seed, &is_serving);
        let all = walk::procedures().into_iter().chain(of_power);
        let all = all.chain(lockstep_workloads::tpcc::procedures::all());
        Natives { named: all.map(named).collect(), is_serving }
    }

    /// From now on calls are those of clients, and no entries of a log.
    pub(crate) fn serve(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    /// What is called next are entries of a log; gives whether it were calls of clients before.
    pub(crate) fn stop_serving(&self) -> bool {
        self.is_serving.swap(false, Ordering::Relaxed)
    }
}

impl ChangeRuntime for Natives {
    type Procedures = Natives;

    fn procedures(&self) -> &Natives {
        self
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn change_classes(
        &self,
        _: &Catalog,
        jar: Option<&[u8]>,
        _: Option<&str>,
    ) -> Result<Arc<dyn ProcedureClasses>, String> {
        let classes = jar.and_then(SimClasses::of_jar).ok_or("there is no jar of classes")?;
        Ok(Arc::new(classes))
    }
}

/// The code of procedures that are no transactions: the workloads have none.
pub(crate) enum NoCode {}

impl ProcedureRuntime for Natives {
    type Outside = NoCode;

    fn code(
        &self,
        plan: &Catalog,
        definition: &ProcedureDefinition,
    ) -> Result<ProcedureCode, PlanError> {
        match (&definition.kind, &plan.classes) {
            (ProcedureKind::Native(name), _) => match self.named.get(name) {
                Some(native) => Ok(ProcedureCode::Native(Arc::clone(native))),
                None => Err(PlanError::new(format!("there is no native procedure {name}"))),
            },
            (ProcedureKind::Java(_), Some(of)) => Ok(classes::code(&**of)),
            _ => Ok(ProcedureCode::Statements),
        }
    }

    fn outside(&self, _: &Catalog, definition: &ProcedureDefinition) -> Result<NoCode, PlanError> {
        Err(PlanError::new(format!("procedure {} has no code", definition.name)))
    }
}

impl NativeProcedures for Natives {
    fn find(&self, name: &str) -> Option<NativeSource> {
        let procedure = self.named.get(name)?;
        let statement = |s: &(&str, &str)| (s.0.to_string(), s.1.to_string());
        Some(NativeSource {
            parameters: procedure.parameters().to_vec(),
            statements: procedure.statements().iter().map(statement).collect(),
        })
    }
}

impl SimCatalog {
    pub(crate) fn new(plan: Catalog, natives: &Natives) -> SimCatalog {
        let host = HostCatalog::new(plan, natives);
        SimCatalog::of(Arc::new(host.expect("the workload's procedures have code")))
    }

    /// The same catalog as the host has it.
    pub(crate) fn of(host: Arc<HostCatalog<NoCode>>) -> SimCatalog {
        SimCatalog { host, statements: BTreeMap::new() }
    }

    /// Prepares a change that can be made.
    pub(crate) fn prepare_change(
        &self,
        change: CatalogChange<'_>,
        natives: &Natives,
    ) -> PreparedChange<NoCode> {
        let prepared = prepare_change(&self.host, natives, change, &self.host.plan.planning);
        prepared.unwrap_or_else(|failure| panic!("{change:?}: {failure}"))
    }

    /// The version of its classes, if it has any.
    pub(crate) fn classes(&self) -> Option<i64> {
        let classes = self.host.plan.classes.as_ref()?.as_any().downcast_ref::<SimClasses>()?;
        Some(classes.0)
    }

    /// The statement that rows of a table are loaded by.
    pub(crate) fn load_statement(&self, procedure: &str) -> Option<Arc<PreparedStatement>> {
        let definition = Arc::clone(self.host.plan.procedure(procedure)?);
        let statement = Arc::clone(&definition.statements.first()?.1);
        let origin = StatementOrigin::Procedure { definition, number: 0 };
        Some(Arc::new(PreparedStatement::new(statement).with_origin(origin)))
    }

    /// Where rows of a table go, and how.
    fn plan_load(&self, table: &str, rows: &[Vec<i64>], ring: &HashRing) -> Planned {
        let found = self.host.plan.table(table).expect("the workload's tables are there");
        let definition = &*found.definition;
        let statement = self.load_statement(&format!("{table}.insert"));
        let statement = statement.expect("it is generated with the table");
        let owner = |row: &Vec<i64>| {
            let column = definition.partition_columns.first();
            column.map(|column| ring.partition_of(Datum::Int(row[usize::from(*column)])))
        };
        let owners: Vec<Option<PartitionId>> = rows.iter().map(owner).collect();
        let only = owners.first().copied().flatten();
        let is_local =
            ring.partition_count() == 1 || statement.statement().upkeep == IndexUpkeep::None;
        if let Some(only) = only
            && is_local
            && owners.iter().all(|owner| *owner == Some(only))
        {
            let table = table_of(definition, rows.iter());
            return Planned::Partition(only, LocalWork::Load(statement, table.into()));
        }
        let shipped = (0..ring.partition_count()).map(|partition| {
            let is_here = |owner: &Option<PartitionId>| owner.is_none_or(|at| at.0 == partition);
            let here = rows.iter().zip(&owners).filter(|(_, owner)| is_here(owner));
            let here: Vec<&Vec<i64>> = here.map(|(row, _)| row).collect();
            if here.is_empty() { Vec::new() } else { table_of(definition, here.into_iter()) }
        });
        let bound = BoundStatement {
            statement,
            parameters: ParameterWriter::default().bytes().into(),
            shipped: Some(Arc::new(shipped.collect())),
            found: None,
            profile: None,
        };
        let work = MultiWork::Statements(statement_call(vec![bound]));
        Planned::Multi { declared: Vec::new(), home: None, work }
    }

    /// Whether work must not run after something undecided, because it cannot run again.
    pub(crate) fn runs_once(&self, work: &LocalWork) -> bool {
        let (LocalWork::Procedure(body) | LocalWork::Led(body, ..)) = work else { return false };
        self.host.procedure(decoded(body).procedure).is_some_and(HostProcedure::runs_once)
    }

    /// Whether work that was planned by another catalog finds its way again: what was planned as
    /// statements always, a call if it needs other partitions by now.
    pub(crate) fn is_misrouted(&self, work: &LocalWork, ring: &HashRing) -> bool {
        match work {
            LocalWork::Procedure(body) => is_misrouted(&self.host, ring, &decoded(body)),
            // The one that leads it looks at the version by itself.
            LocalWork::Led(..) => false,
            LocalWork::Statements(..) | LocalWork::Load(..) => true,
        }
    }

    pub(crate) fn prepare(&mut self, sql: &Sql) -> Arc<PreparedStatement> {
        if let Some(prepared) = self.statements.get(sql) {
            return Arc::clone(prepared);
        }
        let parsed = parse_batch(sql, &Limits::default()).expect("the workload's SQL is sound");
        let planned = plan_statement(&self.host.plan, &parsed[0], PlanContext::MultiPartition);
        let planned = planned.unwrap_or_else(|error| panic!("{sql} can be planned: {error:?}"));
        let prepared = Arc::new(PreparedStatement::new(Arc::new(planned)));
        self.statements.insert(Arc::clone(sql), Arc::clone(&prepared));
        prepared
    }

    /// Plans a request: for one partition where that is enough.
    pub(crate) fn plan(
        &mut self,
        call: CallNumber,
        request: &Request,
        ring: &HashRing,
        one_rounds: &mut OneRoundCalls,
    ) -> Planned {
        match request {
            Request::Statements(statements) => {
                let statements = statements
                    .iter()
                    .map(|(sql, parameters)| self.bind(sql, parameters))
                    .collect::<Vec<_>>();
                self.plan_statements(statements, ring)
            }
            Request::At(partition, sql) => {
                let call = statement_call(vec![self.bind(sql, &[])]);
                Planned::Partition(*partition, LocalWork::Statements(call, None))
            }
            Request::Load(table, rows) => self.plan_load(table, rows, ring),
            Request::Procedure(body) => self.plan_call(call, body, ring, one_rounds),
        }
    }

    /// Where bound statements go, as the planner finds it.
    pub(crate) fn plan_statements(
        &self,
        statements: Vec<BoundStatement>,
        ring: &HashRing,
    ) -> Planned {
        let given = statements.iter().map(|bound| {
            let parameters = ParameterSet::new(&bound.parameters).expect("written above");
            (&*bound.statement, parameters)
        });
        let destination = statements_destination(&self.host.plan, ring, given);
        let destination = destination.expect("integers route");
        Planned::of_statements(statement_call(statements), destination, ring)
    }

    /// Where a call goes, as the thread that read it finds it.
    fn plan_call(
        &self,
        call: CallNumber,
        body: &Arc<[u8]>,
        ring: &HashRing,
        one_rounds: &mut OneRoundCalls,
    ) -> Planned {
        let invocation = decoded(body);
        let procedure = self.host.procedure(invocation.procedure);
        let procedure = procedure.expect("the workload's procedures are there");
        let (mut declared, mut home) = (Vec::new(), HomeOf::default());
        match destination(procedure, &invocation, ring) {
            Destination::Partition(partition) => {
                return Planned::Partition(partition, LocalWork::Procedure(Arc::clone(body)));
            }
            Destination::Via(index, integer) => {
                let catalog_version = self.host.version() as u32;
                let key = ViaKey { catalog_version, integer };
                let work = LocalWork::Led(Arc::clone(body), procedure.number, key);
                return Planned::Partition(index, work);
            }
            Destination::Multi => {}
            Destination::Declared => {
                let made = declare_partitions(procedure, &invocation, ring, &mut declared);
                made.expect("the workload's parameters can be hashed");
            }
            Destination::Home(known) => home = HomeOf::known(known),
            Destination::Refused(failure) => panic!("{}: {failure:?}", invocation.procedure),
            Destination::Outside => unreachable!("the workload has no such procedures"),
        }
        let near = PartitionId(0);
        let made = self.several((call, near), body, &declared, home, (ring, one_rounds));
        Planned::Several(made)
    }

    /// A call of a procedure as the coordinator gets it, from the thread of a partition.
    pub(crate) fn several(
        &self,
        (call, near): (CallNumber, PartitionId),
        body: &[u8],
        declared: &[PartitionId],
        home: HomeOf,
        (ring, one_rounds): (&HashRing, &mut OneRoundCalls),
    ) -> CoordinatorCall<CallNumber, u64> {
        let invocation = decoded(body);
        let call_of = SeveralCall {
            invocation: &invocation,
            body,
            declared,
            number: Census::mark_of(call),
            time_limit: None,
            near,
        };
        let made = call_for_coordinator(&self.host, ring, one_rounds, &call_of, home, |_| call);
        made.expect("the workload's procedures are there")
    }

    fn bind(&mut self, sql: &Sql, parameters: &[i64]) -> BoundStatement {
        let mut writer = ParameterWriter::default();
        parameters.iter().for_each(|value| {
            writer.bigint(*value);
        });
        BoundStatement {
            statement: self.prepare(sql),
            parameters: writer.bytes().into(),
            shipped: None,
            found: None,
            profile: None,
        }
    }
}

/// A table of rows in its wire form; columns without a value are NULL.
fn table_of<'a>(definition: &TableDefinition, rows: impl Iterator<Item = &'a Vec<i64>>) -> Vec<u8> {
    let columns = definition.columns.iter().take(usize::from(definition.visible_columns));
    let named: Vec<(&str, SqlType)> = columns.map(|column| ("", column.sql_type)).collect();
    let schema = TableSchema::new(&named);
    let mut out = Vec::new();
    let mut table = TableBuilder::begin(&mut out, &schema);
    for row in rows {
        let given = row.iter().map(|value| Datum::Int(*value));
        let values: Vec<Datum<'_>> =
            given.chain(std::iter::repeat(Datum::Null)).take(named.len()).collect();
        table.row(&schema, &values);
    }
    table.finish();
    out
}

pub(crate) fn statement_call(statements: Vec<BoundStatement>) -> StatementCall {
    let read_only = statements.iter().all(|bound| bound.statement.statement().read_only);
    StatementCall { statements, read_only, answer: AnswerForm::Results }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_exec::procedure::PreparedProcedure;

    #[test]
    fn an_insert_with_a_known_index_entry_is_a_call_of_one_round() {
        let natives = Natives::new(0);
        let ddl = "CREATE TABLE indexed (s_id BIGINT NOT NULL, sub_nbr VARCHAR(15) NOT NULL,
              location INTEGER, PRIMARY KEY (s_id));
            PARTITION TABLE indexed ON COLUMN s_id;
            CREATE GLOBAL UNIQUE INDEX sub_nbr_idx ON indexed (sub_nbr);";
        let empty = SimCatalog::new(Catalog::default(), &natives);
        let made = empty.prepare_change(CatalogChange::Ddl(ddl), &natives);
        let mut generated = made.task.catalog.plan.generated.values();
        let insert = generated.find(|definition| definition.name == "INDEXED.insert");
        let insert = insert.expect("it is generated with the table");
        let procedure = PreparedProcedure::new(Arc::clone(insert), None);
        assert!(procedure.has_parts(), "{insert:#?}");
        let ring = HashRing::new(2);
        let mut writer = ParameterWriter::default();
        writer.bigint(1).text("number").integer(7);
        let given = ParameterSet::new(writer.bytes()).expect("it was written");
        let (home, mut places) = (ring.partition_of(Datum::Int(1)), Vec::new());
        let arena = lockstep_exec::arena::Arena::new();
        assert!(procedure.place_parts(given, Some(home), &ring, &arena, &mut places));
        assert_eq!(places, [home, ring.partition_of(Datum::Text("number"))]);
    }
}
