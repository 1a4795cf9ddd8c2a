//! Stored procedures: a list of statements, or native code that queues statements in batches.
//!
//! A single-partition procedure runs at its site from beginning to end ([`run_procedure`]). A
//! multi-partition one runs at the coordinator, in rounds ([`run_round`]): each round runs the
//! code from its beginning with the recorded results of earlier batches; where they end, the
//! batch that the code wants to execute is handed to the caller, and the code is left. So
//! procedures need neither threads nor state between rounds; they must do the same each time,
//! which they do because they see nothing but parameters, results, time and seeded randomness.

mod context;
mod faults;
mod hosted;
mod parameters;
mod parts;
mod round;

pub use context::{BatchResults, ProcedureContext};
pub use hosted::{BlockingRounds, run_blocking};
pub use parameters::routing_value;
pub use parts::{PartsHere, run_parts};
pub use round::{BatchResult, ProcedureRound, QueuedStatement, run_round};

use crate::arena::Arena;
use crate::database::{Database, TransactionContext};
use crate::error::SqlError;
use crate::statement::{CountTable, PreparedStatement, StatementOrigin, execute};
use lockstep_plan_ir::procedure::{ProcedureDefinition, ProcedureParameter};
use lockstep_types::{Datum, Failure, Outcome, ParameterSet, SqlType, TableSchema};
use parameters::procedure_parameters;
use std::fmt;
use std::sync::Arc;

/// A procedure in Rust, linked into the binary. It touches data only by queueing its statements
/// and executing them, and sees nothing else of the world than its context shows.
pub trait NativeProcedure: Send + Sync {
    /// The name after `FROM NATIVE`.
    fn name(&self) -> &str;
    /// Its parameters.
    fn parameters(&self) -> &[ProcedureParameter];
    /// Its statements with their names; queued by their place in this list.
    fn statements(&self) -> &[(&str, &str)];
    /// Runs a call.
    ///
    /// # Errors
    /// Any error aborts the call. Errors of the context are passed on with `?`.
    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError>;
}

/// A procedure in the runtime of another language. It takes the client's parameters as they came
/// ([`ProcedureContext::given`]), reads results and writes its tables in their wire form.
pub trait HostedProcedure: Send + Sync {
    /// Runs a call.
    ///
    /// # Errors
    /// As for [`NativeProcedure::run`].
    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError>;
}

/// What runs the calls of a procedure.
#[derive(Clone)]
pub enum ProcedureCode {
    /// Its statements, one after the other.
    Statements,
    /// A type linked into the binary.
    Native(Arc<dyn NativeProcedure>),
    /// Code in the runtime of another language.
    Hosted(Arc<dyn HostedProcedure>),
}

/// Why a procedure ends without success.
#[derive(Debug)]
pub enum ProcedureError {
    /// A statement failed; its batch is undone.
    Sql(SqlError),
    /// As the procedure's runtime says, status and text.
    Failed(Failure),
    /// The procedure decided so.
    Abort(String),
    /// The procedure is broken.
    Unexpected(String),
    /// Not an error: the rest of the procedure runs in a later round. Pass it on.
    Suspended(Suspended),
}

/// See [`ProcedureError::Suspended`]; made by the context only.
#[derive(Debug)]
pub struct Suspended(());

impl From<SqlError> for ProcedureError {
    fn from(error: SqlError) -> ProcedureError {
        ProcedureError::Sql(error)
    }
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcedureError::Sql(error) => error.fmt(f),
            ProcedureError::Failed(failure) => failure.fmt(f),
            ProcedureError::Abort(message) | ProcedureError::Unexpected(message) => {
                f.write_str(message)
            }
            ProcedureError::Suspended(_) => f.write_str("the procedure goes on in a later round"),
        }
    }
}

impl std::error::Error for ProcedureError {}

impl ProcedureError {
    /// The failure as the client gets it.
    #[cold]
    pub fn into_failure(self) -> Failure {
        match self {
            ProcedureError::Sql(error) => Failure::from(error),
            ProcedureError::Failed(failure) => failure,
            ProcedureError::Abort(message) => {
                Failure::abort(format!("VOLTDB ERROR: USER ABORT {message}"))
            }
            ProcedureError::Unexpected(message) => {
                Failure::unexpected(format!("VOLTDB ERROR: UNEXPECTED FAILURE: {message}"))
            }
            ProcedureError::Suspended(_) => {
                Failure::unexpected("VOLTDB ERROR: UNEXPECTED FAILURE: a round was lost")
            }
        }
    }
}

/// A procedure with its statements ready to run. Sites share it.
pub struct PreparedProcedure {
    definition: Arc<ProcedureDefinition>,
    statements: Vec<Arc<PreparedStatement>>,
    code: ProcedureCode,
    /// What its calls come down to, where that is known from their parameters.
    parts: Option<parts::Parts>,
    /// The table of `return_scalar`.
    scalar: CountTable,
}

impl PreparedProcedure {
    /// Prepares a procedure; `native` is its code, if it has any.
    pub fn new(
        definition: Arc<ProcedureDefinition>,
        native: Option<Arc<dyn NativeProcedure>>,
    ) -> PreparedProcedure {
        let code = native.map_or(ProcedureCode::Statements, ProcedureCode::Native);
        PreparedProcedure::with_code(definition, code)
    }

    /// Prepares a procedure with its code.
    pub fn with_code(
        definition: Arc<ProcedureDefinition>,
        code: ProcedureCode,
    ) -> PreparedProcedure {
        let prepared = |(number, (_, statement)): (usize, &(String, Arc<_>))| {
            let definition = Arc::clone(&definition);
            let origin = StatementOrigin::Procedure { definition, number: number as u32 };
            Arc::new(PreparedStatement::new(Arc::clone(statement)).with_origin(origin))
        };
        let statements: Vec<_> = definition.statements.iter().enumerate().map(prepared).collect();
        let parts = parts::Parts::of(&definition, &statements, &code);
        let scalar = CountTable::new(&TableSchema::new(&[("", SqlType::BigInt)]));
        PreparedProcedure { definition, statements, code, parts, scalar }
    }

    /// What the catalog says of it.
    #[inline]
    pub fn definition(&self) -> &Arc<ProcedureDefinition> {
        &self.definition
    }

    /// Whether it executes one batch and ends: a list of statements. Native code may go on.
    pub fn has_one_batch(&self) -> bool {
        matches!(self.code, ProcedureCode::Statements)
    }

    /// Whether its multi-partition calls run on threads that wait ([`run_blocking`]).
    pub fn blocks(&self) -> bool {
        matches!(self.code, ProcedureCode::Hosted(_))
    }

    /// Its statements, in order.
    pub fn statements(&self) -> &[Arc<PreparedStatement>] {
        &self.statements
    }
}

impl fmt::Debug for PreparedProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedProcedure").field("name", &self.definition.name).finish()
    }
}

/// Memory of calls, kept from one to the next.
#[derive(Default)]
pub(crate) struct CallMemory {
    arena: Arena,
    results: Vec<u8>,
    starts: Vec<u32>,
}

/// Capacity of the batch results that is kept.
const KEPT_RESULT_BYTES: usize = 1 << 20;

/// Runs a whole single-partition call and appends its tables to `out`. The call is a transaction
/// of its own: on failure it has changed nothing (what stands in `out` then is void); on success
/// the caller commits.
pub fn run_procedure(
    database: &mut Database,
    procedure: &PreparedProcedure,
    parameters: ParameterSet<'_>,
    transaction: &TransactionContext,
    out: &mut Vec<u8>,
) -> Outcome {
    let mark = database.begin(transaction);
    let length = out.len();
    let mut memory = database.call_memory.take().unwrap_or_default();
    let outcome = run_call(database, procedure, parameters, &mut memory, out);
    memory.arena.reset();
    if memory.results.capacity() > KEPT_RESULT_BYTES {
        memory.results = Vec::new();
    }
    database.call_memory = Some(memory);
    if outcome.failure.is_some() {
        out.truncate(length);
        database.rollback_to(mark);
    }
    outcome
}

fn run_call(
    database: &mut Database,
    procedure: &PreparedProcedure,
    parameters: ParameterSet<'_>,
    memory: &mut CallMemory,
    out: &mut Vec<u8>,
) -> Outcome {
    let CallMemory { arena, results, starts } = memory;
    if let ProcedureCode::Hosted(hosted) = &procedure.code {
        let backend = context::Backend::local(database, results, starts);
        let mut context = ProcedureContext::new(procedure, &[], arena, backend, out);
        context.set_given(parameters);
        let result = hosted.run(&mut context);
        return context.into_outcome(result);
    }
    let parameters = match procedure_parameters(&procedure.definition, parameters, arena) {
        Ok(parameters) => parameters,
        Err(failure) => return Outcome::failed(failure),
    };
    match &procedure.code {
        ProcedureCode::Native(native) => {
            let backend = context::Backend::local(database, results, starts);
            let mut context = ProcedureContext::new(procedure, parameters, arena, backend, out);
            let result = native.run(&mut context);
            context.into_outcome(result)
        }
        _ => match run_statements(database, procedure, parameters, out) {
            Ok(()) => Outcome::success(procedure.statements.len() as u16),
            Err(error) => Outcome::failed(Failure::from(error)),
        },
    }
}

/// Runs the statements one after the other; parameters go to them in order.
fn run_statements(
    database: &mut Database,
    procedure: &PreparedProcedure,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let start = out.len();
    let limit = database.options.result_limit_bytes;
    let mut rest = parameters;
    for (number, prepared) in procedure.statements.iter().enumerate() {
        let (own, after) = rest.split_at(prepared.statement().parameters.len().min(rest.len()));
        rest = after;
        let (began, length) = (database.statement_begins(), out.len());
        let done = execute(database, prepared, own, out);
        if let Some(began) = began {
            let bytes = out.len().saturating_sub(length);
            database.statement_ended(number, began, bytes, done.is_err());
        }
        done?;
        if out.len() - start > limit {
            return Err(crate::query::too_large(0, limit));
        }
    }
    Ok(())
}
