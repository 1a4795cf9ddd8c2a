//! Tasks, as a table and as text.

use super::{Listing, text};
use crate::catalog::Catalog;
use crate::task::{CatalogTask, TaskErrorAction, TaskScope};
use lockstep_sql::ast::{Literal, TaskInterval, TaskProcedure, TaskSchedule};
use lockstep_types::{SqlType, Value};

/// `@SystemCatalog TASKS`. Where VoltDB names classes of its own, this names the words of the
/// statement.
pub(super) fn tasks(catalog: &Catalog) -> Listing {
    let names = [
        "TASK_NAME",
        "SCHEDULER_CLASS",
        "SCHEDULER_PARAMETERS",
        "ACTIONS_CLASS",
        "ACTIONS_PARAMETERS",
        "SCHEDULE_CLASS",
        "SCHEDULE_PARAMETERS",
        "ON_ERROR",
        "RUN_LOCATION",
        "USER",
        "ENABLED",
    ];
    let mut listing = Listing::new(&names.map(|name| (name, SqlType::Varchar)));
    for task in catalog.tasks.values() {
        let (word, parameters) = schedule(task);
        let arguments = arguments(task);
        let action = match arguments.is_empty() {
            true => task.procedure.clone(),
            false => format!("{}, {arguments}", task.procedure),
        };
        listing.rows.push(vec![
            text(&task.name),
            Value::Null,
            Value::Null,
            text("PROCEDURE"),
            text(action),
            text(word),
            text(parameters),
            text(task.on_error.as_str()),
            text(task.scope.as_str()),
            Value::Null,
            text(if task.enabled { "true" } else { "false" }),
        ]);
    }
    listing
}

/// The statement that makes a task as it is.
pub(super) fn create_task(task: &CatalogTask) -> String {
    let (word, parameters) = schedule(task);
    let (name, procedure) = (&task.name, &task.procedure);
    let mut out =
        format!("CREATE TASK {name} ON SCHEDULE {word} {parameters} PROCEDURE {procedure}");
    let arguments = arguments(task);
    if !arguments.is_empty() {
        out.push_str(&format!(" WITH ({arguments})"));
    }
    if task.on_error != TaskErrorAction::Stop {
        out.push_str(&format!(" ON ERROR {}", task.on_error.as_str()));
    }
    if task.scope != TaskScope::Database {
        out.push_str(&format!(" RUN ON {}", task.scope.as_str()));
    }
    if !task.enabled {
        out.push_str(" DISABLE");
    }
    out
}

/// The word of a schedule and what stands after it.
fn schedule(task: &CatalogTask) -> (&'static str, String) {
    let shown = |TaskInterval { count, unit }: &TaskInterval| format!("{count} {}", unit.as_str());
    match &task.source.schedule {
        TaskSchedule::Cron(fields) => ("CRON", fields.join(" ")),
        TaskSchedule::Delay(interval) => ("DELAY", shown(interval)),
        TaskSchedule::Every(interval) => ("EVERY", shown(interval)),
        TaskSchedule::Class { class, .. } => ("FROM CLASS", class.text.clone()),
    }
}

/// The arguments as SQL has them.
fn arguments(task: &CatalogTask) -> String {
    let Some(TaskProcedure::Named { arguments, .. }) = &task.source.procedure else {
        return String::new();
    };
    let texts: Vec<String> = arguments.iter().map(argument).collect();
    texts.join(", ")
}

fn argument(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".to_string(),
        Literal::Boolean(value) => if *value { "TRUE" } else { "FALSE" }.to_string(),
        Literal::Integer(text) | Literal::Decimal(text) | Literal::Float(text) => text.clone(),
        Literal::String(text) => format!("'{}'", text.replace('\'', "''")),
        Literal::Hex(text) => format!("X'{text}'"),
        Literal::Timestamp(text) => format!("TIMESTAMP '{text}'"),
        Literal::Date(text) => format!("DATE '{text}'"),
    }
}
