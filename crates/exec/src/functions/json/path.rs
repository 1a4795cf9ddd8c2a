//! Paths into JSON: `a.b[0].c`, a backslash takes the next character literally.

use super::document::Document;
use crate::error::SqlError;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A member of an object.
    Member(String),
    /// An element of an array, from 0.
    Element(usize),
    /// `[-1]`: the last element, or a new one behind it.
    Last,
}

/// The greatest index, as in VoltDB, and the most elements that one path may add.
const MAX_INDEX: usize = 500_000;
/// The most steps of a path: as deep as a document may be.
const MAX_STEPS: usize = 256;

/// Reads a path. The empty path is the member with the empty name.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, SqlError> {
    let mut steps = Vec::new();
    let mut characters = text.char_indices().peekable();
    let mut name = String::new();
    // An index may follow a name, another index or nothing; a name follows a point.
    let mut in_name = true;
    let mut named = false;
    while let Some((position, character)) = characters.next() {
        match character {
            '.' => {
                if in_name {
                    steps.push(Step::Member(std::mem::take(&mut name)));
                }
                (in_name, named) = (true, true);
            }
            '[' => {
                if in_name && (!name.is_empty() || named) {
                    steps.push(Step::Member(std::mem::take(&mut name)));
                }
                in_name = false;
                let end = text[position..].find(']').map(|length| position + length);
                steps.push(index(text, position + 1, end)?);
                while characters.next_if(|(at, _)| end.is_some_and(|end| *at <= end)).is_some() {}
            }
            _ if !in_name => {
                return Err(fault("Unexpected character after array index", position));
            }
            '\\' => name.push(characters.next().map_or('\\', |(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    if in_name {
        steps.push(Step::Member(name));
    }
    if steps.len() > MAX_STEPS {
        let message = format!("Invalid JSON path: {} steps, {MAX_STEPS} at most", steps.len());
        return Err(SqlError::argument(message));
    }
    Ok(steps)
}

/// The index between `start` and `end`, where its bracket closes.
fn index(text: &str, start: usize, end: Option<usize>) -> Result<Step, SqlError> {
    let digits = &text[start..end.unwrap_or(text.len())];
    if digits == "-1" && end.is_some() {
        return Ok(Step::Last);
    }
    if let Some(bad) = digits.find(|c: char| !c.is_ascii_digit()) {
        return Err(fault("Unexpected character in array index", start + bad));
    }
    if end.is_none() {
        return Err(fault("Missing ']' after array index", text.len() - 1));
    }
    match digits.parse::<usize>() {
        Ok(index) if index <= MAX_INDEX => Ok(Step::Element(index)),
        Ok(_) => {
            let what = format!("Array index greater than the maximum allowed value of {MAX_INDEX}");
            Err(fault(&what, start))
        }
        Err(_) => Err(fault("Missing array index", start)),
    }
}

#[cold]
fn fault(what: &str, position: usize) -> SqlError {
    SqlError::argument(format!("Invalid JSON path: {what} [position {position}]"))
}

/// What a path leads to.
pub(super) fn get<'d>(document: &'d Document, path: &[Step]) -> Option<&'d Document> {
    path.iter().try_fold(document, |document, step| match (document, step) {
        (Document::Object(members), Step::Member(name)) => members.get(name),
        (Document::Array(elements), Step::Element(index)) => elements.get(*index),
        (Document::Array(elements), Step::Last) => elements.last(),
        _ => None,
    })
}

/// Puts a value where a path leads, making objects and arrays out of nulls on the way. Nothing
/// changes where the path goes through any other value.
///
/// # Errors
/// A path that would add more elements than fit a value.
pub(super) fn set(document: &mut Document, path: &[Step], value: Document) -> Result<(), SqlError> {
    let mut place = document;
    let mut room = MAX_INDEX + 1;
    for step in path {
        if matches!(place, Document::Null) {
            *place = match step {
                Step::Member(_) => Document::Object(Default::default()),
                Step::Element(_) | Step::Last => Document::Array(Vec::new()),
            };
        }
        place = match (place, step) {
            (Document::Object(members), Step::Member(name)) => {
                members.entry(name.clone()).or_insert(Document::Null)
            }
            (Document::Array(elements), Step::Element(_) | Step::Last) => {
                let index = match step {
                    Step::Element(index) => *index,
                    _ => elements.len(),
                };
                let missing = (index + 1).saturating_sub(elements.len());
                room = room.checked_sub(missing).ok_or_else(|| {
                    SqlError::out_of_range(format!(
                        "the path adds more than the maximum allowed {MAX_INDEX} array elements"
                    ))
                })?;
                elements.resize(elements.len() + missing, Document::Null);
                &mut elements[index]
            }
            _ => return Ok(()),
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_limits() {
        let long = parse(&"a.".repeat(300)).expect_err("too many steps");
        assert_eq!(long.message(), "Invalid JSON path: 301 steps, 256 at most");
        let wide = parse("[300000][300000]").expect("a path");
        let mut document = Document::Null;
        assert!(set(&mut document, &wide, Document::Null).is_err());
    }

    #[test]
    fn paths_are_read() {
        let member = |name: &str| Step::Member(name.to_string());
        for (text, expected) in [
            ("", vec![member("")]),
            ("a", vec![member("a")]),
            (".a", vec![member(""), member("a")]),
            ("a.", vec![member("a"), member("")]),
            ("[0]", vec![Step::Element(0)]),
            (".[0]", vec![member(""), member(""), Step::Element(0)]),
            ("a[0][12].b", vec![member("a"), Step::Element(0), Step::Element(12), member("b")]),
            ("a[-1]", vec![member("a"), Step::Last]),
            (r"a\.b\[0]", vec![member("a.b[0]")]),
            ("e]", vec![member("e]")]),
        ] {
            assert_eq!(parse(text).expect("a path"), expected, "{text}");
        }
        for (text, message) in [
            ("a[x]", "Unexpected character in array index [position 2]"),
            ("e[0", "Missing ']' after array index [position 2]"),
            ("e[é", "Unexpected character in array index [position 2]"),
            ("e[]", "Missing array index [position 2]"),
            ("e[0]b", "Unexpected character after array index [position 4]"),
            ("e[99999999999999999999]", "Missing array index [position 2]"),
        ] {
            let error = parse(text).expect_err("no path");
            assert_eq!(error.message(), format!("Invalid JSON path: {message}"));
        }
    }
}
