//! Values over the columns that a statement sees.

use super::function::{Argument, TEMPLATES, Template};
use super::{Dialect, Family, Generator, Phrase, Reference, Role};
use crate::known::Known;

/// A FLOAT constant, written with an exponent.
pub(super) fn float(text: &str) -> Phrase {
    let postgres = format!("CAST({text} AS DOUBLE PRECISION)");
    Phrase::each(Role::Value(Family::Float), [text, text, &postgres], Vec::new())
}

/// A TIMESTAMP constant.
pub(super) fn timestamp(text: &str) -> Phrase {
    let own = format!("CAST('{text}' AS TIMESTAMP)");
    let micros = format!("{}", micros(text));
    let postgres = format!("TIMESTAMP '{text}'");
    Phrase::each(Role::Value(Family::Timestamp), [&own, &micros, &postgres], Vec::new())
}

/// A VARBINARY constant of hex digits.
pub(super) fn bytes(digits: &str) -> Phrase {
    let own = format!("X'{digits}'");
    let postgres = format!("CAST('\\x{digits}' AS BYTEA)");
    Phrase::each(Role::Value(Family::Bytes), [&own, &own, &postgres], Vec::new())
}

/// Microseconds since 1970 of `YYYY-MM-DD HH:MM:SS[.ffffff]`.
fn micros(text: &str) -> i64 {
    let number = |from: usize, to: usize| -> i64 {
        text.get(from..to).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    // Years begin in March, so that the leap day is the last.
    let shifted = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719_468;
    let seconds = days * 86_400 + number(11, 13) * 3_600 + number(14, 16) * 60 + number(17, 19);
    seconds * 1_000_000 + number(20, 26)
}

const INTEGERS: &[&str] = &["0", "1", "2", "3", "4", "5", "-1", "-2", "7", "10"];
const LARGE_INTEGERS: &[&str] = &["127", "128", "32767", "-32768", "2147483647", "4000000000"];
const FLOATS: &[&str] = &["0.5E0", "1.5E0", "-2.25E0", "3.0E0", "0.0E0", "100.0E0"];
const DECIMALS: &[&str] = &["0.5", "1.25", "-2.75", "3.0", "10.125"];
const TEXTS: &[&str] =
    &["'a'", "'b'", "'ab'", "'abc'", "'B'", "'a%'", "'x_y'", "''", "' a'", "'日'"];
/// Too long for a slot, and too long for most columns.
const LONG_TEXTS: &[&str] = &[
    "'abcdefghijkl'",
    "'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz'",
    "'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyZ'",
];
const LONG_BYTES: &str = "00010203040506070809101112131415161718192021222324252627282930\
                          3132333435363738394041424344454647484950515253545556575859606162636465";
const CASED_TEXTS: &[&str] = &["'a'", "'é'", "'É'", "'ab'", "''", "'ß'"];
const TIMES: &[&str] = &[
    "2020-01-01 00:00:00",
    "1969-12-31 23:59:59",
    "2021-05-05 05:05:05.123456",
    "2020-02-29 12:30:00",
    "1900-03-31 01:02:03.500000",
];
const BYTES: &[&str] = &["00", "01FF", "61", "6162"];

impl Generator {
    /// A constant.
    pub(super) fn literal(&mut self, family: Family) -> Phrase {
        let plain = |text: &str| Phrase::new(Role::Value(family), text, Vec::new());
        match family {
            Family::Integer if self.random.chance(1, 20) => {
                let text = self.constant_of(LARGE_INTEGERS);
                // PostgreSQL would compute with 32 bits.
                let postgres = format!("CAST({text} AS BIGINT)");
                Phrase::each(Role::Value(family), [text, text, &postgres], Vec::new())
            }
            Family::Integer => plain(self.constant_of(INTEGERS)),
            Family::Float => float(self.constant_of(FLOATS)),
            Family::Decimal => plain(self.constant_of(DECIMALS)),
            Family::Text => {
                if self.random.chance(1, 12) {
                    return plain(self.constant_of(LONG_TEXTS));
                }
                let cased = self.may(Known::CaseOfLetters) && self.random.chance(1, 3);
                plain(self.constant_of(if cased { CASED_TEXTS } else { TEXTS }))
            }
            Family::Timestamp => timestamp(self.constant_of(TIMES)),
            Family::Bytes if self.random.chance(1, 12) => bytes(LONG_BYTES),
            Family::Bytes => bytes(self.constant_of(BYTES)),
        }
    }

    /// A constant, or NULL.
    pub(super) fn literal_or_null(&mut self, family: Family, required: bool) -> Phrase {
        match !required && self.random.chance(1, 4) {
            true => Phrase::word("NULL"),
            false => self.literal(family),
        }
    }

    /// A reference of a family, if there is one.
    pub(super) fn of_family(&mut self, family: Family, over: &[Reference]) -> Option<Phrase> {
        let fitting: Vec<&Reference> = over.iter().filter(|r| r.family == family).collect();
        (!fitting.is_empty()).then(|| self.pick(&fitting).phrase())
    }

    /// A family of which something can be seen.
    pub(super) fn family(&mut self, over: &[Reference]) -> Family {
        match over.is_empty() {
            true => Family::Integer,
            false => self.pick(over).family,
        }
    }

    /// A value of a family.
    pub(super) fn value(&mut self, family: Family, over: &[Reference], depth: u32) -> Phrase {
        if depth > 0 && self.random.chance(1, 2) {
            return self.computed(family, over, depth - 1);
        }
        match self.of_family(family, over) {
            Some(plain) if self.random.chance(4, 5) => plain,
            _ => self.literal(family),
        }
    }

    fn computed(&mut self, family: Family, over: &[Reference], depth: u32) -> Phrase {
        let role = Role::Value(family);
        let of = |this: &mut Self| this.value(family, over, depth);
        match self.random.below(9) {
            0 => {
                let parts = vec![self.simple_condition(over), of(self), of(self)];
                Phrase::new(role, "CASE WHEN {0} THEN {1} ELSE {2} END", parts)
            }
            1 => {
                let other = self.family(over);
                let mut parts = vec![self.value(other, over, 0)];
                parts.extend([self.literal(other), of(self), self.literal(other), of(self)]);
                Phrase::new(role, "CASE {0} WHEN {1} THEN {2} WHEN {3} THEN {4} END", parts)
            }
            2 => Phrase::new(role, "COALESCE({0}, {1})", vec![of(self), of(self)]),
            4 if self.may(Known::NullAmongExtremes) => {
                let function = self.one_of(&["GREATEST", "LEAST"]);
                Phrase::new(role, "{0}({1}, {2})", vec![function, of(self), of(self)])
            }
            3 => Phrase::new(role, "NULLIF({0}, {1})", vec![of(self), self.literal(family)]),
            _ => self.called(family, over, depth),
        }
    }

    fn called(&mut self, family: Family, over: &[Reference], depth: u32) -> Phrase {
        let there = |template: &&Template| {
            template.gives == family && !template.texts[self.against as usize].is_empty()
        };
        let fitting: Vec<&Template> = TEMPLATES.iter().filter(there).collect();
        if fitting.is_empty() {
            return self.literal(family);
        }
        let template = *self.pick(&fitting);
        let arguments = template
            .takes
            .iter()
            .map(|argument| match argument {
                Argument::Of(family) => self.value(*family, over, depth),
                Argument::Small => self.one_of(&["0", "1", "2", "3", "4"]),
                Argument::Divisor => self.one_of(&["2", "3", "5"]),
                Argument::Days => self.one_of(&["-40", "-1", "0", "1", "29", "40"]),
            })
            .collect();
        Phrase::each(Role::Value(family), template.texts, arguments)
    }

    /// A comparison's two sides: numbers of different types may meet.
    pub(super) fn sides(&mut self, over: &[Reference], depth: u32) -> [Phrase; 2] {
        let family = self.family(over);
        let mut other = family;
        if family.is_number() && self.random.chance(1, 4) {
            other = *self.pick(&[Family::Integer, Family::Decimal, Family::Float]);
        }
        [self.value(family, over, depth), self.value(other, over, depth)]
    }
}

/// The dialect is an index into a template's texts.
const _: () = assert!(Dialect::Lockstep as usize == 0 && Dialect::Postgres as usize == 2);

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn microseconds_count_from_1970() {
        assert_eq!(micros("1970-01-01 00:00:00"), 0);
        assert_eq!(micros("1969-12-31 23:59:59"), -1_000_000);
        assert_eq!(micros("2020-02-29 12:30:00.000001"), 1_582_979_400_000_001);
        assert_eq!(micros("1900-03-31 00:00:00"), -2_201_299_200_000_000);
    }
}
