//! What a partition runs for the coordinator: changes of index entries, and parts of statements.

use super::Site;
use crate::message::{FragmentPart, FragmentTask, TaskEntries};
use crate::parameters::with_parameters;
use lockstep_exec::distributed::{execute_apply, execute_fragment};
use lockstep_exec::entries::{PartitionEntries, apply_entries, apply_known_entry};
use lockstep_exec::lookup::execute_lookup;
use lockstep_exec::statement::execute;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_types::Failure;

impl<H, A, C: Clone> Site<H, A, C> {
    /// Carries out what statements of earlier rounds asked for.
    pub(super) fn run_entries(&mut self, entries: &[PartitionEntries]) -> Result<(), Failure> {
        let kept = if self.faults.skip_index_upkeep { &[] } else { entries };
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
            self.count_in(bound.profiler_at(self.partition));
            let (database, statement) = (&mut self.database, &bound.statement);
            let home = match task.part {
                FragmentPart::Home { addresses_partition } => Some(addresses_partition),
                _ => None,
            };
            let upkeep = &statement.statement().upkeep;
            let known = matches!(upkeep, IndexUpkeep::Known(_) | IndexUpkeep::Truncated(_));
            database.begin_task(home, known);
            let skips_entries = self.faults.skip_index_upkeep;
            let mut table = Vec::new();
            let out = &mut table;
            let run = with_parameters(bound, |parameters| match task.part {
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
                FragmentPart::Apply => {
                    let shipped = bound.shipped.as_deref();
                    let rows = shipped.and_then(|rows| rows.get(self.partition.index()));
                    execute_apply(database, statement, parameters, rows.map_or(&[], |r| r), out)
                }
            });
            self.count_in(None);
            self.database.end_task();
            if let Err(failure) = run {
                // The transaction cannot commit any more; what runs behind it must not see it.
                self.database.rollback();
                return Err(failure);
            }
            tables.push(table);
            if self.database.has_entry_changes() {
                let changes = self.database.take_entry_changes();
                collected.push(TaskEntries { task: number, changes });
            }
        }
        Ok(tables)
    }
}
