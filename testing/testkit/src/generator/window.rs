//! Window functions with frames. Rows are ordered by everything that can be seen of them, so that
//! peers are equal rows and it does not matter which comes first. Of two functions with orders of
//! their own only one may tell peers apart: nobody says that both number equal rows alike.

use super::select::{Select, listed, sum};
use super::{Family, Generator, Phrase, Reference, Role};
use crate::known::Known;

const FRAMES: &[&str] = &[
    "",
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES",
    " GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
];

/// How many of the functions give all peers the same: those that come first.
const ALIKE_FOR_PEERS: u64 = 4;

impl Generator {
    /// A SELECT with one or two window functions.
    pub(super) fn window(&mut self) -> Select {
        let (from, seen) = self.source(0);
        let filter = self.filter(&seen, 1, false);
        let family = self.family(&seen);
        let mut items = vec![(self.value(family, &seen, 1), family)];
        items.push(self.window_function(&seen, 15));
        if self.random.chance(1, 2) {
            items.push(self.window_function(&seen, ALIKE_FOR_PEERS));
        }
        let (list, families) = listed(items);
        let parts = vec![list, from, filter];
        Select { phrase: Phrase::new(Role::Fixed, "SELECT {0} FROM {1}{2}", parts), families }
    }

    /// One of the first `kinds` functions.
    fn window_function(&mut self, seen: &[Reference], kinds: u64) -> (Phrase, Family) {
        let family = self.family(seen);
        let value = self.of_family(family, seen).unwrap_or_else(|| family.simplest());
        let offset = self.one_of(&["1", "2"]);
        let extremes = family != Family::Bytes || self.may(Known::BytesExtremes);
        let number = Family::Integer;
        let plain = |text: &str, of: Vec<Phrase>| Phrase::new(Role::Fixed, text, of);
        let (function, gives, framed) = match self.random.below(kinds) {
            0 => (plain("RANK()", Vec::new()), number, false),
            1 => (plain("DENSE_RANK()", Vec::new()), number, false),
            2 => (plain("CUME_DIST()", Vec::new()), Family::Float, false),
            3 => (plain("PERCENT_RANK()", Vec::new()), Family::Float, false),
            4 => (plain("ROW_NUMBER()", Vec::new()), number, false),
            5 => (plain("NTILE(3)", Vec::new()), number, false),
            6 => (plain("NTH_VALUE({0}, {1})", vec![value, offset]), family, true),
            7 => (plain("LAG({0}, {1})", vec![value, offset]), family, false),
            8 => (plain("LEAD({0}, {1})", vec![value, offset]), family, false),
            9 => (plain("FIRST_VALUE({0})", vec![value]), family, true),
            10 => (plain("LAST_VALUE({0})", vec![value]), family, true),
            11 if extremes => {
                let function = self.one_of(&["MIN", "MAX"]);
                (plain("{0}({1})", vec![function, value]), family, true)
            }
            12 | 13 if family.is_number() => return self.window_sum(family, value, seen),
            _ => (plain("COUNT({0})", vec![value]), number, true),
        };
        let over = self.over(seen, framed);
        (Phrase::new(Role::Value(gives), "{0} OVER ({1})", vec![function, over]), gives)
    }

    fn window_sum(
        &mut self,
        family: Family,
        value: Phrase,
        seen: &[Reference],
    ) -> (Phrase, Family) {
        let over = self.over(seen, true);
        let texts = sum(family).map(|text| text.replace("{0}{1})", "{0}) OVER ({1})"));
        let texts = [texts[0].as_str(), &texts[1], &texts[2]];
        (Phrase::each(Role::Value(family), texts, vec![value, over]), family)
    }

    fn over(&mut self, seen: &[Reference], framed: bool) -> Phrase {
        let partition = match self.random.chance(2, 3) {
            true => {
                let by = self.pick(seen).phrase();
                Phrase::new(Role::Fixed, "PARTITION BY {0} ", vec![by]).optional()
            }
            false => Phrase::nothing(),
        };
        let first = self.random.below(seen.len() as u64) as usize;
        let keys = (0..seen.len())
            .map(|n| {
                let text = seen[(n + first) % seen.len()].text.clone();
                self.key(&text)
            })
            .collect();
        let frame = match framed {
            true => self.one_of(FRAMES).optional(),
            false => Phrase::nothing(),
        };
        let parts = vec![partition, Phrase::all_of(", ", keys), frame];
        Phrase::new(Role::Fixed, "{0}ORDER BY {1}{2}", parts)
    }
}
