//! The catalog: every table, view and procedure, as one immutable value.
//!
//! A schema change makes a new catalog beside the old one; the one that holds the old one keeps
//! planning and routing by it until the change is in force everywhere.

use crate::error::PlanError;
use crate::planning::Planning;
use crate::task::CatalogTask;
use crate::time_to_live::TimeToLive;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_plan_ir::{
    ProcedureDefinition, Statement, StorageChange, TableDefinition, UserAggregate, UserFunction,
};
use lockstep_sql::ast::{Expression, LimitPartitionRows, ParsedStatement};
use lockstep_types::{PartitionId, SqlType, TableId};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Everything that the schema says. Cheap to clone: the parts are shared.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Grows by one with every change.
    pub version: u64,
    /// Tables and views by upper-case name.
    pub tables: BTreeMap<String, Arc<CatalogTable>>,
    /// User procedures by name (case sensitive). Generated ones are in `generated`.
    pub procedures: BTreeMap<String, Arc<ProcedureDefinition>>,
    /// Generated procedures (`TABLE.insert` ...) by their name in upper case: they are found
    /// whatever the case.
    pub generated: BTreeMap<String, Arc<ProcedureDefinition>>,
    /// How user procedures were declared, by name, to plan them again after a change and to
    /// list them.
    pub sources: BTreeMap<String, Arc<ParsedStatement>>,
    /// Functions of users by upper-case name.
    pub functions: BTreeMap<String, Arc<CatalogFunction>>,
    /// Roles by upper-case name, with their permissions.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Scheduled calls by upper-case name.
    pub tasks: BTreeMap<String, Arc<CatalogTask>>,
    /// The Java classes that are loaded, once there were any.
    pub classes: Option<Arc<dyn ProcedureClasses>>,
    /// How procedures are planned when the schema changes.
    pub planning: Planning,
}

/// A table or view with what only the catalog needs of it.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// What sites know of it.
    pub definition: Arc<TableDefinition>,
    /// For views: the tables read, by name, and the declaring statement.
    pub view_source: Option<(Vec<String>, Arc<ParsedStatement>)>,
    /// How the indexes that SQL declared were written: in the order of the definition's list,
    /// where a view's group index stands before them and hidden indexes after.
    pub index_sources: Vec<IndexSource>,
    /// `LIMIT PARTITION ROWS` as written, to plan what makes room again after a change.
    pub row_limit_source: Option<Arc<LimitPartitionRows>>,
    /// The global indexes as declared.
    pub global_sources: Vec<GlobalIndexSource>,
    /// How long its rows live, if not for ever.
    pub time_to_live: Option<Arc<TimeToLive>>,
}

/// A function of users.
#[derive(Debug, Clone)]
pub struct CatalogFunction {
    /// What computes it.
    pub kind: FunctionKind,
    /// The class that it is of.
    pub class: String,
    /// The method; none for an aggregate function, which is a whole class.
    pub method: Option<String>,
    /// How it was declared.
    pub source: Arc<ParsedStatement>,
}

/// The kinds of functions of users.
#[derive(Debug, Clone)]
pub enum FunctionKind {
    /// Of values of one row.
    Scalar(Arc<UserFunction>),
    /// Of the values of a group.
    Aggregate(Arc<UserAggregate>),
}

/// A global index that is being built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalIndexBuild {
    /// Its name.
    pub index: String,
    /// Its table's name.
    pub table_name: String,
    /// Its table.
    pub table: TableId,
}

/// A global index as declared: columns by name, to find them again after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalIndexSource {
    /// Its name.
    pub name: String,
    /// UNIQUE.
    pub unique: bool,
    /// The key's columns.
    pub keys: Vec<String>,
    /// INCLUDE.
    pub included: Vec<String>,
    /// See [`lockstep_plan_ir::schema::GlobalIndexDefinition::building`].
    pub building: bool,
}

impl CatalogTable {
    /// Whether sites know the same of two tables; quick for one that did not change.
    pub(crate) fn is_same(&self, other: &CatalogTable) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition) || self.definition == other.definition
    }
}

/// An index as written, to bind it again after a change and to list it.
#[derive(Debug, Clone)]
pub struct IndexSource {
    /// The key: columns or expressions.
    pub keys: Vec<Expression>,
    /// The condition of a partial index.
    pub predicate: Option<Expression>,
}

/// The next catalog and what sites do to get there.
#[derive(Debug, Clone)]
pub struct SchemaChange {
    /// The catalog once the change is in force.
    pub catalog: Catalog,
    /// The steps, in order; empty when no data is concerned (procedures, roles).
    pub changes: Vec<StorageChange>,
    /// What to tell the client that made the change: how procedures could run at fewer partitions.
    pub advice: Vec<String>,
}

/// What `FROM NATIVE name` finds: the procedures that are linked into the binary.
pub trait NativeProcedures {
    /// The procedure registered under a name.
    fn find(&self, name: &str) -> Option<NativeSource>;
}

/// Java classes, loaded and ready to be used.
pub trait ProcedureClasses: fmt::Debug + Send + Sync {
    /// A procedure's class.
    ///
    /// # Errors
    /// There is none of that name, or it breaks a rule: the text for the user.
    fn procedure(&self, class: &str) -> Result<ClassSource, String>;
    /// The scalar function that is a method of a class; `name` is what SQL calls it.
    ///
    /// # Errors
    /// As for [`ProcedureClasses::procedure`].
    fn function(&self, name: &str, class: &str, method: &str) -> Result<UserFunction, String>;
    /// The aggregate function that a class is; `name` is what SQL calls it.
    ///
    /// # Errors
    /// As for [`ProcedureClasses::procedure`].
    fn aggregate(&self, name: &str, class: &str) -> Result<UserAggregate, String>;
    /// The names of all classes, and whether each is a procedure's.
    fn list(&self) -> Vec<(String, bool)>;
    /// For the client that made it.
    fn as_any(&self) -> &dyn Any;
}

/// What a procedure's class makes of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassUse {
    /// Each is a transaction.
    Transactional,
    /// None is one, but they make calls that are.
    NonTransactional,
    /// As above, in stages.
    Compound,
}

/// A procedure's class as far as planning is concerned.
#[derive(Debug, Clone)]
pub struct ClassSource {
    /// What its calls are.
    pub class_use: ClassUse,
    /// Its name without packages: the procedure's name if none is given.
    pub simple_name: String,
    /// The parameters of `run`; `None` for one that is a table.
    pub parameters: Vec<Option<ProcedureParameter>>,
    /// Names and texts of its statements.
    pub statements: Vec<(String, String)>,
}

/// A native procedure as far as planning is concerned.
#[derive(Debug, Clone)]
pub struct NativeSource {
    /// Its parameters.
    pub parameters: Vec<ProcedureParameter>,
    /// Names and texts of its statements.
    pub statements: Vec<(String, String)>,
}

impl Catalog {
    /// The table or view of a name in upper case.
    pub fn table(&self, name: &str) -> Option<&Arc<CatalogTable>> {
        self.tables.get(name)
    }

    /// Tables and views that SQL knows, in name order: all but the entries of global indexes.
    pub fn visible_tables(&self) -> impl Iterator<Item = &Arc<CatalogTable>> {
        self.tables.values().filter(|table| table.definition.entries_of.is_none())
    }

    /// The names of [`Catalog::visible_tables`].
    pub fn visible_names(&self) -> impl Iterator<Item = &str> {
        let tables = self.tables.iter();
        let visible = tables.filter(|(_, table)| table.definition.entries_of.is_none());
        visible.map(|(name, _)| name.as_str())
    }

    /// The procedure that a client's call names. Allocates nothing for names of
    /// usual length.
    pub fn procedure(&self, name: &str) -> Option<&Arc<ProcedureDefinition>> {
        self.procedures.get(name).or_else(|| self.generated_procedure(name))
    }

    /// A generated procedure, whatever the case of its name.
    fn generated_procedure(&self, name: &str) -> Option<&Arc<ProcedureDefinition>> {
        /// Longer names take the slow way.
        const SHORT: usize = 128;
        let mut short = [0; SHORT];
        match short.get_mut(..name.len()) {
            Some(upper) => {
                upper.copy_from_slice(name.as_bytes());
                upper.make_ascii_uppercase();
                self.generated.get(std::str::from_utf8(upper).ok()?)
            }
            None => self.generated.get(&name.to_ascii_uppercase()),
        }
    }

    /// Applies a batch of DDL: all of it or nothing.
    ///
    /// # Errors
    /// Names the statement that cannot be applied, and why.
    pub fn apply(
        &self,
        statements: &[ParsedStatement],
        natives: &dyn NativeProcedures,
    ) -> Result<SchemaChange, PlanError> {
        crate::schema::apply(self, statements, natives)
    }

    /// As [`Catalog::apply`], with the ids that new tables and views get, by their names: a schema
    /// that was saved comes back with the ids that it had.
    ///
    /// # Errors
    /// Names the statement that cannot be applied, and why.
    pub fn apply_with_ids(
        &self,
        statements: &[ParsedStatement],
        natives: &dyn NativeProcedures,
        ids: &BTreeMap<String, TableId>,
    ) -> Result<SchemaChange, PlanError> {
        crate::schema::apply_with_ids(self, statements, natives, ids)
    }

    /// The global indexes whose building has begun and not ended.
    pub fn builds(&self) -> impl Iterator<Item = GlobalIndexBuild> {
        self.tables.values().flat_map(|table| {
            let building = table.global_sources.iter().filter(|index| index.building);
            building.map(|index| GlobalIndexBuild {
                index: index.name.clone(),
                table_name: table.definition.name.clone(),
                table: table.definition.id,
            })
        })
    }

    /// What a CREATE GLOBAL INDEX by itself, on a table that is there, builds; `None` for any
    /// other statements.
    pub fn build_of(&self, statements: &[ParsedStatement]) -> Option<GlobalIndexBuild> {
        crate::schema::build_of(self, statements)
    }

    /// Such a statement's first step: the index is kept for rows that are covered
    /// ([`Catalog::cover`]), and finds none. [`Catalog::end_global_index`] is the last step.
    ///
    /// # Errors
    /// Why the index cannot be created.
    pub fn begin_global_index(
        &self,
        statements: &[ParsedStatement],
        natives: &dyn NativeProcedures,
    ) -> Result<SchemaChange, PlanError> {
        crate::schema::begin_global_index(self, statements, natives)
    }

    /// A global index that is built is in force, or gone if it is not to be kept.
    ///
    /// # Errors
    /// A procedure cannot be planned any more.
    pub fn end_global_index(
        &self,
        name: &str,
        keep: bool,
        natives: &dyn NativeProcedures,
    ) -> Result<SchemaChange, PlanError> {
        crate::schema::end_global_index(self, name, keep, natives)
    }

    /// A statement that covers at each partition up to N more rows of a table whose global
    /// index is built. Its count is 0 when all rows are, and those to come.
    pub fn cover(build: &GlobalIndexBuild, rows: u32) -> Statement {
        crate::query::cover(build, rows)
    }

    /// The statement of [`Catalog::cover`] with this text, for replay.
    pub fn cover_of_text(&self, text: &str) -> Option<Statement> {
        crate::query::cover_of_text(self, text)
    }

    /// The catalog with other classes: every Java procedure is planned again from them.
    ///
    /// # Errors
    /// Names the procedure that they do not have any more, or that cannot be planned.
    pub fn change_classes(
        &self,
        classes: Arc<dyn ProcedureClasses>,
        natives: &dyn NativeProcedures,
    ) -> Result<SchemaChange, PlanError> {
        crate::schema::change_classes(self, classes, natives)
    }
}

/// The routing of a procedure's calls, as the front end needs it: (parameter, column type).
pub fn routing_parameter(definition: &ProcedureDefinition) -> Option<(u16, SqlType)> {
    use lockstep_plan_ir::procedure::ProcedurePartitioning;
    match definition.partitioning.as_ref()? {
        ProcedurePartitioning::Column { parameter, column_type, .. } => {
            Some((*parameter, *column_type))
        }
        ProcedurePartitioning::Columns { .. }
        | ProcedurePartitioning::Via { .. }
        | ProcedurePartitioning::Directed => None,
    }
}

/// The partition number that clients see for multi-partition work.
pub const MULTI_PARTITION: PartitionId = PartitionId::MULTI;
