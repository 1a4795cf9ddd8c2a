//! Changes of rows, some of which constraints refuse.

use super::schema::Table;
use super::{Dialect, Family, Generator, Phrase, Reference, Role, Step};
use crate::known::Known;

impl Generator {
    /// A change of any form.
    pub(super) fn change(&mut self) -> Step {
        let table = self.random.below(self.tables.len() as u64) as usize;
        let keyed = !self.tables[table].key.is_empty();
        Step::Change(match self.random.below(13) {
            0..=2 => self.insert_row(table, false),
            3 if keyed => self.insert_row(table, true),
            3 | 4 => self.insert_selected(table),
            5..=7 => self.update(table),
            8 if self.may_limit(table) => self.update_first(table),
            9 if self.may_limit(table) => self.delete_first(table),
            11 if self.random.chance(1, 2) => self.delete_common(table),
            10 if self.random.chance(1, 5) => {
                let name = Phrase::word(self.tables[table].name.as_str());
                let texts = ["TRUNCATE TABLE {0}", "DELETE FROM {0}", "DELETE FROM {0}"];
                Phrase::each(Role::Fixed, texts, vec![name])
            }
            _ => {
                let name = Phrase::word(self.tables[table].name.as_str());
                let filter = self.row_filter(table, true);
                Phrase::new(Role::Fixed, "DELETE FROM {0}{1}", vec![name, filter])
            }
        })
    }

    /// `INSERT` or `UPSERT` of one row.
    pub(super) fn insert_row(&mut self, table: usize, upsert: bool) -> Phrase {
        let table = self.tables[table].clone();
        let mut places: Vec<usize> = (0..table.columns.len()).collect();
        let partly = self.random.chance(1, 4);
        if partly {
            places.retain(|place| table.columns[*place].required || self.random.chance(1, 2));
        }
        let values = places
            .iter()
            .map(|place| {
                let column = &table.columns[*place];
                match self.random.chance(1, 8) {
                    true => self.value(column.family, &[], 1),
                    false => self.literal_or_null(column.family, column.required),
                }
            })
            .collect();
        let row = Phrase::new(Role::Fixed, "({0})", vec![Phrase::all_of(", ", values)]);
        let mut rows = vec![row];
        while !upsert && self.random.chance(1, 10) {
            let values = places.iter().map(|place| {
                let column = &table.columns[*place];
                self.literal_or_null(column.family, column.required)
            });
            let values = Phrase::all_of(", ", values.collect());
            rows.push(Phrase::new(Role::Fixed, "({0})", vec![values]));
        }
        let rows = Phrase::list(", ", rows);
        let source = Phrase::new(Role::Fixed, "VALUES {0}", vec![rows]);
        insert(&table, upsert, &places, partly, source)
    }

    fn insert_selected(&mut self, table: usize) -> Phrase {
        let target = self.tables[table].clone();
        let source = self.random.below(self.tables.len() as u64) as usize;
        let source = self.tables[source].clone();
        let seen = source.references("s");
        // With several rows of one key the last counts, and which that is depends on the plan:
        // Known::SeveralOfOneKey.
        let upsert = !target.key.is_empty()
            && !source.key.is_empty()
            && target.columns[1].family == source.columns[1].family
            && self.random.chance(1, 3);
        let values = target.columns.iter().enumerate().map(|(place, column)| {
            if upsert && place < 2 {
                return Phrase::word(format!("s.{}", column.name));
            }
            // Only ID and K are never NULL.
            let from = if column.required { &seen[..2] } else { &seen[..] };
            match self.of_family(column.family, from) {
                Some(value) if column.name == "ID" && self.random.chance(1, 2) => {
                    Phrase::new(Role::Value(column.family), "({0} + 20)", vec![value])
                }
                Some(value) => value,
                None => self.literal(column.family),
            }
        });
        let values = Phrase::all_of(", ", values.collect());
        let filter = self.condition(&seen, 1, true);
        let filter = Phrase::new(Role::Fixed, " WHERE {0}", vec![filter]);
        let parts = vec![values, Phrase::word(source.name), filter];
        let select = Phrase::new(Role::Fixed, "SELECT {0} FROM {1} s{2}", parts);
        let places: Vec<usize> = (0..target.columns.len()).collect();
        // A key that is only part of what is selected may come twice.
        let upsert = upsert && (target.key.len() == 2 || source.key.len() == 1);
        insert(&target, upsert, &places, false, select)
    }

    /// ` SET` and one or two assignments.
    fn assignments(&mut self, target: &Table, subqueries: bool) -> Phrase {
        let seen = target.references(&target.name);
        let count = self.random.between(1, 2) as usize;
        let first = match self.may(Known::UniqueAtTheEnd) && self.random.chance(1, 5) {
            true => self.random.below(target.columns.len() as u64) as usize,
            false => 2,
        };
        let mut places: Vec<usize> = (first..target.columns.len()).collect();
        // Whether an update moves a row depends on the number of partitions: known difference.
        places.retain(|place| target.partition != Some(*place));
        if !self.may(Known::UniqueAtTheEnd) {
            places.retain(|place| !target.unique.contains(place) && !target.key.contains(place));
        }
        let skip = self.random.below(places.len() as u64) as usize;
        places.rotate_left(skip);
        places.truncate(count);
        let assignments = places
            .iter()
            .map(|place| {
                let column = &target.columns[*place];
                let value = match self.random.below(8) {
                    0..=3 => self.literal_or_null(column.family, column.required),
                    4 if subqueries && self.may(Known::OwnChanges) => {
                        self.value_of_others(column.family, &seen)
                    }
                    _ => self.value(column.family, &seen, 1),
                };
                let name = Phrase::word(column.name.as_str());
                Phrase::new(Role::Fixed, "{0} = {1}", vec![name, value])
            })
            .collect();
        Phrase::list(", ", assignments)
    }

    /// The least or greatest value of other rows, tied to this one or not.
    fn value_of_others(&mut self, family: Family, over: &[Reference]) -> Phrase {
        let (from, inner) = self.source(0);
        let mut seen = inner.clone();
        seen.extend_from_slice(over);
        let filter = self.filter(&seen, 1, false);
        let bytes = family == Family::Bytes && !self.may(Known::BytesExtremes);
        match self.of_family(family, &inner) {
            Some(value) if !bytes => {
                let function = self.one_of(&["MIN", "MAX"]);
                let parts = vec![function, value, from, filter];
                Phrase::new(Role::Value(family), "(SELECT {0}({1}) FROM {2}{3})", parts)
            }
            _ => self.literal(family),
        }
    }

    /// DELETE of rows that a common table names.
    fn delete_common(&mut self, table: usize) -> Phrase {
        let target = self.tables[table].clone();
        let (from, seen) = self.source(0);
        let filter = self.filter(&seen, 1, false);
        let column = self.pick(&target.columns).clone();
        let value = self.value(column.family, &seen, 1);
        let not = self.one_of(&["", "", "NOT "]);
        let name = Phrase::word(column.name);
        let parts = vec![value, from, filter, Phrase::word(target.name), name, not];
        let text = "WITH w AS (SELECT {0} AS C0 FROM {1}{2}) DELETE FROM {3} WHERE {4} {5}IN \
                    (SELECT C0 FROM w)";
        Phrase::new(Role::Fixed, text, parts)
    }

    fn update(&mut self, table: usize) -> Phrase {
        let target = self.tables[table].clone();
        let assignments = self.assignments(&target, true);
        let filter = self.row_filter(table, true);
        let parts = vec![Phrase::word(target.name), assignments, filter];
        Phrase::new(Role::Fixed, "UPDATE {0} SET {1}{2}", parts)
    }

    /// The first rows of several partitions are told by the primary key.
    fn may_limit(&self, table: usize) -> bool {
        self.tables[table].partition.is_none() || !self.tables[table].key.is_empty()
    }

    /// UPDATE of the first rows by all columns.
    fn update_first(&mut self, table: usize) -> Phrase {
        let target = self.tables[table].clone();
        let parts = vec![
            Phrase::word(target.name.as_str()),
            self.assignments(&target, false),
            self.row_filter(table, false),
            self.first_rows(&target),
        ];
        let texts = [
            "UPDATE {0} SET {1}{2}{3}",
            "UPDATE {0} SET {1} WHERE rowid IN (SELECT rowid FROM {0}{2}{3})",
            "UPDATE {0} SET {1} WHERE ctid IN (SELECT ctid FROM {0}{2}{3})",
        ];
        Phrase::each(Role::Fixed, texts, parts)
    }

    /// DELETE of the first rows by all columns.
    fn delete_first(&mut self, table: usize) -> Phrase {
        let target = self.tables[table].clone();
        let parts = vec![
            Phrase::word(target.name.as_str()),
            self.row_filter(table, false),
            self.first_rows(&target),
        ];
        let texts = [
            "DELETE FROM {0}{1}{2}",
            "DELETE FROM {0} WHERE rowid IN (SELECT rowid FROM {0}{1}{2})",
            "DELETE FROM {0} WHERE ctid IN (SELECT ctid FROM {0}{1}{2})",
        ];
        Phrase::each(Role::Fixed, texts, parts)
    }

    /// ORDER BY over all columns and LIMIT.
    fn first_rows(&mut self, target: &Table) -> Phrase {
        let keys = target.columns.iter().map(|column| self.key(&column.name)).collect();
        let limit = format!(" LIMIT {}", self.random.below(5));
        let parts = vec![Phrase::all_of(", ", keys), Phrase::word(limit)];
        Phrase::new(Role::Fixed, " ORDER BY {0}{1}", parts)
    }

    fn row_filter(&mut self, table: usize, subqueries: bool) -> Phrase {
        if self.random.chance(1, 10) {
            return Phrase::nothing();
        }
        let subqueries = subqueries && self.random.chance(1, 3);
        // A bare name within a subquery would be that of its own table.
        let qualifier = if subqueries { self.tables[table].name.as_str() } else { "" };
        let seen: Vec<Reference> = self.tables[table].references(qualifier);
        let found = self.condition(&seen, 1, subqueries);
        Phrase::new(Role::Fixed, " WHERE {0}", vec![found]).optional()
    }
}

/// INSERT or UPSERT in every dialect.
fn insert(table: &Table, upsert: bool, places: &[usize], partly: bool, source: Phrase) -> Phrase {
    let name = |place: &usize| table.columns[*place].name.as_str();
    let columns = match partly {
        true => format!(" ({})", places.iter().map(name).collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    let parts = vec![Phrase::word(table.name.as_str()), Phrase::word(columns), source];
    if !upsert {
        return Phrase::new(Role::Fixed, "INSERT INTO {0}{1} {2}", parts);
    }
    let set: Vec<String> =
        places.iter().map(|place| format!("{} = excluded.{}", name(place), name(place))).collect();
    let key: Vec<&str> = table.key.iter().map(name).collect();
    let other = format!(
        "INSERT INTO {{0}}{{1}} {{2}} ON CONFLICT ({}) DO UPDATE SET {}",
        key.join(", "),
        set.join(", ")
    );
    Phrase::each(Role::Fixed, ["UPSERT INTO {0}{1} {2}", &other, &other], parts)
}

/// Where a dialect is an index.
const _: () = assert!(Dialect::Sqlite as usize == 1);
