//! Multi-partition procedures, round by round.

use super::context::{Backend, ProcedureContext};
use super::parameters::procedure_parameters;
use super::{PreparedProcedure, ProcedureCode};
use crate::arena::Arena;
use crate::convert::array_elements;
use crate::database::TransactionContext;
use crate::statement::PreparedStatement;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Outcome, ParameterSet, SqlType};
use std::sync::Arc;

/// The result tables of one executed batch, one per statement, in wire form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchResult {
    /// The tables.
    pub tables: Vec<Vec<u8>>,
}

/// A statement that a procedure wants to execute.
#[derive(Debug, Clone)]
pub struct QueuedStatement {
    /// The statement.
    pub statement: Arc<PreparedStatement>,
    /// Its parameters: a parameter set, its count in front.
    pub parameters: Arc<[u8]>,
}

/// What a round of a procedure comes to.
#[derive(Debug)]
pub enum ProcedureRound {
    /// Execute these, in order, then run the next round with their results added.
    Batch(Vec<QueuedStatement>),
    /// The procedure has ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// Its tables, in wire form, one after the other.
        tables: Vec<u8>,
    },
}

/// Runs the procedure from its beginning with the results of earlier batches.
pub fn run_round(
    procedure: &PreparedProcedure,
    parameters: ParameterSet<'_>,
    transaction: &TransactionContext,
    history: &[BatchResult],
) -> ProcedureRound {
    // A list of statements is one batch: with its results it has ended.
    if let (ProcedureCode::Statements, Some(done)) = (&procedure.code, history.first()) {
        let outcome = Outcome::success(done.tables.len() as u16);
        return ProcedureRound::Finished { outcome, tables: done.tables.concat() };
    }
    let arena = Arena::new();
    let parameters = match procedure_parameters(&procedure.definition, parameters, &arena) {
        Ok(parameters) => parameters,
        Err(failure) => {
            let outcome = Outcome::failed(failure);
            return ProcedureRound::Finished { outcome, tables: Vec::new() };
        }
    };
    let native = match &procedure.code {
        ProcedureCode::Native(native) => native,
        ProcedureCode::Statements => return statements_round(procedure, parameters),
        ProcedureCode::Hosted(_) => unreachable!("code that blocks runs on a thread of its own"),
    };
    let mut tables = Vec::new();
    let backend = Backend::Rounds { transaction: *transaction, history, next: 0, wanted: None };
    let mut context = ProcedureContext::new(procedure, parameters, &arena, backend, &mut tables);
    let result = native.run(&mut context);
    // Also when the code went on after it was to stop.
    if let Some(batch) = context.take_wanted() {
        return ProcedureRound::Batch(batch);
    }
    let outcome = context.into_outcome(result);
    if outcome.failure.is_some() {
        tables.clear();
    }
    ProcedureRound::Finished { outcome, tables }
}

/// A list of statements is one batch: each partition runs its parts in order, so that a later
/// statement finds what an earlier one wrote.
fn statements_round(procedure: &PreparedProcedure, parameters: &[Datum<'_>]) -> ProcedureRound {
    let mut rest = parameters;
    let mut batch = Vec::with_capacity(procedure.statements.len());
    let mut writer = ParameterWriter::default();
    for statement in &procedure.statements {
        let count = statement.statement().parameters.len().min(rest.len());
        let (own, after) = rest.split_at(count);
        rest = after;
        batch.push(queued_statement(statement, own, &mut writer));
    }
    ProcedureRound::Batch(batch)
}

/// A statement with its parameters encoded, by a writer that is used for many.
pub(super) fn queued_statement(
    statement: &Arc<PreparedStatement>,
    parameters: &[Datum<'_>],
    writer: &mut ParameterWriter,
) -> QueuedStatement {
    writer.clear();
    for (value, declared) in parameters.iter().zip(&statement.statement().parameters) {
        if declared.is_array && !value.is_null() {
            let elements: Vec<Datum<'_>> = array_elements(*value).collect();
            writer.array(declared.sql_type, &elements);
        } else {
            // By the value's own kind: the declared type may be too narrow for it, which is for
            // the conversion or the assignment at the partition to say.
            let sql_type = match (*value, declared.sql_type) {
                (Datum::Null, declared) => declared,
                // The bytes of a polygon are of no kind of their own.
                (Datum::Bytes(_), SqlType::Geography) => SqlType::Geography,
                (value, _) => value.natural_type(),
            };
            writer.scalar(sql_type, *value);
        }
    }
    QueuedStatement { statement: Arc::clone(statement), parameters: writer.bytes().into() }
}
