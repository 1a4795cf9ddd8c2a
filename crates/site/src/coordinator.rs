//! Takes multi-partition transactions through their rounds, many at a time.

use crate::active::{
    Active, DeskLimits, Next, PendingEntries, Queued, Submitted, ThreadState, Timing, blocks,
    bound, context_of, desk_context, over_limit, statements_end, take_answers, time_limit,
};
use crate::fence::OutcomeMemory;
use crate::limits::{Faults, SiteLimits};
use crate::message::{
    FromPartition, MultiCall, MultiWork, Numbered, RoundAnswer, RoundTasks, ToPartition,
};
use crate::one_round::OneRoundCall;
use crate::round::{Desk, Round, home_of};
use crate::tables::{total, write_modified, write_other_answer, write_status};
use crate::threaded::ToThread;
use lockstep_base::growing::GrowingMap;
use lockstep_exec::procedure::{BatchResult, ProcedureRound, run_round};
use lockstep_exec::watch::Stopwatch;
use lockstep_txn::mp::MultiLimits;
use lockstep_txn::{Addressed, MultiPartitionInitiator, RoundProgress};
use lockstep_types::{Failure, HashRing, Outcome, ParameterSet, PartitionId, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

mod awaited;
mod confirm;
mod ending;
mod held_back;
mod invariants;
mod one_round;
mod overtaken;
mod placing;
mod reopened;
mod schema;
mod take_over;
use awaited::AwaitedAnswer;
use confirm::Confirmations;
pub use held_back::WaitingCall;
use one_round::OneRound;
pub use one_round::OneRoundFinished;
use take_over::TakeOver;

/// What the coordinator asks its surroundings to do.
pub enum CoordinatorOutput<O, C> {
    /// Deliver a message to a partition.
    Send(Numbered<C>),
    /// Answer a call. Boxed, so that the others stay small.
    Finished(Box<Finished<O>>),
    /// Answer a call of one round.
    OneRoundFinished(OneRoundFinished<O>),
    /// A schema change came in force while the call waited: it must be planned again. Nothing
    /// begins until [`Coordinator::submit_again`] or one of its kind says what becomes of it.
    Stale(O),
    /// The same for a call of one round.
    OneRoundStale(O, Arc<OneRoundCall>),
    /// Tell the thread of a transaction's procedure; with [`ToThread::Begin`], give it one.
    Thread {
        /// The transaction.
        transaction: TransactionId,
        /// What to tell.
        message: ToThread,
    },
}

/// A call that ended.
pub struct Finished<O> {
    /// Who waits.
    pub origin: O,
    /// How it ended.
    pub outcome: Outcome,
    /// Its result tables, in wire form, one after the other.
    pub tables: Vec<u8>,
    /// It was a schema change.
    pub is_schema: bool,
    /// Bytes of its parameters.
    pub parameter_bytes: usize,
    /// Partitions that it took part at; 0 when it ended without any.
    pub partition_count: u32,
    /// Its rounds.
    pub rounds: u32,
    /// How often it was ordered again because it met a partition outside its set.
    pub enlargements: u32,
}

/// How often a transaction is undone to take part at more partitions; then it takes all.
const MAX_ENLARGEMENTS: u32 = 3;

/// The coordinator of a cluster.
pub struct Coordinator<O, C> {
    pub(crate) initiator: MultiPartitionInitiator<Queued<O, C>>,
    /// Boxed, so that the nodes of the map stay small.
    pub(crate) active: BTreeMap<TransactionId, Box<Active<O, C>>>,
    /// Transactions in progress that are calls of one round.
    one_rounds: GrowingMap<TransactionId, OneRound<O>>,
    /// Empty lists, kept for their memory.
    spare: one_round::Spare,
    /// The partition on the coordinator's own thread, see [`Coordinator::serve_last`].
    near: Option<PartitionId>,
    /// One-shot transactions that it was not sent yet, in order.
    late: VecDeque<(TransactionId, Arc<OneRoundCall>)>,
    /// The version of the catalog in force.
    pub(crate) catalog_version: u64,
    /// See [`CoordinatorOutput::Stale`].
    is_overtaken: bool,
    /// Begins nothing: see [`Coordinator::hold_back`].
    is_held_back: bool,
    /// Begins nothing until partitions have reported, see [`crate::fence`].
    take_over: TakeOver,
    /// Commits that the leader of a partition may not have heard of when it is lost.
    outcomes: OutcomeMemory,
    confirmations: Confirmations,
    pub(crate) ring: HashRing,
    /// Transactions in progress at the same time.
    active_max: usize,
    pub(crate) limits: DeskLimits,
    pub(crate) stop_everything: bool,
    timing: Option<Timing>,
    /// Times operators of profiled statements.
    profile_clock: fn() -> u64,
    faults: Faults,
    /// Answers wait until logs say what was decided, see [`awaited`].
    pub(crate) awaits_durable_decisions: bool,
    awaited: BTreeMap<TransactionId, AwaitedAnswer<O, C>>,
    /// The time that was given last.
    pub(crate) now_us: i64,
    /// How long a transaction may take, microseconds; 0 for as long as it takes.
    transaction_limit_us: i64,
}

impl<O, C: Clone> Coordinator<O, C> {
    /// A coordinator over the partitions of a ring.
    pub fn new(ring: HashRing, limits: &SiteLimits) -> Coordinator<O, C> {
        let multi_limits = MultiLimits {
            waiting: limits.waiting_multi_calls_max,
            active: if limits.stop_everything.is_on() { 1 } else { limits.active_multi_calls_max },
        };
        Coordinator {
            initiator: MultiPartitionInitiator::new(ring.partition_count(), multi_limits),
            active: BTreeMap::new(),
            one_rounds: GrowingMap::default(),
            spare: one_round::Spare::default(),
            near: None,
            late: VecDeque::new(),
            catalog_version: 0,
            is_overtaken: false,
            is_held_back: false,
            take_over: TakeOver::None,
            outcomes: OutcomeMemory::default(),
            confirmations: Confirmations::none(ring.partition_count()),
            active_max: multi_limits.active,
            ring,
            limits: DeskLimits {
                result_bytes: limits.result_bytes_max,
                temporary_bytes: limits.temporary_bytes_max,
                write: limits.write_limit(),
            },
            stop_everything: limits.stop_everything.is_on(),
            timing: None,
            profile_clock: || 0,
            faults: limits.faults,
            awaits_durable_decisions: false,
            awaited: BTreeMap::new(),
            now_us: 0,
            transaction_limit_us: limits.transaction_limit_us(),
        }
    }

    /// From now on the queries of calls with a limit are timed by a watch; see
    /// [`crate::Site::set_stopwatch`].
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch, profile_clock: fn() -> u64) {
        self.profile_clock = profile_clock;
        self.timing = Some(Timing::new(stopwatch));
    }

    /// A call arrives.
    ///
    /// # Errors
    /// Gives it back when too many wait.
    pub fn submit(
        &mut self,
        call: MultiCall<O, C>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) -> Result<(), Box<MultiCall<O, C>>> {
        self.now_us = now_us;
        let exclusive = matches!(call.work, MultiWork::Schema(_));
        let submitted =
            Box::new(Submitted { call, needed: Vec::new(), enlargements: 0, begun_us: None });
        match self.initiator.submit(Queued::Planned(submitted), exclusive) {
            Err(Queued::Planned(refused)) => return Err(Box::new(refused.call)),
            Err(Queued::OneRound(..)) => unreachable!("what is refused is what was given"),
            Ok(()) => self.begin(now_us, outputs),
        }
        Ok(())
    }

    /// A partition's message arrives.
    pub fn receive(
        &mut self,
        message: FromPartition,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        self.now_us = now_us;
        let (partition, epoch) = message.source();
        // What a leader before has sent, or this one to a coordinator before.
        if epoch != self.initiator.epoch_of(partition)
            && !self.faults.skip_epoch_check()
            && !matches!(message, FromPartition::Fenced(_))
        {
            return;
        }
        match message {
            FromPartition::Answer(answer) => {
                let RoundAnswer { partition, transaction, round, run, .. } = *answer;
                let run = if self.faults.keep_void_answers() { u64::MAX } else { run };
                let progress = self.initiator.answer(transaction, round, partition, run);
                if progress == RoundProgress::Stale {
                    return;
                }
                let active = self.active.get_mut(&transaction).expect("it is in progress");
                active.take(*answer);
                if self.faults.drop_vote() && progress == RoundProgress::Pending {
                    self.pretend(transaction);
                }
                if self.initiator.may_go_on(transaction) {
                    self.round_complete(transaction, outputs);
                }
                self.decide_all(outputs);
            }
            FromPartition::OneRound { partition, transaction, run, result, .. } => {
                self.one_round_answered(transaction, partition, run, result, outputs);
            }
            FromPartition::Fenced(report) => self.fenced(*report, outputs),
            FromPartition::Resolved { partition, .. } => self.resolved(partition),
            FromPartition::Confirmed { partition, checkpoint, .. } => {
                self.confirmed(partition, checkpoint);
            }
            FromPartition::Acknowledged { partition, transaction, .. } => {
                self.note_acknowledged(transaction, partition, outputs);
                self.note_heard(transaction, partition, outputs);
            }
        }
        self.begin(now_us, outputs);
    }

    /// True when nothing is in progress or waits.
    pub fn is_idle(&self) -> bool {
        let is_open = !self.is_overtaken && self.take_over.is_over();
        let nothing_waits = self.initiator.waiting_count() == 0 && is_open;
        self.initiator.is_idle() && nothing_waits && self.awaited.is_empty()
    }

    /// Begins the transactions that may begin.
    pub(crate) fn begin(&mut self, now_us: i64, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        while !self.is_overtaken
            && !self.is_held_back
            && self.take_over.is_over()
            && self.confirmations.may_begin()
            && let Some((queued, transaction)) = self.initiator.begin_next(now_us / 1000)
        {
            if self.confirmations.note_begun() {
                self.ask_for_confirmation(outputs);
            }
            let Submitted { mut call, needed, enlargements, begun_us } = match queued {
                Queued::OneRound(origin, call) => {
                    self.begin_one_round(transaction, origin, call, outputs);
                    continue;
                }
                Queued::Planned(submitted) => *submitted,
            };
            if call.catalog_version != self.catalog_version {
                self.overtaken(transaction, CoordinatorOutput::Stale(call.origin), outputs);
                continue;
            }
            let context = context_of(transaction, &call);
            let (row_routing, batch) = placing::first_batch(&mut call);
            let begun_us = begun_us.unwrap_or(now_us);
            let is_limited =
                self.transaction_limit_us > 0 && !matches!(call.work, MultiWork::Schema(_));
            let deadline_us = is_limited.then_some(begun_us + self.transaction_limit_us);
            let active = Active {
                call,
                needed,
                enlargements,
                context,
                batch,
                results: Vec::new(),
                history: Vec::new(),
                round: None,
                profiles: Vec::new(),
                pending: PendingEntries::new(),
                ending: None,
                answers: Vec::new(),
                rounds: 0,
                writers: Arc::default(),
                logged: Vec::new(),
                begun_us,
                deadline_us,
                partition_count: 0,
                row_routing,
                thread: ThreadState::New,
                finished: None,
            };
            let threaded = blocks(&active.call.work);
            let task = match &active.call.work {
                MultiWork::Schema(task) => Some(Arc::clone(task)),
                _ => None,
            };
            self.active.insert(transaction, Box::new(active));
            match task {
                Some(task) => self.send_schema(transaction, &task, outputs),
                None if threaded => self.stop_for_thread(transaction, outputs),
                None => self.advance(transaction, outputs),
            }
        }
    }

    pub(crate) fn begun_round(&mut self, transaction: TransactionId, round: Option<Round>) {
        let partition_count = self.ring.partition_count() as usize;
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        assert!(active.finished.is_none(), "no round follows the outcome");
        active.round = round;
        active.rounds += 1;
        active.answers.clear();
        active.answers.resize_with(partition_count, || None);
    }

    /// A round that is not the last one is complete.
    fn round_complete(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        if let Err(failure) = self.merge(transaction) {
            return match self.route_again(transaction, outputs) {
                true => (),
                false => self.fail(transaction, failure, outputs),
            };
        }
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let MultiWork::Schema(task) = &active.call.work else {
            return self.advance(transaction, outputs);
        };
        if schema::goes_on_building(active, task) {
            return self.send_build(transaction, outputs);
        }
        let outcome = Outcome { application_text: task.advice.clone(), ..Outcome::success(1) };
        let mut tables = Vec::new();
        match active.results.is_empty() {
            true => write_status(&mut tables),
            false => write_modified(&mut tables, total(&active.results)),
        }
        self.decide(transaction, outcome, tables, outputs);
    }

    /// Decides what can be decided, in order.
    pub(crate) fn decide_all(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        while let Some(transaction) = self.initiator.next_decidable() {
            if let Some(ended) = self.one_rounds.remove(transaction) {
                self.decide_one_round(transaction, ended, outputs);
                continue;
            }
            let (outcome, tables) = match self.merge(transaction) {
                Err(_) if self.route_again(transaction, outputs) => continue,
                Err(failure) => (Outcome::failed(failure), Vec::new()),
                Ok(()) => match self.next(transaction) {
                    Next::End(outcome, tables) => (outcome, tables),
                    Next::Round(_) | Next::Thread => {
                        let text = "a batch follows the one that was said to be the last";
                        (Outcome::failed(Failure::unexpected(text)), Vec::new())
                    }
                },
            };
            self.decide(transaction, outcome, tables, outputs);
        }
    }

    /// Takes the answers of a round.
    fn merge(&mut self, transaction: TransactionId) -> Result<(), Failure> {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let (tables, collected) = take_answers(active)?;
        let Some(mut round) = active.round.take() else {
            for changes in collected.into_iter().flatten().flat_map(|built| built.changes) {
                active.pending.entry(changes.partition).or_default().push(changes);
            }
            active.results.extend(tables.into_iter().flatten());
            return Ok(());
        };
        round.answers = tables;
        round.collected = collected;
        assert!(active.pending.is_empty(), "entry changes went with the round");
        active.pending = round.take_collected();
        let context = desk_context(active, self.limits, self.timing.as_ref(), self.now_us);
        let desk = Desk {
            ring: &self.ring,
            context,
            home: PartitionId(0),
            call_home: active.call.home,
            profile_clock: self.profile_clock,
        };
        round.merge(&mut active.batch, &mut active.results, &mut active.profiles, &desk)
    }

    /// Begins the next round, or ends the transaction.
    pub(crate) fn advance(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let round = match self.next(transaction) {
            Next::End(outcome, tables) => return self.end(transaction, outcome, tables, outputs),
            Next::Thread => return self.wake_thread(transaction, outputs),
            Next::Round(round) => round,
        };
        if self.active[&transaction].rounds == 0 {
            if let Err(failure) = self.enlist(transaction, &round) {
                return self.decide(transaction, Outcome::failed(failure), Vec::new(), outputs);
            }
        } else {
            let not_enlisted = self.initiator.not_enlisted(transaction, &round.partitions());
            // Index entries live wherever they live.
            let mut of_statements =
                not_enlisted.iter().filter(|partition| round.runs_statements(partition.index()));
            if let Some(failure) = self.undeclared(transaction, of_statements.next().copied()) {
                return self.fail(transaction, failure, outputs);
            }
            if !not_enlisted.is_empty() {
                return self.order_again(transaction, not_enlisted, outputs);
            }
        }
        self.send_round(transaction, round, outputs);
    }

    /// Begins a round at partitions that the transaction has its place at.
    pub(crate) fn send_round(
        &mut self,
        transaction: TransactionId,
        mut round: Round,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let mut partitions = std::mem::take(&mut self.spare.partitions);
        partitions.extend(round.busy());
        let last = round.is_last && !self.stop_everything;
        self.send_late(outputs);
        let addressed = &mut self.spare.addressed;
        let number =
            self.initiator.begin_round_into(transaction, &partitions, last, None, addressed);
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let procedure_number = active.call.procedure_number;
        let time_limit = time_limit(active, self.limits, self.now_us);
        let writers = active.note_round(number, round.writers(&partitions), last);
        for address in addressed.drain(..) {
            let tasks = std::mem::take(&mut round.tasks[address.partition.index()]).into();
            let entries = round.entries.remove(&address.partition);
            let entries = entries.map_or_else(Arc::default, Arc::from);
            let message = ToPartition::Fragments(Box::new(RoundTasks {
                transaction,
                catalog_version: self.catalog_version,
                round: number,
                procedure_number,
                time_limit,
                last,
                entries,
                tasks,
                writers: Arc::clone(&writers),
            }));
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
        partitions.clear();
        self.spare.partitions = partitions;
        self.begun_round(transaction, Some(round));
    }

    /// What comes next: changes of index entries go with the next round, or in one of their own
    /// before the transaction ends.
    fn next(&mut self, transaction: TransactionId) -> Next {
        let active = self.active.get_mut(&transaction).expect("a transaction is in progress");
        if let Some((outcome, tables)) = active.ending.take() {
            return Next::End(outcome, tables);
        }
        let next = self.next_of_work(transaction);
        let active = self.active.get_mut(&transaction).expect("a transaction is in progress");
        if active.pending.is_empty() {
            return next;
        }
        match next {
            Next::Round(mut round) => {
                round.entries = std::mem::take(&mut active.pending);
                Next::Round(round)
            }
            Next::End(outcome, tables) if outcome.failure.is_none() => {
                let entries = std::mem::take(&mut active.pending);
                active.ending = Some((outcome, tables));
                Next::Round(Round::of_entries(entries, self.ring.partition_count()))
            }
            failed => failed,
        }
    }

    fn next_of_work(&mut self, transaction: TransactionId) -> Next {
        let ring = &self.ring;
        let first_participant = self.initiator.first_participant(transaction);
        let active = self.active.get_mut(&transaction).expect("a transaction is in progress");
        loop {
            active.take_home(ring);
            if !active.batch.is_empty() {
                let context = desk_context(active, self.limits, self.timing.as_ref(), self.now_us);
                let (home, call_home) = (home(active, first_participant, ring), active.call.home);
                let profile_clock = self.profile_clock;
                let desk = Desk { ring, context, home, call_home, profile_clock };
                let merged = match Round::plan(&active.batch, &desk) {
                    // Rows to be shipped may come from no table: VALUES of computed keys.
                    Ok(round) if round.is_empty() => {
                        let profiles = &mut active.profiles;
                        round.merge(&mut active.batch, &mut active.results, profiles, &desk)
                    }
                    Ok(mut round) => {
                        round.is_last &= active.call.work.has_one_batch();
                        return Next::Round(round);
                    }
                    Err(failure) => Err(failure),
                };
                if let Err(failure) = merged {
                    return Next::End(Outcome::failed(failure), Vec::new());
                }
                continue;
            }
            match &active.call.work {
                work if blocks(work) => return Next::Thread,
                MultiWork::Statements(call) => {
                    let mut tables = Vec::new();
                    return match write_other_answer(call, &active.profiles, &mut tables) {
                        true => Next::End(Outcome::success(1), tables),
                        false => statements_end(&active.results, self.limits.result_bytes),
                    };
                }
                MultiWork::Schema(_) => unreachable!("a schema change has one round"),
                MultiWork::Procedure { procedure, parameters } => {
                    if !active.results.is_empty() {
                        let tables = std::mem::take(&mut active.results);
                        active.history.push(BatchResult { tables });
                    }
                    let set = match ParameterSet::new(parameters) {
                        Ok(set) => set,
                        Err(error) => {
                            let failure = Failure::graceful(error.to_string());
                            return Next::End(Outcome::failed(failure), Vec::new());
                        }
                    };
                    match run_round(procedure, set, &active.context, &active.history) {
                        ProcedureRound::Finished { outcome, tables } => {
                            return match over_limit(tables.len(), self.limits.result_bytes) {
                                Some(failure) => Next::End(Outcome::failed(failure), Vec::new()),
                                None => Next::End(outcome, tables),
                            };
                        }
                        ProcedureRound::Batch(queued) if queued.is_empty() => {
                            active.history.push(BatchResult { tables: Vec::new() });
                        }
                        ProcedureRound::Batch(queued) => active.batch = bound(queued),
                    }
                }
            }
        }
    }
}

/// Where a transaction does what any partition can do: it takes part there anyway.
fn home<O, C>(
    active: &Active<O, C>,
    first_participant: Option<PartitionId>,
    ring: &HashRing,
) -> PartitionId {
    let known = first_participant.or_else(|| active.call.declared.iter().min().copied());
    let known = known.or_else(|| active.needed.iter().min().copied());
    let named = || home_of(&active.batch, ring, active.context.timestamp_us);
    known.or_else(named).unwrap_or(PartitionId(0))
}

pub(crate) fn numbered<C>(address: Addressed, message: ToPartition<C>) -> Numbered<C> {
    let Addressed { partition, number, epoch, .. } = address;
    Numbered { partition, number, epoch, message }
}
