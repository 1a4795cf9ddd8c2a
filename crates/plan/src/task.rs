//! Tasks: calls of procedures that the host makes by itself, as the catalog keeps them.

use lockstep_sql::ast::CreateTask;
use lockstep_types::{Cron, SqlType, Value};
use std::sync::Arc;

pub use lockstep_sql::ast::{TaskErrorAction, TaskScope};

/// A task.
#[derive(Debug, Clone)]
pub struct CatalogTask {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub schedule: TaskSchedule,
    /// What it calls.
    pub procedure: String,
    /// The values of the procedure's parameters, of their types.
    pub arguments: Vec<(SqlType, Value)>,
    /// What a failed call leads to.
    pub on_error: TaskErrorAction,
    /// Where it runs.
    pub scope: TaskScope,
    /// Whether it runs at all.
    pub enabled: bool,
    /// The version of the catalog that it came with.
    pub declared: u64,
    /// The version of the catalog that last said something of it: it, too, starts one again that
    /// an error stopped.
    pub changed: u64,
    /// How it was declared; what ALTER TASK changes is above.
    pub source: Arc<CreateTask>,
}

/// When a task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskSchedule {
    /// By the calendar, in UTC.
    Cron(Cron),
    /// N milliseconds after the end of its last run.
    Delay(u64),
    /// N milliseconds from the begin of a run to that of the next.
    Every(u64),
}
