//! Values and conditions over the columns that a statement sees.

use super::{Family, Generator, Reference};

const COMPARISONS: [&str; 7] = ["=", "=", "<>", "<", "<=", ">", ">="];

impl Generator {
    /// A constant.
    pub(super) fn literal(&mut self, family: Family) -> String {
        let of: &[&str] = match family {
            Family::Integer => &["0", "1", "2", "3", "4", "5", "-1", "-2", "7", "10"],
            Family::Float => &["0.5E0", "1.5E0", "-2.25E0", "3.0E0", "0.0E0", "100.0E0"],
            Family::Decimal => &["0.5", "1.25", "-2.75", "3.0", "10.1"],
            Family::Text => &["'a'", "'b'", "'ab'", "'abc'", "'B'", "'é'", "'a%'", "'x_y'", "''"],
            Family::Timestamp => {
                &["'2020-01-01'", "'1969-12-31 23:59:59'", "'2021-05-05 05:05:05.123456'"]
            }
            Family::Bytes => &["X'00'", "X'01FF'", "X'61'"],
        };
        self.pick(of).to_string()
    }

    /// A constant, or NULL.
    pub(super) fn literal_or_null(&mut self, family: Family, required: bool) -> String {
        match !required && self.random.chance(1, 4) {
            true => "NULL".to_string(),
            false => self.literal(family),
        }
    }

    /// A reference of a family, if there is one.
    pub(super) fn of_family(&mut self, family: Family, over: &[Reference]) -> Option<String> {
        let fitting: Vec<&Reference> = over.iter().filter(|r| r.family == family).collect();
        (!fitting.is_empty()).then(|| self.pick(&fitting).text.clone())
    }

    /// A value of a family.
    pub(super) fn value(&mut self, family: Family, over: &[Reference], depth: u32) -> String {
        let Some(plain) = self.of_family(family, over) else { return self.literal(family) };
        if depth == 0 || self.random.chance(1, 2) {
            return if self.random.chance(4, 5) { plain } else { self.literal(family) };
        }
        let other = self.value(family, over, depth - 1);
        match self.random.below(6) {
            0 => format!(
                "CASE WHEN {} THEN {plain} ELSE {} END",
                self.simple_condition(over),
                match family {
                    Family::Timestamp => plain.clone(),
                    _ => other,
                }
            ),
            1 => format!("COALESCE({plain}, {plain})"),
            2 => format!("NULLIF({plain}, {})", self.literal(family)),
            _ => self.computed(family, plain, other),
        }
    }

    fn computed(&mut self, family: Family, plain: String, other: String) -> String {
        match family {
            Family::Integer => match self.random.below(5) {
                0 => format!("MOD({plain}, {})", self.pick(&["2", "3", "5"])),
                1 => format!("ABS({plain})"),
                2 => format!("({plain} / {})", self.pick(&["2", "3"])),
                _ => format!("({plain} {} {other})", self.pick(&["+", "-", "*"])),
            },
            Family::Float | Family::Decimal => {
                format!("({plain} {} {other})", self.pick(&["+", "-"]))
            }
            Family::Text => match self.random.below(4) {
                0 => format!("UPPER({plain})"),
                1 => format!("SUBSTRING({plain}, 1, {})", self.pick(&["1", "2"])),
                _ => format!("({plain} || {other})"),
            },
            Family::Timestamp => format!("TRUNCATE(DAY, {plain})"),
            Family::Bytes => plain,
        }
    }

    /// A condition without subqueries.
    pub(super) fn simple_condition(&mut self, over: &[Reference]) -> String {
        let Reference { text, family } = self.pick(over).clone();
        match self.random.below(8) {
            0 => format!("{text} IS {}NULL", self.pick(&["", "NOT "])),
            1 => {
                let (low, high) = (self.literal(family), self.literal(family));
                format!("{text} BETWEEN {low} AND {high}")
            }
            2 => {
                let (one, two) = (self.literal(family), self.literal(family));
                format!("{text} {}IN ({one}, {two})", self.pick(&["", "NOT "]))
            }
            3 if family == Family::Text => {
                format!("{text} LIKE {}", self.pick(&["'a%'", "'%b'", "'_'", "'%'"]))
            }
            4 => {
                let other = self.value(family, over, 0);
                format!("{text} IS {}DISTINCT FROM {other}", self.pick(&["", "NOT "]))
            }
            _ => {
                let other = self.value(family, over, 0);
                format!("{text} {} {other}", self.pick(&COMPARISONS))
            }
        }
    }

    /// A condition; with `subqueries`, also over other tables, tied to this one or not.
    pub(super) fn condition(&mut self, over: &[Reference], depth: u32, subqueries: bool) -> String {
        match self.random.below(10) {
            0..=2 if depth > 0 => {
                let left = self.condition(over, depth - 1, subqueries);
                let right = self.condition(over, depth - 1, subqueries);
                format!("({left} {} {right})", self.pick(&["AND", "OR"]))
            }
            3 if depth > 0 => format!("(NOT {})", self.condition(over, depth - 1, subqueries)),
            4 | 5 if subqueries => self.subquery_condition(over),
            6 => {
                let family = self.pick(over).family;
                let left = self.value(family, over, 1);
                let right = self.value(family, over, 1);
                format!("{left} {} {right}", self.pick(&COMPARISONS))
            }
            _ => self.simple_condition(over),
        }
    }

    fn subquery_condition(&mut self, over: &[Reference]) -> String {
        let (from, inner) = self.source(0);
        let mut seen = inner.clone();
        if self.random.chance(1, 2) {
            seen.extend_from_slice(over);
        }
        let condition = self.condition(&seen, 1, false);
        let Reference { text, family } = self.pick(over).clone();
        let found = self.of_family(family, &inner);
        match (self.random.below(3), found) {
            (1, Some(found)) => format!(
                "{text} {}IN (SELECT {found} FROM {from} WHERE {condition})",
                self.pick(&["", "NOT "])
            ),
            (2, Some(found)) => format!(
                "{text} {} (SELECT {}({found}) FROM {from} WHERE {condition})",
                self.pick(&COMPARISONS),
                self.pick(&["MIN", "MAX"])
            ),
            _ => format!(
                "{}EXISTS (SELECT 1 FROM {from} WHERE {condition})",
                self.pick(&["", "NOT "])
            ),
        }
    }
}
