//! What the coordinator and the partitions say to each other, and what they are asked to do.

use crate::fence::{FenceReport, KnownOutcome};
use crate::one_round::OneRoundCall;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::watch::{OperatorProfile, TimeLimit};
use lockstep_exec::{PreparedProcedure, PreparedStatement};
use lockstep_plan_ir::StorageChange;
use lockstep_txn::log_entry::WriterRound;
use lockstep_types::{Failure, PartitionId, TableId, TransactionId};
use std::sync::Arc;

/// A statement with its parameters, encoded as a parameter set (its count in front).
#[derive(Debug, Clone)]
pub struct BoundStatement {
    /// The statement.
    pub statement: Arc<PreparedStatement>,
    /// Its parameters.
    pub parameters: Arc<[u8]>,
    /// Between the rounds of a statement that ships rows, and of a bulk load by an INSERT or UPSERT
    /// of parameters: per partition, the table of its rows.
    pub shipped: Option<Arc<Vec<Vec<u8>>>>,
    /// After the round that asked global indexes: per question, the partitions of the rows.
    pub found: Option<Arc<Vec<Vec<PartitionId>>>>,
    /// What its operators do is counted, under this number of the statement in its call.
    pub profile: Option<u32>,
}

/// What a call of statements answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// The statements' results.
    Results,
    /// A bulk load: one table with the number of statements.
    StatementCount,
    /// One table with this number.
    Count(i64),
    /// One table with what the operators of the statements did ([`crate::profile`]).
    Profiles,
}

/// What the operators of a statement did at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementProfile {
    /// [`BoundStatement::profile`].
    pub statement: u32,
    /// The partition; none for the coordinator.
    pub partition: Option<PartitionId>,
    /// Its operators in the order of the plan.
    pub operators: Vec<OperatorProfile>,
}

/// Statements that run one after the other in one transaction; one result table each.
#[derive(Debug, Clone)]
pub struct StatementCall {
    /// The statements, at least one.
    pub statements: Vec<BoundStatement>,
    /// True when none writes.
    pub read_only: bool,
    /// What is answered.
    pub answer: AnswerForm,
}

/// A multi-partition call: who waits for it, and what it does. `C` is the catalog that a schema
/// change puts in force.
#[derive(Debug, Clone)]
pub struct MultiCall<O, C> {
    /// Who waits.
    pub origin: O,
    /// The number under which its surroundings count it ([`crate::FragmentRun`]).
    pub procedure_number: u32,
    /// The version of the catalog that its plans were made with.
    pub catalog_version: u64,
    /// How long its queries may run at each site, if it only reads.
    pub time_limit: Option<TimeLimit>,
    /// The partitions that it declared; none: those that its statements turn out to need.
    pub declared: Vec<PartitionId>,
    /// The partition of a single-partition procedure that changes entries of global indexes
    /// elsewhere: its statements run there.
    pub home: Option<Home>,
    /// Of a procedure that a global index leads to its row: the question to the index
    /// ([`lockstep_plan_ir::lookup::question`]). Without a `home` it is asked first, within the
    /// transaction; with one, as soon as it turns out there that the row has moved.
    pub led: Option<BoundStatement>,
    /// The work.
    pub work: MultiWork<C>,
}

/// Where a single-partition procedure runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// The partition of its routing value.
    pub partition: PartitionId,
    /// The call addresses the partition itself: a directed procedure.
    pub addresses_partition: bool,
}

/// The kinds of multi-partition work.
#[derive(Debug, Clone)]
pub enum MultiWork<C> {
    /// A stored procedure with its parameters (a parameter set, its count in front).
    Procedure {
        /// The procedure.
        procedure: Arc<PreparedProcedure>,
        /// The parameters.
        parameters: Arc<[u8]>,
    },
    /// Ad hoc statements.
    Statements(StatementCall),
    /// A schema change.
    Schema(Arc<SchemaTask<C>>),
}

impl<C> MultiWork<C> {
    /// Whether nothing follows the first batch, so that its last round is the transaction's.
    pub fn has_one_batch(&self) -> bool {
        match self {
            MultiWork::Statements(_) => true,
            MultiWork::Procedure { procedure, .. } => procedure.has_one_batch(),
            MultiWork::Schema(_) => false,
        }
    }
}

/// Tables of the same shape whose contents are exchanged. The answer is the number of rows of the
/// first two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSwap {
    /// The two tables, then those of the entries of their global indexes, two by two.
    pub pairs: Vec<(TableId, TableId)>,
    /// Every partition has all rows, so that they are counted once.
    pub replicated: bool,
}

/// A snapshot that begins at all partitions, with the data as it is between two transactions.
#[derive(Debug, Clone)]
pub struct SnapshotStart {
    /// The tables that are saved; all, if none are named.
    pub tables: Option<Arc<[TableId]>>,
    /// Of these every partition has all rows: only the first one saves them.
    pub replicated: Arc<[TableId]>,
    /// Records are about this long, in bytes.
    pub record_bytes: usize,
}

/// A schema change as partitions carry it out: prepared at all of them, then in force at all, or
/// nowhere.
#[derive(Debug)]
pub struct SchemaTask<C> {
    /// The steps.
    pub changes: Vec<StorageChange>,
    /// In place of steps: two tables change their contents.
    pub swap: Option<TableSwap>,
    /// In place of steps: a snapshot begins, and the catalog stays.
    pub snapshot: Option<SnapshotStart>,
    /// The catalog once they are in force.
    pub catalog: C,
    /// Its version.
    pub catalog_version: u64,
    /// What the log says of the change, for its replay, as the one that makes changes reads it.
    pub source: Arc<[u8]>,
    /// What is told with its success, if anything: the application's text of the answer.
    pub advice: Option<String>,
}

impl<C> SchemaTask<C> {
    /// The same with another form of the catalog.
    pub fn with_catalog<D>(self, catalog: D) -> SchemaTask<D> {
        let SchemaTask { changes, swap, snapshot, catalog_version, source, advice, .. } = self;
        SchemaTask { changes, swap, snapshot, catalog, catalog_version, source, advice }
    }
}

/// The partitions that logged something of a transaction, with the last round of each. One pointer,
/// so that messages stay small.
pub type Writers = Arc<Vec<WriterRound>>;

/// A message to a partition with its place in the coordinator's stream to it.
#[derive(Debug, Clone)]
pub struct Numbered<C> {
    /// The partition.
    pub partition: PartitionId,
    /// From 1, without gaps.
    pub number: u64,
    /// The epoch of the cluster in which the stream began ([`crate::fence`]).
    pub epoch: u64,
    /// The message.
    pub message: ToPartition<C>,
}

/// What the coordinator tells a partition.
#[derive(Debug, Clone)]
pub enum ToPartition<C> {
    /// Run these fragments, one after the other. Boxed, so that the others stay small.
    Fragments(Box<RoundTasks>),
    /// Run what is yours of a call; its only round.
    OneRound {
        /// The transaction.
        transaction: TransactionId,
        /// Only the decision comes after it: the partition may go on speculatively.
        last: bool,
        /// The call.
        call: Arc<OneRoundCall>,
    },
    /// Prepare a schema change.
    Schema {
        /// The transaction.
        transaction: TransactionId,
        /// Its round.
        round: u32,
        /// The change.
        task: Arc<SchemaTask<C>>,
    },
    /// Go on building the global indexes of a prepared schema change: add these entries, and
    /// answer with the next ones.
    Build {
        /// The transaction.
        transaction: TransactionId,
        /// Its round.
        round: u32,
        /// Entries that live at the partition.
        entries: Arc<[PartitionEntries]>,
    },
    /// The transaction is decided.
    Decision {
        /// The transaction.
        transaction: TransactionId,
        /// Commit or abort.
        commit: bool,
        /// Number of the partition's run after this message; an abort begins a new one.
        run: u64,
        /// Whether the coordinator wants to hear that it is done.
        acknowledge: bool,
        /// With a commit, all partitions that logged something of the transaction; nothing where
        /// they are those that the last round named to each of them.
        writers: Option<Writers>,
        /// Memory of an answer of the partition, which it gets back.
        memory: Vec<u8>,
    },
    /// The first message of a coordinator that is new to the partition, or to which the partition's
    /// leader is new: how everything ends that the partition has reported as undecided, in order.
    Resolve {
        /// The decisions.
        decisions: Arc<[KnownOutcome]>,
        /// Decided transactions of which the coordinator waits to hear that the log has the
        /// decision.
        acknowledge: Arc<[TransactionId]>,
    },
    /// Report when everything so far is safe in the log: what was decided before needs no memory.
    Confirm {
        /// The coordinator's number of the question.
        checkpoint: u64,
    },
}

/// A partition's part of a round.
#[derive(Debug, Clone)]
pub struct RoundTasks {
    /// The transaction.
    pub transaction: TransactionId,
    /// The version of the catalog that the statements were planned with.
    pub catalog_version: u64,
    /// Its round.
    pub round: u32,
    /// [`MultiCall::procedure_number`].
    pub procedure_number: u32,
    /// How long they may run together. A part that is stopped fails its transaction: what the
    /// log repeats are only parts that have succeeded.
    pub time_limit: Option<TimeLimit>,
    /// Only the decision comes after this round: the partition may go on speculatively.
    pub last: bool,
    /// Changes of index entries that statements of earlier rounds asked for, to be carried
    /// out first.
    pub entries: Arc<[PartitionEntries]>,
    /// The fragments; none where the transaction only takes its place.
    pub tasks: Arc<[FragmentTask]>,
    /// With the last round: the partitions that write in it. If all of them say yes, the
    /// transaction is committed.
    pub writers: Arc<[PartitionId]>,
}

/// One fragment of a statement for one partition.
#[derive(Debug, Clone)]
pub struct FragmentTask {
    /// The statement with its parameters.
    pub bound: BoundStatement,
    /// Which part of it.
    pub part: FragmentPart,
}

/// Which part of a statement a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentPart {
    /// The whole of a local statement.
    Whole,
    /// The whole of a statement of a single-partition procedure, at its partition.
    Home {
        /// See [`Home::addresses_partition`].
        addresses_partition: bool,
    },
    /// The numbered index entry that the statement is known to add, or table of entries that it
    /// empties.
    Entry(usize),
    /// The numbered question of the statement to a global index, where the key's entries are.
    Lookup(usize),
    /// The numbered fragment of a distributed statement.
    Fragment(usize),
    /// The second round of a statement that ships rows: this partition's are in the statement.
    Apply,
    /// A bulk load: this partition's rows are in the statement, which inserts them one by one.
    Load,
}

/// Changes of index entries that one fragment of a round asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEntries {
    /// The fragment, by its place in the round's tasks.
    pub task: usize,
    /// What is to be done at which partition.
    pub changes: Vec<PartitionEntries>,
}

/// The tables of a partition's statements in a call of one round, or why it must abort.
pub type OneRoundAnswer = Result<Vec<u8>, Box<Failure>>;

/// The answer to a round.
#[derive(Debug, Clone)]
pub struct RoundAnswer {
    /// Who answers.
    pub partition: PartitionId,
    /// The transaction.
    pub transaction: TransactionId,
    /// The round.
    pub round: u32,
    /// The partition's run in which it was answered.
    pub run: u64,
    /// The epoch of the stream.
    pub epoch: u64,
    /// One table per fragment, in wire form, or why the transaction must abort.
    pub result: Result<Vec<Vec<u8>>, Failure>,
    /// Changes of index entries that the fragments ask for.
    pub entries: Vec<TaskEntries>,
    /// What the operators of statements did that are profiled.
    pub profiles: Vec<StatementProfile>,
    /// It failed because a row that a global index finds does not live here.
    pub misled: bool,
}

/// What a partition tells the coordinator.
#[derive(Debug, Clone)]
pub enum FromPartition {
    /// The answer to a round. Boxed, so that the others stay small.
    Answer(Box<RoundAnswer>),
    /// The answer to a call of one round.
    OneRound {
        /// Who answers.
        partition: PartitionId,
        /// The transaction.
        transaction: TransactionId,
        /// The partition's run in which it was answered.
        run: u64,
        /// The epoch of the stream.
        epoch: u64,
        /// The tables of its statements in their order, in wire form, or why the transaction must
        /// abort.
        result: OneRoundAnswer,
    },
    /// The decision is carried out.
    Acknowledged {
        /// Who says so.
        partition: PartitionId,
        /// The transaction.
        transaction: TransactionId,
        /// The epoch of the stream.
        epoch: u64,
    },
    /// The coordinator is new to the partition, or the partition's leader to it. Boxed, so that the
    /// others stay small.
    Fenced(Box<FenceReport>),
    /// Everything before [`ToPartition::Confirm`] is in the log.
    Confirmed {
        /// Who says so.
        partition: PartitionId,
        /// The epoch of the stream.
        epoch: u64,
        /// The number of the question.
        checkpoint: u64,
    },
    /// The decisions of [`ToPartition::Resolve`] are carried out.
    Resolved {
        /// Who says so.
        partition: PartitionId,
        /// The epoch of the stream.
        epoch: u64,
    },
}

impl FromPartition {
    /// The partition, and the epoch of its stream.
    #[inline]
    pub fn source(&self) -> (PartitionId, u64) {
        match self {
            FromPartition::Answer(answer) => (answer.partition, answer.epoch),
            FromPartition::OneRound { partition, epoch, .. }
            | FromPartition::Acknowledged { partition, epoch, .. }
            | FromPartition::Confirmed { partition, epoch, .. }
            | FromPartition::Resolved { partition, epoch } => (*partition, *epoch),
            FromPartition::Fenced(report) => (report.partition, report.epoch),
        }
    }
}
