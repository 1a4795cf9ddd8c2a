//! What a text of several statements is, before any of them is planned.

use crate::error::PlanError;
use lockstep_sql::ast::{ObjectKind, ParsedStatement, Statement, StatementKind};
use std::collections::BTreeSet;

/// What an ad hoc text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Schema changes only: one change.
    Ddl,
    /// Queries and DML, which run as one transaction; EXPLAIN is among them.
    DmlQueries,
}

/// Says what an ad hoc text is.
///
/// # Errors
/// An empty text, schema changes mixed with others, and a batch that drops and makes a table of
/// one name, each in VoltDB's words.
pub fn classify_batch(statements: &[ParsedStatement]) -> Result<BatchKind, PlanError> {
    let ddl = statements.iter().filter(|statement| statement.kind() == StatementKind::Ddl).count();
    if statements.is_empty() {
        return Err(PlanError::new("Failed to plan, no SQL statement provided."));
    }
    if ddl == 0 {
        return Ok(BatchKind::DmlQueries);
    }
    if ddl < statements.len() {
        return Err(PlanError::new("DDL mixed with DML and queries is unsupported."));
    }
    let mut dropped = BTreeSet::new();
    let mut made = BTreeSet::new();
    for parsed in statements {
        match &parsed.statement {
            Statement::CreateTable(create) => made.insert(create.name.as_str()),
            Statement::CreateStream(create) => made.insert(create.name.as_str()),
            Statement::Drop(drop)
                if matches!(drop.kind, ObjectKind::Table | ObjectKind::Stream) =>
            {
                dropped.insert(drop.name.text.as_str())
            }
            _ => continue,
        };
    }
    let both: Vec<&str> = dropped.intersection(&made).copied().collect();
    match both.is_empty() {
        true => Ok(BatchKind::Ddl),
        false => Err(PlanError::new(format!(
            "Error: The following tables are both dropped and added: {}. You cannot DROP and ADD \
             a table with the same name in a single batch (via @AdHoc). Issue the DROP and ADD \
             statements as separate commands.",
            both.join(", ")
        ))),
    }
}
