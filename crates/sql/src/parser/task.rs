//! CREATE TASK and ALTER TASK.

use super::{Parsed, Parser};
use crate::ast::{
    AlterTask, AlterTaskAction, CreateTask, Literal, TaskErrorAction, TaskInterval, TaskProcedure,
    TaskSchedule, TaskScope, TaskUnit,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// CREATE TASK.
    pub(super) fn create_task(&mut self) -> Parsed<CreateTask> {
        self.advance();
        self.advance();
        let name = self.name("a task name")?;
        let (schedule, procedure) = match self.at_keyword(Keyword::From) {
            true => (self.class_schedule()?, None),
            false => {
                self.require_keywords(&[Keyword::On, Keyword::Schedule])?;
                let schedule = self.task_schedule()?;
                self.require_keyword(Keyword::Procedure)?;
                (schedule, Some(self.task_procedure()?))
            }
        };
        let mut on_error = None;
        if self.eat_keyword(Keyword::On) {
            on_error = Some(self.task_error_action()?);
        }
        let mut run_on = None;
        if self.eat_keyword(Keyword::Run) {
            self.require_keyword(Keyword::On)?;
            run_on = Some(self.task_scope()?);
        }
        let mut user = None;
        if self.eat_keyword(Keyword::As) {
            self.require_keyword(Keyword::User)?;
            user = Some(self.case_name("a user name")?);
        }
        let disabled = self.eat_keyword(Keyword::Disable);
        if !disabled {
            self.eat_keyword(Keyword::Enable);
        }
        let enabled = !disabled;
        Ok(CreateTask { name, schedule, procedure, on_error, run_on, user, enabled })
    }

    fn task_schedule(&mut self) -> Parsed<TaskSchedule> {
        if self.eat_keyword(Keyword::Cron) {
            return self.cron();
        }
        if self.eat_keyword(Keyword::Delay) {
            return Ok(TaskSchedule::Delay(self.task_interval()?));
        }
        if self.eat_keyword(Keyword::Every) {
            return Ok(TaskSchedule::Every(self.task_interval()?));
        }
        self.class_schedule()
    }

    /// `FROM CLASS c [WITH (arguments)]`
    fn class_schedule(&mut self) -> Parsed<TaskSchedule> {
        self.require_keywords(&[Keyword::From, Keyword::Class])?;
        let class = self.dotted_name("a class name")?;
        Ok(TaskSchedule::Class { class, arguments: self.task_arguments()? })
    }

    /// Six fields separated by blanks, as written.
    fn cron(&mut self) -> Parsed<TaskSchedule> {
        let start = self.token().span;
        let ends = [TokenKind::End, TokenKind::Semicolon, TokenKind::Word(Keyword::Procedure)];
        while !ends.contains(&self.peek()) {
            self.advance();
        }
        let source = self.source(self.since(start));
        let fields: Vec<String> = source.split_whitespace().map(str::to_string).collect();
        match <[String; 6]>::try_from(fields) {
            Ok(fields) => Ok(TaskSchedule::Cron(fields)),
            Err(_) => Err(self.unexpected_instead_of(
                "six fields: second minute hour day-of-month month day-of-week",
            )),
        }
    }

    fn task_interval(&mut self) -> Parsed<TaskInterval> {
        let count = self.unsigned("a number")?;
        let units = [
            (Keyword::Milliseconds, TaskUnit::Milliseconds),
            (Keyword::Seconds, TaskUnit::Seconds),
            (Keyword::Minutes, TaskUnit::Minutes),
            (Keyword::Hours, TaskUnit::Hours),
            (Keyword::Days, TaskUnit::Days),
        ];
        for (keyword, unit) in units {
            if self.eat_keyword(keyword) {
                return Ok(TaskInterval { count, unit });
            }
        }
        Err(self.unexpected())
    }

    fn task_procedure(&mut self) -> Parsed<TaskProcedure> {
        if self.eat_keywords(Keyword::From, Keyword::Class) {
            let class = self.dotted_name("a class name")?;
            return Ok(TaskProcedure::Class { class, arguments: self.task_arguments()? });
        }
        let procedure = self.dotted_name("a procedure name")?;
        Ok(TaskProcedure::Named { procedure, arguments: self.task_arguments()? })
    }

    /// `WITH (literal, ...)` if it stands here.
    fn task_arguments(&mut self) -> Parsed<Vec<Literal>> {
        match self.eat_keyword(Keyword::With) {
            true => self.list_in_parentheses("arguments", Parser::task_argument),
            false => Ok(Vec::new()),
        }
    }

    fn task_argument(&mut self) -> Parsed<Literal> {
        let minus = self.eat(TokenKind::Minus);
        let token = self.token();
        let number = |text: &str| match minus {
            true => format!("-{text}"),
            false => text.to_string(),
        };
        let value = match token.kind {
            TokenKind::Number => {
                let text = number(self.source(token.span));
                if text.contains(['e', 'E']) {
                    Literal::Float(text)
                } else if text.contains('.') {
                    Literal::Decimal(text)
                } else {
                    Literal::Integer(text)
                }
            }
            TokenKind::String if !minus => Literal::String(self.string_of(token)),
            TokenKind::Word(Keyword::Null) if !minus => Literal::Null,
            TokenKind::Word(Keyword::True) if !minus => Literal::Boolean(true),
            TokenKind::Word(Keyword::False) if !minus => Literal::Boolean(false),
            _ => return Err(self.unexpected_instead_of("a constant")),
        };
        self.advance();
        Ok(value)
    }

    /// `ERROR {STOP | LOG | IGNORE}` after ON.
    fn task_error_action(&mut self) -> Parsed<TaskErrorAction> {
        self.require_keyword(Keyword::Error)?;
        let actions = [
            (Keyword::Stop, TaskErrorAction::Stop),
            (Keyword::Log, TaskErrorAction::Log),
            (Keyword::Ignore, TaskErrorAction::Ignore),
        ];
        for (keyword, action) in actions {
            if self.eat_keyword(keyword) {
                return Ok(action);
            }
        }
        Err(self.unexpected())
    }

    fn task_scope(&mut self) -> Parsed<TaskScope> {
        let scopes = [
            (Keyword::Database, TaskScope::Database),
            (Keyword::Hosts, TaskScope::Hosts),
            (Keyword::Partitions, TaskScope::Partitions),
        ];
        for (keyword, scope) in scopes {
            if self.eat_keyword(keyword) {
                return Ok(scope);
            }
        }
        Err(self.unexpected())
    }

    /// ALTER TASK.
    pub(super) fn alter_task(&mut self) -> Parsed<AlterTask> {
        self.advance();
        self.advance();
        let name = self.name("a task name")?;
        let action = if self.eat_keyword(Keyword::Enable) {
            AlterTaskAction::Enable
        } else if self.eat_keyword(Keyword::Disable) {
            AlterTaskAction::Disable
        } else {
            self.require_keywords(&[Keyword::Alter, Keyword::On])?;
            AlterTaskAction::OnError(self.task_error_action()?)
        };
        Ok(AlterTask { name, action })
    }
}
