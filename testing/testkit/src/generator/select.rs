//! SELECT without its ORDER BY: sources and joins, items, groups, distinct rows.

use super::{Family, Generator, Phrase, Reference, Role};
use crate::known::Known;

/// A SELECT without its ORDER BY.
#[derive(Debug, Clone)]
pub(super) struct Select {
    pub(super) phrase: Phrase,
    /// The output columns are C0, C1 and so on, of these families.
    pub(super) families: Vec<Family>,
}

impl Generator {
    /// What FROM names, and the columns that can be seen of it.
    pub(super) fn source(&mut self, depth: u32) -> (Phrase, Vec<Reference>) {
        let (first, mut seen) = self.item(depth);
        let mut parts = vec![first];
        for _ in 0..[0, 0, 1, 1, 1, 2, 3][self.random.below(7) as usize] {
            let (right, columns) = self.item(depth);
            parts.push(self.joined(right, &seen, &columns));
            seen.extend(columns);
        }
        (Phrase::list("", parts), seen)
    }

    fn joined(&mut self, right: Phrase, seen: &[Reference], columns: &[Reference]) -> Phrase {
        let kinds = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","];
        let kind = *self.pick(&kinds);
        match kind {
            "," if seen.len() < 7 => Phrase::new(Role::Fixed, " CROSS JOIN {0}", vec![right]),
            "," | "CROSS JOIN" => {
                let on = self.join_condition(seen, columns, false);
                Phrase::new(Role::Fixed, " INNER JOIN {0} ON {1}", vec![right, on])
            }
            _ => {
                let plain = kind == "FULL JOIN" && !self.may(Known::FullJoins);
                let on = self.join_condition(seen, columns, plain);
                let parts = vec![Phrase::word(kind), right, on];
                Phrase::new(Role::Fixed, " {0} {1} ON {2}", parts)
            }
        }
    }

    fn join_condition(&mut self, left: &[Reference], right: &[Reference], plain: bool) -> Phrase {
        let one = self.pick(left).clone();
        let on = match self.of_family(one.family, right) {
            None if plain => return Phrase::new(Role::Condition, "1 = 1", Vec::new()),
            None => {
                let other = self.pick(right).phrase();
                let parts = vec![one.phrase(), other];
                Phrase::new(Role::Condition, "{0} IS NOT NULL AND {1} IS NOT NULL", parts)
            }
            Some(other) => {
                let comparison = match plain {
                    true => Phrase::word("="),
                    false => self.one_of(&["=", "=", "=", "=", "<", "<>", ">="]),
                };
                let parts = vec![one.phrase(), comparison, other];
                Phrase::new(Role::Condition, "{0} {1} {2}", parts)
            }
        };
        if plain || self.random.chance(2, 3) {
            return on;
        }
        let mut both = left.to_vec();
        both.extend_from_slice(right);
        let over = if self.random.chance(1, 2) { right } else { &both };
        let more = self.condition(over, 1, false);
        Phrase::new(Role::Condition, "{0} AND {1}", vec![on, more])
    }

    /// A table, a view or a derived table.
    fn item(&mut self, depth: u32) -> (Phrase, Vec<Reference>) {
        let alias = self.alias();
        if depth > 0 && self.random.chance(1, 5) {
            let select = self.select(depth - 1);
            let seen = references(&alias, &select.families);
            let select = match self.random.chance(1, 3) {
                true => self.limited(select),
                false => select.phrase,
            };
            let parts = vec![select, Phrase::word(alias)];
            return (Phrase::new(Role::Fixed, "({0}) {1}", parts), seen);
        }
        let count = (self.tables.len() + self.views.len()) as u64;
        let number = self.random.below(count) as usize;
        let table = match self.tables.get(number) {
            Some(table) => table,
            None => &self.views[number - self.tables.len()].0,
        };
        (Phrase::word(format!("{} {alias}", table.name)), table.references(&alias))
    }

    /// A SELECT of a few columns.
    pub(super) fn select(&mut self, depth: u32) -> Select {
        let (from, seen) = self.source(depth);
        let filter = self.filter(&seen, 2, depth > 0);
        if self.random.chance(1, 3) {
            return self.grouped(from, &seen, filter);
        }
        let mut items: Vec<(Phrase, Family)> = (0..self.random.between(1, 4))
            .map(|_| {
                let family = self.family(&seen);
                (self.value(family, &seen, 2), family)
            })
            .collect();
        if depth > 0 && self.random.chance(1, 6) {
            items.push(self.scalar_subquery(&seen));
        }
        let distinct = match self.random.chance(1, 5) {
            true => Phrase::word("DISTINCT ").optional(),
            false => Phrase::nothing(),
        };
        let (list, families) = listed(items);
        let parts = vec![distinct, list, from, filter];
        Select { phrase: Phrase::new(Role::Fixed, "SELECT {0}{1} FROM {2}{3}", parts), families }
    }

    fn grouped(&mut self, from: Phrase, seen: &[Reference], filter: Phrase) -> Select {
        let mut groups: Vec<(Phrase, Family)> = Vec::new();
        for _ in 0..self.random.below(3) {
            let family = self.family(seen);
            // A constant among the groups could be read as the number of an item.
            let Some(plain) = self.of_family(family, seen) else { continue };
            let group = match self.random.chance(1, 4) {
                true => self.over_column(family, plain),
                false => (plain, family),
            };
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let mut items = groups.clone();
        for _ in 0..self.random.between(1, 3) {
            items.push(self.aggregate(seen));
        }
        let mut tail = Phrase::nothing();
        if !groups.is_empty() {
            let groups = groups.into_iter().map(|(group, _)| group).collect();
            let having = match self.random.chance(1, 3) {
                true => self.having(seen),
                false => Phrase::nothing(),
            };
            let parts = vec![Phrase::list(", ", groups), having];
            tail = Phrase::new(Role::Fixed, " GROUP BY {0}{1}", parts);
        }
        let (list, families) = listed(items);
        let parts = vec![list, from, filter, tail];
        Select { phrase: Phrase::new(Role::Fixed, "SELECT {0} FROM {1}{2}{3}", parts), families }
    }

    /// An expression over one column, for groups.
    fn over_column(&mut self, family: Family, plain: Phrase) -> (Phrase, Family) {
        let text = match family {
            Family::Integer => "({0} + 1)",
            Family::Text => "UPPER({0})",
            Family::Float | Family::Decimal => "ABS({0})",
            Family::Timestamp | Family::Bytes => return (plain, family),
        };
        (Phrase::new(Role::Value(family), text, vec![plain]), family)
    }

    fn having(&mut self, seen: &[Reference]) -> Phrase {
        let (value, family) = self.aggregate(seen);
        let parts = vec![value, self.one_of(&["<", "=", ">", ">="]), self.literal(family)];
        let condition = match self.random.chance(1, 4) {
            true => Phrase::new(Role::Condition, "{0} IS NOT NULL", parts),
            false => Phrase::new(Role::Condition, "{0} {1} {2}", parts),
        };
        Phrase::new(Role::Fixed, " HAVING {0}", vec![condition]).optional()
    }

    /// An aggregate and what it gives.
    pub(super) fn aggregate(&mut self, seen: &[Reference]) -> (Phrase, Family) {
        let mut family = self.family(seen);
        let value = match self.random.chance(1, 4) {
            true => self.value(family, seen, 1),
            false => self.of_family(family, seen).unwrap_or_else(|| family.simplest()),
        };
        if family == Family::Bytes && !self.may(Known::BytesExtremes) {
            family = Family::Integer;
            return (called(family, "COUNT({0})", vec![value]), family);
        }
        let distinct = self.one_of(&["", "", "DISTINCT "]);
        match self.random.below(8) {
            0 => (called(Family::Integer, "COUNT(*)", Vec::new()), Family::Integer),
            1 => (called(Family::Integer, "COUNT({0}{1})", vec![distinct, value]), Family::Integer),
            6 => {
                let condition = self.simple_condition(seen);
                let text = "COUNT({0}) FILTER (WHERE {1})";
                (called(Family::Integer, text, vec![value, condition]), Family::Integer)
            }
            7 => {
                let function = self.one_of(&["MIN", "MAX"]);
                let condition = self.simple_condition(seen);
                let parts = vec![function, value, condition];
                (called(family, "{0}({1}) FILTER (WHERE {2})", parts), family)
            }
            2 | 3 if family.is_number() => {
                (Phrase::each(Role::Value(family), sum(family), vec![distinct, value]), family)
            }
            4 if family.is_number() => {
                (Phrase::each(Role::Value(family), average(family), vec![distinct, value]), family)
            }
            _ => {
                let function = self.one_of(&["MIN", "MAX"]);
                (called(family, "{0}({1})", vec![function, value]), family)
            }
        }
    }

    /// One value of other rows, tied to the row by any condition.
    fn scalar_subquery(&mut self, over: &[Reference]) -> (Phrase, Family) {
        let (from, inner) = self.source(0);
        let mut seen = inner.clone();
        seen.extend_from_slice(over);
        let filter = self.filter(&seen, 1, false);
        let (value, family) = self.aggregate(&inner);
        let parts = vec![value, from, filter];
        (Phrase::new(Role::Value(family), "(SELECT {0} FROM {1}{2})", parts), family)
    }
}

fn called(family: Family, text: &str, parts: Vec<Phrase>) -> Phrase {
    Phrase::new(Role::Value(family), text, parts)
}

/// SUM keeps integers BIGINT.
pub(super) fn sum(family: Family) -> [&'static str; 3] {
    match family {
        Family::Integer => ["SUM({0}{1})", "SUM({0}{1})", "CAST(SUM({0}{1}) AS BIGINT)"],
        _ => ["SUM({0}{1})"; 3],
    }
}

/// AVG of integers is an integer, of decimals one of scale 12.
fn average(family: Family) -> [&'static str; 3] {
    match family {
        Family::Integer => {
            ["AVG({0}{1})", "CAST(AVG({0}{1}) AS INTEGER)", "CAST(TRUNC(AVG({0}{1})) AS BIGINT)"]
        }
        Family::Decimal => ["AVG({0}{1})", "AVG({0}{1})", "TRUNC(AVG({0}{1}), 12)"],
        _ => ["AVG({0}{1})"; 3],
    }
}

/// C0, C1 and so on of an alias.
pub(super) fn references(alias: &str, families: &[Family]) -> Vec<Reference> {
    let columns = families.iter().enumerate();
    columns
        .map(|(n, family)| Reference {
            text: format!("{alias}.C{n}"),
            family: *family,
            required: false,
        })
        .collect()
}

/// A select list with aliases C0, C1 and so on.
pub(super) fn listed(items: Vec<(Phrase, Family)>) -> (Phrase, Vec<Family>) {
    let families = items.iter().map(|(_, family)| *family).collect();
    let named = items
        .into_iter()
        .enumerate()
        .map(|(n, (item, _))| Phrase::new(Role::Fixed, format!("{{0}} AS C{n}"), vec![item]));
    (Phrase::list(", ", named.collect()), families)
}
