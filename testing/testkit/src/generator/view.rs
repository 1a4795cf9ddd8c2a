//! Materialized views over one table or two.

use super::schema::{Column, Table};
use super::select::sum;
use super::{Family, Generator, Phrase, Reference, Role, Step};
use crate::known::Known;

impl Generator {
    /// Up to `most` views of every table, and some of two.
    pub(super) fn create_views(&mut self, most: u64, steps: &mut Vec<Step>) {
        for number in 0..self.tables.len() {
            for view in 0..self.random.below(most + 1) {
                let (body, columns) = self.view_of_one(number);
                self.create_view(format!("V{number}_{view}"), body, columns, steps);
            }
        }
        for view in 0..self.random.below(most + 1) {
            let (body, columns) = self.view_of_two();
            self.create_view(format!("VJ{view}"), body, columns, steps);
        }
    }

    /// A view of rows that are there.
    pub(super) fn later_view(&mut self, number: usize, table: usize, steps: &mut Vec<Step>) {
        if self.views.len() < 12 {
            let (body, columns) = self.view_of_one(table);
            self.create_view(format!("L{number}"), body, columns, steps);
        }
    }

    fn create_view(
        &mut self,
        name: String,
        body: Phrase,
        columns: Vec<Column>,
        steps: &mut Vec<Step>,
    ) {
        let parts = vec![Phrase::word(name.as_str()), body.clone()];
        steps.push(Step::Schema(Phrase::new(Role::Fixed, "CREATE VIEW {0} AS {1}", parts)));
        let table = Table { name, columns, partition: None, key: Vec::new(), unique: Vec::new() };
        self.views.push((table, body));
    }

    fn view_of_one(&mut self, table: usize) -> (Phrase, Vec<Column>) {
        let table = self.tables[table].clone();
        let seen = table.references("");
        let filter = match self.random.chance(1, 3) {
            true => {
                let found = self.simple_condition(&seen);
                Phrase::new(Role::Fixed, " WHERE {0}", vec![found]).optional()
            }
            false => Phrase::nothing(),
        };
        self.view_body(&seen, Phrase::word(table.name), filter)
    }

    fn view_of_two(&mut self) -> (Phrase, Vec<Column>) {
        let left = self.random.below(self.tables.len() as u64) as usize;
        let right = (left + 1) % self.tables.len();
        let (left, right) = (self.tables[left].clone(), self.tables[right].clone());
        if let (Some(one), Some(other)) = (left.partition, right.partition) {
            return self.view_of_partitioned(&left, &right, one, other);
        }
        let (l, r) = (left.references("l"), right.references("r"));
        let one = self.pick(&l).clone();
        let fitting: Vec<&Reference> = r.iter().filter(|r| r.family == one.family).collect();
        let on = match fitting.is_empty() {
            true => "l.ID = r.ID".to_string(),
            false => format!("{} = {}", one.text, self.pick(&fitting).text),
        };
        let mut seen = l;
        seen.extend(r);
        let filter = match self.random.chance(1, 4) {
            true => {
                let found = self.simple_condition(&seen);
                Phrase::new(Role::Fixed, " WHERE {0}", vec![found]).optional()
            }
            false => Phrase::nothing(),
        };
        let from = format!("{} l JOIN {} r ON {on}", left.name, right.name);
        self.view_body(&seen, Phrase::word(from), filter)
    }

    /// Tables that are both partitioned meet on their partitioning columns.
    fn view_of_partitioned(
        &mut self,
        left: &Table,
        right: &Table,
        one: usize,
        other: usize,
    ) -> (Phrase, Vec<Column>) {
        let (l, r) = (left.references("l"), right.references("r"));
        if l[one].family != r[other].family {
            let seen = left.references("");
            let from = Phrase::word(left.name.as_str());
            return self.view_body(&seen, from, Phrase::nothing());
        }
        let (l_key, r_key) = (&l[one].text, &r[other].text);
        let from = format!("{} l JOIN {} r ON {l_key} = {r_key}", left.name, right.name);
        let mut seen = l.clone();
        seen.extend(r);
        self.view_body(&seen, Phrase::word(from), Phrase::nothing())
    }

    fn view_body(
        &mut self,
        seen: &[Reference],
        from: Phrase,
        filter: Phrase,
    ) -> (Phrase, Vec<Column>) {
        let mut items: Vec<(Phrase, Column)> = Vec::new();
        let mut groups: Vec<Phrase> = Vec::new();
        for number in 0..self.random.below(3) {
            let of = self.pick(seen).clone();
            let group = self.view_value(&of);
            if groups.contains(&group) {
                continue;
            }
            groups.push(group.clone());
            items.push((group, column(format!("G{number}"), of.family, of.required)));
        }
        let counted = Phrase::word("COUNT(*)");
        items.push((counted, column("N".to_string(), Family::Integer, true)));
        for number in 0..self.random.between(1, 4) {
            let (value, family) = self.view_aggregate(seen);
            items.push((value, column(format!("V{number}"), family, false)));
        }
        let group = match groups.is_empty() {
            true => Phrase::nothing(),
            false => {
                let groups = Phrase::all_of(", ", groups);
                Phrase::new(Role::Fixed, " GROUP BY {0}", vec![groups])
            }
        };
        let (list, columns): (Vec<Phrase>, Vec<Column>) = items
            .into_iter()
            .map(|(value, column)| {
                let text = format!("{{0}} AS {}", column.name);
                (Phrase::new(Role::Fixed, text, vec![value]), column)
            })
            .unzip();
        let parts = vec![Phrase::list(", ", list), from, filter, group];
        (Phrase::new(Role::Fixed, "SELECT {0} FROM {1}{2}{3}", parts), columns)
    }

    fn view_value(&mut self, of: &Reference) -> Phrase {
        let plain = of.phrase();
        match (self.random.chance(1, 4), of.family) {
            (true, Family::Integer) => plain_of(of.family, "({0} + 1)", plain),
            (true, Family::Float | Family::Decimal) => plain_of(of.family, "ABS({0})", plain),
            (true, Family::Text) => plain_of(of.family, "UPPER({0})", plain),
            _ => plain,
        }
    }

    fn view_aggregate(&mut self, seen: &[Reference]) -> (Phrase, Family) {
        let of = self.pick(seen).clone();
        let family = of.family;
        let value = self.view_value(&of);
        let extremes = family != Family::Bytes || self.may(Known::BytesExtremes);
        match self.random.below(5) {
            0 if extremes => (plain_of(family, "MIN({0})", value), family),
            1 if extremes => (plain_of(family, "MAX({0})", value), family),
            2 | 3 if family.is_number() => {
                let parts = vec![Phrase::nothing(), value];
                (Phrase::each(Role::Value(family), sum(family), parts), family)
            }
            _ => (plain_of(Family::Integer, "COUNT({0})", value), Family::Integer),
        }
    }
}

fn plain_of(family: Family, text: &str, value: Phrase) -> Phrase {
    Phrase::new(Role::Value(family), text, vec![value])
}

fn column(name: String, family: Family, required: bool) -> Column {
    Column { name, family, required }
}
