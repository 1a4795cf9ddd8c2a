//! JSON as a tree. Members come out in the order of their names, the last of equal ones counts,
//! what follows the first value is ignored: so VoltDB's applications know it.

use std::collections::BTreeMap;
use std::fmt;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Document {
    Null,
    Bool(bool),
    /// An integer of 64 bits, signed or not.
    Integer(i128),
    Float(f64),
    Text(String),
    Array(Vec<Document>),
    Object(BTreeMap<String, Document>),
}

/// Arrays and objects in each other at most.
const MAX_DEPTH: usize = 256;

const VALUE: &str = "Syntax error: value, object or array expected.";

/// Where and why a text is no JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    column: usize,
    what: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line {}, Column {}\n  {}", self.line, self.column, self.what)
    }
}

impl Document {
    /// Reads the value at the beginning of a text.
    pub(super) fn parse(text: &str) -> Result<Document, Fault> {
        let mut reader = Reader { text, position: 0, depth: 0 };
        reader.value().map_err(|(position, what)| {
            let before = &text[..position];
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            Fault {
                line: before.matches('\n').count() + 1,
                column: position - line_start + 1,
                what,
            }
        })
    }

    /// Appends the value without blanks.
    pub(super) fn write(&self, text: &mut String) {
        match self {
            Document::Null => text.push_str("null"),
            Document::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Document::Integer(value) => text.push_str(&value.to_string()),
            Document::Float(value) => text.push_str(&float_text(*value)),
            Document::Text(value) => write_text(value, text),
            Document::Array(elements) => {
                text.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    element.write(text);
                }
                text.push(']');
            }
            Document::Object(members) => {
                text.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write_text(name, text);
                    text.push(':');
                    member.write(text);
                }
                text.push('}');
            }
        }
    }
}

/// A double with a point, or with an exponent when it is very large or small.
fn float_text(value: f64) -> String {
    if value != 0.0 && !(1.0e-4..1.0e16).contains(&value.abs()) {
        let text = format!("{value:e}");
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text.replace('e', "e+"),
        };
    }
    format!("{value:?}")
}

fn write_text(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                text.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

struct Reader<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
}

/// A value, or the offset and reason of the first fault.
type Read<T> = Result<T, (usize, &'static str)>;

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    /// Skips blanks and comments, then peeks.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = self.rest();
            let skipped = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.position += skipped;
            let rest = self.rest();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |at| at + 2)
            } else {
                return rest.bytes().next();
            };
            self.position += comment;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn fail<T>(&self, what: &'static str) -> Read<T> {
        Err((self.position, what))
    }

    fn value(&mut self) -> Read<Document> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Document::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in [
                    ("null", Document::Null),
                    ("true", Document::Bool(true)),
                    ("false", Document::Bool(false)),
                ] {
                    if self.rest().starts_with(word) {
                        self.position += word.len();
                        return Ok(value);
                    }
                }
                self.fail(VALUE)
            }
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Document>) -> Read<Document> {
        if self.depth == MAX_DEPTH {
            return self.fail("Syntax error: arrays and objects are nested deeper than 256.");
        }
        self.depth += 1;
        self.position += 1;
        let document = read(self)?;
        self.depth -= 1;
        Ok(document)
    }

    fn object(&mut self) -> Read<Document> {
        let mut members = BTreeMap::new();
        if self.eat(b'}') {
            return Ok(Document::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("Missing '}' or object member name");
            }
            let name = self.string()?;
            if !self.eat(b':') {
                return self.fail("Missing ':' after object member name");
            }
            let member = self.value()?;
            members.insert(name, member);
            if self.eat(b'}') {
                return Ok(Document::Object(members));
            }
            if !self.eat(b',') {
                return self.fail("Missing ',' or '}' in object declaration");
            }
        }
    }

    fn array(&mut self) -> Read<Document> {
        let mut elements = Vec::new();
        if self.eat(b']') {
            return Ok(Document::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if self.eat(b']') {
                return Ok(Document::Array(elements));
            }
            if !self.eat(b',') {
                return self.fail("Missing ',' or ']' in array declaration");
            }
        }
    }

    fn number(&mut self) -> Read<Document> {
        let numeric = |b: &u8| b.is_ascii_digit() || b".eE+-".contains(b);
        let length = self.rest().bytes().take_while(numeric).count();
        let text = &self.rest()[..length];
        let document = match text.parse::<i128>() {
            Ok(value) if i64::try_from(value).is_ok() || u64::try_from(value).is_ok() => {
                Document::Integer(value)
            }
            _ => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Document::Float(value),
                _ => return self.fail("Syntax error: this is not a number."),
            },
        };
        self.position += length;
        Ok(document)
    }

    fn string(&mut self) -> Read<String> {
        let start = self.position;
        self.position += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let Some(plain) = rest.find(['"', '\\']) else { return Err((start, VALUE)) };
            text.push_str(&rest[..plain]);
            self.position += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(text);
            }
            text.push(self.escaped()?);
        }
    }

    /// The character after a backslash.
    fn escaped(&mut self) -> Read<char> {
        let Some(kind) = self.rest().chars().next() else {
            return self.fail("Empty escape sequence in string");
        };
        let character = match kind {
            '"' | '\\' | '/' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return self.fail("Bad escape sequence in string"),
        };
        self.position += 1;
        Ok(character)
    }

    /// `uXXXX`, or two of them for characters beyond 16 bits; half of a pair is replaced.
    fn unicode(&mut self) -> Read<char> {
        let unit = |rest: &str| {
            let digits = rest.strip_prefix('u')?.get(..4)?;
            let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
            all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let Some(first) = unit(self.rest()) else {
            return self.fail("Bad unicode escape sequence in string: four digits expected.");
        };
        self.position += 5;
        let second = self.rest().strip_prefix('\\').and_then(unit);
        let pair = match (first, second) {
            (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
                self.position += 6;
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            _ => first,
        };
        Ok(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        match Document::parse(text) {
            Ok(document) => {
                let mut text = String::new();
                document.write(&mut text);
                text
            }
            Err(fault) => fault.to_string().replace("\n  ", " "),
        }
    }

    #[test]
    fn documents_are_read_and_written() {
        for (text, expected) in [
            (r#"{"b":1,"a":[1,2,{"x":null}],"b":2}"#, r#"{"a":[1,2,{"x":null}],"b":2}"#),
            (" { \"a\" : [ ] } x", r#"{"a":[]}"#),
            ("[1e3, -1.5e10, 0.1, 1e300, 2.5e-7]", "[1000.0,-15000000000.0,0.1,1e+300,2.5e-07]"),
            ("[12345678901234567890, -0, 1e5]", "[12345678901234567890,0,100000.0]"),
            (r#""\u00e9\ud83d\ude00\n\"\ud83d""#, "\"é😀\\n\\\"\u{fffd}\""),
            ("/* c */ true // d", "true"),
            ("", "Line 1, Column 1 Syntax error: value, object or array expected."),
            ("{\"a\":", "Line 1, Column 6 Syntax error: value, object or array expected."),
            ("{'a':1}", "Line 1, Column 2 Missing '}' or object member name"),
            ("{\n\"a\" 1}", "Line 2, Column 5 Missing ':' after object member name"),
            ("[1 2]", "Line 1, Column 4 Missing ',' or ']' in array declaration"),
            ("\"open", "Line 1, Column 1 Syntax error: value, object or array expected."),
            ("\"\\q\"", "Line 1, Column 3 Bad escape sequence in string"),
        ] {
            assert_eq!(again(text), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(again(&deep).contains("nested deeper"));
    }

    #[test]
    fn cut_documents_are_errors_or_values() {
        let text = r#"{"a":[1,{"b":"x\u00e9\ud83d\ude00"}],"c":-1.5e3,"d":null} "#;
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = Document::parse(&text[..end]);
        }
    }
}
