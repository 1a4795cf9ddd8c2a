//! Where a part of a plan runs, and why.

use super::{Writer, spread_table, written_table};
use crate::query::partition::placing;
use lockstep_plan_ir::statement::Guard;
use lockstep_plan_ir::{Expression, Lookup, Operation};
use std::collections::BTreeSet;

impl Writer<'_> {
    /// Why an operation runs at one partition.
    pub(super) fn owner(&self, operation: &Operation, value: &Expression) -> String {
        if Lookup::of(value).is_some() {
            return format!("at {}", self.looked_up(operation, value));
        }
        let partition = match (self.explaining.partition_of)(value) {
            Some(partition) => format!("partition {partition}"),
            None => "one partition".to_string(),
        };
        let column = self.spread_column(operation);
        format!("at {partition}, because {column} = {}", self.names.text(value))
    }

    /// Where and why an operation runs for which a global index is asked first.
    fn looked_up(&self, operation: &Operation, value: &Expression) -> String {
        let asked = Lookup::of(value).and_then(|lookup| placing(lookup.keys.to_vec()));
        let asked = asked.and_then(|key| (self.explaining.partition_of)(&key));
        let asked = match asked {
            Some(partition) => format!("partition {partition}"),
            None => "the owner of the key".to_string(),
        };
        let (column, text) = (self.spread_column(operation), self.names.text(value));
        format!("the partition of the row, asked of {asked}, because {column} = {text}")
    }

    /// Why an operation runs at some partitions.
    pub(super) fn owners(&self, operation: &Operation, values: &[Expression]) -> String {
        if let [only] = values
            && Lookup::of(only).is_some()
        {
            return format!("at {}", self.looked_up(operation, only));
        }
        let numbers: Option<BTreeSet<u32>> =
            values.iter().map(|value| (self.explaining.partition_of)(value)).collect();
        let partitions = match numbers {
            Some(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                let plural = if numbers.len() == 1 { "" } else { "s" };
                format!("partition{plural} {}", numbers.join(" and "))
            }
            None => "the owners of the values".to_string(),
        };
        let column = self.spread_column(operation);
        format!("at {partitions}, because {column} IN ({})", self.names.list(values))
    }

    /// Why an operation runs at the partitions that the elements of an array name.
    pub(super) fn owners_of_array(&self, operation: &Operation, parameter: u16) -> String {
        let column = self.spread_column(operation);
        format!("at the owners of the elements, because {column} IN ?{parameter}")
    }

    /// What WITH LOCAL DATA means for a statement's tables.
    pub(super) fn local_data(&mut self, guards: &[Guard]) {
        for guard in guards.iter().filter(|guard| guard.local) {
            let column = self.names.partition_column(guard.table);
            let column = column.unwrap_or_else(|| "the partitioning column".to_string());
            let table = &guard.table_name;
            let line = match &guard.value {
                None => format!(
                    "LOCAL DATA: only the rows of {table} at that partition, since no value of \
                     {column} is known"
                ),
                Some(value) => format!(
                    "LOCAL DATA: rows of {table} at other partitions are not found, whatever \
                     {column} = {} is",
                    self.names.text(value)
                ),
            };
            self.line(1, &line);
        }
    }

    /// The partitioning column of an operation's first spread table.
    fn spread_column(&self, operation: &Operation) -> String {
        spread_table(&self.names, operation)
            .and_then(|table| self.names.partition_column(table))
            .unwrap_or_else(|| "the partitioning column".to_string())
    }

    /// Why an operation runs at all partitions.
    pub(super) fn why_all(&self, operation: &Operation) -> String {
        let reason = match written_table(operation) {
            Some(table) if self.names.is_replicated(table) => {
                format!("each holds {}", self.names.table(table))
            }
            _ => match spread_table(&self.names, operation) {
                Some(table) => match self.names.partition_column(table) {
                    Some(column) => format!("no value of {column} is known"),
                    None => format!("each holds groups of {}", self.names.table(table)),
                },
                None => "each has rows of its own".to_string(),
            },
        };
        format!("at all partitions, because {reason}")
    }
}
