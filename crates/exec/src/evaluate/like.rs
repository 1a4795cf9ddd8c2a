//! LIKE: `%` is any text, `_` one character.

use lockstep_types::Datum;

/// `value LIKE pattern`, with an escape character that takes `%`, `_` or itself literally.
///
/// NULL gives NULL, but `NULL LIKE '%'` is false, so that `NULL NOT LIKE '%'` is true.
pub fn like<'a>(value: Datum<'_>, pattern: Datum<'_>, escape: Option<char>) -> Datum<'a> {
    match (value, pattern) {
        (Datum::Text(value), Datum::Text(pattern)) => {
            let plain = !pattern.contains('_') && escape.is_none_or(|e| !pattern.contains(e));
            Datum::Bool(match plain {
                true => matches_plain(value, pattern).is_some(),
                false => matches(value, pattern, escape),
            })
        }
        (Datum::Null, Datum::Text("%")) => Datum::Bool(false),
        _ => Datum::Null,
    }
}

/// A pattern of texts between `%`: the first and last are at the ends, each other one is looked
/// for after the one before. In time linear in the lengths.
fn matches_plain(value: &str, pattern: &str) -> Option<()> {
    let mut parts = pattern.split('%');
    let mut value = value.strip_prefix(parts.next().unwrap_or_default())?;
    let Some(last) = parts.next_back() else { return value.is_empty().then_some(()) };
    value = value.strip_suffix(last)?;
    for part in parts {
        let found = value.find(part)?;
        value = &value[found + part.len()..];
    }
    Some(())
}

/// One step of a pattern.
enum Step {
    Any,
    One,
    Literal(char),
}

/// The first step of a pattern and what is after it.
fn next_step(pattern: &str, escape: Option<char>) -> Option<(Step, &str)> {
    let mut characters = pattern.chars();
    let first = characters.next()?;
    if Some(first) == escape {
        // An escape at the very end stands for itself.
        let literal = characters.next().unwrap_or(first);
        return Some((Step::Literal(literal), characters.as_str()));
    }
    let step = match first {
        '%' => Step::Any,
        '_' => Step::One,
        other => Step::Literal(other),
    };
    Some((step, characters.as_str()))
}

/// Greedy matching that goes back to the last `%` only: linear in the product of the lengths.
fn matches(value: &str, pattern: &str, escape: Option<char>) -> bool {
    let (mut value, mut pattern) = (value, pattern);
    // Where to resume: the pattern after the last `%`, and the text it has not taken yet.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        let advanced = match next_step(pattern, escape) {
            Some((Step::Any, rest)) => {
                if rest.is_empty() {
                    return true;
                }
                retry = Some((rest, value));
                pattern = rest;
                continue;
            }
            Some((Step::One, rest)) => {
                let mut characters = value.chars();
                characters.next().map(|_| (rest, characters.as_str()))
            }
            Some((Step::Literal(literal), rest)) => {
                value.strip_prefix(literal).map(|value| (rest, value))
            }
            None if value.is_empty() => return true,
            None => None,
        };
        if let Some((rest, behind)) = advanced {
            (pattern, value) = (rest, behind);
            continue;
        }
        let Some((behind_any, from)) = retry else { return false };
        let mut characters = from.chars();
        if characters.next().is_none() {
            return false;
        }
        (pattern, value) = (behind_any, characters.as_str());
        retry = Some((pattern, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_sql_says() {
        for (value, pattern, escape, expected) in [
            ("", "", None, true),
            ("", "%", None, true),
            ("a", "", None, false),
            ("Hello World", "%o%", None, true),
            ("Hello World", "_ello%", None, true),
            ("Hello World", "%World", None, true),
            ("Hello World", "%worlD", None, false),
            ("naïve ☃", "na_ve %", None, true),
            ("naïve ☃", "%☃", None, true),
            ("☃", "_", None, true),
            ("aab", "%ab", None, true),
            ("aaa", "%a%a%a%a%", None, false),
            ("abcabc", "%abc", None, true),
            ("50%", "50!%", Some('!'), true),
            ("50x", "50!%", Some('!'), false),
            ("a_b!", "a!_b!!", Some('!'), true),
            ("mississippi", "m%iss%ip%", None, true),
            ("aba", "ab%ba", None, false),
            ("abba", "ab%ba", None, true),
            ("abc", "abc", None, true),
            ("abcd", "abc", None, false),
            ("a", "%%", None, true),
        ] {
            assert_eq!(matches(value, pattern, escape), expected, "{value} LIKE {pattern}");
            let whole = like(Datum::Text(value), Datum::Text(pattern), escape);
            assert_eq!(whole, Datum::Bool(expected), "{value} LIKE {pattern}");
        }
        assert_eq!(like(Datum::Null, Datum::Text("%"), None), Datum::Bool(false));
        assert_eq!(like(Datum::Null, Datum::Text("a%"), None), Datum::Null);
        assert_eq!(like(Datum::Text("a"), Datum::Null, None), Datum::Null);
    }

    #[test]
    fn many_wildcards_stay_fast() {
        let value = "a".repeat(5_000);
        let pattern = format!("{}b", "%a".repeat(50));
        assert!(!matches(&value, &pattern, None));
    }
}
