//! LIKE with a pattern that is the same for all rows.

use crate::evaluate::like;
use crate::query::batch::vector::{FALSE, TRUE, UNKNOWN};
use lockstep_types::Datum;

/// A pattern, distinguished by what it looks for.
pub(super) enum Pattern<'a> {
    /// `%text%`, of two bytes or more.
    Contains(&'a [u8]),
    Other(&'a str, Option<char>),
}

impl<'a> Pattern<'a> {
    pub(super) fn new(pattern: &'a str, escape: Option<char>) -> Pattern<'a> {
        let within = pattern.strip_prefix('%').and_then(|rest| rest.strip_suffix('%'));
        match within {
            Some(text)
                if text.len() > 1
                    && !text.contains(['%', '_'])
                    && escape.is_none_or(|escape| !pattern.contains(escape)) =>
            {
                Pattern::Contains(text.as_bytes())
            }
            _ => Pattern::Other(pattern, escape),
        }
    }

    /// The truth value for a text.
    #[inline]
    pub(super) fn matches(&self, text: Option<&str>) -> u8 {
        match (self, text) {
            (Pattern::Contains(_), None) => UNKNOWN,
            (Pattern::Contains(wanted), Some(text)) => {
                if contains(text.as_bytes(), wanted) {
                    TRUE
                } else {
                    FALSE
                }
            }
            (Pattern::Other(pattern, escape), text) => {
                let text = text.map_or(Datum::Null, Datum::Text);
                match like(text, Datum::Text(pattern), *escape) {
                    Datum::Bool(true) => TRUE,
                    Datum::Bool(false) => FALSE,
                    _ => UNKNOWN,
                }
            }
        }
    }
}

/// Whether the bytes hold those that are wanted, at least two. Most texts are settled by one pass
/// over the places where the first and the last of them may stand.
#[inline]
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return true };
    let Some(ends) = bytes.get(wanted.len() - 1..) else { return false };
    let may = |found: bool, (a, b): (&u8, &u8)| found | ((a == first) & (b == last));
    bytes.iter().zip(ends).fold(false, may)
        && bytes.windows(wanted.len()).any(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_where_like_finds_them() {
        let texts = ["", "a", "ab", "aab", "xabx", "axb", "ba", "abab", "a parcel", "parcels", "ä"];
        for pattern in ["%ab%", "%parcel%", "%%", "%a%", "%a_%", "ab%", "%bä%", "%ä%"] {
            for text in texts {
                let expected = like(Datum::Text(text), Datum::Text(pattern), None);
                let found = Pattern::new(pattern, None).matches(Some(text));
                assert_eq!(Datum::Bool(found == TRUE), expected, "{text} LIKE {pattern}");
            }
        }
        assert_eq!(Pattern::new("%ab%", None).matches(None), UNKNOWN);
        assert_eq!(Pattern::new("%", None).matches(None), FALSE);
    }
}
