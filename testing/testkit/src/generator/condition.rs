//! Conditions, over rows at hand and over other tables.

use super::{Family, Generator, Phrase, Reference, Role};
use crate::known::Known;

const COMPARISONS: [&str; 7] = ["=", "=", "<>", "<", "<=", ">", ">="];

fn condition(text: &str, parts: Vec<Phrase>) -> Phrase {
    Phrase::new(Role::Condition, text, parts)
}

impl Generator {
    /// A condition without subqueries.
    pub(super) fn simple_condition(&mut self, over: &[Reference]) -> Phrase {
        if over.is_empty() {
            return condition("1 = 1", Vec::new());
        }
        let reference = self.pick(over).clone();
        let (value, family) = (reference.phrase(), reference.family);
        let not = self.one_of(&["", "NOT "]);
        match self.random.below(9) {
            0 => condition("{0} IS {1}NULL", vec![value, not]),
            1 => {
                let parts = vec![value, not, self.literal(family), self.literal(family)];
                condition("{0} {1}BETWEEN {2} AND {3}", parts)
            }
            2 | 3 => {
                let mut elements = vec![self.literal(family), self.literal(family)];
                if self.may(Known::NullInList) && self.random.chance(1, 8) {
                    elements.push(Phrase::word("NULL"));
                }
                condition("{0} {1}IN ({2})", vec![value, not, Phrase::list(", ", elements)])
            }
            4 if family == Family::Text => {
                let pattern = match self.may(Known::NullLikeAnything) {
                    true if self.random.chance(1, 4) => Phrase::word("'%'"),
                    _ => {
                        self.one_of(&["'a%'", "'%b'", "'_'", "'%_'", "'%a_%'", "'a!%' ESCAPE '!'"])
                    }
                };
                condition("{0} {1}LIKE {2}", vec![value, not, pattern])
            }
            5 => {
                let other = self.value(family, over, 0);
                condition("{0} IS {1}DISTINCT FROM {2}", vec![value, not, other])
            }
            _ => {
                let other = self.value(family, over, 0);
                let comparison = self.one_of(&COMPARISONS);
                condition("{0} {1} {2}", vec![value, comparison, other])
            }
        }
    }

    /// A condition; with `subqueries`, also over other tables, tied to this one or not.
    pub(super) fn condition(&mut self, over: &[Reference], depth: u32, subqueries: bool) -> Phrase {
        match self.random.below(10) {
            0..=2 if depth > 0 => {
                let parts = vec![
                    self.condition(over, depth - 1, subqueries),
                    self.one_of(&["AND", "OR"]),
                    self.condition(over, depth - 1, subqueries),
                ];
                condition("({0} {1} {2})", parts)
            }
            3 if depth > 0 => {
                let part = self.condition(over, depth - 1, subqueries);
                condition("(NOT {0})", vec![part])
            }
            4 | 5 if subqueries && !over.is_empty() => self.subquery_condition(over),
            6 | 7 => {
                let [left, right] = self.sides(over, 2);
                let comparison = self.one_of(&COMPARISONS);
                condition("{0} {1} {2}", vec![left, comparison, right])
            }
            _ => self.simple_condition(over),
        }
    }

    /// ` WHERE` and a condition, or nothing.
    pub(super) fn filter(&mut self, over: &[Reference], depth: u32, subqueries: bool) -> Phrase {
        if self.random.chance(2, 5) {
            return Phrase::nothing();
        }
        let found = self.condition(over, depth, subqueries);
        Phrase::new(Role::Fixed, " WHERE {0}", vec![found]).optional()
    }

    fn subquery_condition(&mut self, over: &[Reference]) -> Phrase {
        let (from, inner) = self.source(0);
        let mut seen = inner.clone();
        if self.random.chance(1, 2) {
            seen.extend_from_slice(over);
        }
        let filter = self.filter(&seen, 1, false);
        let outer = self.pick(over).clone();
        let not = self.one_of(&["", "NOT "]);
        let exists = |from, filter, not| {
            condition("{0}EXISTS (SELECT 1 FROM {1}{2})", vec![not, from, filter])
        };
        let Some(found) = self.of_family(outer.family, &inner) else {
            return exists(from, filter, not);
        };
        let value = outer.phrase();
        let comparison = self.one_of(&COMPARISONS);
        match self.random.below(6) {
            0 | 1 => {
                let parts = vec![value, not, found, from, filter];
                condition("{0} {1}IN (SELECT {2} FROM {3}{4})", parts)
            }
            2 if outer.family != Family::Bytes || self.may(Known::BytesExtremes) => {
                let function = self.one_of(&["MIN", "MAX"]);
                let parts = vec![value, comparison, function, found, from, filter];
                condition("{0} {1} (SELECT {2}({3}) FROM {4}{5})", parts)
            }
            3 if self.may(Known::Quantified) => {
                let every = self.one_of(&["ANY", "ALL", "SOME"]);
                let parts = vec![value, comparison, every, found, from, filter];
                condition("{0} {1} {2} (SELECT {3} FROM {4}{5})", parts)
            }
            4 => self.row_in(over, value, found, (from, &inner), filter),
            _ => exists(from, filter, not),
        }
    }

    /// Two values at once.
    fn row_in(
        &mut self,
        over: &[Reference],
        value: Phrase,
        found: Phrase,
        (from, inner): (Phrase, &[Reference]),
        filter: Phrase,
    ) -> Phrase {
        let second = self.pick(over).clone();
        let not = self.one_of(&["", "NOT "]);
        let Some(other) = self.of_family(second.family, inner) else {
            let parts = vec![value, not, found, from, filter];
            return condition("{0} {1}IN (SELECT {2} FROM {3}{4})", parts);
        };
        let parts = vec![value, second.phrase(), not, found, other, from, filter];
        condition("({0}, {1}) {2}IN (SELECT {3}, {4} FROM {5}{6})", parts)
    }
}
