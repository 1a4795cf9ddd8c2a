//! Schema changes: DDL statements to the next catalog and the sites' steps.
//!
//! A batch is applied statement by statement to a draft of the catalog. What depends on the
//! whole batch comes at its end, once: views are bound again, uniqueness is held against the
//! partitioning, procedures are planned again, and the difference between the old catalog and
//! the new becomes the steps that sites carry out.

mod alter;
mod classes;
mod column;
mod difference;
mod drop;
mod function;
pub(crate) mod generated;
mod global_index;
pub(crate) mod index;
mod local_data;
mod message;
mod partition;
mod procedure;
pub(crate) mod roles;
mod row_limit;
mod table;
pub(crate) mod task;
mod ttl;
mod view;

use crate::advice::partition_advice;
use crate::catalog::{Catalog, CatalogTable, NativeProcedures, ProcedureClasses, SchemaChange};
use crate::error::PlanError;
use crate::query::not_found_message;
use lockstep_plan_ir::StorageChange;
use lockstep_plan_ir::change::ColumnSource;
use lockstep_sql::ast::{CreateRole, Name, ParsedStatement, Statement, StatementKind};
use lockstep_types::TableId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use global_index::{begin_global_index, build_of, end_global_index};
pub(crate) use partition::{may_partition, routes};

use message::{ddl_error, not_supported, table_error};

/// Most tables and views of a database.
const MAX_TABLES: usize = 10_000;
/// Most procedures that are declared.
const MAX_PROCEDURES: usize = 20_000;
/// Most roles that are declared.
const MAX_ROLES: usize = 10_000;
/// Most tasks that are declared.
const MAX_TASKS: usize = 10_000;

/// See [`Catalog::apply`].
pub(crate) fn apply(
    catalog: &Catalog,
    statements: &[ParsedStatement],
    natives: &dyn NativeProcedures,
) -> Result<SchemaChange, PlanError> {
    let mut draft = Draft::new(catalog, natives);
    for statement in statements {
        draft.statement(statement)?;
    }
    draft.finish()
}

/// See [`Catalog::apply_with_ids`].
pub(crate) fn apply_with_ids(
    catalog: &Catalog,
    statements: &[ParsedStatement],
    natives: &dyn NativeProcedures,
    ids: &BTreeMap<String, TableId>,
) -> Result<SchemaChange, PlanError> {
    let mut draft = Draft::new(catalog, natives);
    draft.given_ids = ids.clone();
    draft.taken.extend(ids.values().copied());
    for statement in statements {
        draft.statement(statement)?;
    }
    draft.finish()
}

/// See [`Catalog::change_classes`].
pub(crate) fn change_classes(
    catalog: &Catalog,
    classes: Arc<dyn ProcedureClasses>,
    natives: &dyn NativeProcedures,
) -> Result<SchemaChange, PlanError> {
    let mut draft = Draft::new(catalog, natives);
    draft.catalog.classes = Some(classes);
    draft.check_removed_classes()?;
    draft.finish()
}

/// A catalog that is being changed.
struct Draft<'a> {
    /// What is in force.
    old: &'a Catalog,
    /// What will be.
    catalog: Catalog,
    /// The procedures linked into the binary.
    natives: &'a dyn NativeProcedures,
    /// Tables that must be empty, with what is said if they are not.
    require_empty: Vec<StorageChange>,
    /// Where the columns of altered tables come from, seen from the catalog in force.
    columns: BTreeMap<TableId, Vec<ColumnSource>>,
    /// Table ids that are taken, also those of dropped tables: they are free in the next batch.
    taken: BTreeSet<TableId>,
    /// The ids that new tables of these names get; others get one that is free.
    given_ids: BTreeMap<String, TableId>,
}

impl<'a> Draft<'a> {
    fn new(old: &'a Catalog, natives: &'a dyn NativeProcedures) -> Draft<'a> {
        let mut catalog = old.clone();
        catalog.version = old.version.saturating_add(1);
        Draft {
            old,
            catalog,
            natives,
            require_empty: Vec::new(),
            columns: BTreeMap::new(),
            taken: old.tables.values().map(|table| table.definition.id).collect(),
            given_ids: BTreeMap::new(),
        }
    }

    fn statement(&mut self, parsed: &ParsedStatement) -> Result<(), PlanError> {
        match &parsed.statement {
            Statement::CreateTable(create) => self.create_table(parsed, create),
            Statement::AlterTable(alter) => self.alter_table(parsed, alter),
            Statement::CreateIndex(create) if create.global => self.create_global_index(create),
            Statement::CreateIndex(create) => self.create_index(parsed, create),
            Statement::CreateView(create) => self.create_view(parsed, create),
            Statement::PartitionTable(partition) => self.partition_table(parsed, partition),
            Statement::ReplicateTable(table) => self.replicate_table(table),
            Statement::PartitionProcedure(partition) => self.partition_procedure(parsed, partition),
            Statement::CreateProcedure(create) => self.create_procedure(parsed, create),
            Statement::CreateFunction(create) => self.create_function(parsed, create),
            Statement::CreateRole(create) => self.create_role(create),
            Statement::CreateTask(create) => self.create_task(create),
            Statement::AlterTask(alter) => self.alter_task(alter),
            Statement::Drop(drop) => self.drop_object(parsed, drop),
            other => Err(refusal(parsed, other)),
        }
    }

    fn create_role(&mut self, create: &CreateRole) -> Result<(), PlanError> {
        const PERMISSIONS: [&str; 8] = [
            "ADHOC",
            "SYSPROC",
            "DEFAULTPROCREAD",
            "DEFAULTPROC",
            "SQLREAD",
            "SQL",
            "ALLPROC",
            "ADMIN",
        ];
        let name = &create.name;
        let built_in = matches!(name.as_str(), "ADMINISTRATOR" | "USER");
        if built_in || self.catalog.roles.contains_key(name.as_str()) {
            return Err(ddl_error(
                name.span,
                format!("Role name \"{}\" in CREATE ROLE statement already exists.", name.text),
            ));
        }
        let mut permissions = Vec::new();
        for permission in &create.permissions {
            let upper = permission.text.to_ascii_uppercase();
            if !PERMISSIONS.contains(&upper.as_str()) {
                return Err(ddl_error(
                    permission.span,
                    format!(
                        "Invalid permission \"{}\" in CREATE ROLE statement: \"{}\", \
                         available permissions: {}",
                        permission.text,
                        name.text,
                        PERMISSIONS.join(",")
                    ),
                ));
            }
            permissions.push(upper);
        }
        self.catalog.roles.insert(name.text.clone(), permissions);
        Ok(())
    }

    /// An id for a new table of this name: that no table has, nor had before this batch.
    fn take_table_id(&mut self, name: &str) -> TableId {
        if let Some(given) = self.given_ids.remove(name) {
            return given;
        }
        let mut id = 0;
        while self.taken.contains(&TableId(id)) {
            id += 1;
        }
        self.taken.insert(TableId(id));
        TableId(id)
    }

    /// The table or view of a name, or `object not found`.
    fn find_table(&self, name: &Name) -> Result<&Arc<CatalogTable>, PlanError> {
        let found = self.catalog.tables.get(name.as_str());
        let visible = found.filter(|table| table.definition.entries_of.is_none());
        visible.ok_or_else(|| self.unknown_table(name))
    }

    /// The error for a table that is not there, with the nearest name there is.
    fn unknown_table(&self, name: &Name) -> PlanError {
        let tables = self.catalog.visible_names();
        table_error(name.span, not_found_message(&name.text, &name.text, tables))
    }

    /// As [`Draft::find_table`], to be changed.
    fn find_table_mut(&mut self, name: &Name) -> Result<&mut CatalogTable, PlanError> {
        self.find_table(name)?;
        let table = self.catalog.tables.get_mut(name.as_str());
        Ok(Arc::make_mut(table.expect("it was found right above")))
    }

    /// Whether an index has this name.
    fn index_name_is_taken(&self, name: &str) -> bool {
        self.catalog.tables.values().any(|table| {
            table.definition.indexes.iter().any(|index| index.name == name)
                || table.global_sources.iter().any(|index| index.name == name)
        })
    }

    /// Refuses a name that a table or view has.
    fn require_new_table_name(&self, name: &Name) -> Result<(), PlanError> {
        require_free(name, self.catalog.tables.contains_key(name.as_str()))
    }

    /// Refuses a name that an index has. Tables have names of their own.
    fn require_new_index_name(&self, name: &Name) -> Result<(), PlanError> {
        require_free(name, self.index_name_is_taken(name.as_str()))
    }

    fn check_limits(&self) -> Result<(), PlanError> {
        let limits = [
            ("tables and views", self.catalog.tables.len(), MAX_TABLES),
            ("procedures", self.catalog.sources.len(), MAX_PROCEDURES),
            ("roles", self.catalog.roles.len(), MAX_ROLES),
            ("tasks", self.catalog.tasks.len(), MAX_TASKS),
        ];
        match limits.into_iter().find(|(_, count, limit)| count > limit) {
            Some((what, count, limit)) => {
                Err(PlanError::new(format!("The schema has {count} {what} (max is {limit})")))
            }
            None => Ok(()),
        }
    }

    /// What there is to say about procedures and tables that is new with this change.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        for (name, procedure) in &self.catalog.procedures {
            let old = self.old.procedures.get(name);
            if old.is_some_and(|old| Arc::ptr_eq(old, procedure)) {
                continue;
            }
            let before = old.and_then(|old| partition_advice(old, self.old));
            let now = partition_advice(procedure, &self.catalog);
            advice.extend(now.filter(|now| before.as_ref() != Some(now)));
            let before = old.and_then(|old| local_data::advice(old));
            let now = local_data::advice(procedure);
            advice.extend(now.filter(|now| before.as_ref() != Some(now)));
        }
        advice.extend(self.ttl_advice());
        advice.extend(self.role_advice());
        advice
    }

    /// Completes the draft.
    fn finish(mut self) -> Result<SchemaChange, PlanError> {
        self.check_limits()?;
        self.load_functions_again()?;
        self.bind_views_again()?;
        self.settle_global_indexes()?;
        self.check_partitioned_tables()?;
        self.check_ttls()?;
        self.plan_row_limits()?;
        self.plan_generated()?;
        self.plan_procedures()?;
        self.check_tasks()?;
        let builds = self.new_global_indexes();
        let advice = self.advice();
        let mut changes =
            difference::steps(self.old, &self.catalog, self.require_empty, &self.columns);
        changes.extend(
            builds
                .into_iter()
                .map(|(index, table)| StorageChange::BuildGlobalIndex { table, index }),
        );
        Ok(SchemaChange { catalog: self.catalog, changes, advice })
    }
}

fn require_free(name: &Name, taken: bool) -> Result<(), PlanError> {
    unquoted(name)?;
    match taken {
        true => {
            let reason = format!("object name already exists: {}", name.text);
            Err(table_error(name.span, reason))
        }
        false => Ok(()),
    }
}

/// What is said about the statements that the server does not carry out.
fn refusal(parsed: &ParsedStatement, statement: &Statement) -> PlanError {
    let span = parsed.span;
    match statement {
        Statement::CreateStream(_) => not_supported(span, "Streams"),
        Statement::AlterStream(alter) => {
            table_error(span, format!("object not found: {}", alter.stream.text))
        }
        Statement::DrTable(_) | Statement::Set(_) => {
            not_supported(span, "Database replication settings")
        }
        _ if parsed.kind() == StatementKind::Ddl => not_supported(span, "Such statements"),
        _ => PlanError::at(span, "DDL mixed with DML and queries is unsupported."),
    }
}

/// Refuses a quoted name: VoltDB takes them in queries only.
fn unquoted(name: &Name) -> Result<(), PlanError> {
    match name.quoted {
        true => Err(table_error(name.span, format!("unexpected token: {}", name.text))),
        false => Ok(()),
    }
}
