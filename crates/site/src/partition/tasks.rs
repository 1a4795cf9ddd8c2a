//! What a partition runs for the coordinator: changes of index entries, parts of statements, and
//! what belongs here of calls of one round, and schema changes.

use super::Site;
use crate::message::{
    BoundStatement, FragmentPart, FragmentTask, OneRoundAnswer, SchemaTask, TaskEntries,
};
use crate::one_round::OneRoundCall;
use crate::parameters::with_parameters;
use crate::tables::write_modified;
use lockstep_base::bytes::ByteReader;
use lockstep_exec::database::{Database, TransactionContext};
use lockstep_exec::distributed::{execute_apply, execute_fragment};
use lockstep_exec::entries::{PartitionEntries, apply_entries, apply_known_entry};
use lockstep_exec::load::load_rows;
use lockstep_exec::lookup::execute_lookup;
use lockstep_exec::procedure::run_parts;
use lockstep_exec::statement::execute;
use lockstep_exec::watch::TimeLimit;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{Execution, Operation, Statement};
use lockstep_txn::EntryHeader;
use lockstep_types::{Failure, ParameterSet, PartitionId, TableView};
use std::sync::Arc;

/// Buffers for answers that are kept, and their greatest size.
pub(super) const ANSWER_BUFFERS: usize = 4096;
pub(super) const ANSWER_BUFFER_BYTES: usize = 64 * 1024;

/// Loads a partition's rows.
fn load(
    database: &mut Database,
    bound: &BoundStatement,
    partition: PartitionId,
) -> Result<(), Failure> {
    let rows = bound.shipped.as_deref().and_then(|rows| rows.get(partition.index()));
    let rows = TableView::read(&mut ByteReader::new(rows.map_or(&[], Vec::as_slice)));
    let rows = rows.map_err(|error| Failure::graceful(format!("the rows of a load: {error}")))?;
    load_rows(database, &bound.statement, &rows).map_err(|error| error.to_failure())?;
    Ok(())
}

/// Whether a statement is a step of building a global index.
fn builds_index(statement: &Statement) -> bool {
    let Execution::Distributed { fragments, .. } = &statement.execution else { return false };
    fragments.iter().any(|fragment| matches!(fragment.operation, Operation::Cover(_)))
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// Runs what belongs here of a call of one round.
    pub(super) fn run_one_round(
        &mut self,
        call: &OneRoundCall,
        header: &EntryHeader,
    ) -> OneRoundAnswer {
        self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        let reads = call.procedure.definition().read_only;
        let of_call = if reads { call.time_limit } else { self.write_limit };
        self.limit_time(TimeLimit::first(of_call, self.part_limit));
        let set = ParameterSet::new(call.parameter_set());
        let set = set.map_err(|error| Failure::graceful(error.to_string()))?;
        // The first answer carries the others', and comes back to where the call came in.
        let carries = call.is_answered_first(self.partition);
        let mut answer = match carries || call.runs_statements(self.partition) {
            true => self.answer_memory.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        let here = call.parts_here(set, self.faults.skip_index_upkeep());
        match run_parts(&mut self.database, &here, &mut answer) {
            Ok(()) => Ok(answer),
            Err(failure) => {
                // The transaction cannot commit any more; what runs after it must not see it.
                self.database.rollback();
                self.recycle(answer);
                Err(Box::new(failure))
            }
        }
    }

    /// Memory of an answer is no longer needed.
    pub fn recycle(&mut self, mut answer: Vec<u8>) {
        let is_kept = (1..=ANSWER_BUFFER_BYTES).contains(&answer.capacity());
        if is_kept && self.answer_memory.len() < ANSWER_BUFFERS {
            answer.clear();
            self.answer_memory.push(answer);
        }
    }

    /// Carries out what statements of earlier rounds asked for.
    pub(super) fn run_entries(&mut self, entries: &[PartitionEntries]) -> Result<(), Failure> {
        let kept = if self.faults.skip_index_upkeep() { &[] } else { entries };
        for changes in kept {
            assert_eq!(changes.partition, self.partition, "entries go where they live");
            let applied = apply_entries(&mut self.database, &changes.removed, &changes.added);
            if let Err(error) = applied {
                self.database.rollback();
                return Err(error.to_failure());
            }
        }
        Ok(())
    }

    pub(super) fn run_tasks(
        &mut self,
        tasks: &[FragmentTask],
        collected: &mut Vec<TaskEntries>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut tables = Vec::with_capacity(tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            let bound = &task.bound;
            let profiled = self.begin_profile(bound);
            let (database, statement) = (&mut self.database, &bound.statement);
            let home = match task.part {
                FragmentPart::Home { addresses_partition } => Some(addresses_partition),
                _ => None,
            };
            let upkeep = &statement.statement().upkeep;
            let known = matches!(upkeep, IndexUpkeep::Known(_) | IndexUpkeep::Truncated(_))
                && task.part != FragmentPart::Load;
            database.begin_task(home, known);
            let skips_entries = self.faults.skip_index_upkeep();
            let mut table = Vec::new();
            let out = &mut table;
            let run = if task.part == FragmentPart::Load {
                load(database, bound, self.partition)
            } else {
                with_parameters(bound, |parameters| match task.part {
                    FragmentPart::Whole | FragmentPart::Home { .. } => {
                        execute(database, statement, parameters, out)
                    }
                    FragmentPart::Entry(_) if skips_entries => Ok(()),
                    FragmentPart::Entry(number) => {
                        apply_known_entry(database, statement, number, parameters)
                    }
                    FragmentPart::Lookup(number) => {
                        let statement = statement.statement();
                        execute_lookup(database, statement, number, parameters, out)
                    }
                    FragmentPart::Fragment(number) => {
                        execute_fragment(database, statement, number, parameters, out)
                    }
                    FragmentPart::Load => unreachable!("it has rows in place of parameters"),
                    FragmentPart::Apply => {
                        let shipped = bound.shipped.as_deref();
                        let rows = shipped.and_then(|rows| rows.get(self.partition.index()));
                        execute_apply(database, statement, parameters, rows.map_or(&[], |r| r), out)
                    }
                })
            };
            self.end_profile(profiled);
            self.database.end_task();
            if let Err(failure) = run {
                // The transaction cannot commit any more; what runs after it must not see it.
                self.database.rollback();
                return Err(failure);
            }
            tables.push(table);
            if self.database.has_entry_changes() {
                let changes = self.database.take_entry_changes();
                if !(self.faults.lose_build_entries() && builds_index(bound.statement.statement()))
                {
                    collected.push(TaskEntries { task: number, changes });
                }
            }
        }
        Ok(tables)
    }

    pub(super) fn prepare_schema(
        &mut self,
        task: Arc<SchemaTask<C>>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        assert!(self.schema.is_none(), "one change of the catalog at a time");
        assert!(self.initiator.is_decided(), "a change of the catalog begins on decided state");
        if task.snapshot.is_some() {
            self.schema = Some(task);
            return Ok(Vec::new());
        }
        let swap = task.swap.clone();
        let prepared = match &swap {
            Some(swap) => self.database.prepare_swap(&swap.pairs),
            None => self.database.prepare_change(&task.changes).map(|()| 0),
        };
        self.schema = Some(task);
        assert!(!self.database.has_undo(), "a schema change leaves nothing to undo");
        let rows = prepared.map_err(|error| error.to_failure())?;
        let Some(swap) = swap else { return Ok(Vec::new()) };
        let counts = !swap.replicated || self.partition == PartitionId(0);
        let mut table = Vec::new();
        write_modified(&mut table, if counts { rows as i64 } else { 0 });
        Ok(vec![table])
    }
}
