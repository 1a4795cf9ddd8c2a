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
use lockstep_base::prefetch;
use lockstep_base::short_list::ShortList;
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

/// Calls that a partition is done with at most, before it gives them up.
const ENDED_CALLS: usize = 16;

/// Calls that a partition is done with. The count of those who have a call comes from another
/// core: it is asked for when the call ends, and changed a little later, so that nobody waits.
#[derive(Default)]
pub(crate) struct EndedCalls {
    calls: Vec<Arc<OneRoundCall>>,
}

impl EndedCalls {
    #[inline]
    pub(crate) fn push(&mut self, call: Arc<OneRoundCall>) {
        prefetch::counts_to_write(&call);
        if self.calls.len() >= ENDED_CALLS {
            self.calls.clear();
        }
        self.calls.push(call);
    }

    /// Gives them up.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }
}

/// Bytes of an invocation that lie in the call itself.
const FEW_BYTES: usize = 128;
/// The same for partitions: those of its parts, those that take part, and those that write.
const FEW_PARTITIONS: usize = 12;

/// The longest invocation whose memory is kept for others.
const KEPT_BYTES: usize = 64 * 1024;

/// A call of one round. Everybody who takes part has the same one. What they read lies in as few
/// cache lines as it can, and not in that of the count of those who have it: it comes from
/// another core to each of them.
#[derive(Debug)]
#[repr(align(64))]
pub struct OneRoundCall {
    pub(crate) procedure: Arc<PreparedProcedure>,
    pub(crate) procedure_number: u32,
    pub(crate) catalog_version: u64,
    pub(crate) time_limit: Option<TimeLimit>,
    home: Option<Home>,
    invocation: ShortList<u8, FEW_BYTES>,
    parameters_at: usize,
    /// The partition of each part of the call; those that take part, in the order of their
    /// numbers; of those, the partitions that write.
    partitions: ShortList<PartitionId, FEW_PARTITIONS>,
    /// Where in `partitions` the second list begins, and the third.
    participants_at: usize,
    writers_at: usize,
    /// The participant whose answer comes first.
    first_answer: usize,
}

/// What the byte form of a call of one round says.
#[derive(Debug)]
pub(crate) struct OneRoundParts<'a> {
    pub(crate) catalog_version: u64,
    pub(crate) procedure: &'a str,
    pub(crate) procedure_number: u32,
    pub(crate) time_limit: Option<TimeLimit>,
    pub(crate) home: Option<Home>,
    pub(crate) invocation: &'a [u8],
    pub(crate) parameters_at: usize,
    /// The partition of each part; those that take part; those that write.
    pub(crate) partitions: [Vec<PartitionId>; 3],
    pub(crate) first_answer: usize,
}

impl OneRoundCall {
    fn of(procedure: &Arc<PreparedProcedure>) -> OneRoundCall {
        OneRoundCall {
            procedure: Arc::clone(procedure),
            procedure_number: 0,
            catalog_version: 0,
            time_limit: None,
            home: None,
            invocation: ShortList::default(),
            parameters_at: 0,
            partitions: ShortList::default(),
            participants_at: 0,
            writers_at: 0,
            first_answer: 0,
        }
    }

    /// What the byte form of the call says.
    pub(crate) fn parts(&self) -> OneRoundParts<'_> {
        let all = self.partitions.as_slice();
        OneRoundParts {
            catalog_version: self.catalog_version,
            procedure: &self.procedure.definition().name,
            procedure_number: self.procedure_number,
            time_limit: self.time_limit,
            home: self.home,
            invocation: self.invocation(),
            parameters_at: self.parameters_at,
            partitions: [
                all[..self.participants_at].to_vec(),
                all[self.participants_at..self.writers_at].to_vec(),
                all[self.writers_at..].to_vec(),
            ],
            first_answer: self.first_answer,
        }
    }

    /// The call that a byte form says, of a procedure found by its name.
    ///
    /// # Errors
    /// It is no call of that procedure.
    pub(crate) fn from_parts(
        procedure: Arc<PreparedProcedure>,
        parts: &OneRoundParts<'_>,
    ) -> Result<OneRoundCall, &'static str> {
        let [places, participants, writers] = &parts.partitions;
        let takes_part = |partition: &PartitionId| participants.binary_search(partition).is_ok();
        if !procedure.has_parts() || places.len() != procedure.part_count() {
            return Err("the call has other parts than its procedure");
        }
        let set = parts.invocation.get(parts.parameters_at..).unwrap_or_default();
        if ParameterSet::new(set).is_err() {
            return Err("the call has no parameters");
        }
        if !participants.is_sorted_by(|one, next| one < next)
            || !places.iter().all(takes_part)
            || !writers.iter().all(takes_part)
            || parts.first_answer >= participants.len()
        {
            return Err("parts of the call are at partitions that take no part");
        }
        let mut call = OneRoundCall::of(&procedure);
        call.procedure_number = parts.procedure_number;
        call.catalog_version = parts.catalog_version;
        call.time_limit = parts.time_limit;
        call.home = parts.home;
        call.invocation.set(parts.invocation);
        call.parameters_at = parts.parameters_at;
        call.partitions.set(&parts.partitions.concat());
        call.participants_at = places.len();
        call.writers_at = places.len() + participants.len();
        call.first_answer = parts.first_answer;
        Ok(call)
    }

    /// The number of the statement of each table, in the order in which the answers have them.
    pub fn table_order(&self) -> Vec<u16> {
        let mut order = Vec::new();
        for partition in self.answer_order() {
            let places = self.procedure.places_of_statements(self.places());
            order.extend((0..).zip(places).filter(|(_, at)| *at == partition).map(|(n, _)| n));
        }
        order
    }

    /// What the client sent.
    pub fn invocation(&self) -> &[u8] {
        self.invocation.as_slice()
    }

    /// The parameter set, its count in front.
    pub(crate) fn parameter_set(&self) -> &[u8] {
        &self.invocation()[self.parameters_at..]
    }

    /// Bytes of the parameter set.
    pub fn parameter_bytes(&self) -> usize {
        self.parameter_set().len()
    }

    /// Who takes part, in the order of their numbers.
    pub fn participants(&self) -> &[PartitionId] {
        &self.partitions.as_slice()[self.participants_at..self.writers_at]
    }

    /// The partition of each of its parts.
    fn places(&self) -> &[PartitionId] {
        &self.partitions.as_slice()[..self.participants_at]
    }

    /// Of those, the partitions that write.
    pub(crate) fn writers(&self) -> &[PartitionId] {
        &self.partitions.as_slice()[self.writers_at..]
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
        let places = self.procedure.places_of_statements(self.places());
        places.filter(|place| *place == partition).count()
    }

    /// Whether a partition's answer stands before the others'.
    pub(crate) fn is_answered_first(&self, partition: PartitionId) -> bool {
        self.participants().get(self.first_answer) == Some(&partition)
    }

    /// Participants in the order in which their answers stand one after the other.
    pub(crate) fn answer_order(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let (before, rest) = self.participants().split_at(self.first_answer);
        let (first, after) = rest.split_at(1);
        first.iter().chain(before).chain(after).copied()
    }

    pub(crate) fn parts_here<'c>(
        &'c self,
        given: ParameterSet<'c>,
        skips_entries: bool,
    ) -> PartsHere<'c> {
        let home = self.home.map(|home| home.addresses_partition);
        PartsHere { procedure: &self.procedure, given, places: self.places(), home, skips_entries }
    }

    /// Becomes another call; `list` is memory for what it takes part at. False when that is not
    /// of this kind.
    fn become_call(
        &mut self,
        request: &OneRoundRequest<'_>,
        ring: &HashRing,
        arena: &Arena,
        list: &mut Vec<PartitionId>,
    ) -> bool {
        let Some(set) = request.invocation.get(request.parameters_at..) else { return false };
        let Ok(given) = ParameterSet::new(set) else { return false };
        list.clear();
        let home = request.home.map(|home| home.partition);
        if !request.procedure.place_parts(given, home, ring, arena, list) {
            return false;
        }
        let declares = |place: PartitionId| request.declared.contains(&place);
        let mut of_statements = request.procedure.places_of_statements(list);
        if !request.declared.is_empty() && !of_statements.all(declares) {
            return false;
        }
        drop(of_statements);
        self.participants_at = list.len();
        list.extend_from_within(..);
        list.extend_from_slice(request.declared);
        sort_from(list, self.participants_at);
        self.writers_at = list.len();
        let participants = &list[self.participants_at..];
        self.first_answer = participants.binary_search(&request.near).unwrap_or(0);
        let writes =
            (0..self.participants_at).filter(|part| request.procedure.writes_in_part(*part));
        for part in writes {
            list.push(list[part]);
        }
        sort_from(list, self.writers_at);
        self.partitions.set(list);
        if !Arc::ptr_eq(&self.procedure, request.procedure) {
            self.procedure = Arc::clone(request.procedure);
        }
        let reads = self.procedure.definition().read_only;
        self.time_limit = request.time_limit.filter(|_| reads);
        self.procedure_number = request.procedure_number;
        self.catalog_version = request.catalog_version;
        self.home = request.home;
        self.parameters_at = request.parameters_at;
        self.invocation.set(request.invocation);
        true
    }
}

/// Sorts a list from a place on, and leaves one of each there.
fn sort_from(list: &mut Vec<PartitionId>, from: usize) {
    list[from..].sort_unstable();
    let mut end = from;
    for place in from..list.len() {
        if end == from || list[end - 1] != list[place] {
            list[end] = list[place];
            end += 1;
        }
    }
    list.truncate(end);
}

/// Makes calls of one round, of those that everybody is done with.
pub struct OneRoundCalls {
    /// Those that ended here: the first one may be free first.
    ended: VecDeque<Arc<OneRoundCall>>,
    limit: usize,
    /// Every call is to be planned by the coordinator.
    makes_none: bool,
    arena: Arena,
    /// Of the call that is made.
    partitions: Vec<PartitionId>,
    /// Where each statement's table begins and ends.
    tables: Vec<(usize, usize)>,
}

impl OneRoundCalls {
    /// Keeps at most N for reuse.
    pub fn new(limit: usize, stop_everything: StopEverything) -> OneRoundCalls {
        OneRoundCalls {
            ended: VecDeque::new(),
            limit,
            makes_none: stop_everything == StopEverything::ByFragments,
            arena: Arena::new(),
            partitions: Vec::new(),
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
        let is_free = self.ended.front_mut().is_some_and(|call| Arc::get_mut(call).is_some());
        let kept = if is_free { self.ended.pop_front() } else { None };
        if let Some(next) = self.ended.front() {
            prefetch::counts_to_write(next);
            prefetch::to_write(&**next);
        }
        let mut call = kept.unwrap_or_else(|| Arc::new(OneRoundCall::of(request.procedure)));
        let own = Arc::get_mut(&mut call).expect("nobody else has it");
        let is_such = own.become_call(request, ring, &self.arena, &mut self.partitions);
        self.arena.reset();
        if !is_such {
            self.ended.push_front(call);
            return None;
        }
        Some(call)
    }

    /// A call has ended that was made here: it becomes another one when nobody has it any more,
    /// unless its procedure may be a dropped one.
    pub fn recycle(&mut self, call: Arc<OneRoundCall>, catalog_version: u64) {
        let is_small = call.invocation().len() <= KEPT_BYTES;
        if is_small && self.ended.len() < self.limit && call.catalog_version == catalog_version {
            self.ended.push_back(call);
        }
    }

    /// Forgets the calls that ended, with the procedures in it: they may be dropped ones.
    pub fn clear(&mut self) {
        self.ended.clear();
    }

    /// Appends the tables of a call in the order of its statements. `answers` are those of the
    /// participants, one after the other as the coordinator gave them; each has the tables of its
    /// statements. False when they are not what partitions answer.
    pub fn write_tables(&mut self, call: &OneRoundCall, answers: &[u8], out: &mut Vec<u8>) -> bool {
        self.tables.clear();
        self.tables.resize(call.statement_count(), (0, 0));
        let mut place = 0;
        for partition in call.answer_order() {
            let places = call.procedure.places_of_statements(call.places()).enumerate();
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

/// Appends the tables of a call in the order of its statements, where the statement of each table
/// among the `answers` is known ([`OneRoundCall::table_order`]). False when there are other tables.
pub fn write_tables_in_order(order: &[u16], answers: &[u8], out: &mut Vec<u8>) -> bool {
    let mut tables: Vec<&[u8]> = vec![&[]; order.len()];
    let mut reader = ByteReader::new(answers);
    for statement in order {
        let start = reader.rest();
        let Ok(Some(table)) = reader.sized() else { return false };
        let Some(place) = tables.get_mut(usize::from(*statement)) else { return false };
        *place = &start[..size_of::<i32>() + table.len()];
    }
    tables.iter().for_each(|table| out.extend_from_slice(table));
    reader.remaining() == 0 && tables.iter().all(|table| !table.is_empty())
}
