//! Threads for multi-partition procedures that wait while their batches run at the partitions:
//! those in Java. They are made when they are needed, and end with the host.

use crate::mailbox::Bell;
use lockstep_exec::procedure::{BatchResult, BlockingRounds, QueuedStatement, run_blocking};
use lockstep_site::{FromThread, ToThread};
use lockstep_types::{Failure, Outcome, ParameterSet, Status, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The stack of such a thread: that of a site.
const STACK_BYTES: usize = 8 << 20;

/// What threads have said and the coordinator has not heard yet.
struct Said {
    messages: Mutex<VecDeque<(TransactionId, FromThread)>>,
    count: AtomicUsize,
    bell: Arc<Bell>,
}

impl Said {
    fn say(&self, transaction: TransactionId, message: FromThread) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push_back((transaction, message));
        self.count.store(messages.len(), Ordering::Release);
        drop(messages);
        self.bell.ring();
    }
}

/// A call that wants a thread.
struct Job {
    transaction: TransactionId,
    begin: ToThread,
    results: Receiver<Result<BatchResult, Failure>>,
}

/// The threads, as the coordinator's thread has them.
pub(crate) struct ProcedureThreads {
    said: Arc<Said>,
    jobs: Option<Sender<Job>>,
    taken: Arc<Mutex<Receiver<Job>>>,
    threads: usize,
    limit: usize,
    /// Who waits for the results of a batch, or will.
    waiting: BTreeMap<TransactionId, Sender<Result<BatchResult, Failure>>>,
}

impl ProcedureThreads {
    /// At most N threads, which ring this bell.
    pub(crate) fn new(limit: usize, bell: Arc<Bell>) -> ProcedureThreads {
        let (jobs, taken) = channel();
        let (messages, count) = (Mutex::new(VecDeque::new()), AtomicUsize::new(0));
        ProcedureThreads {
            said: Arc::new(Said { messages, count, bell }),
            jobs: Some(jobs),
            taken: Arc::new(Mutex::new(taken)),
            threads: 0,
            limit,
            waiting: BTreeMap::new(),
        }
    }

    /// Whether a thread has said something.
    #[inline]
    pub(crate) fn have_said(&self) -> bool {
        self.said.count.load(Ordering::Acquire) > 0
    }

    /// What a thread said.
    pub(crate) fn hear(&mut self) -> Option<(TransactionId, FromThread)> {
        if !self.have_said() {
            return None;
        }
        let mut messages = self.said.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let message = messages.pop_front();
        self.said.count.store(messages.len(), Ordering::Release);
        if let Some((transaction, FromThread::Finished { .. })) = &message {
            self.waiting.remove(transaction);
        }
        message
    }

    /// Tells the thread of a transaction; the first message gives it one.
    pub(crate) fn tell(&mut self, transaction: TransactionId, message: ToThread) {
        match message {
            ToThread::Begin { .. } => self.begin(transaction, message),
            ToThread::Results(results) => {
                if let Some(thread) = self.waiting.get(&transaction) {
                    // One that has ended has said so: that is heard next.
                    let _ = thread.send(results);
                }
            }
        }
    }

    fn begin(&mut self, transaction: TransactionId, begin: ToThread) {
        // Each transaction in progress may hold a thread; more of them wait for one.
        if self.threads < self.limit && self.threads <= self.waiting.len() {
            self.add_thread();
        }
        let (sender, results) = channel();
        self.waiting.insert(transaction, sender);
        let job = Job { transaction, begin, results };
        let taken = match (&self.jobs, self.threads) {
            (Some(jobs), 1..) => jobs.send(job).is_ok(),
            _ => false,
        };
        if !taken {
            let failure = Failure::new(
                Status::ServerUnavailable,
                "There is no thread for the procedure: the system gives none, or the host stops.",
            );
            let finished =
                FromThread::Finished { outcome: Outcome::failed(failure), tables: Vec::new() };
            self.said.say(transaction, finished);
        }
    }

    fn add_thread(&mut self) {
        let (said, taken) = (Arc::clone(&self.said), Arc::clone(&self.taken));
        let name = format!("procedure {}", self.threads);
        let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
        match builder.spawn(move || run(&said, &taken)) {
            Ok(_) => self.threads += 1,
            Err(error) => tracing::warn!(%error, "no further thread for procedures"),
        }
    }
}

impl Drop for ProcedureThreads {
    fn drop(&mut self) {
        // Threads that wait for work, or for results, see that nobody is there any more.
        self.jobs = None;
        self.waiting.clear();
    }
}

/// A thread: one call after the other.
fn run(said: &Said, jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { transaction, begin, results }) = job else { return };
        let ToThread::Begin { procedure, parameters, context } = begin else { continue };
        let mut rounds = Rounds { transaction, said, results };
        let (outcome, tables) = match ParameterSet::new(&parameters) {
            Ok(set) => run_blocking(&procedure, set, &context, &mut rounds),
            Err(error) => (Outcome::failed(Failure::graceful(error.to_string())), Vec::new()),
        };
        // Before the answer, so that a caller that has it finds nothing of the call left.
        drop((procedure, parameters));
        said.say(transaction, FromThread::Finished { outcome, tables });
    }
}

/// The batches of one call.
struct Rounds<'a> {
    transaction: TransactionId,
    said: &'a Said,
    results: Receiver<Result<BatchResult, Failure>>,
}

impl BlockingRounds for Rounds<'_> {
    fn execute(&mut self, batch: Vec<QueuedStatement>) -> Result<BatchResult, Failure> {
        self.said.say(self.transaction, FromThread::Batch(batch));
        self.results.recv().unwrap_or_else(|_| {
            Err(Failure::new(Status::ServerUnavailable, "The host stops; the call is undone."))
        })
    }
}
