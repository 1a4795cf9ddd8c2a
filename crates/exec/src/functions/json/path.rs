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
    /// `[-1]`: the last element, or a new one after it.
    Last,
}

/// The greatest index of a path that is set, and the most elements that one may add.
const MAX_SET_INDEX: usize = 500_000;
/// The greatest index of a path that is read.
const MAX_INDEX: usize = i32::MAX as usize;
/// The most steps of a path: as deep as a document may be.
const MAX_STEPS: usize = 256;

/// What a path is for: that decides how great an index may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// FIELD.
    Get,
    /// SET_FIELD.
    Set,
}

/// Reads a path. The empty path is the member with the empty name.
pub(super) fn parse(text: &str, purpose: Purpose) -> Result<Vec<Step>, SqlError> {
    let mut reader = Reader { bytes: text.as_bytes(), next: 0 };
    let mut steps = Vec::new();
    // Whether a point asks for a name, or the path is still at its beginning.
    let (mut wants_name, mut first) = (false, true);
    while let Some(byte) = reader.read() {
        match byte {
            b'[' => {
                if std::mem::take(&mut wants_name) {
                    steps.push(Step::Member(String::new()));
                }
                steps.push(reader.index(purpose)?);
            }
            b'.' => {
                if wants_name || first {
                    steps.push(Step::Member(String::new()));
                }
                wants_name = true;
            }
            _ => {
                steps.push(Step::Member(reader.name(byte)?));
                wants_name = false;
                if reader.peek() == Some(b'.') {
                    reader.read();
                    wants_name = true;
                }
            }
        }
        first = false;
    }
    if wants_name || first {
        steps.push(Step::Member(String::new()));
    }
    if steps.len() > MAX_STEPS {
        let message = format!("Invalid JSON path: {} steps, {MAX_STEPS} at most", steps.len());
        return Err(SqlError::argument(message));
    }
    Ok(steps)
}

/// The bytes of a path; every character that means something is ASCII.
struct Reader<'t> {
    bytes: &'t [u8],
    next: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.next).copied()
    }

    fn read(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.next += 1;
        Some(byte)
    }

    /// The error about the byte that was read last.
    fn fault(&self, what: &str) -> SqlError {
        fault(what, self.next.saturating_sub(1))
    }

    /// The index after `[`, up to its `]`.
    fn index(&mut self, purpose: Purpose) -> Result<Step, SqlError> {
        let ended = "Unexpected termination (unterminated array access)";
        let mut byte = self.read().ok_or_else(|| self.fault(ended))?;
        let negative = byte == b'-';
        if negative {
            byte = self.read().ok_or_else(|| self.fault(ended))?;
        }
        let greatest = if purpose == Purpose::Set { MAX_SET_INDEX } else { MAX_INDEX };
        let mut index = 0;
        while byte != b']' || index == 0 && !self.digit_before() {
            if !byte.is_ascii_digit() {
                return Err(self.fault("Unexpected character in array index"));
            }
            index = index * 10 + usize::from(byte - b'0');
            if index > greatest {
                return Err(self.fault(&too_great(negative, purpose)));
            }
            byte = self.read().ok_or_else(|| self.fault("Missing ']' after array index"))?;
        }
        match (negative, index) {
            (false, index) => Ok(Step::Element(index)),
            (true, 1) => Ok(Step::Last),
            (true, _) => Err(self.fault("Array index less than -1")),
        }
    }

    /// Whether a digit stands before the byte that was read last.
    fn digit_before(&self) -> bool {
        let before = self.next.checked_sub(2).and_then(|at| self.bytes.get(at));
        before.is_some_and(|byte| byte.is_ascii_digit())
    }

    /// A name that begins with `byte`, up to a point or an index. A backslash makes an ordinary
    /// character of a point, a bracket or a backslash.
    fn name(&mut self, mut byte: u8) -> Result<String, SqlError> {
        let mut name = Vec::new();
        loop {
            if byte == b'\\' {
                byte = match self.read() {
                    Some(escaped @ (b'[' | b']' | b'.' | b'\\')) => escaped,
                    _ => {
                        let what = "Unescaped backslash (double escaping required for path)";
                        return Err(self.fault(what));
                    }
                };
            }
            name.push(byte);
            match self.peek() {
                None | Some(b'.' | b'[') => break,
                Some(next) => {
                    self.next += 1;
                    byte = next;
                }
            }
        }
        Ok(String::from_utf8_lossy(&name).into_owned())
    }
}

fn too_great(negative: bool, purpose: Purpose) -> String {
    match (negative, purpose) {
        (true, _) => "Array index less than -1".to_string(),
        (false, Purpose::Set) => {
            format!("Array index greater than the maximum allowed value of {MAX_SET_INDEX}")
        }
        (false, Purpose::Get) => "Array index greater than the maximum integer value".to_string(),
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
    let mut room = MAX_SET_INDEX + 1;
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
                        "the path adds more than the maximum allowed {MAX_SET_INDEX} array elements"
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
        let long = parse(&"a.".repeat(300), Purpose::Get).expect_err("too many steps");
        assert_eq!(long.message(), "Invalid JSON path: 301 steps, 256 at most");
        let wide = parse("[300000][300000]", Purpose::Set).expect("a path");
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
            ("e[0]b", vec![member("e"), Step::Element(0), member("b")]),
            ("e[007]", vec![member("e"), Step::Element(7)]),
            ("e[2147483647]", vec![member("e"), Step::Element(2_147_483_647)]),
        ] {
            assert_eq!(parse(text, Purpose::Get).expect("a path"), expected, "{text}");
        }
        for (text, message) in [
            ("a[x]", "Unexpected character in array index [position 2]"),
            ("e[0", "Missing ']' after array index [position 2]"),
            ("e[é", "Unexpected character in array index [position 2]"),
            ("e[]", "Unexpected character in array index [position 2]"),
            ("e[", "Unexpected termination (unterminated array access) [position 1]"),
            ("e[-", "Unexpected termination (unterminated array access) [position 2]"),
            ("e[-2]", "Array index less than -1 [position 4]"),
            ("e[-0]", "Array index less than -1 [position 4]"),
            (r"a\b", "Unescaped backslash (double escaping required for path) [position 2]"),
            (
                "e[500001]",
                "Array index greater than the maximum allowed value of 500000 [position 7]",
            ),
            (
                "e[99999999999999999999]",
                "Array index greater than the maximum allowed value of 500000 [position 7]",
            ),
        ] {
            let error = parse(text, Purpose::Set).expect_err("no path");
            assert_eq!(error.message(), format!("Invalid JSON path: {message}"));
        }
    }
}
