//! Changes of rows, some of which constraints refuse.

use super::{Generator, Reference};

impl Generator {
    /// A change of any form.
    pub(super) fn change(&mut self) -> String {
        self.aliases = 0;
        let table = self.random.below(self.tables.len() as u64) as usize;
        match self.random.below(10) {
            0..=2 => self.insert_values(table, "INSERT"),
            3 if !self.tables[table].key.is_empty() => self.insert_values(table, "UPSERT"),
            3 | 4 => self.insert_selected(table),
            5..=7 => self.update(table),
            _ => {
                let condition = self.row_condition(table);
                format!("DELETE FROM {}{condition}", self.tables[table].name)
            }
        }
    }

    /// `INSERT` or `UPSERT` of one row.
    pub(super) fn insert_values(&mut self, table: usize, verb: &str) -> String {
        let table = self.tables[table].clone();
        let columns = table.columns.iter();
        let values: Vec<String> =
            columns.map(|c| self.literal_or_null(c.family, c.required)).collect();
        format!("{verb} INTO {} VALUES ({})", table.name, values.join(", "))
    }

    fn insert_selected(&mut self, table: usize) -> String {
        let target = self.tables[table].clone();
        let source = self.random.below(self.tables.len() as u64) as usize;
        let source = self.tables[source].clone();
        let seen = source.references("");
        let values: Vec<String> = target
            .columns
            .iter()
            .map(|column| {
                // Only ID and K are never NULL.
                let from = if column.required { &seen[..2] } else { &seen[..] };
                match self.of_family(column.family, from) {
                    Some(value) if column.name == "ID" && self.random.chance(1, 2) => {
                        format!("{value} + 20")
                    }
                    Some(value) => value,
                    None => self.literal(column.family),
                }
            })
            .collect();
        let condition = self.condition(&seen, 1, false);
        // With several rows of one key the last counts, and which that is depends on the plan.
        let verb = match target.key.is_empty() || source.name != target.name {
            false if values[..2] == ["ID", "K"] => "UPSERT",
            _ => "INSERT",
        };
        format!(
            "{verb} INTO {} SELECT {} FROM {} WHERE {condition}",
            target.name,
            values.join(", "),
            source.name
        )
    }

    fn update(&mut self, table: usize) -> String {
        let target = self.tables[table].clone();
        let seen = target.references("");
        let count = self.random.between(1, 2) as usize;
        let first = match self.random.chance(1, 5) {
            true => self.random.below(target.columns.len() as u64) as usize,
            false => 2,
        };
        // Whether an update moves a row depends on the number of partitions: known difference.
        let stays = |place: &usize| target.partition != Some(*place);
        let assignments: Vec<String> = (first..target.columns.len())
            .filter(stays)
            .take(count)
            .map(|place| {
                let column = &target.columns[place];
                let value = match self.random.chance(1, 2) {
                    true => self.literal_or_null(column.family, column.required),
                    false => self.value(column.family, &seen, 1),
                };
                format!("{} = {value}", column.name)
            })
            .collect();
        let condition = self.row_condition(table);
        format!("UPDATE {} SET {}{condition}", target.name, assignments.join(", "))
    }

    fn row_condition(&mut self, table: usize) -> String {
        let seen: Vec<Reference> = self.tables[table].references("");
        match self.random.chance(9, 10) {
            true => {
                let subqueries = self.random.chance(1, 3);
                format!(" WHERE {}", self.condition(&seen, 1, subqueries))
            }
            false => String::new(),
        }
    }
}
