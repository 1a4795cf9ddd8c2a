//! Queries: whole SELECTs with their order, set operations, common tables.

use super::select::{Select, listed, references};
use super::{Family, Generator, Phrase, Role, Step};
use crate::known::Known;

impl Generator {
    /// A query of any form.
    pub(super) fn query(&mut self) -> Step {
        if self.random.chance(1, 10) {
            return self.ordered_by_source();
        }
        let select = match self.random.below(14) {
            0 | 1 => self.set_operation(1),
            2 => self.common_tables(),
            3 => self.recursive(),
            4 | 5 => self.window(),
            6 => self.select(2),
            _ => self.select(1),
        };
        let ordered = self.random.chance(1, 3);
        let tail = ordered.then(|| self.order(select.families.len()));
        Step::Query { body: select.phrase, tail }
    }

    /// Rows in the order of what is not selected, and after it of all that can be seen.
    fn ordered_by_source(&mut self) -> Step {
        let (from, seen) = self.source(1);
        let filter = self.filter(&seen, 1, true);
        let items: Vec<(Phrase, Family)> = (0..self.random.between(1, 3))
            .map(|_| {
                let family = self.family(&seen);
                (self.value(family, &seen, 1), family)
            })
            .collect();
        let (list, _) = listed(items);
        let parts = vec![list, from, filter];
        let body = Phrase::new(Role::Fixed, "SELECT {0} FROM {1}{2}", parts);
        let first = self.random.below(seen.len() as u64) as usize;
        let mut keys: Vec<Phrase> = Vec::new();
        let family = seen[first].family;
        if self.random.chance(1, 2) && family.is_number() {
            keys.push(self.key(&format!("({} + 1)", seen[first].text)));
        }
        keys.extend((0..seen.len()).map(|n| {
            let text = seen[(n + first) % seen.len()].text.clone();
            self.key(&text)
        }));
        let limit = match self.random.chance(2, 3) {
            true => self.limit(),
            false => Phrase::nothing(),
        };
        let parts = vec![Phrase::all_of(", ", keys), limit];
        let tail = Phrase::new(Role::Fixed, " ORDER BY {0}{1}", parts);
        Step::Query { body, tail: Some(tail) }
    }

    /// ORDER BY over all columns, and perhaps LIMIT and OFFSET.
    fn order(&mut self, width: usize) -> Phrase {
        let first = self.random.below(width as u64) as usize;
        let keys = (0..width).map(|n| self.key(&format!("C{}", (n + first) % width))).collect();
        let limit = match self.random.chance(1, 2) {
            true => self.limit(),
            false => Phrase::nothing(),
        };
        Phrase::new(Role::Fixed, " ORDER BY {0}{1}", vec![Phrase::all_of(", ", keys), limit])
    }

    /// One key of ORDER BY: NULL is lowest wherever nothing is said.
    pub(super) fn key(&mut self, text: &str) -> Phrase {
        let texts = match self.random.below(7) {
            4 => ["{0} NULLS LAST"; 3],
            5 => ["{0} DESC NULLS FIRST"; 3],
            6 => ["{0} NULLS FIRST"; 3],
            0 => ["{0} DESC", "{0} DESC", "{0} DESC NULLS LAST"],
            1 => ["{0} ASC", "{0} ASC", "{0} ASC NULLS FIRST"],
            _ => ["{0}", "{0}", "{0} NULLS FIRST"],
        };
        Phrase::each(Role::Fixed, texts, vec![Phrase::word(text)])
    }

    pub(super) fn limit(&mut self) -> Phrase {
        let mut text = format!(" LIMIT {}", self.random.between(0, 9));
        if self.random.chance(1, 3) {
            text += &format!(" OFFSET {}", self.random.below(4));
        }
        Phrase::word(text).optional()
    }

    /// A SELECT whose first rows by all columns are taken.
    pub(super) fn limited(&mut self, select: Select) -> Phrase {
        let width = select.families.len();
        let keys = (0..width).map(|n| self.key(&format!("C{n}"))).collect();
        let limit = self.limit();
        let parts = vec![select.phrase, Phrase::all_of(", ", keys), limit];
        Phrase::new(Role::Fixed, "{0} ORDER BY {1}{2}", parts)
    }

    /// A SELECT of these families.
    fn branch(&mut self, families: &[Family]) -> Phrase {
        let (from, seen) = self.source(0);
        let items = families.iter().map(|family| (self.value(*family, &seen, 1), *family));
        let (list, _) = listed(items.collect());
        let filter = self.filter(&seen, 1, false);
        // Both branches need the same number of items.
        Phrase::new(Role::Fixed, "SELECT {0} FROM {1}{2}", vec![list, from, filter])
    }

    fn set_operation(&mut self, depth: u32) -> Select {
        let any = [Family::Integer, Family::Text, Family::Decimal, Family::Timestamp];
        let families = vec![Family::Integer, *self.pick(&any)];
        let phrase = self.combined(&families, depth);
        Select { phrase, families }
    }

    fn combined(&mut self, families: &[Family], depth: u32) -> Phrase {
        let whole = self.may(Known::WholeSetOperations);
        let left = match depth > 0 && self.random.chance(1, 3) {
            true if whole => {
                let inner = self.combined(families, depth - 1);
                Phrase::new(Role::Fixed, "({0})", vec![inner])
            }
            // Without parentheses, a derived table.
            true => {
                let inner = self.combined(families, depth - 1);
                let alias = Phrase::word(self.alias());
                Phrase::new(Role::Fixed, "SELECT C0, C1 FROM ({0}) {1}", vec![inner, alias])
            }
            false => self.branch(families),
        };
        let operators: &[&str] = match whole {
            true => &["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"],
            false => &["UNION", "UNION ALL", "INTERSECT", "EXCEPT"],
        };
        let operator = self.one_of(operators);
        let right = self.branch(families);
        Phrase::new(Role::Fixed, "{0} {1} {2}", vec![left, operator, right])
    }

    /// One or two common tables, joined with each other or themselves.
    fn common_tables(&mut self) -> Select {
        let first = self.select(0);
        let second = match self.random.chance(1, 2) {
            true => self.set_operation(0),
            false => self.select(0),
        };
        let two = self.random.chance(1, 2);
        let (name, families) = match two {
            true => ("w2", &second.families),
            false => ("w1", &first.families),
        };
        let mut seen = references("a", &first.families);
        seen.extend(references("b", families));
        let fitting = families.iter().position(|family| *family == first.families[0]);
        let on = match fitting {
            Some(place) => format!("a.C0 = b.C{place}"),
            None => "1 = 1".to_string(),
        };
        let tables = match two {
            true => vec![
                first.phrase.clone(),
                Phrase::new(Role::Fixed, ", w2 AS ({0})", vec![second.phrase.clone()]),
            ],
            false => vec![first.phrase.clone(), Phrase::nothing()],
        };
        let kind = self.one_of(&["JOIN", "LEFT JOIN"]);
        let items = (0..2).map(|_| {
            let family = self.family(&seen);
            (self.value(family, &seen, 1), family)
        });
        let (list, families) = listed(items.collect());
        let filter = self.filter(&seen, 1, false);
        let mut parts = tables;
        parts.extend([list, kind, Phrase::word(format!("{name} b ON {on}")), filter]);
        let text = "WITH w1 AS ({0}){1} SELECT {2} FROM w1 a {3} {4}{5}";
        Select { phrase: Phrase::new(Role::Fixed, text, parts), families }
    }

    /// Numbers counted by a recursive common table, joined with a table's integers.
    fn recursive(&mut self) -> Select {
        let (from, seen) = self.source(0);
        let step = Phrase::word(self.random.between(1, 2).to_string());
        let to = Phrase::word(self.random.between(2, 6).to_string());
        let seed = self.one_of(&["MIN(ID)", "MAX(ID) - 3", "COUNT(*)"]);
        let of = self.value(Family::Integer, &seen, 1);
        let filter = self.filter(&seen, 1, false);
        let kind = self.one_of(&["JOIN", "LEFT JOIN"]);
        let text = "WITH RECURSIVE r (n, m) AS (SELECT CAST({0} AS BIGINT), CAST(0 AS BIGINT) FROM \
                    T0 UNION ALL SELECT n + {1}, m + 1 FROM r WHERE n < {2} AND m < 5) SELECT r.n \
                    AS C0, t.j AS C1 FROM r {6} (SELECT {3} AS j FROM {4}{5}) t ON r.n = t.j";
        let parts = vec![seed, step, to, of, from, filter, kind];
        let families = vec![Family::Integer, Family::Integer];
        Select { phrase: Phrase::new(Role::Fixed, text, parts), families }
    }
}
