//! The differences from other databases that are known: what is not generated, or is written in
//! another way, or may be refused by one side. Reasons are in `corpus/known-differences.md`.

use crate::generator::Dialect;

/// Declares the differences with their names and the databases that they concern.
macro_rules! known {
    ($(
        $(#[$meaning:meta])*
        $variant:ident = $name:literal, $sqlite:literal, $postgres:literal;
    )*) => {
        /// A known difference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Known { $($(#[$meaning])* $variant),* }

        impl Known {
            /// All of them.
            pub const ALL: &[Known] = &[$(Known::$variant),*];

            /// The name in `corpus/known-differences.md`.
            pub fn name(self) -> &'static str {
                match self { $(Known::$variant => $name),* }
            }

            /// Whether it concerns what is compared with this database.
            pub fn concerns(self, dialect: Dialect) -> bool {
                let (sqlite, postgres) = match self {
                    $(Known::$variant => ($sqlite, $postgres)),*
                };
                match dialect {
                    Dialect::Lockstep => false,
                    Dialect::Sqlite => sqlite,
                    Dialect::Postgres => postgres,
                }
            }
        }
    };
}

known! {
    /// Keys may change places within one statement.
    UniqueAtTheEnd = "unique-at-the-end", true, true;
    /// `x IN (1, NULL)` is false where nothing fits.
    NullInList = "null-in-list", true, true;
    /// `NULL NOT LIKE '%'` is true.
    NullLikeAnything = "null-like-anything", true, true;
    /// A month later, the last day of a month is the last day.
    LastDayOfMonth = "last-day-of-month", true, true;
    /// A statement does not see what it has changed itself.
    OwnChanges = "own-changes", true, false;
    /// NULLs are equal in a unique index.
    EqualNulls = "equal-nulls", true, false;
    /// DECIMAL is exact.
    ExactDecimals = "exact-decimals", true, false;
    /// `ANY` and `ALL`.
    Quantified = "quantified", true, false;
    /// `INTERSECT ALL`, `EXCEPT ALL`, parentheses around branches.
    WholeSetOperations = "whole-set-operations", true, false;
    /// GREATEST and LEAST leave NULLs out.
    NullAmongExtremes = "null-among-extremes", true, false;
    /// Case of letters beyond ASCII.
    CaseOfLetters = "case-of-letters", true, true;
    /// Functions that the other database does not have.
    OwnFunctions = "own-functions", true, true;
    /// FULL JOIN on any condition.
    FullJoins = "full-joins", false, true;
    /// MIN and MAX of VARBINARY.
    BytesExtremes = "bytes-extremes", false, true;
    /// Which of several errors, or none, a statement meets.
    ErrorsByOrder = "errors-by-order", true, true;
    /// Integers that overflow.
    Overflow = "overflow", true, false;
    /// Which row of one key an UPSERT ... SELECT keeps.
    SeveralOfOneKey = "several-of-one-key", true, true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_known_difference_is_documented_and_nothing_else() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/known-differences.md");
        let text = std::fs::read_to_string(path).expect("the page of known differences");
        let (left_out, _written_otherwise) =
            text.split_once("What is written in another way").expect("two tables");
        let named: Vec<&str> = left_out
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name)
            .collect();
        let expected: Vec<&str> = Known::ALL.iter().map(|known| known.name()).collect();
        assert_eq!(named, expected);
    }
}
