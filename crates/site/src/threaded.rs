//! Procedures that run on threads of their own, which wait while their batches are executed: what
//! the coordinator and such a thread tell each other.
//!
//! Their code runs once. So the transaction takes its place at all partitions that it may need
//! before the code begins: those that the procedure declares, or all. A first round without
//! statements stops them.

use crate::active::{Active, ThreadState, blocks, bound, over_limit, time_limit};
use crate::coordinator::{Coordinator, CoordinatorOutput, numbered};
use crate::message::{MultiWork, RoundTasks, ToPartition};
use crate::round::Round;
use lockstep_exec::database::TransactionContext;
use lockstep_exec::procedure::{BatchResult, PreparedProcedure, QueuedStatement};
use lockstep_types::{Failure, Outcome, PartitionId, TransactionId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A message to a procedure's thread.
#[derive(Debug)]
pub enum ToThread {
    /// Begin.
    Begin {
        /// The procedure.
        procedure: Arc<PreparedProcedure>,
        /// Its parameters: a parameter set, its count in front.
        parameters: Arc<[u8]>,
        /// What the transaction is.
        context: TransactionContext,
    },
    /// The batch was executed, or why the transaction will be undone.
    Results(Result<BatchResult, Failure>),
}

/// What a procedure's thread tells.
#[derive(Debug)]
pub enum FromThread {
    /// Execute these, in order.
    Batch(Vec<QueuedStatement>),
    /// The procedure has ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// Its tables, in wire form, one after the other.
        tables: Vec<u8>,
    },
}

fn keeps_indexes<O, C>(active: &Active<O, C>) -> bool {
    match &active.call.work {
        MultiWork::Procedure { procedure, .. } => {
            let definition = procedure.definition();
            definition.keeps_global_indexes() || definition.changes_replicated()
        }
        _ => false,
    }
}

impl<O, C: Clone> Coordinator<O, C> {
    /// The thread of a transaction's procedure has something to say.
    pub fn hear_thread(
        &mut self,
        transaction: TransactionId,
        said: FromThread,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        self.now_us = now_us;
        let Some(active) = self.active.get_mut(&transaction) else {
            // It was undone in the meantime: the thread gets that answer to each of its batches.
            if let FromThread::Batch(_) = said {
                let failure = Failure::graceful("VOLTDB ERROR: SQL ERROR the call is undone");
                self.tell(transaction, ToThread::Results(Err(failure)), outputs);
            }
            return;
        };
        match said {
            FromThread::Batch(queued) => match &active.thread {
                ThreadState::Doomed(failure) => {
                    let failure = failure.clone();
                    self.tell(transaction, ToThread::Results(Err(failure)), outputs);
                }
                _ => {
                    active.batch = bound(queued);
                    self.advance(transaction, outputs);
                }
            },
            FromThread::Finished { mut outcome, mut tables } => {
                let refused = match &active.thread {
                    ThreadState::Doomed(failure) => Some(failure.clone()),
                    _ => over_limit(tables.len(), self.limits.result_bytes),
                };
                if let (Some(failure), None) = (refused, &outcome.failure) {
                    outcome = Outcome::failed(failure);
                    tables.clear();
                }
                assert!(active.thread != ThreadState::New, "a thread that ends has begun");
                assert!(active.thread != ThreadState::Ended, "a thread ends once");
                active.thread = ThreadState::Ended;
                self.finish_thread(transaction, outcome, tables, outputs);
            }
        }
        self.decide_all(outputs);
        self.begin(now_us, outputs);
    }

    /// The procedure has ended; changes of index entries that are left go in a round of their own.
    fn finish_thread(
        &mut self,
        transaction: TransactionId,
        outcome: Outcome,
        tables: Vec<u8>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        if outcome.failure.is_some() || active.pending.is_empty() {
            return self.decide(transaction, outcome, tables, outputs);
        }
        let entries = std::mem::take(&mut active.pending);
        active.ending = Some((outcome, tables));
        let round = Round::of_entries(entries, self.ring.partition_count());
        let not_enlisted = self.initiator.not_enlisted(transaction, &round.partitions());
        match self.undeclared(transaction, not_enlisted.first().copied()) {
            Some(failure) => self.fail(transaction, failure, outputs),
            None => self.send_round(transaction, round, outputs),
        }
    }

    /// A transaction ends before its turn: its thread hears of it, and then says to nobody how it
    /// ended.
    pub(crate) fn abandon_thread(
        &mut self,
        transaction: TransactionId,
        failure: &Failure,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get(&transaction);
        if active.is_some_and(|active| active.thread == ThreadState::Running) {
            self.tell(transaction, ToThread::Results(Err(failure.clone())), outputs);
        }
    }

    /// Takes the transaction's place at its partitions and stops them.
    pub(crate) fn stop_for_thread(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let declared: BTreeSet<PartitionId> = active.call.declared.iter().copied().collect();
        // Nobody knows beforehand where the index entries live that it changes.
        let anywhere = declared.is_empty() || self.stop_everything || keeps_indexes(active);
        let set: Vec<PartitionId> = match anywhere {
            true => (0..self.ring.partition_count()).map(PartitionId).collect(),
            false => declared.into_iter().collect(),
        };
        active.partition_count = set.len() as u32;
        let procedure_number = active.call.procedure_number;
        let time_limit = time_limit(active, self.limits, self.now_us);
        self.send_late(outputs);
        self.initiator.enlist(transaction, &set);
        let (round, addressed) = self.initiator.begin_round(transaction, &set, false);
        for address in addressed {
            let message = ToPartition::Fragments(Box::new(RoundTasks {
                transaction,
                catalog_version: self.catalog_version,
                round,
                procedure_number,
                time_limit,
                last: false,
                entries: Default::default(),
                tasks: Arc::from(Vec::new()),
                writers: Arc::from(Vec::new()),
            }));
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
        self.begun_round(transaction, None);
    }

    /// The thread begins, or goes on with the results of its batch.
    pub(crate) fn wake_thread(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let first = active.thread == ThreadState::New;
        let message = match &active.call.work {
            MultiWork::Procedure { procedure, parameters } if first => ToThread::Begin {
                procedure: Arc::clone(procedure),
                parameters: Arc::clone(parameters),
                context: active.context,
            },
            _ => {
                let tables = std::mem::take(&mut active.results);
                ToThread::Results(Ok(BatchResult { tables }))
            }
        };
        assert!(
            matches!(active.thread, ThreadState::New | ThreadState::Running),
            "a thread whose transaction is undone waits for nothing"
        );
        active.thread = ThreadState::Running;
        self.tell(transaction, message, outputs);
    }

    /// A transaction cannot go on: it is decided, or its thread is notified and ends it.
    pub(crate) fn fail(
        &mut self,
        transaction: TransactionId,
        failure: Failure,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let thread_waits = !matches!(active.thread, ThreadState::New | ThreadState::Ended);
        if !blocks(&active.call.work) || !thread_waits {
            return self.decide(transaction, Outcome::failed(failure), Vec::new(), outputs);
        }
        assert!(active.finished.is_none(), "a transaction that is decided does not fail");
        active.batch.clear();
        active.results.clear();
        active.thread = ThreadState::Doomed(failure.clone());
        self.tell(transaction, ToThread::Results(Err(failure)), outputs);
    }

    /// What an end means for the transaction.
    pub(crate) fn end(
        &mut self,
        transaction: TransactionId,
        outcome: Outcome,
        tables: Vec<u8>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        match outcome.failure {
            Some(failure) if blocks(&self.active[&transaction].call.work) => {
                self.fail(transaction, failure, outputs);
            }
            _ => self.decide(transaction, outcome, tables, outputs),
        }
    }

    fn tell(
        &mut self,
        transaction: TransactionId,
        message: ToThread,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        outputs.push(CoordinatorOutput::Thread { transaction, message });
    }
}
