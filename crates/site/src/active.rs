//! What the coordinator keeps of a transaction, and what its statements run with.

use crate::message::{
    BoundStatement, Home, MultiCall, MultiWork, RoundAnswer, StatementProfile, TaskEntries, Writers,
};
use crate::one_round::OneRoundCall;
use crate::round::{Round, owners_of_questions};
use lockstep_base::elapsed::Elapsed;
use lockstep_exec::database::TransactionContext;
use lockstep_exec::distributed::CoordinatorContext;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::procedure::{BatchResult, QueuedStatement};
use lockstep_exec::watch::{Caller, LimitSource, StopCheck, Stopwatch, TimeLimit, Watch};
use lockstep_txn::log_entry::WriterRound;
use lockstep_types::{Failure, HashRing, Outcome, PartitionId, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Clone, Copy)]
pub(crate) struct DeskLimits {
    pub(crate) result_bytes: usize,
    pub(crate) temporary_bytes: usize,
    /// Of the statements of calls that write.
    pub(crate) write: Option<TimeLimit>,
}

/// Times what the coordinator runs.
pub(crate) struct Timing {
    stopwatch: Stopwatch,
    check: StopCheck,
}

impl Timing {
    pub(crate) fn new(stopwatch: Stopwatch) -> Timing {
        Timing { check: stopwatch.check(), stopwatch }
    }
}

/// What waits for its turn.
pub(crate) enum Queued<O, C> {
    /// A call whose rounds are planned here.
    Planned(Box<Submitted<O, C>>),
    /// One of one round, and who waits for it.
    OneRound(O, Arc<OneRoundCall>),
}

/// A call that waits, perhaps to be ordered again.
pub(crate) struct Submitted<O, C> {
    pub(crate) call: MultiCall<O, C>,
    /// Partitions that it met outside its set before.
    pub(crate) needed: Vec<PartitionId>,
    pub(crate) enlargements: u32,
    /// When it began for the first time.
    pub(crate) begun_us: Option<i64>,
}

/// A transaction in progress.
pub(crate) struct Active<O, C> {
    pub(crate) call: MultiCall<O, C>,
    pub(crate) needed: Vec<PartitionId>,
    pub(crate) enlargements: u32,
    pub(crate) context: TransactionContext,
    /// Statements that wait for their round.
    pub(crate) batch: VecDeque<BoundStatement>,
    /// Results of the batch so far.
    pub(crate) results: Vec<Vec<u8>>,
    /// Results of earlier batches: what the procedure has seen.
    pub(crate) history: Vec<BatchResult>,
    pub(crate) round: Option<Round>,
    /// What operators of its profiled statements did.
    pub(crate) profiles: Vec<StatementProfile>,
    /// Changes of index entries that were asked for and not yet carried out.
    pub(crate) pending: PendingEntries,
    /// How the call ends once they are.
    pub(crate) ending: Option<(Outcome, Vec<u8>)>,
    /// Per partition, its answer to the round.
    pub(crate) answers: Vec<Option<Answered>>,
    pub(crate) rounds: u32,
    /// The partitions that vote in the round that was sent last: those that write, if it is the
    /// transaction's last one.
    pub(crate) writers: Arc<[PartitionId]>,
    /// The partitions that have logged something of it, if all rounds succeed; none if only the
    /// last round writes, which names them.
    pub(crate) logged: Vec<WriterRound>,
    /// When it began first; it goes on when the transaction is ordered again.
    pub(crate) begun_us: i64,
    /// When its time is over, if it is limited.
    pub(crate) deadline_us: Option<i64>,
    pub(crate) partition_count: u32,
    /// How the call's home is known, if an index leads it there.
    pub(crate) row_routing: RowRouting,
    /// Of a procedure with a thread of its own: how far that is.
    pub(crate) thread: ThreadState,
    /// Set once the outcome is known, while acknowledgements are awaited.
    pub(crate) finished: Option<(Outcome, Vec<u8>)>,
}

impl<O, C> Active<O, C> {
    /// These partitions write in a round. If it is the last one, and no earlier one wrote, its
    /// entries name them: there is nothing to be kept.
    pub(crate) fn note_logged(&mut self, round: u32, writers: &[PartitionId], last: bool) {
        assert!(self.logged.iter().all(|logged| logged.round < round), "rounds grow");
        if last && self.logged.is_empty() {
            return;
        }
        self.logged.retain(|logged| !writers.contains(&logged.partition));
        self.logged
            .extend(writers.iter().map(|partition| WriterRound { partition: *partition, round }));
    }

    /// These partitions write in a round; gives those that vote in it.
    pub(crate) fn note_round(
        &mut self,
        round: u32,
        wrote: Arc<[PartitionId]>,
        last: bool,
    ) -> Arc<[PartitionId]> {
        self.note_logged(round, &wrote, last);
        self.writers = if last { wrote } else { Arc::default() };
        Arc::clone(&self.writers)
    }

    /// The partitions that have logged something; nothing where all of them did so in the last
    /// round, whose entries name them.
    pub(crate) fn unnamed_writers(&self) -> Option<Writers> {
        (!self.logged.is_empty()).then(|| Writers::new(self.logged.clone()))
    }

    /// A partition has answered the round.
    pub(crate) fn take(&mut self, answer: RoundAnswer) {
        let RoundAnswer { partition, result, entries, profiles, misled, .. } = answer;
        self.profiles.extend(profiles);
        if misled && self.row_routing == RowRouting::Guessed && self.call.led.is_some() {
            self.row_routing = RowRouting::Stale;
        }
        assert!(self.finished.is_none(), "no answer is awaited once the outcome is known");
        self.answers[partition.index()] = Some(result.map(|tables| (tables, entries)));
    }

    /// If the index has said where the call's row lives, the call runs there; if it has none, the
    /// call finds nothing at the index's own partition.
    pub(crate) fn take_home(&mut self, ring: &HashRing) {
        let asked = self.batch.front().filter(|_| self.row_routing == RowRouting::Asking);
        let Some((asked, found)) = asked.and_then(|asked| Some((asked, asked.found.clone()?)))
        else {
            return;
        };
        let row = found.first().and_then(|places| places.first()).copied();
        let partition = row.unwrap_or_else(|| {
            let owners = owners_of_questions(asked, ring, self.context.timestamp_us);
            owners.ok().and_then(|owners| owners.first().copied()).unwrap_or(PartitionId(0))
        });
        assert!(self.call.home.is_none(), "the row of a call is looked up once");
        self.call.home = Some(Home { partition, addresses_partition: false });
        self.row_routing = RowRouting::Found;
        self.batch.pop_front();
    }
}

/// Per partition, changes of index entries in the order in which they are to be carried out.
pub(crate) type PendingEntries = BTreeMap<PartitionId, Vec<PartitionEntries>>;

/// One table per fragment and the entry changes they ask for, or why the transaction must abort.
pub(crate) type Answered = Result<(Vec<Vec<u8>>, Vec<TaskEntries>), Failure>;

/// Where the code of a procedure with a thread of its own is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It has not begun.
    New,
    /// It computes, or waits for a batch.
    Running,
    /// It was notified why its transaction must be undone.
    Doomed(Failure),
    /// It has ended; the transaction has not.
    Ended,
}

/// How it is known where the row of a call lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowRouting {
    /// No index leads it, or the row was found before the transaction began: a guess.
    Guessed,
    /// The index is asked in the transaction.
    Asking,
    /// The index has said it in the transaction.
    Found,
    /// It was a guess, and is wrong.
    Stale,
}

/// What a transaction does next.
pub(crate) enum Next {
    Round(Round),
    End(Outcome, Vec<u8>),
    /// The procedure's own thread goes on, with the results of its batch.
    Thread,
}

/// Whether the work is a procedure whose code runs on a thread of its own.
pub(crate) fn blocks<C>(work: &MultiWork<C>) -> bool {
    matches!(work, MultiWork::Procedure { procedure, .. } if procedure.blocks())
}

pub(crate) fn context_of<O, C>(
    transaction: TransactionId,
    call: &MultiCall<O, C>,
) -> TransactionContext {
    let read_only = match &call.work {
        MultiWork::Statements(statements) => statements.read_only,
        MultiWork::Procedure { procedure, .. } => procedure.definition().read_only,
        MultiWork::Schema(_) => false,
    };
    TransactionContext {
        transaction_id: transaction,
        timestamp_us: transaction.time_ms() * 1000,
        addresses_partition: true,
        single_partition: false,
        read_only,
    }
}

/// What limits the time of the transaction's statements: what is left of its own time, and the
/// limit of queries or of writes.
pub(crate) fn time_limit<O, C>(
    active: &Active<O, C>,
    limits: DeskLimits,
    now_us: i64,
) -> Option<TimeLimit> {
    let reads = active.context.read_only;
    let of_call = if reads { active.call.time_limit } else { limits.write };
    let of_transaction = active.deadline_us.map(|deadline_us| {
        let rest_ms = Elapsed::between_us(now_us, deadline_us).ms().clamp(1, u32::MAX.into());
        let (source, caller) = (LimitSource::Transaction, Caller::NONE);
        TimeLimit { timeout_ms: rest_ms as u32, source, caller }
    });
    TimeLimit::first(of_call, of_transaction)
}

pub(crate) fn desk_context<O, C>(
    active: &Active<O, C>,
    limits: DeskLimits,
    timing: Option<&Timing>,
    now_us: i64,
) -> CoordinatorContext {
    let stop = timing.map(|timing| {
        timing.stopwatch.start(time_limit(active, limits, now_us));
        timing.check.clone()
    });
    CoordinatorContext {
        timestamp_us: active.context.timestamp_us,
        result_limit_bytes: limits.result_bytes,
        temporary_limit_bytes: limits.temporary_bytes,
        watch: Watch { stop, profiler: None },
    }
}

pub(crate) fn statements_end(results: &[Vec<u8>], limit_bytes: usize) -> Next {
    let bytes: usize = results.iter().map(Vec::len).sum();
    match over_limit(bytes, limit_bytes) {
        Some(failure) => Next::End(Outcome::failed(failure), Vec::new()),
        None => Next::End(Outcome::success(results.len() as u16), results.concat()),
    }
}

/// Why the tables of a call cannot be sent, if they cannot.
pub(crate) fn over_limit(bytes: usize, limit_bytes: usize) -> Option<Failure> {
    (bytes > limit_bytes).then(|| {
        Failure::graceful(format!(
            "VOLTDB ERROR: SQL ERROR the result of {bytes} bytes is over the limit of \
             {limit_bytes} bytes (option max_response_bytes)"
        ))
    })
}

/// Per partition, the tables of a round and the entry changes that its fragments ask for.
type RoundAnswers = (Vec<Vec<Vec<u8>>>, Vec<Vec<TaskEntries>>);

/// Takes the answers of a round, all in. The failure of the lowest partition counts, those of
/// statements before those of index entries beside them.
pub(crate) fn take_answers<O, C>(active: &mut Active<O, C>) -> Result<RoundAnswers, Failure> {
    let mut tables = Vec::with_capacity(active.answers.len());
    let mut collected = Vec::with_capacity(active.answers.len());
    let mut failure: Option<(bool, Failure)> = None;
    assert!(!active.answers.is_empty(), "the answers of a round are taken once");
    for (partition, answer) in std::mem::take(&mut active.answers).into_iter().enumerate() {
        match answer.unwrap_or_else(|| Ok(Default::default())) {
            Ok((answered, entries)) => {
                tables.push(answered);
                collected.push(entries);
            }
            Err(error) => {
                let round = active.round.as_ref();
                let of_statement = round.is_none_or(|round| round.runs_statements(partition));
                if failure.as_ref().is_none_or(|(before, _)| of_statement && !before) {
                    failure = Some((of_statement, error));
                }
            }
        }
    }
    match failure {
        Some((_, failure)) => Err(failure),
        None => Ok((tables, collected)),
    }
}

/// The statements of a batch, with nothing known of where their rows are.
pub(crate) fn bound(queued: Vec<QueuedStatement>) -> VecDeque<BoundStatement> {
    let bind = |statement: QueuedStatement| BoundStatement {
        statement: statement.statement,
        parameters: statement.parameters,
        shipped: None,
        found: None,
        profile: None,
    };
    queued.into_iter().map(bind).collect()
}
