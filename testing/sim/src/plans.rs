//! What clients ask for, and how a catalog in force turns it into work for partitions.

use crate::classes::SimClasses;
use crate::{classes, power, walk};
use lockstep_exec::lookup::{KeyRoute, lookups};
use lockstep_exec::procedure::{NativeProcedure, PreparedProcedure};
use lockstep_exec::statement::StatementOrigin;
use lockstep_exec::{PreparedStatement, routing_value};
use lockstep_plan::{
    Catalog, GlobalIndexBuild, NativeProcedures, NativeSource, PlanContext, SchemaChange,
    plan_statement,
};
use lockstep_plan_ir::procedure::{ProcedureKind, ProcedurePartitioning};
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{Execution, Statement, StorageChange, TableDefinition};
use lockstep_site::{
    BoundStatement, Home, MultiWork, OneRoundCall, OneRoundCalls, OneRoundRequest, StatementCall,
    TableSwap,
};
use lockstep_sql::ast::ParsedStatement;
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{
    Datum, HashRing, ParameterSet, PartitionId, SqlType, TableBuilder, TableSchema,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The text of a statement.
pub type Sql = Arc<str>;

/// What a client asks for. It is planned with whatever catalog is in force where it arrives.
#[derive(Debug, Clone)]
pub enum Request {
    /// Ad hoc statements with their parameters, one transaction.
    Statements(Vec<(Sql, Vec<i64>)>),
    /// A call of a procedure.
    Procedure {
        /// Its name.
        name: &'static str,
        /// Keys of the partitions that it declares; of one that runs at one partition, its key.
        keys: Vec<i64>,
        /// A parameter set.
        parameters: Arc<[u8]>,
    },
    /// Ad hoc statements at a partition that the client names: reads of replicated tables.
    At(PartitionId, Sql),
    /// Rows of a table in bulk, by its first columns; the others get no value.
    Load(&'static str, Vec<Vec<i64>>),
}

/// Work of one catalog version, for one partition.
#[derive(Debug, Clone)]
pub(crate) enum LocalWork {
    Statements(StatementCall),
    Procedure {
        name: &'static str,
        parameters: Arc<[u8]>,
    },
    /// The statement of the table's generated procedure, and a table of rows.
    Load(Arc<PreparedStatement>, Arc<[u8]>),
    /// A call of a procedure that an index leads to its row, and the key.
    Led {
        name: &'static str,
        parameters: Arc<[u8]>,
        key: i64,
    },
}

/// Where a request goes.
pub(crate) enum Planned {
    Partition(PartitionId, LocalWork),
    Multi { declared: Vec<PartitionId>, home: Option<Home>, work: MultiWork<u64> },
    OneRound(Arc<OneRoundCall>),
}

/// A catalog with its procedures ready to run.
pub(crate) struct SimCatalog {
    pub(crate) plan: Catalog,
    procedures: BTreeMap<String, Arc<PreparedProcedure>>,
    /// Of procedures that an index leads to their row, how it is asked.
    routes: BTreeMap<String, KeyRoute>,
    /// Statements that were planned before.
    statements: BTreeMap<Sql, Arc<PreparedStatement>>,
}

/// The procedures of the simulator's workloads.
pub(crate) struct Natives(BTreeMap<String, Arc<dyn NativeProcedure>>);

impl Natives {
    /// The seed is for the one that does not do the same twice.
    pub(crate) fn new(seed: u64) -> Natives {
        let named = |procedure: Arc<dyn NativeProcedure>| (procedure.name().to_string(), procedure);
        let all = walk::procedures().into_iter().chain(power::procedures(seed));
        Natives(all.map(named).collect())
    }
}

impl NativeProcedures for Natives {
    fn find(&self, name: &str) -> Option<NativeSource> {
        let procedure = self.0.get(name)?;
        let statement = |s: &(&str, &str)| (s.0.to_string(), s.1.to_string());
        Some(NativeSource {
            parameters: procedure.parameters().to_vec(),
            statements: procedure.statements().iter().map(statement).collect(),
        })
    }
}

/// A change of the catalog, as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Ddl(&'a str),
    /// The global index that a statement creates is declared.
    BeginIndex(&'a str),
    /// It comes into force, or is taken away.
    EndIndex(&'a str, bool),
    /// Two tables exchange their contents.
    Swap(&'a str, &'a str),
    /// The classes are of this version.
    Classes(i64),
}

impl<'a> Change<'a> {
    pub(crate) fn encode(&self) -> Arc<[u8]> {
        let made;
        let (mark, text) = match *self {
            Change::Swap(one, other) => {
                made = format!("{one} {other}");
                ("s", &*made)
            }
            Change::Classes(version) => {
                made = version.to_string();
                ("j", &*made)
            }
            Change::Ddl(text) => ("d", text),
            Change::BeginIndex(text) => ("b", text),
            Change::EndIndex(index, true) => ("k", index),
            Change::EndIndex(index, false) => ("t", index),
        };
        [mark, text].concat().into_bytes().into()
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Change<'a>> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.get(1..)?;
        Some(match text.as_bytes()[0] {
            b'd' => Change::Ddl(rest),
            b'b' => Change::BeginIndex(rest),
            b'k' => Change::EndIndex(rest, true),
            b't' => Change::EndIndex(rest, false),
            b's' => rest.split_once(' ').map(|(one, other)| Change::Swap(one, other))?,
            b'j' => Change::Classes(rest.parse().ok()?),
            _ => return None,
        })
    }
}

/// A catalog behind a change, and what sites have to do for it.
pub(crate) struct Made {
    pub(crate) catalog: SimCatalog,
    pub(crate) changes: Vec<StorageChange>,
    pub(crate) swap: Option<TableSwap>,
}

fn parsed(ddl: &str) -> Vec<ParsedStatement> {
    parse_batch(ddl, &Limits::default()).expect("the workload's DDL is sound")
}

impl SimCatalog {
    pub(crate) fn new(plan: Catalog, natives: &Natives) -> SimCatalog {
        let prepare = |definition: &Arc<_>| -> (String, Arc<PreparedProcedure>) {
            let definition: &Arc<lockstep_plan_ir::ProcedureDefinition> = definition;
            let native = match &definition.kind {
                ProcedureKind::Native(name) => natives.0.get(name).cloned(),
                _ => None,
            };
            let prepared = match (&definition.kind, &plan.classes) {
                (ProcedureKind::Java(_), Some(of)) => {
                    PreparedProcedure::with_code(Arc::clone(definition), classes::code(&**of))
                }
                _ => PreparedProcedure::new(Arc::clone(definition), native),
            };
            (definition.name.clone(), Arc::new(prepared))
        };
        let procedures = plan.procedures.values().map(prepare).collect();
        let routed = |definition: &Arc<lockstep_plan_ir::ProcedureDefinition>| {
            let Some(ProcedurePartitioning::Via { entries, .. }) = &definition.partitioning else {
                return None;
            };
            let mut tables = plan.tables.values();
            let route = tables.find_map(|table| KeyRoute::of(&table.definition, *entries));
            Some((definition.name.clone(), route.expect("its index is there")))
        };
        let routes = plan.procedures.values().filter_map(routed).collect();
        SimCatalog { plan, procedures, routes, statements: BTreeMap::new() }
    }

    /// Makes a change.
    pub(crate) fn make(&self, change: &Change<'_>, natives: &Natives) -> Made {
        let mut swap = None;
        let made = match change {
            Change::Ddl(text) => self.plan.apply(&parsed(text), natives),
            Change::BeginIndex(text) => self.plan.begin_global_index(&parsed(text), natives),
            Change::EndIndex(index, keep) => self.plan.end_global_index(index, *keep, natives),
            Change::Classes(version) => {
                self.plan.change_classes(Arc::new(SimClasses(*version)), natives)
            }
            Change::Swap(one, other) => {
                swap = Some(self.swap_of(one, other));
                let version = self.plan.version + 1;
                let catalog = Catalog { version, ..self.plan.clone() };
                Ok(SchemaChange { catalog, changes: Vec::new(), advice: Vec::new() })
            }
        };
        let made = made.expect("it can be applied");
        Made { catalog: SimCatalog::new(made.catalog, natives), changes: made.changes, swap }
    }

    /// The tables that change their contents, those of the entries of their global indexes too.
    fn swap_of(&self, one: &str, other: &str) -> TableSwap {
        let [one, other] = [one, other].map(|name| {
            &self.plan.table(name).expect("the workload's tables are there").definition
        });
        let mut pairs = vec![(one.id, other.id)];
        let entries = one.global_indexes.iter().zip(&other.global_indexes);
        pairs.extend(entries.map(|(one, other)| (one.entries, other.entries)));
        TableSwap { pairs, replicated: one.is_replicated() }
    }

    /// The version of its classes, if it has any.
    pub(crate) fn classes(&self) -> Option<i64> {
        let classes = self.plan.classes.as_ref()?.as_any().downcast_ref::<SimClasses>()?;
        Some(classes.0)
    }

    /// What is built by a statement that creates a global index.
    pub(crate) fn build_of(&self, ddl: &str) -> GlobalIndexBuild {
        self.plan.build_of(&parsed(ddl)).expect("it creates a global index")
    }

    /// The statement that rows of a table are loaded by.
    pub(crate) fn load_statement(&self, procedure: &str) -> Option<Arc<PreparedStatement>> {
        let definition = Arc::clone(self.plan.procedure(procedure)?);
        let statement = Arc::clone(&definition.statements.first()?.1);
        let origin = StatementOrigin::Procedure { definition, number: 0 };
        Some(Arc::new(PreparedStatement::new(statement).with_origin(origin)))
    }

    /// Where rows of a table go, and how.
    fn plan_load(&self, table: &str, rows: &[Vec<i64>], ring: &HashRing) -> Planned {
        let found = self.plan.table(table).expect("the workload's tables are there");
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

    pub(crate) fn procedure(&self, name: &str) -> &Arc<PreparedProcedure> {
        self.procedures.get(name).expect("the workload's procedures are there")
    }

    pub(crate) fn route(&self, name: &str) -> Option<&KeyRoute> {
        self.routes.get(name)
    }

    /// Whether work must not run behind something undecided, because it cannot run again.
    pub(crate) fn runs_once(&self, work: &LocalWork) -> bool {
        let (LocalWork::Procedure { name, .. } | LocalWork::Led { name, .. }) = work else {
            return false;
        };
        let definition = self.procedure(name).definition();
        definition.effects && !definition.read_only
    }

    /// The number under which a partition logs a procedure's calls.
    pub(crate) fn procedure_number(&self, name: &str) -> u32 {
        self.procedures.keys().take_while(|other| *other != name).count() as u32
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<PreparedProcedure>> {
        self.procedures.get(name)
    }

    pub(crate) fn prepare(&mut self, sql: &Sql) -> Arc<PreparedStatement> {
        if let Some(prepared) = self.statements.get(sql) {
            return Arc::clone(prepared);
        }
        let parsed = parse_batch(sql, &Limits::default()).expect("the workload's SQL is sound");
        let planned = plan_statement(&self.plan, &parsed[0], PlanContext::MultiPartition);
        let planned = planned.unwrap_or_else(|error| panic!("{sql} can be planned: {error:?}"));
        let prepared = Arc::new(PreparedStatement::new(Arc::new(planned)));
        self.statements.insert(Arc::clone(sql), Arc::clone(&prepared));
        prepared
    }

    /// Plans a request: for one partition where that is enough.
    pub(crate) fn plan(
        &mut self,
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
                let only = only_partition(&statements, ring);
                let call = statement_call(statements);
                match only {
                    Some(partition) => Planned::Partition(partition, LocalWork::Statements(call)),
                    None => {
                        let work = MultiWork::Statements(call);
                        Planned::Multi { declared: Vec::new(), home: None, work }
                    }
                }
            }
            Request::At(partition, sql) => {
                let call = statement_call(vec![self.bind(sql, &[])]);
                Planned::Partition(*partition, LocalWork::Statements(call))
            }
            Request::Load(table, rows) => self.plan_load(table, rows, ring),
            Request::Procedure { name, keys, parameters } => {
                let owner = |key: &i64| ring.partition_of(Datum::Int(*key));
                let parameters = Arc::clone(parameters);
                let prepared = self.procedure(name);
                let procedure = Arc::clone(prepared);
                let mut declared: Vec<PartitionId> = keys.iter().map(owner).collect();
                let mut home = None;
                if procedure.definition().is_single_partition() {
                    let partition = declared.pop().expect("it is called with its key");
                    // The key of rows, or of an index's entries: a single one is hashed alike.
                    if self.routes.contains_key(*name) {
                        let key = keys[0];
                        let work = LocalWork::Led { name, parameters, key };
                        return Planned::Partition(partition, work);
                    }
                    // What it changes may have entries elsewhere.
                    if ring.partition_count() == 1 || !keeps_index(&procedure) {
                        let work = LocalWork::Procedure { name, parameters };
                        return Planned::Partition(partition, work);
                    }
                    home = Some(Home { partition, addresses_partition: false });
                }
                let request = OneRoundRequest {
                    procedure: &procedure,
                    procedure_number: 0,
                    catalog_version: self.plan.version,
                    time_limit: None,
                    declared: &declared,
                    home,
                    invocation: &parameters,
                    parameters_at: 0,
                    near: PartitionId(0),
                };
                match one_rounds.make(&request, ring) {
                    Some(call) => Planned::OneRound(call),
                    None => {
                        let work = MultiWork::Procedure { procedure, parameters };
                        Planned::Multi { declared, home, work }
                    }
                }
            }
        }
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
    StatementCall { statements, read_only, counted: false, answer: None }
}

/// Whether a procedure changes what global indexes hold.
pub(crate) fn keeps_index(procedure: &PreparedProcedure) -> bool {
    let mut statements = procedure.statements().iter();
    statements.any(|statement| statement.statement().upkeep != IndexUpkeep::None)
}

/// Whether a statement changes what global indexes hold.
pub(crate) fn keeps_index_of(statement: &Statement) -> bool {
    statement.upkeep != IndexUpkeep::None
}

fn only_partition(bound: &[BoundStatement], ring: &HashRing) -> Option<PartitionId> {
    let mut common = None;
    for statement in bound {
        // The entries of an index live elsewhere.
        let planned = statement.statement.statement();
        let keeps_index = planned.upkeep != IndexUpkeep::None;
        if keeps_index && ring.partition_count() > 1 {
            return None;
        }
        // Where its rows are is asked of a global index first.
        if !lookups(planned).is_empty() {
            return None;
        }
        let Execution::Local { routing: Some(routing), .. } = &planned.execution else {
            return None;
        };
        let given = ParameterSet::new(&statement.parameters).expect("written above");
        let value = routing_value(&statement.statement, routing, given).expect("integers route");
        let partition = ring.partition_of(value.as_datum());
        if common.is_some_and(|other| other != partition) {
            return None;
        }
        common = Some(partition);
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_with_a_known_index_entry_is_a_call_of_one_round() {
        let natives = Natives::new(0);
        let ddl = "CREATE TABLE indexed (s_id BIGINT NOT NULL, sub_nbr VARCHAR(15) NOT NULL,
              location INTEGER, PRIMARY KEY (s_id));
            PARTITION TABLE indexed ON COLUMN s_id;
            CREATE GLOBAL UNIQUE INDEX sub_nbr_idx ON indexed (sub_nbr);";
        let made = SimCatalog::new(Catalog::default(), &natives).make(&Change::Ddl(ddl), &natives);
        let mut generated = made.catalog.plan.generated.values();
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
