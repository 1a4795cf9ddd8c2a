//! Scheduled tasks.

use super::{CaseName, Literal, Name};

/// CREATE TASK.
#[derive(Clone, Debug)]
pub struct CreateTask {
    /// Its name.
    pub name: Name,
    /// When it runs.
    pub schedule: TaskSchedule,
    /// What it runs; none for CREATE TASK k FROM CLASS c, where the class says both.
    pub procedure: Option<TaskProcedure>,
    /// ON ERROR; STOP when not written.
    pub on_error: Option<TaskErrorAction>,
    /// RUN ON; DATABASE when not written.
    pub run_on: Option<TaskScope>,
    /// AS USER u
    pub user: Option<CaseName>,
    /// ENABLE (the default) or DISABLE.
    pub enabled: bool,
}

/// When a task runs.
#[derive(Clone, Debug)]
pub enum TaskSchedule {
    /// CRON and its six fields.
    Cron([String; 6]),
    /// DELAY n unit: so long after the last run ended.
    Delay(TaskInterval),
    /// EVERY n unit.
    Every(TaskInterval),
    /// FROM CLASS c [WITH (arguments)]
    Class {
        /// The class.
        class: CaseName,
        /// Its arguments.
        arguments: Vec<Literal>,
    },
}

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskInterval {
    /// How many.
    pub count: u64,
    /// Of what.
    pub unit: TaskUnit,
}

/// Units of a task's interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskUnit {
    /// MILLISECONDS
    Milliseconds,
    /// SECONDS
    Seconds,
    /// MINUTES
    Minutes,
    /// HOURS
    Hours,
    /// DAYS
    Days,
}

impl TaskUnit {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskUnit::Milliseconds => "MILLISECONDS",
            TaskUnit::Seconds => "SECONDS",
            TaskUnit::Minutes => "MINUTES",
            TaskUnit::Hours => "HOURS",
            TaskUnit::Days => "DAYS",
        }
    }
}

/// What a task runs.
#[derive(Clone, Debug)]
pub enum TaskProcedure {
    /// PROCEDURE p [WITH (arguments)]
    Named {
        /// The procedure, maybe with a leading `@`.
        procedure: CaseName,
        /// Its arguments, with signs folded into the text of numbers.
        arguments: Vec<Literal>,
    },
    /// PROCEDURE FROM CLASS c [WITH (arguments)]
    Class {
        /// The class.
        class: CaseName,
        /// Its arguments.
        arguments: Vec<Literal>,
    },
}

/// What happens after a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskErrorAction {
    /// STOP
    Stop,
    /// LOG
    Log,
    /// IGNORE
    Ignore,
}

impl TaskErrorAction {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskErrorAction::Stop => "STOP",
            TaskErrorAction::Log => "LOG",
            TaskErrorAction::Ignore => "IGNORE",
        }
    }
}

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskScope {
    /// DATABASE
    Database,
    /// HOSTS
    Hosts,
    /// PARTITIONS
    Partitions,
}

impl TaskScope {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskScope::Database => "DATABASE",
            TaskScope::Hosts => "HOSTS",
            TaskScope::Partitions => "PARTITIONS",
        }
    }
}

/// ALTER TASK.
#[derive(Clone, Debug)]
pub struct AlterTask {
    /// The task.
    pub name: Name,
    /// What changes.
    pub action: AlterTaskAction,
}

/// What ALTER TASK changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterTaskAction {
    /// ENABLE
    Enable,
    /// DISABLE
    Disable,
    /// ALTER ON ERROR ...
    OnError(TaskErrorAction),
}
