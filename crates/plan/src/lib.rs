//! From syntax trees to physical plans: the catalog, schema changes, name and type binding,
//! partition inference, access paths, and the cut into fragments.
//!
//! Entries: [`classify_batch`] says whether a text changes the schema or the data;
//! [`Catalog::apply`] turns DDL into the next catalog and the steps that sites carry out;
//! [`plan_statement`] turns a query or DML statement into a [`plan_ir::Statement`], as well as
//! [`Planning`] lets it;
//! [`Catalog::listing`] and its neighbours show the catalog to clients and people.
//!
//! Invariant: no storage, no executor; a catalog is immutable once made.

mod advice;
pub mod batch;
pub mod catalog;
pub mod error;
pub mod listing;
pub mod planning;
mod query;
pub mod rules;
mod schema;
pub mod system_procedures;
mod task;
mod time_to_live;

pub use advice::partition_advice;
pub use batch::{BatchKind, classify_batch};
pub use catalog::{
    Catalog, CatalogFunction, CatalogTable, ClassSource, ClassUse, FunctionKind, GlobalIndexBuild,
    IndexSource, NativeProcedures, NativeSource, ProcedureClasses, SchemaChange,
};
pub use error::PlanError;
pub use listing::procedure_remarks;
pub use lockstep_plan_ir as plan_ir;
pub use planning::Planning;
pub use query::explain::{Explaining, OperatorCount, explain, explain_json};
pub use query::{PlanContext, function_names, plan_statement, plan_statement_with};
pub use rules::{RULES, Rule, RuleSet};
pub use schema::roles::warning_of;
pub use task::{CatalogTask, TaskErrorAction, TaskSchedule, TaskScope};
pub use time_to_live::TimeToLive;
