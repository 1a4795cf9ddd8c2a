//! JSON from clients, read as leniently as VoltDB's library reads it: its tools send keys without
//! quotes and names in single ones. Every parameter of JSON goes through this parser.
//!
//! Beyond the standard it takes names and plain words without quotes, quotes of either kind, `=`
//! and `=>` for `:`, `;` for `,`, a separator after the last item, and left-out items of a list as
//! null. A key that comes twice is refused.

use serde_json::{Map, Number, Value};
use std::iter::Peekable;
use std::str::Chars;

/// Objects and lists within each other.
const MAX_DEPTH: u32 = 100;

/// Reads a text that is one object.
///
/// # Errors
/// What is wrong, and after how many characters.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    let mut reader = Reader { rest: text.chars().peekable(), taken: 0, depth: 0 };
    reader.skip_space();
    if reader.peek() != Some('{') {
        return Err(reader.problem("it does not begin with {"));
    }
    let value = reader.value()?;
    reader.skip_space();
    match (value, reader.peek()) {
        (Value::Object(object), None) => Ok(object),
        _ => Err(reader.problem("something follows the object")),
    }
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    taken: usize,
    depth: u32,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn take(&mut self) -> Option<char> {
        self.taken += 1;
        self.rest.next()
    }

    fn take_if(&mut self, wanted: &[char]) -> bool {
        let found = self.peek().is_some_and(|c| wanted.contains(&c));
        if found {
            self.take();
        }
        found
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|c| c <= ' ') {
            self.take();
        }
    }

    fn problem(&self, what: &str) -> String {
        format!("{what}, after {} characters", self.taken)
    }

    fn value(&mut self) -> Result<Value, String> {
        self.skip_space();
        match self.peek() {
            Some('{') => self.nested(Reader::members).map(Value::Object),
            Some('[') => self.nested(Reader::items).map(Value::Array),
            Some(quote @ ('"' | '\'')) => self.quoted(quote).map(Value::String),
            _ => {
                let word = self.word();
                match word.is_empty() {
                    true => Err(self.problem("a value is missing")),
                    false => Ok(meaning(word)),
                }
            }
        }
    }

    /// What stands in brackets, whose opening one is next.
    fn nested<T>(&mut self, read: fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(self.problem(&format!("more than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        self.take();
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn members(&mut self) -> Result<Map<String, Value>, String> {
        let mut members = Map::new();
        loop {
            self.skip_space();
            if self.take_if(&['}']) {
                return Ok(members);
            }
            let key = match self.peek() {
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                _ => self.word(),
            };
            self.skip_space();
            match self.take() {
                Some(':') => {}
                Some('=') => {
                    self.take_if(&['>']);
                }
                _ => return Err(self.problem(&format!("there is no : after the key '{key}'"))),
            }
            let value = self.value()?;
            if members.contains_key(&key) {
                return Err(self.problem(&format!("the key '{key}' comes twice")));
            }
            members.insert(key, value);
            self.skip_space();
            if !self.take_if(&[',', ';']) && self.peek() != Some('}') {
                return Err(self.problem("there is no , or } after a value"));
            }
        }
    }

    fn items(&mut self) -> Result<Vec<Value>, String> {
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.take_if(&[']']) {
                return Ok(items);
            }
            if self.take_if(&[',', ';']) {
                items.push(Value::Null);
                continue;
            }
            items.push(self.value()?);
            self.skip_space();
            if !self.take_if(&[',', ';']) && self.peek() != Some(']') {
                return Err(self.problem("there is no , or ] after a value"));
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                None | Some('\n' | '\r' | '\0') => {
                    return Err(self.problem("a text has no closing quote"));
                }
                Some(c) if c == quote => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        match self.take() {
            Some('b') => Ok('\u{8}'),
            Some('t') => Ok('\t'),
            Some('n') => Ok('\n'),
            Some('f') => Ok('\u{c}'),
            Some('r') => Ok('\r'),
            Some('u') => self.code_point(),
            Some(c @ ('"' | '\'' | '\\' | '/')) => Ok(c),
            _ => Err(self.problem("an escape is unknown")),
        }
    }

    /// What follows `\u`: four digits, or two such escapes for one character.
    fn code_point(&mut self) -> Result<char, String> {
        let high = self.unit()?;
        let code = match high {
            0xd800..=0xdbff => {
                let is_pair = self.take() == Some('\\') && self.take() == Some('u');
                let low = if is_pair { self.unit()? } else { 0 };
                match low {
                    0xdc00..=0xdfff => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                    _ => high,
                }
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| self.problem("an escape is half a character"))
    }

    fn unit(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.take().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.problem("an escape needs four digits"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    /// A word without quotes, without space at its ends.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            if c < ' ' || ",:]}/\\\"[{;=#".contains(c) {
                break;
            }
            word.push(c);
            self.take();
        }
        word.trim().to_string()
    }
}

/// A word as a constant or a number, else as the text that it is.
fn meaning(word: String) -> Value {
    for (name, value) in
        [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
    {
        if word.eq_ignore_ascii_case(name) {
            return value;
        }
    }
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let unsigned = word.strip_prefix('+').unwrap_or(&word);
    let number = match unsigned.parse::<i64>() {
        Ok(integer) => Some(Number::from(integer)),
        Err(_) => unsigned.parse::<f64>().ok().and_then(Number::from_f64),
    };
    match number.filter(|_| is_number) {
        Some(number) => Value::Number(number),
        None => Value::String(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn assert_read(text: &str, expected: Value) {
        assert_eq!(object(text).map(Value::Object), Ok(expected), "{text}");
    }

    #[test]
    fn standard_json_is_read_as_it_is() {
        for text in [
            "{}",
            r#"{"a": 1, "b": [true, false, null, -2.5e3], "c": {"d": "x"}}"#,
            r#"{"text": "\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00", "": []}"#,
            r#"{"big": 9223372036854775807, "least": -9223372036854775808, "e": 1E2}"#,
        ] {
            assert_read(text, serde_json::from_str(text).expect("standard"));
        }
    }

    #[test]
    fn names_need_no_quotes_and_quotes_may_be_single() {
        assert_read(
            r#"{uripath:"file:///a%20b",nonce:"N\"x",block:false,format:"native"}"#,
            json!({"uripath": "file:///a%20b", "nonce": "N\"x", "block": false,
                   "format": "native"}),
        );
        assert_read(
            "{path:\"/p\",hashinator:\"false\",tables: ['A', 'B c']}",
            json!({"path": "/p", "hashinator": "false", "tables": ["A", "B c"]}),
        );
        assert_read("{a = TRUE; b => Null, c : some words ,}", {
            json!({"a": true, "b": null, "c": "some words"})
        });
        assert_read("{a:[1,,x,],b:+5,c:.5,d:12x}", {
            json!({"a": [1, null, "x"], "b": 5, "c": 0.5, "d": "12x"})
        });
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for (text, problem) in [
            ("", "does not begin with {, after 0"),
            ("[1]", "does not begin with {"),
            ("{", "there is no : after the key ''"),
            ("{a}", "there is no : after the key 'a', after 3"),
            ("{a:}", "a value is missing"),
            ("{a:1 b:2}", "there is no , or } after a value"),
            ("{a:[1}", "there is no , or ] after a value"),
            ("{a:'x}", "no closing quote"),
            ("{a:'\\x'}", "escape is unknown"),
            ("{a:'\\u12'}", "needs four digits"),
            ("{a:'\\ud800'}", "half a character"),
            ("{a:1,a:2}", "the key 'a' comes twice"),
            ("{a:1} x", "something follows the object"),
        ] {
            let error = object(text).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
        let deep = "{a:".repeat(200);
        assert!(object(&deep).expect_err("deep").contains("more than 100 levels"));
    }
}
