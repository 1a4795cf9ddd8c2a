//! CREATE TASK, ALTER TASK and DROP TASK; and that every task can make its calls.

use super::Draft;
use super::message::ddl_error;
use crate::catalog::Catalog;
use crate::error::PlanError;
use crate::query::bind_argument;
use crate::system_procedures::{ParameterKind, SystemProcedure};
use crate::task::{CatalogTask, TaskErrorAction, TaskSchedule, TaskScope};
use lockstep_plan_ir::procedure::{ProcedureParameter, ProcedurePartitioning};
use lockstep_plan_ir::schema::DefaultValue;
use lockstep_sql::ast::{
    self, AlterTask, AlterTaskAction, CreateTask, Drop, Expression, ExpressionKind, Literal, Span,
    TaskInterval, TaskProcedure, TaskUnit,
};
use lockstep_types::{Cron, SqlType, Value};
use std::sync::Arc;

/// The longest interval: ten years.
const MAX_INTERVAL_MS: u64 = 3_650 * 24 * 60 * 60 * 1_000;

impl Draft<'_> {
    pub(super) fn create_task(&mut self, create: &CreateTask) -> Result<(), PlanError> {
        super::unquoted(&create.name)?;
        let name = &create.name.text;
        let refused = |reason: String| {
            let reason = format!("Task {name}: {reason}");
            ddl_error(create.name.span, reason)
        };
        if self.catalog.tasks.contains_key(name) {
            let reason =
                format!("Schedule name \"{name}\" in CREATE TASK statement already exists.");
            return Err(ddl_error(create.name.span, reason));
        }
        if let Some(user) = &create.user {
            return Err(refused(format!(
                "User {} does not exist: there are no users here, and everybody may do \
                 everything; leave AS USER out",
                user.text
            )));
        }
        let schedule = schedule(&create.schedule).map_err(refused)?;
        let procedure = match &create.procedure {
            Some(TaskProcedure::Named { procedure, .. }) => procedure.text.clone(),
            Some(TaskProcedure::Class { class, .. }) => {
                return Err(refused(no_class(&class.text)));
            }
            None => return Err(refused("it calls no procedure".to_string())),
        };
        let version = self.catalog.version;
        let task = CatalogTask {
            name: name.clone(),
            schedule,
            procedure,
            // Once the procedures of the batch are planned.
            arguments: Vec::new(),
            on_error: create.on_error.unwrap_or(TaskErrorAction::Stop),
            scope: create.run_on.unwrap_or(TaskScope::Database),
            enabled: create.enabled,
            declared: version,
            changed: version,
            source: Arc::new(create.clone()),
        };
        self.catalog.tasks.insert(name.clone(), Arc::new(task));
        Ok(())
    }

    pub(super) fn alter_task(&mut self, alter: &AlterTask) -> Result<(), PlanError> {
        let version = self.catalog.version;
        let Some(task) = self.catalog.tasks.get_mut(&alter.name.text) else {
            return Err(missing("ALTER", &alter.name.text, alter.name.span));
        };
        let task = Arc::make_mut(task);
        match alter.action {
            AlterTaskAction::Enable => task.enabled = true,
            AlterTaskAction::Disable => task.enabled = false,
            AlterTaskAction::OnError(action) => task.on_error = action,
        }
        task.changed = version;
        Ok(())
    }

    pub(super) fn drop_task(&mut self, drop: &Drop) -> Result<(), PlanError> {
        match (self.catalog.tasks.remove(&drop.name.text), drop.if_exists) {
            (Some(_), _) | (None, true) => Ok(()),
            (None, false) => Err(missing("DROP", &drop.name.text, drop.name.span)),
        }
    }

    /// Holds all tasks against the procedures that there will be, and gives their arguments the
    /// types of those.
    pub(super) fn check_tasks(&mut self) -> Result<(), PlanError> {
        let mut changed = Vec::new();
        for (name, task) in &self.catalog.tasks {
            let arguments = call_of(&self.catalog, task).map_err(|reason| {
                let is_old = self.old.tasks.get(name).is_some_and(|o| o.declared == task.declared);
                if is_old {
                    let reason = format!(
                        "Task {name} could not make its calls any more: {reason}. Drop the task \
                         first."
                    );
                    // Its text is not that of this change.
                    PlanError { span: None, ..ddl_error(Span::default(), reason) }
                } else {
                    ddl_error(task.source.name.span, format!("Task {name}: {reason}"))
                }
            })?;
            if arguments != task.arguments {
                changed.push((name.clone(), arguments));
            }
        }
        for (name, arguments) in changed {
            if let Some(task) = self.catalog.tasks.get_mut(&name) {
                Arc::make_mut(task).arguments = arguments;
            }
        }
        Ok(())
    }
}

fn missing(verb: &str, name: &str, span: Span) -> PlanError {
    let reason = format!("Schedule name \"{name}\" in {verb} TASK statement does not exist.");
    ddl_error(span, reason)
}

fn no_class(class: &str) -> String {
    format!(
        "FROM CLASS {class}: schedules and actions of classes (org.voltdb.task) are not supported \
         yet; use ON SCHEDULE CRON, DELAY or EVERY, and PROCEDURE with a name"
    )
}

fn schedule(schedule: &ast::TaskSchedule) -> Result<TaskSchedule, String> {
    match schedule {
        ast::TaskSchedule::Cron(fields) => Cron::parse(fields).map(TaskSchedule::Cron),
        ast::TaskSchedule::Delay(interval) => interval_ms(*interval).map(TaskSchedule::Delay),
        ast::TaskSchedule::Every(interval) => interval_ms(*interval).map(TaskSchedule::Every),
        ast::TaskSchedule::Class { class, .. } => Err(no_class(&class.text)),
    }
}

fn interval_ms(interval: TaskInterval) -> Result<u64, String> {
    const SECOND_MS: u64 = 1_000;
    let unit_ms = match interval.unit {
        TaskUnit::Milliseconds => 1,
        TaskUnit::Seconds => SECOND_MS,
        TaskUnit::Minutes => 60 * SECOND_MS,
        TaskUnit::Hours => 3_600 * SECOND_MS,
        TaskUnit::Days => 24 * 3_600 * SECOND_MS,
    };
    let interval_ms = interval.count.checked_mul(unit_ms);
    interval_ms.filter(|ms| (1..=MAX_INTERVAL_MS).contains(ms)).ok_or_else(|| {
        let TaskInterval { count, unit } = interval;
        format!("the interval {count} {} is not within 1 MILLISECONDS and 3650 DAYS", unit.as_str())
    })
}

/// The arguments of a task's calls, of the types of the procedure's parameters; or why it cannot
/// make them.
fn call_of(catalog: &Catalog, task: &CatalogTask) -> Result<Vec<(SqlType, Value)>, String> {
    let procedure = &task.procedure;
    let Some(TaskProcedure::Named { arguments, .. }) = &task.source.procedure else {
        return Err("it calls no procedure".to_string());
    };
    let at_partitions = task.scope == TaskScope::Partitions;
    if procedure.starts_with('@') {
        let known = SystemProcedure::find(procedure).filter(|row| !row.task_arguments.is_empty());
        let Some(row) = known else {
            let names: Vec<&str> = SystemProcedure::of_tasks().map(|row| row.name).collect();
            return Err(format!(
                "system procedure {procedure} is none that tasks call; they call {}",
                names.join(", ")
            ));
        };
        if at_partitions {
            return Err(needs_directed(procedure));
        }
        check_count(procedure, row.task_arguments, arguments.len())?;
        let form = row.form(arguments.len()).expect("tasks call it in one of its forms");
        let scalar = |(_, kind): &(&str, ParameterKind)| {
            let sql_type = kind.sql_type().expect("tasks give scalars to system procedures");
            ProcedureParameter { sql_type, is_array: false }
        };
        let parameters: Vec<ProcedureParameter> = form.iter().map(scalar).collect();
        return values(procedure, &parameters, arguments);
    }
    let Some(definition) = catalog.procedure(procedure) else {
        return Err(format!("procedure {procedure} does not exist"));
    };
    match (definition.partitioning == Some(ProcedurePartitioning::Directed), at_partitions) {
        (false, true) => return Err(needs_directed(procedure)),
        (true, false) => {
            return Err(format!("procedure {procedure} is DIRECTED and wants RUN ON PARTITIONS"));
        }
        _ => {}
    }
    check_count(procedure, &[definition.parameters.len()], arguments.len())?;
    values(procedure, &definition.parameters, arguments)
}

fn needs_directed(procedure: &str) -> String {
    format!("RUN ON PARTITIONS wants a DIRECTED procedure, and {procedure} is none")
}

fn check_count(procedure: &str, counts: &[usize], given: usize) -> Result<(), String> {
    if counts.contains(&given) {
        return Ok(());
    }
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    Err(format!(
        "procedure {procedure} takes {} arguments, and WITH gives {given}",
        counts.join(" or ")
    ))
}

/// The arguments as values of the parameters' types.
fn values(
    procedure: &str,
    parameters: &[ProcedureParameter],
    arguments: &[Literal],
) -> Result<Vec<(SqlType, Value)>, String> {
    let mut values = Vec::with_capacity(arguments.len());
    for (number, (parameter, literal)) in (1..).zip(parameters.iter().zip(arguments)) {
        let refused = |reason: String| format!("argument {number} of {procedure}: {reason}");
        if parameter.is_array {
            let sql_type = parameter.sql_type;
            return Err(refused(format!("it is a list of {sql_type}, which WITH cannot give")));
        }
        let value = value(parameter.sql_type, literal).map_err(refused)?;
        values.push((parameter.sql_type, value));
    }
    Ok(values)
}

fn value(sql_type: SqlType, literal: &Literal) -> Result<Value, String> {
    let kind = ExpressionKind::Literal(literal.clone());
    let expression = Expression { kind, span: Span::default() };
    let value = match bind_argument(sql_type, &expression).map_err(|error| error.message)? {
        DefaultValue::Constant(value) => value,
        _ => Value::Null,
    };
    if let (Value::Int(number), Some((low, high))) = (&value, sql_type.integer_range())
        && !(low..=high).contains(number)
    {
        return Err(format!("{number} is no {sql_type}, which goes from {low} to {high}"));
    }
    Ok(value)
}
