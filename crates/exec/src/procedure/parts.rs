//! Calls whose work is known from their parameters: a list of statements that run whole at one
//! partition each, and index entries beside them. The one that has the call and the partitions of
//! its parts ([`PreparedProcedure::place_parts`]) can run its own ([`run_parts`]); nothing else has
//! to be sent, and nothing comes between.

use super::parameters::procedure_parameters;
use super::{PreparedProcedure, ProcedureCode};
use crate::arena::Arena;
use crate::change::{apply_known_entry, partition_of_key};
use crate::database::Database;
use crate::lookup::lookups;
use crate::statement::{PreparedStatement, execute};
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{Execution, Expression, Node, ProcedureDefinition};
use lockstep_types::{Datum, Failure, HashRing, ParameterSet, PartitionId, SqlType, Value};
use std::ops::Range;
use std::sync::Arc;

/// The parts of a call, in the order in which one partition that had them all would run them.
#[derive(Debug)]
pub(super) struct Parts {
    list: Vec<Part>,
    /// The parameters of the call as the statements declare them: integers of narrower types than
    /// the procedure does.
    types: Vec<SqlType>,
    /// A statement does not say where it runs: the call's own routing does.
    needs_home: bool,
}

#[derive(Debug)]
struct Part {
    statement: usize,
    /// The numbered entry that the statement is known to add; otherwise the statement itself.
    entry: Option<usize>,
    /// The statement's parameters among those of the call.
    parameters: Range<usize>,
    /// What is hashed.
    key: Vec<Source>,
}

/// Where a value comes from.
#[derive(Debug)]
enum Source {
    /// A parameter of the call.
    Parameter(usize),
    Literal(Value),
}

impl Source {
    fn value<'a>(&'a self, parameters: &[Datum<'a>]) -> Datum<'a> {
        match self {
            Source::Parameter(number) => parameters[*number],
            Source::Literal(value) => value.as_datum(),
        }
    }
}

impl Parts {
    /// The parts of a procedure's calls, if they are known from parameters.
    pub(super) fn of(
        definition: &ProcedureDefinition,
        statements: &[Arc<PreparedStatement>],
        code: &ProcedureCode,
    ) -> Option<Parts> {
        if !matches!(code, ProcedureCode::Statements) {
            return None;
        }
        let mut parts = Parts { list: Vec::new(), types: Vec::new(), needs_home: false };
        let mut first = 0;
        for (number, prepared) in statements.iter().enumerate() {
            let declared = &prepared.statement().parameters;
            let own = first..first + declared.len();
            let given = definition.parameters.get(own.clone())?;
            // The values of the call are those of the statement: nothing is converted between.
            let alike = |a: SqlType, b: SqlType| a == b || a.is_integer() && b.is_integer();
            let mut pairs = given.iter().zip(declared);
            if !pairs.all(|(a, b)| alike(a.sql_type, b.sql_type) && !a.is_array && !b.is_array) {
                return None;
            }
            parts.types.extend(declared.iter().map(|parameter| parameter.sql_type));
            first = own.end;
            parts.add(number, prepared, own)?;
        }
        (first == definition.parameters.len() && !parts.list.is_empty()).then_some(parts)
    }

    fn add(
        &mut self,
        number: usize,
        prepared: &PreparedStatement,
        parameters: Range<usize>,
    ) -> Option<()> {
        let statement = prepared.statement();
        let Execution::Local { routing, .. } = &statement.execution else { return None };
        if !lookups(statement).is_empty() {
            return None;
        }
        let source = |value: &Expression| match &value.node {
            Node::Parameter(place) => {
                Some(Source::Parameter(parameters.start + usize::from(*place)))
            }
            Node::Literal(value) => Some(Source::Literal(value.clone())),
            _ => None,
        };
        let key: Option<Vec<Source>> = routing.iter().map(source).collect();
        self.needs_home |= key.as_ref().is_none_or(Vec::is_empty);
        let part =
            |entry, key| Part { statement: number, entry, parameters: parameters.clone(), key };
        self.list.push(part(None, key.unwrap_or_default()));
        let entries = match &statement.upkeep {
            IndexUpkeep::None => &[][..],
            IndexUpkeep::Known(entries) => entries,
            IndexUpkeep::Truncated(_) | IndexUpkeep::Collected => return None,
        };
        for (place, entry) in entries.iter().enumerate() {
            let key = entry.values.iter().take(usize::from(entry.key_count));
            let key: Option<Vec<Source>> = key.map(source).collect();
            self.list.push(part(Some(place), key?));
        }
        Some(())
    }
}

/// Whether an integer is within the range of its declared type.
#[inline]
fn fits(value: Datum<'_>, declared: SqlType) -> bool {
    match (value, declared) {
        (Datum::Int(value), SqlType::TinyInt) => i8::try_from(value).is_ok(),
        (Datum::Int(value), SqlType::SmallInt) => i16::try_from(value).is_ok(),
        (Datum::Int(value), SqlType::Integer) => i32::try_from(value).is_ok(),
        _ => true,
    }
}

impl PreparedProcedure {
    /// Whether it may be known from a call's parameters where its parts run.
    #[inline]
    pub fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// How many parts a call has whose parts are known.
    pub fn part_count(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.list.len())
    }

    /// Appends the partition of each part of a call: of a statement, then of the entries beside it,
    /// then of the next statement. With a `home` the statements run there. False when this call
    /// has to be planned: what stands in `places` is void then.
    pub fn place_parts(
        &self,
        given: ParameterSet<'_>,
        home: Option<PartitionId>,
        ring: &HashRing,
        arena: &Arena,
        places: &mut Vec<PartitionId>,
    ) -> bool {
        let Some(parts) = &self.parts else { return false };
        if home.is_none() && parts.needs_home || ring.partition_count() == 1 {
            return false;
        }
        let Ok(values) = procedure_parameters(&self.definition, given, arena) else {
            return false;
        };
        if !values.iter().zip(&parts.types).all(|(value, declared)| fits(*value, *declared)) {
            return false;
        }
        for part in &parts.list {
            places.push(match (part.entry, home, part.key.as_slice()) {
                (None, Some(home), _) => home,
                (None, None, [only]) => ring.partition_of(only.value(values)),
                (None, None, _) => return false,
                (Some(_), _, [only]) => partition_of_key(ring, &[only.value(values)]),
                (Some(_), _, key) => {
                    let key: Vec<_> = key.iter().map(|source| source.value(values)).collect();
                    partition_of_key(ring, &key)
                }
            });
        }
        true
    }

    /// Whether the numbered part of a call may change data.
    pub fn writes_in_part(&self, number: usize) -> bool {
        let part = self.parts.as_ref().and_then(|parts| parts.list.get(number));
        part.is_some_and(|part| !self.statements[part.statement].statement().read_only)
    }

    /// Of the partitions of a call's parts, those of its statements, in order.
    pub fn places_of_statements<'p>(
        &'p self,
        places: &'p [PartitionId],
    ) -> impl Iterator<Item = PartitionId> + 'p {
        let parts = self.parts.iter().flat_map(|parts| &parts.list);
        parts.zip(places).filter_map(|(part, place)| part.entry.is_none().then_some(*place))
    }
}

/// The parts of a call that run here.
pub struct PartsHere<'c> {
    /// The procedure.
    pub procedure: &'c PreparedProcedure,
    /// The parameters of the call.
    pub given: ParameterSet<'c>,
    /// What [`PreparedProcedure::place_parts`] gave.
    pub places: &'c [PartitionId],
    /// See [`Database::begin_task`].
    pub home: Option<bool>,
    /// Leave the entries as they are: a fault for tests.
    pub skips_entries: bool,
}

/// Runs the parts of a call that belong here, within a transaction that has begun, and appends the
/// tables of its statements to `out`.
///
/// # Errors
/// What a part violates; the caller takes the transaction back.
pub fn run_parts(
    database: &mut Database,
    here: &PartsHere<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let mut memory = database.call_memory.take().unwrap_or_default();
    let result = run_each(database, here, &memory.arena, out);
    memory.arena.reset();
    database.call_memory = Some(memory);
    result
}

fn run_each(
    database: &mut Database,
    here: &PartsHere<'_>,
    arena: &Arena,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let procedure = here.procedure;
    let parameters = procedure_parameters(&procedure.definition, here.given, arena)?;
    let own = database.options().partition;
    let parts = procedure.parts.iter().flat_map(|parts| &parts.list);
    for (part, _) in parts.zip(here.places).filter(|(_, place)| **place == own) {
        let prepared = &procedure.statements[part.statement];
        let parameters = &parameters[part.parameters.clone()];
        let known = matches!(prepared.statement().upkeep, IndexUpkeep::Known(_));
        database.begin_task(here.home, known);
        let done = match part.entry {
            None => execute(database, prepared, parameters, out),
            Some(_) if here.skips_entries => Ok(()),
            Some(entry) => apply_known_entry(database, prepared, entry, parameters),
        };
        database.end_task();
        done.map_err(|error| error.to_failure())?;
        assert!(
            !database.has_entry_changes(),
            "a statement changes the index entries of its plan, and no others"
        );
    }
    Ok(())
}
