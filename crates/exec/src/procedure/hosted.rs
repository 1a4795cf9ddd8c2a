//! Multi-partition procedures whose code cannot be run again: it runs once, on a thread of its
//! own that waits while its batches are executed.

use super::context::{Backend, ProcedureContext};
use super::{BatchResult, PreparedProcedure, ProcedureCode, QueuedStatement};
use crate::arena::Arena;
use crate::database::TransactionContext;
use lockstep_types::{Failure, Outcome, ParameterSet};

/// Executes the batches of such a procedure.
pub trait BlockingRounds {
    /// Executes a batch at the partitions, and waits for its results.
    ///
    /// # Errors
    /// Why the transaction must be undone.
    fn execute(&mut self, batch: Vec<QueuedStatement>) -> Result<BatchResult, Failure>;
}

/// Runs a call of a hosted procedure from beginning to end on the calling thread; gives its
/// outcome and its tables, in wire form, one after the other.
pub fn run_blocking(
    procedure: &PreparedProcedure,
    parameters: ParameterSet<'_>,
    transaction: &TransactionContext,
    rounds: &mut dyn BlockingRounds,
) -> (Outcome, Vec<u8>) {
    let mut tables = Vec::new();
    let ProcedureCode::Hosted(hosted) = &procedure.code else {
        let text = "VOLTDB ERROR: UNEXPECTED FAILURE: the procedure needs no thread of its own";
        return (Outcome::failed(Failure::unexpected(text)), tables);
    };
    let arena = Arena::new();
    let last = BatchResult::default();
    let backend = Backend::Blocking { transaction: *transaction, rounds, last };
    let mut context = ProcedureContext::new(procedure, &[], &arena, backend, &mut tables);
    context.set_given(parameters);
    let result = hosted.run(&mut context);
    let outcome = context.into_outcome(result);
    if outcome.failure.is_some() {
        tables.clear();
    }
    (outcome, tables)
}
