//! Calls whose whole work is one round of statements that run whole where a parameter says, such
//! as a transfer between two accounts, or an insert with an index entry elsewhere.
//!
//! Nothing has to be planned for them: the thread where such a call comes in finds the partitions
//! ([`OneRoundCalls::make`]), the coordinator gives it its place in the order of all, and each
//! partition takes from the call what it has to run. So one object goes to all, written once, and
//! given back to its maker when nobody has it any more. The coordinator does not look into the
//! answers but to see whether all succeeded; the maker puts the tables into the order of the
//! statements ([`OneRoundCalls::write_tables`]).

use crate::limits::StopEverything;
use crate::message::Home;
use lockstep_base::arena::Arena;
use lockstep_base::bytes::ByteReader;
use lockstep_exec::PreparedProcedure;
use lockstep_exec::procedure::PartsHere;
use lockstep_exec::watch::TimeLimit;
use lockstep_types::{HashRing, ParameterSet, PartitionId};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a call is made of.
#[derive(Debug, Clone, Copy)]
pub struct OneRoundRequest<'a> {
    /// The procedure.
    pub procedure: &'a Arc<PreparedProcedure>,
    /// [`crate::MultiCall::procedure_number`].
    pub procedure_number: u32,
    /// [`crate::MultiCall::catalog_version`].
    pub catalog_version: u64,
    /// [`crate::MultiCall::time_limit`].
    pub time_limit: Option<TimeLimit>,
    /// [`crate::MultiCall::declared`].
    pub declared: &'a [PartitionId],
    /// [`crate::MultiCall::home`].
    pub home: Option<Home>,
    /// Bytes that end with the parameters: what the client sent.
    pub invocation: &'a [u8],
    /// Where in them the parameter set begins.
    pub parameters_at: usize,
    /// The partition of the thread where the call came in: its answer carries the others'.
    pub near: PartitionId,
}

/// A call of one round. Everybody who takes part has the same one.
#[derive(Debug)]
pub struct OneRoundCall {
    pub(crate) procedure: Arc<PreparedProcedure>,
    pub(crate) procedure_number: u32,
    pub(crate) catalog_version: u64,
    pub(crate) time_limit: Option<TimeLimit>,
    home: Option<Home>,
    invocation: Vec<u8>,
    parameters_at: usize,
    /// The partition of each part of the call.
    places: Vec<PartitionId>,
    /// Those that take part, in the order of their numbers.
    participants: Vec<PartitionId>,
    /// Of those, the partitions that write.
    writers: Vec<PartitionId>,
    /// The participant whose answer comes first.
    first_answer: usize,
}

impl OneRoundCall {
    fn of(procedure: &Arc<PreparedProcedure>) -> OneRoundCall {
        OneRoundCall {
            procedure: Arc::clone(procedure),
            procedure_number: 0,
            catalog_version: 0,
            time_limit: None,
            home: None,
            invocation: Vec::new(),
            parameters_at: 0,
            places: Vec::new(),
            participants: Vec::new(),
            writers: Vec::new(),
            first_answer: 0,
        }
    }

    /// What the client sent.
    pub fn invocation(&self) -> &[u8] {
        &self.invocation
    }

    /// The parameter set, its count in front.
    pub(crate) fn parameter_set(&self) -> &[u8] {
        &self.invocation[self.parameters_at..]
    }

    /// Bytes of the parameter set.
    pub fn parameter_bytes(&self) -> usize {
        self.parameter_set().len()
    }

    /// Who takes part, in the order of their numbers.
    pub fn participants(&self) -> &[PartitionId] {
        &self.participants
    }

    /// Of those, the partitions that write.
    pub(crate) fn writers(&self) -> &[PartitionId] {
        &self.writers
    }

    /// Where its statements run if it is one of a single-partition procedure, and whether it
    /// addresses the partition itself.
    pub(crate) fn home(&self) -> Option<(PartitionId, bool)> {
        self.home.map(|home| (home.partition, home.addresses_partition))
    }

    /// Number of its statements, which is that of its tables.
    pub fn statement_count(&self) -> usize {
        self.procedure.statements().len()
    }

    /// Whether a partition runs statements, not only changes of index entries.
    pub(crate) fn runs_statements(&self, partition: PartitionId) -> bool {
        self.tables_of(partition) > 0
    }

    /// How many tables a partition answers with.
    pub(crate) fn tables_of(&self, partition: PartitionId) -> usize {
        let places = self.procedure.places_of_statements(&self.places);
        places.filter(|place| *place == partition).count()
    }

    /// Participants in the order in which their answers stand one behind the other.
    pub(crate) fn answer_order(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let (before, rest) = self.participants.split_at(self.first_answer);
        let (first, after) = rest.split_at(1);
        first.iter().chain(before).chain(after).copied()
    }

    pub(crate) fn parts_here<'c>(
        &'c self,
        given: ParameterSet<'c>,
        skips_entries: bool,
    ) -> PartsHere<'c> {
        let home = self.home.map(|home| home.addresses_partition);
        PartsHere { procedure: &self.procedure, given, places: &self.places, home, skips_entries }
    }

    /// Becomes another call. False when that is not of this kind.
    fn become_call(
        &mut self,
        request: &OneRoundRequest<'_>,
        ring: &HashRing,
        arena: &Arena,
    ) -> bool {
        let Some(set) = request.invocation.get(request.parameters_at..) else { return false };
        let Ok(given) = ParameterSet::new(set) else { return false };
        self.places.clear();
        let home = request.home.map(|home| home.partition);
        if !request.procedure.place_parts(given, home, ring, arena, &mut self.places) {
            return false;
        }
        let declares = |place: PartitionId| request.declared.contains(&place);
        let mut of_statements = request.procedure.places_of_statements(&self.places);
        if !request.declared.is_empty() && !of_statements.all(declares) {
            return false;
        }
        drop(of_statements);
        self.participants.clear();
        self.participants.extend_from_slice(&self.places);
        self.participants.extend_from_slice(request.declared);
        self.participants.sort_unstable();
        self.participants.dedup();
        self.writers.clear();
        self.writers.extend(request.procedure.places_of_writes(&self.places));
        self.writers.sort_unstable();
        self.writers.dedup();
        self.first_answer = self.participants.binary_search(&request.near).unwrap_or(0);
        if !Arc::ptr_eq(&self.procedure, request.procedure) {
            self.procedure = Arc::clone(request.procedure);
        }
        let reads = self.procedure.definition().read_only;
        self.time_limit = request.time_limit.filter(|_| reads);
        self.procedure_number = request.procedure_number;
        self.catalog_version = request.catalog_version;
        self.home = request.home;
        self.parameters_at = request.parameters_at;
        self.invocation.clear();
        self.invocation.extend_from_slice(request.invocation);
        true
    }
}

/// Makes calls of one round, of those that everybody is done with.
pub struct OneRoundCalls {
    /// The one that was made first may be free first.
    made: VecDeque<Arc<OneRoundCall>>,
    limit: usize,
    /// Every call is to be planned by the coordinator.
    makes_none: bool,
    arena: Arena,
    /// Where each statement's table begins and ends.
    tables: Vec<(usize, usize)>,
}

impl OneRoundCalls {
    /// Keeps at most so many for reuse.
    pub fn new(limit: usize, stop_everything: StopEverything) -> OneRoundCalls {
        OneRoundCalls {
            made: VecDeque::new(),
            limit,
            makes_none: stop_everything == StopEverything::ByFragments,
            arena: Arena::new(),
            tables: Vec::new(),
        }
    }

    /// Makes a call; nothing when that has to be planned ([`crate::MultiCall`]).
    pub fn make(
        &mut self,
        request: &OneRoundRequest<'_>,
        ring: &HashRing,
    ) -> Option<Arc<OneRoundCall>> {
        if self.makes_none || !request.procedure.has_parts() {
            return None;
        }
        let is_free = self.made.front_mut().is_some_and(|call| Arc::get_mut(call).is_some());
        let kept = if is_free { self.made.pop_front() } else { None };
        let mut call = kept.unwrap_or_else(|| Arc::new(OneRoundCall::of(request.procedure)));
        let own = Arc::get_mut(&mut call).expect("nobody else has it");
        let is_such = own.become_call(request, ring, &self.arena);
        self.arena.reset();
        if !is_such {
            self.made.push_front(call);
            return None;
        }
        if self.made.len() < self.limit {
            self.made.push_back(Arc::clone(&call));
        }
        Some(call)
    }

    /// Forgets what was made, with the procedures in it: they may be dropped ones.
    pub fn clear(&mut self) {
        self.made.clear();
    }

    /// Appends the tables of a call in the order of its statements. `answers` are those of the
    /// participants, one behind the other as the coordinator gave them; each has the tables of its
    /// statements. False when they are not what partitions answer.
    pub fn write_tables(&mut self, call: &OneRoundCall, answers: &[u8], out: &mut Vec<u8>) -> bool {
        self.tables.clear();
        self.tables.resize(call.statement_count(), (0, 0));
        let mut place = 0;
        for partition in call.answer_order() {
            let places = call.procedure.places_of_statements(&call.places).enumerate();
            for (statement, _) in places.filter(|(_, place)| *place == partition) {
                let mut reader = ByteReader::new(&answers[place..]);
                let Ok(Some(table)) = reader.sized() else { return false };
                let end = place + size_of::<i32>() + table.len();
                self.tables[statement] = (place, end);
                place = end;
            }
        }
        for (start, end) in &self.tables {
            out.extend_from_slice(&answers[*start..*end]);
        }
        place == answers.len()
    }
}
